//! Jobs in slices: each slice of pods is in one rack, with the consequences of that rule.

use std::collections::BTreeSet;

use fluxqueue_workload::levels::{LevelBound, RuleScope};

use super::topology::*;
use super::*;

/// A pod of an Indexed Job with slices of two pods.
fn in_slices(pod: Pod) -> Pod {
    let index = pod.id.key.name.chars().last().and_then(|digit| digit.to_digit(10));
    let levels = Some(within(LevelBound::Required, "rack", RuleScope::Slice(2)));
    Pod { levels, completion_index: index, ..pod }
}

#[test]
fn each_slice_is_in_a_rack() {
    // Nodes that are full, how many pods, whether they start.
    let cases: [(&[&str], u32, bool); 5] = [
        (&[], 4, true),
        (&[], 6, true),
        (&["b1"], 6, true),
        (&["b1", "b2"], 6, false),
        (&["a1", "b1", "b2", "c1"], 2, false),
    ];
    for (full, pods, starts) in cases {
        let mut world = racks(settings());
        fill(&mut world, full);
        submit(&mut world, "j", pods, 2, in_slices);
        world.settle();
        for first in (0..pods).step_by(2) {
            let racks = [first, first + 1].map(|at| rack_of(&world, &format!("j{at}")));
            assert!(
                racks[0].is_some() == starts && racks[0] == racks[1],
                "{pods} where {full:?} are full: {racks:?}"
            );
        }
    }
}

#[test]
fn slices_of_a_job_that_is_to_be_in_one_rack_as_a_whole_fill_it() {
    for size in [1, 2, 3] {
        let mut world = racks(settings());
        submit(&mut world, "j", 3, 2, |pod| {
            let slices = within(LevelBound::Required, "rack", RuleScope::Slice(size));
            let all = within(LevelBound::Required, "rack", RuleScope::Job);
            Pod { levels: Some(all.iter().chain(&*slices).cloned().collect()), ..in_slices(pod) }
        });
        world.settle();
        assert_eq!(racks_of(&world, "j"), "bbb", "slices of {size}");
    }
}

/// The same, with these bounds on the pods in one part of this level, or on the difference between
/// two parts.
fn in_spread_slices(level: &str, bounds: (Option<u32>, Option<u32>), pod: Pod) -> Pod {
    let pod = in_slices(pod);
    let spread = spread_over(level, bounds, pod.clone()).levels.expect("it asks for it");
    let levels =
        pod.levels.iter().chain([&spread]).flat_map(|rules| rules.iter().cloned()).collect();
    Pod { levels: Some(levels), ..pod }
}

#[test]
fn of_slices_that_are_spread_each_is_in_a_rack_of_its_own() {
    // The level over which they are spread, how many pods of a part, of a rack and of a node there
    // may be.
    for (level, most, of_rack, of_node) in [("rack", 2, 2, 2), ("host", 1, 3, 1)] {
        let mut world = racks(settings());
        submit(&mut world, "j", 6, 1, |pod| in_spread_slices(level, (Some(most), None), pod));
        world.settle();
        for first in [0, 2, 4] {
            let racks = [first, first + 1].map(|at| rack_of(&world, &format!("j{at}")));
            assert!(racks[0].is_some() && racks[0] == racks[1], "{level}: {racks:?}");
        }
        for (node, rack) in NODES {
            let on_node =
                world.pods.values().filter(|pod| pod.node.as_deref() == Some(node)).count();
            assert!(
                racks_of(&world, "j").matches(rack).count() <= of_rack && on_node <= of_node,
                "{level}: {node}"
            );
        }
    }
}

#[test]
fn more_slices_than_parts_may_have_never_start_and_say_why() {
    let mut world = racks(settings());
    submit(&mut world, "j", 8, 1, |pod| in_spread_slices("rack", (Some(2), None), pod));
    world.settle();
    assert_eq!(
        (racks_of(&world, "j").as_str(), world.state("j")),
        ("", Some(JobState::Unsatisfiable))
    );
    let (_, message) = world.blocked("j");
    assert!(
        message
            .contains("At most 2 of 8 pods may be in one rack, and there are 3 that they may use."),
        "{message}"
    );
}

#[test]
fn many_slices_find_a_rack_each() {
    let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
    for rack in 0..40 {
        for host in 0..2 {
            let (name, rack) = (format!("n{rack}-{host}"), format!("r{rack}"));
            world.tell(node_in(&name, &rack));
        }
    }
    world.tell(Event::Controller(Arc::new(job("j", 64, 64))));
    for at in 0..64 {
        let pod = in_spread_slices("rack", (Some(2), None), of_job(pod(&format!("j{at}"), 1), "j"));
        world.submit(Pod { completion_index: Some(at), ..pod });
    }
    world.settle();
    let racks: Vec<Option<&str>> =
        (0..64).map(|at| Some(world.node_of(&format!("j{at}"))?.split_once('-')?.0)).collect();
    assert!(
        racks.iter().all(Option::is_some) && racks.chunks(2).all(|slice| slice[0] == slice[1]),
        "{racks:?}"
    );
    assert_eq!(racks.iter().collect::<BTreeSet<_>>().len(), 32);
}

/// A pod of an Indexed Job with slices of this size in a part of one level each, and pods that are
/// even over another.
fn in_even_slices((of, size): (&str, u32), (over, skew): (&str, u32), at: u32, pod: Pod) -> Pod {
    let slices = within(LevelBound::Required, of, RuleScope::Slice(size));
    let spread = spread_over(over, (None, Some(skew)), pod.clone()).levels.expect("it asks for it");
    let levels = slices.iter().chain(&*spread).cloned().collect();
    Pod { levels: Some(levels), completion_index: Some(at), ..pod }
}

fn submit_even_slices(
    world: &mut World,
    pods: u32,
    cores: u64,
    slices: (&str, u32),
    even: (&str, u32),
) {
    world.tell(Event::Controller(Arc::new(job("j", pods, pods))));
    for at in 0..pods {
        world.submit(in_even_slices(slices, even, at, of_job(pod(&format!("j{at}"), cores), "j")));
    }
}

#[test]
fn slices_are_even_over_racks_and_each_is_in_one() {
    // Nodes that are full, how many pods of how many cores, the skew, how many pods are in racks a,
    // b and c in ascending order.
    let cases: [(&[&str], [u32; 3], [usize; 3]); 8] = [
        (&[], [6, 2, 1], [2, 2, 2]),
        // Two pods more in one rack, as a slice has two.
        (&[], [8, 1, 2], [2, 2, 4]),
        (&[], [8, 1, 1], [0; 3]),
        // Rack a has room for one pod, and so for no slice.
        (&["a1"], [4, 2, 2], [0, 2, 2]),
        (&["a1"], [4, 2, 1], [0; 3]),
        (&["a1"], [6, 2, 2], [0; 3]),
        // The last slice has one.
        (&[], [5, 2, 1], [1, 2, 2]),
        (&["a1"], [5, 2, 1], [1, 2, 2]),
    ];
    for (full, [pods, cores, skew], expected) in cases {
        let mut world = racks(settings());
        fill(&mut world, full);
        submit_even_slices(&mut world, pods, u64::from(cores), ("rack", 2), ("rack", skew));
        world.settle();
        let racks = racks_of(&world, "j");
        let mut counts = ['a', 'b', 'c'].map(|rack| racks.matches(rack).count());
        counts.sort_unstable();
        assert_eq!(
            counts, expected,
            "{pods} pods of {cores} cores with skew {skew} where {full:?} are full"
        );
        let of_pods: Vec<Option<char>> =
            (0..pods).map(|at| rack_of(&world, &format!("j{at}"))).collect();
        assert!(
            of_pods.chunks(2).all(|slice| slice.iter().all(|rack| *rack == slice[0])),
            "{of_pods:?}"
        );
    }
    // Over hosts, of which no slice has one for itself.
    let mut world = racks(settings());
    submit_even_slices(&mut world, 6, 1, ("rack", 2), ("host", 1));
    world.settle();
    let of_pods: Vec<Option<char>> = (0..6).map(|at| rack_of(&world, &format!("j{at}"))).collect();
    assert!(
        of_pods.chunks(2).all(|slice| slice[0].is_some() && slice[0] == slice[1]),
        "{of_pods:?}"
    );
    let hosts: BTreeSet<&str> = (0..6).filter_map(|at| world.node_of(&format!("j{at}"))).collect();
    assert_eq!(hosts.len(), 6);
}

#[test]
fn slices_that_are_to_be_even_start_wherever_they_could() {
    for seed in 0..150_u64 {
        // Numbers that look random, the same each time.
        let drawn = |what: u64, below: u64| {
            (seed * 7_919 + what * 104_729).wrapping_mul(2_654_435_761) % 1_009 % below
        };
        let nodes: Vec<(String, usize, u64)> = (0..3 + drawn(0, 4))
            .map(|at| {
                (
                    format!("n{at}"),
                    usize::try_from(drawn(100 + at, 3)).unwrap(),
                    1 + drawn(200 + at, 3),
                )
            })
            .collect();
        let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
        for (name, rack, cores) in &nodes {
            let labels = vec![(Arc::from(RACK), Arc::from(rack.to_string()))];
            world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, *cores)) })));
        }
        let number = |what: u64, below: u64| u32::try_from(drawn(what, below)).unwrap();
        let (pods, size, skew) = (2 + number(1, 7), 1 + number(2, 3), 1 + number(3, 4));
        submit_even_slices(&mut world, pods, 1, ("rack", size), ("rack", skew));
        world.settle();
        // Every way to put the slices into racks.
        let racks: BTreeSet<usize> = nodes.iter().map(|(_, rack, _)| *rack).collect();
        let room = |rack: usize| {
            nodes.iter().filter(|(_, of, _)| *of == rack).map(|(.., cores)| cores).sum::<u64>()
        };
        let mut ways: BTreeSet<[u64; 3]> = BTreeSet::from([[0; 3]]);
        for slice in (0..pods).step_by(size as usize).map(|first| size.min(pods - first)) {
            let with = |way: &[u64; 3], rack: usize| {
                let mut way = *way;
                way[rack] += u64::from(slice);
                way
            };
            ways = ways.iter().flat_map(|way| racks.iter().map(|rack| with(way, *rack))).collect();
        }
        let is_even = |way: &[u64; 3]| {
            let counts = || racks.iter().map(|rack| way[*rack]);
            let fits = racks.iter().all(|rack| way[*rack] <= room(*rack));
            fits && counts().max().unwrap() - counts().min().unwrap() <= u64::from(skew)
        };
        let what = format!("seed {seed}: {pods} pods in slices of {size}, skew {skew}, {nodes:?}");
        assert_eq!(world.bound() == pods as usize, ways.iter().any(is_even), "{what}");
        assert!(world.bound() == 0 || world.bound() == pods as usize, "{what}");
        let rack = |at: u32| {
            let node = world.node_of(&format!("j{at}"))?;
            nodes.iter().find(|(name, ..)| name == node).map(|(_, rack, _)| *rack)
        };
        let placed: Vec<usize> = (0..pods).filter_map(rack).collect();
        assert!(
            placed.chunks(size as usize).all(|slice| slice.iter().all(|rack| *rack == slice[0])),
            "{what}"
        );
        let way = [0, 1, 2].map(|rack| placed.iter().filter(|of| **of == rack).count() as u64);
        assert!(placed.is_empty() || is_even(&way), "{what}: {way:?}");
    }
}

#[test]
fn many_slices_are_even_over_many_racks() {
    // How many pods; the last slice may have one only. Rack 39 has room for one slice, so each
    // other one gets two at most.
    for (pods, starts) in [
        (80, true),
        (79, true),
        (120, true),
        (119, true),
        (158, true),
        (157, true),
        (160, false),
        (159, false),
    ] {
        let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
        for rack in 0..40 {
            for host in 0..if rack == 39 { 1 } else { 3 } {
                world.tell(node_in(&format!("n{rack}-{host}"), &format!("r{rack}")));
            }
        }
        submit_even_slices(&mut world, pods, 1, ("rack", 2), ("rack", 2));
        world.settle();
        assert_eq!(world.bound() == pods as usize, starts, "{pods} pods");
    }
}

#[test]
fn slices_that_cannot_be_even_say_why() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "a2"]);
    submit_even_slices(&mut world, 6, 2, ("rack", 2), ("rack", 2));
    world.settle();
    let (_, message) = world.blocked("j");
    let text = "The numbers of pods in any two parts of level rack may differ by 2 at most: a has room for 0, so that there is \
                room for 4 of 6 pods.";
    assert!(message.contains(text), "{message}");
}

#[test]
fn who_replaces_a_lost_pod_of_a_spread_slice_stays_with_it() {
    for bounds in [(Some(2), None), (None, Some(2))] {
        let mut world = racks(settings());
        submit(&mut world, "j", 4, 2, |pod| in_spread_slices("rack", bounds, pod));
        world.settle();
        let (rack, lost) = (
            rack_of(&world, "j0").expect("it runs"),
            world.node_of("j1").expect("it runs").to_owned(),
        );
        world
            .tell(Event::NodeGone(NodeName::from(lost.as_str()), Uid::from(format!("uid-{lost}"))));
        world.delete("j1");
        world.tell(node_in("new", &rack.to_string()));
        world.submit(in_spread_slices("rack", bounds, of_job(pod("successor1", 2), "j")));
        world.settle();
        let successor = world.node_of("successor1").expect("there is room");
        assert!(
            successor == "new" || successor.starts_with(rack),
            "{successor} for {rack}, {bounds:?}"
        );
    }
}

/// Hosts a and b, each in a rack, on which pods in slices of two are even, and of which some are
/// lost: of the pods before them. Another pod has room there instead.
fn lose_of_even_slices(pods: u32, skew: u32, lost: &[&str], (full, cores): (&str, u64)) -> World {
    let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
    for rack in ["a", "b"] {
        let labels = vec![(Arc::from(HOST), Arc::from(rack)), (Arc::from(RACK), Arc::from(rack))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(rack, 2)) })));
    }
    submit_even_slices(&mut world, pods, 1, ("rack", 2), ("host", skew));
    world.settle();
    assert_eq!(
        (world.bound(), world.node_of("j0"), world.node_of("j2")),
        (pods as usize, Some("a"), Some("b"))
    );
    for name in lost {
        world.delete(name);
    }
    world.submit(Pod {
        node: Some(full.into()),
        scheduler: "other".into(),
        ..pod("theirs", cores)
    });
    // Slots are kept no longer.
    world.pass_seconds(60);
    world.settle();
    for name in lost {
        let at = name[1..].parse().expect("a number");
        world.submit(in_even_slices(
            ("rack", 2),
            ("host", skew),
            at,
            of_job(pod(&format!("successor{at}"), 1), "j"),
        ));
    }
    for _ in 0..3 {
        world.settle();
        world.pass_seconds(2);
    }
    world
}

#[test]
fn who_joins_a_slice_counts_parts_in_which_other_slices_are() {
    let world = lose_of_even_slices(3, 1, &["j0", "j2"], ("b", 2));
    // Host a would have two pods, and host b, where the other slice was, none.
    assert_eq!((world.node_of("successor0"), world.node_of("successor2")), (None, None));
}

#[test]
fn who_is_kept_away_by_its_slice_keeps_nobody_of_other_slices() {
    let world = lose_of_even_slices(4, 2, &["j0", "j2"], ("a", 1));
    assert_eq!((world.node_of("successor0"), world.node_of("successor2")), (None, Some("b")));
}

#[test]
fn a_slice_for_which_no_rack_has_room_is_told_so() {
    let mut world = racks(settings());
    fill(&mut world, &["a1", "b1", "b2", "c1"]);
    submit(&mut world, "j", 4, 2, in_slices);
    world.settle();
    let (_, message) = world.blocked("j");
    let text = "4 pods start together and ask for 8 cpu, 6 free on the nodes they may use. No rack has room for 2 pods: the \
                largest, a, has room for 1.";
    assert!(message.contains(text), "{message}");
}

#[test]
fn who_replaces_a_lost_pod_stays_with_its_slice() {
    let mut world = racks(settings());
    submit(&mut world, "j", 4, 2, in_slices);
    world.settle();
    let (rack, lost) =
        (rack_of(&world, "j0").expect("it runs"), world.node_of("j1").expect("it runs").to_owned());
    // The other nodes of that rack are taken by now.
    let left: Vec<&str> =
        NODES.iter().map(|(name, _)| *name).filter(|name| name.starts_with(rack)).collect();
    let free: Vec<&str> = left
        .into_iter()
        .filter(|name| world.pods.values().all(|pod| pod.node.as_deref() != Some(*name)))
        .collect();
    fill(&mut world, &free);
    world.tell(Event::NodeGone(NodeName::from(lost.as_str()), Uid::from(format!("uid-{lost}"))));
    world.delete("j1");
    let successor = in_slices(of_job(pod("successor1", 2), "j"));
    world.submit(successor);
    world.settle();
    assert_eq!(world.node_of("successor1"), None, "there is room in other racks alone");
    world.tell(node_in("new", &rack.to_string()));
    world.settle();
    assert_eq!(world.node_of("successor1"), Some("new"));
}

#[test]
fn slices_that_ask_for_nodes_alone_have_them() {
    // Pods of another scheduler on these nodes, whether two slices of two pods start; a pod has
    // half of a node.
    for (used, starts) in
        [(&["a1", "b1"][..], true), (&["a1", "a2", "b1", "b2", "b3", "c1"], false)]
    {
        let mut world = racks(settings());
        for node in used {
            let small = pod(&format!("on-{node}"), 1);
            world.submit(Pod { node: Some((*node).into()), scheduler: "other".into(), ..small });
        }
        submit(&mut world, "j", 4, 1, |pod| Pod { exclusive: Some(true), ..in_slices(pod) });
        world.settle();
        let nodes: BTreeSet<&str> =
            (0..4).filter_map(|at| world.node_of(&format!("j{at}"))).collect();
        assert_eq!(!nodes.is_empty(), starts, "{used:?}: {nodes:?}");
        assert!(used.iter().all(|node| !nodes.contains(node)), "{used:?}: {nodes:?}");
        for first in [0, 2] {
            assert_eq!(
                rack_of(&world, &format!("j{first}")),
                rack_of(&world, &format!("j{}", first + 1))
            );
        }
        if !starts {
            let (_, message) = world.blocked("j");
            assert!(message.contains("6 node(s) were used by others"), "{message}");
        }
    }
}
