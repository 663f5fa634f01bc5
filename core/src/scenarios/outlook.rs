//! The outlook for users: the used, promised and held amounts of each node.

use super::*;
use crate::QueuePolicy;
use crate::scenarios::promises::waiting_gang;

#[test]
fn a_node_says_what_is_used_of_it_and_from_when_on_it_is_promised() {
    // A pod takes the first node until 2100, and a gang waits for both.
    let mut world = waiting_gang(QueuePolicy::Easy);
    let of = |world: &World, name: &str| {
        let outlook = world.core.outlook();
        let node = outlook.nodes.into_iter().find(|node| &*node.name == name);
        let node = node.expect("it is there");
        let second = |time: Option<Time>| time.map(Time::seconds);
        (node.used.get("cpu"), second(node.promised_from), node.is_held, second(node.last_end))
    };
    assert_eq!(of(&world, "n1"), (4000, Some(2100), false, Some(2100)));
    assert_eq!(of(&world, "n2"), (0, Some(2100), false, None));
    let load = |world: &World| {
        let queues = world.core.outlook().queues;
        queues.iter().map(|it| (it.queue.to_string(), it.waiting, it.running)).collect::<Vec<_>>()
    };
    assert_eq!(load(&world), [("default".to_owned(), 1, 1)]);

    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(of(&world, "n2"), (4000, None, false, Some(2060)));
    assert_eq!(load(&world), [("default".to_owned(), 0, 1)]);
}

#[test]
fn a_node_that_a_job_has_alone_says_so() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.submit(Pod { exclusive: Some(true), ..pod("p", 1) });
    world.settle();
    let alone = |world: &World| {
        let nodes = world.core.outlook().nodes;
        nodes.iter().filter(|it| it.is_alone).map(|it| it.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(alone(&world), ["a"]);
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(alone(&world), [""; 0]);
}

#[test]
fn a_node_that_takes_no_pods_says_so() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    let cordoned = Node { unschedulable: true, ..Node::clone(&node("b", 4)) };
    world.tell(Event::Node(Arc::new(cordoned)));
    world.settle();
    let outlook = world.core.outlook();
    let takes: Vec<_> = outlook.nodes.iter().map(|it| (&*it.name, it.is_schedulable)).collect();
    assert_eq!(takes, [("a", true), ("b", false)]);
    assert!(outlook.as_of.is_some() && outlook.nodes.iter().all(|it| it.is_ready));
}
