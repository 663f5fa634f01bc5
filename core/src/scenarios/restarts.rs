//! A restart on a quiet cluster changes nothing.

use super::promises::{lasting, reserved, starts};
use super::queues::{of_queue, queue};
use super::*;
use crate::QueuePolicy;
use serde_json::json;

/// What a new process writes, told everything there is.
pub(super) fn writes_after_restart(
    world: &mut World,
    nodes: &[(&str, u64)],
    controllers: &[Controller],
) -> Vec<String> {
    world.restart();
    world.list(nodes, controllers);
    let mut writes = Vec::new();
    for _ in 0..50 {
        let actions = world.step();
        writes.extend(actions.iter().map(|action| format!("{:?}", action.kind)));
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
    // The API server's clock is an hour ahead from now on: so much less of the walltime is left.
    world.tell(Event::ClockOffset(3_600_000_000));
    world.look_ahead();
    // On record by that clock.
    assert_eq!(world.estimate("waits"), Some((EstimateKind::Projected, started.seconds() + 7200)));
    assert!(world.core.next_wake().is_some_and(|wake| wake.seconds() < world.now.seconds() + 60), "timers go on");
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

/// The slot of a pod that has ended so many seconds ahead, by the server's clock, is not retained by a process that begins ten minutes later.
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
    assert_eq!((world.node_of("p0"), world.node_of("p1"), world.node_of("other")), (Some("a"), Some("a"), Some("b")));
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
fn a_group_that_comes_late_does_not_take_the_flux_job_that_is_being_removed() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_group(pod("g1", 1), "gang", Ok(2)));
    world.settle();
    world.pass_seconds(3);
    world.settle();
    let left = key_of(world.record("gang"));
    world.pods.clear();
    world.restart();
    world.list(&[("a", 4)], &[]);
    world.settle();
    world.pass_seconds(6);
    let removal = world.step();
    assert!(
        removal.iter().any(|action| matches!(&action.kind, ActionKind::DeleteFluxJob { job, .. } if job.key == left)),
        "{removal:?}"
    );
    world.submit(of_group(pod("g2", 1), "gang", Ok(2)));
    let mut made = Vec::new();
    for _ in 0..5 {
        for action in world.step() {
            match &action.kind {
                ActionKind::WriteStatus { job, .. } => assert_ne!(job.key, left, "while it is being removed"),
                ActionKind::CreateFluxJob { job, .. } => made.push(key_of(job)),
                _ => {}
            }
        }
        world.pass_seconds(1);
    }
    assert!(made.iter().all(|key| *key != left) && !made.is_empty(), "{made:?}");
}

#[test]
fn a_group_of_a_name_that_was_used_before_is_one_job_after_a_restart() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    let submit = |world: &mut World, name, created| {
        let mut member = of_group(pod(name, 1), "g", Ok(2));
        member.created = Time::from_seconds(created);
        world.submit(member);
    };
    submit(&mut world, "p0", 1000);
    submit(&mut world, "p1", 1000);
    world.settle();
    for name in ["p0", "p1"] {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    submit(&mut world, "q0", 3000);
    submit(&mut world, "q1", 3000);
    world.settle();
    assert_eq!((world.bound(), world.records.len()), (4, 2));
    world.restart();
    world.list(&nodes, &[]);
    world.settle();
    world.delete("p0");
    world.settle();
    submit(&mut world, "q2", 3001);
    world.pass_seconds(5);
    world.settle();
    assert_eq!(world.records.len(), 2, "it joins the others");
    assert_eq!(world.node_of("q2"), Some("a"));
}

#[test]
fn what_is_left_of_an_ended_group_belongs_to_it_though_the_clock_was_set_back_since() {
    let mut world = World::new(&[("a", 4)]);
    for (name, created) in [("p0", 1000), ("p1", 9000)] {
        let mut member = of_group(pod(name, 1), "g", Ok(2));
        member.created = Time::from_seconds(created);
        world.submit(member);
    }
    world.settle();
    for name in ["p0", "p1"] {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    // It ended at 2000 by a clock that had shown 9000 before.
    let writes = writes_after_restart(&mut world, &[("a", 4)], &[]);
    assert!(writes.is_empty(), "{writes:#?}");
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

/// A group `g` of two pods that asks for three, and has waited for the third: on one node it does not fit.
fn clamped_group(nodes: &[(&str, u64)], made_by: &Controller) -> World {
    let mut world = World::new(nodes);
    world.tell(Event::Controller(Arc::new(made_by.clone())));
    for name in ["p0", "p1"] {
        let mut member = of_group(of_job(pod(name, 1), "j"), "g", Ok(3));
        member.created = world.now;
        world.submit(member);
    }
    for _ in 0..20 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.state("g"), Some(JobState::Unsatisfiable));
    world.show_conditions(&["p0", "p1"]);
    world
}

#[test]
fn a_clamped_group_is_not_waited_for_again_though_the_clock_was_set_back_since() {
    let (nodes, made_by) = ([("a", 1)], job("j", 2, 2));
    let mut world = clamped_group(&nodes, &made_by);
    world.restart();
    // By the API server's clock its pods are still to be made.
    world.tell(Event::ClockOffset(-3_600_000_000));
    world.list(&nodes, &[made_by]);
    let actions = world.step();
    world.carry_out_all(actions);
    assert_eq!(world.state("g"), Some(JobState::Unsatisfiable));
}

#[test]
fn a_clamped_group_is_not_waited_for_again() {
    let (nodes, made_by) = ([("a", 1)], job("j", 2, 2));
    let mut world = clamped_group(&nodes, &made_by);
    let writes = writes_after_restart(&mut world, &nodes, &[made_by]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn what_was_in_the_way_of_pods_that_nobody_wants_any_more_is_not_said() {
    let mut world = World::new(&[("a", 1)]);
    world.submit_gang(4);
    world.settle();
    assert_eq!(world.blocked("j").0, "Unsatisfiable");
    let suspended = Controller { wants: 0, parallelism: 0, can_start_together: 0, ..job("j", 2, 2) };
    world.tell(Event::Controller(Arc::new(suspended.clone())));
    world.settle();
    assert_eq!(world.record("j").status.as_ref().map(|status| status.blocked_by.clone()), Some(Vec::new()));
    world.show_conditions(&["p0", "p1"]);
    let writes = writes_after_restart(&mut world, &[("a", 1)], &[suspended]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn what_has_ended_keeps_its_priority_whoever_is_found_beside_it() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    world.submit(of_group(pod("p", 1), "g", Ok(1)));
    world.settle();
    let ended = Some(world.now);
    world.change("p", |pod| (pod.phase, pod.ended) = (Phase::Succeeded, ended));
    world.settle();
    assert_eq!(world.state("g"), Some(JobState::Completed));
    let other =
        of_group(Pod { phase: Phase::Succeeded, node: Some("a".into()), priority: 9, ..pod("other", 1) }, "g", Ok(1));
    world.pods.insert("other".to_owned(), other);
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

/// A pod of a gang of two was bound by somebody else, and for the other one there is no room.
fn begun_by_somebody_else(nodes: &[(&str, u64)]) -> World {
    let mut world = World::new(nodes);
    world.submit(pod("busy", 2));
    world.settle();
    world.submit_gang(2);
    world.settle();
    world.change("p0", |pod| pod.node = Some("b".into()));
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    world
}

#[test]
fn a_gang_that_somebody_else_began_is_not_whole_with_those_whom_he_has_bound() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = begun_by_somebody_else(&nodes);
    let message = |world: &World| {
        let conditions = &world.record("j").status.as_ref().expect("a status").conditions;
        let degraded = conditions.iter().find(|it| it.type_ == "Degraded" && it.reason == "StartTimeout");
        degraded.expect("it waits for the other pod").message.clone()
    };
    assert_eq!(world.state("j"), Some(JobState::Starting));
    // An earlier process may have said it in other words.
    let said = format!("once {}", message(&world));
    world.change_record("j", |record| {
        let conditions = &mut record.status.as_mut().expect("a status").conditions;
        conditions.iter_mut().filter(|it| it.type_ == "Degraded").for_each(|it| it.message.clone_from(&said));
    });
    world.show_conditions(&["p1"]);
    let writes = writes_after_restart(&mut world, &nodes, &[job("j", 2, 2)]);
    assert!(writes.is_empty(), "{writes:#?}");
    world.pass_seconds(70);
    assert!(world.step().is_empty(), "nor when it would have said so anew");
    assert_eq!(message(&world), said);
}

#[test]
fn a_gang_that_never_became_whole_has_not_become_whole_by_the_loss_of_all_its_pods() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = World::new(&nodes);
    world.submit_gang(2);
    // One is bound, the other never is.
    world.carry_out_to_first_binding();
    assert_eq!(world.bound(), 1);
    let left = world.pods.values().find(|pod| pod.node.is_none()).expect("one waits").id.key.name.to_string();
    world.delete(&left);
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    let degraded = |world: &World| {
        let conditions = &world.record("j").status.as_ref().expect("a status").conditions;
        conditions.iter().find(|it| it.type_ == "Degraded").map(|it| it.reason.clone())
    };
    assert_eq!(degraded(&world).as_deref(), Some("StartTimeout"));
    let suspended = Controller { wants: 0, can_start_together: 0, ..job("j", 2, 2) };
    world.tell(Event::Controller(Arc::new(suspended.clone())));
    let bound = world.pods.keys().next().expect("one is bound").clone();
    world.delete(&bound);
    world.settle();
    let before = degraded(&world);
    let writes = writes_after_restart(&mut world, &nodes, &[suspended]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(degraded(&world), before);
}

#[test]
fn a_gang_that_never_became_whole_has_not_become_whole_by_a_restart() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = World::new(&nodes);
    for name in ["g0", "g1"] {
        world.submit(of_group(pod(name, 2), "g", Ok(2)));
    }
    // One is bound, the other is deleted before it is.
    world.carry_out_to_first_binding();
    let left = world.pods.values().find(|pod| pod.node.is_none()).expect("one waits").id.key.name.to_string();
    world.delete(&left);
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.state("g"), Some(JobState::Starting));
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
    world.pass_seconds(70);
    assert!(world.step().is_empty(), "nor when it would have said so anew");
}

#[test]
fn who_keeps_a_gang_from_becoming_whole_does_not_get_his_old_seat_by_a_restart() {
    let nodes = [("a", 2), ("b", 2)];
    let limits = json!({"limits": {"resources": {"cpu": 2}}});
    let mut world = World::new(&nodes);
    for name in ["g0", "g1"] {
        world.submit(of_group(pod(name, 2), "g", Ok(2)));
    }
    world.carry_out_to_first_binding();
    // The node of the other comes back, and his queue may have no more by then.
    let taken = world.pods.values().find_map(|pod| pod.node.clone()).expect("one is bound");
    let free = if &*taken == "a" { "b" } else { "a" };
    queue(&mut world, "default", &limits);
    world.tell(Event::NodeGone(NodeName::from(free), Uid::from(format!("uid-{free}"))));
    world.settle();
    world.tell(Event::Node(node(free, 2)));
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!((world.state("g"), world.bound()), (Some(JobState::Starting), 1));
    world.restart();
    queue(&mut world, "default", &limits);
    world.list(&nodes, &[]);
    world.settle();
    assert_eq!(world.bound(), 1);
}

#[test]
fn a_group_that_somebody_else_began_is_no_more_whole_after_a_restart() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = World::new(&nodes);
    for name in ["g0", "g1", "g2"] {
        world.submit(of_group(pod(name, 1), "g", Ok(4)));
    }
    world.settle();
    let started = Some(world.now);
    world.change("g0", |pod| (pod.node, pod.started) = (Some("a".into()), started));
    for _ in 0..70 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!((world.bound(), world.state("g")), (3, Some(JobState::Starting)), "the fourth was never made");
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

#[test]
fn a_condition_that_could_not_be_written_is_written_later() {
    let mut world = World::new(&[("a", 1)]);
    world.submit(pod("waits", 4));
    let mut failed = false;
    for _ in 0..400 {
        for action in world.step() {
            if !failed && matches!(action.kind, ActionKind::SetPodScheduled { .. }) {
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
fn how_many_failed_and_how_large_a_refused_group_was_to_be_stays() {
    let nodes = [("a", 8)];
    let mut world = World::new(&nodes);
    for name in ["f0", "f1"] {
        world.submit(of_group(pod(name, 1), "failed", Ok(2)));
    }
    world.submit(of_group(pod("r0", 1), "refused", Ok(5)));
    world.settle();
    for name in ["f0", "f1"] {
        let ended = Some(world.now);
        world.change(name, |pod| {
            pod.phase = Phase::Failed;
            pod.ended = ended;
        });
    }
    world.pass_seconds(3);
    world.settle();
    let mut bad = of_group(pod("r1", 1), "refused", Ok(5));
    bad.unsupported = vec![Unsupported { field: "spec.x".into(), message: "is not supported".into() }];
    world.submit(bad);
    world.settle();
    world.delete("f1");
    world.settle();
    assert_eq!((world.state("failed"), world.state("refused")), (Some(JobState::Failed), Some(JobState::Refused)));
    world.show_conditions(&["r1"]);
    let before = world.records.clone();
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(world.records, before);
}

#[test]
fn a_gang_that_ran_and_has_lost_a_pod_has_run_also_for_the_next_process() {
    let nodes = [("a", 2)];
    let mut world = World::new(&nodes);
    let job = job("j", 2, 2);
    world.tell(Event::Controller(Arc::new(job.clone())));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    world.change("p1", |pod| pod.phase = Phase::Refused { reason: "OutOfcpu".into() });
    world.settle();
    world.submit(of_job(pod("p2", 9), "j"));
    world.settle();
    world.pass_seconds(31);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Running));
    world.show_conditions(&["p2"]);
    let writes = writes_after_restart(&mut world, &nodes, &[job]);
    assert!(writes.is_empty(), "{writes:#?}");
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
fn replica_set() -> Controller {
    Controller { kind: OwnerKind::ReplicaSet, completions: None, ..job("rs", 2, 2) }
}

/// One of them.
fn of_set(name: &str, cores: u64, created: i64) -> Pod {
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
fn what_is_left_of_an_ended_group_gives_its_priority_to_no_other() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    world.submit(Pod { priority: 9, ..of_group(pod("p0", 1), "g", Ok(1)) });
    world.settle();
    let ended = Some(world.now);
    world.change("p0", |pod| (pod.phase, pod.ended) = (Phase::Succeeded, ended));
    world.settle();
    world.pass_seconds(61);
    world.settle();
    assert!(world.records.is_empty(), "its time is over");
    world.submit(Pod { created: world.now, ..of_group(pod("q0", 8), "g", Ok(1)) });
    world.settle();
    world.show_conditions(&["q0"]);
    world.pass_seconds(60);
    world.settle();
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
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
fn a_gang_of_which_nobody_wants_more_has_not_become_whole_by_a_restart() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = begun_by_somebody_else(&nodes);
    // It is suspended, and the pod that was bound is slow to go.
    let suspended = Controller { wants: 0, can_start_together: 0, ..job("j", 2, 2) };
    world.tell(Event::Controller(Arc::new(suspended.clone())));
    world.delete("p1");
    world.change("p0", |pod| pod.deleting = true);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Starting));
    let writes = writes_after_restart(&mut world, &nodes, &[suspended]);
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
    (status.conditions[0].reason, status.conditions[0].message) = (said.reason().to_string(), said.text());
    let writes = writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}

/// What a process writes into the status of queues in so many seconds, if it does.
fn queue_writes(world: &mut World, seconds: i64) -> Vec<String> {
    let mut writes = Vec::new();
    for _ in 0..seconds {
        let actions = world.step();
        let of_queues = actions.iter().filter(|action| matches!(action.kind, ActionKind::WriteQueueStatus { .. }));
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
fn what_is_promised_on_fewer_of_its_nodes_by_a_new_process_is_not_said_before_somebody_takes_the_others() {
    let nodes = [("n1", 4), ("n2", 4), ("n3", 4)];
    let easy = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &nodes);
    for (name, cores, seconds) in [("a", 4, 100), ("b", 3, 1000), ("c", 3, 1000)] {
        assert!(starts(&mut world, lasting(name, cores, seconds)), "{name}");
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    let gang = job("j", 6, 6);
    world.tell(Event::Controller(Arc::new(gang.clone())));
    let members = ["p0", "p1", "p2", "p3", "p4", "p5"];
    for name in members {
        world.submit(of_job(lasting(name, 1, 60), "j"));
    }
    world.settle();
    let promised = Some((Some(2100), "n[1-3]".to_owned()));
    assert_eq!(reserved(&world, "j"), promised);
    world.pass_seconds(10);
    world.change("b", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    for _ in 0..15 {
        world.pass_seconds(1);
        world.settle();
    }
    world.show_conditions(&members);
    // An earlier process has not come to look at it again.
    let written = world.record_mut("j").status.as_mut().and_then(|status| status.reservation.as_mut());
    written.expect("it is promised a start").nodes = "n[1-3]".to_owned();
    let writes = writes_after_restart(&mut world, &nodes, &[gang]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(reserved(&world, "j"), promised);
    for name in ["long0", "long1", "long2"] {
        assert!(starts(&mut world, lasting(name, 1, 1000)), "{name}");
    }
    assert_eq!(world.node_of("long2"), Some("n3"), "it takes what the promise does not need");
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())), "and that is said");
}

#[test]
fn nodes_that_are_held_for_another_pod_than_the_first_of_its_job_are_on_record_and_held_by_the_next_process() {
    let nodes = [("n1", 4), ("n2", 4)];
    let easy = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &nodes);
    for name in ["busy1", "busy2"] {
        assert!(starts(&mut world, pod(name, 4)));
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    let set = replica_set();
    world.tell(Event::Controller(Arc::new(set.clone())));
    // The first never fits, and the second waits for work without a known end.
    world.submit(of_set("s0", 9, 1001));
    world.submit(of_set("s1", 4, 1002));
    world.settle();
    for _ in 0..40 {
        world.pass_seconds(10);
        world.settle();
    }
    let held = reserved(&world, "rs").expect("nodes are held");
    assert_eq!(held.0, None, "nobody knows until when");
    world.show_conditions(&["s0", "s1"]);
    let writes = writes_after_restart(&mut world, &nodes, &[set]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(reserved(&world, "rs"), Some(held));
}

#[test]
fn what_is_said_goes_by_what_is_so_once_nothing_has_happened_for_a_while() {
    let nodes = [("a", 4), ("b", 4)];
    let mut world = World::new(&nodes);
    for service in [pod("s", 3), pod("t", 3)] {
        world.submit(Pod { lifetime: Lifetime::Endless, ..service });
        world.settle();
    }
    world.submit(pod("u", 1));
    world.settle();
    world.submit_gang(2);
    world.settle();
    assert!(world.blocked("j").1.contains("ask for 4 cpu, 1 free"), "{:?}", world.blocked("j"));
    let ended = Some(world.now);
    world.change("u", |pod| (pod.phase, pod.ended) = (Phase::Succeeded, ended));
    world.settle();
    // None of its pods fits on what is free now: nobody looks at it for that.
    assert!(world.blocked("j").1.contains("1 free"), "{:?}", world.blocked("j"));
    for _ in 0..40 {
        world.pass_seconds(1);
        world.settle();
    }
    assert!(world.blocked("j").1.contains("ask for 4 cpu, 2 free"), "{:?}", world.blocked("j"));
    assert!(world.conditions["p0"].message.contains("2 free"), "{:?}", world.conditions["p0"]);
    let passes = world.core.gauges().passes;
    for _ in 0..120 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.core.gauges().passes, passes, "once is enough");
}

#[test]
fn a_promise_stays_on_its_node_though_the_next_process_sees_another_one_first() {
    let easy = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &[("a", 4), ("b", 4)]);
    for name in ["r1", "r2"] {
        assert!(starts(&mut world, lasting(name, 4, 100)), "{name}");
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    world.submit(lasting("waits", 4, 50));
    world.settle();
    let promised = Some((Some(2100), "a".to_owned()));
    assert_eq!(reserved(&world, "waits"), promised);
    world.pass_seconds(20);
    world.settle();
    world.show_conditions(&["waits"]);
    let writes = writes_after_restart(&mut world, &[("b", 4), ("a", 4)], &[]);
    assert!(writes.is_empty(), "{writes:#?}");
    // It is for the earliest second all the same.
    world.change("r2", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("waits"), Some("b"));
}

#[test]
fn a_gang_whose_placement_was_withdrawn_says_again_why_it_waits_though_a_restart_has_found_the_same() {
    let nodes = [("a", 2), ("b", 2)];
    let theirs = || Pod { scheduler: Arc::from("default-scheduler"), node: Some("b".into()), ..pod("theirs", 1) };
    let mut world = World::new(&nodes);
    world.submit(theirs());
    world.submit_gang(2);
    world.settle();
    world.pass_seconds(60);
    world.settle();
    let why = world.blocked("j");
    let writes = writes_after_restart(&mut world, &nodes, &[job("j", 2, 2)]);
    assert!(!writes.iter().any(|write| write.starts_with("WriteStatus")), "{writes:#?}");
    world.delete("theirs");
    let places = |action: &Action| matches!(&action.kind, ActionKind::WriteStatus { status, .. } if !status.placement.is_empty());
    let mut placed = world.step();
    while !placed.iter().any(places) {
        assert!(!placed.is_empty(), "it is placed");
        world.carry_out_all(placed);
        placed = world.step();
    }
    // Before it begins there is as little room as before.
    world.submit(theirs());
    world.carry_out_all(placed);
    world.settle();
    assert_eq!(world.blocked("j").0, "PlacementWithdrawn");
    for _ in 0..60 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.blocked("j"), why);
}

#[test]
fn a_slot_whose_pod_has_ended_by_a_clock_that_was_set_back_since_is_not_retained_by_the_next_process() {
    judge_slot_of_who_ended(3600);
}

#[test]
fn nodes_stay_held_for_a_pod_though_the_next_process_promises_a_start_to_another_one_of_its_job() {
    let nodes = [("n1", 8), ("n2", 8)];
    let easy = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &nodes);
    for runs in [lasting("lasts", 8, 5000), pod("stays", 4)] {
        let name = runs.id.key.name.to_string();
        assert!(starts(&mut world, runs));
        let started = Some(world.now);
        world.change(&name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    let set = replica_set();
    world.tell(Event::Controller(Arc::new(set.clone())));
    // The second comes first, and is promised a start; the first, of the same class, is passed by.
    let shape = Arc::clone(&pod("s", 6).shape);
    for (name, created) in [("s1", 1002), ("s0", 1001)] {
        let shape = Arc::clone(&shape);
        world.submit(Pod { lifetime: Lifetime::Endless, shape, ..of_set(name, 6, created) });
        world.settle();
    }
    for _ in 0..40 {
        world.pass_seconds(10);
        // As long as something happens what is not on record is not promised anew.
        world.core.queue_changed = true;
        world.settle();
    }
    let held = Some((None, "n2".to_owned()));
    assert_eq!(reserved(&world, "rs"), held);
    for _ in 0..40 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(reserved(&world, "rs"), held, "for whichever of its pods");
    world.show_conditions(&["s0", "s1"]);
    let writes = writes_after_restart(&mut world, &nodes, &[set]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(reserved(&world, "rs"), held);
    let small = Pod { lifetime: Lifetime::Endless, ..pod("small", 2) };
    assert!(!starts(&mut world, small), "there is room on n2, which is held");
}

#[test]
fn a_promise_behind_pods_that_are_ended_at_a_deadline_does_not_move_with_every_second() {
    let nodes = [("a", 4)];
    let conservative = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
    let mut world = World::told(conservative, FunctionTable::builtin(), &nodes);
    assert!(starts(&mut world, lasting("runs", 4, 100)));
    let started = Some(world.now);
    world.change("runs", |pod| (pod.phase, pod.started) = (Phase::Running, started));
    // It ends a thousand seconds from now at the latest.
    let ends = Controller { deadline: Some(Time::from_seconds(3000)), deadline_secs: Some(1000), ..job("j", 1, 1) };
    world.tell(Event::Controller(Arc::new(ends.clone())));
    world.submit(Pod { created: world.now, ..of_job(pod("p0", 4), "j") });
    world.settle();
    world.submit(Pod { created: world.now, ..lasting("waits", 4, 50) });
    world.settle();
    let promised = [("j", 2100), ("waits", 3100)].map(|(name, at)| (name, Some((Some(at), "a".to_owned()))));
    for (name, start) in promised.clone() {
        assert_eq!(reserved(&world, name), start, "{name}");
    }
    for _ in 0..4 {
        world.pass_seconds(10);
        world.settle();
    }
    world.show_conditions(&["p0", "waits"]);
    let writes = writes_after_restart(&mut world, &nodes, &[ends]);
    assert!(writes.is_empty(), "{writes:#?}");
    for (name, start) in promised {
        assert_eq!(reserved(&world, name), start, "{name}");
    }
    // No more than it has is planned for once it runs.
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("p0"), Some("a"));
    let started = Some(world.now);
    world.change("p0", |pod| (pod.phase, pod.started) = (Phase::Running, started));
    world.look_ahead();
    assert_eq!(reserved(&world, "waits"), Some((Some(3000), "a".to_owned())));
}

/// Two run on the node until 3000 and 4000, and `first` waits for both. Before it, when one has ended, there is time for a pod of a
/// Deployment, which is promised nothing on record. Then the other is to end at 3020.
fn behind_who_is_not_on_record() -> (World, Controller) {
    let settings = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &[("a", 4)]);
    for (name, seconds) in [("one", 1000), ("other", 2000)] {
        assert!(starts(&mut world, lasting(name, 2, seconds)));
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    assert!(!starts(&mut world, lasting("first", 4, 60)));
    let service = Controller { kind: OwnerKind::Deployment, ..job("service", 1, 1) };
    world.tell(Event::Controller(Arc::new(service.clone())));
    let mut of_service = Pod { created: world.now.plus_secs(1), ..of_job(lasting("s0", 2, 40), "service") };
    of_service.owner.as_mut().expect("an owner").kind = OwnerKind::Deployment;
    assert!(!starts(&mut world, of_service));
    world.edit("other", |spec| spec.overrides.walltime_seconds = Some(1020));
    world.settle();
    world.pass_seconds(6);
    world.settle();
    (world, service)
}

#[test]
fn what_is_not_on_record_keeps_nothing_from_who_is_promised_something_after_a_restart() {
    let (mut world, service) = behind_who_is_not_on_record();
    assert_eq!(
        reserved(&world, "first"),
        Some((Some(3040), "a".to_owned())),
        "the pod of the Deployment was there first"
    );
    for _ in 0..40 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(reserved(&world, "first"), Some((Some(3020), "a".to_owned())), "as a new process finds it");
    assert!(!world.notes.contains(&"ReservationDelayed".to_owned()), "nobody was promised what is later now");
    world.show_conditions(&["first", "s0"]);
    world.settle();
    let before = world.records.clone();
    let writes = writes_after_restart(&mut world, &[("a", 4)], &[service]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(world.records, before);
}

#[test]
fn what_is_not_on_record_is_made_anew_until_that_changes_nothing_and_no_longer() {
    let (mut world, _) = behind_who_is_not_on_record();
    // The first review moves what is on record, the second finds it as the first has left it.
    let mut at = Vec::new();
    let mut passes = world.core.gauges().passes;
    while world.now.seconds() < 2400 {
        world.pass_seconds(1);
        world.settle();
        let walked = world.core.gauges().passes;
        if walked > passes {
            at.push(world.now.seconds());
        }
        passes = walked;
    }
    assert!(at.last().is_some_and(|last| *last < 2200), "it walks on and on: {at:?}");
}
