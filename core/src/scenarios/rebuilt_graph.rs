//! The resource graph is replaced by a new one while jobs wait: promises, ports and dates outlive
//! that.

use super::neighbours::{constrained, racks_under};
use super::promises::{lasting, reserved, starts, waiting_gang};
use super::*;
use crate::QueuePolicy;
use fluxqueue_machine::fluxion::{End, Tenancy};
use fluxqueue_workload::constraints::HostPort;

/// Returns the reports of delays so far.
fn delays(world: &World) -> Vec<&String> {
    let told = world.texts.iter().zip(&world.notes);
    told.filter(|(_, reason)| **reason == "ReservationDelayed").map(|(text, _)| text).collect()
}

/// A slot on a node is taken that belongs to no pod: the audit finds it, and replaces the graph.
fn leak(world: &mut World, node: &str, shape: &Arc<Shape>) {
    let core = &mut world.core;
    let terms = (End::Never, Tenancy::Shared);
    let leaked = core.planner.ledger.charge(&mut core.planner.cluster, &node.into(), shape, terms);
    assert!(leaked.is_some());
}

fn leak_a_core(world: &mut World, node: &str) {
    leak(world, node, &Arc::clone(&pod("any", 1).shape));
}

fn seconds_go_by(world: &mut World, seconds: i64) {
    for _ in 0..seconds {
        world.pass_seconds(1);
        world.settle();
    }
}

/// A gang that is promised 2100 on n1 and n2, and a third node that is too small for it.
fn promised_beside_a_small_node(policy: QueuePolicy) -> World {
    let mut world = waiting_gang(policy);
    world.tell(Event::Node(node("n3", 2)));
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())));
    world
}

/// The promise stands as it was made, and no delay and no error was counted.
fn assert_promised_as_before(world: &World) {
    let gauges = world.core.gauges();
    let found = (reserved(world, "j"), gauges.reservations_delayed, gauges.graph_errors);
    let as_before = (Some((Some(2100), "n[1-2]".to_owned())), BTreeMap::new(), 0);
    assert_eq!(found, as_before, "{:?}", delays(world));
}

#[test]
fn a_promise_outlives_a_graph_that_is_replaced_for_another_node() {
    let mut world = promised_beside_a_small_node(QueuePolicy::Easy);
    leak_a_core(&mut world, "n3");
    world.pass_seconds(11);
    world.settle();
    assert!(world.core.gauges().audit_differences > 0, "the audit has found it");
    assert_promised_as_before(&world);
}

#[test]
fn a_promise_outlives_a_graph_that_has_seen_many_nodes_go() {
    let mut world = promised_beside_a_small_node(QueuePolicy::Easy);
    for at in 0..=10_000 {
        let passing = node(&format!("passing-{at}"), 1);
        world.tell(Event::Node(Arc::clone(&passing)));
        world.tell(Event::NodeGone(passing.name.clone(), passing.uid.clone()));
    }
    world.settle();
    assert!(world.core.planner.ledger.needs_rebuild(&world.core.planner.cluster));
    world.pass_seconds(11);
    world.settle();
    assert!(!world.core.planner.ledger.needs_rebuild(&world.core.planner.cluster));
    assert_promised_as_before(&world);
}

#[test]
fn a_pod_that_comes_in_the_same_step_does_not_get_the_promised_room() {
    for policy in [QueuePolicy::Easy, QueuePolicy::Conservative, QueuePolicy::Hybrid] {
        let mut world = promised_beside_a_small_node(policy);
        leak_a_core(&mut world, "n3");
        world.pass_seconds(11);
        // It would end after the promised start.
        world.submit(lasting("long", 4, 1_000));
        world.settle();
        assert_eq!(world.node_of("long"), None, "{policy:?}");
        assert_promised_as_before(&world);
    }
}

/// Under EASY backfill a gang has a promise although another job, of higher priority, is first in
/// the queue by now: no walk would give the gang a new promise.
#[test]
fn a_promise_that_no_walk_would_make_is_kept() {
    let nodes = [("n1", "r", 4), ("n2", "r", 4), ("n3", "r", 4), ("n4", "r", 2)];
    let mut world = racks_under(QueuePolicy::Easy, &nodes);
    let only_on = |node: &'static str, pod: Pod| {
        constrained(pod, |asks| asks.node_selector = vec![("host".into(), node.into())])
    };
    assert!(starts(&mut world, only_on("n1", lasting("a", 4, 100))));
    assert!(starts(&mut world, only_on("n2", lasting("b", 4, 50))));
    world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
    for name in ["p0", "p1", "p2"] {
        world.submit(of_job(lasting(name, 4, 60), "j"));
    }
    world.settle();
    assert!(!starts(&mut world, Pod { priority: 9, ..only_on("n2", lasting("h", 4, 40)) }));
    seconds_go_by(&mut world, 7);
    let promised = |world: &World| (reserved(world, "h"), reserved(world, "j"));
    let before = (Some((Some(2050), "n2".to_owned())), Some((Some(2100), "n[1-3]".to_owned())));
    assert_eq!(promised(&world), before);
    leak_a_core(&mut world, "n4");
    world.pass_seconds(11);
    world.submit(lasting("long", 4, 1_000));
    world.settle();
    seconds_go_by(&mut world, 7);
    assert_eq!((promised(&world), world.node_of("long")), (before, None), "{:?}", delays(&world));
}

#[test]
fn promises_behind_each_other_stay_as_they_are() {
    let mut world = waiting_gang(QueuePolicy::Conservative);
    world.tell(Event::Node(node("n3", 2)));
    for (name, seconds) in [("k1", 200), ("k2", 300)] {
        assert!(!starts(&mut world, lasting(name, 4, seconds)), "{name}");
    }
    seconds_go_by(&mut world, 8);
    let promised = |world: &World| ["j", "k1", "k2"].map(|name| reserved(world, name));
    let before = promised(&world);
    assert!(before.iter().all(Option::is_some), "{before:?}");
    leak_a_core(&mut world, "n3");
    seconds_go_by(&mut world, 11);
    let gauges = world.core.gauges();
    assert!(gauges.audit_differences > 0, "the audit has found it");
    let found = (promised(&world), gauges.reservations_delayed, gauges.graph_errors);
    assert_eq!(found, (before, BTreeMap::new(), 0), "{:?}", delays(&world));
}

#[test]
fn a_port_that_no_pod_has_is_free_after_the_audit() {
    let with_port = |pod: Pod| {
        let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 };
        constrained(pod, |asks| asks.host_ports = vec![port])
    };
    let mut world = World::new(&[("a", 4)]);
    leak(&mut world, "a", &Arc::clone(&with_port(pod("any", 1)).shape));
    seconds_go_by(&mut world, 11);
    assert!(starts(&mut world, pod("large", 3)), "the CPU that it took is free");
    assert!(starts(&mut world, with_port(pod("p", 1))), "{:?}", world.blocked("p"));
}
