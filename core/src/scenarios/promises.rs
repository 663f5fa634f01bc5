//! Reservations: kept, on record, put back, and broken for a reported cause.

use super::*;
use crate::QueuePolicy;
use crate::records::times::time_of;

const NODES: [(&str, u64); 2] = [("n1", 4), ("n2", 4)];

/// Two nodes of four cores under a queue policy.
pub(super) fn world(queue_policy: QueuePolicy) -> World {
    World::told(CoreSettings { queue_policy, ..settings() }, FunctionTable::builtin(), &NODES)
}

pub(super) fn lasting(name: &str, cores: u64, seconds: u64) -> Pod {
    Pod { lifetime: Lifetime::Seconds(seconds), ..pod(name, cores) }
}

/// Submits a Job `j` with two pods that take a node each, for a minute.
pub(super) fn submit_gang(world: &mut World) {
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["p0", "p1"] {
        world.submit(of_job(lasting(name, 4, 60), "j"));
    }
}

/// The second at which a workload is promised to start, and where.
pub(super) fn reserved(world: &World, workload: &str) -> Option<(Option<i64>, String)> {
    let reservation = world.record(workload).status.as_ref()?.reservation.clone()?;
    Some((reservation.start.as_ref().map(time_of).map(Time::seconds), reservation.nodes))
}

pub(super) fn starts(world: &mut World, pod: Pod) -> bool {
    let name = pod.id.key.name.to_string();
    world.submit(pod);
    world.settle();
    world.node_of(&name).is_some()
}

/// A runs on the first node for 100 seconds, and the gang waits for it.
pub(super) fn waiting_gang(policy: QueuePolicy) -> World {
    let mut world = world(policy);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    submit_gang(&mut world);
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())));
    world
}

#[test]
fn small_jobs_run_in_the_gap_and_delay_nobody() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    assert!(!starts(&mut world, lasting("long", 4, 101)), "it would end after the promised start");
    assert!(!starts(&mut world, pod("unknown", 4)), "nobody knows when it ends");
    assert!(starts(&mut world, lasting("short", 4, 50)));
    world.pass_seconds(50);
    world.change("short", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())));
    world.pass_seconds(50);
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("n1"), Some("n2")));
    assert_eq!(reserved(&world, "j"), None, "what has started is promised nothing");
    assert!(!world.notes.contains(&"ReservationDelayed".to_owned()));
}

#[test]
fn a_job_that_ends_early_lets_the_first_start_early() {
    let mut world = waiting_gang(QueuePolicy::Conservative);
    world.pass_seconds(10);
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.bound(), 3);
}

#[test]
fn a_successor_keeps_what_was_promised_and_writes_nothing() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    world.show_conditions(&["p0", "p1"]);
    let before = world.records.clone();
    world.restart();
    world.list(&NODES, &[job("j", 2, 2)]);
    let actions = world.step();
    assert!(actions.is_empty(), "a restart alone is no news: {actions:?}");
    assert_eq!(world.records, before);
    assert!(!starts(&mut world, lasting("long", 4, 101)));
    assert!(starts(&mut world, lasting("short", 4, 99)));
}

/// A promise behind a pod of 100 seconds that was bound at 2000, where a pod may begin to run two
/// seconds later, and be seen to end one second later.
fn waiting_gang_with_slack() -> World {
    let told = CoreSettings {
        queue_policy: QueuePolicy::Conservative,
        start_slack_secs: 2,
        end_slack_secs: 1,
        ..settings()
    };
    let mut world = World::told(told, FunctionTable::builtin(), &NODES);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    submit_gang(&mut world);
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2103), "n[1-2]".to_owned())));
    world
}

#[test]
fn a_pod_that_begins_to_run_a_little_after_its_binding_breaks_no_promise() {
    let mut world = waiting_gang_with_slack();
    world.pass_seconds(1);
    let started = world.now;
    world.change("a", |pod| pod.started = Some(started));
    world.settle();
    world.pass_seconds(1);
    world.change("a", |pod| pod.phase = Phase::Running);
    world.settle();
    world.pass_seconds(10);
    world.settle();
    assert_eq!(
        reserved(&world, "j"),
        Some((Some(2102), "n[1-2]".to_owned())),
        "its walltime counts from its start"
    );
    assert!(world.core.gauges().reservations_delayed.is_empty());
}

/// A kubelet under load takes a pod up late. No room is lost by that, and the message names the
/// job, not the nodes.
#[test]
fn a_promise_that_a_late_start_delays_names_the_job_that_ends_later() {
    let mut world = waiting_gang_with_slack();
    world.pass_seconds(5);
    let started = world.now;
    world.change("a", |pod| (pod.started, pod.phase) = (Some(started), Phase::Running));
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2106), "n[1-2]".to_owned())));
    assert_eq!(world.core.gauges().reservations_delayed.get("capacity"), Some(&1));
    let late = "capacity: starts 3 s later than promised: ";
    let by = "started later than planned, and ends later";
    let named = |text: &String| text.starts_with(late) && text.ends_with(by);
    assert!(world.texts.iter().any(named), "{:?}", world.texts);
}

#[test]
fn a_promise_stands_with_a_successor_whose_clock_shows_the_next_second() {
    let mut world = waiting_gang_with_slack();
    let started = world.now;
    world.change("a", |pod| (pod.started, pod.phase) = (Some(started), Phase::Running));
    world.settle();
    world.pass_seconds(10);
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2101), "n[1-2]".to_owned())));
    // The promise is on record by a clock that was known to half a second; the pod's start is in
    // whole seconds.
    world.change("a", |pod| pod.started = Some(started.plus_secs(1)));
    world.restart();
    world.list(&NODES, &[job("j", 2, 2)]);
    world.settle();
    assert!(world.core.gauges().reservations_delayed.is_empty());
    world.pass_seconds(92);
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.bound(), 3);
}

#[test]
fn a_pod_that_is_seen_to_end_a_moment_late_breaks_no_promise() {
    let mut world = waiting_gang_with_slack();
    let started = world.now;
    world.change("a", |pod| (pod.started, pod.phase) = (Some(started), Phase::Running));
    world.settle();
    // Planned for right behind the gang: a gang that is put off by a second would have to go behind
    // this one, too.
    assert!(!starts(&mut world, lasting("next", 4, 500)));
    world.pass_seconds(100);
    world.settle();
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("n1"), Some("n2")));
    assert!(world.core.gauges().reservations_delayed.is_empty());
}

/// It was to start earlier than promised, and the person with the wish is the one that breaks the
/// promise: also where the start has not been reported yet, and where it waits again, with another
/// promise, before the hold is reported.
#[test]
fn a_gang_that_is_held_before_it_begins_is_told_that_its_promise_is_broken() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    let placement = world.step();
    assert!(placement.iter().any(writes_placement));
    world.edit("j", |spec| spec.overrides.hold = true);
    world.settle();
    assert_eq!(world.core.gauges().reservations_delayed.get("edit"), Some(&1));
    assert!(world.notes.contains(&"ReservationDelayed".to_owned()), "{:?}", world.notes);
    world.carry_out_all(placement);
    world.settle();
    assert_eq!(
        (world.state("j"), reserved(&world, "j"), world.bound()),
        (Some(JobState::Held), None, 1)
    );
    assert_eq!(world.core.gauges().reservations_delayed.get("edit"), Some(&1), "it is said once");
}

/// A pod that comes when the others have been placed starts by itself. That is no other start of
/// the job.
#[test]
fn a_gang_that_another_pod_has_joined_before_it_begins_is_told_that_its_promise_is_broken() {
    let mut world = world(QueuePolicy::Easy);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["p0", "p1"] {
        world.submit(of_job(lasting(name, 3, 60), "j"));
    }
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())));
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    let placement = world.step();
    assert!(!placement.is_empty());
    world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
    world.submit(of_job(lasting("p2", 1, 60), "j"));
    assert!(world.step().iter().all(|action| !matches!(action.kind, ActionKind::Bind { .. })));
    world.change("p0", |pod| pod.deleting = true);
    world.settle();
    assert!(world.notes.contains(&"ReservationDelayed".to_owned()), "{:?}", world.notes);
    assert_eq!(world.core.gauges().reservations_delayed.values().sum::<u64>(), 1);
}

#[test]
fn a_lone_pod_whose_node_goes_before_its_binding_is_told_that_its_promise_is_broken() {
    let mut world = world(QueuePolicy::Easy);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    assert!(starts(&mut world, pod("b", 4)));
    world.submit(Pod { gates: vec![Arc::from(fluxqueue_api::names::GATE)], ..lasting("c", 4, 60) });
    world.settle();
    assert_eq!(reserved(&world, "c"), Some((Some(2100), "n1".to_owned())));
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    // It is to begin, and its gate is being taken off.
    let actions = world.step();
    assert!(
        actions.iter().any(|action| matches!(action.kind, ActionKind::Write(Write::Ungate { .. }))),
        "{actions:?}"
    );
    world.tell(Event::NodeGone(NodeName::from("n1"), Uid::from("uid-n1")));
    world.carry_out_all(actions);
    world.settle();
    assert_eq!((world.node_of("c"), reserved(&world, "c")), (None, None));
    assert_eq!(world.core.gauges().reservations_delayed.get("capacity"), Some(&1));
}

#[test]
fn a_job_that_outlives_its_walltime_breaks_a_promise_and_that_is_said() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    world.pass_seconds(102);
    world.settle();
    assert_eq!(
        reserved(&world, "j"),
        Some((None, "n[1-2]".to_owned())),
        "its nodes are kept for it, without a date"
    );
    assert_eq!(
        world.notes.iter().filter(|reason| *reason == "ReservationDelayed").count(),
        2,
        "on the job and its pod"
    );
    assert_eq!(world.core.gauges().reservations_delayed.get("walltime"), Some(&1));
    assert!(!starts(&mut world, lasting("short", 4, 1)), "they are nobody else's");
    world.pass_seconds(500);
    world.settle();
    assert_eq!(
        world.core.gauges().reservations_delayed.get("walltime"),
        Some(&1),
        "it is said once"
    );
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("n1"), Some("n2")));
}

#[test]
fn a_node_that_leaves_breaks_a_promise() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    world.tell(Event::NodeGone(NodeName::from("n2"), Uid::from("uid-n2")));
    world.settle();
    assert_eq!(reserved(&world, "j"), None, "it does not fit any more");
    assert_eq!(world.core.gauges().reservations_delayed.get("capacity"), Some(&1));
}

#[test]
fn a_job_of_higher_priority_goes_ahead_and_an_old_one_does_not() {
    let mut world = waiting_gang(QueuePolicy::Conservative);
    let gated =
        Pod { priority: 9, gates: vec![Arc::from("example.com/wait")], ..lasting("gated", 4, 300) };
    assert!(!starts(&mut world, gated));
    world.change("gated", |pod| pod.gates.clear());
    world.settle();
    assert_eq!(
        reserved(&world, "gated").map(|(start, _)| start),
        Some(Some(2160)),
        "behind what was promised"
    );
    assert!(world.core.gauges().reservations_delayed.is_empty());
    assert!(
        starts(&mut world, Pod { priority: 10, ..lasting("urgent", 4, 300) }),
        "there is a node for it now"
    );
    world.pass_seconds(6);
    world.settle();
    let start_of = |world: &World, workload| reserved(world, workload).and_then(|(start, _)| start);
    assert_eq!((start_of(&world, "gated"), start_of(&world, "j")), (Some(2100), Some(2400)));
    assert_eq!(
        world.core.gauges().reservations_delayed.get("priority"),
        Some(&1),
        "only one is later by that"
    );
}

#[test]
fn the_first_who_waits_is_passed_by_for_so_long_and_no_longer() {
    let mut world = world(QueuePolicy::Easy);
    assert!(starts(&mut world, pod("a", 4)), "nobody knows when it ends");
    submit_gang(&mut world);
    world.settle();
    assert_eq!(reserved(&world, "j"), None);
    let since = world.record("j").status.as_ref().unwrap().passed_by_since.as_ref().map(time_of);
    assert_eq!(since.map(Time::seconds), Some(2000));
    world.pass_seconds(299);
    assert!(starts(&mut world, lasting("b", 4, 10)));
    world.pass_seconds(2);
    world.change("b", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((None, "n[1-2]".to_owned())), "it holds what it needs");
    assert_eq!(
        world.core.gauges().held_idle.get("cpu"),
        4000,
        "one of its nodes stands idle, the other one is in use"
    );
    assert!(!starts(&mut world, lasting("c", 4, 1)));
    world.restart();
    world.list(&NODES, &[job("j", 2, 2)]);
    world.settle();
    assert!(!starts(&mut world, lasting("d", 4, 1)), "the instant is not forgotten");
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("n1"), Some("n2")));
}

#[test]
fn who_takes_what_a_promise_has_left_waits_for_its_record() {
    let mut world = world(QueuePolicy::Easy);
    for (name, seconds) in [("a", 100), ("b", 40)] {
        assert!(starts(&mut world, lasting(name, 4, seconds)));
    }
    assert!(!starts(&mut world, lasting("first", 4, 60)), "it is promised the second node");
    assert_eq!(reserved(&world, "first"), Some((Some(2040), "n2".to_owned())));
    world.pass_seconds(10);
    // The first node comes free: the first request that waits takes it, and another one the room
    // that it leaves on the second.
    world.submit(lasting("next", 2, 500));
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.change("b", |pod| pod.phase = Phase::Succeeded);
    let actions = world.step();
    let bound: Vec<String> = actions
        .iter()
        .filter_map(|action| match &action.kind {
            ActionKind::Bind { pod, .. } => Some(pod.key.name.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(bound, ["first"], "a successor would still read that the second node is promised");
    world.carry_out_all(actions);
    world.settle();
    assert_eq!(world.node_of("next"), Some("n2"));
}

#[test]
fn nobody_knows_when_a_pod_ends_that_is_only_nominated() {
    let mut world = world(QueuePolicy::Easy);
    let nominated = Some("n1".into());
    world.submit(Pod {
        scheduler: "default-scheduler".into(),
        nominated,
        ..lasting("theirs", 4, 100)
    });
    submit_gang(&mut world);
    world.settle();
    assert_eq!(reserved(&world, "j"), None, "its walltime has not begun");
    let started = Some(world.now);
    world.change("theirs", |pod| (pod.node, pod.started) = (pod.nominated.take(), started));
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())));
}

/// An earlier leader has promised the second pod a start on the first node, and is paused before
/// that is on record. Its successor plans, with a pod of a higher priority ahead or not, and then
/// the write takes effect.
fn promised_late(by_another: bool) -> World {
    let mut world = world(QueuePolicy::Easy);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    assert!(starts(&mut world, lasting("b", 4, 300)));
    world.submit(lasting("c", 4, 60));
    world.settle();
    assert_eq!(reserved(&world, "c"), Some((Some(2100), "n1".to_owned())));
    let mut late = world.record("c").clone();
    let (key, mut early) = (key_of(&late), late.clone());
    let status = early.status.as_mut().expect("a status");
    (status.reservation, status.estimated_start) = (None, None);
    world.records.insert(key.clone(), early);
    if by_another {
        world.submit(Pod { priority: 5, ..lasting("d", 4, 500) });
    }
    world.restart();
    world.list(&NODES, &[]);
    // Its own write of that record comes too late.
    let is_late = |action: &Action| status_written(action).is_some_and(|(job, ..)| job.key == key);
    let (own, others): (Vec<Action>, Vec<Action>) = world.step().into_iter().partition(is_late);
    world.carry_out_all(others);
    late.metadata.resource_version = Some("900000".to_owned());
    world.records.insert(key, late.clone());
    world.tell(Event::FluxJob(Arc::new(late)));
    for action in own {
        world.tell(Event::Done(action.id, Outcome::Write(WriteOutcome::Conflict)));
    }
    world
}

#[test]
fn what_a_paused_leader_promised_is_kept_or_its_breaking_is_said() {
    for by_another in [false, true] {
        let mut world = promised_late(by_another);
        world.settle();
        let delayed = world.notes.contains(&"ReservationDelayed".to_owned());
        assert_eq!(delayed, by_another);
        let start = reserved(&world, "c").and_then(|(start, _)| start);
        assert_eq!(start, (!by_another).then_some(2100));
    }
}

/// A Job of higher priority than all that is promised, two pods of which need a node each.
fn submit_an_urgent_gang(world: &mut World) {
    world.tell(Event::Controller(Arc::new(job("urgent", 2, 2))));
    for name in ["u0", "u1"] {
        world.submit(Pod { priority: 9, ..of_job(lasting(name, 4, 300), "urgent") });
    }
    world.settle();
}

#[test]
fn a_gang_whose_pod_is_replaced_while_it_waits_goes_around_what_was_promised_meanwhile() {
    let mut world = world(QueuePolicy::Conservative);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    submit_an_urgent_gang(&mut world);
    assert_eq!(reserved(&world, "urgent").map(|(start, _)| start), Some(Some(2100)));
    world.delete("u1");
    submit_gang(&mut world);
    world.settle();
    assert_eq!(
        reserved(&world, "j").map(|(start, _)| start),
        Some(Some(2100)),
        "the other one is not complete"
    );
    world.submit(Pod { priority: 9, ..of_job(lasting("u2", 4, 300), "urgent") });
    world.settle();
    assert_eq!(
        reserved(&world, "j").map(|(start, _)| start),
        Some(Some(2100)),
        "it keeps what it was promised"
    );
    assert_eq!(reserved(&world, "urgent").map(|(start, _)| start), Some(Some(2160)));
    assert_eq!(world.core.gauges().reservations_delayed.get("priority"), None);
}

#[test]
fn a_gang_whose_pod_is_replaced_over_a_restart_goes_around_what_was_promised_meanwhile() {
    let mut world = world(QueuePolicy::Conservative);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    submit_an_urgent_gang(&mut world);
    world.delete("u1");
    submit_gang(&mut world);
    world.settle();
    world.restart();
    world.list(&NODES, &[job("j", 2, 2), job("urgent", 2, 2)]);
    world.settle();
    world.submit(Pod { priority: 9, ..of_job(lasting("u2", 4, 300), "urgent") });
    world.settle();
    assert_eq!(
        reserved(&world, "j").map(|(start, _)| start),
        Some(Some(2100)),
        "it keeps what it was promised"
    );
    assert_eq!(reserved(&world, "urgent").map(|(start, _)| start), Some(Some(2160)));
}

#[test]
fn with_no_seconds_to_be_passed_by_nobody_goes_ahead_of_the_first_that_waits_for_an_unknown_end() {
    let settings = CoreSettings { queue_policy: QueuePolicy::Easy, bypass_secs: 0, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &NODES);
    assert!(starts(&mut world, pod("a", 4)), "nobody knows when it ends");
    submit_gang(&mut world);
    world.settle();
    assert_eq!(
        reserved(&world, "j"),
        Some((None, "n[1-2]".to_owned())),
        "its nodes are held at once"
    );
    assert!(!starts(&mut world, lasting("short", 4, 1)));
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("n1"), Some("n2")));
}

#[test]
fn the_queue_depth_bounds_the_reservations_and_not_who_may_start() {
    let settings =
        CoreSettings { queue_policy: QueuePolicy::Conservative, queue_depth: 1, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &NODES);
    assert!(starts(&mut world, lasting("a", 4, 100)));
    submit_gang(&mut world);
    assert!(!starts(&mut world, lasting("second", 4, 300)), "it would delay the gang");
    assert_eq!(reserved(&world, "j").map(|(start, _)| start), Some(Some(2100)));
    assert_eq!(reserved(&world, "second"), None, "it is beyond the depth of the queue");
    assert!(starts(&mut world, lasting("third", 4, 50)), "it fits before the gang");
}

/// Returns the instant since which it is passed by, and the nodes held for it.
fn passed_by(world: &World) -> (Option<i64>, Option<(Option<i64>, String)>) {
    let status = world.record("j").status.as_ref().expect("a status");
    (status.passed_by_since.as_ref().map(|at| time_of(at).seconds()), reserved(world, "j"))
}

/// It is not known when the gang can start, and for nearly as long as is allowed it has been passed
/// by. Then one of its pods goes.
fn incomplete_after_a_while() -> World {
    let mut world = world(QueuePolicy::Easy);
    assert!(starts(&mut world, pod("a", 4)), "nobody knows when it ends");
    let started = Some(world.now);
    world.change("a", |pod| (pod.phase, pod.started) = (Phase::Running, started));
    submit_gang(&mut world);
    world.settle();
    world.pass_seconds(290);
    world.settle();
    assert_eq!(passed_by(&world), (Some(2000), None));
    world.delete("p1");
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Incomplete));
    world
}

#[test]
fn since_when_a_gang_is_passed_by_stays_when_a_pod_of_it_is_replaced() {
    for restarts in [false, true] {
        let mut world = incomplete_after_a_while();
        assert_eq!(passed_by(&world), (Some(2000), None), "it stays in its status");
        if restarts {
            world.restart();
            world.list(&NODES, &[job("j", 2, 2)]);
            world.settle();
            assert_eq!(passed_by(&world), (Some(2000), None), "a restart does not change it");
        }
        world.submit(of_job(lasting("p2", 4, 60), "j"));
        world.settle();
        assert_eq!(passed_by(&world), (Some(2000), None));
        world.pass_seconds(11);
        world.settle();
        assert_eq!(
            passed_by(&world),
            (Some(2000), Some((None, "n[1-2]".to_owned()))),
            "restarts: {restarts}"
        );
    }
}

#[test]
fn nobody_passes_by_in_the_first_walk_after_a_restart_either() {
    let mut world = world(QueuePolicy::Easy);
    assert!(starts(&mut world, pod("a", 4)) && starts(&mut world, lasting("b", 4, 1000)));
    let started = Some(world.now);
    for name in ["a", "b"] {
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    submit_gang(&mut world);
    world.settle();
    // Its time is over, and b ends, while there is no leader.
    world.pass_seconds(301);
    world.change("b", |pod| pod.phase = Phase::Succeeded);
    world.submit(Pod { created: world.now, ..lasting("late", 4, 10) });
    world.restart();
    world.list(&NODES, &[job("j", 2, 2)]);
    world.settle();
    assert_eq!(
        (world.node_of("late"), passed_by(&world).1),
        (None, Some((None, "n[1-2]".to_owned())))
    );
}
