//! Estimates: what is on record of when a job starts, and how often that is written.

use super::*;
use crate::QueuePolicy;
use crate::record::time_of;

fn world(queue_policy: QueuePolicy, nodes: &[(&str, u64)]) -> World {
    World::told(CoreSettings { queue_policy, ..settings() }, FunctionTable::builtin(), nodes)
}

fn lasting(name: &str, cores: u64, seconds: u64) -> Pod {
    Pod { lifetime: Lifetime::Seconds(seconds), ..pod(name, cores) }
}

/// A node on which a pod `runs` for this long, and as many pods `waits-0` and so on that wait for it. Each is a question of its own.
fn waiting(count: usize, seconds: u64) -> (World, Vec<String>) {
    let mut world = world(QueuePolicy::Fcfs, &[("a", 4)]);
    world.submit(lasting("runs", 4, seconds));
    world.settle();
    let started = world.now;
    world.change("runs", |pod| pod.started = Some(started));
    let names: Vec<String> = (0..count).map(|at| format!("waits-{at}")).collect();
    for (name, seconds) in names.iter().zip(60..) {
        world.submit(lasting(name, 4, seconds));
    }
    for _ in 0..20 {
        world.settle();
        world.pass_seconds(1);
    }
    (world, names)
}

#[test]
fn a_promise_is_told_as_such_and_as_the_reservation_has_it() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    world.submit(lasting("runs", 4, 100));
    world.settle();
    world.submit(lasting("first", 4, 50));
    world.settle();
    assert_eq!(world.estimate("first"), Some((EstimateKind::Reserved, 2100)));
    let status = world.record("first").status.clone().expect("a status");
    assert_eq!(status.reservation.and_then(|kept| kept.start), status.estimated_start.map(|start| start.time));
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.estimate("first"), None, "it has started");
}

#[test]
fn what_waits_for_an_end_that_nobody_knows_has_no_estimate_and_says_whose_end_it_is() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    world.submit(pod("runs", 4));
    world.settle();
    world.submit(lasting("waits", 4, 50));
    world.settle();
    assert_eq!(world.estimate("waits"), None);
    let (_, message) = world.blocked("waits");
    assert!(message.contains("Nobody knows when ns/runs"), "{message}");
}

#[test]
fn an_estimate_that_moves_by_little_is_not_written_again() {
    let (mut world, _) = waiting(1, 7200);
    assert_eq!(world.estimate("waits-0"), Some((EstimateKind::Projected, 2000 + 7200)));
    // It has begun earlier than it was told: first by a little less than a tenth of what is left, then by more.
    for (seconds, expected) in [(700, 9200), (900, 8300)] {
        world.change("runs", |pod| pod.started = Some(Time::from_seconds(2000 - seconds)));
        world.settle();
        world.pass_seconds(2);
        world.settle();
        assert_eq!(world.estimate("waits-0"), Some((EstimateKind::Projected, expected)), "{seconds}");
    }
}

#[test]
fn of_many_estimates_that_move_at_once_five_are_written_in_a_second() {
    let (mut world, waiting) = waiting(20, 3600);
    let with_estimate = |world: &World| waiting.iter().filter(|name| world.estimate(name).is_some()).count();
    let before: Vec<_> = waiting.iter().map(|name| world.estimate(name)).collect();
    assert_eq!(with_estimate(&world), 20);
    world.change("runs", |pod| pod.started = Some(Time::from_seconds(200)));
    let mut moved_at: Vec<Time> = Vec::new();
    for _ in 0..200 {
        let actions = world.step();
        let written = actions.iter().filter(|action| match &action.kind {
            ActionKind::WriteStatus { job, status, .. } => {
                let known = world.records[&job.key].status.clone().expect("a status");
                let mut as_known = (**status).clone();
                as_known.estimated_start.clone_from(&known.estimated_start);
                known.estimated_start != status.estimated_start && known == as_known
            }
            _ => false,
        });
        moved_at.extend(written.map(|_| world.now));
        world.carry_out_all(actions);
        world.now = world.now.plus_millis(50);
    }
    assert_eq!(moved_at.len(), 20, "each is written once");
    assert!(moved_at.windows(6).all(|six| six[5].0 - six[0].0 >= 1_000_000), "{moved_at:?}");
    let after: Vec<_> = waiting.iter().map(|name| world.estimate(name)).collect();
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{after:?}");
    let status = world.record("waits-0").status.clone().and_then(|status| status.estimated_start).expect("one");
    assert!(time_of(&status.as_of) <= time_of(&status.time));
}
