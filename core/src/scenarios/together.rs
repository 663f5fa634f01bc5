//! Gangs with pods that are to be near to each other or to others, or spread, while room is not
//! where they may be: they are passed by for a time, and not for ever.

use super::kept_away::{BACKFILL, HOSTS, Stream, held, hosts, passed_by};
use super::neighbours::{constrained, count, gang_of, labels, list_racks, near, on, spread};
use super::queues::{of_queue, queue};
use super::storage::mounting;
use super::*;
use crate::QueuePolicy;
use serde_json::json;

/// Job `j` comes, of four pods of two cores, two for each rack.
fn submit_spread_gang(world: &mut World) {
    gang_of(world, 4, 2, |pod| spread(pod, "mpi", "rack"));
}

/// Fills these hosts with other pods, for an unknown time.
pub(super) fn fill(world: &mut World, hosts: &[&str]) {
    for host in hosts {
        world.submit(on(pod(&format!("busy-{host}"), 8), host));
    }
}

fn free(world: &mut World, host: &str) {
    world.change(&format!("busy-{host}"), |pod| pod.phase = Phase::Succeeded);
    world.settle();
}

#[test]
fn a_spread_gang_starts_beside_a_stream_that_takes_what_becomes_free() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        // Each needs a host for itself.
        let mut stream = Stream::of(|name| pod(name, 8));
        fill(&mut world, &["b1", "b2"]);
        stream.submit(&mut world, 2);
        gang_of(&mut world, 4, 4, |pod| spread(pod, "mpi", "rack"));
        assert!(passed_by(&world, "j"), "{policy:?}");
        stream.submit(&mut world, 1);
        free(&mut world, "b1");
        assert_eq!(world.node_of("s2"), Some("b1"), "{policy:?}: it is passed by");
        stream.go_on(&mut world, 290);
        assert_eq!(held(&world, "j"), None, "{policy:?}");
        stream.go_on(&mut world, 10);
        // One host in each rack is enough.
        let nodes = held(&world, "j").expect("nodes are held");
        let (a, b) = nodes.split_once(',').expect("two hosts");
        assert!(a.starts_with('a') && b.starts_with('b'), "{policy:?}: {nodes}");
        stream.go_on(&mut world, 30);
        assert_eq!((count(&world, 4, a), count(&world, 4, b)), (2, 2), "{policy:?}");
    }
}

/// What its spread lets it use of the racks has room for none of it, and there is room for all in
/// the other one.
#[test]
fn a_spread_gang_waits_for_a_full_rack_though_there_is_room_in_another() {
    let mut world = hosts(QueuePolicy::Easy);
    fill(&mut world, &["b1", "b2"]);
    submit_spread_gang(&mut world);
    let (reason, why) = world.blocked("j");
    assert_eq!(reason, "InsufficientResources", "{why}");
    assert!(
        why.contains(
            "There is room for all of them, but not where they may be together by what they ask"
        ),
        "{why}"
    );
    assert!(why.contains("No end is known for ns/busy-b1"), "{why}");
    free(&mut world, "b2");
    assert_eq!((count(&world, 4, "a"), count(&world, 4, "b2")), (2, 2));
}

#[test]
fn what_is_held_for_a_spread_gang_is_in_as_many_racks_as_it_needs() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        fill(&mut world, &["a1", "a2"]);
        for host in ["b1", "b2"] {
            for name in ["one", "two"] {
                world.submit(on(pod(&format!("{name}-{host}"), 4), host));
            }
        }
        submit_spread_gang(&mut world);
        assert!(passed_by(&world, "j"), "{policy:?}: {:?}", world.blocked("j"));
        world.pass_seconds(301);
        world.settle();
        assert_eq!(
            held(&world, "j").as_deref(),
            Some("a1,b1"),
            "{policy:?}: a[1-2] have fewer ends in the way"
        );
        free(&mut world, "a1");
        for name in ["one-b1", "two-b1"] {
            world.submit(pod(&format!("late-{name}"), 4));
            world.change(name, |pod| pod.phase = Phase::Succeeded);
            world.settle();
        }
        assert_eq!((count(&world, 4, "a1"), count(&world, 4, "b1")), (2, 2), "{policy:?}");
    }
}

#[test]
fn a_gang_that_is_to_be_near_to_others_waits_for_work_beside_these_to_end() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let database = Pod {
            labels: labels("db"),
            lifetime: Lifetime::Endless,
            ..on(pod("database", 1), "a2")
        };
        world.submit(database);
        world.submit(on(pod("beside", 7), "a2"));
        fill(&mut world, &["a1"]);
        // They are no databases, so none of them draws the others.
        gang_of(&mut world, 3, 2, |pod| Pod { labels: labels("mpi"), ..near(pod, "db", "rack") });
        assert!(passed_by(&world, "j"), "{policy:?}: {:?}", world.blocked("j"));
        world.pass_seconds(301);
        world.settle();
        assert_eq!(held(&world, "j").as_deref(), Some("a1"), "{policy:?}");
        world.submit(pod("small", 1));
        world.settle();
        free(&mut world, "a1");
        assert_eq!(count(&world, 3, "a1"), 3, "{policy:?}");
    }
}

/// The stream itself is in the way: its pods count for the spread, so later ones stay out of the
/// racks where nodes are held.
#[test]
fn a_spread_gang_starts_beside_a_stream_of_its_like() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        world.submit(Pod { lifetime: Lifetime::Endless, ..on(pod("service", 8), "b2") });
        let mut stream = Stream::of(|name| {
            let here = constrained(pod(name, 2), |of| {
                of.node_selector = vec![("host".into(), "a2".into())];
            });
            Pod { labels: labels("mpi"), ..here }
        });
        stream.submit(&mut world, 5);
        gang_of(&mut world, 4, 4, |pod| spread(pod, "mpi", "rack"));
        assert!(passed_by(&world, "j"), "{policy:?}: {:?}", world.blocked("j"));
        stream.go_on(&mut world, 290);
        assert_eq!(held(&world, "j"), None, "{policy:?}");
        stream.go_on(&mut world, 20);
        assert_eq!(held(&world, "j").as_deref(), Some("a1,b1"), "{policy:?}");
        stream.go_on(&mut world, 60);
        assert_eq!((count(&world, 4, "a1"), count(&world, 4, "b1")), (2, 2), "{policy:?}");
        stream.go_on(&mut world, 20);
        assert!(
            world.node_of(&format!("s{}", stream.next - 3)).is_some(),
            "{policy:?}: the stream goes on"
        );
    }
}

/// A gang waits for room, and pods of its like wait behind it: when all find room at once, none of
/// these comes between.
#[test]
fn what_starts_with_a_spread_gang_does_not_make_it_uneven_before_it_begins() {
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Conservative] {
        let mut world = hosts(policy);
        fill(&mut world, &["a1", "a2", "b1", "b2"]);
        submit_spread_gang(&mut world);
        for at in 0..4 {
            world.submit(Pod { labels: labels("mpi"), ..pod(&format!("like-{at}"), 2) });
        }
        world.settle();
        for host in ["a1", "a2", "b1", "b2"] {
            world.change(&format!("busy-{host}"), |pod| pod.phase = Phase::Succeeded);
        }
        world.settle();
        assert_eq!(
            (count(&world, 4, "a"), count(&world, 4, "b")),
            (2, 2),
            "{policy:?}: {:?}",
            world.blocked("j")
        );
        let like = (0..4).filter(|at| world.node_of(&format!("like-{at}")).is_some()).count();
        assert_eq!(like, 4, "{policy:?}: they come when it has begun");
    }
}

/// The pods that it is to be near to come and go in a rack that is too small for it: when nodes of
/// another one are held, they come to none but that.
#[test]
fn a_gang_that_is_to_be_near_starts_beside_a_stream_of_its_like_elsewhere() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        world.submit(Pod { lifetime: Lifetime::Endless, ..on(pod("service", 8), "a2") });
        let mut stream = Stream::of(|name| {
            let in_a = constrained(pod(name, 2), |of| {
                of.node_selector = vec![("rack".into(), "a".into())];
            });
            Pod { labels: labels("mpi"), ..in_a }
        });
        stream.submit(&mut world, 5);
        gang_of(&mut world, 2, 8, |pod| near(pod, "mpi", "rack"));
        assert!(passed_by(&world, "j"), "{policy:?}: {:?}", world.blocked("j"));
        stream.go_on(&mut world, 290);
        assert_eq!((held(&world, "j"), count(&world, 2, "")), (None, 0), "{policy:?}");
        stream.go_on(&mut world, 20);
        assert_eq!(held(&world, "j").as_deref(), Some("b[1-2]"), "{policy:?}");
        stream.go_on(&mut world, 60);
        assert_eq!(count(&world, 2, "b"), 2, "{policy:?}");
    }
}

/// A pod that was passed by for long enough gets its place in the pass in which others of its label
/// do: it is not uneven by these.
#[test]
fn a_spread_pod_that_starts_is_not_made_uneven_before_its_binding_leaves() {
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Conservative] {
        let mut world = hosts(policy);
        fill(&mut world, &["a1", "a2", "b1", "b2"]);
        world.submit(spread(pod("even", 2), "mpi", "rack"));
        for at in 0..3 {
            let in_a = constrained(pod(&format!("like-{at}"), 2), |of| {
                of.node_selector = vec![("rack".into(), "a".into())];
            });
            world.submit(Pod { labels: labels("mpi"), ..in_a });
        }
        world.settle();
        free(&mut world, "a1");
        assert!(world.node_of("even").is_some(), "{policy:?}: {:?}", world.blocked("even"));
        let like = (0..3).filter(|at| world.node_of(&format!("like-{at}")).is_some()).count();
        assert_eq!(like, 3, "{policy:?}: they come when it has begun");
    }
}

/// Submits job `j`: a launcher of one core, and workers of whole hosts that are to be in one rack,
/// with all pods that have their label. The launcher has it, and finds room in another rack alone.
fn submit_launcher_and_workers(world: &mut World, workers: u32) {
    for (host, cores) in [("b1", 7), ("b2", 8)] {
        world.submit(Pod {
            lifetime: Lifetime::Endless,
            ..on(pod(&format!("service-{host}"), cores), host)
        });
    }
    world.tell(Event::Controller(Arc::new(job("j", workers + 1, workers + 1))));
    world.submit(of_job(Pod { labels: labels("mpi"), ..pod("p0", 1) }, "j"));
    for at in 1..=workers {
        world.submit(of_job(near(pod(&format!("p{at}"), 8), "mpi", "rack"), "j"));
    }
    world.settle();
}

#[test]
fn a_launcher_in_another_rack_comes_after_the_workers_that_are_to_be_near_to_each_other() {
    let mut world = hosts(QueuePolicy::Easy);
    submit_launcher_and_workers(&mut world, 2);
    assert_eq!(
        (count(&world, 3, "a"), world.node_of("p0")),
        (2, Some("b1")),
        "{:?}",
        world.blocked("j")
    );
}

/// Its only worker would be near to no pod: such a placement would be taken back before it begins,
/// again and again.
#[test]
fn a_worker_whose_launcher_is_in_another_rack_is_not_placed() {
    let mut world = hosts(QueuePolicy::Easy);
    world.submit(Pod { lifetime: Lifetime::Endless, ..on(pod("service-a2", 8), "a2") });
    submit_launcher_and_workers(&mut world, 1);
    assert_eq!((world.state("j"), count(&world, 2, "")), (Some(JobState::Pending), 0));
    let (_, text) = world.blocked("j");
    assert!(!text.contains("withdrawn"), "{text}");
    assert_eq!(world.core.gauges().placements_withdrawn, 0);
}

/// A spread gang waits for its volumes, and pods of its like wait for it to begin: also those of a
/// new process, under each policy.
#[test]
fn a_spread_gang_that_waits_for_volumes_is_kept_even_by_a_successor() {
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Conservative] {
        let mut world = hosts(policy);
        world.class("slow", "made-later");
        world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
        for (name, claim) in [("p0", "c0"), ("p1", "c1")] {
            world.claim(claim, "slow");
            world.submit(mounting(of_job(spread(pod(name, 2), "mpi", "rack"), "j"), &[claim]));
        }
        world.settle();
        let like = |at: usize| format!("like-{at}");
        for at in 0..3 {
            world.submit(Pod { labels: labels("mpi"), ..pod(&like(at), 2) });
        }
        world.settle();
        let started =
            |world: &World| (0..3).filter(|at| world.node_of(&like(*at)).is_some()).count();
        assert_eq!(
            (world.state("j"), started(&world)),
            (Some(JobState::Starting), 0),
            "{policy:?}"
        );
        world.restart();
        list_racks(&mut world, &HOSTS);
        world.list(&[], &[job("j", 2, 2)]);
        world.settle();
        assert_eq!(
            (world.state("j"), started(&world)),
            (Some(JobState::Starting), 0),
            "{policy:?}"
        );
        for (claim, volume) in [("c0", "v0"), ("c1", "v1")] {
            world.volume(volume, "slow", None);
            world.bind_claim(claim, volume);
        }
        world.settle();
        assert_eq!(
            (count(&world, 2, "a"), count(&world, 2, "b")),
            (1, 1),
            "{policy:?}: {:?}",
            world.blocked("j")
        );
        assert_eq!(started(&world), 3, "{policy:?}: they come when it has begun");
    }
}

/// Gangs with the same labels leave each other even: they need not wait for each other.
#[test]
fn spread_gangs_of_one_kind_start_in_one_pass() {
    let mut world = hosts(QueuePolicy::Easy);
    for job_at in 0..4 {
        let name = format!("k{job_at}");
        world.tell(Event::Controller(Arc::new(job(&name, 2, 2))));
        for at in 0..2 {
            world.submit(spread(of_job(pod(&format!("{name}-{at}"), 1), &name), "mpi", "rack"));
        }
    }
    let actions = world.step();
    let records = actions
        .iter()
        .filter(|action| matches!(action.kind, ActionKind::Write(Write::CreateFluxJob { .. })))
        .count();
    assert_eq!(records, 4, "each is put on record with its placement");
    world.carry_out_all(actions);
    world.settle();
    assert_eq!(world.bound(), 8);
}

#[test]
fn a_spread_pod_starts_beside_a_stream_of_its_like() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        // Of three domains, of which there are two, each may have one.
        let three =
            |pod: Pod| constrained(spread(pod, "mpi", "rack"), |of| of.spreads[0].min_domains = 3);
        let mut like = Stream::of(move |name| three(pod(name, 1)));
        let mut plain = Stream::of(|name| pod(name, 7));
        plain.next = 1000;
        like.submit(&mut world, 3);
        plain.submit(&mut world, 6);
        world.submit(three(pod("large", 8)));
        world.settle();
        for _ in 0..100 {
            like.go_on(&mut world, 10);
            plain.go_on(&mut world, 10);
        }
        assert!(world.node_of("large").is_some(), "{policy:?}: {:?}", world.blocked("large"));
    }
}

#[test]
fn a_spread_gang_whose_racks_services_fill_keeps_nothing_from_others() {
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Conservative] {
        let mut world = hosts(policy);
        for host in ["b1", "b2"] {
            world.submit(Pod {
                lifetime: Lifetime::Endless,
                ..on(pod(&format!("service-{host}"), 8), host)
            });
        }
        world.submit(on(pod("busy", 1), "a1"));
        submit_spread_gang(&mut world);
        world.pass_seconds(400);
        world.settle();
        assert!(!passed_by(&world, "j") && held(&world, "j").is_none(), "{policy:?}");
        world.submit(pod("small", 8));
        world.settle();
        assert_eq!(world.node_of("small"), Some("a2"), "{policy:?}");
    }
}

#[test]
fn first_come_first_served_nobody_passes_by_a_spread_gang() {
    let mut world = hosts(QueuePolicy::Fcfs);
    fill(&mut world, &["b1", "b2"]);
    submit_spread_gang(&mut world);
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!(world.node_of("small"), None);
    free(&mut world, "b2");
    assert_eq!((count(&world, 4, "a"), count(&world, 4, "b2")), (2, 2));
    assert!(world.node_of("small").is_some());
}

/// Job `j` comes, of eight pods of two cores that are to be in one rack: they need all of one.
fn submit_gang_for_a_rack(world: &mut World) {
    gang_of(world, 8, 2, |pod| near(pod, "mpi", "rack"));
}

#[test]
fn a_gang_for_one_rack_starts_beside_a_stream_of_small_jobs_that_leaves_no_rack_empty() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| pod(name, 2));
        world.submit(on(pod("theirs", 1), "a1"));
        world.submit(on(pod("others", 1), "b1"));
        stream.submit(&mut world, 2);
        submit_gang_for_a_rack(&mut world);
        // There is room for eight, but in no rack.
        assert_eq!(count(&world, 8, ""), 0);
        let (reason, why) = world.blocked("j");
        assert_eq!(reason, "InsufficientResources");
        assert!(why.contains("There is room for all of them, but in no one domain"), "{why}");
        assert!(why.contains("No end is known for ns/theirs"), "{why}");
        assert!(passed_by(&world, "j"), "{policy:?}");
        stream.go_on(&mut world, 290);
        assert_eq!((count(&world, 8, ""), held(&world, "j")), (0, None), "{policy:?}");
        stream.go_on(&mut world, 20);
        // The stream has been in the first rack.
        assert_eq!(held(&world, "j").as_deref(), Some("b[1-2]"), "{policy:?}");
        stream.go_on(&mut world, 60);
        assert_eq!(count(&world, 8, ""), 0);
        assert_eq!(held(&world, "j").as_deref(), Some("b[1-2]"), "{policy:?}");
        world.change("others", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert_eq!(count(&world, 8, "b"), 8, "{policy:?}");
    }
}

#[test]
fn what_is_held_for_a_gang_that_is_to_be_together_lies_in_one_rack() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        for (name, host) in [("s", "a1"), ("t", "b1"), ("u", "b2")] {
            world.submit(on(pod(name, 8), host));
        }
        world.submit(on(pod("v", 4), "a2"));
        submit_gang_for_a_rack(&mut world);
        world.pass_seconds(310);
        world.settle();
        // Of four hosts a2 and another one are enough for eight pods; those of a are in one rack.
        assert_eq!(
            held(&world, "j").as_deref(),
            Some("a[1-2]"),
            "{policy:?}: {:?}",
            world.blocked("j")
        );
        for name in ["s", "v"] {
            world.change(name, |pod| pod.phase = Phase::Succeeded);
        }
        world.settle();
        assert_eq!(count(&world, 8, "a"), 8, "{policy:?}");
    }
}

#[test]
fn a_gang_that_no_rack_could_ever_hold_keeps_nothing_from_others() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        world.submit(on(pod("busy", 1), "a1"));
        gang_of(&mut world, 9, 2, |pod| near(pod, "mpi", "rack"));
        world.pass_seconds(310);
        world.settle();
        assert_eq!((count(&world, 9, ""), held(&world, "j")), (0, None), "{policy:?}");
        world.submit(pod("small", 8));
        world.settle();
        assert!(world.node_of("small").is_some(), "{policy:?}");
    }
}

/// A pod of the same labels in this queue.
fn in_queue(pod: Pod, name: &str) -> Pod {
    let mut all = pod.labels.to_vec();
    all.extend(of_queue(pod.clone(), name).labels.iter().cloned());
    all.sort();
    Pod { labels: all.into(), ..pod }
}

/// What another queue holds is not where the gang lacks room.
#[test]
fn a_gang_that_may_not_be_where_room_is_does_not_wait_behind_one_who_holds_nodes_there() {
    for policy in ["easy", "hybrid", "conservative"] {
        let mut world = hosts(QueuePolicy::Easy);
        queue(&mut world, "first", &json!({"policy": policy, "priority": 5}));
        queue(&mut world, "second", &json!({"policy": policy}));
        world.submit(on(pod("long", 1), "a1"));
        let only_a1 = |constraints: &mut Constraints| {
            constraints.node_selector = vec![("host".into(), "a1".into())];
        };
        world.submit(of_queue(constrained(pod("whole", 8), only_a1), "first"));
        world.settle();
        world.pass_seconds(301);
        world.settle();
        assert_eq!(held(&world, "whole").as_deref(), Some("a1"), "{policy}");
        fill(&mut world, &["b1", "b2"]);
        gang_of(&mut world, 2, 4, |pod| in_queue(spread(pod, "mpi", "rack"), "second"));
        let (reason, why) = world.blocked("j");
        assert_eq!(reason, "InsufficientResources", "{policy}: {why}");
        assert!(why.contains("not where they may be together by what they ask"), "{policy}: {why}");
        assert!(passed_by(&world, "j"), "{policy}");
        let mut stream = Stream::of(|name| of_queue(pod(name, 8), "second"));
        stream.submit(&mut world, 2);
        free(&mut world, "b1");
        assert_eq!(world.node_of("s1"), Some("b1"), "{policy}: it is passed by");
        stream.go_on(&mut world, 400);
        assert_eq!((count(&world, 2, "a"), count(&world, 2, "b")), (1, 1), "{policy}");
        assert_eq!(world.node_of("whole"), None);
    }
}
