//! Pods that counted as lone until the object that makes them one job was seen.

use super::lone_pods::names;
use super::*;

/// Two pods wait for room. Their Job was not seen for so long that they count as lone, and are on
/// record so.
fn counted_as_lone() -> World {
    let mut world = World::new(&[("a", 1), ("b", 1)]);
    for name in ["runs", "runs-too"] {
        world.submit(pod(name, 1));
    }
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    world.pass_seconds(31);
    world.settle();
    assert_eq!(names(&world), ["p0", "p1", "runs", "runs-too"]);
    world
}

fn end(world: &mut World, pod: &str) {
    world.change(pod, |pod| pod.phase = Phase::Succeeded);
    world.settle();
}

#[test]
fn pods_whose_job_is_seen_late_start_together() {
    let mut world = counted_as_lone();
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.settle();
    end(&mut world, "runs");
    assert_eq!(world.bound(), 2, "there is room for one of them");
    end(&mut world, "runs-too");
    assert!(world.node_of("p0").is_some() && world.node_of("p1").is_some());
}

#[test]
fn who_is_of_a_job_after_all_has_no_flux_job_of_its_own() {
    let mut world = counted_as_lone();
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.settle();
    world.pass_seconds(6);
    world.settle();
    assert_eq!(names(&world), ["j", "runs", "runs-too"]);
    world.change("p0", |pod| pod.owner = None);
    world.settle();
    world.pass_seconds(6);
    world.settle();
    assert_eq!(names(&world), ["j", "p0", "runs", "runs-too"], "it counts as lone again");
}

#[test]
fn the_flux_job_of_a_pod_that_is_of_a_job_for_the_next_process_is_removed_by_that() {
    let mut world = counted_as_lone();
    world.restart();
    world.list(&[("a", 1), ("b", 1)], &[]);
    world.settle();
    world.pass_seconds(10);
    world.settle();
    assert_eq!(
        names(&world),
        ["p0", "p1", "runs", "runs-too"],
        "nobody knows yet what they are a part of"
    );
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.settle();
    world.pass_seconds(6);
    world.settle();
    assert_eq!(names(&world), ["j", "runs", "runs-too"]);
}
