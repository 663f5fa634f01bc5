//! Fluxqueue as a whole is paused: nothing starts, and jobs that have begun are finished.

use super::*;
use crate::QueuePolicy;
use crate::scenarios::promises::{reserved, waiting_gang};
use fluxqueue_planner::queues::Namespace;

const BY_ANN: &str = "Fluxqueue is paused by ann: new switch";

/// Sends a namespace that is annotated as paused, or is not.
fn namespace(world: &mut World, name: &str, paused: Option<&str>) {
    let namespace = Namespace {
        name: Arc::from(name),
        uid: Uid::from("own"),
        labels: [].into(),
        queue: None,
        paused: paused.map(Arc::from),
    };
    world.tell(Event::Namespace(Arc::new(namespace)));
}

fn pause(world: &mut World) {
    namespace(world, "fluxqueue-system", Some("by ann: new switch"));
}

fn resume(world: &mut World) {
    namespace(world, "fluxqueue-system", None);
}

/// Lets the time pass after which a gang that did not start has a record.
fn settle_for_long(world: &mut World) {
    for _ in 0..3 {
        world.settle();
        world.pass_seconds(1);
    }
    world.settle();
}

#[test]
fn nothing_starts_while_fluxqueue_is_paused_and_all_starts_when_it_goes_on() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.submit(pod("runs", 1));
    world.settle();
    pause(&mut world);
    world.submit_gang(2);
    world.submit(pod("lone", 1));
    settle_for_long(&mut world);
    assert_eq!(world.bound(), 1, "{:?}", world.bindings);
    for job in ["j", "lone"] {
        assert_eq!(world.blocked(job), ("Paused".to_owned(), BY_ANN.to_owned()));
        assert_eq!(world.state(job), Some(JobState::Held));
    }
    resume(&mut world);
    world.settle();
    assert_eq!(world.bound(), 4, "{:?}", world.bindings);
}

#[test]
fn a_gang_with_one_binding_is_completed_and_one_without_gives_its_nodes_back() {
    let nodes = [("a", 4), ("b", 4)];
    let mut world = World::new(&nodes);
    world.submit_gang(2);
    // The process ends between the two Bindings.
    world.carry_out_to_first_binding();
    assert_eq!(world.bound(), 1);
    world.restart();
    pause(&mut world);
    world.list(&nodes, &[job("j", 2, 2)]);
    world.settle();
    assert_eq!(world.bound(), 2, "half a gang has begun");

    let mut world = World::new(&nodes);
    world.submit_gang(2);
    // The placement is on its way to the record, and no Binding has left.
    let actions = world.step();
    assert_eq!(binds(&actions), 0);
    pause(&mut world);
    world.carry_out_all(actions);
    settle_for_long(&mut world);
    assert_eq!(world.bound(), 0, "{:?}", world.bindings);
    assert_eq!(world.blocked("j").0, "Paused");
    resume(&mut world);
    world.settle();
    assert_eq!(world.bound(), 2);
}

/// A date would be a guess while it is not known when the pause ends.
#[test]
fn promises_are_withdrawn_with_the_pause_as_the_cause_and_made_again_afterwards() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    let place = |world: &World| world.record("j").status.as_ref()?.queued_at.clone();
    let before = place(&world);
    pause(&mut world);
    world.settle();
    assert_eq!((reserved(&world, "j"), world.estimate("j")), (None, None));
    assert_eq!(world.core.gauges().reservations_delayed.get("edit"), Some(&1));
    assert!(world.texts.iter().any(|text| text.contains(BY_ANN)), "{:?}", world.texts);
    world.pass_seconds(10);
    resume(&mut world);
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())));
    assert_eq!(place(&world), before, "it keeps its place");
}

#[test]
fn the_next_leader_is_paused_too() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    pause(&mut world);
    world.submit(pod("lone", 1));
    world.settle();
    world.restart();
    pause(&mut world);
    world.list(&nodes, &[]);
    world.settle();
    assert_eq!((world.bound(), world.blocked("lone").1.as_str()), (0, BY_ANN));
}

#[test]
fn the_message_follows_the_annotation_and_the_pause_ends_with_the_namespace() {
    let mut world = World::new(&[("a", 4)]);
    pause(&mut world);
    world.submit(pod("lone", 1));
    world.settle();
    namespace(&mut world, "fluxqueue-system", Some("until noon"));
    world.settle();
    assert_eq!(world.blocked("lone").1, "Fluxqueue is paused: until noon");
    world.tell(Event::NamespaceGone(Arc::from("fluxqueue-system")));
    world.settle();
    assert_eq!(world.bound(), 1);
}

#[test]
fn the_annotation_of_another_namespace_pauses_nothing() {
    let mut world = World::new(&[("a", 4)]);
    namespace(&mut world, "ns", Some("by a tenant"));
    world.submit(pod("lone", 1));
    world.settle();
    assert_eq!(world.bound(), 1);
}
