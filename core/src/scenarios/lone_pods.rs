//! Which lone pods have a FluxJob, where the setting does not say all.

use super::*;

/// A world in which a lone pod has a FluxJob only if it waits.
fn world(nodes: &[(&str, u64)]) -> World {
    let mut world = World::new(nodes);
    world.core.settings.record_lone_pods = false;
    world
}

pub(super) fn names(world: &World) -> Vec<&str> {
    world.records.values().map(|record| record.spec.workload_ref.name.as_str()).collect()
}

#[test]
fn one_that_gets_its_node_at_once_is_bound_and_nothing_else_is_written() {
    let mut world = world(&[("n", 4)]);
    world.submit(pod("p", 1));
    for _ in 0..20 {
        world.settle();
        world.pass_seconds(1);
    }
    assert_eq!((world.node_of("p"), names(&world)), (Some("n"), vec![]));
    assert_eq!(world.notes, ["Scheduled"]);
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    world.delete("p");
    world.settle();
    assert_eq!(names(&world), Vec::<&str>::new());
    assert!(world.core.jobs.all.is_empty(), "it is forgotten with its pod");
}

#[test]
fn one_that_waits_for_a_second_has_its_flux_job_until_its_time_is_over() {
    let mut world = world(&[("n", 1)]);
    world.submit(pod("runs", 1));
    world.settle();
    world.submit(pod("waits", 1));
    world.settle();
    assert_eq!(names(&world), Vec::<&str>::new());
    world.pass_seconds(1);
    world.settle();
    assert_eq!(names(&world), ["waits"]);
    assert_eq!(world.blocked("waits").0, "InsufficientResources");
    world.edit("waits", |spec| spec.overrides.hold = true);
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("waits"), world.state("waits")), (None, Some(JobState::Held)));
    world.edit("waits", |spec| spec.overrides.hold = false);
    world.settle();
    assert_eq!(
        (world.node_of("waits"), world.state("waits")),
        (Some("n"), Some(JobState::Running))
    );
    world.change("waits", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.state("waits"), Some(JobState::Completed));
    world.pass_seconds(61);
    world.settle();
    assert_eq!(names(&world), Vec::<&str>::new());
}

#[test]
fn one_that_is_refused_says_so_in_its_flux_job() {
    let mut world = world(&[("n", 1)]);
    let mut refused = pod("refused", 1);
    refused.unsupported.push(Unsupported { field: "spec.x".to_owned(), message: "no".to_owned() });
    world.submit(refused);
    world.settle();
    world.pass_seconds(1);
    world.settle();
    assert_eq!(world.state("refused"), Some(JobState::Refused));
}

#[test]
fn one_that_runs_without_a_flux_job_is_given_none() {
    let nodes = [("n", 2)];
    let mut world = world(&nodes);
    let mut told = pod("p", 1);
    told.soft_ignored = vec!["spec.topologySpreadConstraints"];
    world.submit(told);
    world.settle();
    world.pass_seconds(100);
    world.notes.clear();
    world.restart();
    world.list(&nodes, &[]);
    for _ in 0..20 {
        world.settle();
        world.pass_seconds(1);
    }
    assert_eq!((names(&world), &*world.notes), (vec![], &[] as &[String]));
    // A user deletes the record of one that runs: it is as if it had never waited.
    world.submit(pod("big", 2));
    world.pass_seconds(1);
    world.settle();
    world.pass_seconds(1);
    world.settle();
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.state("big"), Some(JobState::Running));
    world.delete_record("big");
    for _ in 0..20 {
        world.settle();
        world.pass_seconds(1);
    }
    assert_eq!(names(&world), Vec::<&str>::new());
}

/// Returns which of two starts, after a restart with nothing on record, on a node for one: a lone
/// pod that is there since 1990, or a pod of a service that was made in 1995.
fn first_after_restart(how: impl FnOnce(&mut Pod)) -> String {
    let nodes = [("n", 1)];
    let mut world = world(&[]);
    let mut lone = pod("lone", 1);
    lone.created = Time::from_seconds(1990);
    how(&mut lone);
    let mut service = of_job(pod("service", 1), "s");
    service.created = Time::from_seconds(1995);
    service.owner.as_mut().expect("of a ReplicaSet").kind = OwnerKind::ReplicaSet;
    for pod in [lone, service] {
        world.pods.insert(pod.id.key.name.to_string(), pod);
    }
    world.restart();
    let set = Controller { kind: OwnerKind::ReplicaSet, ..job("s", 1, 1) };
    world.list(&nodes, &[set]);
    world.settle();
    world.bindings.first().expect("one starts").0.clone()
}

#[test]
fn one_that_waits_without_a_flux_job_keeps_its_place() {
    assert_eq!(first_after_restart(|_| {}), "lone");
    // It could be placed only when its gates were off, and that time is unknown.
    let gated = ScheduledCondition {
        scheduled: false,
        reason: "SchedulingGated".to_owned(),
        message: String::new(),
    };
    assert_eq!(first_after_restart(|pod| pod.scheduled_condition = Some(gated)), "service");
}

#[test]
fn pods_that_are_gone_leave_no_timers() {
    const PODS: usize = 200;
    // Carries everything out, and lets no time go by.
    let at_once = |world: &mut World| loop {
        let actions = world.step();
        if actions.is_empty() {
            break;
        }
        world.carry_out_all(actions);
    };
    let mut world = World::new(&[("a", 4)]);
    for at in 0..PODS {
        let name = format!("p{at}");
        world.submit(super::promises::lasting(&name, 1, 86_400));
        at_once(&mut world);
        assert!(world.node_of(&name).is_some(), "{name}");
        world.change(&name, |pod| pod.phase = Phase::Succeeded);
        at_once(&mut world);
        world.delete(&name);
    }
    for _ in 0..300 {
        world.pass_seconds(1);
        at_once(&mut world);
    }
    let left = world.core.agenda.timers.len();
    assert!(left < 20, "{left} timers after {PODS} pods that are all gone");
}
