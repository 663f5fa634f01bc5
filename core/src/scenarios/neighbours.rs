//! Pods that keep others away, or want them near.

use fluxqueue_workload::constraints::HostPort;

use super::*;

fn with_port(mut pod: Pod) -> Pod {
    let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 };
    let constraints = Constraints { host_ports: vec![port], ..pod.shape.constraints.clone() };
    pod.shape = Arc::new(Shape { constraints, ..Shape::clone(&pod.shape) });
    pod
}

#[test]
fn a_node_that_is_closed_for_two_reasons_is_counted_for_the_first() {
    let mut world = World::new(&[("a", 8), ("b", 8)]);
    world.submit(with_port(Pod { node: Some("a".into()), scheduler: "other".into(), ..pod("theirs", 1) }));
    world.tell(Event::Node(Arc::new(Node { unschedulable: true, ..Node::clone(&node("a", 8)) })));
    world.tell(Event::Node(Arc::new(Node { unschedulable: true, ..Node::clone(&node("b", 8)) })));
    world.submit(with_port(pod("ours", 1)));
    world.settle();
    assert_eq!(world.blocked("ours").1, "0/2 nodes are available: 2 node(s) were unschedulable.");
}
