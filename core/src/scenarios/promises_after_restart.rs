//! Promises to waiting requests, and nodes held for them, stand after a restart.

use super::promises::{lasting, reserved, starts};
use super::restarts::{of_set, replica_set, writes_after_restart};
use super::*;
use crate::QueuePolicy;

#[test]
fn what_is_promised_on_fewer_of_its_nodes_by_a_new_process_is_not_said_before_somebody_takes_the_others()
 {
    let nodes = [("n1", 4), ("n2", 4), ("n3", 4)];
    let easy = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &nodes);
    for (name, cores, seconds) in [("a", 4, 100), ("b", 3, 1000), ("c", 3, 1000)] {
        assert!(starts(&mut world, lasting(name, cores, seconds)), "{name}");
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    let gang = job("j", 6, 6);
    world.tell(Event::Controller(Arc::new(gang.clone())));
    let members = ["p0", "p1", "p2", "p3", "p4", "p5"];
    for name in members {
        world.submit(of_job(lasting(name, 1, 60), "j"));
    }
    world.settle();
    let promised = Some((Some(2100), "n[1-3]".to_owned()));
    assert_eq!(reserved(&world, "j"), promised);
    world.pass_seconds(10);
    world.change("b", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    for _ in 0..15 {
        world.pass_seconds(1);
        world.settle();
    }
    world.show_conditions(&members);
    // An earlier process has not come to look at it again.
    let written =
        world.record_mut("j").status.as_mut().and_then(|status| status.reservation.as_mut());
    written.expect("it is promised a start").nodes = "n[1-3]".to_owned();
    let writes = writes_after_restart(&mut world, &nodes, &[gang]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(reserved(&world, "j"), promised);
    for name in ["long0", "long1", "long2"] {
        assert!(starts(&mut world, lasting(name, 1, 1000)), "{name}");
    }
    assert_eq!(world.node_of("long2"), Some("n3"), "it takes what the promise does not need");
    assert_eq!(reserved(&world, "j"), Some((Some(2100), "n[1-2]".to_owned())), "and that is said");
}

#[test]
fn nodes_that_are_held_for_another_pod_than_the_first_of_its_job_are_on_record_and_held_by_the_next_process()
 {
    let nodes = [("n1", 4), ("n2", 4)];
    let easy = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &nodes);
    for name in ["busy1", "busy2"] {
        assert!(starts(&mut world, pod(name, 4)));
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    let set = replica_set();
    world.tell(Event::Controller(Arc::new(set.clone())));
    // The first never fits, and the second waits for work without a known end.
    world.submit(of_set("s0", 9, 1001));
    world.submit(of_set("s1", 4, 1002));
    world.settle();
    for _ in 0..40 {
        world.pass_seconds(10);
        world.settle();
    }
    let held = reserved(&world, "rs").expect("nodes are held");
    assert_eq!(held.0, None, "nobody knows until when");
    world.show_conditions(&["s0", "s1"]);
    let writes = writes_after_restart(&mut world, &nodes, &[set]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(reserved(&world, "rs"), Some(held));
}

#[test]
fn what_is_said_goes_by_what_is_so_once_nothing_has_happened_for_a_while() {
    let nodes = [("a", 4), ("b", 4)];
    let mut world = World::new(&nodes);
    for service in [pod("s", 3), pod("t", 3)] {
        world.submit(Pod { lifetime: Lifetime::Endless, ..service });
        world.settle();
    }
    world.submit(pod("u", 1));
    world.settle();
    world.submit_gang(2);
    world.settle();
    assert!(world.blocked("j").1.contains("ask for 4 cpu, 1 free"), "{:?}", world.blocked("j"));
    let ended = Some(world.now);
    world.change("u", |pod| (pod.phase, pod.ended) = (Phase::Succeeded, ended));
    world.settle();
    // None of its pods fits on the free cores now, so it is not tried for these.
    assert!(world.blocked("j").1.contains("1 free"), "{:?}", world.blocked("j"));
    for _ in 0..40 {
        world.pass_seconds(1);
        world.settle();
    }
    assert!(world.blocked("j").1.contains("ask for 4 cpu, 2 free"), "{:?}", world.blocked("j"));
    assert!(world.conditions["p0"].message.contains("2 free"), "{:?}", world.conditions["p0"]);
    let passes = world.core.gauges().passes;
    for _ in 0..120 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(world.core.gauges().passes, passes, "once is enough");
}

#[test]
fn a_promise_stays_on_its_node_though_the_next_process_sees_another_one_first() {
    let easy = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &[("a", 4), ("b", 4)]);
    for name in ["r1", "r2"] {
        assert!(starts(&mut world, lasting(name, 4, 100)), "{name}");
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    world.submit(lasting("waits", 4, 50));
    world.settle();
    let promised = Some((Some(2100), "a".to_owned()));
    assert_eq!(reserved(&world, "waits"), promised);
    world.pass_seconds(20);
    world.settle();
    world.show_conditions(&["waits"]);
    let writes = writes_after_restart(&mut world, &[("b", 4), ("a", 4)], &[]);
    assert!(writes.is_empty(), "{writes:#?}");
    // It is for the earliest second all the same.
    world.change("r2", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("waits"), Some("b"));
}

#[test]
fn nodes_stay_held_for_a_pod_though_the_next_process_promises_a_start_to_another_one_of_its_job() {
    let nodes = [("n1", 8), ("n2", 8)];
    let easy = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(easy, FunctionTable::builtin(), &nodes);
    for runs in [lasting("lasts", 8, 5000), pod("stays", 4)] {
        let name = runs.id.key.name.to_string();
        assert!(starts(&mut world, runs));
        let started = Some(world.now);
        world.change(&name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    let set = replica_set();
    world.tell(Event::Controller(Arc::new(set.clone())));
    // The second comes first, and is promised a start; the first, of the same class, is passed by.
    let shape = Arc::clone(&pod("s", 6).shape);
    for (name, created) in [("s1", 1002), ("s0", 1001)] {
        let shape = Arc::clone(&shape);
        world.submit(Pod { lifetime: Lifetime::Endless, shape, ..of_set(name, 6, created) });
        world.settle();
    }
    for _ in 0..40 {
        world.pass_seconds(10);
        // As long as something happens, a promise that is not on record is not made again.
        world.core.agenda.queue_changed = true;
        world.settle();
    }
    let held = Some((None, "n2".to_owned()));
    assert_eq!(reserved(&world, "rs"), held);
    for _ in 0..40 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(reserved(&world, "rs"), held, "for whichever of its pods");
    world.show_conditions(&["s0", "s1"]);
    let writes = writes_after_restart(&mut world, &nodes, &[set]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(reserved(&world, "rs"), held);
    let small = Pod { lifetime: Lifetime::Endless, ..pod("small", 2) };
    assert!(!starts(&mut world, small), "there is room on n2, which is held");
}

#[test]
fn a_promise_behind_pods_that_are_ended_at_a_deadline_does_not_move_with_every_second() {
    let nodes = [("a", 4)];
    let conservative = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
    let mut world = World::told(conservative, FunctionTable::builtin(), &nodes);
    assert!(starts(&mut world, lasting("runs", 4, 100)));
    let started = Some(world.now);
    world.change("runs", |pod| (pod.phase, pod.started) = (Phase::Running, started));
    // It ends a thousand seconds from now at the latest.
    let ends = Controller {
        deadline: Some(Time::from_seconds(3000)),
        deadline_secs: Some(1000),
        ..job("j", 1, 1)
    };
    world.tell(Event::Controller(Arc::new(ends.clone())));
    world.submit(Pod { created: world.now, ..of_job(pod("p0", 4), "j") });
    world.settle();
    world.submit(Pod { created: world.now, ..lasting("waits", 4, 50) });
    world.settle();
    let promised =
        [("j", 2100), ("waits", 3100)].map(|(name, at)| (name, Some((Some(at), "a".to_owned()))));
    for (name, start) in promised.clone() {
        assert_eq!(reserved(&world, name), start, "{name}");
    }
    for _ in 0..4 {
        world.pass_seconds(10);
        world.settle();
    }
    world.show_conditions(&["p0", "waits"]);
    let writes = writes_after_restart(&mut world, &nodes, &[ends]);
    assert!(writes.is_empty(), "{writes:#?}");
    for (name, start) in promised {
        assert_eq!(reserved(&world, name), start, "{name}");
    }
    // No more than it has is planned for once it runs.
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("p0"), Some("a"));
    let started = Some(world.now);
    world.change("p0", |pod| (pod.phase, pod.started) = (Phase::Running, started));
    world.look_ahead();
    assert_eq!(reserved(&world, "waits"), Some((Some(3000), "a".to_owned())));
}

/// Two run on the node until 3000 and 4000, and `first` waits for both. Before it, when one has
/// ended, there is time for a pod of a Deployment, which is promised nothing on record. Then the
/// other is to end at 3020.
fn behind_who_is_not_on_record() -> (World, Controller) {
    let settings = CoreSettings { queue_policy: QueuePolicy::Conservative, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &[("a", 4)]);
    for (name, seconds) in [("one", 1000), ("other", 2000)] {
        assert!(starts(&mut world, lasting(name, 2, seconds)));
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    assert!(!starts(&mut world, lasting("first", 4, 60)));
    let service = Controller { kind: OwnerKind::Deployment, ..job("service", 1, 1) };
    world.tell(Event::Controller(Arc::new(service.clone())));
    let mut of_service =
        Pod { created: world.now.plus_secs(1), ..of_job(lasting("s0", 2, 40), "service") };
    of_service.owner.as_mut().expect("an owner").kind = OwnerKind::Deployment;
    assert!(!starts(&mut world, of_service));
    world.edit("other", |spec| spec.overrides.walltime_seconds = Some(1020));
    world.settle();
    world.pass_seconds(6);
    world.settle();
    (world, service)
}

#[test]
fn what_is_not_on_record_keeps_nothing_from_who_is_promised_something_after_a_restart() {
    let (mut world, service) = behind_who_is_not_on_record();
    assert_eq!(
        reserved(&world, "first"),
        Some((Some(3040), "a".to_owned())),
        "the pod of the Deployment was there first"
    );
    for _ in 0..40 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!(
        reserved(&world, "first"),
        Some((Some(3020), "a".to_owned())),
        "as a new process finds it"
    );
    assert!(
        !world.notes.contains(&"ReservationDelayed".to_owned()),
        "nobody was promised what is later now"
    );
    world.show_conditions(&["first", "s0"]);
    world.settle();
    let before = world.records.clone();
    let writes = writes_after_restart(&mut world, &[("a", 4)], &[service]);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(world.records, before);
}

#[test]
fn what_is_not_on_record_is_made_anew_until_that_changes_nothing_and_no_longer() {
    let (mut world, _) = behind_who_is_not_on_record();
    // The first review moves the recorded promise, the second finds it as the first has left it.
    let mut at = Vec::new();
    let mut passes = world.core.gauges().passes;
    while world.now.seconds() < 2400 {
        world.pass_seconds(1);
        world.settle();
        let walked = world.core.gauges().passes;
        if walked > passes {
            at.push(world.now.seconds());
        }
        passes = walked;
    }
    assert!(at.last().is_some_and(|last| *last < 2200), "it walks on and on: {at:?}");
}
