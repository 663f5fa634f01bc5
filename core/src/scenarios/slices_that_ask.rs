//! Jobs in slices with pods that have rules about other pods, or mount claims: each slice is in one
//! rack, and the rules of its pods are kept.

use std::collections::BTreeSet;

use fluxqueue_workload::constraints::{NodeSelectorTerm, Operator, PodTerm, Requirement};
use fluxqueue_workload::levels::{LevelBound, LevelRule, RuleScope};

use super::neighbours::{apart, labelled, near, spread};
use super::storage::mounting;
use super::*;

const HOST: &str = "kubernetes.io/hostname";
const RACK: &str = "topology.kubernetes.io/rack";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Racks a and b are in zone x, racks c and d in zone y.
const RACKS: [(&str, &str); 4] = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")];

/// Nodes of two cores, with these numbers of nodes in the racks.
fn nodes(of_racks: [usize; 4]) -> Vec<Arc<Node>> {
    let mut nodes = Vec::new();
    for ((rack, zone), count) in RACKS.into_iter().zip(of_racks) {
        for name in (0..count).map(|at| format!("{rack}{at}")) {
            let label = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
            let labels = vec![label(HOST, &name), label(RACK, rack), label(ZONE, zone)];
            nodes.push(Arc::new(Node { labels, ..Node::clone(&node(&name, 2)) }));
        }
    }
    nodes
}

fn world(of_racks: [usize; 4]) -> World {
    let mut world = World::new(&[]);
    for node in nodes(of_racks) {
        world.tell(Event::Node(node));
    }
    world
}

fn rule(level: &str, of: RuleScope) -> LevelRule {
    LevelRule {
        level: level.into(),
        bound: LevelBound::Required,
        of,
        annotation: "fluxqueue/slice-level",
    }
}

/// A pod of an Indexed Job `j` in slices of two pods, each in one rack.
fn in_slices(index: u32, pod: Pod) -> Pod {
    Pod {
        levels: Some(Arc::from([rule("rack", RuleScope::Slice(2))])),
        completion_index: Some(index),
        ..pod
    }
}

fn submit(world: &mut World, pods: u32, ask: impl Fn(u32, Pod) -> Pod) {
    world.tell(Event::Controller(Arc::new(job("j", pods, pods))));
    for at in 0..pods {
        world.submit(in_slices(at, ask(at, of_job(pod(&format!("j{at}"), 1), "j"))));
    }
    world.settle();
}

/// The nodes of all pods, if all run and each slice is in one rack.
fn places(world: &World, pods: usize) -> Vec<String> {
    let of_pod = |at| {
        world
            .node_of(&format!("j{at}"))
            .unwrap_or_else(|| panic!("j{at}: {:?}", world.blocked("j")))
    };
    let places: Vec<String> = (0..pods).map(|at| of_pod(at).to_owned()).collect();
    assert!(
        places.chunks(2).all(|slice| slice.iter().all(|node| node[..1] == slice[0][..1])),
        "{places:?}"
    );
    places
}

fn racks_of(places: &[String]) -> String {
    places.iter().map(|node| &node[..1]).collect()
}

fn all_differ(places: &[String]) -> bool {
    places.iter().collect::<BTreeSet<_>>().len() == places.len()
}

fn fill(world: &mut World, nodes: &[&str]) {
    for name in nodes {
        world.submit(neighbours::on(pod(&format!("on-{name}"), 2), name));
    }
}

// --- other pods ---

#[test]
fn pods_of_slices_that_are_apart_have_a_host_each() {
    // Nodes of each rack, how many pods, whether they start.
    for (of_racks, pods, starts) in [
        ([2, 0, 0, 0], 2, true),
        ([1, 1, 1, 1], 2, false),
        ([3, 3, 0, 0], 6, false),
        ([3, 3, 2, 1], 6, true),
        ([3, 3, 2, 1], 5, true),
        ([4, 5, 1, 2], 10, true),
        ([4, 5, 1, 1], 10, false),
    ] {
        let mut world = world(of_racks);
        submit(&mut world, pods, |_, pod| apart(pod, "x", HOST));
        assert_eq!(world.bound(), if starts { pods as usize } else { 0 }, "{pods} in {of_racks:?}");
        if starts {
            let places = places(&world, pods as usize);
            assert!(all_differ(&places), "{places:?}");
            continue;
        }
        let (reason, text) = world.blocked("j");
        assert_eq!(reason, "Unsatisfiable", "{text}");
        assert!(
            text.contains(&format!(
                "By their own anti-affinity they need {pods} nodes, and may use"
            )),
            "{text}"
        );
        world.submit(pod("later", 1));
        world.settle();
        assert!(world.node_of("later").is_some(), "it holds nobody up");
    }
}

#[test]
fn slices_of_which_each_keeps_the_others_away_have_a_rack_each() {
    // Pods with the label of another slice are not let into a rack.
    let by_slice = |at: u32, pod: Pod| {
        let others = ["0", "1", "2", "3"].into_iter().filter(|of| *of != (at / 2).to_string());
        let pod = others.fold(pod, |pod, other| apart(pod, other, RACK));
        Pod { labels: neighbours::labels(&(at / 2).to_string()), ..pod }
    };
    let mut world = world([2, 2, 2, 2]);
    submit(&mut world, 8, by_slice);
    assert_eq!(racks_of(&places(&world, 8)).chars().collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn slices_are_near_to_who_stands_and_even_over_racks() {
    let mut near_to = world([2, 2, 2, 2]);
    let stands = neighbours::on(pod("stands", 0), "c0");
    near_to.submit(Pod { labels: neighbours::labels("data"), ..stands });
    submit(&mut near_to, 6, |_, pod| near(pod, "data", ZONE));
    assert!(racks_of(&places(&near_to, 6)).chars().all(|rack| "cd".contains(rack)));

    // The second pod of a slice may come when the other slices have one.
    let mut even = world([2, 2, 2, 2]);
    submit(&mut even, 8, |_, pod| spread(pod, "x", RACK));
    let racks = racks_of(&places(&even, 8));
    assert!(RACKS.iter().all(|(rack, _)| racks.matches(rack).count() == 2), "{racks}");
    let mut uneven = world([2, 2, 2, 2]);
    submit(&mut uneven, 6, |_, pod| spread(pod, "x", RACK));
    assert_eq!(uneven.bound(), 0, "three slices would leave one rack two pods behind");
    let mut over_zones = world([2, 2, 2, 2]);
    submit(&mut over_zones, 4, |_, pod| spread(apart(pod, "y", HOST), "x", ZONE));
    let zones: Vec<bool> =
        racks_of(&places(&over_zones, 4)).chars().map(|rack| "ab".contains(rack)).collect();
    assert_eq!(zones.iter().filter(|zone| **zone).count(), 2);
}

#[test]
fn slices_of_pods_that_are_near_to_each_other_share_a_zone_within_which_each_is_in_a_rack() {
    let mut world = world([1, 1, 3, 2]);
    submit(&mut world, 10, |_, pod| near(pod, "x", ZONE));
    assert!(racks_of(&places(&world, 10)).chars().all(|rack| "cd".contains(rack)));
}

#[test]
fn slices_lie_where_their_pods_would_rather_be() {
    let mut world = world([2, 2, 2, 2]);
    submit(&mut world, 4, |_, pod| {
        labelled(pod, "x", |constraints, pods| {
            constraints.preferred_pods.push((-100, PodTerm { pods, topology_key: HOST.into() }));
        })
    });
    let places = places(&world, 4);
    assert!(all_differ(&places), "{places:?}");
}

#[test]
fn a_required_level_above_slices_is_kept_with_what_their_pods_ask() {
    // Of zone x one rack has room for two slices by hosts, but the zone has not for three.
    let mut world = world([4, 1, 2, 4]);
    let in_zone = |at, pod: Pod| {
        let pod = in_slices(at, apart(pod, "x", HOST));
        let levels = pod
            .levels
            .iter()
            .flat_map(|rules| rules.iter().cloned())
            .chain([rule("zone", RuleScope::Job)]);
        Pod { levels: Some(levels.collect()), ..pod }
    };
    world.tell(Event::Controller(Arc::new(job("j", 6, 6))));
    for at in 0..6 {
        world.submit(in_zone(at, of_job(pod(&format!("j{at}"), 1), "j")));
    }
    world.settle();
    let places = places(&world, 6);
    assert!(
        all_differ(&places) && racks_of(&places).chars().all(|rack| "cd".contains(rack)),
        "{places:?}"
    );
}

#[test]
fn exclusive_slices_of_pods_that_are_apart_have_nodes_that_nobody_else_has() {
    let mut world = world([2, 2, 2, 2]);
    world.submit(neighbours::on(pod("theirs", 1), "a0"));
    submit(&mut world, 6, |_, pod| Pod { exclusive: Some(true), ..apart(pod, "x", HOST) });
    let places = places(&world, 6);
    assert!(all_differ(&places) && !racks_of(&places).contains('a'), "{places:?}");
}

#[test]
fn who_replaces_a_pod_of_a_slice_that_is_apart_goes_to_its_rack() {
    let mut world = world([3, 3, 0, 0]);
    submit(&mut world, 4, |_, pod| apart(pod, "x", HOST));
    let before = places(&world, 4);
    let rack = before[0][..1].to_owned();
    world.tell(Event::NodeGone(
        NodeName::from(before[1].as_str()),
        Uid::from(format!("uid-{}", before[1])),
    ));
    world.delete("j1");
    // The third node of that rack has no room for a while.
    let third = nodes([3, 3, 0, 0]).into_iter().map(|node| node.name.to_string());
    let third =
        third.filter(|node| node.starts_with(&rack) && !before.contains(node)).collect::<Vec<_>>();
    fill(&mut world, &[&third[0]]);
    let successor = in_slices(1, apart(of_job(pod("successor", 1), "j"), "x", HOST));
    world.submit(successor);
    world.settle();
    assert_eq!(
        world.node_of("successor"),
        None,
        "beside its mate, or in another rack, it may not be"
    );
    world.delete(&format!("on-{}", third[0]));
    world.settle();
    world.pass_seconds(60);
    world.settle();
    assert_eq!(world.node_of("successor"), Some(&*third[0]));
}

#[test]
fn many_slices_of_pods_that_are_apart_find_their_racks() {
    let mut world = World::new(&[]);
    for at in 0..120_u32 {
        let (name, rack) = (format!("n{at}"), format!("r{}", at % 8));
        let labels =
            vec![(Arc::from(HOST), Arc::from(&*name)), (Arc::from(RACK), Arc::from(&*rack))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(&name, 2)) })));
    }
    // Of 15 hosts of a rack 14 are used at most.
    submit(&mut world, 112, |_, pod| apart(pod, "x", HOST));
    assert_eq!(world.bound(), 112, "{:?}", world.blocked("j"));
    let rack = |at: u32| {
        world.node_of(&format!("j{at}")).and_then(|node| Some(node[1..].parse::<u32>().ok()? % 8))
    };
    assert!((0..112).step_by(2).all(|at| rack(at) == rack(at + 1)));
}

/// One slice of each of three sizes. The tightest racks in turn are the wrong ones; on 72 hosts all
/// ways are not searched.
#[test]
fn slices_of_several_sizes_find_the_racks_that_leave_room_for_the_next() {
    let mut world = World::new(&[]);
    for at in 0..72_u32 {
        let (name, rack) = (format!("n{at}"), if at < 40 { "large" } else { "small" });
        let labels = vec![(Arc::from(HOST), Arc::from(&*name)), (Arc::from(RACK), Arc::from(rack))];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(&name, 2)) })));
    }
    for (name, size) in [("a", 16), ("c", 32), ("d", 24)] {
        world.tell(Event::Controller(Arc::new(job(name, size, size))));
        let levels: Arc<[LevelRule]> = Arc::from([rule("rack", RuleScope::Slice(size))]);
        for at in 0..size {
            let pod = of_group(pod(&format!("{name}{at}"), 1), "g", Ok(72));
            let pod = Pod { levels: Some(Arc::clone(&levels)), ..of_job(pod, name) };
            let pod = Pod { completion_index: Some(at), ..pod };
            let labels = pod.labels.iter().cloned();
            let mut apart = apart(pod.clone(), "x", HOST);
            apart.labels = apart.labels.iter().cloned().chain(labels).collect();
            world.submit(apart);
        }
    }
    world.settle();
    assert_eq!(world.bound(), 72, "{:?}", world.blocked("g"));
}

// --- claims ---

/// A volume that can be had from all nodes with this label.
fn volume_in(world: &mut World, name: &str, class: &str, (key, value): (&str, &str)) {
    world.volume(name, class, None);
    let within =
        Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] };
    let affinity = Some(vec![NodeSelectorTerm { labels: vec![within], fields: Vec::new() }]);
    world.change_volume(name, |volume| volume.affinity = affinity);
}

#[test]
fn volumes_that_are_bound_decide_where_slices_are() {
    let mut world = world([2, 2, 2, 2]);
    world.class("net", "at-once");
    // One of each slice has a volume, in rack d and in zone x.
    for (claim, volume, at) in [("c1", "v1", (RACK, "d")), ("c2", "v2", (ZONE, "x"))] {
        world.claim(claim, "net");
        volume_in(&mut world, volume, "net", at);
        world.bind_claim(claim, volume);
    }
    fill(&mut world, &["a0", "b0", "b1"]);
    submit(&mut world, 4, |at, pod| match at {
        1 => mounting(pod, &["c1"]),
        2 => mounting(pod, &["c2"]),
        _ => pod,
    });
    assert_eq!(racks_of(&places(&world, 4)), "ddaa");
}

#[test]
fn slices_whose_volumes_are_in_two_racks_never_start() {
    let mut world = world([2, 2, 2, 2]);
    world.class("net", "at-once");
    for (claim, volume, rack) in [("c0", "v0", "a"), ("c1", "v1", "b")] {
        world.claim(claim, "net");
        volume_in(&mut world, volume, "net", (RACK, rack));
        world.bind_claim(claim, volume);
    }
    submit(&mut world, 2, |at, pod| mounting(pod, &[["c0", "c1"][at as usize]]));
    assert_eq!((world.bound(), world.state("j")), (0, Some(JobState::Unsatisfiable)));
    let (_, text) = world.blocked("j");
    let why = "No rack has nodes for all 2 pods of the slice of j0: what they mount, or ask of nodes, leaves them different ones.";
    assert!(text.contains(why), "{text}");
    world.submit(pod("later", 2));
    world.settle();
    assert!(world.node_of("later").is_some());
}

#[test]
fn slices_are_where_there_are_volumes_for_them() {
    // The nodes of local volumes, and the racks of two slices.
    let cases: [(&[&str], Option<&str>); 4] = [
        (&["a0", "b0", "b1", "c0", "d0", "d1"], Some("bbdd")),
        (&["a0", "b0", "c0", "c1", "d0", "a1"], Some("aacc")),
        (&["a0", "b0", "c0", "c1", "d0"], None),
        (&["c0", "c0", "c1", "c1"], Some("cccc")),
    ];
    for (on, expected) in cases {
        let mut world = world([2, 2, 2, 2]);
        world.class("local", "kubernetes.io/no-provisioner");
        for (at, node) in on.iter().enumerate() {
            world.volume(&format!("v{at}"), "local", Some(node));
        }
        (0..4).for_each(|at| world.claim(&format!("c{at}"), "local"));
        submit(&mut world, 4, |at, pod| mounting(pod, &[&*format!("c{at}")]));
        for (claim, volume) in world.written() {
            world.bind_claim(&claim, &volume);
        }
        world.settle();
        let Some(expected) = expected else {
            assert_eq!(world.bound(), 0, "{on:?}");
            continue;
        };
        let mut racks: Vec<char> = racks_of(&places(&world, 4)).chars().collect();
        racks.sort_unstable();
        assert_eq!(racks.into_iter().collect::<String>(), expected, "{on:?}");
    }
}

/// Two slices of pods that are apart. Each has a claim that gets its volume when a node is known;
/// these volumes are being made.
fn whose_volumes_are_made() -> World {
    let mut world = world([2, 2, 2, 2]);
    world.class("made", "example.com/disk");
    (0..4).for_each(|at| world.claim(&format!("c{at}"), "made"));
    submit(&mut world, 4, |at, pod| apart(mounting(pod, &[&*format!("c{at}")]), "x", HOST));
    world
}

/// The provisioner makes the volume of a claim in a zone.
fn make(world: &mut World, claim: &str, zone: &str) {
    let volume = format!("made-{claim}");
    volume_in(world, &volume, "made", (ZONE, zone));
    world.bind_claim(claim, &volume);
    world.settle();
}

#[test]
fn a_slice_goes_with_the_volume_that_was_made_elsewhere() {
    let mut world = whose_volumes_are_made();
    let written = world.written();
    assert_eq!((written.len(), world.bound()), (4, 0));
    let is_in_x = |node: &str| node.starts_with(['a', 'b']);
    let planned = is_in_x(&written[1].1);
    let (there, elsewhere) = if planned { ("x", "y") } else { ("y", "x") };
    // The provisioner answers for another zone than the node's.
    make(&mut world, "c1", elsewhere);
    assert_eq!((world.core.gauges().placements_withdrawn, world.bound()), (1, 0));
    for claim in ["c0", "c2", "c3"] {
        world.change_claim(claim, |claim| claim.selected_node = None);
    }
    world.pass_seconds(40);
    world.settle();
    let again: BTreeMap<String, String> = world.written().into_iter().collect();
    assert!(again.contains_key("c0") && !again.contains_key("c1"), "{again:?}");
    assert_ne!(is_in_x(&again["c0"]), planned, "{there}: its mate's volume is elsewhere");
    for (claim, node) in &again {
        make(&mut world, claim, if is_in_x(node) { "x" } else { "y" });
    }
    let places = places(&world, 4);
    assert!(all_differ(&places) && is_in_x(&places[0]) != planned, "{places:?}");
}

#[test]
fn a_process_that_dies_while_volumes_of_slices_are_made_is_followed_by_one_that_keeps_the_slices() {
    let mut world = whose_volumes_are_made();
    let planned: BTreeMap<String, String> = world.written().into_iter().collect();
    let zone_of = |claim: &str| if planned[claim].starts_with(['a', 'b']) { "x" } else { "y" };
    make(&mut world, "c0", zone_of("c0"));
    world.restart();
    world.list(&[], &[job("j", 4, 4)]);
    for node in nodes([2, 2, 2, 2]) {
        world.tell(Event::Node(node));
    }
    world.settle();
    assert_eq!(world.bound(), 0);
    for claim in ["c1", "c2", "c3"] {
        make(&mut world, claim, zone_of(claim));
    }
    world.pass_seconds(40);
    world.settle();
    assert!(all_differ(&places(&world, 4)));
}

#[test]
fn who_waits_with_other_slices_than_another_job_has_an_answer_of_its_own() {
    let mut world = world([2, 2, 0, 0]);
    world.class("net", "at-once");
    // Pods have volumes in rack a and in rack b, of job j one of each in a slice, which can never
    // start; job k has them apart.
    let shape = pod("any", 1).shape;
    for (job, racks) in [("j", ["a", "b", "a", "b"]), ("k", ["a", "a", "b", "b"])] {
        world.tell(Event::Controller(Arc::new(super::job(job, 4, 4))));
        for (at, rack) in (0..4).zip(racks) {
            let name = format!("{job}{at}");
            world.claim(&name, "net");
            volume_in(&mut world, &name, "net", (RACK, rack));
            world.bind_claim(&name, &name);
            let alike = Pod { shape: Arc::clone(&shape), ..pod(&name, 1) };
            world.submit(in_slices(at, mounting(of_job(alike, job), &[&*name])));
        }
    }
    world.settle();
    let racks = |job: &str| {
        (0..4)
            .map(|at| world.node_of(&format!("{job}{at}")).map(|node| &node[..1]))
            .collect::<Vec<_>>()
    };
    assert_eq!(racks("j"), [None; 4], "{:?}", world.blocked("j"));
    assert_eq!(racks("k"), [Some("a"), Some("a"), Some("b"), Some("b")]);
}
