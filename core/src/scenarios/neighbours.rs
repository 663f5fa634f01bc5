//! Pods that keep others away, want them near, or are spread among them.

use fluxqueue_workload::constraints::{
    HostPort, NamespaceScope, Operator, PodSelector, PodTerm, Requirement, SpreadConstraint,
};
use fluxqueue_workload::metadata::Labels;

use super::*;
use crate::QueuePolicy;

pub(super) fn constrained(mut pod: Pod, how: impl FnOnce(&mut Constraints)) -> Pod {
    let mut constraints = pod.shape.constraints.clone();
    how(&mut constraints);
    pod.shape = Arc::new(Shape { constraints, ..Shape::clone(&pod.shape) });
    pod
}

fn with_port(pod: Pod) -> Pod {
    let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 };
    constrained(pod, |constraints| constraints.host_ports = vec![port])
}

pub(super) fn labels(app: &str) -> Labels {
    Arc::from([(Arc::from("app"), Arc::from(app))])
}

/// A pod with this label, and its rules about pods with that label.
pub(super) fn labelled(
    pod: Pod,
    app: &str,
    how: impl FnOnce(&mut Constraints, PodSelector),
) -> Pod {
    let of_app =
        Requirement { key: "app".into(), operator: Operator::In, values: vec![app.into()] };
    let namespaces = NamespaceScope { named: vec!["ns".into()], selected: None };
    let like_it = PodSelector { namespaces, labels: Some(vec![of_app]) };
    Pod { labels: labels(app), ..constrained(pod, |constraints| how(constraints, like_it)) }
}

pub(super) fn apart(pod: Pod, app: &str, key: &str) -> Pod {
    labelled(pod, app, |constraints, pods| {
        constraints.repels.push(PodTerm { pods, topology_key: key.into() });
    })
}

pub(super) fn near(pod: Pod, app: &str, key: &str) -> Pod {
    labelled(pod, app, |constraints, pods| {
        constraints.near.push(PodTerm { pods, topology_key: key.into() });
    })
}

pub(super) fn spread(pod: Pod, app: &str, key: &str) -> Pod {
    labelled(pod, app, |constraints, pods| {
        constraints.spreads.push(SpreadConstraint {
            pods,
            topology_key: key.into(),
            max_skew: 1,
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        });
    })
}

/// Nodes with their racks, with this number of cores each.
pub(super) fn racks(nodes: &[(&str, &str, u64)]) -> World {
    racks_under(settings().queue_policy, nodes)
}

/// The same, under a queue policy.
pub(super) fn racks_under(queue_policy: QueuePolicy, nodes: &[(&str, &str, u64)]) -> World {
    let mut world =
        World::told(CoreSettings { queue_policy, ..settings() }, FunctionTable::builtin(), &[]);
    list_racks(&mut world, nodes);
    world
}

pub(super) fn list_racks(world: &mut World, nodes: &[(&str, &str, u64)]) {
    for (name, rack, cores) in nodes {
        let labels = vec![("host".into(), (*name).into()), ("rack".into(), (*rack).into())];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, *cores)) })));
    }
}

pub(super) fn on(pod: Pod, node: &str) -> Pod {
    Pod { node: Some(node.into()), scheduler: "other".into(), ..pod }
}

/// Returns how many of the pods `p0`, `p1` and so on are on nodes with names that begin like this.
pub(super) fn count(world: &World, pods: usize, node: &str) -> usize {
    (0..pods)
        .filter(|at| world.node_of(&format!("p{at}")).is_some_and(|on| on.starts_with(node)))
        .count()
}

#[test]
fn a_node_that_is_closed_for_two_reasons_is_counted_for_the_first() {
    let mut world = World::new(&[("a", 8), ("b", 8)]);
    world.submit(with_port(on(pod("theirs", 1), "a")));
    world.tell(Event::Node(Arc::new(Node { unschedulable: true, ..Node::clone(&node("a", 8)) })));
    world.tell(Event::Node(Arc::new(Node { unschedulable: true, ..Node::clone(&node("b", 8)) })));
    world.submit(with_port(pod("ours", 1)));
    world.settle();
    assert_eq!(world.blocked("ours").1, "0/2 nodes are available: 2 node(s) were unschedulable.");
}

#[test]
fn lone_pods_apart_from_their_like_share_no_node_and_the_next_starts_when_one_has_gone() {
    let mut world = racks(&[("a", "r", 8), ("b", "r", 8)]);
    for name in ["p0", "p1", "p2"] {
        world.submit(Pod { lifetime: Lifetime::Endless, ..apart(pod(name, 1), "x", "host") });
    }
    world.settle();
    assert_eq!((count(&world, 3, "a"), count(&world, 3, "b")), (1, 1));
    let waits = ["p0", "p1", "p2"].into_iter().find(|name| world.node_of(name).is_none()).unwrap();
    let why = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.";
    assert_eq!(world.blocked(waits).1, why);
    world.submit(pod("other", 8 - 1));
    world.settle();
    assert!(world.node_of("other").is_some(), "who waits for services holds nobody up");
    let first = ["p0", "p1"].into_iter().find(|name| *name != waits).unwrap();
    world.change(first, |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert!(world.node_of(waits).is_some());
}

#[test]
fn a_pod_near_others_waits_for_them_and_one_near_its_like_may_be_the_first() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 8)]);
    let follower = near(pod("follows", 1), "x", "rack");
    world.submit(Pod { labels: labels("y"), ..follower });
    world.settle();
    let why = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.";
    assert_eq!((world.node_of("follows"), world.blocked("follows").1.as_str()), (None, why));
    world.submit(Pod { labels: labels("x"), ..on(pod("leads", 1), "b") });
    world.settle();
    assert_eq!(world.node_of("follows"), Some("b"));
    world.submit(near(pod("first", 1), "z", "rack"));
    world.settle();
    assert!(world.node_of("first").is_some());
}

#[test]
fn a_pod_whose_labels_change_is_seen_with_the_new_ones() {
    let mut world = racks(&[("a", "r1", 8)]);
    world.submit(Pod { labels: labels("x"), ..on(pod("theirs", 1), "a") });
    world.submit(apart(pod("p0", 1), "x", "host"));
    world.settle();
    assert_eq!(world.node_of("p0"), None);
    world.change("theirs", |pod| pod.labels = labels("y"));
    world.settle();
    assert_eq!(world.node_of("p0"), Some("a"));
}

/// A pod with the same demand is no longer behind it, since it may go elsewhere now.
#[test]
fn a_pod_that_waits_and_gets_a_label_is_kept_away_by_it_and_holds_nobody_up() {
    let mut world = racks(&[("a", "r1", 8)]);
    world.submit(Pod { lifetime: Lifetime::Endless, ..apart(on(pod("shy", 1), "a"), "x", "host") });
    world.submit(on(pod("busy", 7), "a"));
    for name in ["p0", "p1"] {
        world.submit(Pod { labels: labels("z"), ..pod(name, 4) });
        world.settle();
    }
    let repels = |world: &World| {
        let mut waiting = world
            .core
            .jobs
            .members
            .values()
            .filter(|member| member.pod.id.key.name.as_ref() == "p0");
        waiting.next().is_some_and(|member| !member.terms.stance.repelled_by.is_empty())
    };
    assert!(!repels(&world));
    world.change("p0", |pod| pod.labels = labels("x"));
    world.settle();
    assert!(repels(&world));
    world.change("busy", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (None, Some("a")));
}

#[test]
fn of_those_who_wait_only_they_are_looked_at_whom_the_terms_of_a_pod_select() {
    let mut world = racks(&[("a", "r1", 8)]);
    world.submit(on(pod("busy", 7), "a"));
    for at in 0..20 {
        world.submit(Pod { labels: labels("z"), ..pod(&format!("z{at}"), 2) });
    }
    world.submit(Pod { labels: labels("x"), ..pod("x", 2) });
    world.settle();
    for (of, affected) in [("z", 20), ("x", 1), ("nobody", 0)] {
        let before = world.core.gauges().jobs_looked_at;
        let name = format!("shy-of-{of}");
        world.submit(Pod { labels: labels("shy"), ..apart(on(pod(&name, 0), "a"), of, "host") });
        world.settle();
        let looked_at = world.core.gauges().jobs_looked_at - before;
        assert!((affected..affected + 5).contains(&looked_at), "{of}: {looked_at}");
    }
}

/// Its own start is news only for pods with rules about other pods.
#[test]
fn who_keeps_others_away_leads_to_no_more_passes_than_another_pod() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r1", 8)]);
    world.submit(pod("waits", 9));
    world.settle();
    let mut passes_with = |pod: Pod| {
        let before = world.core.gauges().passes;
        let name = pod.id.key.name.to_string();
        world.submit(pod);
        world.settle();
        assert!(world.node_of(&name).is_some(), "{name}");
        world.core.gauges().passes - before
    };
    passes_with(Pod { labels: labels("shy"), ..apart(pod("first", 1), "shy", "host") });
    let plain = passes_with(pod("plain", 1));
    let shy = passes_with(Pod { labels: labels("shy"), ..apart(pod("second", 1), "shy", "host") });
    assert_eq!(shy, plain);
}

pub(super) fn gang(world: &mut World, size: u32, how: impl Fn(Pod) -> Pod) {
    gang_of(world, size, 1, how);
}

/// The same with pods of this number of cores.
pub(super) fn gang_of(world: &mut World, size: u32, cores: u64, how: impl Fn(Pod) -> Pod) {
    world.tell(Event::Controller(Arc::new(job("j", size, size))));
    for at in 0..size {
        world.submit(how(of_job(pod(&format!("p{at}"), cores), "j")));
    }
    world.settle();
}

#[test]
fn a_gang_is_spread_with_those_that_are_there_already() {
    let mut world = racks(&[("a1", "a", 8), ("b1", "b", 2), ("b2", "b", 2), ("c1", "c", 8)]);
    for at in 0..2 {
        world.submit(Pod { labels: labels("x"), ..on(pod(&format!("there-{at}"), 1), "a1") });
    }
    gang(&mut world, 7, |pod| spread(pod, "x", "rack"));
    let found = (count(&world, 7, "a"), count(&world, 7, "b"), count(&world, 7, "c"));
    assert_eq!(found, (1, 3, 3));
}

#[test]
fn a_gang_that_cannot_be_spread_waits_holds_nobody_up_and_starts_when_it_can() {
    let mut world = racks(&[("a1", "a", 8), ("b1", "b", 1)]);
    gang(&mut world, 4, |pod| spread(pod, "x", "rack"));
    assert_eq!(count(&world, 4, ""), 0);
    assert!(world.blocked("j").1.contains("was found"), "{}", world.blocked("j").1);
    world.submit(pod("other", 1));
    world.settle();
    assert!(world.node_of("other").is_some());
    let labels = vec![("host".into(), "b2".into()), ("rack".into(), "b".into())];
    world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node("b2", 2)) })));
    world.settle();
    assert_eq!((count(&world, 4, "a"), count(&world, 4, "b")), (2, 2));
}

#[test]
fn members_apart_from_each_other_share_no_domain() {
    let mut world = racks(&[("a1", "a", 8), ("a2", "a", 8), ("b1", "b", 8), ("c1", "c", 8)]);
    gang(&mut world, 3, |pod| apart(pod, "x", "rack"));
    assert_eq!((count(&world, 3, "a"), count(&world, 3, "b"), count(&world, 3, "c")), (1, 1, 1));
    let mut world = racks(&[("a1", "a", 8), ("a2", "a", 8), ("b1", "b", 8)]);
    gang(&mut world, 3, |pod| apart(pod, "x", "host"));
    assert_eq!((count(&world, 3, "a1"), count(&world, 3, "a2"), count(&world, 3, "b1")), (1, 1, 1));
}

#[test]
fn members_near_each_other_go_to_one_domain_that_has_room_for_all() {
    let mut world = racks(&[("a1", "a", 3), ("b1", "b", 2), ("b2", "b", 2), ("c1", "c", 8)]);
    gang(&mut world, 4, |pod| near(pod, "x", "rack"));
    assert_eq!(count(&world, 4, "b"), 4, "the tightest");
}

#[test]
fn roles_that_keep_apart_from_each_other_are_placed_together() {
    let mut world = racks(&[("a1", "a", 4), ("b1", "b", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for at in 0..4 {
        let (mine, others) = if at == 0 { ("leader", "worker") } else { ("worker", "leader") };
        let member = apart(of_job(pod(&format!("p{at}"), 1), "j"), others, "rack");
        world.submit(Pod { labels: labels(mine), ..member });
    }
    world.settle();
    assert_eq!(count(&world, 4, ""), 4);
    let leader = world.node_of("p0").unwrap();
    assert!((1..4).all(|at| world.node_of(&format!("p{at}")) != Some(leader)));
}

#[test]
fn no_start_is_promised_to_a_gang_that_depends_on_other_pods() {
    let mut world = racks_under(QueuePolicy::Conservative, &[("a", "r1", 2), ("b", "r2", 2)]);
    let until = |pod: Pod| Pod { lifetime: Lifetime::Seconds(100), ..pod };
    for (name, node) in [("t0", "a"), ("t1", "b")] {
        world.submit(until(on(pod(name, 2), node)));
    }
    gang(&mut world, 2, |pod| apart(until(pod), "x", "host"));
    assert_eq!(count(&world, 2, ""), 0);
    let status = world.record("j").status.clone().unwrap();
    assert_eq!(status.reservation, None, "its nodes depend on pods that come and go");
}

#[test]
fn the_rule_is_asked_again_before_a_gang_begins() {
    let mut world = racks(&[("a", "r1", 2), ("b", "r2", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for at in 0..2 {
        world.submit(apart(of_job(pod(&format!("p{at}"), 1), "j"), "x", "host"));
    }
    // The placement is decided, and not acknowledged.
    let actions = world.step();
    assert_eq!(binds(&actions), 0);
    world.submit(Pod { labels: labels("x"), ..on(pod("theirs", 1), "a") });
    world.carry_out_all(actions);
    world.settle();
    assert_eq!(count(&world, 2, ""), 0, "one of its nodes has such a pod by now");
    assert_eq!(world.core.gauges().placements_withdrawn, 1);
}

#[test]
fn namespaces_are_chosen_by_the_labels_that_they_have_now() {
    use fluxqueue_planner::queues::Namespace;
    let mut world = racks(&[("a", "r1", 8)]);
    let theirs = |team: &str| {
        let labels = Arc::from([(Arc::from("team"), Arc::from(team))]);
        Event::Namespace(Arc::new(Namespace {
            name: "theirs".into(),
            uid: Uid::from("n"),
            labels,
            queue: None,
            paused: None,
        }))
    };
    world.tell(theirs("x"));
    let id = ObjectRef { key: ObjectKey::new("theirs", "there"), uid: Uid::from("uid-there") };
    world.submit(Pod { id, labels: labels("x"), ..on(pod("there", 1), "a") });
    let team = Requirement { key: "team".into(), operator: Operator::In, values: vec!["x".into()] };
    let mut ours = apart(pod("ours", 1), "x", "host");
    ours = constrained(ours, |constraints| {
        constraints.repels[0].pods.namespaces =
            NamespaceScope { named: vec![], selected: Some(vec![team]) };
    });
    world.submit(ours);
    world.settle();
    assert_eq!(world.node_of("ours"), None);
    world.tell(theirs("y"));
    world.settle();
    assert_eq!(world.node_of("ours"), Some("a"));
}

#[test]
fn a_gang_for_whose_terms_there_is_no_place_is_told_so() {
    let mut world = racks(&[("a", "r", 8), ("b", "r", 8)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["p0", "p1"] {
        world.submit(apart(of_job(pod(name, 1), "j"), "x", "rack"));
    }
    world.settle();
    let (_, text) = world.blocked("j");
    assert!(
        text.contains("No placement of all of them together was found that keeps what they ask about other pods"),
        "{text}"
    );
}

#[test]
fn who_is_kept_away_from_nodes_that_he_was_promised_has_not_been_changed() {
    for policy in [QueuePolicy::Conservative, QueuePolicy::Easy] {
        let mut world = World::told(
            CoreSettings { queue_policy: policy, ..settings() },
            FunctionTable::builtin(),
            &[],
        );
        let node = Node { labels: vec![("host".into(), "b".into())], ..Node::clone(&node("b", 8)) };
        world.tell(Event::Node(Arc::new(node)));
        let lasts = |pod: Pod, seconds: u64| Pod { lifetime: Lifetime::Seconds(seconds), ..pod };
        world.submit(Pod { started: Some(world.now), ..lasts(on(pod("busy", 4), "b"), 100) });
        world.submit(Pod { labels: labels("x"), ..lasts(pod("waits", 6), 50) });
        world.settle();
        // Another scheduler puts one there that wants no x beside it.
        let shy =
            Pod { labels: labels("y"), ..lasts(apart(on(pod("shy", 1), "b"), "x", "host"), 1_000) };
        world.submit(Pod { started: Some(world.now), ..shy });
        for _ in 0..3 {
            world.settle();
            world.pass_seconds(1);
        }
        assert_eq!(world.node_of("waits"), None);
        let delayed: Vec<_> = world
            .core
            .gauges()
            .reservations_delayed
            .iter()
            .map(|(cause, n)| (*cause, *n))
            .collect();
        assert_eq!(delayed, [("capacity", 1)], "{policy:?}");
    }
}

#[test]
fn the_check_before_a_binding_changes_nothing() {
    let asked: [fn(Pod) -> Pod; 2] =
        [|pod| labelled(pod, "x", |_, _| {}), |pod| apart(pod, "x", "rack")];
    for (at, asked) in asked.into_iter().enumerate() {
        let mut world = racks(&[("a1", "a", 8)]);
        world.submit(asked(pod("asked", 1)));
        world.submit(Pod { priority: -1, ..apart(pod("asks", 401), "x", "host") });
        // With terms of its own the pod keeps this one away.
        world.submit(labelled(pod("kept", 1), "x", |_, _| {}));
        world.settle();
        assert_eq!(
            (world.node_of("asked"), world.node_of("kept").is_some()),
            (Some("a1"), at == 0)
        );
        let seen = |core: &mut Core| {
            let kept = core
                .planner
                .cluster
                .neighbours()
                .stance(&core.jobs.members[&Uid::from("uid-kept")].pod.clone());
            let versions = (
                core.planner.cluster.neighbours().crowds_version(),
                core.planner.cluster.neighbours().repellers_version(),
            );
            (
                versions,
                core.planner.ledger.changes.count(),
                core.planner.cluster.neighbours().changed_terms().is_none(),
                kept,
            )
        };
        let before = seen(&mut world.core);
        assert!(world.core.binding().still_fits(&Uid::from("uid-asked")));
        assert_eq!(
            seen(&mut world.core),
            before,
            "versions, changes, terms, and what keeps another pod away"
        );
    }
}

/// The number of walks over the queue while ten gangs of two pods start one after the other, and a
/// pod waits that asks about pods with the label "x".
fn walks_while_gangs_start(member: impl Fn(Pod) -> Pod) -> u64 {
    let mut world = racks(&[("a1", "a", 400), ("b1", "b", 400), ("c1", "c", 1)]);
    world.submit(on(pod("fills", 1), "c1"));
    world.submit(Pod { priority: -1, ..apart(pod("asker", 401), "x", "host") });
    world.settle();
    assert!(world.node_of("asker").is_none());
    let before = world.core.gauges().passes;
    for at in 0..10 {
        let name = format!("g{at}");
        world.tell(Event::Controller(Arc::new(job(&name, 2, 2))));
        for of in ["a", "b"] {
            world.submit(of_job(member(pod(&format!("{name}{of}"), 1)), &name));
        }
        world.settle();
    }
    assert_eq!(world.bound(), 21);
    world.core.gauges().passes - before
}

#[test]
fn bindings_of_pods_that_others_ask_about_lead_to_no_more_walks() {
    let unrelated = walks_while_gangs_start(|pod| labelled(pod, "y", |_, _| {}));
    let related = walks_while_gangs_start(|pod| labelled(pod, "x", |_, _| {}));
    assert!(related <= unrelated + 2, "{related} walks, {unrelated} where no pod asks about them");
    // Pods that keep others away as well: a term that comes or goes with them is news, and their
    // check is not.
    let apart_from_none = |label: &'static str| {
        move |pod: Pod| {
            let pod = apart(pod, "nothing", "host");
            Pod { labels: labels(label), ..pod }
        }
    };
    let (unrelated, related) = (
        walks_while_gangs_start(apart_from_none("y")),
        walks_while_gangs_start(apart_from_none("x")),
    );
    assert!(related <= unrelated + 2, "{related} walks, {unrelated} where no pod asks about them");
}
