//! Findings of the simulation's naive planner: promises that were not made, not checked, or broken
//! for a wrong cause.

use super::promises::{lasting, reserved, starts, submit_gang, waiting_gang, world};
use super::storage::mounting;
use super::*;
use crate::QueuePolicy;

const NODES: [(&str, u64); 3] = [("n1", 4), ("n2", 4), ("n3", 3)];

fn start_of(world: &World, workload: &str) -> Option<i64> {
    reserved(world, workload)?.0
}

fn delays(world: &World) -> Vec<(&str, u64)> {
    world.core.gauges().reservations_delayed.iter().map(|(cause, count)| (*cause, *count)).collect()
}

#[test]
fn who_would_fit_where_others_hold_the_nodes_is_promised_another_one() {
    let told = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
    let mut world = World::told(told, FunctionTable::builtin(), &NODES);
    assert!(
        starts(&mut world, pod("a", 2)) && starts(&mut world, pod("b", 4)),
        "nobody knows when they end"
    );
    assert!(starts(&mut world, lasting("c", 3, 1000)));
    submit_gang(&mut world);
    world.settle();
    world.pass_seconds(301);
    world.settle();
    assert_eq!(
        reserved(&world, "j"),
        Some((None, "n[1-2]".to_owned())),
        "it was passed by for long enough"
    );
    assert!(!starts(&mut world, lasting("d", 2, 50)));
    assert_eq!(reserved(&world, "d"), Some((Some(3000), "n3".to_owned())));
}

#[test]
fn who_waited_for_an_end_that_nobody_knew_is_promised_a_start_when_another_has_taken_the_room() {
    let mut world = world(QueuePolicy::Conservative);
    assert!(starts(&mut world, pod("unknown", 4)) && starts(&mut world, lasting("known", 4, 100)));
    assert!(!starts(&mut world, Pod { priority: 1, ..lasting("first", 4, 60) }));
    submit_gang(&mut world);
    world.settle();
    assert_eq!((start_of(&world, "first"), reserved(&world, "j")), (Some(2100), None));
    world.pass_seconds(10);
    world.change("unknown", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("first"), Some("n1"));
    assert_eq!(
        start_of(&world, "j"),
        Some(2100),
        "what is in its way ends at seconds that are known"
    );
}

#[test]
fn room_that_another_scheduler_takes_moves_what_was_promised_there_at_once() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    let (node, started) = (Some("n2".into()), Some(world.now));
    let theirs =
        Pod { scheduler: "default-scheduler".into(), node, started, ..lasting("theirs", 3, 500) };
    world.submit(theirs);
    world.settle();
    assert_eq!(start_of(&world, "j"), Some(2500));
    assert_eq!(delays(&world), [("capacity", 1)]);
}

/// The job was not changed: a claim that it needs is not there any more.
#[test]
fn a_claim_that_is_lost_breaks_the_promise_as_a_node_would() {
    let mut world = world(QueuePolicy::Easy);
    world.class("fast", "at-once");
    world.volume("v", "fast", None);
    world.claim("data", "fast");
    world.bind_claim("data", "v");
    for name in ["a", "b"] {
        assert!(starts(&mut world, lasting(name, 4, 100)));
    }
    world.submit(mounting(lasting("waits", 4, 60), &["data"]));
    world.settle();
    assert_eq!(start_of(&world, "waits"), Some(2100));
    world.change_claim("data", |claim| claim.deleting = true);
    world.settle();
    assert_eq!(
        (world.blocked("waits").0, reserved(&world, "waits")),
        ("VolumesNotReady".to_owned(), None)
    );
    assert_eq!(delays(&world), [("capacity", 1)]);
}

#[test]
fn what_is_promised_on_every_node_there_is_does_not_move_to_one_that_comes_and_is_not_for_it() {
    let mut world = world(QueuePolicy::Easy);
    let in_zone = |name: &str, zone: &str| {
        let node = Node::clone(&node(name, 4));
        Arc::new(Node {
            labels: [node.labels.as_slice(), &[("zone".into(), zone.into())]].concat(),
            ..node
        })
    };
    for name in ["n1", "n2"] {
        world.tell(Event::Node(in_zone(name, "a")));
    }
    assert!(starts(&mut world, lasting("a", 4, 100)) && starts(&mut world, lasting("b", 4, 100)));
    let mut waits = lasting("waits", 4, 50);
    let mut shape = Shape::clone(&waits.shape);
    shape.constraints.node_selector = vec![("zone".into(), "a".into())];
    waits.shape = Arc::new(shape);
    assert!(!starts(&mut world, waits));
    let promised = reserved(&world, "waits");
    assert_eq!(start_of(&world, "waits"), Some(2100));
    world.tell(Event::Node(in_zone("n9", "b")));
    world.settle();
    assert_eq!((world.node_of("waits"), reserved(&world, "waits")), (None, promised));
    assert_eq!(delays(&world), [], "nothing has been taken from it");
}

#[test]
fn who_makes_room_for_one_that_waits_for_a_late_pod_is_told_that_this_is_why() {
    let mut world = waiting_gang(QueuePolicy::Conservative);
    assert!(!starts(&mut world, lasting("next", 4, 130)), "it comes right behind the gang");
    assert_eq!(start_of(&world, "next"), Some(2160));
    world.pass_seconds(100);
    world.settle();
    assert_ne!(delays(&world), [], "the first pod should have ended by now");
    assert!(delays(&world).iter().all(|(cause, _)| *cause == "walltime"), "{:?}", delays(&world));
}

#[test]
fn more_time_that_a_person_wishes_for_a_job_that_runs_is_why_others_start_later() {
    let mut world = waiting_gang(QueuePolicy::Conservative);
    let started = world.now;
    world.change("a", |pod| (pod.started, pod.phase) = (Some(started), Phase::Running));
    world.pass_seconds(10);
    world.edit("a", |spec| spec.overrides.walltime_seconds = Some(50));
    world.settle();
    assert_eq!(
        (start_of(&world, "j"), delays(&world)),
        (Some(2050), Vec::new()),
        "less time delays nobody"
    );
    world.edit("a", |spec| spec.overrides.walltime_seconds = Some(300));
    world.settle();
    assert_eq!((start_of(&world, "j"), delays(&world)), (Some(2300), vec![("edit", 1)]));
    let name = key_of(world.record("a")).to_string();
    assert!(
        world.texts.iter().any(|text| text.ends_with(&format!("{name} was changed"))),
        "{:?}",
        world.texts
    );
    // The wish is not the cause of a later loss.
    world.tell(Event::NodeGone(NodeName::from("n2"), Uid::from("uid-n2")));
    world.settle();
    assert!(delays(&world).iter().any(|(cause, _)| *cause == "capacity"), "{:?}", delays(&world));
}

#[test]
fn a_successor_names_the_pod_that_is_overdue() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    let started = world.now;
    world.change("a", |pod| (pod.started, pod.phase) = (Some(started), Phase::Running));
    world.settle();
    world.pass_seconds(90);
    world.settle();
    world.restart();
    world.pass_seconds(15);
    world.list(&[("n1", 4), ("n2", 4)], &[job("j", 2, 2)]);
    world.settle();
    assert_eq!(start_of(&world, "j"), None);
    assert_eq!(delays(&world), [("walltime", 1)]);
}

#[test]
fn who_came_before_a_successor_did_does_not_come_in_ahead_with_it() {
    let mut world = world(QueuePolicy::Conservative);
    let cordon = |world: &mut World, unschedulable| {
        world.tell(Event::Node(Arc::new(Node { unschedulable, ..Node::clone(&node("n1", 4)) })));
        world.settle();
    };
    assert!(starts(&mut world, pod("u", 1)), "it is on the first node");
    cordon(&mut world, true);
    assert!(starts(&mut world, lasting("b", 4, 100)));
    world.tell(Event::Controller(Arc::new(job("high", 2, 2))));
    for name in ["h0", "h1"] {
        world.submit(of_job(Pod { priority: 9, ..lasting(name, 3, 60) }, "high"));
    }
    world.settle();
    assert!(
        !starts(&mut world, pod("low", 4)),
        "it is promised the second node, for as long as it likes"
    );
    assert_eq!(reserved(&world, "low"), Some((Some(2100), "n2".to_owned())));
    cordon(&mut world, false);
    let before = Some((Some(2100), "n2".to_owned()));
    assert_eq!((reserved(&world, "low"), reserved(&world, "high")), (before.clone(), None));
    world.restart();
    world.list(&[("n1", 4), ("n2", 4)], &[job("high", 2, 2)]);
    world.settle();
    assert_eq!((reserved(&world, "low"), delays(&world)), (before, Vec::new()));
}

/// Returns the reported delays: the cause, and the object.
fn said(world: &World) -> String {
    world
        .texts
        .iter()
        .find(|text| text.contains("than promised") || text.contains("at an unknown time"))
        .cloned()
        .unwrap_or_default()
}

fn cordon(world: &mut World, name: &str) {
    world.tell(Event::Node(Arc::new(Node { unschedulable: true, ..Node::clone(&node(name, 4)) })));
    world.settle();
}

#[test]
fn a_delay_names_the_node_that_is_gone_or_closed() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    // The pod on the first node should end in this very second.
    world.pass_seconds(100);
    world.tell(Event::NodeGone(NodeName::from("n2"), Uid::from("uid-n2")));
    world.settle();
    assert_eq!(said(&world), "capacity: starts at an unknown time: node n2 is gone");
    let mut world = waiting_gang(QueuePolicy::Easy);
    cordon(&mut world, "n2");
    assert_eq!(said(&world), "capacity: starts at an unknown time: node n2 was cordoned");
}

#[test]
fn a_delay_names_the_pod_of_another_scheduler_that_took_the_room() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    let (node, started) = (Some("n2".into()), Some(world.now));
    world.submit(Pod {
        scheduler: "default-scheduler".into(),
        node,
        started,
        ..lasting("theirs", 3, 500)
    });
    world.settle();
    assert_eq!(
        said(&world),
        "capacity: starts 400 s later than promised: pod ns/theirs took room on node n2"
    );
}

#[test]
fn a_successor_knows_a_wish_by_which_a_promise_that_it_finds_cannot_be_kept() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    let started = Some(world.now);
    world.change("a", |pod| (pod.phase, pod.started) = (Phase::Running, started));
    world.settle();
    // The process before has died when it had written nothing of it.
    let wished = {
        let record = world.record_mut("a");
        record.spec.overrides.walltime_seconds = Some(300);
        key_of(record)
    };
    world.restart();
    world.list(&[("n1", 4), ("n2", 4)], &[job("j", 2, 2)]);
    world.settle();
    assert_eq!((start_of(&world, "j"), delays(&world)), (Some(2300), vec![("edit", 1)]));
    assert_eq!(
        said(&world),
        format!("edit: starts 200 s later than promised: {wished} was changed")
    );
}

/// `waits` is promised the first node within the limits of its queue.
fn promised_within_limits() -> World {
    let mut world = world(QueuePolicy::Conservative);
    let limits = serde_json::json!({"limits": {"resources": {"cpu": 8}}});
    queues::queue(&mut world, "gpu", &limits);
    queues::queue(&mut world, "other", &serde_json::json!({}));
    for (name, seconds) in [("a", 100), ("b", 300)] {
        assert!(starts(&mut world, queues::timed(name, 4, "default", seconds)), "{name}");
    }
    assert!(!starts(&mut world, queues::timed("waits", 4, "gpu", 50)));
    assert_eq!(reserved(&world, "waits"), Some((Some(2100), "n1".to_owned())));
    world
}

#[test]
fn who_starts_later_within_limits_because_of_a_node_is_told_so_though_a_queue_was_changed_before() {
    for edited in ["other", "gpu", "new"] {
        let mut world = promised_within_limits();
        queues::queue(
            &mut world,
            edited,
            &serde_json::json!({"limits": {"resources": {"cpu": 7}}}),
        );
        world.settle();
        world.pass_seconds(1);
        world.settle();
        assert_eq!(delays(&world), [], "{edited}");
        cordon(&mut world, "n1");
        assert_eq!(delays(&world), [("capacity", 1)], "{edited}");
        assert!(said(&world).ends_with("node n1 was cordoned"), "{edited}: {}", said(&world));
    }
}

#[test]
fn a_delay_names_the_queue_that_was_changed() {
    let mut world = promised_within_limits();
    assert!(!starts(&mut world, queues::timed("next", 4, "gpu", 50)));
    assert_eq!(start_of(&world, "next"), Some(2150));
    queues::queue(&mut world, "gpu", &serde_json::json!({"limits": {"resources": {"cpu": 1}}}));
    world.settle();
    assert_eq!(delays(&world).first().map(|(cause, _)| *cause), Some("edit"));
    assert!(said(&world).ends_with(": FluxQueue gpu was changed"), "{}", said(&world));
}

/// `waits` is promised the first node, in a queue with these limits that may use both.
fn promised_in_a_queue(limits: &serde_json::Value) -> World {
    let mut world = World::told(
        CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() },
        FunctionTable::builtin(),
        &[],
    );
    for (name, zone) in [("n1", "a"), ("n2", "b")] {
        let labels = vec![("zone".into(), zone.into())];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 4)) })));
    }
    queues::queue(&mut world, "gpu", &serde_json::json!({"limits": limits}));
    for (name, seconds) in [("a", 100), ("b", 300)] {
        assert!(starts(&mut world, lasting(name, 4, seconds)));
    }
    assert!(!starts(&mut world, queues::timed("waits", 4, "gpu", 50)));
    assert_eq!(reserved(&world, "waits"), Some((Some(2100), "n1".to_owned())));
    world
}

#[test]
fn who_may_use_other_nodes_since_a_queue_was_changed_is_told_that_this_is_why() {
    for limits in [serde_json::json!({}), serde_json::json!({"resources": {"cpu": 8}})] {
        for (zone, start, how_late) in
            [("b", Some(2300), "200 s later than promised"), ("c", None, "at an unknown time")]
        {
            let mut world = promised_in_a_queue(&limits);
            let spec = serde_json::json!({"limits": limits, "nodeSelector": {"zone": zone}});
            queues::queue(&mut world, "gpu", &spec);
            world.settle();
            assert_eq!(
                (start_of(&world, "waits"), delays(&world)),
                (start, vec![("edit", 1)]),
                "{limits}"
            );
            assert_eq!(said(&world), format!("edit: starts {how_late}: FluxQueue gpu was changed"));
        }
    }
}

#[test]
fn a_queue_that_was_changed_before_is_not_why_a_node_is_missed() {
    let mut world = promised_in_a_queue(&serde_json::json!({}));
    queues::queue(&mut world, "gpu", &serde_json::json!({"queueDepth": 7}));
    world.settle();
    assert_eq!(delays(&world), []);
    world.tell(Event::NodeGone(NodeName::from("n1"), Uid::from("uid-n1")));
    world.settle();
    assert_eq!(delays(&world), [("capacity", 1)]);
    assert!(said(&world).ends_with("node n1 is gone"), "{}", said(&world));
}

#[test]
fn a_pod_that_outlives_its_walltime_is_no_failure_of_the_graph() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    for _ in 0..130 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!((delays(&world), world.core.gauges().graph_errors), (vec![("walltime", 1)], 0));
}

/// The pod that takes its place waits for longer than the first was to.
#[test]
fn a_job_with_a_pod_that_goes_before_its_binding_is_told_that_its_promise_is_broken() {
    let mut world = world(QueuePolicy::Easy);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    assert!(starts(&mut world, pod("b", 4)));
    world.tell(Event::Controller(Arc::new(job("j", 1, 1))));
    world.submit(of_job(lasting("p0", 4, 60), "j"));
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n1".to_owned())));
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    let actions = world.step();
    let binds = |action: &Action| matches!(action.kind, ActionKind::Bind { .. });
    let bind = actions.iter().find(|action| binds(action)).expect("it begins").id;
    world.change("p0", |pod| pod.deleting = true);
    world.tell(Event::Done(bind, Outcome::Bind(BindOutcome::Deleting)));
    world.carry_out_all(actions.into_iter().filter(|action| !binds(action)));
    world.settle();
    world.delete("p0");
    assert!(starts(&mut world, lasting("c", 4, 500)));
    world.submit(of_job(lasting("p1", 4, 60), "j"));
    world.settle();
    assert_eq!((world.state("j"), world.node_of("p1")), (Some(JobState::Pending), None));
    assert_eq!(world.core.gauges().reservations_delayed.get("edit"), Some(&1));
    assert!(world.notes.contains(&"ReservationDelayed".to_owned()), "{:?}", world.notes);
}

/// The API server refuses to store the FluxJob: the job may not start before it does.
#[test]
fn a_job_with_a_flux_job_that_cannot_be_written_is_told_that_its_promise_is_broken() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    world.edit("j", |spec| spec.overrides.walltime_seconds = Some(50));
    let is_of_j = |action: &Action| match &action.kind {
        ActionKind::Write(Write::WriteStatus { job, .. }) => job.key.name.starts_with("j-"),
        _ => false,
    };
    let (own, others): (Vec<Action>, Vec<Action>) = world.step().into_iter().partition(is_of_j);
    assert_eq!(own.len(), 1);
    let refused = WriteOutcome::Refused("403: exceeded quota".to_owned());
    world.tell(Event::Done(own[0].id, Outcome::Write(refused)));
    world.carry_out_all(others);
    world.submit(lasting("later", 4, 10));
    world.settle();
    let told = world.texts.iter().zip(&world.notes);
    let mut told = told.filter(|(_, reason)| *reason == "ReservationDelayed").map(|(text, _)| text);
    let expected =
        "edit: starts at an unknown time: its FluxJob cannot be written: 403: exceeded quota";
    assert_eq!(told.next().map(String::as_str), Some(expected));
}
