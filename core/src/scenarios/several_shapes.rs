//! Gangs of several kinds of pods: the reports about them, and their places under one rule.

use fluxqueue_api::BlockedReason::NoRoomInLevel;
use fluxqueue_workload::constraints::{Constraints, NodeSelectorTerm, Operator, Requirement};

use super::topology::*;
use super::*;

/// A pod that may use the nodes of one rack only.
fn only_in(rack: &str, pod: Pod) -> Pod {
    let rack = Requirement { key: RACK.into(), operator: Operator::In, values: vec![rack.into()] };
    let term = NodeSelectorTerm { labels: vec![rack], fields: Vec::new() };
    let constraints = Constraints { required: Some(vec![term]), ..Constraints::default() };
    Pod { shape: Arc::new(Shape { requests: pod.shape.requests.clone(), constraints }), ..pod }
}

/// A gang of bare pods.
fn gang(world: &mut World, name: &str, pods: impl IntoIterator<Item = Pod>) {
    let pods: Vec<Pod> = pods.into_iter().collect();
    let size = u32::try_from(pods.len()).unwrap();
    for pod in pods {
        world.submit(of_group(pod, name, Ok(size)));
    }
    world.settle();
}

#[test]
fn a_node_is_counted_once_for_a_reason_however_many_shapes_find_it_closed() {
    let mut world = racks(settings());
    world.tell(Event::Node(Arc::new(Node { unschedulable: true, ..Node::clone(&node("c2", 2)) })));
    // Of different shapes, and for different times.
    let lasts = |pod, seconds| Pod { lifetime: Lifetime::Seconds(seconds), ..pod };
    gang(
        &mut world,
        "g",
        [lasts(pod("p0", 3), 10), lasts(pod("p1", 4), 10), lasts(pod("p2", 5), 20)],
    );
    let (_, message) = world.blocked("g");
    let counts = "0/7 nodes are available: 1 node(s) were unschedulable, 6 Insufficient cpu.";
    let (said, rest) = message.split_once(". ").expect("more is said");
    assert!(format!("{said}.") == counts, "{message}");
    assert!(
        rest.starts_with(
            "3 pods start together and ask for 12 cpu, 12 in all on the nodes they may use, \
             in parts too small for all of them."
        ),
        "{rest}"
    );
}

#[test]
fn a_node_that_another_pod_of_the_gang_may_use_does_not_count_as_closed() {
    let mut world = racks(settings());
    fill(&mut world, &["b1", "b2"]);
    gang(
        &mut world,
        "g",
        [only_in("a", pod("l", 1)), only_in("b", pod("w0", 2)), only_in("b", pod("w1", 2))],
    );
    let (_, message) = world.blocked("g");
    let text = "0/7 nodes are available: 2 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector. \
                2 of the 3 pods that start together ask for 4 cpu, 2 free on the nodes they may use.";
    assert!(message.starts_with(text), "{message}");
}

#[test]
fn where_a_pod_of_a_gang_may_use_no_node_the_text_is_about_that_pod() {
    let mut world = racks(settings());
    fill(&mut world, &["b1", "b2"]);
    gang(
        &mut world,
        "g",
        [only_in("x", pod("l", 1)), only_in("b", pod("w0", 2)), only_in("b", pod("w1", 2))],
    );
    let (_, message) = world.blocked("g");
    let text = "0/7 nodes are available: 7 node(s) didn't match Pod's node affinity/selector. None is open to pod l; other pods that \
                start with it may use some.";
    assert!(message.starts_with(text), "{message}");
}

/// A launcher of one core, and this number of workers that take a node each, all in one rack.
fn launcher_and_workers(world: &mut World, name: &str, workers: u32) {
    let lasting = |pod| Pod { lifetime: Lifetime::Seconds(50), ..in_one("rack", pod) };
    let launcher = lasting(pod(&format!("{name}-l"), 1));
    let workers = (0..workers).map(|at| lasting(pod(&format!("{name}-w{at}"), 2)));
    gang(world, name, std::iter::once(launcher).chain(workers));
}

#[test]
fn where_each_shape_fits_in_a_rack_and_all_together_do_not_this_is_said() {
    let mut world = racks(CoreSettings { queue_policy: crate::QueuePolicy::Easy, ..settings() });
    launcher_and_workers(&mut world, "g", 3);
    let (reason, message) = world.blocked("g");
    let text = "No rack would have room for 4 pods: the largest, b, would have room for 3.";
    assert!(reason == "Unsatisfiable" && message.ends_with(text), "{reason}: {message}");
    // On a larger machine it waits for a rack.
    for node in ["c3", "c4"] {
        world.tell(node_in(node, "c"));
    }
    fill(&mut world, &["c3"]);
    world.pass_seconds(2);
    world.settle();
    let blockers = world.blockers("g");
    let of_level =
        blockers.iter().find(|blocker| blocker.reason == NoRoomInLevel).expect("a reason");
    assert_eq!(of_level.message, "No rack has room for 4 pods: the largest, b, has room for 3.");
    assert_eq!((of_level.level.as_deref(), of_level.part.as_deref()), (Some("rack"), Some("b")));
    assert_eq!(
        (of_level.requested.as_deref(), of_level.available.as_deref()),
        (Some("4"), Some("3"))
    );
    // It starts where a rack has a node more.
    world.tell(node_in("b4", "b"));
    world.pass_seconds(2);
    world.settle();
    assert_eq!(racks_of(&world, "g-"), "bbbb");
}

#[test]
fn a_launcher_and_its_workers_have_a_promise_for_one_rack_and_keep_it_over_a_restart() {
    let mut world = racks(CoreSettings { queue_policy: crate::QueuePolicy::Easy, ..settings() });
    // Rack b has two nodes left until 300 s from now, and the others one.
    for (name, node, seconds) in [("x", "b1", 300), ("y", "a1", 900), ("z", "c1", 900)] {
        let runs = pod(name, 2);
        let (scheduler, started) = ("other".into(), Some(world.now));
        let lifetime = Lifetime::Seconds(seconds);
        world.submit(Pod { node: Some(node.into()), scheduler, started, lifetime, ..runs });
    }
    launcher_and_workers(&mut world, "g", 2);
    let start = world.now.seconds() + 300;
    let promised = |world: &World| {
        assert_eq!(world.estimate("g"), Some((EstimateKind::Reserved, start)));
        let reservation =
            world.record("g").status.as_ref().unwrap().reservation.clone().expect("a promise");
        assert_eq!(reservation.nodes, "b[1-3]");
        let blockers = world.blockers("g");
        let of_level =
            blockers.iter().find(|blocker| blocker.reason == NoRoomInLevel).expect("a reason");
        assert_eq!(
            of_level.message,
            "No rack has room for 3 pods: the largest, b, has room for 2."
        );
    };
    promised(&world);
    world.pass_seconds(100);
    world.settle();
    world.restart();
    for (name, rack) in NODES {
        world.tell(node_in(name, rack));
    }
    world.list(&[], &[]);
    world.settle();
    promised(&world);
    world.change("x", |pod| pod.phase = Phase::Succeeded);
    world.pass_seconds(start - world.now.seconds());
    world.settle();
    assert_eq!(racks_of(&world, "g-"), "bbb");
}

#[test]
fn a_pod_that_replaces_a_worker_is_of_the_workers_set_after_the_launcher_has_ended() {
    let mut world = World::new(&[("a", 16)]);
    gang(&mut world, "g", [pod("launcher", 1), pod("w0", 4), pod("w1", 4)]);
    assert_eq!(world.bound(), 3);
    world.change("launcher", |pod| pod.phase = Phase::Succeeded);
    world.change("w0", |pod| pod.phase = Phase::Failed);
    world.settle();
    world.submit(of_group(pod("w2", 4), "g", Ok(3)));
    world.settle();
    assert_eq!(world.node_of("w2"), Some("a"));
    let seats = |world: &World| {
        let job = world.core.jobs.all.values().find(|job| &*job.workload.name == "g").unwrap();
        let of_set = |seat: &crate::jobs::seats::Seat| (seat.pod_set(), seat.is_empty());
        job.start.seats.iter().map(|(_, seat)| of_set(seat)).collect::<Vec<_>>()
    };
    assert_eq!(seats(&world), [(0, true), (1, false), (1, false)]);
}
