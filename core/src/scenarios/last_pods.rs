//! The rest of a group starts when most of its pods have ended, but with no fewer pods than its
//! objects can make.

use super::topology::{RACK, in_one, node_in};
use super::*;

fn seconds_go_by(world: &mut World, seconds: i64) {
    for _ in 0..seconds {
        world.pass_seconds(1);
        world.settle();
    }
}

fn labelled(name: &str, size: u32) -> Pod {
    of_group(of_job(pod(name, 1), "j"), "g", Ok(size))
}

/// A labelled Job of which these pods have started together.
fn running(job: &Controller, pods: &[&str], size: u32) -> World {
    let mut world = World::new(&[("a", 8)]);
    world.tell(Event::Controller(Arc::new(job.clone())));
    for name in pods {
        world.submit(labelled(name, size));
    }
    world.settle();
    assert_eq!(world.bound(), pods.len());
    world
}

/// Two indexes have succeeded, and the third fails until its back-off is longer than its slot is
/// kept.
#[test]
fn the_last_index_of_a_group_starts_after_any_back_off() {
    for is_restarted in [false, true] {
        let mut world = running(&job("j", 3, 3), &["p0", "p1", "p2"], 3);
        for name in ["p0", "p1"] {
            world.change(name, |pod| pod.phase = Phase::Succeeded);
        }
        world.tell(Event::Controller(Arc::new(Controller {
            succeeded: 2,
            wants: 1,
            ..job("j", 3, 3)
        })));
        world.change("p2", |pod| pod.phase = Phase::Failed);
        seconds_go_by(&mut world, 100);
        if is_restarted {
            world.restart();
            world.list(&[("a", 8)], &[Controller { succeeded: 2, wants: 1, ..job("j", 3, 3) }]);
            world.settle();
        }
        world.submit(labelled("q2", 3));
        seconds_go_by(&mut world, 4);
        assert!(
            world.node_of("q2").is_some(),
            "restarted {is_restarted}: {:?}",
            world.blockers("g")
        );
    }
}

/// Its controller is late, and so is its status.
#[test]
fn the_tail_of_a_group_starts_though_its_controller_is_late() {
    let names = ["p0", "p1", "p2", "p3"];
    let mut world = running(&job("j", 4, 5), &names, 4);
    for name in names {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    seconds_go_by(&mut world, 100);
    world.submit(labelled("p4", 4));
    seconds_go_by(&mut world, 4);
    assert!(world.node_of("p4").is_some(), "{:?}", world.blockers("g"));
}

#[test]
fn a_group_that_is_resumed_when_most_of_its_indexes_are_done_starts() {
    for is_restarted in [false, true] {
        let names = ["p0", "p1", "p2", "p3"];
        let mut world = running(&job("j", 4, 6), &names, 4);
        for name in names {
            world.change(name, |pod| pod.phase = Phase::Succeeded);
        }
        for name in ["p4", "p5"] {
            world.submit(labelled(name, 4));
        }
        let done = Controller { succeeded: 4, wants: 2, ..job("j", 4, 6) };
        world.tell(Event::Controller(Arc::new(done.clone())));
        world.settle();
        assert_eq!(world.bound(), 6, "they take kept slots");
        world.tell(Event::Controller(Arc::new(Controller { wants: 0, ..done.clone() })));
        for name in ["p4", "p5"] {
            world.change(name, |pod| pod.deleting = true);
            world.settle();
            world.delete(name);
        }
        world.settle();
        if is_restarted {
            world.restart();
            world.list(&[("a", 8)], std::slice::from_ref(&done));
        } else {
            world.tell(Event::Controller(Arc::new(done)));
        }
        world.submit(labelled("q4", 4));
        world.settle();
        assert_eq!(world.node_of("q4"), None, "there will be two");
        world.submit(labelled("q5", 4));
        seconds_go_by(&mut world, 4);
        let there = ["q4", "q5"].map(|name| world.node_of(name).is_some());
        assert_eq!(there, [true, true], "restarted {is_restarted}: {:?}", world.blockers("g"));
    }
}

/// Indexes that were given up need no success any more.
#[test]
fn what_was_given_up_is_not_waited_for() {
    let mut world = running(&job("j", 6, 6), &["p0", "p1", "p2", "p3", "p4", "p5"], 6);
    for name in ["p0", "p1", "p2", "p3"] {
        world.change(name, |pod| pod.phase = Phase::Failed);
    }
    world.tell(Event::Controller(Arc::new(Controller {
        completions: Some(2),
        wants: 2,
        ..job("j", 6, 6)
    })));
    for name in ["p4", "p5"] {
        world.change(name, |pod| {
            pod.phase = Phase::Disrupted { reason: "DeletionByTaintManager".into() }
        });
    }
    seconds_go_by(&mut world, 30);
    for name in ["q4", "q5"] {
        world.submit(labelled(name, 6));
    }
    seconds_go_by(&mut world, 4);
    assert!(
        ["q4", "q5"].iter().all(|name| world.node_of(name).is_some()),
        "{:?}",
        world.blockers("g")
    );
}

// --- what can come ---

/// The workers' Job is there, and a quota keeps it from making its pods.
#[test]
fn a_group_waits_for_the_pods_of_a_job_that_has_made_none_yet() {
    let mpi = |pod: Pod, of: &str| of_group(of_job(pod, of), "mpi", Ok(4));
    let group = Some(GroupLabels { name: "mpi".into(), size: Ok(4) });
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(Controller {
        group: group.clone(),
        ..job("lead", 1, 1)
    })));
    let workers = Controller { group, ..job("work", 3, 3) };
    world.tell(Event::Controller(Arc::new(workers.clone())));
    world.submit(mpi(pod("lead", 1), "lead"));
    seconds_go_by(&mut world, 60);
    assert_eq!(world.node_of("lead"), None);
    assert_eq!(world.blocked("mpi"), ("Incomplete".to_owned(), "1 of 4 pods are there".to_owned()));
    for name in ["w0", "w1", "w2"] {
        assert_eq!(world.bound(), 0);
        world.submit(mpi(pod(name, 1), "work"));
        world.settle();
    }
    assert_eq!(world.bound(), 4);
}

#[test]
fn a_group_does_not_wait_for_a_job_that_is_deleted() {
    let group = Some(GroupLabels { name: "mpi".into(), size: Ok(4) });
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(Controller {
        group: group.clone(),
        ..job("lead", 1, 1)
    })));
    let workers = Controller { group, ..job("work", 3, 3) };
    world.tell(Event::Controller(Arc::new(workers.clone())));
    world.submit(of_group(of_job(pod("lead", 1), "lead"), "mpi", Ok(4)));
    seconds_go_by(&mut world, 10);
    assert_eq!(world.bound(), 0);
    world.tell(Event::ControllerGone(workers.id.uid));
    seconds_go_by(&mut world, 1);
    assert_eq!(world.bound(), 1, "no other can come: {:?}", world.blockers("mpi"));
}

/// Of what does not exist yet nothing is known: it is waited for as long as the settings say. Some
/// objects are made only when the pods of others run.
#[test]
fn a_group_waits_for_objects_that_are_made_later_as_long_as_the_settings_say() {
    let mpi = |pod: Pod, of: &str| of_group(of_job(pod, of), "mpi", Ok(4));
    let group = Some(GroupLabels { name: "mpi".into(), size: Ok(4) });
    let lead = Controller { group: group.clone(), ..job("lead", 1, 1) };
    for (group_grace_secs, bound) in [(3, 1), (30, 0)] {
        let told = CoreSettings { group_grace_secs, ..settings() };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
        world.tell(Event::Controller(Arc::new(lead.clone())));
        world.submit(Pod { created: world.now, ..mpi(pod("lead", 1), "lead") });
        seconds_go_by(&mut world, 5);
        // A process that comes later counts from when the pod was made.
        world.restart();
        world.list(&[("a", 4)], std::slice::from_ref(&lead));
        seconds_go_by(&mut world, 5);
        assert_eq!(world.bound(), bound, "after 10 s of {group_grace_secs}");
        world.tell(Event::Controller(Arc::new(Controller {
            group: group.clone(),
            ..job("work", 3, 3)
        })));
        for name in ["w0", "w1", "w2"] {
            world.submit(mpi(pod(name, 1), "work"));
        }
        world.settle();
        assert_eq!(world.bound(), 4, "{group_grace_secs}");
    }
}

/// A quota lets two groups have two of three pods each: both wait, and hold nothing.
#[test]
fn groups_of_which_a_quota_refuses_a_pod_hold_nothing_and_start_with_it() {
    for queue_policy in [crate::QueuePolicy::Fcfs, crate::QueuePolicy::Easy] {
        let told = CoreSettings { queue_policy, ..settings() };
        let mut world = World::told(told, FunctionTable::builtin(), &[("a", 4)]);
        let half = |group: &str, at: u32| of_group(pod(&format!("{group}-{at}"), 1), group, Ok(3));
        for at in 0..2 {
            world.submit(half("half-a", at));
            world.submit(half("half-b", at));
        }
        seconds_go_by(&mut world, 60);
        for group in ["half-a", "half-b"] {
            assert_eq!(
                world.blocked(group),
                ("Incomplete".to_owned(), "2 of 3 pods are there".to_owned())
            );
            assert!(
                world
                    .record(group)
                    .status
                    .as_ref()
                    .is_some_and(|status| status.reservation.is_none())
            );
        }
        world.submit(pod("elsewhere", 4));
        world.settle();
        assert_eq!(world.node_of("elsewhere"), Some("a"));
        world.change("elsewhere", |pod| pod.phase = Phase::Succeeded);
        // One of the pods goes, and the quota has room for one of the other group.
        world.delete("half-b-0");
        world.submit(half("half-a", 2));
        world.settle();
        assert_eq!(
            (world.bound(), world.blocked("half-b").1.as_str()),
            (1 + 3, "1 of 3 pods are there")
        );
    }
}

/// The first pod of an ordered set starts alone, and the others have to be where it is.
#[test]
fn the_first_pod_of_an_ordered_set_goes_where_all_fit() {
    for nodes in [["s1", "l1", "l2", "l3"], ["l1", "l2", "l3", "s1"]] {
        let mut world = World::new(&[]);
        for name in nodes {
            world.tell(node_in(name, &name[..1]));
        }
        let set = Controller {
            kind: OwnerKind::StatefulSet,
            completions: None,
            can_start_together: 1,
            ..job("ring", 3, 3)
        };
        world.tell(Event::Controller(Arc::new(set)));
        for name in ["ring-0", "ring-1", "ring-2"] {
            let mut ring = in_one(RACK, of_group(of_job(pod(name, 2), "ring"), "ring", Ok(3)));
            ring.owner.as_mut().expect("its set").kind = OwnerKind::StatefulSet;
            world.submit(ring);
            seconds_go_by(&mut world, 4);
            assert!(
                world.node_of(name).is_some_and(|node| node.starts_with('l')),
                "{name}: {:?}",
                world.bindings
            );
        }
    }
}

/// So does the first Job of several that are made in order, and the first pod of a Job that is made
/// larger.
#[test]
fn the_first_pods_of_jobs_that_grow_go_where_all_fit() {
    let in_rack = |pod: Pod| in_one(RACK, of_group(pod, "io", Ok(3)));
    let group = Some(GroupLabels { name: "io".into(), size: Ok(3) });
    for nodes in [["s1", "l1", "l2", "l3"], ["l1", "l2", "l3", "s1"]] {
        for is_one_job in [false, true] {
            let mut world = World::new(&[]);
            for name in nodes {
                world.tell(node_in(name, &name[..1]));
            }
            let first = job("head", 1, if is_one_job { 3 } else { 1 });
            world.tell(Event::Controller(Arc::new(Controller { group: group.clone(), ..first })));
            world.submit(in_rack(of_job(pod("p0", 2), "head")));
            seconds_go_by(&mut world, 4);
            assert!(
                world.node_of("p0").is_some_and(|node| node.starts_with('l')),
                "{:?}",
                world.bindings
            );
            let of = if is_one_job { "head" } else { "work" };
            let more = if is_one_job { job("head", 3, 3) } else { job("work", 2, 2) };
            world.tell(Event::Controller(Arc::new(Controller { group: group.clone(), ..more })));
            for name in ["p1", "p2"] {
                world.submit(in_rack(of_job(pod(name, 2), of)));
            }
            seconds_go_by(&mut world, 4);
            assert_eq!(world.bound(), 3, "{nodes:?} {is_one_job}: {:?}", world.bindings);
        }
    }
}
