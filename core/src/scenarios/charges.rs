//! The charges to queues: a job with nodes stays where it was charged, and nodes alone are charged
//! whole.

use serde_json::json;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time as MetaTime};
use k8s_openapi::jiff::Timestamp;

use super::queues::{self, of_queue, queue};
use super::*;

fn queue_of(world: &World, workload: &str) -> Option<String> {
    world.record(workload).status.as_ref()?.queue_name.clone()
}

fn relabel(world: &mut World, pod: &str, to: &str) {
    let to = of_queue(super::pod(pod, 1), to);
    world.change(pod, |pod| pod.labels = to.labels);
}

fn one_at_a_time(world: &mut World) {
    queue(world, "gpu", &json!({"limits": {"perNamespace": {"runningJobs": 1}}}));
    queue(world, "other", &json!({}));
}

#[test]
fn a_job_with_nodes_stays_in_its_queue_whatever_its_labels_say() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    one_at_a_time(&mut world);
    world.submit(of_queue(pod("one", 1), "gpu"));
    world.settle();
    world.submit(of_queue(pod("two", 1), "gpu"));
    world.settle();
    assert_eq!((world.node_of("one"), world.node_of("two")), (Some("a"), None));
    for to in ["nowhere", "other"] {
        relabel(&mut world, "one", to);
        world.settle();
        assert_eq!(
            (queue_of(&world, "one").as_deref(), world.node_of("two")),
            (Some("gpu"), None),
            "{to}"
        );
        world.restart();
        one_at_a_time(&mut world);
        world.list(&nodes, &[]);
        world.settle();
        assert_eq!(
            world.node_of("two"),
            None,
            "a new process reads the queue from the pod, not from its label {to}"
        );
    }
    world.change("one", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("two"), Some("a"));
}

#[test]
fn a_wish_for_another_queue_does_not_take_a_job_with_nodes_out_of_its_queue() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    one_at_a_time(&mut world);
    for name in ["j", "k"] {
        let by_object = Controller { queue: Some(Arc::from("gpu")), ..job(name, 2, 2) };
        world.tell(Event::Controller(Arc::new(by_object)));
        world.submit(of_job(pod(&format!("{name}0"), 1), name));
        world.submit(of_job(pod(&format!("{name}1"), 1), name));
        world.settle();
    }
    world.edit("j", |spec| spec.overrides.queue_name = Some("other".to_owned()));
    world.settle();
    assert_eq!((queue_of(&world, "j").as_deref(), world.bound()), (Some("gpu"), 2));
    // A new process reads its record, and the wish still does not count.
    world.restart();
    one_at_a_time(&mut world);
    world.list(
        &nodes,
        &[job("j", 2, 2), Controller { queue: Some(Arc::from("gpu")), ..job("k", 2, 2) }],
    );
    world.settle();
    assert_eq!((queue_of(&world, "j").as_deref(), world.bound()), (Some("gpu"), 2));
    for name in ["j0", "j1"] {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    assert_eq!((world.node_of("k0"), world.node_of("k1")), (Some("a"), Some("a")));
}

#[test]
fn nodes_alone_are_charged_whole_and_once() {
    let mut world = World::new(&[("a", 4), ("b", 4), ("c", 4)]);
    queue(&mut world, "gpu", &json!({"limits": {"resources": {"cpu": 8}}}));
    let alone = |name: &str| Pod { exclusive: Some(true), ..of_queue(pod(name, 1), "gpu") };
    // Two pods of a gang on one node are charged that node once.
    world.tell(Event::Controller(Arc::new(Controller {
        queue: Some(Arc::from("gpu")),
        ..job("j", 2, 2)
    })));
    for name in ["j0", "j1"] {
        world.submit(Pod { exclusive: Some(true), ..of_job(pod(name, 1), "j") });
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    world.pass_seconds(3);
    world.settle();
    assert_eq!(world.queues["gpu"].used["cpu"], "4");
    world.submit(alone("one"));
    world.settle();
    assert!(world.node_of("one").is_some());
    world.submit(alone("two"));
    world.settle();
    let (reason, text) = world.blocked("two");
    assert_eq!((world.node_of("two"), &*reason), (None, "QueueLimit"));
    assert!(text.contains("4 cpu asked for, 8 of 8 used"), "{text}");
}

#[test]
fn a_node_alone_is_charged_as_large_as_it_is() {
    let mut world = World::new(&[("a", 4)]);
    queue(&mut world, "gpu", &json!({"limits": {"resources": {"cpu": 8}}}));
    world.submit(Pod { exclusive: Some(true), ..of_queue(pod("one", 1), "gpu") });
    world.settle();
    for cores in [4, 6, 5] {
        world.tell(Event::Node(node("a", cores)));
        world.settle();
        world.pass_seconds(3);
        world.settle();
        assert_eq!(world.queues["gpu"].used["cpu"], cores.to_string());
    }
}

#[test]
fn pods_alone_that_are_to_be_spread_are_judged_by_all_nodes_that_they_need() {
    let mut world = World::new(&[]);
    for name in ["a", "b", "c"] {
        let labels = vec![(Arc::from("kubernetes.io/hostname"), Arc::from(name))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 4)) })));
    }
    queue(&mut world, "gpu", &json!({"limits": {"resources": {"cpu": 8}}}));
    world.tell(Event::Controller(Arc::new(Controller {
        queue: Some(Arc::from("gpu")),
        ..job("squat", 3, 3)
    })));
    for name in ["squat0", "squat1", "squat2"] {
        let pod = Pod { exclusive: Some(true), ..of_job(pod(name, 1), "squat") };
        world.submit(neighbours::spread(pod, "squat", "kubernetes.io/hostname"));
    }
    world.settle();
    let (reason, text) = world.blocked("squat");
    assert_eq!((world.bound(), &*reason), (0, "QueueLimit"));
    assert!(text.contains("12 cpu asked for, 0 of 8 used"), "{text}");
}

#[test]
fn a_queue_takes_the_kinds_of_work_that_it_names() {
    let mut world = World::new(&[("a", 4)]);
    queue(
        &mut world,
        "services",
        &json!({"priority": 1000, "workloadKinds": ["Deployment", "StatefulSet"]}),
    );
    // Work without an end goes to the queue of services only if that takes its kind.
    world.submit(Pod { lifetime: Lifetime::Endless, ..pod("jumper", 1) });
    world.submit(of_queue(pod("named", 1), "services"));
    world.settle();
    assert_eq!(queue_of(&world, "jumper").as_deref(), Some("default"));
    assert_eq!(world.state("named"), Some(JobState::Refused));
    let text = "FluxQueue services takes no Pod: see its spec.workloadKinds".to_owned();
    assert_eq!(world.blocked("named"), ("QueueNotUsable".to_owned(), text));
    queue(&mut world, "services", &json!({}));
    world.settle();
    assert_eq!(world.node_of("named"), Some("a"));
}

#[test]
fn a_hold_by_name_holds_until_the_last_is_lifted() {
    let mut world = World::new(&[("a", 1)]);
    world.submit(pod("runs", 1));
    world.settle();
    world.submit(pod("waits", 1));
    world.settle();
    let hold = |by: &str, reason: &str| fluxqueue_api::Hold {
        by: by.to_owned(),
        reason: reason.to_owned(),
    };
    world.edit("waits", |spec| spec.overrides.holds = vec![hold("ann", "audit"), hold("bob", "")]);
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    let text = "held by ann: audit; held by bob".to_owned();
    assert_eq!(
        (world.state("waits"), world.blocked("waits")),
        (Some(JobState::Held), ("Held".to_owned(), text))
    );
    world.edit("waits", |spec| spec.overrides.holds.truncate(1));
    world.settle();
    assert_eq!(world.state("waits"), Some(JobState::Held));
    world.edit("waits", |spec| spec.overrides.holds.clear());
    world.settle();
    assert_eq!(world.node_of("waits"), Some("a"));
}

#[test]
fn a_place_in_the_queue_that_cannot_be_true_is_ignored() {
    let nodes = [("a", 1)];
    let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
    for (forged, is_believed) in [(-1_000_000, false), (1_000_000, false), (1_990, true)] {
        let mut world = World::new(&nodes);
        world.submit(pod("runs", 1));
        world.settle();
        world.submit(Pod { created: Time::from_seconds(2_000), ..pod("early", 1) });
        world.settle();
        world.submit(Pod { created: Time::from_seconds(2_000), ..pod("forger", 1) });
        world.settle();
        world.change_record("forger", |record| {
            record.metadata.creation_timestamp = Some(MetaTime(at(2_000)));
            let status = record.status.as_mut().expect("a status");
            status.queued_at = Some(MicroTime(at(forged)));
        });
        world.settle();
        world.restart();
        world.list(&nodes, &[]);
        world.settle();
        world.change("runs", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert_eq!(world.node_of("forger").is_some(), is_believed, "{forged}");
    }
}

#[test]
fn pods_that_outlive_their_planned_ends_are_counted_by_namespace() {
    let mut world = queues::backfilling(&[("a", 1)]);
    world.submit(queues::timed("liar", 1, "default", 100));
    world.settle();
    world.submit(queues::timed("first", 1, "default", 50));
    world.settle();
    world.pass_seconds(200);
    world.settle();
    let counted = world.core.gauges().overruns;
    assert_eq!((counted.named().collect(), counted.of_others()), (vec![("ns", 1)], 0));
}
