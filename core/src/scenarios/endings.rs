//! What becomes of the slots of pods that end.

use super::*;

#[test]
fn a_slot_passes_to_the_next_pod_of_its_job() {
    let mut world = World::new(&[("a", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 4))));
    world.submit(of_job(pod("p0", 1), "j"));
    world.submit(of_job(pod("p1", 1), "j"));
    world.settle();
    world.submit(pod("other", 1));
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("other"), None, "the slot is the job's");
    world.submit(of_job(pod("p2", 1), "j"));
    world.settle();
    assert_eq!((world.node_of("p2"), world.node_of("other")), (Some("a"), None));
    // The controller takes too long: the slot is given back.
    world.change("p1", |pod| pod.phase = Phase::Failed);
    world.settle();
    world.pass_seconds(16);
    world.settle();
    assert_eq!(world.node_of("other"), Some("a"));
}

#[test]
fn an_ended_gang_shows_the_nodes_of_all_its_pods() {
    let mut world = World::new(&[("a", 2), ("b", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 2), "j"));
    }
    world.settle();
    let nodes = |world: &World| {
        let status = world.record("j").status.as_ref();
        status.and_then(|status| status.display_nodes.clone()).unwrap_or_default()
    };
    assert_eq!(nodes(&world), "a,b");
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(nodes(&world), "b", "its first pod has ended");
    world.change("p1", |pod| pod.phase = Phase::Succeeded);
    world.tell(Event::Controller(Arc::new(succeeded_job("j", 2))));
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Completed));
    assert_eq!(nodes(&world), "a,b", "it has ended");
}

#[test]
fn a_succeeded_rank_that_nobody_follows_frees_its_share_alone() {
    let mut world = World::new(&[("a", 2)]);
    world.submit_gang(1);
    world.settle();
    world.submit(pod("x", 1));
    world.submit(pod("y", 1));
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("x"), world.node_of("y")), (Some("a"), None));
}

#[test]
fn everything_is_free_again_when_everything_is_gone() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for name in ["p0", "p1", "p2", "p3"] {
        world.submit(of_job(pod(name, 2), "j"));
    }
    world.settle();
    assert_eq!(world.bound(), 4);
    world.tell(Event::ControllerGone("uid-j".into()));
    for name in ["p0", "p1", "p2", "p3"] {
        world.delete(name);
    }
    world.settle();
    for name in ["a-filler", "b-filler"] {
        world.submit(pod(name, 4));
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    assert_eq!(world.core.gauges().graph_errors, 0);
}

#[test]
fn a_graph_that_has_seen_many_nodes_go_is_made_anew() {
    let mut world = World::new(&[("stays", 4)]);
    world.submit(pod("p", 3));
    world.settle();
    for at in 0..=10_000 {
        let passing = node(&format!("passing-{at}"), 4);
        world.tell(Event::Node(Arc::clone(&passing)));
        world.tell(Event::NodeGone(passing.name.clone(), passing.uid.clone()));
    }
    assert!(world.core.planner.ledger.needs_rebuild(&world.core.planner.cluster));
    world.pass_seconds(11);
    world.settle();
    assert!(!world.core.planner.ledger.needs_rebuild(&world.core.planner.cluster));
    // The taken room still is taken.
    world.submit(pod("fits", 1));
    world.settle();
    world.submit(pod("too-much", 1));
    world.settle();
    assert_eq!(world.bound(), 2);
}
