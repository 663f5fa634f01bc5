//! Searches for places that give up after the steps that they may take.

use super::*;

/// Eight nodes of four cores. On each of them a pod takes three cores.
const NODES: [(&str, u64); 8] =
    [("n1", 4), ("n2", 4), ("n3", 4), ("n4", 4), ("n5", 4), ("n6", 4), ("n7", 4), ("n8", 4)];

/// Enough steps to place one pod, and fewer than it takes to find out that two do not fit.
const STEPS: u64 = 12;

fn world(queue_policy: crate::QueuePolicy) -> World {
    let settings = CoreSettings { search_steps: STEPS, queue_policy, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &NODES);
    for at in 1..=NODES.len() {
        world.submit(pod(&format!("filler-{at}"), 3));
        world.settle();
    }
    assert_eq!(world.bound(), NODES.len());
    world
}

/// A gang of two pods comes, each of which needs a node of its own.
fn gang_comes(world: &mut World, name: &str, namespace: &str) {
    submit(world, name, namespace, 4);
    world.settle();
}

/// A gang of two pods comes that need this number of cores each.
fn submit(world: &mut World, name: &str, namespace: &str, cores: u64) {
    for at in 0..2 {
        let mut pod = of_group(pod(&format!("{name}-{at}"), cores), name, Ok(2));
        pod.id.key.namespace = Arc::from(namespace);
        world.submit(pod);
    }
}

fn gave_up(world: &World) -> u64 {
    world.core.gauges().placements_not_found
}

#[test]
fn a_namespace_pauses_after_a_search_that_gave_up_and_others_do_not() {
    for policy in [crate::QueuePolicy::Fcfs, crate::QueuePolicy::Easy] {
        let mut world = world(policy);
        gang_comes(&mut world, "first", "ns");
        assert_eq!(gave_up(&world), 1, "{policy:?}");
        let (_, why) = world.blocked("first");
        assert!(why.contains("none was proved impossible"), "{why}");
        gang_comes(&mut world, "second", "ns");
        assert_eq!(gave_up(&world), 1, "{policy:?}: its namespace pauses");
        let (_, why) = world.blocked("second");
        assert!(why.ends_with("the next one is not before 1970-01-01T00:33:41Z"), "{why}");
        world.submit(pod("lone", 1));
        world.settle();
        assert!(world.node_of("lone").is_some(), "{policy:?}: one pod is not kept back");
        gang_comes(&mut world, "third", "elsewhere");
        assert_eq!(gave_up(&world), 2, "{policy:?}: another namespace does not pause");
    }
}

#[test]
fn the_pauses_of_a_namespace_add_up_and_end() {
    let mut world = world(crate::QueuePolicy::Fcfs);
    submit(&mut world, "first", "ns", 4);
    submit(&mut world, "second", "ns", 3);
    world.settle();
    assert_eq!(gave_up(&world), 2, "short searches: both in one walk");
    for filler in ["filler-1", "filler-2"] {
        world.change(filler, |pod| pod.phase = Phase::Succeeded);
    }
    for (seconds, is_there) in [(21, false), (18, false), (2, true)] {
        world.pass_seconds(seconds);
        world.settle();
        assert_eq!(world.node_of("first-0").is_some(), is_there, "{seconds}");
    }
}

#[test]
fn a_search_that_gave_up_is_not_repeated_while_nothing_changes() {
    let mut world = world(crate::QueuePolicy::Fcfs);
    gang_comes(&mut world, "g", "ns");
    for _ in 0..600 {
        world.pass_seconds(1);
        world.settle();
    }
    assert_eq!((gave_up(&world), world.node_of("g-0")), (1, None));
}

#[test]
fn a_search_that_gave_up_is_repeated_after_a_pause_and_a_change() {
    let mut world = world(crate::QueuePolicy::Fcfs);
    gang_comes(&mut world, "g", "ns");
    for filler in ["filler-1", "filler-2"] {
        world.change(filler, |pod| pod.phase = Phase::Succeeded);
    }
    world.pass_seconds(19);
    world.settle();
    assert_eq!((gave_up(&world), world.node_of("g-0")), (1, None));
    world.pass_seconds(2);
    world.settle();
    assert_eq!((world.node_of("g-0"), world.node_of("g-1")), (Some("n1"), Some("n2")));
}
