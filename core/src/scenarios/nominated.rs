//! Pods that others nominate to nodes: those of other schedulers, and our own.

use super::neighbours::{apart, labels, near, on, racks, spread};
use super::preferences::rather_on;
use super::*;

fn nominated(pod: Pod, node: &str) -> Pod {
    Pod { nominated: Some(node.into()), scheduler: "other".into(), ..pod }
}

#[test]
fn nobody_is_near_to_a_pod_that_is_only_nominated() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 8)]);
    let leader = Pod { labels: labels("x"), ..nominated(pod("leads", 1), "b") };
    world.submit(leader);
    world.submit(Pod { labels: labels("y"), ..near(pod("follows", 1), "x", "rack") });
    world.settle();
    let why = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.";
    assert_eq!((world.node_of("follows"), world.blocked("follows").1.as_str()), (None, why));
    world.change("leads", |pod| pod.node = Some("b".into()));
    world.settle();
    assert_eq!(world.node_of("follows"), Some("b"));
}

#[test]
fn the_first_of_its_like_need_not_join_one_that_is_only_nominated() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 1)]);
    world.submit(Pod { labels: labels("x"), ..nominated(pod("leads", 1), "b") });
    world.submit(near(pod("first", 1), "x", "rack"));
    world.settle();
    assert_eq!(world.node_of("first"), Some("a"));
}

#[test]
fn a_nominated_pod_closes_its_own_node_to_those_that_are_to_be_apart_from_it() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r1", 8)]);
    world.submit(Pod { labels: labels("x"), ..nominated(pod("theirs", 1), "a") });
    world.submit(apart(pod("ours", 1), "x", "rack"));
    world.settle();
    assert_eq!(world.node_of("ours"), Some("b"), "it may yet go elsewhere than to the rack");
    world.submit(Pod { labels: labels("y"), ..apart(pod("more", 1), "x", "host") });
    world.settle();
    assert_eq!(world.node_of("more"), None, "there is one on each node, or may be soon");
    world.change("theirs", |pod| pod.nominated = None);
    world.settle();
    assert_eq!(world.node_of("more"), Some("a"));
}

#[test]
fn a_nominated_pod_keeps_others_off_its_own_node() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r1", 8)]);
    let theirs = Pod { lifetime: Lifetime::Endless, ..apart(pod("theirs", 1), "x", "rack") };
    world.submit(nominated(theirs, "a"));
    for name in ["p0", "p1"] {
        world.submit(Pod { labels: labels("x"), ..pod(name, 4) });
    }
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("b"), Some("b")));
    world.submit(Pod { labels: labels("x"), ..pod("p2", 1) });
    world.settle();
    assert_eq!(world.node_of("p2"), None);
    world.change("theirs", |pod| pod.node = pod.nominated.take());
    world.submit(Pod { labels: labels("y"), ..pod("p3", 1) });
    world.settle();
    assert_eq!((world.node_of("p2"), world.node_of("p3")), (None, Some("a")));
    world.delete("theirs");
    world.settle();
    assert_eq!(world.node_of("p2"), Some("a"));
}

#[test]
fn spread_counts_a_nominated_pod_on_its_own_node_and_never_in_favour_of_another() {
    let mut world = racks(&[("a", "r1", 8), ("a2", "r1", 8), ("b", "r2", 2)]);
    world.submit(Pod { labels: labels("x"), ..on(pod("there", 1), "a2") });
    world.submit(Pod { labels: labels("x"), ..nominated(pod("theirs", 2), "b") });
    // With the nominated pod each rack would have one, and the next might go anywhere: without it
    // r1 is ahead.
    world.submit(spread(pod("p0", 1), "x", "rack"));
    world.settle();
    assert_eq!(world.node_of("p0"), None);
    world.change("theirs", |pod| pod.nominated = Some("a".into()));
    world.settle();
    assert_eq!(world.node_of("p0"), Some("b"));
    // r1 may have one more, but for the node to which one is nominated.
    world.submit(spread(pod("p1", 8 - 1), "x", "rack"));
    world.settle();
    assert_eq!(world.node_of("p1"), Some("a2"));
}

#[test]
fn a_lone_pod_goes_to_the_node_that_it_is_nominated_to_if_that_takes_it() {
    let names = ["a", "b", "c", "d"];
    for name in names {
        let mut world = World::new(&names.map(|name| (name, 8)));
        world.submit(Pod { nominated: Some(name.into()), ..pod("ours", 1) });
        world.settle();
        assert_eq!(world.node_of("ours"), Some(name));
    }
    let mut world = World::new(&names.map(|name| (name, 8)));
    world.submit(on(pod("theirs", 8), "b"));
    for (name, node) in [("p0", "b"), ("p1", "nowhere")] {
        world.submit(Pod { nominated: Some(node.into()), ..pod(name, 1) });
    }
    world.settle();
    assert!(world.node_of("p0").is_some() && world.node_of("p1").is_some(), "others do as well");
}

#[test]
fn the_node_that_a_pod_is_nominated_to_comes_before_those_that_it_would_rather_have() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 8)]);
    world.submit(Pod { nominated: Some("b".into()), ..rather_on(pod("p0", 1), 100, "rack", "r1") });
    world.submit(rather_on(pod("p1", 1), 100, "rack", "r1"));
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("b"), Some("a")));
}

#[test]
fn room_for_a_nominated_pod_is_kept_whatever_its_priority() {
    let mut world = World::new(&[("a", 8)]);
    world.submit(Pod { priority: 1, ..nominated(pod("theirs", 8), "a") });
    world.submit(Pod { priority: 10, ..pod("ours", 1) });
    world.settle();
    assert_eq!(world.node_of("ours"), None);
    world.change("theirs", |pod| pod.nominated = None);
    world.settle();
    assert_eq!(world.node_of("ours"), Some("a"));
}
