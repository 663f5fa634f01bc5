//! Releases of Jobs that wait without pods, and that come to nothing: what this costs the
//! namespace.

use super::stand_ins::{marked, pods_of};
use super::*;

#[test]
fn a_namespace_that_lets_places_lapse_waits_longer_each_time_and_holds_nothing_meanwhile() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    for name in ["x", "y"] {
        world.submit_job(marked(name, 4, 1));
    }
    world.settle();
    assert!(world.is_released("x") && !world.is_released("y"));
    world.pass_seconds(61);
    world.settle();
    // What comes behind it has the machine.
    assert_eq!((world.is_released("y"), world.blocked("y").0.as_str()), (false, "ReleasePaused"));
    assert_eq!(world.core.gauges().releases_failed, 1);
    world.submit(pod("bob", 4));
    world.settle();
    assert_eq!(world.node_of("bob"), Some("a"));
    world.delete("bob");
    world.pass_seconds(50);
    world.settle();
    assert!(!world.is_released("y"));
    // A new process knows of it by the Job that still has no pods.
    world.succeed(&nodes);
    world.settle();
    assert_eq!((world.is_released("y"), world.blocked("y").0.as_str()), (false, "ReleasePaused"));
    world.pass_seconds(20);
    world.settle();
    assert!(world.is_released("y"), "the pause is over: {:?}", world.record("y").status);
    // It is deleted before its pods are there: that is one more.
    let gone = world.jobs.remove("y").expect("it is there");
    world.tell(Event::ControllerGone(gone.id.uid));
    world.submit_job(marked("z", 4, 1));
    world.settle();
    assert_eq!(world.core.gauges().releases_failed, 1, "of this process");
    world.pass_seconds(110);
    world.settle();
    assert!(!world.is_released("z"), "two minutes");
    world.pass_seconds(20);
    world.settle();
    assert!(world.is_released("z"));
    for pod in pods_of("z", 4, 1) {
        world.submit(pod);
    }
    world.settle();
    assert_eq!(world.bound(), 4);
}

#[test]
fn a_job_that_is_changed_all_the_time_keeps_no_nodes_from_others() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_job(marked("j", 1, 3));
    world.submit(pod("next", 4));
    // Its author changes it before each release arrives.
    let mut released = 0;
    while world.node_of("next").is_none() && released < 100 {
        world.now = world.now.plus_millis(100);
        for action in world.step() {
            if matches!(action.kind, ActionKind::Write(Write::ReleaseJob { .. })) {
                world.change_job("j", |_| {});
                released += 1;
            }
            world.carry_out(action);
        }
    }
    assert_eq!((world.node_of("next"), released, world.is_released("j")), (Some("a"), 6, false));
    let withdrawn = &world.record("j").status.as_ref().expect("it has one").conditions;
    let text = "its Job cannot be released: it changes again and again";
    assert!(withdrawn.iter().any(|condition| condition.message.contains(text)), "{withdrawn:?}");
}
