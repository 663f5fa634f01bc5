//! Jobs that ask for levels of the machine: all pods in one rack, and what follows from that.

use std::collections::BTreeSet;

use fluxqueue_api::BlockedReason::{InsufficientResources, NoRoomInLevel};
use fluxqueue_workload::levels::{LevelBound, LevelRule, RuleScope, Spread};

use super::*;
use crate::QueuePolicy;

pub(super) const RACK: &str = "topology.kubernetes.io/rack";
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// Three racks of 2, 3 and 2 nodes with 2 cores each.
pub(super) const NODES: [(&str, &str); 7] =
    [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("b3", "b"), ("c1", "c"), ("c2", "c")];

pub(super) fn node_in(name: &str, rack: &str) -> Event {
    let labels = vec![(Arc::from(HOST), Arc::from(name)), (Arc::from(RACK), Arc::from(rack))];
    Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 2)) }))
}

pub(super) fn racks(settings: CoreSettings) -> World {
    let mut world = World::told(settings, FunctionTable::builtin(), &[]);
    for (name, rack) in NODES {
        world.tell(node_in(name, rack));
    }
    world
}

/// A new process, which finds these nodes in their racks, and one Job.
pub(super) fn succeed(world: &mut World, nodes: &[(&str, &str)], job: Controller) {
    world.restart();
    for (name, rack) in nodes {
        world.tell(node_in(name, rack));
    }
    world.list(&[], &[job]);
}

pub(super) fn within(bound: LevelBound, level: &str, of: RuleScope) -> Arc<[LevelRule]> {
    Arc::from([LevelRule { level: level.into(), bound, of, annotation: "fluxqueue/required-level" }])
}

pub(super) fn in_one(level: &str, pod: Pod) -> Pod {
    Pod { levels: Some(within(LevelBound::Required, level, RuleScope::Job)), ..pod }
}

/// A Job with pods of so many cores, `<name>0`, `<name>1` and so on, which all ask for the same.
pub(super) fn submit(world: &mut World, name: &str, pods: u32, cores: u64, ask: impl Fn(Pod) -> Pod) {
    world.tell(Event::Controller(Arc::new(job(name, pods, pods))));
    for at in 0..pods {
        world.submit(ask(of_job(pod(&format!("{name}{at}"), cores), name)));
    }
}

/// The racks in which pods of a Job are, one letter each.
pub(super) fn racks_of(world: &World, name: &str) -> String {
    let pods = world.pods.iter().filter(|(pod, _)| pod.starts_with(name));
    let mut racks: Vec<char> = pods.filter_map(|(_, pod)| pod.node.as_ref()?.chars().next()).collect();
    racks.sort_unstable();
    racks.into_iter().collect()
}

/// A pod of another scheduler has all of these nodes.
pub(super) fn fill(world: &mut World, nodes: &[&str]) {
    for name in nodes {
        let full = pod(&format!("on-{name}"), 2);
        world.submit(Pod { node: Some((*name).into()), scheduler: "other".into(), ..full });
    }
}

#[test]
fn a_gang_starts_whole_in_one_rack_or_not_at_all() {
    // Nodes that are full, how many pods of 2 cores, where they are.
    let cases: [(&[&str], u32, &str); 6] = [
        (&[], 3, "bbb"),
        // The tightest rack in which there is room, not the first.
        (&["b1"], 2, "aa"),
        (&["a1", "b1"], 2, "bb"),
        (&["a1", "b1", "c1"], 2, "bb"),
        (&["a1", "b1", "c1"], 3, ""),
        (&["a1", "b1", "b2", "c1"], 2, ""),
    ];
    for (full, pods, expected) in cases {
        let mut world = racks(settings());
        fill(&mut world, full);
        submit(&mut world, "j", pods, 2, |pod| in_one("rack", pod));
        world.settle();
        assert_eq!(racks_of(&world, "j"), expected, "{pods} pods where {full:?} are full");
    }
}

#[test]
fn a_level_goes_by_its_name_or_by_its_node_label() {
    let mut world = racks(settings());
    submit(&mut world, "j", 3, 2, |pod| in_one(RACK, pod));
    world.settle();
    assert_eq!(racks_of(&world, "j"), "bbb");
}

#[test]
fn what_is_short_is_said_with_numbers() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "b1", "c1"]);
    submit(&mut world, "j", 3, 2, |pod| in_one("rack", pod));
    submit(&mut world, "k", 4, 2, |pod| in_one("rack", pod));
    submit(&mut world, "l", 1, 2, |pod| in_one("zone", pod));
    world.settle();
    // There is enough in all, so it is the level that is in the way.
    let text = "No rack has room for 3 pods: the largest, b, has room for 2.";
    let [of_level, of_nodes, ..] = &world.blockers("j")[..] else { panic!("{:?}", world.blockers("j")) };
    assert_eq!((of_level.reason, of_level.message.as_str()), (NoRoomInLevel, text));
    assert_eq!((of_level.level.as_deref(), of_level.part.as_deref()), (Some("rack"), Some("b")));
    assert_eq!((of_level.requested.as_deref(), of_level.available.as_deref()), (Some("3"), Some("2")));
    assert_eq!(of_nodes.reason, InsufficientResources);
    let of_pod = &world.conditions["j0"].message;
    assert!(of_pod.contains(text), "{of_pod}");
    let (reason, message) = world.blocked("k");
    let text = "No rack would have room for 4 pods: the largest, b, would have room for 3.";
    assert!(reason == "Unsatisfiable" && message.ends_with(text), "{reason}: {message}");
    assert_eq!(world.blockers("k")[1].available.as_deref(), Some("3"));
    let (reason, message) = world.blocked("l");
    assert!(reason == "Unsatisfiable" && message.ends_with("No node that they may use is in a zone."), "{message}");
}

#[test]
fn what_is_short_in_all_is_said_before_what_is_short_in_a_rack() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "a2", "b1", "c1", "c2"]);
    submit(&mut world, "j", 3, 2, |pod| in_one("rack", pod));
    world.settle();
    let blockers = world.blockers("j");
    assert_eq!([blockers[0].reason, blockers[1].reason], [InsufficientResources, NoRoomInLevel]);
    assert_eq!((blockers[1].requested.as_deref(), blockers[1].available.as_deref()), (Some("3"), Some("2")));
}

#[test]
fn a_start_is_promised_for_when_one_rack_has_room() {
    let mut world = racks(CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() });
    // Rack b is free in 300 s; a node of each other rack in 100 s.
    for (name, node, seconds) in
        [("x", "b1", 300), ("y", "a1", 100), ("z", "c1", 100), ("s", "a2", 900), ("t", "c2", 900)]
    {
        let runs = pod(name, 2);
        let lifetime = Lifetime::Seconds(seconds);
        world.submit(Pod {
            node: Some(node.into()),
            scheduler: "other".into(),
            started: Some(world.now),
            lifetime,
            ..runs
        });
    }
    submit(&mut world, "j", 3, 2, |pod| Pod { lifetime: Lifetime::Seconds(50), ..in_one("rack", pod) });
    world.settle();
    let start = world.now.seconds();
    let reservation = world.record("j").status.as_ref().unwrap().reservation.clone().expect("a promise");
    let nodes = reservation.nodes;
    assert_eq!(nodes, "b[1-3]");
    assert_eq!(world.estimate("j"), Some((EstimateKind::Reserved, start + 300)));
    // What does not need a rack may use what is left until then, and no longer.
    submit(&mut world, "k", 1, 2, |pod| Pod { lifetime: Lifetime::Seconds(200), ..pod });
    submit(&mut world, "m", 1, 2, |pod| Pod { lifetime: Lifetime::Seconds(400), ..pod });
    world.settle();
    assert_eq!((racks_of(&world, "k"), racks_of(&world, "m")), ("b".to_owned(), String::new()));
}

#[test]
fn who_waits_for_work_without_a_known_end_holds_one_rack_and_no_more() {
    let mut world = racks(CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() });
    for (name, _) in NODES {
        let runs = pod(&format!("on-{name}"), 2);
        world.submit(Pod { node: Some(name.into()), lifetime: Lifetime::Eventually, ..runs });
    }
    submit(&mut world, "j", 3, 2, |pod| Pod { lifetime: Lifetime::Seconds(50), ..in_one("rack", pod) });
    world.settle();
    let (_, message) = world.blocked("j");
    assert!(message.contains("No rack has room for 3 pods."), "{message}");
    world.pass_seconds(301);
    world.settle();
    let reservation = world.record("j").status.as_ref().unwrap().reservation.clone().expect("nodes are held");
    assert_eq!((reservation.nodes.as_str(), reservation.start), ("b[1-3]", None));
}

#[test]
fn pods_that_are_spread_over_hosts_are_still_in_one_rack() {
    let mut world = racks(settings());
    submit(&mut world, "j", 3, 1, |pod| neighbours::spread(in_one("rack", pod), "j", HOST));
    submit(&mut world, "k", 3, 1, |pod| neighbours::spread(in_one("rack", pod), "k", HOST));
    world.settle();
    let hosts = |name: &str| {
        let pods = world.pods.iter().filter(|(pod, _)| pod.starts_with(name));
        pods.filter_map(|(_, pod)| pod.node.clone()).collect::<BTreeSet<_>>().len()
    };
    assert_eq!((racks_of(&world, "j"), racks_of(&world, "k")), ("bbb".to_owned(), "bbb".to_owned()));
    assert_eq!((hosts("j"), hosts("k")), (3, 3));
}

#[test]
fn a_node_whose_labels_change_is_in_another_rack() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "b1", "c1"]);
    submit(&mut world, "j", 3, 2, |pod| in_one("rack", pod));
    world.settle();
    assert_eq!(racks_of(&world, "j"), "");
    world.tell(node_in("c2", "b"));
    world.settle();
    assert_eq!(racks_of(&world, "j"), "bbc", "c2 is in rack b by now");
}

#[test]
fn a_placement_that_lies_in_two_racks_by_now_is_withdrawn() {
    let mut world = racks(settings());
    submit(&mut world, "j", 2, 2, |pod| in_one("rack", pod));
    // The placement is decided, and on its way to the record.
    let actions = world.step();
    assert_eq!(binds(&actions), 0, "it is written first");
    world.tell(node_in("a2", "c"));
    world.carry_out_all(actions);
    world.settle();
    let (reason, message) = world.blocked("j");
    assert_eq!(reason, "PlacementWithdrawn");
    assert!(message.contains("is in rack"), "{message}");
    world.pass_seconds(2);
    world.settle();
    let racks: Vec<Option<&str>> = ["j0", "j1"].map(|pod| world.node_of(pod)).into();
    assert!(racks == [Some("a2"), Some("c1")] || racks == [Some("b1"), Some("b2")], "{racks:?}");
}

#[test]
fn who_replaces_a_lost_pod_stays_in_the_rack() {
    for restarts in [false, true] {
        let mut world = racks(settings());
        submit(&mut world, "j", 2, 2, |pod| in_one("rack", pod));
        world.settle();
        assert_eq!(racks_of(&world, "j"), "aa");
        if restarts {
            succeed(&mut world, &NODES, job("j", 2, 2));
            world.settle();
        }
        let lost = world.node_of("j1").expect("it runs").to_owned();
        world.tell(Event::NodeGone(NodeName::from(lost.as_str()), Uid::from(format!("uid-{lost}"))));
        world.delete("j1");
        world.submit(in_one("rack", of_job(pod("j2", 2), "j")));
        world.settle();
        assert_eq!(world.node_of("j2"), None, "there is room in other racks alone");
        let message = &world.conditions["j2"].message;
        assert!(message.contains("The rest of its job is in rack a, which has no room for 1 pod more."), "{message}");
        world.tell(node_in("a3", "a"));
        world.settle();
        assert_eq!(world.node_of("j2"), Some("a3"));
    }
}

#[test]
fn those_who_join_a_gang_follow_the_first_of_them() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "b1", "b2"]);
    for name in ["p0", "p1"] {
        world.submit(of_group(pod(name, 1), "g", Ok(2)));
    }
    for name in ["j0", "j1"] {
        world.submit(in_one("rack", of_group(pod(name, 2), "g", Ok(2))));
    }
    world.settle();
    let racks = racks_of(&world, "j");
    assert!(!racks.is_empty() && racks.chars().all(|rack| racks.starts_with(rack)), "{racks}");
}

/// A StatefulSet with pods of so many cores, `s0`, `s1` and so on.
pub(super) fn serve(world: &mut World, cores: &[u64], ask: impl Fn(Pod) -> Pod) {
    let replicas = u32::try_from(cores.len()).unwrap();
    let service = Controller { kind: OwnerKind::StatefulSet, completions: None, ..job("s", replicas, replicas) };
    world.tell(Event::Controller(Arc::new(service)));
    for (at, cores) in cores.iter().enumerate() {
        let mut pod = ask(of_job(pod(&format!("s{at}"), *cores), "s"));
        pod.owner.as_mut().expect("it has an owner").kind = OwnerKind::StatefulSet;
        world.submit(Pod { lifetime: Lifetime::Endless, ..pod });
    }
}

#[test]
fn pods_of_a_service_follow_the_first() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "b1"]);
    serve(&mut world, &[2, 2, 2], |pod| in_one("rack", pod));
    world.settle();
    // Not where there is room for one alone.
    assert_eq!(racks_of(&world, "s"), "bb");
}

#[test]
fn who_can_never_start_does_not_keep_the_others_of_his_service_waiting() {
    for ask in [|pod| in_one("rack", pod), |pod| at_most(2, pod), |pod| skewed(1, pod)] {
        let mut world = racks(settings());
        serve(&mut world, &[9, 2, 2], ask);
        for _ in 0..5 {
            world.settle();
            world.pass_seconds(1);
        }
        assert_eq!((world.node_of("s0"), racks_of(&world, "s").len()), (None, 2));
        let message = &world.conditions["s0"].message;
        assert!(message.contains("Insufficient cpu"), "{message}");
    }
}

#[test]
fn who_follows_one_that_waits_is_told_for_whom() {
    let mut world = racks(CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() });
    for (at, (node, _)) in NODES.iter().enumerate() {
        let busy = Pod { lifetime: Lifetime::Seconds(100), started: Some(world.now), ..pod(&format!("busy{at}"), 1) };
        world.submit(neighbours::on(busy, node));
    }
    serve(&mut world, &[2, 1], |pod| in_one("rack", pod));
    world.settle();
    assert_eq!(racks_of(&world, "s"), "", "s0 will start, and s1 is to be where it is");
    let message = &world.conditions["s1"].message;
    assert_eq!(message, "Waits for pod s0 of its job: where this one may be depends on where that one is.");
    for at in 0..NODES.len() {
        world.change(&format!("busy{at}"), |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    let racks = racks_of(&world, "s");
    assert!(racks.len() == 2 && racks.starts_with(&racks[1..]), "{racks}");
}

#[test]
fn two_that_start_at_once_after_both_have_waited_are_still_in_one_rack() {
    let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
    world.tell(node_in("c1", "c"));
    serve(&mut world, &[4, 3], |pod| in_one("rack", pod));
    world.settle();
    assert_eq!(racks_of(&world, "s"), "", "neither fits");
    // Each rack has room for one of them.
    for (name, rack, cores) in [("a1", "a", 4), ("b1", "b", 3)] {
        let labels = vec![(Arc::from(HOST), Arc::from(name)), (Arc::from(RACK), Arc::from(rack))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, cores)) })));
    }
    for _ in 0..5 {
        world.settle();
        world.pass_seconds(1);
    }
    assert_eq!((world.node_of("s0"), world.node_of("s1")), (Some("a1"), None));
    // What a pod is told is told after a while.
    world.pass_seconds(40);
    world.settle();
    let message = &world.conditions["s1"].message;
    assert!(message.contains("The rest of its job is in rack a"), "{message}");
}

#[test]
fn of_two_of_a_service_one_starts_and_the_other_is_promised_a_start_and_that_is_not_taken_back() {
    // Cores of both, and where they are in the end: in rack b somebody has all of seven cores until second 100, rack a has three.
    for (cores, in_the_end) in [([4, 3], [Some("b1"), Some("b1")]), ([3, 4], [Some("a1"), None])] {
        let policy = QueuePolicy::Conservative;
        let mut world = World::told(CoreSettings { queue_policy: policy, ..settings() }, FunctionTable::builtin(), &[]);
        world.tell(node_in("c1", "c"));
        serve(&mut world, &cores, |pod| in_one("rack", pod));
        world.settle();
        assert_eq!(racks_of(&world, "s"), "", "neither fits");
        let busy = Pod { lifetime: Lifetime::Seconds(100), started: Some(world.now), ..pod("busy", 7) };
        world.submit(neighbours::on(busy, "b1"));
        for (name, rack, cores) in [("b1", "b", 7), ("a1", "a", 3)] {
            let labels = vec![(Arc::from(HOST), Arc::from(name)), (Arc::from(RACK), Arc::from(rack))];
            world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, cores)) })));
        }
        // In one walk there is a place for one of them in rack a now, and for the other one in rack b later.
        for second in 0..110 {
            world.settle();
            world.pass_seconds(1);
            if second == 99 {
                world.change("busy", |pod| pod.phase = Phase::Succeeded);
            }
        }
        assert_eq!(["s0", "s1"].map(|name| world.node_of(name)), in_the_end, "{cores:?}");
        assert!(world.core.gauges().reservations_delayed.is_empty(), "{cores:?}: {:?}", world.core.gauges());
        assert!(!world.notes.contains(&"ReservationDelayed".to_owned()), "{cores:?}");
    }
}

#[test]
fn a_level_that_is_preferred_is_no_condition() {
    let preferred = |pod| Pod { levels: Some(within(LevelBound::Preferred, "rack", RuleScope::Job)), ..pod };
    let mut world = racks(settings());
    fill(&mut world, &["a1", "b1", "c1"]);
    submit(&mut world, "j", 2, 2, preferred);
    submit(&mut world, "k", 2, 2, preferred);
    world.settle();
    assert_eq!((racks_of(&world, "j"), racks_of(&world, "k")), ("bb".to_owned(), "ac".to_owned()));
}

#[test]
fn who_does_not_get_the_level_that_he_prefers_gets_the_next_wider_one() {
    let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
    for (name, zone, rack) in [("a", "x", "1"), ("b", "y", "1"), ("c", "x", "2"), ("d", "y", "2"), ("e", "y", "3")] {
        let label = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
        let labels = vec![label(RACK, rack), label("topology.kubernetes.io/zone", zone)];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 2)) })));
    }
    let preferred = |pod| Pod { levels: Some(within(LevelBound::Preferred, "rack", RuleScope::Job)), ..pod };
    submit(&mut world, "j", 3, 2, preferred);
    submit(&mut world, "k", 2, 2, preferred);
    world.settle();
    assert_eq!((racks_of(&world, "j"), racks_of(&world, "k")), ("bde".to_owned(), "ac".to_owned()));
}

#[test]
fn pod_sets_are_each_in_a_rack_and_jobs_in_one() {
    // A launcher of 1 core and three workers of 2: all together they need more than a rack has.
    for (of, expected) in [(RuleScope::PodSet, true), (RuleScope::Job, false), (RuleScope::Group("g".into()), false)] {
        let mut world = racks(settings());
        for (name, cores) in [("w0", 2), ("w1", 2), ("w2", 2), ("l", 1)] {
            let levels = Some(within(LevelBound::Required, "rack", of.clone()));
            world.submit(Pod { levels, ..of_group(pod(name, cores), "mpi", Ok(4)) });
        }
        world.settle();
        assert_eq!(world.bound() == 4, expected, "{of:?}");
        if expected {
            assert_eq!(racks_of(&world, "w"), "bbb");
        }
    }
}

/// A pod of an Indexed Job with slices of two pods.
fn in_slices(pod: Pod) -> Pod {
    let index = pod.id.key.name.chars().last().and_then(|digit| digit.to_digit(10));
    let levels = Some(within(LevelBound::Required, "rack", RuleScope::Slice(2)));
    Pod { levels, completion_index: index, ..pod }
}

/// The rack of a pod.
pub(super) fn rack_of(world: &World, pod: &str) -> Option<char> {
    world.node_of(pod)?.chars().next()
}

#[test]
fn each_slice_is_in_a_rack() {
    // Nodes that are full, how many pods, whether they start.
    let cases: [(&[&str], u32, bool); 5] = [
        (&[], 4, true),
        (&[], 6, true),
        (&["b1"], 6, true),
        (&["b1", "b2"], 6, false),
        (&["a1", "b1", "b2", "c1"], 2, false),
    ];
    for (full, pods, starts) in cases {
        let mut world = racks(settings());
        fill(&mut world, full);
        submit(&mut world, "j", pods, 2, in_slices);
        world.settle();
        for first in (0..pods).step_by(2) {
            let racks = [first, first + 1].map(|at| rack_of(&world, &format!("j{at}")));
            assert!(racks[0].is_some() == starts && racks[0] == racks[1], "{pods} where {full:?} are full: {racks:?}");
        }
    }
}

#[test]
fn slices_of_a_job_that_is_to_be_in_one_rack_as_a_whole_fill_it() {
    for size in [1, 2, 3] {
        let mut world = racks(settings());
        submit(&mut world, "j", 3, 2, |pod| {
            let slices = within(LevelBound::Required, "rack", RuleScope::Slice(size));
            let all = within(LevelBound::Required, "rack", RuleScope::Job);
            Pod { levels: Some(all.iter().chain(&*slices).cloned().collect()), ..in_slices(pod) }
        });
        world.settle();
        assert_eq!(racks_of(&world, "j"), "bbb", "slices of {size}");
    }
}

/// The same, with so many pods in one part of this level at most, or so many more than in another.
fn in_spread_slices(level: &str, bounds: (Option<u32>, Option<u32>), pod: Pod) -> Pod {
    let pod = in_slices(pod);
    let spread = spread_over(level, bounds, pod.clone()).levels.expect("it asks for it");
    let levels = pod.levels.iter().chain([&spread]).flat_map(|rules| rules.iter().cloned()).collect();
    Pod { levels: Some(levels), ..pod }
}

#[test]
fn of_slices_that_are_spread_each_is_in_a_rack_of_its_own() {
    // The level over which they are spread, how many pods of a part, of a rack and of a node there may be.
    for (level, most, of_rack, of_node) in [("rack", 2, 2, 2), ("host", 1, 3, 1)] {
        let mut world = racks(settings());
        submit(&mut world, "j", 6, 1, |pod| in_spread_slices(level, (Some(most), None), pod));
        world.settle();
        for first in [0, 2, 4] {
            let racks = [first, first + 1].map(|at| rack_of(&world, &format!("j{at}")));
            assert!(racks[0].is_some() && racks[0] == racks[1], "{level}: {racks:?}");
        }
        for (node, rack) in NODES {
            let on_node = world.pods.values().filter(|pod| pod.node.as_deref() == Some(node)).count();
            assert!(racks_of(&world, "j").matches(rack).count() <= of_rack && on_node <= of_node, "{level}: {node}");
        }
    }
}

#[test]
fn more_slices_than_parts_may_have_never_start_and_say_why() {
    let mut world = racks(settings());
    submit(&mut world, "j", 8, 1, |pod| in_spread_slices("rack", (Some(2), None), pod));
    world.settle();
    assert_eq!((racks_of(&world, "j").as_str(), world.state("j")), ("", Some(JobState::Unsatisfiable)));
    let (_, message) = world.blocked("j");
    assert!(
        message.contains("At most 2 of 8 pods may be in one rack, and there are 3 that they may use."),
        "{message}"
    );
}

#[test]
fn many_slices_find_a_rack_each() {
    let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
    for rack in 0..40 {
        for host in 0..2 {
            let (name, rack) = (format!("n{rack}-{host}"), format!("r{rack}"));
            world.tell(node_in(&name, &rack));
        }
    }
    world.tell(Event::Controller(Arc::new(job("j", 64, 64))));
    for at in 0..64 {
        let pod = in_spread_slices("rack", (Some(2), None), of_job(pod(&format!("j{at}"), 1), "j"));
        world.submit(Pod { completion_index: Some(at), ..pod });
    }
    world.settle();
    let racks: Vec<Option<&str>> =
        (0..64).map(|at| Some(world.node_of(&format!("j{at}"))?.split_once('-')?.0)).collect();
    assert!(racks.iter().all(Option::is_some) && racks.chunks(2).all(|slice| slice[0] == slice[1]), "{racks:?}");
    assert_eq!(racks.iter().collect::<BTreeSet<_>>().len(), 32);
}

/// A pod of an Indexed Job with slices of so many pods in a part of one level each, whose pods are even over another.
fn in_even_slices((of, size): (&str, u32), (over, skew): (&str, u32), at: u32, pod: Pod) -> Pod {
    let slices = within(LevelBound::Required, of, RuleScope::Slice(size));
    let spread = spread_over(over, (None, Some(skew)), pod.clone()).levels.expect("it asks for it");
    let levels = slices.iter().chain(&*spread).cloned().collect();
    Pod { levels: Some(levels), completion_index: Some(at), ..pod }
}

fn submit_even_slices(world: &mut World, pods: u32, cores: u64, slices: (&str, u32), even: (&str, u32)) {
    world.tell(Event::Controller(Arc::new(job("j", pods, pods))));
    for at in 0..pods {
        world.submit(in_even_slices(slices, even, at, of_job(pod(&format!("j{at}"), cores), "j")));
    }
}

#[test]
fn slices_are_even_over_racks_and_each_is_in_one() {
    // Nodes that are full, how many pods of how many cores, the skew, how many pods are in racks a, b and c in ascending order.
    let cases: [(&[&str], [u32; 3], [usize; 3]); 8] = [
        (&[], [6, 2, 1], [2, 2, 2]),
        // Two pods more in one rack, as a slice has two.
        (&[], [8, 1, 2], [2, 2, 4]),
        (&[], [8, 1, 1], [0; 3]),
        // Rack a has room for one pod, and so for no slice.
        (&["a1"], [4, 2, 2], [0, 2, 2]),
        (&["a1"], [4, 2, 1], [0; 3]),
        (&["a1"], [6, 2, 2], [0; 3]),
        // The last slice has one.
        (&[], [5, 2, 1], [1, 2, 2]),
        (&["a1"], [5, 2, 1], [1, 2, 2]),
    ];
    for (full, [pods, cores, skew], expected) in cases {
        let mut world = racks(settings());
        fill(&mut world, full);
        submit_even_slices(&mut world, pods, u64::from(cores), ("rack", 2), ("rack", skew));
        world.settle();
        let racks = racks_of(&world, "j");
        let mut counts = ['a', 'b', 'c'].map(|rack| racks.matches(rack).count());
        counts.sort_unstable();
        assert_eq!(counts, expected, "{pods} pods of {cores} cores with skew {skew} where {full:?} are full");
        let of_pods: Vec<Option<char>> = (0..pods).map(|at| rack_of(&world, &format!("j{at}"))).collect();
        assert!(of_pods.chunks(2).all(|slice| slice.iter().all(|rack| *rack == slice[0])), "{of_pods:?}");
    }
    // Over hosts, of which no slice has one for itself.
    let mut world = racks(settings());
    submit_even_slices(&mut world, 6, 1, ("rack", 2), ("host", 1));
    world.settle();
    let of_pods: Vec<Option<char>> = (0..6).map(|at| rack_of(&world, &format!("j{at}"))).collect();
    assert!(of_pods.chunks(2).all(|slice| slice[0].is_some() && slice[0] == slice[1]), "{of_pods:?}");
    let hosts: BTreeSet<&str> = (0..6).filter_map(|at| world.node_of(&format!("j{at}"))).collect();
    assert_eq!(hosts.len(), 6);
}

#[test]
fn slices_that_are_to_be_even_start_wherever_they_could() {
    for seed in 0..150_u64 {
        // Numbers that look random, the same each time.
        let drawn = |what: u64, below: u64| (seed * 7_919 + what * 104_729).wrapping_mul(2_654_435_761) % 1_009 % below;
        let nodes: Vec<(String, usize, u64)> = (0..3 + drawn(0, 4))
            .map(|at| (format!("n{at}"), usize::try_from(drawn(100 + at, 3)).unwrap(), 1 + drawn(200 + at, 3)))
            .collect();
        let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
        for (name, rack, cores) in &nodes {
            let labels = vec![(Arc::from(RACK), Arc::from(rack.to_string()))];
            world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, *cores)) })));
        }
        let number = |what: u64, below: u64| u32::try_from(drawn(what, below)).unwrap();
        let (pods, size, skew) = (2 + number(1, 7), 1 + number(2, 3), 1 + number(3, 4));
        submit_even_slices(&mut world, pods, 1, ("rack", size), ("rack", skew));
        world.settle();
        // Every way to put the slices into racks.
        let racks: BTreeSet<usize> = nodes.iter().map(|(_, rack, _)| *rack).collect();
        let room = |rack: usize| nodes.iter().filter(|(_, of, _)| *of == rack).map(|(.., cores)| cores).sum::<u64>();
        let mut ways: BTreeSet<[u64; 3]> = BTreeSet::from([[0; 3]]);
        for slice in (0..pods).step_by(size as usize).map(|first| size.min(pods - first)) {
            let with = |way: &[u64; 3], rack: usize| {
                let mut way = *way;
                way[rack] += u64::from(slice);
                way
            };
            ways = ways.iter().flat_map(|way| racks.iter().map(|rack| with(way, *rack))).collect();
        }
        let is_even = |way: &[u64; 3]| {
            let counts = || racks.iter().map(|rack| way[*rack]);
            let fits = racks.iter().all(|rack| way[*rack] <= room(*rack));
            fits && counts().max().unwrap() - counts().min().unwrap() <= u64::from(skew)
        };
        let what = format!("seed {seed}: {pods} pods in slices of {size}, skew {skew}, {nodes:?}");
        assert_eq!(world.bound() == pods as usize, ways.iter().any(is_even), "{what}");
        assert!(world.bound() == 0 || world.bound() == pods as usize, "{what}");
        let rack = |at: u32| {
            let node = world.node_of(&format!("j{at}"))?;
            nodes.iter().find(|(name, ..)| name == node).map(|(_, rack, _)| *rack)
        };
        let placed: Vec<usize> = (0..pods).filter_map(rack).collect();
        assert!(placed.chunks(size as usize).all(|slice| slice.iter().all(|rack| *rack == slice[0])), "{what}");
        let way = [0, 1, 2].map(|rack| placed.iter().filter(|of| **of == rack).count() as u64);
        assert!(placed.is_empty() || is_even(&way), "{what}: {way:?}");
    }
}

#[test]
fn many_slices_are_even_over_many_racks() {
    // How many pods; the last slice may have one only. Rack 39 has room for one slice, so each other one gets two at most.
    for (pods, starts) in
        [(80, true), (79, true), (120, true), (119, true), (158, true), (157, true), (160, false), (159, false)]
    {
        let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
        for rack in 0..40 {
            for host in 0..if rack == 39 { 1 } else { 3 } {
                world.tell(node_in(&format!("n{rack}-{host}"), &format!("r{rack}")));
            }
        }
        submit_even_slices(&mut world, pods, 1, ("rack", 2), ("rack", 2));
        world.settle();
        assert_eq!(world.bound() == pods as usize, starts, "{pods} pods");
    }
}

#[test]
fn slices_that_cannot_be_even_say_why() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "a2"]);
    submit_even_slices(&mut world, 6, 2, ("rack", 2), ("rack", 2));
    world.settle();
    let (_, message) = world.blocked("j");
    let text = "The numbers of pods in any two parts of level rack may differ by 2 at most: a has room for 0, so that there is \
                room for 4 of 6 pods.";
    assert!(message.contains(text), "{message}");
}

#[test]
fn who_replaces_a_lost_pod_of_a_spread_slice_stays_with_it() {
    for bounds in [(Some(2), None), (None, Some(2))] {
        let mut world = racks(settings());
        submit(&mut world, "j", 4, 2, |pod| in_spread_slices("rack", bounds, pod));
        world.settle();
        let (rack, lost) = (rack_of(&world, "j0").expect("it runs"), world.node_of("j1").expect("it runs").to_owned());
        world.tell(Event::NodeGone(NodeName::from(lost.as_str()), Uid::from(format!("uid-{lost}"))));
        world.delete("j1");
        world.tell(node_in("new", &rack.to_string()));
        world.submit(in_spread_slices("rack", bounds, of_job(pod("successor1", 2), "j")));
        world.settle();
        let successor = world.node_of("successor1").expect("there is room");
        assert!(successor == "new" || successor.starts_with(rack), "{successor} for {rack}, {bounds:?}");
    }
}

/// Hosts a and b, each in a rack, on which pods in slices of two are even, and of which some are lost: of the pods before them. Another
/// pod has room there instead.
fn lose_of_even_slices(pods: u32, skew: u32, lost: &[&str], (full, cores): (&str, u64)) -> World {
    let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
    for rack in ["a", "b"] {
        let labels = vec![(Arc::from(HOST), Arc::from(rack)), (Arc::from(RACK), Arc::from(rack))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(rack, 2)) })));
    }
    submit_even_slices(&mut world, pods, 1, ("rack", 2), ("host", skew));
    world.settle();
    assert_eq!((world.bound(), world.node_of("j0"), world.node_of("j2")), (pods as usize, Some("a"), Some("b")));
    for name in lost {
        world.delete(name);
    }
    world.submit(Pod { node: Some(full.into()), scheduler: "other".into(), ..pod("theirs", cores) });
    // Slots are kept no longer.
    world.pass_seconds(60);
    world.settle();
    for name in lost {
        let at = name[1..].parse().expect("a number");
        world.submit(in_even_slices(("rack", 2), ("host", skew), at, of_job(pod(&format!("successor{at}"), 1), "j")));
    }
    for _ in 0..3 {
        world.settle();
        world.pass_seconds(2);
    }
    world
}

#[test]
fn who_joins_a_slice_counts_parts_in_which_other_slices_are() {
    let world = lose_of_even_slices(3, 1, &["j0", "j2"], ("b", 2));
    // Host a would have two pods, and host b, where the other slice was, none.
    assert_eq!((world.node_of("successor0"), world.node_of("successor2")), (None, None));
}

#[test]
fn who_is_kept_away_by_its_slice_keeps_nobody_of_other_slices() {
    let world = lose_of_even_slices(4, 2, &["j0", "j2"], ("a", 1));
    assert_eq!((world.node_of("successor0"), world.node_of("successor2")), (None, Some("b")));
}

#[test]
fn a_slice_for_which_no_rack_has_room_is_told_so() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "b1", "b2", "c1"]);
    submit(&mut world, "j", 4, 2, in_slices);
    world.settle();
    let (_, message) = world.blocked("j");
    let text = "4 pods start together and ask for 8 cpu, 6 free on the nodes they may use. No rack has room for 2 pods: the \
                largest, a, has room for 1.";
    assert!(message.contains(text), "{message}");
}

#[test]
fn who_replaces_a_lost_pod_stays_with_its_slice() {
    let mut world = racks(settings());
    submit(&mut world, "j", 4, 2, in_slices);
    world.settle();
    let (rack, lost) = (rack_of(&world, "j0").expect("it runs"), world.node_of("j1").expect("it runs").to_owned());
    // The other nodes of that rack are taken by now.
    let left: Vec<&str> = NODES.iter().map(|(name, _)| *name).filter(|name| name.starts_with(rack)).collect();
    let free: Vec<&str> =
        left.into_iter().filter(|name| world.pods.values().all(|pod| pod.node.as_deref() != Some(*name))).collect();
    fill(&mut world, &free);
    world.tell(Event::NodeGone(NodeName::from(lost.as_str()), Uid::from(format!("uid-{lost}"))));
    world.delete("j1");
    let successor = in_slices(of_job(pod("successor1", 2), "j"));
    world.submit(successor);
    world.settle();
    assert_eq!(world.node_of("successor1"), None, "there is room in other racks alone");
    world.tell(node_in("new", &rack.to_string()));
    world.settle();
    assert_eq!(world.node_of("successor1"), Some("new"));
}

#[test]
fn what_names_no_level_is_refused_by_name() {
    let mut world = racks(settings());
    submit(&mut world, "j", 2, 2, |pod| in_one("row", pod));
    let wrong = Unsupported { field: "metadata.annotations[x]".to_owned(), message: "is wrong".to_owned() };
    world.tell(Event::Controller(Arc::new(Controller { levels: Err(wrong), ..job("k", 2, 2) })));
    let levels = Ok(Some(within(LevelBound::Required, "row", RuleScope::Job)));
    world.tell(Event::Controller(Arc::new(Controller { levels, ..job("l", 2, 2) })));
    for name in ["k0", "k1", "l0", "l1"] {
        world.submit(of_job(pod(name, 1), &name[..1]));
    }
    world.settle();
    let field = "metadata.annotations[fluxqueue/required-level]";
    let row = format!("{field}: \"row\" is no level of this machine; there are: region, zone, block, rack, host");
    for (job, expected) in [
        ("j", format!("pod ns/j0: {row}")),
        ("k", "Job ns/k: metadata.annotations[x]: is wrong".to_owned()),
        ("l", format!("Job ns/l: {row}")),
    ] {
        assert_eq!(world.state(job), Some(JobState::Refused), "{job}");
        assert_eq!(world.blocked(job), ("UnsupportedConstraint".to_owned(), expected.clone()));
        assert_eq!(world.conditions[&format!("{job}1")].message.replace("j1", "j0"), expected);
    }
}

#[test]
fn what_the_job_itself_asks_for_counts_for_its_pods() {
    let mut world = racks(settings());
    let levels = Ok(Some(within(LevelBound::Required, "rack", RuleScope::Job)));
    world.tell(Event::Controller(Arc::new(Controller { levels, ..job("j", 3, 3) })));
    for name in ["j0", "j1", "j2"] {
        world.submit(of_job(pod(name, 2), "j"));
    }
    world.settle();
    assert_eq!(racks_of(&world, "j"), "bbb");
}

#[test]
fn a_library_without_levels_refuses_who_needs_one() {
    let plain = FunctionTable { extensions: None, ..FunctionTable::builtin() };
    let mut world = World::on(plain, &[("a", 4)]);
    submit(&mut world, "j", 2, 1, |pod| in_one("rack", pod));
    submit(&mut world, "k", 2, 1, |pod| Pod {
        levels: Some(within(LevelBound::Preferred, "rack", RuleScope::Job)),
        ..pod
    });
    world.settle();
    let (reason, message) = world.blocked("j");
    assert!(reason == "UnsupportedConstraint" && message.ends_with("knows no levels above nodes"), "{message}");
    assert_eq!((world.node_of("k0"), world.node_of("k1")), (Some("a"), Some("a")));
    let status = world.record("k").status.as_ref().expect("a status");
    assert!(status.conditions.iter().any(|said| said.type_ == "SoftTermsIgnored"), "{status:?}");
}

/// No more than so many in one rack.
pub(super) fn at_most(most: u32, pod: Pod) -> Pod {
    spread_over("rack", (Some(most), None), pod)
}

/// No rack has so many more than another.
pub(super) fn skewed(skew: u32, pod: Pod) -> Pod {
    spread_over("rack", (None, Some(skew)), pod)
}

fn spread_over(level: &str, (max_per_part, max_skew): (Option<u32>, Option<u32>), pod: Pod) -> Pod {
    let bound = LevelBound::Spread(Spread { max_per_part, max_skew });
    Pod { levels: Some(within(bound, level, RuleScope::Job)), ..pod }
}

#[test]
fn slices_that_ask_for_nodes_alone_have_them() {
    // Pods of another scheduler on these nodes, whether two slices of two pods start; a pod has half of a node.
    for (used, starts) in [(&["a1", "b1"][..], true), (&["a1", "a2", "b1", "b2", "b3", "c1"], false)] {
        let mut world = racks(settings());
        for node in used {
            let small = pod(&format!("on-{node}"), 1);
            world.submit(Pod { node: Some((*node).into()), scheduler: "other".into(), ..small });
        }
        submit(&mut world, "j", 4, 1, |pod| Pod { exclusive: Some(true), ..in_slices(pod) });
        world.settle();
        let nodes: BTreeSet<&str> = (0..4).filter_map(|at| world.node_of(&format!("j{at}"))).collect();
        assert_eq!(!nodes.is_empty(), starts, "{used:?}: {nodes:?}");
        assert!(used.iter().all(|node| !nodes.contains(node)), "{used:?}: {nodes:?}");
        for first in [0, 2] {
            assert_eq!(rack_of(&world, &format!("j{first}")), rack_of(&world, &format!("j{}", first + 1)));
        }
        if !starts {
            let (_, message) = world.blocked("j");
            assert!(message.contains("6 node(s) were used by others"), "{message}");
        }
    }
}
