//! Queues: which one a job is in, and what that lets it do.

use super::*;
use crate::QueuePolicy;
use fluxqueue_api::Overrides;
use fluxqueue_api::names;
use fluxqueue_planner::queues::{Namespace, QueueObject};
use serde_json::json;

/// A FluxQueue of this spec.
pub(super) fn read(name: &str, spec: &serde_json::Value) -> QueueObject {
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
pub(super) fn namespace(world: &mut World, team: &str, queue: Option<&str>) {
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
pub(super) fn settle_all(world: &mut World) {
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
            .filter(|it| matches!(it.kind, ActionKind::Write(Write::WriteQueueStatus { .. })))
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
        let is_of_queue = |action: &Action| {
            matches!(action.kind, ActionKind::Write(Write::WriteQueueStatus { .. }))
        };
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
            ActionKind::Write(Write::WriteQueueStatus { uid, status, .. }) => {
                Some((uid, status.waiting))
            }
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
