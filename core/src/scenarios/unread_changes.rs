//! Changes of objects in which nothing that is read has changed: they cost no planning, however
//! many there are.

use super::stand_ins::marked;
use super::*;
use crate::QueuePolicy;
use fluxqueue_workload::SuspensionPhase;

/// A full machine with promises: a gang that is first, a pod that could go before it, and a Job
/// that waits without pods.
fn world() -> World {
    let told = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
    let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4), ("b", 4)]);
    let runs = |name: &str| Pod { lifetime: Lifetime::Seconds(1000), ..pod(name, 4) };
    world.submit(runs("runs"));
    world.submit(runs("runs-too"));
    world.settle();
    world.submit_gang(4);
    world.submit(pod("waits", 4));
    world.submit_job(marked("suspended", 3, 2));
    world.settle();
    assert_eq!(world.bound(), 2);
    world
}

/// Planning that a second of such changes leads to.
fn planning_after(world: &mut World, mut change: impl FnMut(&mut World, &str)) -> u64 {
    world.pass_seconds(60);
    world.settle();
    let before = world.core.planner.ledger.questions;
    for number in 0..21 {
        change(world, &(100 + number).to_string());
        world.settle();
    }
    world.core.planner.ledger.questions - before
}

#[test]
fn a_version_alone_leads_to_no_planning() {
    let mut world = world();
    let of_pod = planning_after(&mut world, |world, version| {
        world.change("waits", |pod| pod.resource_version = Some(version.into()));
    });
    let of_member = planning_after(&mut world, |world, version| {
        world.change("p0", |pod| pod.resource_version = Some(version.into()));
    });
    let of_record = planning_after(&mut world, |world, version| {
        world.change_record("j", |record| {
            record.metadata.resource_version = Some(version.to_owned());
        });
    });
    let of_job = planning_after(&mut world, |world, version| {
        let mut job = world.jobs["suspended"].clone();
        let suspension = job.suspension.as_mut().expect("it is suspended");
        suspension.phase =
            SuspensionPhase::Marked { resource_version: Some(version.into()), is_suspended: true };
        world.submit_job(job);
    });
    assert_eq!((of_pod, of_member, of_record, of_job), (0, 0, 0, 0));
    // A field that is read leads to planning: the count can be other than zero.
    let of_walltime = planning_after(&mut world, |world, version| {
        let seconds = version.parse().expect("a number");
        world.change("waits", |pod| pod.lifetime = Lifetime::Seconds(seconds));
    });
    assert!(of_walltime > 0);
}
