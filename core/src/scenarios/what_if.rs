//! What would come of it if something was submitted now: told before, and seen when it is
//! submitted.

use super::queues::{of_queue, queue};
use super::*;
use crate::{Answer, Later, QueuePolicy, Verdict};
use fluxqueue_api::BlockedReason;
use serde_json::json;

fn world(queue_policy: QueuePolicy, nodes: &[(&str, u64)]) -> World {
    World::told(CoreSettings { queue_policy, ..settings() }, FunctionTable::builtin(), nodes)
}

fn lasting(name: &str, cores: u64, seconds: u64) -> Pod {
    Pod { lifetime: Lifetime::Seconds(seconds), ..pod(name, cores) }
}

impl World {
    fn names_of(&self, which: impl Fn(&Pod) -> bool) -> Vec<String> {
        self.pods.values().filter(|pod| which(pod)).map(|pod| pod.id.key.name.to_string()).collect()
    }
}

/// What would come of these pods, each by itself, if they were submitted now.
fn ask(world: &mut World, pods: &[Pod]) -> Answer {
    let events = pods.iter().map(|pod| Event::Pod(Arc::new(pod.clone()))).collect();
    ask_of(world, events)
}

fn ask_of(world: &mut World, events: Vec<Event>) -> Answer {
    world.settle();
    // Pods that come at the same instant are in order of their names.
    world.now = world.now.plus_millis(1);
    let mut what_if =
        world.core.preview(world.now).expect("a copy").submit(events).expect("a copy of it");
    for _ in 0..10_000 {
        if !what_if.advance() {
            return what_if.answer();
        }
    }
    panic!("it does not end");
}

fn verdict(answer: &Answer) -> Verdict {
    assert_eq!(answer.submitted.len(), 1, "{answer:?}");
    answer.submitted[0].verdict
}

/// When the one that was submitted would start, all of it.
fn start(answer: &Answer) -> i64 {
    match verdict(answer) {
        Verdict::Starts { first, all } => {
            assert_eq!(Some(first), all);
            first.seconds()
        }
        other => panic!("{other:?}"),
    }
}

fn delays(answer: &Answer) -> Vec<(String, i64, Later)> {
    answer.delayed.iter().map(|it| (it.job.name.to_string(), it.from.seconds(), it.to)).collect()
}

/// The name of a workload's FluxJob.
fn record_of(world: &World, workload: &str) -> String {
    world.record(workload).metadata.name.clone().expect("a name")
}

#[test]
fn what_is_foretold_comes_when_it_is_submitted() {
    use QueuePolicy::{Conservative, Easy, Fcfs, Hybrid};
    for policy in [Fcfs, Easy, Hybrid, Conservative] {
        let mut world = world(policy, &[("n1", 4), ("n2", 4)]);
        for (name, cores, seconds) in
            [("r1", 4, 100), ("r2", 4, 300), ("w1", 4, 50), ("w2", 3, 80), ("w3", 4, 10)]
        {
            world.submit(lasting(name, cores, seconds));
            world.settle();
        }
        let new = lasting("new", 2, 40);
        let foretold = start(&ask(&mut world, std::slice::from_ref(&new)));
        let (bindings, records) = (world.bindings.len(), world.records.len());
        world.settle();
        assert_eq!(
            (world.bindings.len(), world.records.len()),
            (bindings, records),
            "asking changes nothing"
        );
        world.submit(new);
        // Everything goes as planned, second by second.
        while world.node_of("new").is_none() && world.now.seconds() < 3_000 {
            let now = Time::from_seconds(world.now.seconds());
            let is_over = |pod: &Pod| match (pod.started, pod.lifetime) {
                (Some(from), Lifetime::Seconds(seconds)) => {
                    from.plus_secs(seconds + pod.grace_secs) <= now
                }
                _ => false,
            };
            for name in world.names_of(|pod| pod.phase == Phase::Running && is_over(pod)) {
                world.change(&name, |pod| pod.phase = Phase::Succeeded);
            }
            world.settle();
            for name in world.names_of(|pod| pod.phase == Phase::Pending && pod.node.is_some()) {
                world.change(&name, |pod| (pod.phase, pod.started) = (Phase::Running, Some(now)));
            }
            world.settle();
            if world.node_of("new").is_none() {
                world.now = Time::from_seconds(world.now.seconds() + 1);
            }
        }
        let late = world.now.seconds() - foretold;
        assert!(
            (-1..=2).contains(&late),
            "{policy:?}: foretold {foretold}, came {}",
            world.now.seconds()
        );
    }
}

#[test]
fn whoever_fits_starts_at_once_and_delays_nobody() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    world.submit(lasting("runs", 2, 100));
    world.settle();
    let answer = ask(&mut world, &[lasting("new", 2, 50)]);
    assert_eq!(start(&answer), world.now.seconds());
    assert_eq!((answer.delayed, answer.looked_until), (vec![], None));
    assert_eq!(answer.submitted[0].blocked_by, []);
}

#[test]
fn one_of_higher_priority_delays_who_is_promised_a_start_and_says_by_how_much() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    for (name, seconds) in [("runs", 100), ("first", 50), ("second", 60)] {
        world.submit(lasting(name, 4, seconds));
        world.settle();
    }
    let behind = ask(&mut world, &[lasting("new", 4, 40)]);
    assert_eq!((start(&behind), behind.delayed.len()), (2_210, 0), "at its place it is the last");
    assert_eq!(behind.submitted[0].position, Some(3));
    let blocked = &behind.submitted[0].blocked_by[0];
    assert!(!blocked.message.is_empty(), "{blocked:?}");

    let urgent = Pod { priority: 5, ..lasting("new", 4, 40) };
    let answer = ask(&mut world, &[urgent]);
    assert_eq!((start(&answer), answer.submitted[0].position), (2_100, Some(1)));
    let at = |seconds| Later::At(Time::from_seconds(seconds));
    let (first, second) = (record_of(&world, "first"), record_of(&world, "second"));
    assert_eq!(delays(&answer), [(first, 2_100, at(2_140)), (second, 2_150, at(2_190))]);
    assert_eq!(answer.delayed.iter().map(|it| it.is_promised).collect::<Vec<_>>(), [true, false]);
    assert_eq!(answer.delayed[0].by_secs(), Some(40));
    // It was a question: no job was delayed.
    world.settle();
    assert_eq!(world.estimate("first"), Some((EstimateKind::Reserved, 2_100)));
    assert!(world.core.gauges().reservations_delayed.is_empty());
}

#[test]
fn a_service_takes_the_date_from_those_behind_it() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    for (name, seconds) in [("runs", 100), ("first", 50)] {
        world.submit(lasting(name, 4, seconds));
        world.settle();
    }
    let answer =
        ask(&mut world, &[Pod { priority: 5, lifetime: Lifetime::Endless, ..pod("web", 4) }]);
    assert_eq!(start(&answer), 2_100);
    assert_eq!(delays(&answer), [(record_of(&world, "first"), 2_100, Later::NoDate)]);
}

#[test]
fn a_gang_is_foretold_as_one_and_in_its_queue_with_its_limits() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4), ("b", 4)]);
    queue(&mut world, "lab", &json!({"limits": {"runningJobs": 1}}));
    world.submit(of_queue(lasting("runs", 1, 100), "lab"));
    world.settle();
    let made_by = Controller { queue: Some(Arc::from("lab")), ..job("j", 2, 2) };
    let pods = ["p0", "p1"].map(|name| Event::Pod(Arc::new(of_job(lasting(name, 2, 30), "j"))));
    let answer = ask_of(
        &mut world,
        [Event::Controller(Arc::new(made_by))].into_iter().chain(pods).collect(),
    );
    assert_eq!(start(&answer), 2_100, "there is room, but the queue has as much as it may have");
    assert_eq!(answer.submitted[0].queue, "lab");
    let blocked = &answer.submitted[0].blocked_by[0];
    assert_eq!(blocked.reason, BlockedReason::QueueLimit);
    assert!(blocked.message.contains("1 of 1 running jobs used"), "{}", blocked.message);
}

#[test]
fn what_would_be_refused_says_so_as_the_scheduler_does() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    let unsupported =
        Unsupported { field: "spec.resourceClaims".to_owned(), message: "not honoured".to_owned() };
    let pods = [
        Pod { unsupported: vec![unsupported], ..pod("claims", 1) },
        of_queue(pod("lost", 1), "nowhere"),
        pod("vast", 400),
    ];
    let expected = [
        (
            Verdict::KeptOut(JobState::Refused),
            BlockedReason::UnsupportedConstraint,
            "spec.resourceClaims",
        ),
        (
            Verdict::KeptOut(JobState::Refused),
            BlockedReason::QueueNotUsable,
            "there is no FluxQueue nowhere",
        ),
        (Verdict::NoDate, BlockedReason::Unsatisfiable, "0/1 nodes are available"),
    ];
    for (pod, (verdict, reason, text)) in pods.into_iter().zip(expected) {
        let (name, answer) =
            (pod.id.key.name.to_string(), ask(&mut world, std::slice::from_ref(&pod)));
        let submitted = &answer.submitted[0];
        let blocked = submitted.blocked_by[0].clone();
        assert_eq!((submitted.verdict, blocked.reason), (verdict, reason));
        assert!(blocked.message.contains(text), "{}", blocked.message);
        world.submit(pod);
        world.settle();
        assert_eq!(world.blockers(&name), submitted.blocked_by, "the same when it is submitted");
    }
}

#[test]
fn who_is_asked_to_stop_early_says_how_far_he_has_looked() {
    let mut world = world(QueuePolicy::Fcfs, &[("a", 4)]);
    for (name, seconds) in [("runs", 100), ("w1", 50), ("w2", 60), ("w3", 70)] {
        world.submit(lasting(name, 4, seconds));
        world.settle();
    }
    let new = Event::Pod(Arc::new(Pod { priority: 5, ..lasting("new", 4, 1_000) }));
    let mut what_if = world
        .core
        .preview(world.now)
        .expect("a copy")
        .submit(vec![new.clone()])
        .expect("a copy of it");
    // The end of what runs, with it and without it.
    for _ in 0..2 {
        assert!(what_if.advance());
    }
    let answer = what_if.answer();
    assert_eq!(answer.looked_until, Some(Time::from_seconds(2_100)));
    assert_eq!(start(&answer), 2_100);
    let at = Time::from_seconds(2_100);
    assert_eq!(delays(&answer), [(record_of(&world, "w1"), 2_100, Later::NotBy(at))]);

    let last = Event::Pod(Arc::new(lasting("last", 4, 10)));
    world.now = world.now.plus_millis(1);
    let mut what_if =
        world.core.preview(world.now).expect("a copy").submit(vec![last]).expect("a copy of it");
    assert!(what_if.advance());
    assert_eq!(verdict(&what_if.answer()), Verdict::NotBy(Time::from_seconds(2_100)));
}

#[test]
fn it_is_asked_as_of_now_however_long_nothing_has_happened() {
    let mut world = world(QueuePolicy::Easy, &[("a", 4)]);
    world.settle();
    world.pass_seconds(3_600);
    let preview = world.core.preview(world.now).expect("a copy");
    assert_eq!(preview.as_of(), world.now);
    let mut what_if =
        preview.submit(vec![Event::Pod(Arc::new(pod("new", 1)))]).expect("a copy of it");
    assert_eq!(start(&what_if.answer()), world.now.seconds());
}

#[test]
fn there_is_no_answer_without_a_picture_of_the_cluster() {
    let mut core = Core::new(settings(), FunctionTable::builtin(), 1).expect("a core");
    assert!(core.preview(Time(0)).is_none());
}
