//! Limits of queues: what runs at once, and what waits.

use super::queues::{backfilling, of_queue, queue, read, settle_all, start_of, timed};
use super::*;
use crate::QueuePolicy;
use serde_json::json;

#[test]
fn a_job_at_a_limit_says_so_with_numbers_and_is_not_called_unschedulable() {
    let mut world = backfilling(&[("a", 8)]);
    queue(&mut world, "gpu", &json!({"limits": {"resources": {"cpu": 4}}}));
    world.submit(timed("runs", 3, "gpu", 100));
    world.settle();
    world.submit(timed("waits", 2, "gpu", 50));
    world.submit(timed("small", 1, "gpu", 101));
    world.submit(timed("other", 2, "default", 50));
    settle_all(&mut world);
    let (reason, text) = world.blocked("waits");
    let expected = "2 cpu asked for, 4 of 4 used: spec.limits.resources[cpu] of FluxQueue gpu.";
    assert_eq!((&*reason, &*text), ("QueueLimit", expected));
    assert_eq!(world.conditions["waits"].reason, "QueueLimit");
    assert_eq!(start_of(&world, "waits"), Some(2100), "its promise heeds the limit");
    assert_eq!(
        world.node_of("small"),
        Some("a"),
        "it leaves room for what was promised, also over time"
    );
    assert_eq!(world.node_of("other"), Some("a"), "it is a limit of the queue, and of no other");
    let status = &world.queues["gpu"];
    assert_eq!(
        (status.display_usage.as_deref(), status.display_limits.as_deref()),
        (Some("4/4 cpu"), Some("4 cpu"))
    );
    world.submit(timed("vast", 5, "gpu", 50));
    world.settle();
    assert!(world.blocked("vast").1.contains("more than the limit"), "{:?}", world.blocked("vast"));
    // Metrics say the same, and how long the first of those that wait has waited.
    world.pass_seconds(60);
    world.settle();
    let all = world.core.gauges().waits.now;
    let names: Vec<_> = all.iter().map(|it| &*it.queue).collect();
    assert_eq!(names, ["gpu", "default"]);
    assert_eq!((all[0].waiting, all[0].running), (2, 2));
    assert_eq!(all[0].limits, [(Arc::from("cpu"), 4_000)]);
    assert_eq!(
        (all[0].used.get("cpu"), all[0].running_max, all[0].waiting_max),
        (4_000, None, None)
    );
    assert!(all[0].oldest_wait_micros >= 60_000_000, "{}", all[0].oldest_wait_micros);
    assert_eq!((all[1].waiting, all[1].running, all[1].oldest_wait_micros), (0, 1, 0));
}

#[test]
fn a_promised_start_is_no_reason_to_be_at_a_limit_after_a_restart() {
    let nodes = [("a", 4)];
    let mut world = backfilling(&nodes);
    let limits = json!({"limits": {"resources": {"cpu": 4}}});
    queue(&mut world, "gpu", &limits);
    world.submit(timed("runs", 4, "default", 100));
    world.settle();
    world.submit(timed("waits", 3, "gpu", 300));
    world.settle();
    assert_eq!(start_of(&world, "waits"), Some(2100));
    assert_eq!(world.blocked("waits").0, "InsufficientResources");
    world.restart();
    world.tell(Event::Queue(Arc::new(read("gpu", &limits))));
    world.list(&nodes, &[]);
    world.settle();
    assert_eq!(start_of(&world, "waits"), Some(2100));
    assert_eq!(world.blocked("waits").0, "InsufficientResources");
}

#[test]
fn a_job_that_exceeds_one_of_two_limits_says_so_of_that_one_alone() {
    let mut world = backfilling(&[("a", 8)]);
    queue(&mut world, "gpu", &json!({"limits": {"runningJobs": 1, "resources": {"cpu": 4}}}));
    world.submit(timed("runs", 1, "gpu", 100));
    world.settle();
    world.submit(timed("vast", 5, "gpu", 50));
    world.settle();
    let status = world.record("vast").status.as_ref().expect("it waits");
    let messages: Vec<&str> = status.blocked_by.iter().map(|it| &*it.message).collect();
    let exceeded = "5 cpu asked for, 1 of 4 used: spec.limits.resources[cpu] of FluxQueue gpu. \
                    It asks for more than the limit, so later jobs are not held back.";
    let reached = "1 of 1 running jobs used: spec.limits.runningJobs of FluxQueue gpu.";
    assert_eq!(messages, [exceeded, reached]);
}

#[test]
fn nobody_overtakes_himself_within_a_limit_for_ever() {
    let mut world = backfilling(&[("a", 8)]);
    queue(&mut world, "gpu", &json!({"limits": {"resources": {"cpu": 4}}}));
    world.submit(timed("runs", 2, "gpu", 100));
    world.settle();
    world.submit(timed("large", 4, "gpu", 50));
    world.settle();
    assert_eq!(start_of(&world, "large"), Some(2100));
    // There is room for them within the limit now, but the promise would not fit then.
    world.submit(timed("long", 2, "gpu", 101));
    world.submit(timed("short", 2, "gpu", 100));
    world.settle();
    assert_eq!((world.node_of("long"), world.node_of("short")), (None, Some("a")));
    // It ends early: the promise moves, but not to where the other still runs.
    world.pass_seconds(10);
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(start_of(&world, "large"), Some(2100));
    world.change("short", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("large"), world.node_of("long")), (Some("a"), None));
}

#[test]
fn who_waits_for_a_limit_that_nobody_knows_the_end_of_is_passed_by_for_so_long_only() {
    let mut world = backfilling(&[("a", 8)]);
    queue(&mut world, "gpu", &json!({"bypassSeconds": 60, "limits": {"resources": {"cpu": 4}}}));
    world.submit(of_queue(pod("runs", 2), "gpu"));
    world.settle();
    world.submit(timed("large", 4, "gpu", 50));
    world.submit(timed("first", 2, "gpu", 10));
    world.settle();
    assert_eq!(
        (world.node_of("large"), world.node_of("first")),
        (None, Some("a")),
        "it is passed by"
    );
    world.pass_seconds(61);
    world.change("first", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    world.submit(timed("second", 2, "gpu", 10));
    world.submit(timed("other", 4, "default", 10));
    world.settle();
    assert_eq!(
        world.node_of("second"),
        None,
        "the room that is left within the limit is kept for it"
    );
    assert_eq!(world.node_of("other"), Some("a"), "and no nodes are");
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("large"), Some("a"));
}

/// Two nodes of different models, of one of which a queue may use two cores.
fn with_a_limited_model() -> World {
    let mut world = backfilling(&[]);
    for name in ["v100", "a100"] {
        let labels = vec![(Arc::from("model"), Arc::from(name))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 4)) })));
    }
    let limits = json!({"nodes": [{"nodeSelector": {"model": "a100"}, "resources": {"cpu": "2"}}]});
    queue(&mut world, "gpu", &json!({ "limits": limits }));
    world
}

#[test]
fn a_limit_on_some_nodes_leaves_the_others() {
    let mut world = with_a_limited_model();
    let on = |world: &World, node: &str| {
        world.pods.values().filter(|pod| pod.node.as_deref() == Some(node)).count()
    };
    for number in 0..7 {
        world.submit(timed(&format!("p{number}"), 1, "gpu", 100));
    }
    world.settle();
    assert_eq!((on(&world, "a100"), on(&world, "v100")), (2, 4));
    let waits: Vec<String> =
        (0..7).map(|n| format!("p{n}")).filter(|name| world.node_of(name).is_none()).collect();
    assert_eq!(world.blocked(&waits[0]).0, "QueueLimit");
    world.submit(timed("other", 2, "default", 100));
    world.settle();
    assert_eq!(world.node_of("other"), Some("a100"));
}

#[test]
fn a_job_that_exceeds_the_limit_on_some_nodes_is_promised_others() {
    let mut world = with_a_limited_model();
    for (name, queue) in [("one", "gpu"), ("two", "default")] {
        world.submit(timed(name, 3, queue, 100));
        world.settle();
    }
    assert_eq!((world.node_of("one"), world.node_of("two")), (Some("v100"), Some("a100")));
    world.submit(timed("waits", 3, "gpu", 50));
    world.settle();
    assert_eq!(start_of(&world, "waits"), Some(2100));
    let text = world.blocked("waits").1;
    assert!(!text.contains("more than the limit"), "{text}");
}

#[test]
fn jobs_are_limited_in_all_and_of_each_namespace() {
    let mut world = backfilling(&[("a", 8)]);
    queue(
        &mut world,
        "gpu",
        &json!({"limits": {"runningJobs": 3, "perNamespace": {"runningJobs": 2}}}),
    );
    let of = |name: &str, namespace: &str| {
        let mut pod = timed(name, 1, "gpu", 100);
        pod.id.key = ObjectKey::new(namespace, name);
        pod
    };
    for (name, namespace) in [("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b"), ("b1", "b")] {
        world.submit(of(name, namespace));
        world.settle();
    }
    let started =
        |world: &World| ["a0", "a1", "a2", "b0", "b1"].map(|name| world.node_of(name).is_some());
    assert_eq!(started(&world), [true, true, false, true, false]);
    let text = world.blocked("a2").1;
    assert!(
        text.contains("2 of 2 running jobs used by namespace a: spec.limits.perNamespace"),
        "{text}"
    );
    assert!(
        world.blocked("b1").1.contains("3 of 3 running jobs used: spec.limits.runningJobs"),
        "{:?}",
        world.blocked("b1")
    );
    world.change("b0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(
        started(&world),
        [true, true, false, true, true],
        "a2 is at the limit of its namespace still"
    );
}

#[test]
fn a_gang_is_one_job_whose_pods_count_until_its_slots_are_given_back() {
    let mut world = backfilling(&[("a", 8)]);
    queue(&mut world, "gpu", &json!({"limits": {"runningJobs": 1, "resources": {"cpu": 2}}}));
    world.tell(Event::Controller(Arc::new(Controller {
        queue: Some(Arc::from("gpu")),
        ..job("j", 2, 2)
    })));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    world.submit(of_queue(pod("waits", 1), "gpu"));
    world.settle();
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("waits"), None, "one of its pods runs");
    world.change("p1", |pod| pod.phase = Phase::Succeeded);
    world.tell(Event::Controller(Arc::new(succeeded_job("j", 2))));
    world.settle();
    assert_eq!(world.node_of("waits"), Some("a"));
}

#[test]
fn who_comes_to_a_full_queue_waits_outside_and_comes_in_by_turns() {
    let nodes = [("a", 1)];
    let mut world = World::new(&nodes);
    queue(&mut world, "gpu", &json!({"limits": {"waitingJobs": 1}}));
    world.submit(pod("runs", 1));
    world.settle();
    for name in ["p0", "p1", "p2"] {
        world.submit(of_queue(pod(name, 1), "gpu"));
        world.settle();
    }
    assert_eq!(world.state("p0"), Some(JobState::Pending));
    let (reason, text) = world.blocked("p1");
    assert_eq!(reason, "QueueFull");
    assert!(
        text.contains("1 jobs wait, as many as may: spec.limits.waitingJobs of FluxQueue gpu"),
        "{text}"
    );
    let place = |world: &World, name: &str| {
        world.record(name).status.as_ref().and_then(|status| status.queued_at.clone())
    };
    assert_eq!(place(&world, "p1"), None, "it has no place");
    world.restart();
    world.tell(Event::Queue(Arc::new(read("gpu", &json!({"limits": {"waitingJobs": 1}})))));
    world.list(&nodes, &[]);
    world.settle();
    assert_eq!(
        (world.blocked("p1").0, place(&world, "p0").is_some()),
        ("QueueFull".to_owned(), true)
    );
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("p0"), Some("a"));
    assert_eq!(
        (world.blocked("p2").0, place(&world, "p1").is_some()),
        ("QueueFull".to_owned(), true)
    );
}

#[test]
fn a_job_that_comes_in_from_outside_a_full_queue_goes_around_what_was_promised_meanwhile() {
    let mut world = backfilling(&[("a", 4)]);
    queue(&mut world, "gpu", &json!({"limits": {"waitingJobs": 1}}));
    world.submit(timed("runs", 4, "default", 100));
    world.settle();
    for (name, seconds) in [("first", 10), ("outside", 300)] {
        world.submit(Pod { priority: 9, ..timed(name, 4, "gpu", seconds) });
        world.settle();
    }
    world.submit(timed("low", 4, "default", 60));
    world.settle();
    assert_eq!(world.blocked("outside").0, "QueueFull");
    let promised = start_of(&world, "low").expect("it is promised a start");
    world.pass_seconds(50);
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("first"), world.node_of("outside")), (Some("a"), None));
    assert_eq!(
        start_of(&world, "low"),
        Some(promised - 50),
        "it is earlier, and not behind the other one"
    );
    assert_eq!(start_of(&world, "outside"), Some(promised + 10));
    assert!(world.core.gauges().reservations_delayed.is_empty());
}

#[test]
fn a_limit_that_is_lowered_breaks_a_promise_and_that_is_said() {
    let mut world = backfilling(&[("a", 4)]);
    queue(&mut world, "gpu", &json!({"limits": {"resources": {"cpu": 4}}}));
    world.submit(timed("one", 2, "gpu", 100));
    world.submit(timed("two", 2, "gpu", 200));
    world.settle();
    world.submit(timed("waits", 2, "gpu", 50));
    world.settle();
    assert_eq!(start_of(&world, "waits"), Some(2100));
    queue(&mut world, "gpu", &json!({"limits": {"resources": {"cpu": 2}}}));
    world.settle();
    assert_eq!(start_of(&world, "waits"), Some(2200));
    assert_eq!(world.core.gauges().reservations_delayed.get("edit"), Some(&1));
    queue(&mut world, "gpu", &json!({"limits": {"resources": {"cpu": 1}}}));
    world.settle();
    assert_eq!(
        (start_of(&world, "waits"), world.blocked("waits").0),
        (None, "QueueLimit".to_owned())
    );
}

#[test]
fn a_promise_that_a_limit_delays_says_who_outlived_his_walltime_though_he_is_on_other_nodes() {
    let settings = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &[("a", 1), ("b", 4)]);
    queue(&mut world, "lab", &json!({"limits": {"runningJobs": 1}}));
    let lasting = |name: &str, cores, seconds| {
        of_queue(Pod { lifetime: Lifetime::Seconds(seconds), ..pod(name, cores) }, "lab")
    };
    world.submit(lasting("runs", 1, 100));
    world.settle();
    let started = world.now;
    world.change("runs", |pod| (pod.phase, pod.started) = (Phase::Running, Some(started)));
    world.submit(lasting("waits", 4, 50));
    world.settle();
    assert_eq!(
        (world.node_of("runs"), world.estimate("waits").map(|(kind, _)| kind)),
        (Some("a"), Some(EstimateKind::Reserved))
    );
    for _ in 0..10 {
        world.settle();
        world.now = Time::from_seconds(world.now.seconds().max(2_129) + 1);
    }
    let delayed: Vec<&String> = world
        .texts
        .iter()
        .filter(|text| text.contains("later than promised") || text.contains("at an unknown time"))
        .collect();
    assert!(!delayed.is_empty(), "{:?}", world.texts);
    for text in delayed {
        assert!(
            text.starts_with("walltime: ")
                && text.contains("ns/runs-pod-")
                && text.contains("outlived"),
            "{text}"
        );
    }
    let causes: Vec<&str> = world.core.gauges().reservations_delayed.into_keys().collect();
    assert_eq!(causes, ["walltime"]);
}
