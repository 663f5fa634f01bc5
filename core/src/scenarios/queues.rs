//! Queues: which one a job is in, and what that lets it do.

use super::*;
use crate::QueuePolicy;
use fluxqueue_api::Overrides;
use fluxqueue_api::names;
use fluxqueue_planner::queues::{Namespace, QueueObject};
use serde_json::json;

/// A FluxQueue of this spec.
fn read(name: &str, spec: &serde_json::Value) -> QueueObject {
    let object = json!({
        "apiVersion": "jobs.converged-computing.org/v1alpha1", "kind": "FluxQueue",
        "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": spec,
    });
    QueueObject::from_api(&serde_json::from_value(object).expect("a FluxQueue")).expect("a queue")
}

/// It is there.
pub(super) fn queue(world: &mut World, name: &str, spec: &serde_json::Value) {
    world.tell(Event::Queue(Arc::new(read(name, spec))));
}

/// It has this status.
pub(super) fn with_status(name: &str, status: FluxQueueStatus) -> Event {
    Event::Queue(Arc::new(QueueObject { status, ..read(name, &json!({})) }))
}

fn gone(world: &mut World, name: &str) {
    world.tell(Event::QueueGone(Arc::from(name)));
}

/// The namespace of all jobs has this label and default queue.
fn namespace(world: &mut World, team: &str, queue: Option<&str>) {
    let labels = [(Arc::from("team"), Arc::from(team))].into_iter().collect();
    let namespace = Namespace {
        name: Arc::from("ns"),
        uid: Uid::from("ns"),
        labels,
        queue: queue.map(Arc::from),
        paused: None,
    };
    world.tell(Event::Namespace(Arc::new(namespace)));
}

pub(super) fn of_queue(mut pod: Pod, queue: &str) -> Pod {
    pod.labels = [(Arc::from(names::QUEUE_NAME), Arc::from(queue))].into_iter().collect();
    pod
}

fn queue_of(world: &World, workload: &str) -> String {
    world
        .record(workload)
        .status
        .as_ref()
        .and_then(|status| status.queue_name.clone())
        .expect("a queue")
}

fn counts(world: &World, queue: &str) -> (i32, i32) {
    let status = &world.queues[queue];
    (status.waiting, status.running)
}

/// Settles, including work that is done a moment later, such as the status of queues.
fn settle_all(world: &mut World) {
    world.settle();
    world.pass_seconds(3);
    world.settle();
}

#[test]
fn a_job_without_pods_does_not_count_as_waiting() {
    let mut world = World::new(&[("a", 1)]);
    queue(&mut world, "gpu", &json!({}));
    let by_object = Controller { queue: Some(Arc::from("gpu")), ..job("j", 1, 1) };
    world.tell(Event::Controller(Arc::new(by_object.clone())));
    world.submit(of_job(pod("p", 8), "j"));
    settle_all(&mut world);
    assert_eq!(counts(&world, "gpu"), (1, 0));
    // Its Job is suspended, which removes the pod.
    world.tell(Event::Controller(Arc::new(Controller {
        wants: 0,
        can_start_together: 0,
        ..by_object
    })));
    world.delete("p");
    settle_all(&mut world);
    assert_eq!(counts(&world, "gpu"), (0, 0));
}

#[test]
fn a_job_is_in_the_queue_that_it_names_or_its_namespace_or_the_default() {
    let mut world = World::new(&[("a", 1)]);
    for name in ["gpu", "lab"] {
        queue(&mut world, name, &json!({}));
    }
    world.submit(pod("first", 8));
    world.submit(of_queue(pod("named", 8), "gpu"));
    let by_object = Controller { queue: Some(Arc::from("gpu")), ..job("j", 1, 1) };
    world.tell(Event::Controller(Arc::new(by_object)));
    world.submit(of_job(pod("p", 8), "j"));
    world.settle();
    assert_eq!(["first", "named", "j"].map(|job| queue_of(&world, job)), ["default", "gpu", "gpu"]);
    namespace(&mut world, "physics", Some("lab"));
    world.settle();
    assert_eq!(["first", "named", "j"].map(|job| queue_of(&world, job)), ["lab", "gpu", "gpu"]);
    world.edit("j", |spec| spec.overrides.queue_name = Some("default".to_owned()));
    world.settle();
    assert_eq!(queue_of(&world, "j"), "default");
    let said = world
        .record("j")
        .status
        .as_ref()
        .and_then(|status| status.workload.clone())
        .expect("observed");
    assert_eq!(said.queue_name.as_deref(), Some("gpu"), "what the workload says stays");
}

#[test]
fn a_queue_that_is_not_there_or_not_for_the_namespace_refuses() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_queue(pod("p", 1), "gpu"));
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Refused));
    assert_eq!(
        world.blocked("p"),
        ("QueueNotUsable".to_owned(), "there is no FluxQueue gpu".to_owned())
    );
    assert_eq!(world.conditions["p"].reason, "SchedulerError", "more nodes would not help");
    namespace(&mut world, "physics", None);
    queue(&mut world, "gpu", &json!({"namespaceSelector": {"matchLabels": {"team": "chemistry"}}}));
    world.settle();
    let (reason, text) = world.blocked("p");
    assert_eq!(
        (&*reason, text.contains("not for namespace ns")),
        ("QueueNotUsable", true),
        "{text}"
    );
    namespace(&mut world, "chemistry", None);
    world.settle();
    assert_eq!(world.node_of("p"), Some("a"));
}

#[test]
fn a_stopped_queue_holds_who_waits_and_lets_go_on_what_runs() {
    let mut world = World::new(&[("a", 1), ("b", 1)]);
    queue(&mut world, "gpu", &json!({}));
    world.submit(of_queue(pod("runs", 1), "gpu"));
    world.settle();
    queue(&mut world, "gpu", &json!({"stopPolicy": "Hold"}));
    world.submit(of_queue(pod("waits", 1), "gpu"));
    world.submit(pod("other", 1));
    settle_all(&mut world);
    assert_eq!(
        (world.state("runs"), world.state("waits")),
        (Some(JobState::Running), Some(JobState::Held))
    );
    assert!(world.blocked("waits").1.contains("spec.stopPolicy of FluxQueue gpu is Hold"));
    assert_eq!(world.node_of("other"), Some("b"), "other queues go on");
    assert_eq!(counts(&world, "gpu"), (1, 1));
    queue(&mut world, "gpu", &json!({}));
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    settle_all(&mut world);
    assert_eq!(world.node_of("waits"), Some("a"));
    assert_eq!(counts(&world, "gpu"), (0, 1));
}

#[test]
fn who_waits_in_a_queue_that_is_deleted_is_held_at_his_place_and_told() {
    let nodes = [("a", 1)];
    let mut world = World::new(&nodes);
    queue(&mut world, "gpu", &json!({}));
    world.submit(pod("runs", 1));
    world.settle();
    world.submit(of_queue(pod("waits", 1), "gpu"));
    world.settle();
    let since = |world: &World| {
        world.record("waits").status.as_ref().and_then(|status| status.queued_at.clone())
    };
    let place = since(&world);
    gone(&mut world, "gpu");
    world.settle();
    let text = "its queue was deleted: there is no FluxQueue gpu any more".to_owned();
    assert_eq!(
        (world.state("waits"), world.blocked("waits")),
        (Some(JobState::Held), ("Held".to_owned(), text))
    );
    assert_eq!(
        world.notes.iter().filter(|reason| *reason == "Held").count(),
        2,
        "its FluxJob and its pod"
    );
    // A new process says the same: it is no job that named a queue that never was.
    world.restart();
    world.list(&nodes, &[]);
    world.settle();
    assert_eq!(world.state("waits"), Some(JobState::Held));
    queue(&mut world, "gpu", &json!({}));
    world.settle();
    assert_eq!((world.state("waits"), since(&world)), (Some(JobState::Pending), place));
}

#[test]
fn walltimes_are_the_queues() {
    let mut world = World::new(&[("a", 1)]);
    queue(&mut world, "short", &json!({"defaultWalltimeSeconds": 60, "maxWalltimeSeconds": 600}));
    queue(&mut world, "cut", &json!({"maxWalltimeSeconds": 600, "maxWalltimeAction": "Clamp"}));
    world.submit(pod("runs", 1));
    world.settle();
    let said =
        |name: &str, queue: &str, lifetime| Pod { lifetime, ..of_queue(pod(name, 1), queue) };
    world.submit(said("silent", "short", Lifetime::Eventually));
    world.submit(said("long", "short", Lifetime::Seconds(601)));
    world.submit(said("service", "short", Lifetime::Endless));
    world.submit(said("clamped", "cut", Lifetime::Seconds(601)));
    world.submit(said("mute", "cut", Lifetime::Eventually));
    world.settle();
    let walltime =
        |name: &str| world.record(name).status.as_ref().and_then(|status| status.walltime_seconds);
    assert_eq!(["silent", "clamped", "mute"].map(walltime), [Some(60), Some(600), Some(600)]);
    assert_eq!(["long", "service"].map(|name| world.blocked(name).0), ["WalltimeTooLong"; 2]);
    let text = "it asks for a walltime of 601 s and FluxQueue short has 600 s at most (spec.maxWalltimeSeconds)";
    assert_eq!(world.blocked("long").1, text);
    // A job may start after a wish for less.
    world.edit("long", |spec| {
        spec.overrides = Overrides { walltime_seconds: Some(600), ..Overrides::default() }
    });
    world.settle();
    assert_eq!(world.state("long"), Some(JobState::Pending));
}

#[test]
fn the_status_of_a_queue_is_written_seldom_and_not_again_by_a_new_process() {
    let mut world = World::new(&[("a", 1)]);
    queue(&mut world, "gpu", &json!({}));
    let mut writes = 0;
    for number in 0..20 {
        world.submit(of_queue(pod(&format!("p{number}"), 1), "gpu"));
        let actions = world.step();
        writes += actions
            .iter()
            .filter(|it| matches!(it.kind, ActionKind::WriteQueueStatus { .. }))
            .count();
        world.carry_out_all(actions);
    }
    assert_eq!(writes, 0, "not with each job");
    settle_all(&mut world);
    assert_eq!(counts(&world, "gpu"), (19, 1));
    let mut known = QueueObject::clone(world.core.queues.object("gpu").expect("it is there"));
    known.status = world.queues["gpu"].clone();
    world.restart();
    world.queues.clear();
    world.tell(Event::Queue(Arc::new(known)));
    world.list(&[("a", 1)], &[]);
    settle_all(&mut world);
    assert!(world.queues.is_empty(), "nothing is new: {:?}", world.queues);
}

/// A machine of whole nodes, and queues of these settings.
pub(super) fn backfilling(nodes: &[(&str, u64)]) -> World {
    let settings = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    World::told(settings, FunctionTable::builtin(), nodes)
}

/// So long, in this queue.
pub(super) fn timed(name: &str, cores: u64, queue: &str, seconds: u64) -> Pod {
    Pod { lifetime: Lifetime::Seconds(seconds), ..of_queue(pod(name, cores), queue) }
}

pub(super) fn start_of(world: &World, name: &str) -> Option<i64> {
    let reservation = world.record(name).status.as_ref()?.reservation.as_ref()?;
    reservation.start.as_ref().map(|at| at.0.as_second())
}

#[test]
fn a_queue_of_higher_priority_delays_what_was_promised_and_that_is_said() {
    let mut world = backfilling(&[("a", 1)]);
    queue(&mut world, "urgent", &json!({"priority": 10}));
    world.submit(timed("runs", 1, "default", 100));
    world.settle();
    world.submit(timed("first", 1, "default", 50));
    world.settle();
    assert_eq!(start_of(&world, "first"), Some(2100));
    world.submit(timed("ahead", 1, "urgent", 50));
    world.settle();
    assert_eq!((start_of(&world, "ahead"), start_of(&world, "first")), (Some(2100), Some(2150)));
    assert_eq!(world.core.gauges().reservations_delayed.get("priority"), Some(&1));
    // Raised by an edit, it is ahead of all that it was merged with.
    queue(&mut world, "default", &json!({"priority": 20}));
    world.settle();
    // An improvement is written a little later.
    world.pass_seconds(6);
    world.settle();
    assert_eq!((start_of(&world, "first"), start_of(&world, "ahead")), (Some(2100), Some(2150)));
    assert_eq!(world.core.gauges().reservations_delayed.get("edit"), Some(&1));
}

#[test]
fn a_queue_has_its_own_nodes() {
    let mut world = backfilling(&[]);
    for name in ["cpu0", "gpu0"] {
        let labels = Arc::from([(Arc::from("kind"), Arc::from(&name[..3]))]);
        world.tell(Event::Node(Arc::new(Node {
            labels: Vec::from(&*labels as &[_]),
            ..Node::clone(&node(name, 1))
        })));
    }
    queue(&mut world, "gpu", &json!({"nodeSelector": {"kind": "gpu"}}));
    for name in ["p", "q"] {
        world.submit(timed(name, 1, "gpu", 100));
    }
    world.settle();
    assert_eq!((world.node_of("p"), world.node_of("q")), (Some("gpu0"), None));
    let (reason, text) = world.blocked("q");
    assert_eq!(reason, "InsufficientResources");
    assert!(text.contains("1 node(s) didn't match the nodeSelector of its queue"), "{text}");
    assert_eq!(start_of(&world, "q"), Some(2100));
    queue(&mut world, "gpu", &json!({}));
    world.settle();
    assert_eq!(world.node_of("q"), Some("cpu0"), "an edit is looked at at once");
}

#[test]
fn each_queue_has_its_policy_and_its_patience() {
    let mut world = backfilling(&[("a", 1), ("b", 1)]);
    queue(&mut world, "line", &json!({"policy": "fcfs", "bypassSeconds": 10}));
    world.submit(of_queue(pod("runs", 1), "default"));
    world.settle();
    world.tell(Event::Controller(Arc::new(Controller {
        queue: Some(Arc::from("line")),
        ..job("j", 2, 2)
    })));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    world.pass_seconds(1);
    world.submit(timed("behind", 1, "line", 5));
    world.settle();
    assert_eq!(world.blocked("behind").0, "QueuedBehind", "nobody overtakes in its queue");
    world.submit(timed("beside", 1, "default", 5));
    world.settle();
    assert_eq!(world.node_of("beside"), Some("b"), "nobody knows when the head of the line starts");
    world.change("beside", |pod| pod.phase = Phase::Succeeded);
    world.pass_seconds(11);
    world.settle();
    world.submit(timed("late", 1, "default", 5));
    world.settle();
    assert_eq!(world.node_of("late"), None, "it was passed by for as long as its queue allows");
}

#[test]
fn a_pod_is_told_why_it_waits_as_soon_as_it_may_be_told_something_else() {
    let mut world = backfilling(&[("a", 1)]);
    queue(&mut world, "default", &json!({}));
    world.submit(of_queue(pod("p", 2), "new"));
    world.settle();
    assert_eq!(world.conditions["p"].reason, "SchedulerError", "there is no such queue");
    world.pass_seconds(3);
    queue(&mut world, "new", &json!({}));
    world.settle();
    assert_eq!(world.conditions["p"].reason, "SchedulerError", "it was told so a moment ago");
    world.pass_seconds(28);
    world.settle();
    assert_eq!(world.conditions["p"].reason, "Unschedulable");
}

#[test]
fn the_last_queue_that_goes_takes_its_reservations_along() {
    let mut world = World::new(&[("a", 1)]);
    queue(&mut world, "default", &json!({"policy": "easy"}));
    world.submit(timed("runs", 1, "default", 100));
    world.settle();
    world.submit(timed("waits", 1, "default", 50));
    world.settle();
    assert_eq!(start_of(&world, "waits"), Some(2100));
    gone(&mut world, "default");
    world.settle();
    assert_eq!((start_of(&world, "waits"), world.core.gauges().reservations), (None, 0));
    assert_eq!(world.core.gauges().reservations_delayed.get("edit"), Some(&1));
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("waits"), Some("a"));
}

// --- limits ---

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

#[test]
fn a_limit_on_some_nodes_leaves_the_others() {
    let mut world = backfilling(&[]);
    for name in ["v100", "a100"] {
        let labels = vec![(Arc::from("model"), Arc::from(name))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 4)) })));
    }
    let limits = json!({"nodes": [{"nodeSelector": {"model": "a100"}, "resources": {"cpu": "2"}}]});
    queue(&mut world, "gpu", &json!({ "limits": limits }));
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
    world.tell(Event::Controller(Arc::new(Controller {
        finished: true,
        succeeded: 2,
        wants: 0,
        ..job("j", 2, 2)
    })));
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

#[test]
fn services_have_a_queue_of_their_own_where_there_is_one_and_are_not_behind_a_gang() {
    let mut world = backfilling(&[("a", 4)]);
    world.submit(timed("runs", 2, "default", 100));
    world.settle();
    world.submit(timed("large", 4, "default", 1000));
    world.settle();
    let service = |name: &str, cores: u64| Pod { lifetime: Lifetime::Endless, ..pod(name, cores) };
    world.submit(service("early", 1));
    world.settle();
    assert_eq!((queue_of(&world, "early"), world.node_of("early")), ("default".to_owned(), None));
    queue(&mut world, "services", &json!({"priority": 100, "limits": {"resources": {"cpu": 1}}}));
    world.submit(service("late", 1));
    world.settle();
    assert_eq!(
        (queue_of(&world, "early"), world.node_of("early")),
        ("services".to_owned(), Some("a"))
    );
    assert_eq!(world.blocked("late").0, "QueueLimit", "within the limit of their queue only");
    assert_eq!(queue_of(&world, "large"), "default");
    let named = Pod { labels: of_queue(pod("p", 1), "default").labels, ..service("named", 1) };
    world.submit(named);
    world.settle();
    assert_eq!(queue_of(&world, "named"), "default", "who names a queue is in it");
}

#[test]
fn a_queue_that_was_made_anew_does_not_have_the_status_of_the_one_before() {
    for answer in [WriteOutcome::Written(None), WriteOutcome::Gone] {
        let mut world = World::new(&[("a", 1)]);
        queue(&mut world, "gpu", &json!({}));
        world.submit(of_queue(pod("p", 8), "gpu"));
        world.settle();
        world.pass_seconds(3);
        let is_of_queue =
            |action: &Action| matches!(action.kind, ActionKind::WriteQueueStatus { .. });
        let first = world.step().into_iter().find(is_of_queue).expect("its status is written");
        // Before the answer comes it is gone, and another one of the name is there.
        gone(&mut world, "gpu");
        world.tell(Event::Queue(Arc::new(QueueObject {
            uid: Uid::from("another"),
            ..read("gpu", &json!({}))
        })));
        world.step();
        world.pass_seconds(3);
        world.step();
        world.tell(Event::Done(first.id, Outcome::Write(answer)));
        world.step();
        world.pass_seconds(3);
        let written = world.step().into_iter().find_map(|action| match action.kind {
            ActionKind::WriteQueueStatus { uid, status, .. } => Some((uid, status.waiting)),
            _ => None,
        });
        assert_eq!(written, Some((Uid::from("another"), 1)));
    }
}

#[test]
fn what_ends_while_there_is_no_queue_does_not_run_in_one_that_comes_later() {
    let mut world = World::new(&[("a", 4)]);
    queue(&mut world, "default", &json!({}));
    world.submit(pod("p", 1));
    settle_all(&mut world);
    assert_eq!(counts(&world, "default"), (0, 1));
    gone(&mut world, "default");
    world.settle();
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    let said = world.queues["default"].clone();
    world.tell(with_status("default", said));
    settle_all(&mut world);
    assert_eq!(counts(&world, "default"), (0, 0));
}

#[test]
fn a_pod_whose_node_comes_after_it_counts_with_what_it_has() {
    let mut world = World::new(&[]);
    queue(&mut world, "default", &json!({}));
    world.submit(Pod { node: Some("a".into()), phase: Phase::Running, ..pod("p", 3) });
    settle_all(&mut world);
    assert!(!world.queues["default"].used.contains_key("cpu"));
    world.tell(Event::Node(node("a", 4)));
    settle_all(&mut world);
    assert_eq!(world.queues["default"].used["cpu"], "3");
}

#[test]
fn what_has_no_pods_does_not_run() {
    let mut world = World::new(&[("a", 4)]);
    queue(&mut world, "default", &json!({}));
    let set = Controller { kind: OwnerKind::StatefulSet, completions: None, ..job("s", 1, 1) };
    world.tell(Event::Controller(Arc::new(set.clone())));
    let mut member = of_job(pod("s-0", 1), "s");
    let owner = member.owner.as_mut().expect("it has an owner");
    (owner.kind, owner.api_version) = (OwnerKind::StatefulSet, Arc::from("apps/v1"));
    world.submit(member);
    settle_all(&mut world);
    assert_eq!(counts(&world, "default"), (0, 1));
    // It is scaled down.
    world.tell(Event::Controller(Arc::new(Controller { wants: 0, can_start_together: 0, ..set })));
    world.delete("s-0");
    settle_all(&mut world);
    assert_eq!(counts(&world, "default"), (0, 0));
}

#[test]
fn who_goes_for_good_while_it_waits_does_not_count_any_more() {
    let mut world = World::new(&[("a", 4)]);
    queue(&mut world, "default", &json!({}));
    world.submit(pod("p", 9));
    settle_all(&mut world);
    assert_eq!(counts(&world, "default"), (1, 0));
    // The write of its status is looked after a moment later.
    settle_all(&mut world);
    world.delete("p");
    settle_all(&mut world);
    assert_eq!(counts(&world, "default"), (0, 0));
}
