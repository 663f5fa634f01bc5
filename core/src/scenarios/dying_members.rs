//! Pods that stop, or have ended, are no members: the pods that a gang is given after them start
//! together or not at all.

use super::*;
use crate::QueuePolicy;

const NODES: [(&str, u64); 4] = [("a", 4), ("b", 4), ("c", 4), ("d", 4)];
const OLD: [&str; 4] = ["p0", "p1", "p2", "p3"];
const NEW: [&str; 4] = ["q0", "q1", "q2", "q3"];

fn stop(world: &mut World, pods: &[&str]) {
    for name in pods {
        world.change(name, |pod| pod.deleting = true);
    }
}

fn delete_all(world: &mut World, pods: &[&str]) {
    for name in pods {
        world.delete(name);
    }
    world.settle();
}

fn on_nodes(world: &World, pods: &[&str]) -> usize {
    pods.iter().filter(|name| world.node_of(name).is_some()).count()
}

fn seconds_go_by(world: &mut World, seconds: i64) {
    for _ in 0..seconds {
        world.pass_seconds(1);
        world.settle();
    }
}

fn urgent(name: &str, cores: u64) -> Pod {
    Pod { priority: 1000, ..pod(name, cores) }
}

/// A Job of four pods, a node each, that was suspended and resumed: its old pods still stop, and
/// the new ones are there.
fn resumed(queue_policy: QueuePolicy) -> World {
    let mut world =
        World::told(CoreSettings { queue_policy, ..settings() }, FunctionTable::builtin(), &NODES);
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for name in OLD {
        world.submit(of_job(pod(name, 4), "j"));
    }
    world.settle();
    assert_eq!(world.bound(), 4);
    world.tell(Event::Controller(Arc::new(Controller { wants: 0, ..job("j", 4, 4) })));
    stop(&mut world, &OLD);
    world.settle();
    world.pass_seconds(1);
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for name in NEW {
        world.submit(of_job(pod(name, 4), "j"));
    }
    world.settle();
    world
}

#[test]
fn a_job_that_is_resumed_while_its_old_pods_stop_starts_whole_or_not_at_all() {
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Conservative] {
        for is_restarted in [false, true] {
            let mut world = resumed(policy);
            assert_eq!(
                (on_nodes(&world, &NEW), world.state("j")),
                (0, Some(JobState::Pending)),
                "{policy:?}"
            );
            for (at, name) in OLD.iter().enumerate() {
                delete_all(&mut world, &[name]);
                if is_restarted {
                    world.restart();
                    world.list(&NODES, &[job("j", 4, 4)]);
                }
                seconds_go_by(&mut world, 2);
                let expected = if at == 3 { 4 } else { 0 };
                assert_eq!(
                    on_nodes(&world, &NEW),
                    expected,
                    "{policy:?}, restarted {is_restarted}: {name} is gone"
                );
            }
            let status = world.record("j").status.clone().expect("a status");
            assert_eq!(
                (status.display_size.as_deref(), status.state),
                (Some("4/4"), Some(JobState::Running))
            );
            assert_eq!(planned(&status.placement).len(), 4);
        }
    }
}

#[test]
fn an_old_pod_that_says_how_it_ended_leaves_no_slot_to_a_new_one() {
    let mut world = resumed(QueuePolicy::Easy);
    for (name, phase) in [("p0", Phase::Failed), ("p1", Phase::Succeeded)] {
        world.change(name, |pod| pod.phase = phase);
        world.settle();
        assert_eq!(on_nodes(&world, &NEW), 0, "{name} has ended");
    }
}

#[test]
fn a_resumed_job_starts_in_its_place_and_not_before_one_of_higher_priority() {
    let mut world = resumed(QueuePolicy::Easy);
    world.submit(urgent("urgent", 4));
    world.settle();
    delete_all(&mut world, &["p0"]);
    assert_eq!(world.node_of("urgent"), Some("a"));
    delete_all(&mut world, &["p1", "p2", "p3"]);
    seconds_go_by(&mut world, 60);
    assert_eq!(on_nodes(&world, &NEW), 0, "there is room for three of four");
    world.change("urgent", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(on_nodes(&world, &NEW), 4);
}

/// `podReplacementPolicy: Failed`: the Job makes a pod when one has stopped for good.
#[test]
fn pods_that_are_made_as_the_old_ones_go_wait_for_each_other() {
    let mut world = World::new(&NODES);
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for name in OLD {
        world.submit(of_job(pod(name, 4), "j"));
    }
    world.settle();
    stop(&mut world, &OLD);
    for (at, (old, new)) in OLD.iter().zip(NEW).enumerate() {
        world.change(old, |pod| pod.phase = Phase::Failed);
        world.submit(of_job(pod(new, 4), "j"));
        world.settle();
        assert_eq!(on_nodes(&world, &NEW), if at == 3 { 4 } else { 0 }, "{new} is there");
    }
}

/// Its other pods go on: it is not a new start.
#[test]
fn one_pod_that_is_replaced_joins_those_that_go_on() {
    let mut world = World::new(&[("a", 4), ("b", 4), ("c", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 4), "j"));
    }
    world.settle();
    stop(&mut world, &["p0"]);
    world.submit(of_job(pod("q0", 4), "j"));
    world.settle();
    assert_eq!(world.node_of("q0"), Some("c"), "there is room beside the pod that stops");
    assert_eq!(
        world.record("j").status.as_ref().and_then(|status| status.display_size.as_deref()),
        Some("2/2")
    );
}

fn nightly(name: &str) -> Pod {
    of_group(pod(name, 3), "nightly", Ok(4))
}

fn second_job() -> Controller {
    let id = ObjectRef { key: ObjectKey::new("ns", "nightly"), uid: Uid::from("uid-second") };
    Controller { id, ..job("nightly", 4, 4) }
}

fn of_second_job(name: &str) -> Pod {
    let mut pod = of_job(nightly(name), "nightly");
    pod.owner.as_mut().expect("its Job").uid = Uid::from("uid-second");
    pod
}

/// A Job with group labels was deleted and made again under its name. Its old pods have been asked
/// to stop, or will be.
fn made_again(are_told: bool) -> World {
    let mut world = World::new(&NODES);
    world.tell(Event::Controller(Arc::new(job("nightly", 4, 4))));
    for name in OLD {
        world.submit(of_job(nightly(name), "nightly"));
    }
    world.settle();
    assert_eq!(world.bound(), 4);
    world.tell(Event::ControllerGone("uid-nightly".into()));
    if are_told {
        stop(&mut world, &OLD);
    }
    world.tell(Event::Controller(Arc::new(second_job())));
    for name in NEW {
        world.submit(of_second_job(name));
    }
    world.settle();
    world
}

#[test]
fn a_group_that_is_made_again_under_its_name_starts_whole_or_not_at_all() {
    for are_told in [true, false] {
        let mut world = made_again(are_told);
        seconds_go_by(&mut world, 5);
        assert_eq!(on_nodes(&world, &NEW), 0, "told {are_told}");
        stop(&mut world, &OLD);
        delete_all(&mut world, &["p0"]);
        seconds_go_by(&mut world, 5);
        assert_eq!(on_nodes(&world, &NEW), 0, "told {are_told}: one of the old pods has gone");
        // One node is not for it any more when the others have gone.
        world.tell(Event::Node(Arc::new(Node {
            unschedulable: true,
            ..Node::clone(&node("d", 4))
        })));
        delete_all(&mut world, &["p1", "p2", "p3"]);
        seconds_go_by(&mut world, 5);
        let status = world.record("nightly").status.clone().expect("a status");
        assert_eq!(
            (on_nodes(&world, &NEW), status.display_size.as_deref()),
            (0, Some("0/4")),
            "told {are_told}"
        );
        world.tell(Event::Node(node("d", 4)));
        world.settle();
        assert_eq!(on_nodes(&world, &NEW), 4, "told {are_told}");
    }
}

/// The first of two Jobs is there again while pods of the second still stop.
#[test]
fn a_group_of_two_jobs_of_which_one_is_there_again_waits_for_the_other() {
    let train = |pod: Pod, of: &str| of_group(of_job(pod, of), "train", Ok(4));
    let again = |name: &str| {
        let id =
            ObjectRef { key: ObjectKey::new("ns", name), uid: Uid::from(format!("uid-{name}-2")) };
        Controller { id, ..job(name, 2, 2) }
    };
    let of_again = |pod: Pod, of: &str| {
        let mut pod = train(pod, of);
        pod.owner.as_mut().expect("its Job").uid = Uid::from(format!("uid-{of}-2"));
        pod
    };
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    for of in ["w0", "w1"] {
        world.tell(Event::Controller(Arc::new(job(of, 2, 2))));
    }
    for (name, of) in [("p0", "w0"), ("p1", "w0"), ("p2", "w1"), ("p3", "w1")] {
        world.submit(train(pod(name, 2), of));
    }
    world.settle();
    assert_eq!(world.bound(), 4);
    for of in ["w0", "w1"] {
        world.tell(Event::Controller(Arc::new(Controller { deleting: true, ..job(of, 2, 2) })));
    }
    stop(&mut world, &OLD);
    delete_all(&mut world, &["p0", "p1"]);
    world.tell(Event::ControllerGone("uid-w0".into()));
    world.submit(urgent("urgent", 4));
    world.tell(Event::Controller(Arc::new(again("w0"))));
    for name in ["q0", "q1"] {
        world.submit(of_again(pod(name, 2), "w0"));
    }
    seconds_go_by(&mut world, 20);
    let said = world.blocked("train");
    assert_eq!(
        (on_nodes(&world, &NEW[..2]), &*said.0),
        (0, "Incomplete"),
        "the old pods still stop: {}",
        said.1
    );
    delete_all(&mut world, &["p2", "p3"]);
    world.tell(Event::ControllerGone("uid-w1".into()));
    world.pass_seconds(1);
    world.tell(Event::Controller(Arc::new(again("w1"))));
    for name in ["q2", "q3"] {
        world.submit(of_again(pod(name, 2), "w1"));
    }
    seconds_go_by(&mut world, 20);
    assert_eq!((world.node_of("urgent").is_some(), on_nodes(&world, &NEW)), (true, 0));
    world.change("urgent", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(on_nodes(&world, &NEW), 4);
}

/// Another object of a kind that is not known makes pods of the same group while those of the first
/// still stop.
#[test]
fn a_second_cluster_of_the_same_group_label_starts_whole_or_not_at_all() {
    let of = |name: &str, cluster: &str| {
        let (cluster, uid) = (Arc::from(cluster), Uid::from(format!("uid-{cluster}")));
        let owner = Owner {
            kind: OwnerKind::Other("RayCluster".into()),
            name: cluster,
            uid,
            api_version: Arc::from("ray.io/v1"),
        };
        Pod { owner: Some(owner), ..of_group(pod(name, 4), "study", Ok(3)) }
    };
    let mut world = World::new(&NODES);
    for name in &OLD[..3] {
        world.submit(of(name, "first"));
    }
    world.settle();
    assert_eq!(world.bound(), 3);
    stop(&mut world, &OLD[..3]);
    for name in &NEW[..3] {
        world.submit(of(name, "second"));
    }
    seconds_go_by(&mut world, 10);
    assert_eq!(on_nodes(&world, &NEW), 0, "one node is idle");
    delete_all(&mut world, &["p0"]);
    assert_eq!(on_nodes(&world, &NEW), 0);
    delete_all(&mut world, &["p1"]);
    assert_eq!(on_nodes(&world, &NEW), 3);
}

/// All pods of a Job fail at once, and one of their nodes is gone: two of three slots are kept.
#[test]
fn a_gang_of_which_nothing_is_left_does_not_start_by_halves_in_kept_slots() {
    let mut world = World::new(&[("a", 4), ("b", 4), ("c", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
    for name in &OLD[..3] {
        world.submit(of_job(pod(name, 4), "j"));
    }
    world.settle();
    assert_eq!(world.bound(), 3);
    for name in &OLD[..3] {
        world.change(name, |pod| pod.phase = Phase::Failed);
    }
    world.tell(Event::NodeGone("c".into(), "uid-c".into()));
    world.settle();
    for name in &NEW[..3] {
        world.submit(of_job(pod(name, 4), "j"));
        world.settle();
    }
    assert_eq!(on_nodes(&world, &NEW), 0);
    world.tell(Event::Node(node("d", 4)));
    world.settle();
    assert_eq!(on_nodes(&world, &NEW), 3);
}

/// They are there one after the other; the last one finds that all have a slot.
#[test]
fn a_gang_of_which_nothing_is_left_starts_in_its_kept_slots() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in &OLD[..2] {
        world.submit(of_job(pod(name, 4), "j"));
    }
    world.settle();
    for name in &OLD[..2] {
        world.change(name, |pod| pod.phase = Phase::Failed);
    }
    world.settle();
    world.submit(urgent("urgent", 4));
    world.submit(of_job(pod("q0", 4), "j"));
    world.settle();
    assert_eq!(on_nodes(&world, &NEW), 0, "the other one is missing");
    world.submit(of_job(pod("q1", 4), "j"));
    world.settle();
    assert_eq!((on_nodes(&world, &NEW), world.node_of("urgent")), (2, None));
}

/// A pod of bare pods that start together ends on its node before the others are bound.
#[test]
fn a_gang_of_which_a_pod_ends_at_once_has_begun_all_the_same() {
    let ends = [
        Phase::Succeeded,
        Phase::Failed,
        Phase::Refused { reason: "OutOfcpu".into() },
        Phase::Disrupted { reason: "EvictionByEvictionAPI".into() },
    ];
    for end in ends {
        let mut world = World::new(&NODES);
        for name in &OLD[..3] {
            world.submit(of_group(pod(name, 4), "g", Ok(3)));
        }
        let actions = loop {
            let actions = world.step();
            if binds(&actions) > 0 {
                break actions;
            }
            world.carry_out_all(actions);
        };
        for action in actions {
            world.carry_out(action);
            // The first pod to be bound has ended before the next one is bound.
            if let ([(name, _)], true) = (&world.bindings[..], world.bound() == 1) {
                world.change(&name.clone(), |pod| pod.phase = end.clone());
            }
        }
        world.settle();
        seconds_go_by(&mut world, 70);
        let status = world.record("g").status.clone().expect("a status");
        assert_eq!(
            (status.state, status.display_size.as_deref()),
            (Some(JobState::Running), Some("2/2")),
            "{end:?}"
        );
        let degraded = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Degraded")
            .expect("it is placed");
        assert_eq!(degraded.status, "False", "{end:?}: {}", degraded.message);
    }
}

#[test]
fn a_pod_that_was_drained_is_no_refusal_of_its_node() {
    for by in ["EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager"] {
        let mut world = World::new(&[("a", 4)]);
        world.submit(pod("p", 4));
        world.settle();
        world.change("p", |pod| pod.phase = Phase::Disrupted { reason: by.into() });
        world.submit(pod("next", 4));
        world.settle();
        assert_eq!(
            (world.core.gauges().kubelet_refusals, world.node_of("next")),
            (0, Some("a")),
            "{by}"
        );
    }
}

/// A node with a kubelet that refuses each pod, since the node lacks resources that it reports, is
/// left alone for longer each time, and named.
#[test]
fn a_node_that_goes_on_refusing_pods_is_left_alone_for_longer_and_named() {
    let mut world = World::new(&[("a", 4)]);
    let refuse = |world: &mut World, name: &str, seconds: i64| {
        let mut waited = 0;
        world.submit(pod(name, 4));
        world.settle();
        while world.node_of(name).is_none() {
            seconds_go_by(world, 1);
            waited += 1;
        }
        assert_eq!(waited, seconds, "{name}");
        world.change(name, |pod| pod.phase = Phase::Refused { reason: "OutOfcpu".into() });
        world.settle();
    };
    for (at, seconds) in [0, 2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
        refuse(&mut world, &format!("p{at}"), seconds);
    }
    assert_eq!(
        world.notes.iter().filter(|reason| *reason == "NodeRefusesPods").count(),
        1,
        "{:?}",
        world.texts
    );
    // One that runs there mends that.
    seconds_go_by(&mut world, 61);
    world.submit(pod("runs", 4));
    world.settle();
    world.change("runs", |pod| pod.phase = Phase::Running);
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    refuse(&mut world, "first", 0);
    refuse(&mut world, "second", 2);
}
