//! Quantities that are very large or odd, and specs of queues that cannot be read.

use fluxqueue_api::FluxQueueStatus;
use serde_json::json;

use super::queues::{backfilling, of_queue, queue, timed, with_status};
use super::*;

const SEVEN_EXBIBYTES: u64 = 7 << 60;

/// Adds a node and a pod with this amount of a resource.
fn with(world: &mut World, node_name: &str, resource: &str, amount: u64) {
    let mut node = Node::clone(&node(node_name, 8));
    node.allocatable.set(resource, amount);
    world.tell(Event::Node(Arc::new(node)));
}

fn asking(name: &str, resource: &str, amount: u64) -> Pod {
    let mut one = pod(name, 1);
    Arc::make_mut(&mut one.shape).requests.set(resource, amount);
    one
}

#[test]
fn sums_beyond_64_bits_do_not_wrap_in_a_limit() {
    for is_gang in [false, true] {
        let mut world = backfilling(&[]);
        for name in ["a", "b", "c"] {
            with(&mut world, name, "memory", SEVEN_EXBIBYTES);
        }
        queue(&mut world, "wide", &json!({"limits": {"resources": {"memory": "7Ei"}}}));
        for name in ["p0", "p1", "p2"] {
            let one = of_queue(asking(name, "memory", SEVEN_EXBIBYTES), "wide");
            world.submit(if is_gang { of_group(one, "g", Ok(3)) } else { one });
        }
        world.settle();
        let (reason, message) = world.blocked(if is_gang { "g" } else { "p1" });
        assert_eq!((&*reason, world.bound()), ("QueueLimit", usize::from(!is_gang)));
        let said = if is_gang {
            "21Ei memory asked for, 0 of 7Ei used"
        } else {
            "7Ei memory asked for, 7Ei of 7Ei used"
        };
        assert!(message.starts_with(said), "{message}");
    }
}

#[test]
fn messages_have_cores_and_fields_have_quantities() {
    let mut world = backfilling(&[("a", 8)]);
    queue(&mut world, "q", &json!({"limits": {"resources": {"cpu": "2500m"}}}));
    for name in ["p0", "p1"] {
        world.submit(of_queue(asking(name, "cpu", 1250), "q"));
        world.settle();
    }
    world.submit(of_queue(asking("p2", "cpu", 10), "q"));
    world.settle();
    let (_, message) = world.blocked("p2");
    assert!(message.starts_with("0.01 cpu asked for, 2.5 of 2.5 used"), "{message}");
    let blocker = &world.record("p2").status.as_ref().unwrap().blocked_by[0];
    let fields = [&blocker.requested, &blocker.used, &blocker.limit].map(Option::as_deref);
    assert_eq!(fields, [Some("10m"), Some("2500m"), Some("2500m")]);
    for name in ["w0", "w1"] {
        world.submit(of_group(asking(name, "cpu", 3751), "w", Ok(2)));
    }
    world.settle();
    let (_, message) = world.blocked("w");
    assert!(message.contains("ask for 7.502 cpu, 5.5 free on the nodes"), "{message}");
}

#[test]
fn odd_limits_mean_what_kubernetes_means() {
    // A limit on GPUs, and how many pods of one GPU run.
    for (limit, bound) in [
        (json!("0.5"), 0),
        (json!("1500m"), 1),
        (json!("1e0"), 1),
        (json!(2), 2),
        (json!("10P"), 3),
        (json!("1E"), 3),
    ] {
        let mut world = backfilling(&[]);
        with(&mut world, "a", "example.com/gpu", 3);
        queue(
            &mut world,
            "q",
            &json!({"limits": {"resources": {"example.com/gpu": limit, "cpu": "1E"}}}),
        );
        for at in 0..3 {
            world.submit(of_queue(asking(&format!("p{at}"), "example.com/gpu", 1), "q"));
        }
        world.settle();
        assert_eq!(world.bound(), bound, "{limit}");
    }
}

#[test]
fn what_has_ended_of_huge_requests_leaves_nothing_behind() {
    let mut world = World::new(&[("a", 8)]);
    for at in 0..3 {
        // Put there by its author: the kubelet refuses it, and until then it counts.
        let mut forced = asking(&format!("p{at}"), "memory", SEVEN_EXBIBYTES);
        (forced.scheduler, forced.node) = (Arc::from("other"), Some(NodeName::from("a")));
        world.submit(forced);
    }
    world.submit(asking("small", "memory", 60 << 30));
    world.settle();
    assert_eq!(world.node_of("small"), None);
    (0..3).for_each(|at| world.change(&format!("p{at}"), |pod| pod.phase = Phase::Failed));
    world.settle();
    assert_eq!(world.node_of("small"), Some("a"));
    world.submit(asking("second", "memory", 5 << 30));
    world.settle();
    assert_eq!(world.node_of("second"), None, "64Gi are there, of which 60Gi are used");
}

#[test]
fn nobody_is_promised_a_start_in_the_past_behind_an_endless_grace_period() {
    for grace_secs in [i64::MAX as u64, 1_000_000_000_000] {
        let mut world = backfilling(&[("a", 2)]);
        world.submit(Pod { grace_secs, ..timed("endless", 1, "default", 60) });
        world.settle();
        world.submit(timed("waits", 2, "default", 60));
        world.settle();
        world.pass_seconds(5);
        world.settle();
        let status = world.record("waits").status.as_ref().unwrap();
        let start = status.reservation.as_ref().and_then(|reservation| reservation.start.as_ref());
        assert_eq!(
            (start, world.estimate("waits"), status.blocked_by.is_empty()),
            (None, None, false)
        );
        world.submit(timed("small", 1, "default", 60));
        world.settle();
        assert_eq!(world.node_of("small"), Some("a"), "it delays nobody who has a date");
        world.restart();
        world.list(&[("a", 2)], &[]);
        world.settle();
        world.change("endless", |pod| pod.phase = Phase::Succeeded);
        world.change("small", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert_eq!(world.node_of("waits"), Some("a"));
    }
}

/// The status of the queue as it was written last.
fn written(world: &mut World, name: &str) -> FluxQueueStatus {
    for _ in 0..4 {
        world.pass_seconds(3);
        world.settle();
    }
    world.queues[name].clone()
}

/// The queue `q` as the API server has it.
fn known(spec: &serde_json::Value, status: &FluxQueueStatus) -> Event {
    let object = json!({
        "apiVersion": "jobs.converged-computing.org/v1alpha1", "kind": "FluxQueue",
        "metadata": {"name": "q", "uid": "uid-q"}, "spec": spec, "status": status,
    });
    Event::Queue(Arc::new(
        fluxqueue_planner::queues::QueueObject::from_api(&serde_json::from_value(object).unwrap())
            .unwrap(),
    ))
}

#[test]
fn a_queue_whose_spec_cannot_be_read_goes_by_the_last_one_that_could_also_after_a_restart() {
    let bad = json!({"limits": {"resources": {"cpu": "32GB"}}});
    let mut world = backfilling(&[("a", 8)]);
    queue(&mut world, "q", &json!({"limits": {"resources": {"cpu": 2}}}));
    let status = written(&mut world, "q");
    assert_eq!(
        (&*status.conditions[0].status, &*status.conditions[0].reason),
        ("True", "Accepted")
    );
    queue(&mut world, "q", &bad);
    for at in 0..3 {
        world.submit(of_queue(pod(&format!("p{at}"), 1), "q"));
    }
    let status = written(&mut world, "q");
    let said = &status.conditions[0];
    assert_eq!((&*said.status, &*said.reason, world.bound()), ("False", "InvalidSpec", 2));
    let text = "spec.limits.resources[cpu]: \"32GB\" is not a quantity: the spec that was accepted last counts";
    assert_eq!(said.message, text);
    assert!(world.texts.iter().any(|told| told == text), "{:?}", world.texts);
    // The next process knows no other spec than the one on record.
    world.restart();
    world.texts.clear();
    world.tell(known(&bad, &status));
    world.list(&[("a", 8)], &[]);
    world.settle();
    assert_eq!((world.bound(), world.blocked("p2").0), (2, "QueueLimit".to_owned()));
    written(&mut world, "q");
    assert!(!world.texts.iter().any(|told| told == text), "that is no news");
    world.tell(known(&json!({}), &status));
    let status = written(&mut world, "q");
    assert_eq!((&*status.conditions[0].status, world.bound()), ("True", 3));
    assert!(world.notes.iter().any(|reason| reason == "Accepted"));
}

#[test]
fn a_queue_that_was_never_accepted_holds_its_jobs_and_says_why() {
    let mut world = backfilling(&[("a", 8)]);
    queue(&mut world, "q", &json!({"limits": {"resources": {"memroy": "1Gi"}}}));
    world.submit(of_queue(pod("p", 1), "q"));
    world.settle();
    let (reason, message) = world.blocked("p");
    assert_eq!((&*reason, world.state("p")), ("QueueInvalid", Some(JobState::Held)));
    assert!(
        message.starts_with(
            "FluxQueue q cannot be used: spec.limits.resources[memroy]: no pod can ask"
        ),
        "{message}"
    );
    world.tell(with_status("q", FluxQueueStatus::default()));
    world.settle();
    assert_eq!(world.node_of("p"), Some("a"));
}
