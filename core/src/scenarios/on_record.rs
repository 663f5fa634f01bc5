//! The records of promises agree at every instant: a process may die between any two writes.

use super::promises::{lasting, reserved, starts};
use super::*;
use crate::QueuePolicy;

/// D needs all of the three nodes, A all of the two large ones. What runs there ends at 2200, 2100
/// and 2080.
const NODES: [(&str, u64); 3] = [("n1", 4), ("n2", 8), ("n3", 8)];

fn start_of(world: &World, workload: &str) -> Option<i64> {
    reserved(world, workload)?.0
}

fn written(actions: &[Action]) -> Vec<String> {
    let names = actions.iter().filter_map(|action| match &action.kind {
        ActionKind::Write(Write::WriteStatus { job, .. }) => Some(job.key.name.to_string()),
        _ => None,
    });
    names.collect()
}

fn key(world: &World, workload: &str) -> String {
    key_of(world.record(workload)).name.to_string()
}

/// A is promised 2080 since 2052, which is to be written at 2055, and at 2053 D is promised 2180 in
/// place of 2200, which A has left.
fn one_rests_on_another() -> World {
    let told = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
    let mut world = World::told(told, FunctionTable::builtin(), &NODES);
    for (name, cores, seconds) in [("r1", 4, 200), ("r2", 8, 100), ("r3", 8, 80)] {
        assert!(starts(&mut world, lasting(name, cores, seconds)), "{name}");
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    world.tell(Event::Controller(Arc::new(job("d", 5, 5))));
    for name in ["d0", "d1", "d2", "d3", "d4"] {
        world.submit(Pod {
            created: Time::from_seconds(2000),
            ..of_job(lasting(name, 4, 100), "d")
        });
    }
    world.settle();
    world.pass_seconds(50);
    world.tell(Event::Controller(Arc::new(job("a", 2, 2))));
    for name in ["a0", "a1"] {
        world.submit(Pod {
            created: Time::from_seconds(2050),
            ..of_job(lasting(name, 8, 100), "a")
        });
    }
    world.settle();
    assert_eq!((start_of(&world, "d"), start_of(&world, "a")), (Some(2200), Some(2100)));
    world.pass_seconds(2);
    world.change("r2", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(start_of(&world, "a"), Some(2100), "that it is better is written later");
    world.pass_seconds(1);
    world.change("r1", |pod| pod.phase = Phase::Succeeded);
    world
}

#[test]
fn a_better_promise_is_not_written_before_the_one_that_it_rests_on() {
    let mut world = one_rests_on_another();
    let (a, d) = (key(&world, "a"), key(&world, "d"));
    let actions = world.step();
    let names = written(&actions);
    assert!(
        names.contains(&a) && !names.contains(&d),
        "D has its place only because A has left its own: {names:?}"
    );
    world.carry_out_all(actions);
    let actions = world.step();
    assert!(written(&actions).contains(&d), "{:?}", written(&actions));
    world.carry_out_all(actions);
    world.settle();
    assert_eq!((start_of(&world, "d"), start_of(&world, "a")), (Some(2180), Some(2080)));
}

#[test]
fn whenever_a_process_dies_its_successor_keeps_all_that_is_written() {
    for done in 0..8 {
        let mut world = one_rests_on_another();
        let mut left = done;
        while left > 0 {
            let actions = world.step();
            let count = actions.len().min(left);
            left = if count == 0 { 0 } else { left - count };
            world.carry_out_all(actions.into_iter().take(count));
        }
        let written = (start_of(&world, "d"), start_of(&world, "a"));
        world.restart();
        world.list(&NODES, &[job("d", 5, 5), job("a", 2, 2)]);
        world.settle();
        let now = (start_of(&world, "d"), start_of(&world, "a"));
        assert!(
            now.0 <= written.0 && now.1 <= written.1,
            "after {done} things: {written:?}, then {now:?}"
        );
        assert!(world.core.gauges().reservations_delayed.is_empty(), "after {done} things");
        world.pass_seconds(27);
        world.change("r3", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert!(world.node_of("a0").is_some(), "it starts when it was promised to");
    }
}
