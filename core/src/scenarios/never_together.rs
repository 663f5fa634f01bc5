//! Gangs that can be together nowhere, or only when their like has left.

use super::kept_away::{BACKFILL, Stream, held, hosts, passed_by};
use super::neighbours::{apart, count, gang_of, labels, near, on, spread};
use super::together::fill;
use super::*;
use crate::QueuePolicy;

/// A second Job comes, which needs two whole hosts.
fn submit_gang_of_whole_hosts(world: &mut World) {
    world.tell(Event::Controller(Arc::new(job("k", 2, 2))));
    for name in ["k0", "k1"] {
        world.submit(of_job(pod(name, 8), "k"));
    }
    world.settle();
}

/// Job `j` comes, of more pods than a rack has room for, or than there are racks.
fn submit_gang_that_can_never_be_together(world: &mut World, is_near: bool) {
    if is_near {
        gang_of(world, 9, 2, |pod| near(pod, "mpi", "rack"));
    } else {
        gang_of(world, 3, 1, |pod| apart(pod, "mpi", "rack"));
    }
}

#[test]
fn a_gang_that_can_never_be_together_does_not_keep_the_next_waiting_while_there_is_no_room() {
    for (policy, is_near) in
        BACKFILL.into_iter().flat_map(|policy| [(policy, true), (policy, false)])
    {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| pod(name, 4));
        stream.submit(&mut world, 10);
        submit_gang_that_can_never_be_together(&mut world, is_near);
        submit_gang_of_whole_hosts(&mut world);
        let why = world.blocked("j").1;
        assert!(
            why.contains("so later jobs are not held back") && !why.contains("No end is known"),
            "{policy:?}: {why}"
        );
        assert_eq!((passed_by(&world, "j"), passed_by(&world, "k")), (false, true), "{policy:?}");
        stream.go_on(&mut world, 400);
        assert!(world.node_of("k0").is_some(), "{policy:?}");
    }
}

#[test]
fn first_come_first_served_a_gang_that_can_never_be_together_holds_nobody_up() {
    for is_near in [true, false] {
        let mut world = hosts(QueuePolicy::Fcfs);
        fill(&mut world, &["a1", "a2", "b2"]);
        world.submit(on(pod("busy", 6), "b1"));
        submit_gang_that_can_never_be_together(&mut world, is_near);
        world.submit(pod("small", 1));
        world.settle();
        assert_eq!(world.node_of("small"), Some("b1"), "{is_near}");
    }
}

/// Pods of the labels of job `j` are in rack a, and rack b has never room for as many.
fn submit_its_like(world: &mut World) {
    world.submit(Pod { lifetime: Lifetime::Endless, ..on(pod("service", 8), "b1") });
    for at in 0..5 {
        world.submit(Pod { labels: labels("mpi"), ..on(pod(&format!("like-{at}"), 1), "a1") });
    }
}

#[test]
fn first_come_first_served_nobody_passes_by_a_gang_that_waits_for_room_and_for_its_like() {
    let mut world = hosts(QueuePolicy::Fcfs);
    submit_its_like(&mut world);
    fill(&mut world, &["a2"]);
    gang_of(&mut world, 6, 2, |pod| spread(pod, "mpi", "rack"));
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!(world.node_of("small"), None);
    for at in 0..5 {
        world.change(&format!("like-{at}"), |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    assert_eq!(count(&world, 6, ""), 6);
}

/// Pods like its own are in its way, and have an unknown end.
#[test]
fn a_spread_gang_that_waits_for_its_like_to_leave_a_rack_starts_when_that_has_left() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| pod(name, 4));
        submit_its_like(&mut world);
        stream.submit(&mut world, 8);
        gang_of(&mut world, 6, 2, |pod| spread(pod, "mpi", "rack"));
        stream.go_on(&mut world, 310);
        assert_eq!(
            (count(&world, 6, ""), held(&world, "j").as_deref()),
            (0, Some("a2,b2")),
            "{policy:?}"
        );
        for at in 0..5 {
            world.change(&format!("like-{at}"), |pod| pod.phase = Phase::Succeeded);
        }
        stream.go_on(&mut world, 60);
        assert_eq!((count(&world, 6, "a2"), count(&world, 6, "b2")), (3, 3), "{policy:?}");
    }
}

/// In the plan run forward a gang begins when it starts: pods like its own that come then get an
/// estimate, too.
#[test]
fn pods_of_its_like_have_an_estimate_while_a_spread_gang_waits() {
    let mut world = hosts(QueuePolicy::Easy);
    let lasting = |pod: Pod, seconds| Pod { lifetime: Lifetime::Seconds(seconds), ..pod };
    for at in 0..4 {
        world.submit(lasting(pod(&format!("busy-{at}"), 8), 100));
    }
    world.settle();
    gang_of(&mut world, 4, 2, |pod| spread(lasting(pod, 1_000), "mpi", "rack"));
    // It has the only reservation that there is.
    world.submit(lasting(pod("first", 1), 50));
    world.submit(Pod { labels: labels("mpi"), ..lasting(pod("like", 2), 50) });
    for _ in 0..20 {
        world.settle();
        world.pass_seconds(1);
    }
    let estimates = ["j", "like"].map(|name| world.estimate(name).map(|(_, second)| second));
    let [Some(gang), Some(like)] = estimates else { panic!("{estimates:?}") };
    assert!(gang <= like && like < gang + 60, "{estimates:?}");
}
