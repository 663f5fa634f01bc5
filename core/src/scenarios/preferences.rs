//! Pods that would rather be on some nodes than on others.

use fluxqueue_workload::constraints::{NodeSelectorTerm, Operator, PodTerm, Requirement};

use super::neighbours::{constrained, count, gang, labelled, on, racks, spread};
use super::*;
use fluxqueue_machine::cluster::Taint;

/// Would rather be apart from its like (below 0), or near to it.
fn rather(pod: Pod, weight: i32, app: &str, key: &str) -> Pod {
    labelled(pod, app, |constraints, pods| {
        constraints.preferred_pods.push((weight, PodTerm { pods, topology_key: key.into() }));
    })
}

fn rather_spread(pod: Pod, app: &str, key: &str) -> Pod {
    let pod = spread(pod, app, key);
    constrained(pod, |constraints| {
        constraints.preferred_spreads = std::mem::take(&mut constraints.spreads);
    })
}

pub(super) fn rather_on(pod: Pod, weight: i32, key: &str, value: &str) -> Pod {
    let requirement =
        Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] };
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
    assert_eq!(
        (count(&world, 6, "a"), count(&world, 6, "b")),
        (4, 2),
        "there is no more room on b"
    );
}

#[test]
fn a_heavier_preference_goes_before_a_lighter_one_and_a_disliked_taint_before_both() {
    let mut world = racks(&[("a", "r1", 8), ("b", "r2", 8), ("c", "r3", 8)]);
    let choosy =
        |name: &str| rather_on(rather_on(pod(name, 1), 80, "rack", "r2"), 30, "rack", "r3");
    world.submit(choosy("p0"));
    world.settle();
    assert_eq!(world.node_of("p0"), Some("b"));
    let node = Node {
        labels: vec![("host".into(), "b".into()), ("rack".into(), "r2".into())],
        taints: vec![Taint {
            key: "old".into(),
            value: "".into(),
            effect: "PreferNoSchedule".into(),
        }],
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
    let on_nodes =
        |world: &World, pods: usize| ["a", "b", "c"].map(|node| count(world, pods, node));
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
    // The node that a pod likes most is worth as much as two pods that it would rather not meet.
    assert_eq!(["a", "b", "c"].map(|node| count(&world, 5, node)), [1, 3, 1]);
}

#[test]
fn a_gang_starts_though_its_members_meet_where_they_would_rather_not() {
    let mut world = racks(&[("a", "r1", 1), ("b", "r2", 4)]);
    gang(&mut world, 5, |pod| rather(rather_spread(pod, "x", "rack"), -100, "x", "host"));
    assert_eq!((count(&world, 5, "a"), count(&world, 5, "b")), (1, 4));
}

#[test]
fn each_member_is_where_its_racks_and_rows_are_least_crowded_by_those_before_it() {
    for seed in 0..120_u64 {
        // Numbers that look random, the same each time.
        let drawn = |what: u64, below: u64| {
            (seed * 7_919 + what * 104_729).wrapping_mul(2_654_435_761) % 1_009 % below
        };
        // Rows cross racks, or are nodes.
        let row = |at: u64| if seed % 2 == 0 { drawn(300 + at, 5) } else { at };
        let nodes: Vec<([u64; 2], u64)> = (0..4 + drawn(0, 9))
            .map(|at| ([drawn(100 + at, 4), row(at)], 1 + drawn(200 + at, 4)))
            .collect();
        let mut world = World::new(&[]);
        for (at, ([rack, row], cores)) in nodes.iter().enumerate() {
            let labels = vec![
                ("rack".into(), rack.to_string().into()),
                ("row".into(), row.to_string().into()),
            ];
            let plain = Node::clone(&node(&format!("{rack}-{row}-{at}"), *cores));
            world.tell(Event::Node(Arc::new(Node { labels, ..plain })));
        }
        let mut used = vec![0; nodes.len()];
        if drawn(1, 2) == 0 {
            let ([rack, row], _) = nodes[1];
            world.submit(labelled(on(pod("there", 1), &format!("{rack}-{row}-1")), "x", |_, _| ()));
            used[1] = 1;
        }
        let per_row = 1 + drawn(2, 100);
        let rooms: u64 = nodes.iter().map(|(_, cores)| cores).sum();
        let pods = (rooms - 1).min(12);
        let mut expected: BTreeMap<[u64; 2], usize> = BTreeMap::new();
        for _ in 0..pods {
            let there = |of: usize, value: u64| -> u64 {
                nodes
                    .iter()
                    .zip(&used)
                    .filter(|((of_node, _), _)| of_node[of] == value)
                    .map(|(_, pods)| pods)
                    .sum()
            };
            let cost = |at: &usize| {
                let cell = nodes[*at].0;
                let first = nodes.iter().position(|(other, _)| *other == cell);
                (100 * there(0, cell[0]) + per_row * there(1, cell[1]), first)
            };
            let open = (0..nodes.len()).filter(|at| used[*at] < nodes[*at].1);
            let best = open.min_by_key(cost).unwrap();
            used[best] += 1;
            *expected.entry(nodes[best].0).or_default() += 1;
        }
        let (size, weight) = (u32::try_from(pods).unwrap(), -i32::try_from(per_row).unwrap());
        gang(&mut world, size, |pod| rather(rather_spread(pod, "x", "rack"), weight, "x", "row"));
        for ([rack, row], pods) in expected {
            let found = count(&world, size as usize, &format!("{rack}-{row}-"));
            assert_eq!(
                found, pods,
                "seed {seed}: rack {rack}, row {row} of {nodes:?}, {per_row} per row"
            );
        }
    }
}
