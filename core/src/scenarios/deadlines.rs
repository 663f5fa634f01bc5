//! Jobs that end at a deadline (`activeDeadlineSeconds`): the planned ends of their pods while
//! these wait.

use std::collections::BTreeSet;

use super::promises::{lasting, reserved, starts};
use super::*;
use crate::QueuePolicy;

/// How many classes many equal Jobs make that wait, each with a deadline of its own.
fn classes(deadline_secs: Option<u64>) -> usize {
    const JOBS: i64 = 300;
    let told = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
    assert!(starts(&mut world, pod("runs", 4)));
    let shape = Arc::clone(&pod("any", 4).shape);
    for at in 0..JOBS {
        let (name, deadline) = (format!("j{at}"), Some(Time::from_seconds(2000 + 3600 + at)));
        world.tell(Event::Controller(Arc::new(Controller {
            deadline,
            deadline_secs,
            ..job(&name, 1, 1)
        })));
        let created = Time::from_seconds(2000 + at);
        world.submit(of_job(
            Pod { shape: Arc::clone(&shape), created, ..pod(&format!("{name}-0"), 4) },
            &name,
        ));
    }
    world.settle();
    let classes: BTreeSet<_> = world.core.planner.queue.iter().map(|(_, class)| class).collect();
    assert_eq!(i64::try_from(world.core.planner.queue.len()), Ok(JOBS));
    classes.len()
}

#[test]
fn jobs_that_were_made_one_after_the_other_are_few_classes() {
    for deadline_secs in [Some(3600), None] {
        let classes = classes(deadline_secs);
        assert!(classes <= 4, "{deadline_secs:?}: {classes}");
    }
}

/// The pod comes half a thousand seconds after its Job began, and the Job is ended after a
/// thousand.
#[test]
fn what_is_promised_behind_a_deadline_is_a_little_later_and_exact_once_the_pod_runs() {
    let told = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
    let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
    assert!(starts(&mut world, lasting("runs", 4, 100)));
    let ends = Controller {
        deadline: Some(Time::from_seconds(2500)),
        deadline_secs: Some(1000),
        ..job("j", 1, 1)
    };
    world.tell(Event::Controller(Arc::new(ends)));
    world.submit(Pod { created: world.now, ..of_job(pod("p0", 4), "j") });
    world.settle();
    let waits = Pod { created: world.now, ..lasting("waits", 4, 50) };
    assert!(!starts(&mut world, waits));
    let promised = |world: &World| {
        reserved(world, "waits").and_then(|(start, _)| start).expect("it is promised one")
    };
    assert!((2600..=2600 + 1000 / 16).contains(&promised(&world)), "{}", promised(&world));
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("p0"), Some("a"));
    let started = Some(world.now);
    world.change("p0", |pod| (pod.phase, pod.started) = (Phase::Running, started));
    world.look_ahead();
    assert_eq!(promised(&world), 2500);
    assert!(!world.notes.iter().any(|reason| reason == "ReservationDelayed"), "{:?}", world.texts);
}
