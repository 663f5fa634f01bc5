//! Jobs that ask for nodes alone: no other pods are on their nodes, now and later.

use std::collections::BTreeSet;

use super::*;
use crate::QueuePolicy;

fn alone(pod: Pod) -> Pod {
    Pod { exclusive: Some(true), ..pod }
}

/// A pod of another scheduler on this node.
fn theirs(name: &str, node: &str, cores: u64) -> Pod {
    Pod { node: Some(node.into()), scheduler: "other".into(), ..pod(name, cores) }
}

/// One that some object makes on each node, or a kubelet by itself.
fn stays(name: &str, node: &str, maker: &str) -> Pod {
    let kind = OwnerKind::Other(maker.into());
    let owner =
        Owner { kind, name: "agent".into(), uid: "uid-agent".into(), api_version: "v1".into() };
    Pod { owner: Some(owner), ..theirs(name, node, 1) }
}

/// Submits a Job with this number of pods and of cores for each, which asks for nodes alone:
/// `<name>0` and so on.
fn submit(world: &mut World, name: &str, pods: u32, cores: u64) {
    world.tell(Event::Controller(Arc::new(job(name, pods, pods))));
    for at in 0..pods {
        world.submit(alone(of_job(pod(&format!("{name}{at}"), cores), name)));
    }
}

fn ending(pod: Pod, seconds: u64) -> Pod {
    Pod { lifetime: Lifetime::Seconds(seconds), ..pod }
}

/// Returns the nodes of pods with names that begin like this.
fn nodes_of(world: &World, name: &str) -> BTreeSet<String> {
    let pods = world.pods.iter().filter(|(pod, _)| pod.starts_with(name));
    pods.filter_map(|(_, pod)| Some(pod.node.as_ref()?.to_string())).collect()
}

fn set(nodes: &[&str]) -> BTreeSet<String> {
    nodes.iter().map(ToString::to_string).collect()
}

#[test]
fn its_pods_share_nodes_with_each_other_and_with_nobody_else() {
    let mut world = World::new(&[("a", 4), ("b", 4), ("c", 4), ("d", 4)]);
    world.submit(pod("x", 1));
    world.settle();
    assert_eq!(world.node_of("x"), Some("a"));
    submit(&mut world, "j", 6, 1);
    world.settle();
    assert_eq!(nodes_of(&world, "j"), set(&["b", "c"]), "six pods of one core on nodes of four");
    for name in ["y0", "y1", "y2", "y3", "z"] {
        world.submit(pod(name, 1));
    }
    world.settle();
    assert_eq!(
        (nodes_of(&world, "y"), world.node_of("z")),
        (set(&["a", "d"]), Some("d")),
        "two cores are free on c"
    );
    // Node e is in no use, and that is too little for a second one.
    world.tell(Event::Node(node("e", 4)));
    submit(&mut world, "k", 2, 3);
    world.settle();
    assert_eq!(nodes_of(&world, "k"), set(&[]));
    let (reason, message) = world.blocked("k");
    let said = "They ask for nodes alone: 1 of 5 is free of other pods.";
    assert!(reason == "InsufficientResources" && message.contains(said), "{reason}: {message}");
    assert!(message.contains("4 node(s) were used by others"), "{message}");
    world.tell(Event::Node(node("f", 4)));
    world.settle();
    assert_eq!(nodes_of(&world, "k"), set(&["e", "f"]));
    // There is room enough for w on nodes that others hold.
    world.submit(pod("w", 3));
    world.settle();
    let (_, message) = world.blocked("w");
    assert!(
        message.contains("2 Insufficient cpu, 4 node(s) were held by exclusive jobs"),
        "{message}"
    );
}

#[test]
fn pods_that_stay_on_their_nodes_do_not_count() {
    let mut world = World::new(&[("a", 4), ("b", 4), ("c", 4)]);
    for (name, node, maker) in
        [("d0", "a", "DaemonSet"), ("d1", "b", "DaemonSet"), ("s", "b", "Node")]
    {
        world.submit(stays(name, node, maker));
    }
    world.submit(theirs("theirs", "c", 1));
    submit(&mut world, "j", 2, 3);
    world.settle();
    assert_eq!(
        nodes_of(&world, "j"),
        set(&[]),
        "beside those of node b there is room for two cores"
    );
    world.delete("s");
    world.settle();
    assert_eq!(nodes_of(&world, "j"), set(&["a", "b"]));
    // One that comes later, of ours too, is put beside it.
    world.delete("d0");
    let daemon = Pod { scheduler: "fluxqueue".into(), node: None, ..stays("d2", "a", "DaemonSet") };
    world.submit(scaling_to("a", daemon));
    world.submit(scaling_to("a", pod("other", 1)));
    world.settle();
    assert_eq!((world.node_of("d2"), world.node_of("other")), (Some("a"), None));
}

/// The pod may use this node only.
fn scaling_to(node: &str, pod: Pod) -> Pod {
    use fluxqueue_workload::constraints::{NodeSelectorTerm, Operator, Requirement};
    let here = Requirement {
        key: "metadata.name".into(),
        operator: Operator::In,
        values: vec![node.into()],
    };
    let mut shape = Shape::clone(&pod.shape);
    shape.constraints.required =
        Some(vec![NodeSelectorTerm { labels: Vec::new(), fields: vec![here] }]);
    Pod { shape: Arc::new(shape), ..pod }
}

#[test]
fn a_start_is_promised_for_when_nobody_else_is_there_and_kept() {
    let settings = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world =
        World::told(settings, FunctionTable::builtin(), &[("a", 4), ("b", 4), ("c", 4)]);
    for (name, seconds) in [("x", 100), ("y", 300), ("z", 900)] {
        world.submit(ending(pod(name, 2), seconds));
    }
    world.settle();
    assert_eq!(
        (nodes_of(&world, "x"), nodes_of(&world, "y"), nodes_of(&world, "z")),
        (set(&["a"]), set(&["a"]), set(&["b"]))
    );
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for at in 0..4 {
        world.submit(alone(of_job(ending(pod(&format!("j{at}"), 2), 50), "j")));
    }
    world.settle();
    let start = world.now.seconds();
    // There is room for four pods of two cores as soon as x has ended: on node a beside y.
    assert_eq!(world.estimate("j"), Some((EstimateKind::Reserved, start + 300)));
    let nodes =
        world.record("j").status.as_ref().unwrap().reservation.clone().expect("a promise").nodes;
    assert_eq!(nodes, "a,c");
    // A pod that starts beside it has to be gone by then; node b has room for a short one and a
    // long one.
    for (name, seconds) in [("k", 200), ("l", 400), ("m", 400)] {
        world.submit(ending(pod(name, 2), seconds));
    }
    world.settle();
    let places = [world.node_of("k"), world.node_of("l"), world.node_of("m")];
    assert_eq!(
        places,
        [Some("b"), None, None],
        "l and m would be in the way, though there is room for them on node c"
    );
    world.submit(ending(pod("n", 2), 250));
    world.settle();
    assert_eq!(world.node_of("n"), Some("c"));
    world.pass_seconds(290);
    for name in ["x", "y", "k", "n"] {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    assert_eq!(nodes_of(&world, "j"), set(&["a", "c"]));
    assert!(!world.notes.iter().any(|note| note == "ReservationDelayed"), "{:?}", world.notes);
}

#[test]
fn a_restart_keeps_others_off_and_lets_in_who_joins() {
    let nodes = [("a", 4), ("b", 4)];
    let mut world = World::new(&nodes);
    let gang = job("j", 2, 4);
    world.tell(Event::Controller(Arc::new(gang.clone())));
    for name in ["j0", "j1"] {
        world.submit(alone(of_job(pod(name, 1), "j")));
    }
    world.settle();
    assert_eq!(nodes_of(&world, "j"), set(&["a"]));
    world.restart();
    world.list(&nodes, &[gang]);
    for name in ["x0", "x1", "x2", "x3"] {
        world.submit(pod(name, 1));
    }
    world.settle();
    assert_eq!(nodes_of(&world, "x"), set(&["b"]));
    world.submit(pod("y", 1));
    // Its node is held while a sibling is there; the next one comes to it without a slot of its
    // own.
    world.submit(alone(of_job(pod("j2", 1), "j")));
    world.settle();
    assert_eq!((world.node_of("y"), world.node_of("j2")), (None, Some("a")));
    for name in ["j0", "j1", "j2"] {
        world.delete(name);
    }
    world.tell(Event::ControllerGone("uid-j".into()));
    world.pass_seconds(60);
    world.settle();
    assert_eq!(world.node_of("y"), Some("a"), "nobody holds it any more");
}

#[test]
fn nothing_is_sent_to_a_node_to_which_another_scheduler_came() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    submit(&mut world, "j", 2, 1);
    let mut actions = world.step();
    for _ in 0..10 {
        if actions.iter().any(writes_placement) {
            break;
        }
        world.carry_out_all(actions);
        actions = world.step();
    }
    // There is room for it, and it is a pod of another scheduler.
    world.submit(theirs("theirs", "a", 1));
    world.carry_out_all(actions);
    world.settle();
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    world.pass_seconds(1);
    world.settle();
    assert_eq!(nodes_of(&world, "j"), set(&["b"]));
}

#[test]
fn what_comes_to_its_nodes_breaks_a_promise_for_the_cause_capacity() {
    let settings = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &[("a", 4)]);
    world.submit(ending(pod("x", 1), 100));
    world.settle();
    world.submit(alone(ending(pod("p", 1), 50)));
    world.settle();
    let start = world.now.seconds();
    assert_eq!(world.estimate("p"), Some((EstimateKind::Reserved, start + 100)));
    world.submit(ending(Pod { started: Some(world.now), ..theirs("theirs", "a", 1) }, 500));
    world.settle();
    assert_eq!(world.estimate("p"), Some((EstimateKind::Reserved, start + 500)));
    assert!(world.notes.iter().any(|note| note == "ReservationDelayed"), "{:?}", world.notes);
}

#[test]
fn pods_of_one_set_are_together_and_nobody_else_is_with_them() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    let set_of = |pod: Pod| {
        let pod = of_job(pod, "set");
        let owner = pod.owner.clone().map(|owner| Owner { kind: OwnerKind::ReplicaSet, ..owner });
        Pod { owner, ..pod }
    };
    let made_by = Controller { kind: OwnerKind::ReplicaSet, completions: None, ..job("set", 3, 3) };
    // The object says so for its pods.
    world.tell(Event::Controller(Arc::new(Controller { exclusive: Ok(Some(true)), ..made_by })));
    for name in ["s0", "s1", "s2"] {
        world.submit(set_of(pod(name, 1)));
    }
    for name in ["x0", "x1"] {
        world.submit(pod(name, 1));
    }
    world.settle();
    assert_eq!((nodes_of(&world, "s"), nodes_of(&world, "x")), (set(&["a"]), set(&["b"])));
}

#[test]
fn pods_that_are_spread_over_nodes_have_them_alone_too() {
    let mut world = World::new(&[]);
    for name in ["a", "b", "c"] {
        let labels = vec![(Arc::from("kubernetes.io/hostname"), Arc::from(name))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 4)) })));
    }
    world.submit(pod("x", 1));
    world.settle();
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["j0", "j1"] {
        world.submit(neighbours::spread(
            alone(of_job(pod(name, 1), "j")),
            "j",
            "kubernetes.io/hostname",
        ));
    }
    world.settle();
    assert_eq!(nodes_of(&world, "j"), set(&["b", "c"]));
}

#[test]
fn a_gang_of_which_some_ask_for_it_is_refused() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(alone(of_group(pod("p0", 1), "g", Ok(2))));
    world.submit(of_group(pod("p1", 1), "g", Ok(2)));
    world.settle();
    let (reason, message) = world.blocked("g");
    let said = "metadata.annotations[fluxqueue/exclusive]: pod ns/p0 asks for nodes alone, and ns/p1 of the same gang does not";
    assert_eq!((reason.as_str(), message.as_str()), ("UnsupportedConstraint", said));
    world.change("p1", |pod| pod.exclusive = Some(true));
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn of_a_gang_of_which_some_ask_for_it_that_somebody_else_began_each_goes_by_what_it_says() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.submit(alone(of_group(pod("p0", 3), "g", Ok(2))));
    world.submit(of_group(pod("p1", 1), "g", Ok(2)));
    world.settle();
    world.change("p0", |pod| pod.node = Some("a".into()));
    world.settle();
    assert_eq!(world.node_of("p1"), Some("b"), "there is room on a, and p0 has that node alone");
    world.submit(alone(of_group(pod("p2", 1), "g", Ok(2))));
    world.settle();
    assert_eq!(world.node_of("p2"), Some("a"), "who asks for it joins those who do");
}

#[test]
fn what_cannot_be_had_is_refused_by_name() {
    let plain = FunctionTable { extensions: None, ..FunctionTable::builtin() };
    let mut world = World::on(plain, &[("a", 4)]);
    world.submit(alone(pod("p", 1)));
    world.tell(Event::Controller(Arc::new(Controller {
        exclusive: Ok(Some(true)),
        ..job("j", 1, 1)
    })));
    world.submit(of_job(pod("j0", 1), "j"));
    world.settle();
    let field = "metadata.annotations[fluxqueue/exclusive]";
    for (workload, prefix) in [("p", "pod ns/p: "), ("j", "Job ns/j: ")] {
        let (reason, message) = world.blocked(workload);
        let said = format!("{prefix}{field}: this Fluxion library keeps no nodes for one job");
        assert_eq!((reason.as_str(), message), ("UnsupportedConstraint", said));
    }
    let mut world = World::new(&[("a", 4)]);
    let daemon = Pod { scheduler: "fluxqueue".into(), node: None, ..stays("d", "a", "DaemonSet") };
    world.submit(alone(daemon));
    world.settle();
    let (_, message) = world.blocked("d");
    assert!(
        message.ends_with(&format!("{field}: pods of DaemonSets are on nodes with all others")),
        "{message}"
    );
}
