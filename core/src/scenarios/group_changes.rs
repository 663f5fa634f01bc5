//! PodGroups that come, change and go while their pods wait.

use super::scheduling_groups::{basic, gang, of_g};
use super::*;

#[test]
fn a_record_says_how_many_pods_its_group_needs_and_nothing_of_one_that_is_not_there() {
    let mut world = World::new(&[("a", 2)]);
    let min_count = |world: &World| {
        let status = world.record("g").status.clone().expect("a status");
        status.workload.expect("a workload").pod_sets[0].min_count
    };
    for name in ["p0", "p1", "p2"] {
        world.submit(of_g(name, 3));
    }
    world.settle();
    assert_eq!(min_count(&world), None);
    world.tell_group(gang(2));
    world.settle();
    assert_eq!(min_count(&world), Some(2));
    world.tell(Event::PodGroupGone(gang(2).id));
    world.settle();
    assert_eq!(min_count(&world), None, "a later process would know no more");
}

/// Carries out everything up to the first step with such an action, which is returned.
fn step_to(world: &mut World, is_it: impl Fn(&ActionKind) -> bool) -> Action {
    for _ in 0..20 {
        let (mut those, others): (Vec<Action>, Vec<Action>) =
            world.step().into_iter().partition(|action| is_it(&action.kind));
        world.carry_out_all(others);
        if let Some(action) = those.pop() {
            return action;
        }
    }
    panic!("there is no such action");
}

fn places(kind: &ActionKind) -> bool {
    matches!(kind, ActionKind::WriteStatus { status, .. } if !status.placement.is_empty())
}

#[test]
fn a_pod_is_not_bound_without_its_group_if_a_write_for_it_has_failed() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(basic());
    let gates = vec![Arc::from(fluxqueue_api::names::GATE)];
    world.submit(Pod { gates, ..of_g("p0", 1) });
    let ungate = step_to(&mut world, |kind| matches!(kind, ActionKind::Ungate { .. }));
    world.tell(Event::Done(ungate.id, Outcome::Write(WriteOutcome::Conflict)));
    world.step();
    world.tell(Event::PodGroupGone(basic().id));
    world.pass_seconds(60);
    world.settle();
    assert_eq!(world.bound(), 0);
    world.tell_group(basic());
    world.settle();
    assert_eq!(world.bound(), 1);
}

#[test]
fn a_pod_of_which_the_binding_failed_after_its_group_went_waits_for_the_group() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(basic());
    world.submit(of_g("p0", 1));
    let binding = step_to(&mut world, |kind| matches!(kind, ActionKind::Bind { .. }));
    world.tell(Event::PodGroupGone(basic().id));
    world.step();
    world.tell(Event::Done(binding.id, Outcome::Bind(BindOutcome::Gated)));
    world.look_ahead();
    assert_eq!((world.bound(), &*world.blocked("g").1), (0, "PodGroup ns/g is not there yet"));
    world.tell_group(basic());
    world.look_ahead();
    assert_eq!(world.bound(), 1);
}

#[test]
fn a_placement_is_taken_back_if_its_group_asks_for_more_pods_or_goes_before_a_binding_has_left() {
    for (goes, restarts) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new(&[("a", 4)]);
        world.tell_group(gang(2));
        for name in ["p0", "p1"] {
            world.submit(of_g(name, 1));
        }
        let write = step_to(&mut world, places);
        if restarts {
            world.carry_out(write);
            world.restart();
            if !goes {
                world.tell_group(gang(3));
            }
            world.list(&[("a", 4)], &[]);
        } else {
            world.tell(if goes {
                Event::PodGroupGone(gang(2).id)
            } else {
                Event::PodGroup(Arc::new(gang(3)))
            });
            world.step();
            world.carry_out(write);
        }
        world.settle();
        assert_eq!(world.bound(), 0, "it goes: {goes}, restart: {restarts}");
        let said = if goes { "PodGroup ns/g is not there yet" } else { "2 of 3 pods are there" };
        assert_eq!(world.blocked("g").1, said, "restart: {restarts}");
        world.tell_group(gang(2));
        world.look_ahead();
        assert_eq!(world.bound(), 2, "it goes: {goes}, restart: {restarts}");
    }
}

#[test]
#[test]
#[test]
#[test]
#[test]
#[test]
#[test]
#[test]