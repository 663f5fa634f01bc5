//! References to jobs and pods that lead nowhere: one job is rebuilt, and nothing else changes.

use std::panic::Location;

use super::promises::{reserved, waiting_gang};
use super::*;
use crate::QueuePolicy;
use crate::sound::{Contradiction, Interruption, Reference};
use fluxqueue_planner::queue::JobId;

/// Reports a reference that leads nowhere, as a build without debug assertions does.
fn find(world: &mut World, about: Reference) {
    let found = Contradiction { about, at: Location::caller() };
    world.core.agenda.heed(Err(Interruption::Contradiction(found)));
    world.core.mend_contradictions();
}

fn job_of(world: &World, workload: &str) -> JobId {
    let has = |pod: &Pod| *pod.id.key.name == *workload;
    let pod = world.core.jobs.members.values().find(|member| has(&member.pod));
    pod.unwrap_or_else(|| panic!("there is a pod {workload}")).job
}

/// The numbers of contradictions found and of jobs rebuilt.
fn counts(world: &World) -> (u64, u64) {
    let counts = world.core.gauges().interruptions;
    (counts.contradictions, counts.jobs_made_anew)
}

#[test]
fn a_job_that_is_made_anew_keeps_its_promise() {
    let mut world = waiting_gang(QueuePolicy::Easy);
    let before = job_of(&world, "p0");
    find(&mut world, Reference::Job(before));
    world.settle();
    assert_ne!(job_of(&world, "p0"), before, "it is another job to the core");
    world.pass_seconds(2);
    world.settle();
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())));
    assert!(!world.notes.contains(&"ReservationDelayed".to_owned()));
    world.pass_seconds(98);
    world.change("a", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("n1"), Some("n2")));
}

#[test]
fn pods_of_a_job_that_is_not_there_find_one_again() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("runs", 3));
    world.submit(pod("waits", 3));
    world.settle();
    let (runs, waits) = (job_of(&world, "runs"), job_of(&world, "waits"));
    drop(world.core.jobs.all.remove(&waits));
    find(&mut world, Reference::Job(waits));
    world.settle();
    assert_eq!(counts(&world), (1, 1));
    assert_eq!(job_of(&world, "runs"), runs, "another job is as it was");
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("waits"), Some("a"));
}

#[test]
fn one_job_a_minute_is_made_anew() {
    let mut world = World::new(&[("a", 4)]);
    for name in ["runs", "next", "last"] {
        world.submit(pod(name, 3));
        world.settle();
    }
    let [next, last] = ["next", "last"].map(|name| job_of(&world, name));
    let unknown: Uid = "unknown".into();
    for id in [next, last] {
        let job = world.core.jobs.all.get_mut(&id).expect("it is there");
        job.pods.all.insert(unknown.clone());
    }
    find(&mut world, Reference::Pod(unknown.clone()));
    assert_eq!(counts(&world), (1, 1));
    find(&mut world, Reference::Pod(unknown.clone()));
    assert_eq!(counts(&world), (2, 1), "not twice in a minute");
    assert_eq!(job_of(&world, "last"), last);
    world.now = world.now.plus_secs(60);
    world.core.advance(world.now);
    find(&mut world, Reference::Pod(unknown));
    assert_eq!(counts(&world), (3, 2));
    assert_ne!(job_of(&world, "last"), last);
}

#[test]
fn an_answer_that_comes_after_its_pod_has_gone_is_counted_as_old_news() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("p", 3));
    let is_binding = |action: &Action| matches!(action.kind, ActionKind::Bind { .. });
    let sent = world.step().into_iter().find(is_binding).expect("a Binding");
    world.delete("p");
    world.step();
    let outdated = |world: &World| world.core.gauges().interruptions.outdated;
    assert_eq!(outdated(&world), 0);
    world.tell(Event::Done(sent.id, Outcome::Bind(BindOutcome::Gone)));
    assert_eq!((outdated(&world), counts(&world)), (1, (0, 0)));
}
