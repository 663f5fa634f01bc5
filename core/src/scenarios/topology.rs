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
    Arc::from([LevelRule {
        level: level.into(),
        bound,
        of,
        annotation: "fluxqueue/required-level",
    }])
}

pub(super) fn in_one(level: &str, pod: Pod) -> Pod {
    Pod { levels: Some(within(LevelBound::Required, level, RuleScope::Job)), ..pod }
}

/// Submits a Job with pods of this number of cores, `<name>0`, `<name>1` and so on, which all have
/// the same rules.
pub(super) fn submit(
    world: &mut World,
    name: &str,
    pods: u32,
    cores: u64,
    ask: impl Fn(Pod) -> Pod,
) {
    world.tell(Event::Controller(Arc::new(job(name, pods, pods))));
    for at in 0..pods {
        world.submit(ask(of_job(pod(&format!("{name}{at}"), cores), name)));
    }
}

/// The racks in which pods of a Job are, one letter each.
pub(super) fn racks_of(world: &World, name: &str) -> String {
    let pods = world.pods.iter().filter(|(pod, _)| pod.starts_with(name));
    let mut racks: Vec<char> =
        pods.filter_map(|(_, pod)| pod.node.as_ref()?.chars().next()).collect();
    racks.sort_unstable();
    racks.into_iter().collect()
}

/// The rack of a pod.
pub(super) fn rack_of(world: &World, pod: &str) -> Option<char> {
    world.node_of(pod)?.chars().next()
}

/// A pod of a job with at most this number of pods in one rack.
pub(super) fn at_most(most: u32, pod: Pod) -> Pod {
    spread_over("rack", (Some(most), None), pod)
}

/// A pod of a job with at most this difference between the numbers of pods in two racks.
pub(super) fn skewed(skew: u32, pod: Pod) -> Pod {
    spread_over("rack", (None, Some(skew)), pod)
}

pub(super) fn spread_over(
    level: &str,
    (max_per_part, max_skew): (Option<u32>, Option<u32>),
    pod: Pod,
) -> Pod {
    let bound = LevelBound::Spread(Spread { max_per_part, max_skew });
    Pod { levels: Some(within(bound, level, RuleScope::Job)), ..pod }
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
    let [of_level, of_nodes, ..] = &world.blockers("j")[..] else {
        panic!("{:?}", world.blockers("j"))
    };
    assert_eq!((of_level.reason, of_level.message.as_str()), (NoRoomInLevel, text));
    assert_eq!((of_level.level.as_deref(), of_level.part.as_deref()), (Some("rack"), Some("b")));
    assert_eq!(
        (of_level.requested.as_deref(), of_level.available.as_deref()),
        (Some("3"), Some("2"))
    );
    assert_eq!(of_nodes.reason, InsufficientResources);
    let of_pod = &world.conditions["j0"].message;
    assert!(of_pod.contains(text), "{of_pod}");
    let (reason, message) = world.blocked("k");
    let text = "No rack would have room for 4 pods: the largest, b, would have room for 3.";
    assert!(reason == "Unsatisfiable" && message.ends_with(text), "{reason}: {message}");
    assert_eq!(world.blockers("k")[1].available.as_deref(), Some("3"));
    let (reason, message) = world.blocked("l");
    assert!(
        reason == "Unsatisfiable" && message.ends_with("No node that they may use is in a zone."),
        "{message}"
    );
}

#[test]
fn what_is_short_in_all_is_said_before_what_is_short_in_a_rack() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "a2", "b1", "c1", "c2"]);
    submit(&mut world, "j", 3, 2, |pod| in_one("rack", pod));
    world.settle();
    let blockers = world.blockers("j");
    assert_eq!([blockers[0].reason, blockers[1].reason], [InsufficientResources, NoRoomInLevel]);
    assert_eq!(
        (blockers[1].requested.as_deref(), blockers[1].available.as_deref()),
        (Some("3"), Some("2"))
    );
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
    submit(&mut world, "j", 3, 2, |pod| Pod {
        lifetime: Lifetime::Seconds(50),
        ..in_one("rack", pod)
    });
    world.settle();
    let start = world.now.seconds();
    let reservation =
        world.record("j").status.as_ref().unwrap().reservation.clone().expect("a promise");
    let nodes = reservation.nodes;
    assert_eq!(nodes, "b[1-3]");
    assert_eq!(world.estimate("j"), Some((EstimateKind::Reserved, start + 300)));
    // Pods that do not need a rack may use the free room until then, and no longer.
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
    submit(&mut world, "j", 3, 2, |pod| Pod {
        lifetime: Lifetime::Seconds(50),
        ..in_one("rack", pod)
    });
    world.settle();
    let (_, message) = world.blocked("j");
    assert!(message.contains("No rack has room for 3 pods."), "{message}");
    world.pass_seconds(301);
    world.settle();
    let reservation =
        world.record("j").status.as_ref().unwrap().reservation.clone().expect("nodes are held");
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
    assert_eq!(
        (racks_of(&world, "j"), racks_of(&world, "k")),
        ("bbb".to_owned(), "bbb".to_owned())
    );
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
        world
            .tell(Event::NodeGone(NodeName::from(lost.as_str()), Uid::from(format!("uid-{lost}"))));
        world.delete("j1");
        world.submit(in_one("rack", of_job(pod("j2", 2), "j")));
        world.settle();
        assert_eq!(world.node_of("j2"), None, "there is room in other racks alone");
        let message = &world.conditions["j2"].message;
        assert!(
            message.contains("The rest of its job is in rack a, which has no room for 1 pod more."),
            "{message}"
        );
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

/// Submits a StatefulSet with pods of these numbers of cores, `s0`, `s1` and so on.
pub(super) fn serve(world: &mut World, cores: &[u64], ask: impl Fn(Pod) -> Pod) {
    let replicas = u32::try_from(cores.len()).unwrap();
    let service = Controller {
        kind: OwnerKind::StatefulSet,
        completions: None,
        ..job("s", replicas, replicas)
    };
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
        let busy = Pod {
            lifetime: Lifetime::Seconds(100),
            started: Some(world.now),
            ..pod(&format!("busy{at}"), 1)
        };
        world.submit(neighbours::on(busy, node));
    }
    serve(&mut world, &[2, 1], |pod| in_one("rack", pod));
    world.settle();
    assert_eq!(racks_of(&world, "s"), "", "s0 will start, and s1 is to be where it is");
    let message = &world.conditions["s1"].message;
    assert_eq!(
        message,
        "Waits for pod s0 of its job: where this one may be depends on where that one is."
    );
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
    // A pod gets its message after a while.
    world.pass_seconds(40);
    world.settle();
    let message = &world.conditions["s1"].message;
    assert!(message.contains("The rest of its job is in rack a"), "{message}");
}

#[test]
fn of_two_of_a_service_one_starts_and_the_other_is_promised_a_start_and_that_is_not_taken_back() {
    // Cores of both, and their places in the end: in rack b another pod has all of seven cores
    // until second 100, rack a has three.
    for (cores, in_the_end) in [([4, 3], [Some("b1"), Some("b1")]), ([3, 4], [Some("a1"), None])] {
        let policy = QueuePolicy::Conservative;
        let mut world = World::told(
            CoreSettings { queue_policy: policy, ..settings() },
            FunctionTable::builtin(),
            &[],
        );
        world.tell(node_in("c1", "c"));
        serve(&mut world, &cores, |pod| in_one("rack", pod));
        world.settle();
        assert_eq!(racks_of(&world, "s"), "", "neither fits");
        let busy =
            Pod { lifetime: Lifetime::Seconds(100), started: Some(world.now), ..pod("busy", 7) };
        world.submit(neighbours::on(busy, "b1"));
        for (name, rack, cores) in [("b1", "b", 7), ("a1", "a", 3)] {
            let labels =
                vec![(Arc::from(HOST), Arc::from(name)), (Arc::from(RACK), Arc::from(rack))];
            world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, cores)) })));
        }
        // In one walk there is a place for one of them in rack a now, and for the other one in rack
        // b later.
        for second in 0..110 {
            world.settle();
            world.pass_seconds(1);
            if second == 99 {
                world.change("busy", |pod| pod.phase = Phase::Succeeded);
            }
        }
        assert_eq!(["s0", "s1"].map(|name| world.node_of(name)), in_the_end, "{cores:?}");
        assert!(
            world.core.gauges().reservations_delayed.is_empty(),
            "{cores:?}: {:?}",
            world.core.gauges()
        );
        assert!(!world.notes.contains(&"ReservationDelayed".to_owned()), "{cores:?}");
    }
}

#[test]
fn a_level_that_is_preferred_is_no_condition() {
    let preferred =
        |pod| Pod { levels: Some(within(LevelBound::Preferred, "rack", RuleScope::Job)), ..pod };
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
    for (name, zone, rack) in
        [("a", "x", "1"), ("b", "y", "1"), ("c", "x", "2"), ("d", "y", "2"), ("e", "y", "3")]
    {
        let label = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
        let labels = vec![label(RACK, rack), label("topology.kubernetes.io/zone", zone)];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 2)) })));
    }
    let preferred =
        |pod| Pod { levels: Some(within(LevelBound::Preferred, "rack", RuleScope::Job)), ..pod };
    submit(&mut world, "j", 3, 2, preferred);
    submit(&mut world, "k", 2, 2, preferred);
    world.settle();
    assert_eq!((racks_of(&world, "j"), racks_of(&world, "k")), ("bde".to_owned(), "ac".to_owned()));
}

#[test]
fn roles_are_each_in_a_rack_and_jobs_in_one() {
    // A launcher of 1 core and three workers of 2: all together they need more than a rack has.
    for (of, expected) in
        [(RuleScope::Role, true), (RuleScope::Job, false), (RuleScope::Group("g".into()), false)]
    {
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

#[test]
fn what_names_no_level_is_refused_by_name() {
    let mut world = racks(settings());
    submit(&mut world, "j", 2, 2, |pod| in_one("row", pod));
    let wrong =
        Unsupported { field: "metadata.annotations[x]".to_owned(), message: "is wrong".to_owned() };
    world.tell(Event::Controller(Arc::new(Controller { levels: Err(wrong), ..job("k", 2, 2) })));
    let levels = Ok(Some(within(LevelBound::Required, "row", RuleScope::Job)));
    world.tell(Event::Controller(Arc::new(Controller { levels, ..job("l", 2, 2) })));
    for name in ["k0", "k1", "l0", "l1"] {
        world.submit(of_job(pod(name, 1), &name[..1]));
    }
    world.settle();
    let field = "metadata.annotations[fluxqueue/required-level]";
    let row = format!(
        "{field}: \"row\" is no level of this machine; there are: region, zone, block, rack, host"
    );
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
    assert!(
        reason == "UnsupportedConstraint" && message.ends_with("knows no levels above nodes"),
        "{message}"
    );
    assert_eq!((world.node_of("k0"), world.node_of("k1")), (Some("a"), Some("a")));
    let status = world.record("k").status.as_ref().expect("a status");
    assert!(status.conditions.iter().any(|said| said.type_ == "SoftTermsIgnored"), "{status:?}");
}
