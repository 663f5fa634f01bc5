//! The promises behind a Job with pods that come in waves, and behind one with pods that fail and
//! are made again.

use super::promises::{lasting, reserved, starts, world};
use super::*;
use crate::QueuePolicy;

fn seconds_go_by(world: &mut World, seconds: i64) {
    for _ in 0..seconds {
        world.pass_seconds(1);
        world.settle();
    }
}

fn run(world: &mut World, name: &str) {
    let started = Some(world.now);
    world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    world.settle();
}

fn delays(world: &World) -> Vec<&str> {
    let delayed =
        world.texts.iter().zip(&world.notes).filter(|(_, reason)| *reason == "ReservationDelayed");
    delayed.map(|(text, _)| text.as_str()).collect()
}

/// A Job of one pod at a time, of 100 s each, runs on the first node, "long" on the other one, and
/// "first" waits for the former.
fn promised_behind_a_job(completions: u32, start: i64) -> World {
    let mut world = world(QueuePolicy::Easy);
    world.tell(Event::Controller(Arc::new(job("w", 1, completions))));
    world.submit(of_job(lasting("w0", 4, 100), "w"));
    world.settle();
    assert_eq!(world.node_of("w0"), Some("n1"));
    assert!(starts(&mut world, lasting("long", 4, 1_000)));
    assert!(!starts(&mut world, lasting("first", 4, 60)));
    assert_eq!(reserved(&world, "first"), Some((Some(start), "n1".to_owned())));
    for name in ["w0", "long"] {
        run(&mut world, name);
    }
    world
}

#[test]
fn a_job_of_several_waves_that_end_in_time_breaks_no_promise() {
    for (ends_after, is_seen_to_start) in [(50, true), (50, false), (99, true), (99, false)] {
        let mut world = promised_behind_a_job(3, 2300);
        for (ends, next) in [("w0", "w1"), ("w1", "w2")] {
            seconds_go_by(&mut world, ends_after);
            world.change(ends, |pod| pod.phase = Phase::Succeeded);
            let created = world.now;
            world.submit(Pod { created, ..of_job(lasting(next, 4, 100), "w") });
            world.settle();
            assert_eq!(world.node_of(next), Some("n1"), "it takes the slot of {ends}");
            if is_seen_to_start {
                run(&mut world, next);
            }
        }
        seconds_go_by(&mut world, ends_after);
        assert_eq!(delays(&world), [""; 0], "{ends_after} {is_seen_to_start}");
        let finished = Controller { finished: true, succeeded: 3, ..job("w", 1, 3) };
        world.tell(Event::Controller(Arc::new(finished)));
        world.change("w2", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert_eq!(world.node_of("first"), Some("n1"));
    }
}

/// Two at a time, five in all: three waves, of which the last has one pod.
#[test]
fn what_is_promised_behind_a_job_is_behind_its_last_wave() {
    let mut world = World::told(
        CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() },
        FunctionTable::builtin(),
        &[("n1", 4)],
    );
    world.tell(Event::Controller(Arc::new(job("w", 2, 5))));
    for name in ["w0", "w1"] {
        world.submit(of_job(lasting(name, 2, 100), "w"));
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    assert!(!starts(&mut world, lasting("first", 4, 60)));
    assert_eq!(reserved(&world, "first"), Some((Some(2300), "n1".to_owned())));
    for (second, ends, name) in [(30, "w0", "w2"), (100, "w1", "w3"), (130, "w2", "w4")] {
        world.now = Time::from_seconds(2000 + second);
        world.change(ends, |pod| pod.phase = Phase::Succeeded);
        world.submit(Pod {
            created: Time::from_seconds(2000 + second),
            ..of_job(lasting(name, 2, 100), "w")
        });
        world.settle();
        run(&mut world, name);
    }
    assert_eq!(delays(&world), [""; 0]);
    let start = reserved(&world, "first").and_then(|(start, _)| start).expect("it is promised one");
    assert!(start <= 2300, "{start}");
}

/// Its pod fails and is made again: it takes longer than planned, and the pod is named.
#[test]
fn a_pod_that_is_made_again_after_a_failure_is_named() {
    for is_seen_to_start in [true, false] {
        let mut world = promised_behind_a_job(1, 2100);
        seconds_go_by(&mut world, 60);
        world.change("w0", |pod| pod.phase = Phase::Failed);
        world.settle();
        seconds_go_by(&mut world, 10);
        let created = world.now;
        world.submit(Pod { created, ..of_job(lasting("again", 4, 100), "w") });
        world.settle();
        if is_seen_to_start {
            run(&mut world, "again");
        }
        assert_eq!(reserved(&world, "first"), Some((Some(2170), "n1".to_owned())));
        seconds_go_by(&mut world, 60);
        let told = delays(&world);
        let said = "walltime: starts 70 s later than promised: pod ns/again takes the place of a pod that failed";
        assert!(!told.is_empty() && told.iter().all(|text| *text == said), "{told:?}");
    }
}

/// One pod runs before the other one is seen on its node: no wave follows them, so their ends are
/// their own.
#[test]
fn pods_that_begin_one_after_the_other_are_no_waves() {
    let told = CoreSettings {
        queue_policy: QueuePolicy::Easy,
        start_slack_secs: 2,
        end_slack_secs: 1,
        ..settings()
    };
    let mut world = World::told(told, FunctionTable::builtin(), &[("n1", 4), ("n2", 4)]);
    world.tell(Event::Controller(Arc::new(job("w", 2, 2))));
    for name in ["w0", "w1"] {
        world.submit(of_job(lasting(name, 4, 100), "w"));
    }
    world.carry_out_to_first_binding();
    assert_eq!(world.bound(), 1);
    let (first, second) = if world.node_of("w0").is_some() { ("w0", "w1") } else { ("w1", "w0") };
    let started = Some(world.now);
    world.change(first, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    world.step();
    let node = if world.node_of(first) == Some("n1") { "n2" } else { "n1" };
    world.change(second, |pod| pod.node = Some(node.into()));
    world.settle();
    run(&mut world, second);
    world.submit_gang(4);
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2101), "n[1-2]".to_owned())));
}

/// No wave follows the pods of a Job that is gone: each ends when it says.
#[test]
fn the_waves_of_a_job_that_is_gone_are_waited_for_no_more() {
    let mut world = promised_behind_a_job(3, 2300);
    world.tell(Event::ControllerGone("uid-w".into()));
    seconds_go_by(&mut world, 10);
    assert_eq!(reserved(&world, "first"), Some((Some(2100), "n1".to_owned())));
}
