//! A restart on a quiet cluster changes nothing.

use super::promises::{lasting, starts};
use super::queues::{of_queue, queue};
use super::*;
use serde_json::json;

/// Returns the writes of a new process, after it got everything there is.
pub(super) fn writes_after_restart(
    world: &mut World,
    nodes: &[(&str, u64)],
    controllers: &[Controller],
) -> Vec<ActionKind> {
    world.restart();
    world.list(nodes, controllers);
    let mut writes = Vec::new();
    for _ in 0..50 {
        let actions = world.step();
        writes.extend(actions.iter().map(|action| action.kind.clone()));
        world.carry_out_all(actions);
        world.now = world.now.plus_millis(100);
    }
    writes
}

#[test]
fn a_quiet_cluster_is_not_written_to() {
    let nodes = [("a", 4), ("b", 4)];
    let mut world = World::new(&nodes);
    let gang = job("gang", 2, 2);
    world.tell(Event::Controller(Arc::new(gang.clone())));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 3), "gang"));
    }
    let mut lone = pod("lone", 1);
    lone.soft_ignored = vec!["spec.affinity.podAffinity"];
    world.submit(lone);
    world.submit(pod("waits", 3));
    world.submit(pod("never", 9));
    world.settle();
    for name in ["p0", "p1", "lone"] {
        let started = Some(world.now);
        world.change(name, |pod| {
            pod.started = started;
            pod.phase = Phase::Running;
        });
    }
    for _ in 0..60 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.bound(), 3);
    world.show_conditions(&["waits", "never"]);
    world.settle();
    let before = world.records.clone();
    let writes = writes_after_restart(&mut world, &nodes, &[gang]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(world.records, before);
    assert_eq!(world.record("gang").status.as_ref().and_then(|status| status.epoch), Some(1));
}

#[test]
fn a_planned_end_counts_from_the_pods_own_start() {
    let mut world = World::new(&[("a", 4)]);
    let mut runs = pod("runs", 4);
    runs.lifetime = Lifetime::Seconds(100);
    world.submit(runs);
    world.settle();
    let started = world.now;
    world.change("runs", |pod| pod.started = Some(started));
    world.pass_seconds(60);
    world.restart();
    world.list(&[("a", 4)], &[]);
    world.submit(pod("waits", 4));
    world.settle();
    world.look_ahead();
    assert_eq!(world.estimate("waits"), Some((EstimateKind::Projected, started.seconds() + 100)));
}

#[test]
fn a_clock_that_jumps_moves_planned_ends_only() {
    let mut world = World::new(&[("a", 4)]);
    let mut runs = pod("runs", 4);
    runs.lifetime = Lifetime::Seconds(7200);
    world.submit(runs);
    world.settle();
    let started = world.now;
    world.change("runs", |pod| pod.started = Some(started));
    world.submit(pod("waits", 4));
    world.settle();
    // The API server's clock is an hour ahead from now on: the rest of the walltime is an hour
    // shorter.
    world.tell(Event::ClockOffset(3_600_000_000));
    world.look_ahead();
    // On record by that clock.
    assert_eq!(world.estimate("waits"), Some((EstimateKind::Projected, started.seconds() + 7200)));
    assert!(
        world.core.next_wake().is_some_and(|wake| wake.seconds() < world.now.seconds() + 60),
        "timers go on"
    );
    // Back again: nothing is undone.
    world.tell(Event::ClockOffset(0));
    world.pass_seconds(2);
    world.settle();
    assert_eq!((world.node_of("runs"), world.node_of("waits")), (Some("a"), None));
}

#[test]
fn what_ended_so_long_ago_that_its_record_is_gone_gets_no_other() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("ran", 1));
    world.settle();
    let ended = world.now;
    world.change("ran", |pod| {
        pod.phase = Phase::Succeeded;
        pod.ended = Some(ended);
    });
    world.settle();
    world.pass_seconds(61);
    world.settle();
    assert!(world.records.is_empty(), "its time is over");
    let writes = writes_after_restart(&mut world, &[("a", 4)], &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

/// Two pods of a Job that wants four in all run.
fn with_job_of_two(nodes: &[(&str, u64)]) -> World {
    let mut world = World::new(nodes);
    world.tell(Event::Controller(Arc::new(job("j", 2, 4))));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 2), "j"));
    }
    world.settle();
    world
}

#[test]
fn a_retained_slot_is_retained_by_the_next_process() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = with_job_of_two(&nodes);
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.submit(pod("behind", 2));
    world.settle();
    assert_eq!(world.node_of("behind"), None, "the slot is kept for the next pod of the Job");
    world.restart();
    world.list(&nodes, &[Controller { succeeded: 1, ..job("j", 2, 4) }]);
    world.settle();
    assert_eq!(world.node_of("behind"), None, "the slot is still retained");
    world.submit(of_job(pod("p2", 2), "j"));
    world.settle();
    assert_eq!(world.node_of("p2"), Some("a"));
}

/// Checks that the slot of a pod that has ended this number of seconds ahead, by the server's
/// clock, is not retained by a process that begins ten minutes later.
fn judge_slot_of_who_ended(ahead_secs: u64) {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = with_job_of_two(&nodes);
    let ended = Some(world.now.plus_secs(ahead_secs));
    world.change("p0", |pod| (pod.phase, pod.ended) = (Phase::Succeeded, ended));
    world.settle();
    world.pass_seconds(600);
    world.settle();
    world.restart();
    world.list(&nodes, &[Controller { succeeded: 1, ..job("j", 2, 4) }]);
    world.settle();
    assert!(starts(&mut world, pod("other", 2)), "nobody retains it any more");
}

#[test]
fn a_slot_that_was_given_back_long_ago_is_not_retained_by_the_next_process() {
    judge_slot_of_who_ended(0);
}

#[test]
fn who_waits_to_join_a_gang_does_not_get_the_room_of_one_who_has_left_by_a_restart() {
    let nodes = [("a", 4), ("b", 2)];
    let mut world = with_job_of_two(&nodes);
    world.submit(pod("other", 2));
    world.settle();
    assert_eq!(
        (world.node_of("p0"), world.node_of("p1"), world.node_of("other")),
        (Some("a"), Some("a"), Some("b"))
    );
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    world.pass_seconds(600);
    world.settle();
    world.submit(Pod { priority: 9, ..pod("first", 4) });
    world.settle();
    world.submit(of_job(pod("p2", 2), "j"));
    world.settle();
    assert_eq!(world.node_of("p2"), None, "the room is held for one of higher priority");
    world.restart();
    world.list(&nodes, &[Controller { succeeded: 1, ..job("j", 2, 4) }]);
    world.settle();
    assert_eq!(world.node_of("p2"), None, "it still is");
}

#[test]
fn the_flux_jobs_of_another_fluxqueue_are_left_alone() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_group(pod("p0", 1), "g", Ok(2)));
    world.submit(of_group(pod("p1", 1), "g", Ok(2)));
    world.settle();
    let mut theirs = world.record("g").clone();
    theirs.metadata.name = Some("g-group-other".to_owned());
    theirs.metadata.uid = Some("theirs".to_owned());
    theirs.spec.scheduler_name = Some("another".to_owned());
    world.records.clear();
    world.records.insert(key_of(&theirs), theirs.clone());
    world.restart();
    world.list(&[("a", 4)], &[]);
    world.settle();
    world.pass_seconds(120);
    world.settle();
    assert_eq!(world.records.get(&key_of(&theirs)), Some(&theirs), "neither written nor deleted");
    assert_eq!(world.records.len(), 2, "the group has one of its own");
}

#[test]
fn what_was_said_for_the_same_reason_stays_though_the_numbers_are_others_by_now() {
    let nodes = [("a", 4), ("b", 4)];
    let mut world = World::new(&nodes);
    for name in ["runs", "waits", "behind"] {
        world.submit(pod(name, if name == "runs" { 2 } else { 16 }));
    }
    world.settle();
    world.pass_seconds(60);
    world.settle();
    let status = world.record_mut("waits").status.as_mut().expect("a status");
    let said = status.blocked_by.first_mut().expect("it waits");
    said.message = "0/9 nodes are available: 9 Insufficient cpu.".to_owned();
    status.conditions[0].message.clone_from(&said.message);
    let reason = ScheduledCondition {
        scheduled: false,
        reason: "Unschedulable".to_owned(),
        message: "0/9 nodes are available: 9 Insufficient cpu.".to_owned(),
    };
    for name in ["waits", "behind"] {
        let reason = reason.clone();
        world.change(name, |pod| pod.scheduled_condition = Some(reason));
    }
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
    // Once it comes to another result, that is news.
    world.tell(Event::Node(node("c", 1)));
    world.pass_seconds(60);
    world.settle();
    assert!(world.blocked("waits").1.contains("0/3 nodes"), "{:?}", world.blocked("waits"));
}

#[test]
fn what_was_in_the_way_of_pods_that_nobody_wants_any_more_is_not_said() {
    let mut world = World::new(&[("a", 1)]);
    world.submit_gang(4);
    world.settle();
    assert_eq!(world.blocked("j").0, "Unsatisfiable");
    let suspended =
        Controller { wants: 0, parallelism: 0, can_start_together: 0, ..job("j", 2, 2) };
    world.tell(Event::Controller(Arc::new(suspended.clone())));
    world.settle();
    assert_eq!(
        world.record("j").status.as_ref().map(|status| status.blocked_by.clone()),
        Some(Vec::new())
    );
    world.show_conditions(&["p0", "p1"]);
    let writes = writes_after_restart(&mut world, &[("a", 1)], &[suspended]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn a_condition_that_could_not_be_written_is_written_later() {
    let mut world = World::new(&[("a", 1)]);
    world.submit(pod("waits", 4));
    let mut failed = false;
    for _ in 0..400 {
        for action in world.step() {
            if !failed && matches!(action.kind, ActionKind::Write(Write::SetPodScheduled { .. })) {
                failed = true;
                let outcome = Outcome::Write(WriteOutcome::Failed("timeout".to_owned()));
                world.tell(Event::Done(action.id, outcome));
            } else {
                world.carry_out(action);
            }
        }
        world.now = world.now.plus_millis(100);
    }
    assert!(failed && world.conditions.contains_key("waits"), "nothing else has happened");
}

#[test]
fn a_flux_job_that_somebody_removed_after_the_end_does_not_come_back() {
    let nodes = [("a", 2)];
    let mut world = World::new(&nodes);
    world.submit(pod("p", 1));
    world.settle();
    world.pass_seconds(3);
    world.settle();
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    world.delete_record("p");
    world.settle();
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty() && world.records.is_empty(), "{writes:#?}");
}

/// A ReplicaSet that wants two pods.
pub(super) fn replica_set() -> Controller {
    Controller { kind: OwnerKind::ReplicaSet, completions: None, ..job("rs", 2, 2) }
}

/// One of them.
pub(super) fn of_set(name: &str, cores: u64, created: i64) -> Pod {
    let mut member = of_job(pod(name, cores), "rs");
    let owner = member.owner.as_mut().expect("it has an owner");
    (owner.kind, owner.api_version) = (OwnerKind::ReplicaSet, Arc::from("apps/v1"));
    Pod { created: Time::from_seconds(created), ..member }
}

#[test]
fn of_pods_that_wait_for_different_things_the_first_says_why() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    let set = replica_set();
    world.tell(Event::Controller(Arc::new(set.clone())));
    world.submit(pod("runs", 2));
    world.settle();
    // The second is seen first, and waits for something else.
    world.submit(of_set("s1", 9, 1002));
    world.settle();
    world.submit(of_set("s0", 3, 1001));
    world.settle();
    assert_eq!(world.blocked("rs").0, "InsufficientResources");
    world.show_conditions(&["s0", "s1"]);
    world.pass_seconds(60);
    world.settle();
    let writes = writes_after_restart(&mut world, &nodes, std::slice::from_ref(&set));
    assert!(writes.is_empty(), "{writes:#?}");
    // Without the first the other one's reason counts.
    world.delete("s0");
    world.settle();
    assert_eq!(world.blocked("rs").0, "Unsatisfiable");
}

#[test]
fn a_lone_pod_that_ends_while_its_job_is_held_was_one_pod() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    world.submit(pod("p", 1));
    world.settle();
    world.edit("p", |spec| spec.overrides.hold = true);
    world.settle();
    assert!(writes_after_restart(&mut world, &nodes, &[]).is_empty());
    let ended = Some(world.now);
    world.change("p", |pod| (pod.phase, pod.ended) = (Phase::Succeeded, ended));
    world.settle();
    assert_eq!(world.record("p").status.as_ref().map(|status| status.total), Some(1));
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn a_start_that_is_still_to_come_by_a_clock_that_was_set_back_counts() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    let started = world.now.plus_millis(3_600_000);
    world.submit(lasting("runs", 4, 100));
    world.settle();
    world.change("runs", |pod| (pod.phase, pod.started) = (Phase::Running, Some(started)));
    world.submit(pod("waits", 4));
    world.settle();
    world.show_conditions(&["waits"]);
    world.look_ahead();
    world.pass_seconds(200);
    world.settle();
    world.look_ahead();
    let expected = Some((EstimateKind::Projected, started.seconds() + 100));
    assert_eq!(world.estimate("waits"), expected);
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(world.estimate("waits"), expected);
}

#[test]
fn what_was_said_stays_though_something_else_matters_most_by_now() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    world.submit(pod("runs", 2));
    world.submit(pod("waits", 4));
    world.settle();
    world.show_conditions(&["waits"]);
    world.pass_seconds(60);
    world.settle();
    let status = world.record_mut("waits").status.as_mut().expect("a status");
    assert_eq!(status.blocked_by.len(), 2, "{:?}", status.blocked_by);
    status.blocked_by.reverse();
    let said = Blockers::of(status.blocked_by.clone()).expect("it is blocked");
    (status.conditions[0].reason, status.conditions[0].message) =
        (said.reason().to_string(), said.text());
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

/// Returns the writes of a process to the status of queues in this number of seconds.
fn queue_writes(world: &mut World, seconds: i64) -> Vec<String> {
    let mut writes = Vec::new();
    for _ in 0..seconds {
        let actions = world.step();
        let of_queues = actions.iter().filter(|action| {
            matches!(action.kind, ActionKind::Write(Write::WriteQueueStatus { .. }))
        });
        writes.extend(of_queues.map(|action| format!("{:?}", action.kind)));
        world.carry_out_all(actions);
        world.pass_seconds(1);
    }
    writes
}

#[test]
fn a_pod_whose_maker_is_gone_counts_in_its_queue_as_before() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    queue(&mut world, "gpu", &json!({}));
    world.tell(Event::Controller(Arc::new(job("j", 1, 1))));
    world.submit(of_queue(of_job(pod("p", 1), "j"), "gpu"));
    world.settle();
    queue_writes(&mut world, 5);
    world.delete_record("j");
    world.tell(Event::ControllerGone(Uid::from("uid-j")));
    world.change("p", |pod| pod.deleting = true);
    queue_writes(&mut world, 5);
    assert_eq!(world.queues["gpu"].running, 1);
    world.restart();
    queue(&mut world, "gpu", &json!({}));
    let status = world.queues["gpu"].clone();
    world.tell(super::queues::with_status("gpu", status));
    world.list(&nodes, &[]);
    let writes = queue_writes(&mut world, 60);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn a_slot_whose_pod_has_ended_by_a_clock_that_was_set_back_since_is_not_retained_by_the_next_process()
 {
    judge_slot_of_who_ended(3600);
}

#[test]
fn a_condition_that_an_earlier_process_writes_late_is_replaced() {
    let mut world = World::new(&[("a", 2)]);
    world.submit(pod("p0", 3));
    world.look_ahead();
    let said = world.conditions["p0"].clone();
    assert_eq!(said.reason, "Unschedulable");
    world.change("p0", |pod| pod.scheduled_condition = Some(said.clone()));
    world.restart();
    world.conditions.clear();
    world.list(&[("a", 2)], &[]);
    world.look_ahead();
    assert!(world.conditions.is_empty(), "it stands");
    let late = ScheduledCondition {
        scheduled: false,
        reason: "SchedulerError".to_owned(),
        message: "its FluxJob cannot be written".to_owned(),
    };
    world.change("p0", |pod| pod.scheduled_condition = Some(late));
    world.pass_seconds(30);
    world.look_ahead();
    assert_eq!(world.conditions.get("p0"), Some(&said));
}
