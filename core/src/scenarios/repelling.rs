//! Pods that would keep others away from nodes promised to them, or held for them: they go
//! elsewhere, or wait.

use super::neighbours::{apart, constrained, labels, on, racks_under};
use super::promises::{lasting, reserved, starts};
use super::*;
use crate::QueuePolicy;

/// Pods that start at their own time wait behind these: two nodes in one rack and one in another,
/// each half full until some time.
fn busy(policy: QueuePolicy) -> World {
    let mut world = racks_under(policy, &[("a1", "a", 8), ("a2", "a", 8), ("b1", "b", 8)]);
    for (node, seconds) in [("a1", 100), ("a2", 200), ("b1", 300)] {
        let there = on(lasting(&format!("busy-{node}"), 4, seconds), node);
        world.submit(Pod { started: Some(world.now), phase: Phase::Running, ..there });
    }
    world.settle();
    world
}

/// The first of these nodes is promised to a pod with label x.
fn promised(policy: QueuePolicy) -> World {
    let mut world = busy(policy);
    world.submit(Pod { labels: labels("x"), ..lasting("waits", 6, 50) });
    world.settle();
    assert_eq!(reserved(&world, "waits"), Some((Some(2100), "a1".to_owned())));
    world
}

/// A pod with label y that wants no pods with this label in its domain, for so long.
fn shy(name: &str, of: &str, key: &str, seconds: u64) -> Pod {
    Pod { labels: labels("y"), ..apart(lasting(name, 1, seconds), of, key) }
}

fn known(world: &World, node: &str) -> Node {
    let cluster = &world.core.planner.cluster;
    let rank = cluster.rank(node).expect("it is there");
    Node::clone(cluster.node(rank).expect("it is there"))
}

/// Checks that the promise comes true on time, and that no other start was reported.
fn comes_true(world: &mut World) {
    for _ in 0..3 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(reserved(world, "waits"), Some((Some(2100), "a1".to_owned())));
    world.pass_seconds(97);
    world.change("busy-a1", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("waits"), Some("a1"));
    assert!(world.core.gauges().reservations_delayed.is_empty());
}

const BACKFILL: [QueuePolicy; 3] =
    [QueuePolicy::Easy, QueuePolicy::Hybrid, QueuePolicy::Conservative];

#[test]
fn a_lone_pod_goes_to_no_domain_that_is_promised_to_whom_it_repels() {
    for policy in BACKFILL {
        let mut world = promised(policy);
        world.submit(shy("by-rack", "x", "rack", 1_000));
        world.submit(shy("by-host", "x", "host", 1_000));
        world.settle();
        assert_eq!(
            (world.node_of("by-rack"), world.node_of("by-host")),
            (Some("b1"), Some("a2")),
            "{policy:?}"
        );
        comes_true(&mut world);
    }
}

#[test]
fn who_repels_others_than_those_who_are_promised_a_node_goes_there() {
    let mut world = promised(QueuePolicy::Conservative);
    world.submit(shy("shy", "z", "rack", 1_000));
    world.settle();
    assert_eq!(world.node_of("shy"), Some("a1"));
    comes_true(&mut world);
}

/// The nodes of a promise are chosen again without those to which its pods may not come now: the
/// promise would not have these while the repelling pod runs.
#[test]
fn who_would_end_before_the_promised_start_waits_all_the_same() {
    let mut world = promised(QueuePolicy::Conservative);
    assert!(starts(&mut world, lasting("fills", 4, 2_000)), "the other rack");
    assert_eq!(world.node_of("fills"), Some("a2"));
    world.submit(pod("fills-too", 4));
    world.settle();
    assert_eq!(world.node_of("fills-too"), Some("b1"));
    assert!(!starts(&mut world, shy("short", "x", "rack", 10)));
    assert!(
        world.blocked("short").1.starts_with("waits behind ns/waits-"),
        "{:?}",
        world.blocked("short")
    );
    comes_true(&mut world);
}

#[test]
fn a_gang_of_which_some_repel_goes_to_no_domain_that_is_promised_to_whom_they_repel() {
    for policy in BACKFILL {
        let mut world = promised(policy);
        world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
        world.submit(of_job(lasting("p0", 1, 1_000), "j"));
        for name in ["p1", "p2"] {
            world.submit(of_job(shy(name, "x", "rack", 1_000), "j"));
        }
        world.settle();
        assert_eq!(
            (world.node_of("p1"), world.node_of("p2")),
            (Some("b1"), Some("b1")),
            "{policy:?}"
        );
        assert!(world.node_of("p0").is_some());
        comes_true(&mut world);
    }
}

#[test]
fn all_pods_of_a_gang_count_that_is_promised_nodes() {
    let mut world = busy(QueuePolicy::Conservative);
    world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
    for (name, app) in [("p0", "w"), ("p1", "w"), ("p2", "x")] {
        world.submit(Pod { labels: labels(app), ..of_job(lasting(name, 6, 50), "j") });
    }
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2300), "a[1-2],b1".to_owned())));
    assert!(!starts(&mut world, shy("shy", "x", "host", 1_000)));
    assert!(world.blocked("shy").1.starts_with("waits behind ns/j-"), "{:?}", world.blocked("shy"));
    // A pod that waits for that starts as soon as the promise is gone.
    for name in ["p0", "p1", "p2"] {
        world.delete(name);
    }
    world.settle();
    assert!(world.node_of("shy").is_some());
}

#[test]
fn one_of_higher_priority_goes_there_and_breaks_the_promise_for_that() {
    for policy in BACKFILL {
        let mut world = promised(policy);
        for name in ["a2", "b1"] {
            world.tell(Event::Node(Arc::new(Node { unschedulable: true, ..known(&world, name) })));
        }
        world.settle();
        world.submit(Pod { priority: 10, ..shy("shy", "x", "rack", 1_000) });
        for _ in 0..3 {
            world.settle();
            world.pass_seconds(1);
        }
        assert_eq!(
            (world.node_of("shy"), world.node_of("waits")),
            (Some("a1"), None),
            "{policy:?}"
        );
        let delayed: Vec<_> = world
            .core
            .gauges()
            .reservations_delayed
            .iter()
            .map(|(cause, n)| (*cause, *n))
            .collect();
        assert_eq!(delayed, [("priority", 1)], "{policy:?}");
    }
}

#[test]
fn nodes_that_are_held_without_a_date_are_kept_from_whom_repels_their_holder() {
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Conservative] {
        let mut world = racks_under(policy, &[("a1", "a", 8), ("a2", "a", 4), ("b1", "b", 4)]);
        world.submit(on(pod("busy", 4), "a1"));
        world.submit(Pod { labels: labels("x"), ..pod("waits", 6) });
        world.settle();
        world.pass_seconds(301);
        world.settle();
        assert_eq!(reserved(&world, "waits").is_some(), policy != QueuePolicy::Fcfs, "{policy:?}");
        world.submit(shy("shy", "x", "rack", 1_000));
        world.submit(shy("bold", "z", "rack", 1_000));
        world.settle();
        assert_eq!(
            (world.node_of("shy"), world.node_of("bold")),
            (Some("b1"), Some("a2")),
            "{policy:?}"
        );
        world.change("busy", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert_eq!(world.node_of("waits"), Some("a1"), "{policy:?}");
    }
}

#[test]
fn who_repels_where_a_promise_was_waits_for_the_record_of_the_one_who_has_left() {
    let mut world = promised(QueuePolicy::Easy);
    // What comes to be promised elsewhere is better, and not written at once.
    world.pass_seconds(1);
    world.change("busy-b1", |pod| pod.phase = Phase::Succeeded);
    let other_node = |constraints: &mut Constraints| {
        constraints.node_selector.push(("host".into(), "a2".into()));
    };
    world.submit(constrained(shy("shy", "x", "rack", 1_000), other_node));
    let actions = world.step();
    let bound = |actions: &[Action]| -> Vec<String> {
        let binds = actions.iter().filter_map(|action| match &action.kind {
            ActionKind::Bind { pod, node, .. } => Some(format!("{} on {node}", pod.key.name)),
            _ => None,
        });
        binds.collect()
    };
    assert_eq!(
        bound(&actions),
        ["waits on b1"],
        "a successor would still read that the first node is promised"
    );
    world.carry_out_all(actions);
    world.settle();
    assert_eq!(world.node_of("shy"), Some("a2"));
}

/// Also where it has a reservation that could not be made now: one of higher priority has come
/// since, and holds the only one.
#[test]
fn what_is_promised_stands_when_pods_come_that_would_keep_it_away_elsewhere() {
    for policy in BACKFILL {
        let mut world = promised(policy);
        let there = |constraints: &mut Constraints| {
            constraints.node_selector.push(("host".into(), "b1".into()));
        };
        world.submit(Pod { priority: 10, ..constrained(lasting("ahead", 6, 50), there) });
        world.settle();
        assert_eq!(reserved(&world, "ahead"), Some((Some(2300), "b1".to_owned())), "{policy:?}");
        // The first of its kind: the pods that it keeps away have another demand from now on.
        world.submit(shy("by-host", "x", "host", 1_000));
        world.settle();
        assert_eq!(world.node_of("by-host"), Some("a2"), "{policy:?}");
        comes_true(&mut world);
    }
}

#[test]
fn what_is_promised_beside_another_schedulers_pod_that_repels_is_looked_at_at_once() {
    for policy in BACKFILL {
        let mut world = busy(policy);
        world.submit(on(shy("theirs-b", "x", "rack", 10_000), "b1"));
        world.submit(Pod { labels: labels("x"), ..lasting("waits", 6, 50) });
        world.settle();
        assert_eq!(reserved(&world, "waits"), Some((Some(2100), "a1".to_owned())), "{policy:?}");
        // This node is promised to no job, but its rack is.
        world.submit(on(shy("theirs-a", "x", "rack", 10_000), "a2"));
        world.settle();
        assert_eq!(reserved(&world, "waits").and_then(|(start, _)| start), None, "{policy:?}");
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

/// Not even around the nodes: else the job that holds them could not come to them while it runs.
#[test]
fn who_is_kept_away_by_one_for_whom_nodes_are_held_stays_out_of_their_domain() {
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Conservative] {
        let mut world = racks_under(policy, &[("a1", "a", 8), ("a2", "a", 4), ("b1", "b", 4)]);
        world.submit(on(pod("busy", 4), "a1"));
        world.submit(Pod { labels: labels("y"), ..apart(pod("waits", 6), "x", "rack") });
        world.settle();
        world.pass_seconds(301);
        world.settle();
        let is_held = reserved(&world, "waits") == Some((None, "a1".to_owned()));
        assert_eq!(is_held, policy != QueuePolicy::Fcfs, "{policy:?}");
        world.submit(Pod { labels: labels("x"), ..pod("kept-out", 1) });
        world.settle();
        // For this one the other rack is too small by now.
        world.submit(Pod { labels: labels("x"), ..pod("behind", 4) });
        world.settle();
        assert_eq!(
            (world.node_of("kept-out"), world.node_of("behind")),
            (Some("b1"), None),
            "{policy:?}"
        );
        assert!(
            world.blocked("behind").1.starts_with("waits behind ns/waits-"),
            "{:?}",
            world.blocked("behind")
        );
        world.change("busy", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert_eq!(world.node_of("waits"), Some("a1"), "{policy:?}");
    }
}

/// The second of those that wait holds no node that the first does not hold.
#[test]
fn first_come_first_served_no_pod_keeps_off_the_second_of_those_that_wait() {
    let nodes = [("a1", "a", 8), ("a2", "a", 8), ("a3", "a", 2)];
    let mut world = racks_under(QueuePolicy::Fcfs, &nodes);
    for node in ["a1", "a2"] {
        let there = on(lasting(&format!("busy-{node}"), 4, 100), node);
        world.submit(Pod { started: Some(world.now), phase: Phase::Running, ..there });
    }
    world.tell(Event::Controller(Arc::new(job("first", 2, 2))));
    for name in ["first-0", "first-1"] {
        world.submit(of_job(lasting(name, 8, 50), "first"));
    }
    world.submit(apart(lasting("second", 6, 50), "x", "rack"));
    world.settle();
    world.submit(Pod { labels: labels("x"), ..lasting("third", 1, 10_000) });
    world.settle();
    assert_eq!(world.node_of("third"), None);
}
