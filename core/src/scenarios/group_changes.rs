//! PodGroups that come, change and go while their pods wait.

use super::scheduling_groups::{basic, gang, group, of_g, said};
use super::*;
use fluxqueue_workload::pod_group::{GroupPolicy, PodGroup};

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
fn step_to(world: &mut World, is_it: impl Fn(&Action) -> bool) -> Action {
    for _ in 0..20 {
        let (mut those, others): (Vec<Action>, Vec<Action>) =
            world.step().into_iter().partition(|action| is_it(action));
        world.carry_out_all(others);
        if let Some(action) = those.pop() {
            return action;
        }
    }
    panic!("there is no such action");
}

fn contradiction(world: &World) -> Option<String> {
    world.core.jobs.all.values().find_map(|job| world.core.contradiction(job))
}

fn lone_pods_unrecorded() -> CoreSettings {
    CoreSettings { record_lone_pods: false, ..settings() }
}

#[test]
fn a_pod_is_not_bound_without_its_group_if_a_write_for_it_has_failed() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(basic());
    let gates = vec![Arc::from(fluxqueue_api::names::GATE)];
    world.submit(Pod { gates, ..of_g("p0", 1) });
    let ungate = step_to(&mut world, |action| {
        matches!(action.kind, ActionKind::Write(Write::Ungate { .. }))
    });
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
    let binding = step_to(&mut world, |action| matches!(action.kind, ActionKind::Bind { .. }));
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
fn a_pod_with_a_lost_answer_is_not_bound_without_its_group() {
    for (policy, failures) in [
        (GroupPolicy::Basic, 1),
        (GroupPolicy::Gang(1), 1),
        // Then the next attempt leaves later than an effect may still show.
        (GroupPolicy::Gang(1), 6),
    ] {
        let mut world = World::new(&[("a", 2)]);
        world.tell_group(group("g", policy));
        world.submit(of_g("p0", 1));
        for _ in 0..failures {
            let binding =
                step_to(&mut world, |action| matches!(action.kind, ActionKind::Bind { .. }));
            let lost = BindOutcome::Failed("timeout".to_owned());
            world.tell(Event::Done(binding.id, Outcome::Bind(lost)));
            world.pass_seconds(7);
        }
        world.tell(Event::PodGroupGone(basic().id));
        world.pass_seconds(1);
        world.settle();
        assert_eq!(world.bound(), 0, "{policy:?}, {failures}: it may be there already");
        world.pass_seconds(40);
        world.look_ahead();
        assert_eq!(world.bound(), 0, "{policy:?}, {failures}");
        assert_eq!(&*world.blocked("g").1, "PodGroup ns/g is not there yet", "{policy:?}");
        world.tell_group(group("g", policy));
        world.look_ahead();
        assert_eq!(world.bound(), 1, "{policy:?}, {failures}");
    }
}

#[test]
fn a_placement_is_taken_back_if_its_group_asks_for_more_pods_or_goes_before_a_binding_has_left() {
    for (goes, restarts) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new(&[("a", 4)]);
        world.tell_group(gang(2));
        for name in ["p0", "p1"] {
            world.submit(of_g(name, 1));
        }
        let write = step_to(&mut world, writes_placement);
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
fn pods_that_come_back_while_their_record_is_removed_have_one_again() {
    let mut world = World::new(&[("a", 2)]);
    for name in ["p0", "p1"] {
        world.submit(of_g(name, 3));
    }
    world.settle();
    world.tell_group(basic());
    let removal = step_to(&mut world, |action| {
        matches!(action.kind, ActionKind::Write(Write::DeleteFluxJob { .. }))
    });
    world.tell(Event::PodGroupGone(basic().id));
    world.step();
    assert_eq!(contradiction(&world), None);
    world.carry_out(removal);
    world.look_ahead();
    assert_eq!(world.blocked("g").1, "PodGroup ns/g is not there yet");
    world.tell(Event::Node(node("b", 6)));
    world.tell_group(gang(2));
    world.look_ahead();
    assert_eq!(world.bound(), 2);
}

#[test]
fn a_pod_that_comes_back_while_its_own_record_is_made_starts() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(basic());
    world.submit(of_g("p0", 3));
    let creation = step_to(&mut world, |action| {
        matches!(action.kind, ActionKind::Write(Write::CreateFluxJob { .. }))
    });
    world.tell(Event::PodGroupGone(basic().id));
    world.step();
    world.tell_group(basic());
    world.step();
    world.carry_out(creation);
    world.tell(Event::Node(node("b", 6)));
    world.look_ahead();
    assert_eq!(contradiction(&world), None);
    assert_eq!(world.bound(), 1);
}

#[test]
fn a_pod_that_left_a_group_before_its_end_and_comes_back_is_another_job() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(gang(1));
    // The record is named after the first.
    world.submit(Pod { gates: vec![Arc::from("example.com/wait")], ..of_g("p0", 1) });
    world.submit(of_g("p1", 1));
    world.settle();
    assert!(world.node_of("p1").is_some());
    world.tell_group(basic());
    world.settle();
    world.change("p1", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    world.tell_group(gang(1));
    world.look_ahead();
    assert_eq!(contradiction(&world), None);
    world.change("p0", |pod| pod.gates.clear());
    world.look_ahead();
    assert!(world.node_of("p0").is_some());
}

#[test]
fn pods_that_have_succeeded_since_their_group_was_made_count_as_long_as_they_are_there() {
    for restarts in [false, true] {
        let mut world = World::new(&[("a", 4)]);
        world.tell_group(gang(3));
        for name in ["p0", "p1", "p2"] {
            world.submit(of_g(name, 1));
        }
        world.settle();
        let end = world.now;
        for (name, phase) in
            [("p0", Phase::Succeeded), ("p1", Phase::Succeeded), ("p2", Phase::Failed)]
        {
            world.change(name, |pod| (pod.phase, pod.ended) = (phase, Some(end)));
        }
        world.settle();
        // Until the record of this start is no more.
        world.pass_seconds(100);
        world.settle();
        assert_eq!(world.records.len(), 0);
        if restarts {
            world.restart();
            world.tell_group(gang(3));
            world.list(&[("a", 4)], &[]);
        }
        world.delete("p0");
        let theirs = Pod { scheduler: Arc::from("other"), ..of_g("f", 1) };
        world.submit(Pod { phase: Phase::Succeeded, ..theirs });
        world.submit(of_g("q0", 1));
        world.look_ahead();
        assert_eq!(world.blocked("g").1, "1 of 2 pods are there", "restart: {restarts}");
        let mut again = PodGroup { created: end.plus_secs(1), ..gang(3) };
        again.id.uid = Uid::from("again");
        world.tell_group(again);
        world.look_ahead();
        assert_eq!(world.blocked("g").1, "1 of 3 pods are there", "restart: {restarts}");
        world.tell_group(gang(3));
        world.submit(of_g("q1", 1));
        world.look_ahead();
        assert!(world.node_of("q0").is_some() && world.node_of("q1").is_some());
    }
}

#[test]
fn pods_that_began_by_themselves_do_so_after_a_restart_without_their_group() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(basic());
    for name in ["p0", "p1", "p2"] {
        world.submit(of_g(name, 1));
    }
    world.look_ahead();
    assert_eq!(world.bound(), 2);
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.change("p1", |pod| pod.phase = Phase::Running);
    world.delete("p2");
    world.submit(of_g("q", 9));
    world.tell(Event::PodGroupGone(basic().id));
    world.look_ahead();
    let states = |world: &World| -> Vec<String> {
        let state = |(key, record): (&ObjectKey, &FluxJob)| {
            let status = record.status.as_ref().expect("a status");
            format!("{key} {:?} {}/{}", status.state, status.bound, status.total)
        };
        world.records.iter().map(state).collect()
    };
    let before = states(&world);
    world.restart();
    world.list(&[("a", 2)], &[]);
    world.look_ahead();
    assert_eq!(states(&world), before);
}

#[test]
fn a_pod_of_the_group_that_began_and_has_ended_says_nothing_of_one_that_runs_by_itself() {
    let mut world =
        World::told(lone_pods_unrecorded(), FunctionTable::builtin(), &[("a", 1), ("b", 1)]);
    world.tell_group(basic());
    world.submit(of_g("p0", 1));
    world.look_ahead();
    world.change("p0", |pod| pod.phase = Phase::Running);
    world.tell(Event::PodGroupGone(basic().id));
    for name in ["q0", "q1"] {
        world.submit(of_g(name, 9));
    }
    world.look_ahead();
    // Another client binds one of those that wait, and the kubelet refuses it.
    let begin = world.now;
    world.change("q0", |pod| (pod.node, pod.started) = (Some(NodeName::from("b")), Some(begin)));
    world.look_ahead();
    world.change("q0", |pod| (pod.phase, pod.ended) = (Phase::Failed, Some(begin)));
    world.look_ahead();
    let sizes = |world: &World| {
        let status = world.record("g").status.as_ref().expect("a status");
        (status.bound, status.total)
    };
    let before = sizes(&world);
    world.restart();
    world.list(&[("a", 1), ("b", 1)], &[]);
    world.look_ahead();
    assert_eq!(sizes(&world), before);
}

#[test]
fn a_pod_that_began_by_itself_joins_no_gang_that_its_group_is_later() {
    let mut world = World::new(&[("a", 4)]);
    world.tell_group(basic());
    world.submit(of_g("p0", 1));
    world.look_ahead();
    world.change("p0", |pod| pod.phase = Phase::Running);
    world.tell(Event::PodGroupGone(basic().id));
    let mut again = gang(2);
    again.id.uid = Uid::from("again");
    world.tell_group(again.clone());
    world.submit(of_g("q0", 1));
    world.look_ahead();
    let waits = |world: &World| {
        let said = world.blocked("g").1.clone();
        (world.bound(), world.records.len(), said)
    };
    assert_eq!(waits(&world), (1, 2, "1 of 2 pods are there".to_owned()));
    world.restart();
    world.tell_group(again);
    world.list(&[("a", 4)], &[]);
    world.look_ahead();
    assert_eq!(waits(&world), (1, 2, "1 of 2 pods are there".to_owned()));
}

#[test]
fn pods_that_began_together_do_so_after_a_restart_without_their_group() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(gang(2));
    for name in ["p0", "p1"] {
        world.submit(of_g(name, 1));
    }
    world.look_ahead();
    world.tell(Event::PodGroupGone(gang(2).id));
    world.look_ahead();
    let before = world.records.clone();
    world.restart();
    world.list(&[("a", 2)], &[]);
    world.look_ahead();
    assert_eq!((world.records.len(), world.bound()), (1, 2));
    assert_eq!(world.records.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[test]
fn a_condition_of_which_the_answer_was_lost_is_replaced_when_it_is_not_true_any_more() {
    for outcome in [WriteOutcome::Failed("timeout".to_owned()), WriteOutcome::Conflict] {
        let mut world = World::new(&[("a", 2)]);
        world.tell_group(gang(3));
        world.submit(of_g("p0", 1));
        world.settle();
        let first = world.group_conditions[0].1.clone();
        world.tell_group(PodGroup { condition: Some(first.clone()), ..gang(3) });
        world.pass_seconds(10);
        world.group_outcome = outcome;
        world.submit(of_g("p1", 1));
        world.settle();
        let second = world.group_conditions[1].1.clone();
        assert_eq!(second.message, "2 of 3 pods are there");
        // It has taken effect.
        world.tell_group(PodGroup { condition: Some(second), ..gang(3) });
        world.group_outcome = WriteOutcome::Written(None);
        world.delete("p1");
        world.settle();
        world.pass_seconds(10);
        world.settle();
        assert_eq!(world.group_conditions.last().map(|(_, last)| last), Some(&first));
        assert_eq!(said(&world).len(), 3);
    }
}

#[test]
fn a_group_of_several_schedulers_is_refused_with_those_that_it_has() {
    let mut world = World::new(&[("a", 2)]);
    world.tell_group(gang(1));
    world.submit(of_g("p0", 1));
    for name in ["one", "two"] {
        world.submit(Pod { scheduler: Arc::from(name), ..of_g(name, 1) });
    }
    world.look_ahead();
    let said = "PodGroup ns/g has pods of several schedulers: ";
    assert_eq!(world.blocked("g").1, format!("{said}\"fluxqueue\", \"one\", \"two\""));
    world.delete("one");
    world.look_ahead();
    assert_eq!(world.blocked("g").1, format!("{said}\"fluxqueue\", \"two\""));
    world.delete("two");
    world.look_ahead();
    assert_eq!(world.bound(), 1);
}
