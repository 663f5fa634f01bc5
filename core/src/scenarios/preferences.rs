//! Pods that would rather be on some nodes than on others.

use fluxqueue_workload::constraints::{NodeSelectorTerm, Operator, PodTerm, Requirement};

use super::neighbours::{constrained, count, gang, labelled, on, racks, spread};
use super::*;
use crate::cluster::Taint;

/// Would rather be apart from its like (below 0), or near to it.
fn rather(pod: Pod, weight: i32, app: &str, key: &str) -> Pod {
    labelled(pod, app, |constraints, pods| {
        constraints.preferred_pods.push((weight, PodTerm { pods, topology_key: key.into() }));
    })
}

fn rather_spread(pod: Pod, app: &str, key: &str) -> Pod {
    let pod = spread(pod, app, key);
    constrained(pod, |constraints| constraints.preferred_spreads = std::mem::take(&mut constraints.spreads))
}

fn rather_on(pod: Pod, weight: i32, key: &str, value: &str) -> Pod {
    let requirement = Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] };
    let term = NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() };
    constrained(pod, |constraints| constraints.preferred.push((weight, term)))
}

#[test]
fn lone_pods_that_prefer_it_are_apart_from_their_like_as_long_as_there_are_nodes() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r1", 8), ("c", "r2", 8)]);
    for at in 0..4 {
        world.submit(rather(pod(&format!("p{at}"), 1), -100, "x", "host"));
    }
    world.settle();
    let mut found: Vec<usize> = ["a", "b", "c"].map(|node| count(&world, 4, node)).into();
    found.sort_unstable();
    assert_eq!(found, [1, 1, 2]);
}

#[test]
fn a_pod_is_where_most_are_that_it_likes_and_that_like_it() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 8), ("c", "r3", 8)]);
    world.submit(rather(on(pod("there", 1), "b"), 10, "x", "rack"));
    world.submit(labelled(pod("liked", 1), "x", |_, _| ()));
    world.settle();
    assert_eq!(world.node_of("liked"), Some("b"), "who is there likes it");
    world.submit(labelled(on(pod("y", 1), "c"), "y", |_, _| ()));
    let both = rather(rather(pod("both", 1), 5, "x", "rack"), 100, "y", "rack");
    world.submit(both);
    world.settle();
    assert_eq!(world.node_of("both"), Some("c"));
}

#[test]
fn a_spread_that_may_be_broken_fills_the_emptiest_domains_and_starts_everybody() {
    let mut world = racks(&[("a1", "a", 8), ("a2", "a", 8), ("b1", "b", 2)]);
    for at in 0..6 {
        world.submit(rather_spread(pod(&format!("p{at}"), 1), "x", "rack"));
    }
    world.settle();
    assert_eq!((count(&world, 6, "a"), count(&world, 6, "b")), (4, 2), "there is no more room on b");
}

#[test]
fn a_heavier_preference_goes_before_a_lighter_one_and_a_disliked_taint_before_both() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 8), ("c", "r3", 8)]);
    let choosy = |name: &str| rather_on(rather_on(pod(name, 1), 80, "rack", "r2"), 30, "rack", "r3");
    world.submit(choosy("p0"));
    world.settle();
    assert_eq!(world.node_of("p0"), Some("b"));
    let node = Node {
        labels: vec![("host".into(), "b".into()), ("rack".into(), "r2".into())],
        taints: vec![Taint { key: "old".into(), value: "".into(), effect: "PreferNoSchedule".into() }],
        ..Node::clone(&node("b", 8))
    };
    world.tell(Event::Node(Arc::new(node)));
    world.submit(choosy("p1"));
    world.settle();
    assert_eq!(world.node_of("p1"), Some("c"));
}

#[test]
fn a_gang_that_prefers_a_rack_starts_there_as_far_as_there_is_room() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 3)]);
    gang(&mut world, 5, |pod| rather_on(pod, 1, "rack", "r2"));
    assert_eq!((count(&world, 5, "a"), count(&world, 5, "b")), (2, 3));
}

#[test]
fn members_count_those_placed_before_them_where_they_would_rather_be() {
    let nodes = [("a", "r1", 8), ("b", "r1", 8), ("c", "r2", 8)];
    let on_nodes = |world: &World, pods: usize| ["a", "b", "c"].map(|node| count(world, pods, node));
    let mut world = racks(&nodes);
    gang(&mut world, 6, |pod| rather(pod, -1, "x", "host"));
    assert_eq!(on_nodes(&world, 6), [2, 2, 2], "apart");
    let mut world = racks(&nodes);
    gang(&mut world, 6, |pod| rather_spread(pod, "x", "rack"));
    assert_eq!(count(&world, 6, "c"), 3, "as many in each rack");
    let mut world = racks(&nodes);
    world.submit(labelled(on(pod("there", 1), "c"), "x", |_, _| ()));
    gang(&mut world, 6, |pod| rather(pod, 100, "x", "host"));
    assert_eq!(on_nodes(&world, 6), [0, 0, 6], "near");
}

#[test]
fn members_weigh_where_they_like_to_be_against_whom_they_would_meet_there() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 8), ("c", "r3", 8)]);
    gang(&mut world, 5, |pod| rather(rather_on(pod, 1, "rack", "r2"), -100, "x", "host"));
    // A node that is liked most is worth as much as two whom a pod would rather not meet.
    assert_eq!(["a", "b", "c"].map(|node| count(&world, 5, node)), [1, 3, 1]);
}

#[test]
fn a_gang_starts_though_its_members_meet_where_they_would_rather_not() {
    let mut world = racks(&[("a", "r1", 1), ("b", "r2", 4)]);
    gang(&mut world, 5, |pod| rather(rather_spread(pod, "x", "rack"), -100, "x", "host"));
    assert_eq!((count(&world, 5, "a"), count(&world, 5, "b")), (1, 4));
}
