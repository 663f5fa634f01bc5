//! Gangs of several kinds of pods, each with its own nodes and ports: one question to the graph.

use fluxqueue_workload::constraints::{
    Constraints, Disk, HostPort, NamespaceScope, NodeSelectorTerm, Operator, PodSelector, PodTerm,
    Requirement,
};

use super::*;

/// A pod of a gang that may run on these nodes only.
fn on(pod: Pod, nodes: &[&str]) -> Pod {
    let field =
        Requirement { key: Arc::from("metadata.name"), operator: Operator::In, values: Vec::new() };
    // One field selects one name; several are terms of their own.
    let terms = nodes.iter().map(|name| NodeSelectorTerm {
        labels: Vec::new(),
        fields: vec![Requirement { values: vec![Arc::from(*name)], ..field.clone() }],
    });
    constrained(pod, |constraints| constraints.required = Some(terms.collect()))
}

fn constrained(mut pod: Pod, change: impl FnOnce(&mut Constraints)) -> Pod {
    let mut shape = Shape::clone(&pod.shape);
    change(&mut shape.constraints);
    pod.shape = Arc::new(shape);
    pod
}

fn with_port(pod: Pod, port: u16) -> Pod {
    let port = HostPort { ip: Arc::from("0.0.0.0"), protocol: Arc::from("TCP"), port };
    constrained(pod, |constraints| constraints.host_ports = vec![port])
}

fn with_disk(pod: Pod, name: &str, read_only: bool) -> Pod {
    constrained(pod, |constraints| {
        constraints.disks = vec![Disk::Gce { name: Arc::from(name), read_only }];
    })
}

fn gang(world: &mut World, pods: Vec<Pod>) {
    let size = u32::try_from(pods.len()).expect("a few");
    for pod in pods {
        world.submit(of_group(pod, "gang", Ok(size)));
    }
    world.settle();
}

#[test]
fn roles_with_other_nodes_are_placed_together() {
    let mut world = World::new(&[("n0", 1), ("n1", 1), ("n2", 1), ("n3", 1)]);
    let pods = ["a0", "a1"].map(|name| on(pod(name, 1), &["n0", "n1", "n2"]));
    let others = ["b0", "b1"].map(|name| on(pod(name, 1), &["n0", "n1", "n3"]));
    gang(&mut world, pods.into_iter().chain(others).collect());
    assert_eq!(world.bound(), 4, "{:?}", world.bindings);
}

#[test]
fn roles_with_the_same_host_port_get_nodes_of_their_own() {
    let mut world = World::new(&[("n0", 8), ("n1", 8), ("n2", 8)]);
    let pods = vec![
        with_port(on(pod("a", 1), &["n0", "n1"]), 80),
        with_port(on(pod("b", 1), &["n0", "n2"]), 80),
    ];
    gang(&mut world, pods);
    assert_eq!(world.bound(), 2, "{:?}", world.bindings);
    assert_ne!(world.node_of("a"), world.node_of("b"));
}

#[test]
fn pods_that_write_one_disk_get_nodes_of_their_own() {
    let mut world = World::new(&[("n0", 8), ("n1", 8)]);
    let writes =
        |name| Pod { lifetime: Lifetime::Endless, ..with_disk(pod(name, 1), "data", false) };
    gang(&mut world, ["a", "b"].map(writes).into());
    assert_eq!(world.bound(), 2, "{:?}", world.bindings);
    assert_ne!(world.node_of("a"), world.node_of("b"));
    // Both nodes have the disk in use, and a pod that only reads would meet the ones that write.
    world.submit(with_disk(pod("late", 1), "data", true));
    world.submit(with_disk(pod("other", 1), "other", false));
    world.settle();
    assert_eq!((world.node_of("late"), world.node_of("other").is_some()), (None, true));
    assert!(
        world.blocked("late").1.contains("2 node(s) had no available disk"),
        "{:?}",
        world.blocked("late")
    );
    world.delete("b");
    world.settle();
    assert!(world.node_of("late").is_some(), "its end is an event for who waits for the disk");
}

#[test]
fn pods_that_only_read_a_disk_share_a_node() {
    let mut world = World::new(&[("n0", 8)]);
    gang(&mut world, ["a", "b"].map(|name| with_disk(pod(name, 1), "data", true)).into());
    assert_eq!(world.bound(), 2, "{:?}", world.bindings);
}

#[test]
fn roles_that_cannot_fit_together_are_unsatisfiable_at_once() {
    let mut world = World::new(&[("n0", 1), ("n1", 1), ("n2", 4)]);
    let pods = ["a", "b", "c"].map(|name| {
        let mut pod = on(pod(name, 1), &["n0", "n1"]);
        // Kinds of their own, all for the same two nodes.
        pod.lifetime = Lifetime::Seconds(60 + u64::from(name.as_bytes()[0]));
        pod
    });
    gang(&mut world, pods.into());
    assert_eq!((world.bound(), world.state("gang")), (0, Some(JobState::Unsatisfiable)));
    assert_eq!(world.blocked("gang").0, "Unsatisfiable");
    world.submit(on(pod("later", 1), &["n0"]));
    world.settle();
    assert_eq!(world.node_of("later"), Some("n0"), "nothing is held for what never fits");
}

#[test]
fn each_kind_of_a_gang_is_booked_for_as_long_as_it_runs() {
    let mut world = World::new(&[("n0", 1), ("n1", 1)]);
    let (mut short, mut long) = (on(pod("short", 1), &["n0", "n1"]), on(pod("long", 1), &["n0"]));
    (short.lifetime, long.lifetime) = (Lifetime::Seconds(50), Lifetime::Endless);
    gang(&mut world, vec![short, long]);
    assert_eq!((world.node_of("short"), world.node_of("long")), (Some("n1"), Some("n0")));
    world.submit(on(pod("waits", 1), &["n1"]));
    world.submit(on(pod("blocked", 1), &["n0"]));
    world.settle();
    assert!(!world.blocked("waits").1.contains("no end"), "{:?}", world.blocked("waits"));
    assert!(world.blocked("blocked").1.contains("no end"), "{:?}", world.blocked("blocked"));
}

#[test]
fn gangs_of_which_other_members_are_repelled_are_told_apart() {
    let mut world = World::new(&[]);
    for name in ["a", "b"] {
        let mut node = Node::clone(&node(name, 1));
        node.labels = vec![(Arc::from("host"), Arc::from(name))];
        world.tell(Event::Node(Arc::new(node)));
    }
    let app =
        Requirement { key: Arc::from("app"), operator: Operator::In, values: vec![Arc::from("x")] };
    let everywhere = NamespaceScope { named: vec![], selected: Some(vec![]) };
    let pods = PodSelector { namespaces: everywhere, labels: Some(vec![app]) };
    let apart = PodTerm { pods, topology_key: Arc::from("host") };
    // It takes next to nothing of node a, and keeps pods with the label off for ever.
    let mut theirs = constrained(pod("theirs", 0), |constraints| constraints.repels = vec![apart]);
    (theirs.scheduler, theirs.node) = (Arc::from("default-scheduler"), Some("a".into()));
    theirs.lifetime = Lifetime::Endless;
    world.submit(theirs);
    let shape = Arc::clone(&pod("any", 1).shape);
    let labelled: fluxqueue_workload::metadata::Labels =
        Arc::from([(Arc::from("app"), Arc::from("x"))]);
    let member = |name: &str, group: &str, is_labelled: bool| {
        let mut member = of_group(pod(name, 1), group, Ok(2));
        member.shape = Arc::clone(&shape);
        if is_labelled {
            member.labels = Arc::clone(&labelled);
        }
        member
    };
    for (name, is_labelled) in [("y0", true), ("y1", true)] {
        world.submit(member(name, "both", is_labelled));
    }
    world.settle();
    assert_eq!(world.node_of("y0"), None, "node b alone is too small for two");
    for (name, is_labelled) in [("x0", true), ("x1", false)] {
        world.submit(member(name, "one", is_labelled));
    }
    world.settle();
    assert_eq!(
        (world.node_of("x0"), world.node_of("x1")),
        (Some("b"), Some("a")),
        "{:?}",
        world.blocked("one")
    );
}
