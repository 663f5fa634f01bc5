//! Writes of a leader that was paused and is none any more: what took effect all the same is news
//! to its successor.

use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The FluxJob of this workload as another leader has written it.
fn written_late(world: &mut World, workload: &str, how: impl FnOnce(&mut FluxJob)) {
    world.change_record(workload, |record| {
        how(record);
        let version = record
            .metadata
            .resource_version
            .as_deref()
            .map_or(0, |version| version.parse().expect("a number"));
        record.metadata.resource_version = Some((version + 1_u32).to_string());
    });
}

/// Its job has ended so.
fn end_as(reason: &str, record: &mut FluxJob, at: MicroTime) {
    let status = record.status.as_mut().expect("a status");
    let mut finished = status.conditions[0].clone();
    (finished.type_, finished.reason) = ("Finished".to_owned(), reason.to_owned());
    finished.status = "True".to_owned();
    status.conditions.push(finished);
    status.state = Some(JobState::from_conditions(&status.conditions));
    status.completion_time = Some(at);
}

/// Carries all out but writes of the status of this FluxJob: of that there is another version by
/// now.
fn carry_out_but_for(world: &mut World, actions: Vec<Action>, key: &ObjectKey) {
    for action in actions {
        match &action.kind {
            ActionKind::Write(Write::WriteStatus { job, .. }) if job.key == *key => {
                world.tell(Event::Done(action.id, Outcome::Write(WriteOutcome::Conflict)));
            }
            _ => world.carry_out(action),
        }
    }
}

fn instant(world: &World, seconds_ago: i64) -> MicroTime {
    crate::records::times::micro_time(world.now.plus_millis(-1000 * seconds_ago))
}

#[test]
fn a_place_in_the_queue_that_was_written_late_is_kept() {
    let nodes = [("a", 1)];
    let mut world = World::new(&nodes);
    world.submit(pod("runs", 1));
    world.settle();
    world.submit(pod("before", 1));
    world.submit(pod("waits", 1));
    world.settle();
    let key = key_of(world.record("waits"));
    let status = world.record_mut("waits").status.take();
    world.pass_seconds(100);
    world.restart();
    world.list(&nodes, &[]);
    let unanswered = world.step();
    let at = instant(&world, 200);
    written_late(&mut world, "waits", |record| {
        record.status = status;
        record.status.as_mut().expect("a status").queued_at = Some(at.clone());
    });
    carry_out_but_for(&mut world, unanswered, &key);
    world.settle();
    assert_eq!(
        world.record("waits").status.as_ref().and_then(|status| status.queued_at.clone()),
        Some(at)
    );
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(
        (world.node_of("before"), world.node_of("waits")),
        (None, Some("a")),
        "the order is that of the record"
    );
}

#[test]
fn an_end_that_was_written_late_stays_as_it_is() {
    let nodes = [("a", 1)];
    let mut world = World::new(&nodes);
    world.submit(pod("p", 1));
    world.settle();
    world.restart();
    world.list(&nodes, &[]);
    world.settle();
    let at = instant(&world, 5);
    written_late(&mut world, "p", |record| {
        end_as("Succeeded", record, at.clone());
    });
    // That its pod has ended comes after.
    world.pass_seconds(3);
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Completed));
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    let status = world.record("p").status.as_ref().expect("a status");
    assert_eq!(
        (status.state, status.completion_time.clone()),
        (Some(JobState::Completed), Some(at))
    );
}

#[test]
fn whoever_wrote_the_same_placement_first_stays_on_record() {
    let nodes = [("a", 2)];
    let mut world = World::new(&nodes);
    world.submit_gang(1);
    world.settle();
    // As if the first leader's placement had been on its way until now.
    let status = world.record_mut("j").status.take();
    for pod in world.pods.values_mut() {
        pod.node = None;
    }
    world.restart();
    world.list(&nodes, &[job("j", 2, 2)]);
    let unanswered = world.step();
    written_late(&mut world, "j", |record| record.status = status);
    for action in unanswered {
        world.tell(Event::Done(action.id, Outcome::Write(WriteOutcome::Conflict)));
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    assert_eq!(world.record("j").status.as_ref().and_then(|status| status.epoch), Some(1));
}

#[test]
fn a_withdrawal_that_took_effect_and_is_answered_by_a_conflict_leaves_nothing_acknowledged() {
    let mut world = World::new(&[("a", 2)]);
    world.submit_gang(1);
    let placement_of = |action: &Action| match &action.kind {
        ActionKind::Write(Write::WriteStatus { status, .. }) => Some(status.placement.len()),
        _ => None,
    };
    'placed: for _ in 0..20 {
        for action in world.step() {
            let places = placement_of(&action).is_some_and(|ranges| ranges > 0);
            world.carry_out(action);
            if places {
                break 'placed;
            }
        }
    }
    // One of its pods is gone before the first Binding, so the placement is withdrawn.
    world.delete("p1");
    let (withdrawals, others): (Vec<Action>, Vec<Action>) =
        world.step().into_iter().partition(|action| placement_of(action) == Some(0));
    world.carry_out_all(others);
    let [withdrawal] = withdrawals.as_slice() else { panic!("{withdrawals:?}") };
    let ActionKind::Write(Write::WriteStatus { status, .. }) = &withdrawal.kind else {
        panic!("{withdrawal:?}")
    };
    // It took effect, its answer was lost, and the same sent again met its own version. The watch
    // is late.
    world.record_mut("j").status = Some((**status).clone());
    world.tell(Event::Done(withdrawal.id, Outcome::Write(WriteOutcome::Conflict)));
    world.submit(of_job(pod("p2", 1), "j"));
    for _ in 0..20 {
        world.pass_seconds(1);
        let actions = world.step();
        let bound = binds(&actions);
        let writes = actions
            .iter()
            .filter(|action| placement_of(action).is_some_and(|ranges| ranges > 0))
            .count();
        assert_eq!(bound, 0, "the placement is not stored: {actions:?}");
        if writes > 0 {
            return;
        }
        world.carry_out_all(actions);
    }
    panic!("its placement was never written again");
}

#[test]
fn who_has_come_to_a_group_whose_end_is_written_late_is_another_group() {
    let nodes = [("a", 2)];
    let mut world = World::new(&nodes);
    world.submit(of_group(pod("g0", 1), "g", Ok(1)));
    world.settle();
    let key = key_of(world.record("g"));
    world.restart();
    let ended = world.now;
    let g0 = world.pods.get_mut("g0").expect("it was bound");
    (g0.phase, g0.ended) = (Phase::Failed, Some(ended));
    world.pods.insert("q0".to_owned(), of_group(pod("q0", 1), "g", Ok(2)));
    world.list(&nodes, &[]);
    let unanswered = world.step();
    // The first leader had seen the end of the pod, and was paused before it wrote that.
    written_late(&mut world, "g", |record| {
        end_as("Failed", record, crate::records::times::micro_time(ended));
    });
    carry_out_but_for(&mut world, unanswered, &key);
    world.settle();
    let ended = world.records[&key].clone();
    world.submit(of_group(pod("q1", 1), "g", Ok(2)));
    world.settle();
    assert_eq!((world.node_of("q0"), world.node_of("q1")), (Some("a"), Some("a")));
    assert_eq!(world.records.len(), 2, "they have a FluxJob of their own");
    assert_eq!(world.records.get(&key), Some(&ended), "what has ended stays so");
    let writes = super::restarts::writes_after_restart(&mut world, &nodes, &[]);
    assert!(writes.is_empty(), "{writes:#?}");
}
