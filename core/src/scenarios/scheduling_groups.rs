//! Pods that name a group of Kubernetes' own.

use super::stand_ins::marked;
use super::*;
use crate::members::attaching::OWNER_WAIT_MILLIS;

/// A pod of a Job, with the PodGroup that the Job controller names in it.
fn member(name: &str, job: &str) -> Pod {
    Pod { scheduling_group: Some(Arc::from("j-group")), ..of_job(pod(name, 1), job) }
}

/// A policy of a Job.
fn refused() -> Unsupported {
    let (field, message) = ("spec.scheduling.schedulingPolicy".to_owned(), "no".to_owned());
    Unsupported { field, message }
}

#[test]
fn a_job_that_says_nothing_of_groups_stays_a_gang() {
    let mut world = World::new(&[("a", 2)]);
    world.submit(member("p0", "j"));
    world.settle();
    assert_eq!(world.bound(), 0, "the Job has not been seen");
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.settle();
    assert_eq!(world.bound(), 0, "one of two is there");
    world.submit(member("p1", "j"));
    world.settle();
    assert_eq!((world.bound(), world.state("j")), (2, Some(JobState::Running)));
}

#[test]
fn a_job_that_says_how_its_group_is_scheduled_is_refused_by_name() {
    let mut world = World::new(&[("a", 2)]);
    world.tell(Event::Controller(Arc::new(Controller {
        scheduling: Some(refused()),
        ..job("j", 2, 2)
    })));
    world.submit(member("p0", "j"));
    world.submit(member("p1", "j"));
    world.settle();
    let said = "Job ns/j: spec.scheduling.schedulingPolicy: no".to_owned();
    assert_eq!(world.blocked("j"), ("UnsupportedConstraint".to_owned(), said.clone()));
    assert_eq!((world.bound(), world.state("j")), (0, Some(JobState::Refused)));
    let condition = &world.conditions["p1"];
    assert_eq!((condition.reason.as_str(), &condition.message), ("SchedulerError", &said));
}

#[test]
fn so_is_one_that_waits_without_pods() {
    let mut world = World::new(&[("a", 2)]);
    world.submit_job(Controller { scheduling: Some(refused()), ..marked("j", 2, 1) });
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Refused));
    assert!(!world.is_released("j"));
}

#[test]
fn a_group_of_no_known_job_is_refused_by_its_name() {
    let mut world = World::new(&[("a", 4)]);
    // The Job of the first never comes, and the second names another kind of object as its Job.
    world.submit(member("p0", "j"));
    world.tell(Event::Controller(Arc::new(Controller {
        kind: OwnerKind::StatefulSet,
        ..job("set", 1, 1)
    })));
    world.submit(member("p1", "set"));
    world.settle();
    world.pass_seconds(OWNER_WAIT_MILLIS / 1000 + 1);
    world.settle();
    for name in ["p0", "p1"] {
        let (reason, message) = world.blocked(name);
        assert_eq!(reason, "UnsupportedConstraint", "{name}");
        let begins = format!("pod ns/{name}: spec.schedulingGroup: PodGroup \"j-group\" ");
        assert!(message.starts_with(&begins), "{message}");
    }
    assert_eq!(world.bound(), 0);
}

#[test]
fn pods_that_their_job_has_left_behind_are_what_they_were() {
    let mut world = World::new(&[("a", 1)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.submit(member("p0", "j"));
    world.submit(member("p1", "j"));
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Unsatisfiable));
    world.tell(Event::ControllerGone(Uid::from("uid-j")));
    world.settle();
    assert_ne!(world.state("j"), Some(JobState::Refused), "no Job said anything of groups");
}
