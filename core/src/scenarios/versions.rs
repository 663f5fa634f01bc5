//! Deletions that meet other writes: a decision on an older version is made again, and nothing is
//! deleted twice.

use super::*;

/// The deletions of FluxJobs among actions, each with the version that it was decided on.
fn deletions(actions: &[Action]) -> Vec<(u64, Option<String>)> {
    let versioned = |action: &Action| match &action.kind {
        ActionKind::Write(Write::DeleteFluxJob { resource_version, .. }) => {
            Some((action.id, resource_version.as_ref().map(ToString::to_string)))
        }
        _ => None,
    };
    actions.iter().filter_map(versioned).collect()
}

/// A world in which the time of an ended job's FluxJob is over, and its deletion has just been
/// asked for.
fn deleting() -> (World, u64) {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("p", 1));
    world.settle();
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    world.pass_seconds(61);
    let [(deletion, _)] = deletions(&world.step())[..] else { panic!("its time is over") };
    (world, deletion)
}

#[test]
fn a_deletion_that_conflicts_is_decided_again_on_what_was_seen_meanwhile() {
    let (mut world, deletion) = deleting();
    let mut edited = world.record("p").clone();
    edited.metadata.resource_version = Some("7".to_owned());
    world.tell(Event::FluxJob(Arc::new(edited)));
    world.tell(Event::Done(deletion, Outcome::Write(WriteOutcome::Conflict)));
    let again: Vec<_> = deletions(&world.step()).into_iter().map(|(_, version)| version).collect();
    assert_eq!(again, [Some("7".to_owned())]);
}

#[test]
fn a_deletion_that_fails_is_not_repeated_at_once() {
    for outcome in [WriteOutcome::Conflict, WriteOutcome::Failed("429".to_owned())] {
        let (mut world, deletion) = deleting();
        world.tell(Event::Done(deletion, Outcome::Write(outcome)));
        assert_eq!(deletions(&world.step()), [], "nothing is known that makes it better");
        world.pass_seconds(1);
        assert_eq!(deletions(&world.step()).len(), 1);
    }
}

#[test]
fn a_flux_job_whose_removal_is_under_way_is_not_removed_twice() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 1, 1))));
    world.submit(of_job(pod("p", 1), "j"));
    world.settle();
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.tell(Event::Controller(Arc::new(succeeded_job("j", 1))));
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Completed));
    // A new process finds neither the Job nor, for a while, the object that its pod is a part of:
    // the FluxJob has no owner.
    world.pass_seconds(61);
    world.restart();
    world.list(&[("a", 4)], &[]);
    world.step();
    world.pass_seconds(1);
    let removal = world.step();
    assert_eq!(deletions(&removal).len(), 1, "its time is over");
    world.pass_seconds(31);
    assert_eq!(deletions(&world.step()), [], "the pod is taken for one of that job");
    world.carry_out_all(removal);
    world.settle();
    assert!(world.records.is_empty(), "{:?}", world.records);
}
