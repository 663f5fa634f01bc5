//! Pods that ask for devices by the name of an extended resource.

use fluxqueue_workload::device_class::DeviceClass;

use super::*;

const GPU: &str = "example.com/gpu";

fn class(name: &str) -> Arc<DeviceClass> {
    let extended_resource = Some(Arc::from(GPU));
    Arc::new(DeviceClass { name: Arc::from(name), uid: Uid::from(name), extended_resource })
}

fn wants_gpu(name: &str) -> Pod {
    let mut pod = pod(name, 1);
    let mut shape = Shape::clone(&pod.shape);
    shape.requests.set(GPU, 1);
    pod.shape = Arc::new(shape);
    pod
}

fn gpu_node(name: &str) -> Node {
    let mut node = Node::clone(&node(name, 4));
    node.allocatable.set(GPU, 1);
    node
}

fn refusal(world: &World, workload: &str) -> Option<String> {
    let (reason, message) = world.blocked(workload);
    (reason == "UnsupportedConstraint").then_some(message)
}

#[test]
fn what_no_node_has_and_a_class_stands_behind_is_refused_and_names_the_class() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(wants_gpu("p"));
    world.submit(pod("other", 1));
    world.settle();
    assert_eq!(world.blocked("p").0, "Unsatisfiable", "a node may come");
    world.tell(Event::DeviceClass(class("gpus")));
    world.settle();
    let said = refusal(&world, "p").expect("it is refused");
    assert!(said.starts_with(
        "pod ns/p: spec.containers[*].resources.requests[example.com/gpu]: no node that the pod"
    ));
    assert!(said.contains("DeviceClass \"gpus\""), "{said}");
    assert_eq!(world.state("p"), Some(JobState::Refused));
    // The condition said something else just now.
    world.pass_seconds(60);
    world.settle();
    assert_eq!(world.conditions["p"].reason, "SchedulerError");
    // Without the class it is as before.
    world.tell(Event::DeviceClassGone(Arc::from("gpus")));
    world.settle();
    assert_eq!(world.blocked("p").0, "Unsatisfiable");
    assert_eq!(world.node_of("other"), Some("a"), "it asks for none");
}

#[test]
fn what_a_node_has_counts_as_ever() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::DeviceClass(class("gpus")));
    world.submit(wants_gpu("p"));
    world.settle();
    assert!(refusal(&world, "p").is_some());
    // A node comes that has it, but is closed to the pod; then it opens.
    let closed = Node { unschedulable: true, ..gpu_node("b") };
    world.tell(Event::Node(Arc::new(closed)));
    world.settle();
    assert!(refusal(&world, "p").is_some());
    world.tell(Event::Node(Arc::new(Node { unschedulable: false, ..gpu_node("b") })));
    world.settle();
    assert_eq!(world.node_of("p"), Some("b"));
    // The next one waits for the first, as for any resource.
    world.submit(wants_gpu("q"));
    world.settle();
    assert_eq!((refusal(&world, "q"), world.state("q")), (None, Some(JobState::Pending)));
    world.tell(Event::NodeGone("b".into(), "uid-b".into()));
    world.settle();
    assert!(refusal(&world, "q").is_some(), "now no node has it");
}

#[test]
fn a_class_of_another_resource_refuses_nothing() {
    let mut world = World::new(&[("a", 4)]);
    let other = DeviceClass { extended_resource: None, ..DeviceClass::clone(&class("gpus")) };
    world.tell(Event::DeviceClass(Arc::new(other)));
    world.submit(wants_gpu("p"));
    world.settle();
    assert_eq!(refusal(&world, "p"), None);
    // The class changes.
    world.tell(Event::DeviceClass(class("gpus")));
    world.settle();
    assert!(refusal(&world, "p").is_some());
}
