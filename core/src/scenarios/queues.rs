//! Queues: which one a job is in, and what that lets it do.

use super::*;
use crate::QueuePolicy;
use crate::queues::{Namespace, QueueObject};
use fluxqueue_api::Overrides;
use fluxqueue_api::names;
use serde_json::json;

/// A FluxQueue of this spec is there.
fn queue(world: &mut World, name: &str, spec: &serde_json::Value) {
    let object = json!({
        "apiVersion": "jobs.converged-computing.org/v1alpha1", "kind": "FluxQueue",
        "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": spec,
    });
    let read = QueueObject::from_api(&serde_json::from_value(object).expect("a FluxQueue"));
    world.tell(Event::Queue(Arc::new(read.expect("a queue"))));
}

fn gone(world: &mut World, name: &str) {
    world.tell(Event::QueueGone(Arc::from(name)));
}

/// The namespace of all jobs has this label and default queue.
fn namespace(world: &mut World, team: &str, queue: Option<&str>) {
    let labels = [(Arc::from("team"), Arc::from(team))].into_iter().collect();
    let namespace = Namespace { name: Arc::from("ns"), uid: Uid::from("ns"), labels, queue: queue.map(Arc::from) };
    world.tell(Event::Namespace(Arc::new(namespace)));
}

fn of_queue(mut pod: Pod, queue: &str) -> Pod {
    pod.labels = [(Arc::from(names::QUEUE_NAME), Arc::from(queue))].into_iter().collect();
    pod
}

fn queue_of(world: &World, workload: &str) -> String {
    world.record(workload).status.as_ref().and_then(|status| status.queue_name.clone()).expect("a queue")
}

fn counts(world: &World, queue: &str) -> (i32, i32) {
    let status = &world.queues[queue];
    (status.waiting, status.running)
}

/// What is done a moment later, such as the status of queues, is done too.
fn settle_all(world: &mut World) {
    world.settle();
    world.pass_seconds(3);
    world.settle();
}

#[test]
fn a_job_is_in_the_queue_that_it_names_or_its_namespace_or_the_default() {
    let mut world = World::new(&[("a", 1)]);
    for name in ["gpu", "lab"] {
        queue(&mut world, name, &json!({}));
    }
    world.submit(pod("first", 1));
    world.submit(of_queue(pod("named", 1), "gpu"));
    let by_object = Controller { queue: Some(Arc::from("gpu")), ..job("j", 1, 1) };
    world.tell(Event::Controller(Arc::new(by_object)));
    world.submit(of_job(pod("p", 1), "j"));
    world.settle();
    assert_eq!(["first", "named", "j"].map(|job| queue_of(&world, job)), ["default", "gpu", "gpu"]);
    namespace(&mut world, "physics", Some("lab"));
    world.settle();
    assert_eq!(["first", "named", "j"].map(|job| queue_of(&world, job)), ["lab", "gpu", "gpu"]);
    world.edit("j", |spec| spec.overrides.queue_name = Some("default".to_owned()));
    world.settle();
    assert_eq!(queue_of(&world, "j"), "default");
    let said = world.record("j").status.as_ref().and_then(|status| status.workload.clone()).expect("observed");
    assert_eq!(said.queue_name.as_deref(), Some("gpu"), "what the workload says stays");
}

#[test]
fn a_queue_that_is_not_there_or_not_for_the_namespace_refuses() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_queue(pod("p", 1), "gpu"));
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Refused));
    assert_eq!(world.blocked("p"), ("QueueNotUsable".to_owned(), "there is no FluxQueue gpu".to_owned()));
    assert_eq!(world.conditions["p"].reason, "SchedulerError", "more nodes would not help");
    namespace(&mut world, "physics", None);
    queue(&mut world, "gpu", &json!({"namespaceSelector": {"matchLabels": {"team": "chemistry"}}}));
    world.settle();
    let (reason, text) = world.blocked("p");
    assert_eq!((&*reason, text.contains("not for namespace ns")), ("QueueNotUsable", true), "{text}");
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
    assert_eq!((world.state("runs"), world.state("waits")), (Some(JobState::Running), Some(JobState::Held)));
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
    let since = |world: &World| world.record("waits").status.as_ref().and_then(|status| status.queued_at.clone());
    let place = since(&world);
    gone(&mut world, "gpu");
    world.settle();
    let text = "its queue was deleted: there is no FluxQueue gpu any more".to_owned();
    assert_eq!((world.state("waits"), world.blocked("waits")), (Some(JobState::Held), ("Held".to_owned(), text)));
    assert_eq!(world.notes.iter().filter(|reason| *reason == "Held").count(), 2, "its FluxJob and its pod");
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
    let said = |name: &str, queue: &str, lifetime| Pod { lifetime, ..of_queue(pod(name, 1), queue) };
    world.submit(said("silent", "short", Lifetime::Eventually));
    world.submit(said("long", "short", Lifetime::Seconds(601)));
    world.submit(said("service", "short", Lifetime::Endless));
    world.submit(said("clamped", "cut", Lifetime::Seconds(601)));
    world.submit(said("mute", "cut", Lifetime::Eventually));
    world.settle();
    let walltime = |name: &str| world.record(name).status.as_ref().and_then(|status| status.walltime_seconds);
    assert_eq!(["silent", "clamped", "mute"].map(walltime), [Some(60), Some(600), Some(600)]);
    assert_eq!(["long", "service"].map(|name| world.blocked(name).0), ["WalltimeTooLong"; 2]);
    let text = "it asks for a walltime of 601 s and FluxQueue short has 600 s at most (spec.maxWalltimeSeconds)";
    assert_eq!(world.blocked("long").1, text);
    // Who may wish for less may start.
    world.edit("long", |spec| spec.overrides = Overrides { walltime_seconds: Some(600), ..Overrides::default() });
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
        writes += actions.iter().filter(|it| matches!(it.kind, ActionKind::WriteQueueStatus { .. })).count();
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
fn backfilling(nodes: &[(&str, u64)]) -> World {
    let settings = CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() };
    World::told(settings, FunctionTable::builtin(), nodes)
}

/// So long, in this queue.
fn timed(name: &str, cores: u64, queue: &str, seconds: u64) -> Pod {
    Pod { lifetime: Lifetime::Seconds(seconds), ..of_queue(pod(name, cores), queue) }
}

fn start_of(world: &World, name: &str) -> Option<i64> {
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
    // What has become better is written a little later.
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
        world.tell(Event::Node(Arc::new(Node { labels: Vec::from(&*labels as &[_]), ..Node::clone(&node(name, 1)) })));
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
    world.tell(Event::Controller(Arc::new(Controller { queue: Some(Arc::from("line")), ..job("j", 2, 2) })));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
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
