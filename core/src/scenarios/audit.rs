//! The accounts of taken amounts go wrong, and are made right again.

use super::*;
use crate::cycle::consistency::contradiction_of_pods;
use crate::cycle::walks::Seen;
use crate::jobs::job::Job;
use crate::jobs::stage::Stage;
use fluxqueue_machine::fluxion::{End, Tenancy};
use fluxqueue_planner::queue::{JobId, PendingRequest};

/// A slot is taken on a node that no pod has.
fn with_a_leak(world: &mut World, node: &str) {
    let shape = Arc::clone(&pod("any", 3).shape);
    let core = &mut world.core;
    let leaked = core.planner.ledger.charge(
        &mut core.planner.cluster,
        &node.into(),
        &shape,
        (End::Never, Tenancy::Shared),
    );
    assert!(leaked.is_some());
}

#[test]
fn a_slot_that_nobody_has_is_found_though_both_accounts_have_it() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("runs", 1));
    world.settle();
    with_a_leak(&mut world, "a");
    world.submit(pod("waits", 2));
    world.settle();
    assert_eq!(world.node_of("waits"), None);
    world.pass_seconds(11);
    world.settle();
    assert_eq!(world.node_of("waits"), Some("a"));
    assert_eq!(world.core.gauges().audit_differences, 4, "cpu and pods, in each account");
    world.submit(pod("too-much", 2));
    world.settle();
    assert_eq!(world.node_of("too-much"), None, "what was taken still is");
}

#[test]
fn a_pod_that_was_never_charged_is() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("runs", 3));
    world.settle();
    let core = &mut world.core;
    let member = core.jobs.members.values_mut().next().expect("a pod");
    let charged = member.stage.take_allocation().expect("it has a slot");
    core.planner.ledger.free(&mut core.planner.cluster, charged);
    world.pass_seconds(11);
    world.settle();
    assert_eq!(world.core.gauges().audit_differences, 4);
    world.submit(pod("too-much", 2));
    world.settle();
    assert_eq!(world.node_of("too-much"), None);
}

#[test]
fn many_nodes_are_looked_at_some_at_a_time() {
    let names: Vec<String> = (0..600).map(|at| format!("n{at:03}")).collect();
    let nodes: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 4)).collect();
    let mut world = World::new(&nodes);
    world.settle();
    with_a_leak(&mut world, "n000");
    with_a_leak(&mut world, "n599");
    let mut found_after = |seconds: &[i64]| {
        for seconds in seconds {
            world.pass_seconds(*seconds);
            world.settle();
        }
        world.core.gauges().audit_differences
    };
    assert_eq!(found_after(&[10]), 4, "of the first node, and not yet of the last");
    assert_eq!(found_after(&[1; 148]), 4, "four nodes are looked at at a time");
    assert_eq!(found_after(&[1]), 6, "of the last: the graph was made anew with the first");
    assert_eq!(found_after(&[1; 150]), 6, "each was mended");
}

/// A gang of three that runs, and one that waits behind it.
fn a_gang_and_one_that_waits() -> World {
    let mut world = World::new(&[("a", 2), ("b", 1)]);
    world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
    for name in ["p0", "p1", "p2"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    world.submit(pod("waits", 1));
    world.settle();
    assert_eq!(world.bound(), 3);
    world
}

#[test]
fn a_job_that_contradicts_itself_is_noticed() {
    type Spoil = fn(&mut Core);
    let spoil: [(&str, Spoil); 4] = [
        ("counts as the opposite", |core| {
            core.jobs.all.values_mut().for_each(|job| job.pods.live.clear());
        }),
        ("is not known", |core| core.jobs.members.clear()),
        ("is not in the queue", |core| {
            for job in core.jobs.all.values_mut() {
                job.waiting.requests.insert(PendingRequest::Start(job.id));
            }
        }),
        ("has a seat that another pod has", |core| {
            for job in core.jobs.all.values_mut() {
                let seats: Vec<_> = job.start.seats.iter().map(|(index, _)| index).collect();
                for index in seats {
                    job.start.seats.leave(index);
                }
            }
        }),
    ];
    for (what, spoil) in spoil {
        let mut world = a_gang_and_one_that_waits();
        let found = |core: &Core| core.jobs.all.values().find_map(|job| core.contradiction(job));
        assert_eq!(found(&world.core), None);
        spoil(&mut world.core);
        let found = found(&world.core).expect("it shows");
        assert!(found.contains(what), "{what}: {found}");
    }
}

/// Where a look at one pod at a time ends: how many looks it took, and what cannot be.
fn looked_at_one_by_one(core: &Core, job: &Job) -> (usize, Option<String>) {
    let mut seen = Seen::default();
    for looks in 1.. {
        let mut left = 1;
        let contradiction = contradiction_of_pods(&core.jobs, job, &mut seen, &mut left);
        if contradiction.is_some() || left > 0 {
            return (looks, contradiction);
        }
    }
    unreachable!("there are few pods")
}

#[test]
fn a_job_of_many_pods_is_looked_at_in_parts() {
    let mut world = a_gang_and_one_that_waits();
    let id =
        world.core.jobs.all.values().find(|job| job.pods.live.len() == 3).expect("the gang").id;
    let looks = looked_at_one_by_one(&world.core, &world.core.jobs.all[&id]);
    assert_eq!(looks, (7, None), "three that are alive, three pods, and the end");
    let last = world.core.jobs.all[&id].pods.all.last().cloned().expect("a pod");
    world.core.jobs.members.get_mut(&last).expect("it is known").stage = Stage::Ended;
    let (looks, contradiction) = looked_at_one_by_one(&world.core, &world.core.jobs.all[&id]);
    assert_eq!(looks, 6);
    assert!(
        contradiction.is_some_and(|what| what.contains("counts as the opposite")),
        "it is found with the last pod"
    );
}

#[test]
fn a_job_that_is_made_anew_is_where_it_was() {
    let mut world = a_gang_and_one_that_waits();
    let before = (world.record("j").status.clone(), world.record("waits").status.clone());
    let ids: Vec<JobId> = world.core.jobs.all.keys().copied().collect();
    for id in ids {
        world.core.rebuild_job(id);
        world.pass_seconds(60);
    }
    world.settle();
    world.pass_seconds(60);
    world.settle();
    assert_eq!((world.record("j").status.clone(), world.record("waits").status.clone()), before);
    assert_eq!((world.bound(), world.core.gauges().audit_differences), (3, 0));
    world.change("p0", |pod| pod.phase = Phase::Failed);
    world.delete("p1");
    world.settle();
    assert_eq!(world.node_of("waits"), Some("a"), "what it gives back is free");
}
