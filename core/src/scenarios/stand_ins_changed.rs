//! Suspended jobs that are held, changed or gone while they wait by stand-ins.

use super::stand_ins::{marked, pods_of};
use super::*;

#[test]
fn a_held_job_is_not_released() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("busy", 4));
    world.settle();
    world.submit_job(marked("j", 1, 3));
    world.settle();
    world.edit("j", |spec| spec.overrides.hold = true);
    world.delete("busy");
    world.settle();
    assert_eq!((world.is_released("j"), world.state("j")), (false, Some(JobState::Held)));
    world.edit("j", |spec| spec.overrides.hold = false);
    world.settle();
    assert!(world.is_released("j"));
}

#[test]
fn a_job_that_wants_others_or_goes_takes_its_stand_ins_along() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("busy", 2));
    world.settle();
    world.submit_job(marked("j", 3, 1));
    world.settle();
    assert!(!world.is_released("j"));
    world.change_job("j", |job| {
        *job = Controller { wants: 2, parallelism: 2, can_start_together: 2, ..job.clone() }
    });
    world.settle();
    assert!(world.is_released("j"));
    assert_eq!(world.placement_on_record("j").len(), 2);
    let gone = world.jobs.remove("j").expect("it is there");
    world.tell(Event::ControllerGone(gone.id.uid));
    world.submit(pod("next", 2));
    world.settle();
    assert_eq!(world.node_of("next"), Some("a"));
}

#[test]
fn stand_ins_have_the_priority_that_the_pods_will_have() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("busy", 4));
    world.settle();
    let mut late = marked("late", 1, 4);
    late.suspension.as_mut().expect("it is marked").priority_class = Some(Arc::from("high"));
    world.submit_job(marked("early", 1, 4));
    world.submit_job(late);
    world.settle();
    world.delete("busy");
    world.settle();
    assert!(world.is_released("late") && !world.is_released("early"));
    assert_eq!(world.record("late").status.as_ref().and_then(|status| status.priority), Some(5));
    let default =
        PriorityClass { is_default: true, ..PriorityClass::clone(&priority_class("usual", 3)) };
    world.tell(Event::PriorityClass(Arc::new(default)));
    world.settle();
    assert_eq!(world.record("early").status.as_ref().and_then(|status| status.priority), Some(3));
}

#[test]
fn a_place_that_goes_while_it_is_held_leaves_a_gang_that_waits() {
    let mut world = World::new(&[("a", 4)]);
    world.submit_job(marked("j", 1, 3));
    world.settle();
    world.tell(Event::NodeGone("a".into(), "uid-a".into()));
    world.settle();
    world.submit(pods_of("j", 1, 3).remove(0));
    world.settle();
    assert_eq!(world.bound(), 0);
    world.tell(Event::Node(node("b", 4)));
    world.pass_seconds(2);
    world.settle();
    assert_eq!(world.node_of("j-pod-0"), Some("b"));
}

#[test]
fn a_suspended_job_that_asks_for_nodes_alone_has_them_before_its_pods_are_there() {
    let nodes = [("a", 4), ("b", 4), ("c", 4)];
    for by_maker in [false, true] {
        let mut world = World::new(&nodes);
        world.submit(pod("x", 1));
        world.settle();
        assert_eq!(world.node_of("x"), Some("a"));
        let alone = |pod: Pod| Pod { exclusive: Some(true), ..pod };
        let mut waiting = marked("j", 2, 1);
        if by_maker {
            waiting.exclusive = Ok(Some(true));
        } else {
            let suspension = waiting.suspension.as_mut().expect("it is suspended");
            suspension.sample = alone(suspension.sample.clone());
        }
        world.submit_job(waiting);
        world.settle();
        assert!(world.is_released("j"));
        assert_eq!(world.placement_on_record("j"), ["b", "b"], "both on one node that nobody uses");
        // The place is held for the pods that come, and for no others.
        for name in ["y0", "y1", "y2", "y3"] {
            world.submit(pod(name, 2));
        }
        world.settle();
        let of_others = |world: &World| {
            (0..4)
                .filter_map(|at| world.node_of(&format!("y{at}")).map(str::to_owned))
                .collect::<Vec<_>>()
        };
        assert_eq!(of_others(&world), ["a", "c", "c"]);
        world.succeed(&nodes);
        world.settle();
        assert_eq!(of_others(&world), ["a", "c", "c"], "a restart keeps it so");
        for pod in pods_of("j", 2, 1) {
            world.submit(if by_maker { pod } else { alone(pod) });
        }
        world.settle();
        assert_eq!((world.node_of("j-pod-0"), world.node_of("j-pod-1")), (Some("b"), Some("b")));
        assert_eq!(of_others(&world), ["a", "c", "c"]);
        assert_eq!(world.core.gauges().placements_withdrawn, 0);
    }
}

/// One stand-in stood for both pods; each of these stands for itself.
#[test]
fn a_job_that_loses_its_mark_while_it_waits_asks_for_its_pods_once() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("first", 4));
    world.settle();
    world.submit_job(marked("j", 2, 2));
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Pending));
    world.submit_job(job("j", 2, 2));
    for pod in pods_of("j", 2, 2) {
        world.submit(pod);
    }
    world.change("first", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.bound(), world.state("j")), (3, Some(JobState::Running)));
}
