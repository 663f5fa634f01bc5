//! Passes that are left for lone pods that come, and gone on with.

use super::neighbours::spread;
use super::promises::{lasting, reserved, starts};
use super::*;
use crate::QueuePolicy;

/// On the first three nodes nothing is free; on the last there is room for what asks for little.
const NODES: [(&str, u64); 4] = [("n1", 4), ("n2", 4), ("n3", 4), ("n4", 2)];

/// Steps that are more than enough for any pass here.
const STEPS_MAX: usize = 200;

/// Three pods run, for 100, 200 and 300 seconds, and six wait for a node of their own: of as many
/// classes, so that each needs a question.
fn world(questions_per_slice: u64) -> World {
    let settings =
        CoreSettings { queue_policy: QueuePolicy::Conservative, questions_per_slice, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &NODES);
    for (name, seconds) in [("a", 100), ("b", 200), ("c", 300)] {
        assert!(starts(&mut world, lasting(name, 4, seconds)));
    }
    for seconds in 50..56 {
        world.submit(lasting(&format!("waits-{seconds}"), 4, seconds));
    }
    world.settle();
    assert_eq!(reserved(&world, "waits-50"), Some((Some(2100), "n1".to_owned())));
    world
}

/// The first of those that run ends early, and a pass begins that is not over.
fn passing() -> World {
    let mut world = world(1);
    world.pass_seconds(1);
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    let actions = world.step();
    assert!(world.core.is_passing());
    assert_eq!(binds(&actions), 0);
    world
}

/// Steps until the pass is over, with something that happens before each. Returns the number of
/// steps, and the pods that were bound before the last.
fn finish(world: &mut World, mut happens: impl FnMut(&mut World)) -> (usize, Vec<String>) {
    let before = world.bindings.len();
    for steps in 1..STEPS_MAX {
        happens(world);
        let actions = world.step();
        let bound = world.bindings[before..].iter().map(|(pod, _)| pod.clone()).collect();
        world.carry_out_all(actions);
        if !world.core.is_passing() {
            return (steps, bound);
        }
    }
    panic!("the pass is not over");
}

#[test]
fn a_lone_pod_that_fits_does_not_wait_for_a_long_pass() {
    let mut world = passing();
    world.submit(lasting("small", 1, 10));
    let actions = world.step();
    assert_eq!(binds(&actions), 1);
    assert!(world.core.is_passing(), "the pass goes on after it");
    world.carry_out_all(actions);
    assert_eq!(world.node_of("small"), Some("n4"));
    world.settle();
    assert_eq!(world.node_of("waits-50"), Some("n1"), "who was promised the node has it");
}

#[test]
fn who_comes_during_a_pass_delays_nobody_who_was_promised_something() {
    let mut world = passing();
    // It would fit on the node that has become free, which is promised to others for as long as it
    // would run.
    world.submit(lasting("large", 4, 1_000));
    let (_, bound) = finish(&mut world, |_| {});
    assert!(bound.is_empty(), "{bound:?}");
    world.settle();
    assert_eq!(world.node_of("waits-50"), Some("n1"));
    assert_eq!(world.node_of("large"), None);
}

#[test]
fn a_pass_in_slices_comes_to_the_same_as_one_in_one_go() {
    let outcomes: Vec<_> = [1, 2, u64::MAX]
        .map(|questions_per_slice| {
            let mut world = world(questions_per_slice);
            world.pass_seconds(1);
            world.change("a", |pod| pod.phase = Phase::Succeeded);
            world.settle();
            let reserved = |seconds| reserved(&world, &format!("waits-{seconds}"));
            (world.bindings.clone(), (51..56).map(reserved).collect::<Vec<_>>())
        })
        .into();
    assert_eq!(outcomes[0], outcomes[2]);
    assert_eq!(outcomes[1], outcomes[2]);
}

#[test]
fn nobody_goes_to_a_node_of_which_there_is_news() {
    let mut world = passing();
    let cordoned = Node { unschedulable: true, ..Node::clone(&node("n4", 2)) };
    world.tell(Event::Node(Arc::new(cordoned)));
    world.submit(lasting("small", 1, 10));
    let (_, bound) = finish(&mut world, |_| {});
    assert!(bound.is_empty(), "{bound:?}");
    world.settle();
    assert_eq!(world.node_of("small"), None);
}

#[test]
fn pods_whose_job_comes_during_a_pass_are_not_bound_one_by_one() {
    let mut world = world(1);
    assert!(starts(&mut world, lasting("d", 2, 400)));
    for name in ["p0", "p1"] {
        world.submit(of_job(lasting(name, 1, 10), "j"));
    }
    world.settle();
    world.pass_seconds(31);
    world.settle();
    world.change("d", |pod| pod.phase = Phase::Succeeded);
    let actions = world.step();
    assert!(world.core.is_passing());
    assert_eq!(binds(&actions), 0);
    let mut comes = Some(job("j", 2, 2));
    let (_, bound) = finish(&mut world, |world| {
        if let Some(job) = comes.take() {
            world.tell(Event::Controller(Arc::new(job)));
        }
    });
    assert!(bound.is_empty(), "{bound:?}");
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("n4"), Some("n4")));
    let placed =
        world.record("j").status.as_ref().is_some_and(|status| !status.placement.is_empty());
    assert!(placed, "they have started together");
}

#[test]
fn who_is_gone_before_its_turn_is_not_bound() {
    let mut world = passing();
    world.submit(lasting("small", 1, 10));
    world.delete("small");
    let (_, bound) = finish(&mut world, |_| {});
    assert!(bound.is_empty(), "{bound:?}");
    world.settle();
    let waiting = world.core.gauges().jobs.into_iter().find(|(state, _)| *state == "Pending");
    assert_eq!(waiting, Some(("Pending", 5)), "nobody else waits");
}

#[test]
fn pods_that_keep_coming_do_not_put_a_pass_off_for_ever() {
    let in_peace = finish(&mut passing(), |_| {}).0;
    let mut world = passing();
    let mut come = 0;
    let (steps, bound) = finish(&mut world, |world| {
        come += 1;
        let requests = [("cpu", 1), ("pods", 1)].into_iter().collect();
        let shape = Arc::new(Shape { requests, constraints: Constraints::default() });
        world.submit(Pod { shape, ..lasting(&format!("tiny-{come}"), 1, 10) });
    });
    assert!(bound.len() > in_peace, "{} were bound during it", bound.len());
    assert!(steps > in_peace && steps < STEPS_MAX, "{steps} steps, {in_peace} in peace");
}

/// Gangs of which each needs a trial: there is room for them, and not in one of two racks.
#[test]
fn a_lone_pod_does_not_wait_for_the_trials_of_many_gangs() {
    let settings =
        CoreSettings { queue_policy: QueuePolicy::Easy, questions_per_slice: 8, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &[]);
    for (name, rack, cores) in [("a", "a", 400), ("b", "b", 2)] {
        let labels = vec![("rack".into(), rack.into())];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, cores)) })));
    }
    for gang in 0..4u32 {
        let name = format!("j{gang}");
        world.tell(Event::Controller(Arc::new(job(&name, 192, 192))));
        for at in 0..192 {
            let pod = of_job(pod(&format!("{name}-{at}"), 1), &name);
            // Each asks for something else.
            world.submit(spread(
                Pod { lifetime: Lifetime::Seconds(50 + u64::from(gang)), ..pod },
                &name,
                "rack",
            ));
        }
    }
    let before = world.core.planner.ledger.questions;
    let actions = world.step();
    world.carry_out_all(actions);
    assert!(
        world.core.is_passing(),
        "no slice has time for all: {}",
        world.core.planner.ledger.questions - before
    );
    world.submit(pod("small", 1));
    let actions = world.step();
    assert_eq!(binds(&actions), 1);
}

#[test]
fn where_nobody_overtakes_a_pass_is_made_in_one_go() {
    let settings = CoreSettings { questions_per_slice: 1, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &NODES);
    for seconds in 50..56 {
        world.submit(lasting(&format!("waits-{seconds}"), 4, seconds));
    }
    world.step();
    assert!(!world.core.is_passing());
}

#[test]
fn nobody_takes_what_is_not_on_record_while_it_is_promised_anew() {
    let settings = CoreSettings {
        queue_policy: QueuePolicy::Conservative,
        questions_per_slice: 1,
        ..settings()
    };
    let mut world = World::told(settings, FunctionTable::builtin(), &[("a", 4)]);
    assert!(
        starts(&mut world, lasting("runs-100", 2, 100))
            && starts(&mut world, lasting("runs-200", 1, 200))
    );
    assert!(!starts(&mut world, lasting("first", 4, 60)));
    world.tell(Event::Controller(Arc::new(Controller {
        kind: OwnerKind::Deployment,
        ..job("service", 1, 1)
    })));
    let mut of_service =
        Pod { created: world.now.plus_secs(1), ..of_job(lasting("s0", 3, 40), "service") };
    of_service.owner.as_mut().expect("an owner").kind = OwnerKind::Deployment;
    assert!(!starts(&mut world, of_service), "it can when the first of those that run has ended");
    // When nothing has happened for a while the promise is made again.
    let mut reviewed = false;
    for _ in 0..400 {
        world.now = world.now.plus_millis(100);
        let actions = world.step();
        world.carry_out_all(actions);
        if world.core.is_passing() {
            reviewed = true;
            world.submit(lasting("small", 1, 90));
            break;
        }
    }
    assert!(reviewed);
    world.settle();
    assert_eq!(world.node_of("small"), None, "it would be in the way");
}
