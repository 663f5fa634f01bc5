//! The slot of an ended pod: how long it is kept, for which pod, and the gang's status meanwhile.

use super::neighbours::{apart, labels, on, racks};
use super::*;

fn seconds_go_by(world: &mut World, seconds: i64) {
    for _ in 0..seconds {
        world.pass_seconds(1);
        world.settle();
    }
}

fn degraded(world: &World, workload: &str) -> (String, String) {
    let conditions = &world.record(workload).status.as_ref().expect("a status").conditions;
    let degraded =
        conditions.iter().find(|condition| condition.type_ == "Degraded").expect("it is placed");
    (degraded.reason.clone(), degraded.message.clone())
}

/// The launcher of a gang fails again and again, and a small pod of another job waits for its
/// place.
#[test]
fn a_slot_is_kept_for_as_long_as_its_job_waits_before_it_replaces_a_pod() {
    let mut world = World::new(&[("a", 7)]);
    world.tell(Event::Controller(Arc::new(job("launcher", 1, 1))));
    world.tell(Event::Controller(Arc::new(job("workers", 3, 3))));
    let launcher =
        |at: usize| of_group(of_job(pod(&format!("launcher-{at}"), 1), "launcher"), "mpi", Ok(4));
    world.submit(launcher(0));
    for name in ["w0", "w1", "w2"] {
        world.submit(of_group(of_job(pod(name, 2), "workers"), "mpi", Ok(4)));
    }
    world.settle();
    world.submit(pod("stranger", 1));
    world.settle();
    for (at, back_off) in [10, 20, 40].into_iter().enumerate() {
        world.change(&format!("launcher-{at}"), |pod| pod.phase = Phase::Failed);
        seconds_go_by(&mut world, back_off + 1);
        assert_eq!(world.node_of("stranger"), None, "{back_off} s after failure {at}");
        world.submit(launcher(at + 1));
        world.settle();
        assert!(world.node_of(&format!("launcher-{}", at + 1)).is_some(), "after {back_off} s");
    }
    // A minute at most.
    world.change("launcher-3", |pod| pod.phase = Phase::Failed);
    seconds_go_by(&mut world, 59);
    assert_eq!(world.node_of("stranger"), None);
    seconds_go_by(&mut world, 2);
    assert!(world.node_of("stranger").is_some());
}

#[test]
fn a_job_that_has_failed_for_good_keeps_no_slot() {
    let mut world = World::new(&[("a", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    world.submit(pod("stranger", 1));
    world.change("p0", |pod| pod.phase = Phase::Failed);
    world.settle();
    assert_eq!(world.node_of("stranger"), None);
    world.tell(Event::Controller(Arc::new(Controller {
        wants: 0,
        failed: true,
        finished: true,
        ..job("j", 2, 2)
    })));
    world.settle();
    assert!(world.node_of("stranger").is_some());
}

/// The pods of a gang fail, and a pod comes between that no pod like one of the new ones may be
/// beside.
#[test]
fn new_pods_take_the_slots_that_are_kept_for_them_together_or_not_at_all() {
    let mut world = racks(&[("a", "r", 5)]);
    world.submit_gang(2);
    world.settle();
    assert_eq!(world.bound(), 2);
    for name in ["p0", "p1"] {
        world.change(name, |pod| pod.phase = Phase::Failed);
    }
    world.submit(on(apart(pod("theirs", 1), "x", "host"), "a"));
    world.settle();
    world.submit(of_job(pod("p2", 2), "j"));
    world.submit(Pod { labels: labels("x"), ..of_job(pod("p3", 2), "j") });
    world.settle();
    assert_eq!((world.node_of("p2"), world.node_of("p3")), (None, None));
    world.delete("theirs");
    world.settle();
    assert_eq!((world.node_of("p2"), world.node_of("p3")), (Some("a"), Some("a")));
}

/// A gang of pods that an operator makes.
fn training(pods: &[&str]) -> World {
    let mut world = World::new(&[("a", 4), ("b", 4), ("c", 4)]);
    for name in pods {
        world.submit(worker(name));
    }
    world.settle();
    assert_eq!(world.bound(), 3);
    world.submit(pod("stranger", 4));
    world.settle();
    world
}

fn worker(name: &str) -> Pod {
    let owner = Owner {
        kind: OwnerKind::Other("PyTorchJob".into()),
        name: "train".into(),
        uid: "uid-train".into(),
        api_version: "kubeflow.org/v1".into(),
    };
    Pod { owner: Some(owner), ..of_group(pod(name, 4), "train", Ok(3)) }
}

#[test]
fn the_slot_of_a_pod_that_an_operator_makes_again_is_kept() {
    let failed: fn(&mut World) = |world| {
        world.change("w1", |pod| pod.phase = Phase::Failed);
        world.settle();
        world.delete("w1");
    };
    let deleted: fn(&mut World) = |world| {
        world.change("w1", |pod| pod.deleting = true);
        world.settle();
        world.delete("w1");
    };
    for end in [failed, deleted] {
        let mut world = training(&["w0", "w1", "w2"]);
        let node = world.node_of("w1").map(str::to_owned);
        end(&mut world);
        seconds_go_by(&mut world, 14);
        assert_eq!(
            degraded(&world, "train"),
            ("MemberLost".to_owned(), "1 of 3 pods are missing".to_owned())
        );
        let mut again = worker("again");
        again.id.uid = Uid::from("uid-w1-again");
        world.submit(again);
        world.settle();
        assert_eq!((world.node_of("again"), world.node_of("stranger")), (node.as_deref(), None));
    }
}

#[test]
fn a_slot_that_an_operator_does_not_need_again_is_free_after_a_while() {
    let mut world = training(&["w0", "w1", "w2"]);
    world.change("w1", |pod| pod.phase = Phase::Failed);
    seconds_go_by(&mut world, 14);
    assert_eq!(world.node_of("stranger"), None);
    seconds_go_by(&mut world, 2);
    assert!(world.node_of("stranger").is_some());
    // A pod that has succeeded is not made again.
    let mut world = training(&["w0", "w1", "w2"]);
    world.change("w1", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert!(world.node_of("stranger").is_some());
}

/// A running Job grows: it has lost no pod.
#[test]
fn a_job_that_is_to_be_larger_has_lost_no_pod() {
    let nodes = [("a", 4)];
    let mut world = World::new(&nodes);
    world.tell(Event::Controller(Arc::new(job("j", 4, 20))));
    for name in ["p0", "p1", "p2", "p3"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    let larger = job("j", 10, 20);
    world.tell(Event::Controller(Arc::new(larger.clone())));
    for at in 4..10 {
        world.submit(of_job(pod(&format!("p{at}"), 1), "j"));
    }
    world.settle();
    assert_eq!((world.bound(), &*degraded(&world, "j").0), (4, "Whole"));
    world.restart();
    world.list(&nodes, &[larger]);
    seconds_go_by(&mut world, 2);
    assert_eq!((world.bound(), &*degraded(&world, "j").0), (4, "Whole"));
    world.tell(Event::NodeGone("a".into(), "uid-a".into()));
    world.change("p0", |pod| pod.phase = Phase::Failed);
    world.settle();
    assert_eq!(
        degraded(&world, "j"),
        ("MemberLost".to_owned(), "1 of 4 pods are missing".to_owned())
    );
}

/// A running gang has lost a node, and the next one that comes free is promised to a younger job.
#[test]
fn a_gang_that_waits_for_a_lost_pod_behind_a_promise_says_until_when() {
    let nodes = [("a", 4), ("b", 4), ("c", 4)];
    let told = CoreSettings { queue_policy: crate::QueuePolicy::Easy, ..settings() };
    let mut world = World::told(told, FunctionTable::builtin(), &nodes);
    let lasting =
        |name: &str, seconds| Pod { lifetime: Lifetime::Seconds(seconds), ..pod(name, 4) };
    world.tell(Event::Controller(Arc::new(job("big", 2, 2))));
    for name in ["p0", "p1"] {
        world.submit(of_job(lasting(name, 600), "big"));
    }
    world.settle();
    for (name, seconds) in [("short", 100), ("next", 50)] {
        world.submit(lasting(name, seconds));
        world.settle();
    }
    assert_eq!(world.node_of("next"), None);
    for name in ["p0", "p1", "short"] {
        let started = Some(world.now);
        world.change(name, |pod| (pod.phase, pod.started) = (Phase::Running, started));
    }
    let lost = world.node_of("p0").expect("it runs").to_owned();
    world.tell(Event::NodeGone(lost.as_str().into(), format!("uid-{lost}").into()));
    world.delete("p0");
    world.submit(of_job(lasting("again", 600), "big"));
    for _ in 0..40 {
        world.pass_seconds(1);
        world.settle();
    }
    let said = "1 of 2 pods are missing; the next one has a place from 1970-01-01T00:35:50Z on ";
    let (reason, message) = degraded(&world, "big");
    assert_eq!(reason, "MemberLost");
    assert!(message.starts_with(said), "{message}");
    let left: Vec<_> = nodes.iter().filter(|(name, _)| *name != lost).copied().collect();
    // The words of a condition are for people: another version may choose others.
    world.change_record("big", |record| {
        let status = record.status.as_mut().expect("a status");
        assert_eq!(status.lost_pods.as_ref().map(|lost| lost.count), Some(1));
        for condition in &mut status.conditions {
            condition.message = "in other words".to_owned();
        }
    });
    world.restart();
    world.list(&left, &[job("big", 2, 2)]);
    world.settle();
    assert_eq!(degraded(&world, "big").1, message, "the next process says the same");
}

/// Labels of a pod that runs are its author's to change. The Job's slot is taken by the pod,
/// whatever group it says it is of by now.
#[test]
fn a_pod_that_runs_under_other_labels_takes_its_node_once_after_a_restart() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_gang(1);
    world.settle();
    assert_eq!(world.bound(), 2);
    world.change("p1", |pod| *pod = of_group(pod.clone(), "other", Ok(3)));
    world.settle();
    world.restart();
    world.list(&[("a", 4)], &[job("j", 2, 2)]);
    world.submit(pod("next", 2));
    world.settle();
    assert_eq!(world.node_of("next"), Some("a"));
}

/// Carries out everything but writes of a placement, and returns these.
fn settle_without_placement(world: &mut World) -> Vec<Action> {
    let mut held_back = Vec::new();
    for _ in 0..20 {
        for action in world.step() {
            match &action.kind {
                ActionKind::Write(Write::WriteStatus { status, .. })
                    if !status.placement.is_empty() =>
                {
                    held_back.push(action);
                }
                _ => world.carry_out(action),
            }
        }
        world.now = world.now.plus_millis(10);
    }
    held_back
}

/// While the placement of a gang is being written, another scheduler binds one of its pods to its
/// node, and that one fails.
#[test]
fn pods_that_have_slots_do_not_begin_without_the_one_that_replaces_a_pod_that_has_failed() {
    for is_seen_to_run in [true, false] {
        let mut world = World::new(&[("a", 2), ("b", 2)]);
        world.submit_gang(2);
        let mut held_back = settle_without_placement(&mut world);
        assert_eq!((held_back.len(), world.bound()), (1, 0), "its placement is not on record yet");
        let started = Some(world.now);
        world.change("p0", |pod| {
            (pod.phase, pod.node, pod.started) = (Phase::Running, Some("a".into()), started);
        });
        if is_seen_to_run {
            held_back.extend(settle_without_placement(&mut world));
        }
        world.change("p0", |pod| pod.phase = Phase::Failed);
        held_back.extend(settle_without_placement(&mut world));
        world.carry_out_all(held_back);
        world.settle();
        assert_eq!(world.node_of("p1"), None, "p0 is yet to be made again");
        world.submit(of_job(pod("p2", 2), "j"));
        seconds_go_by(&mut world, 3);
        assert!(world.node_of("p1").is_some() && world.node_of("p2").is_some());
    }
}
