//! Jobs with pods spread over a level: up to a number in one part, or up to a difference between
//! two parts.

use fluxqueue_api::BlockedReason::NoRoomInLevel;
use fluxqueue_workload::levels::{LevelBound, RuleScope};

use super::topology::{
    HOST, NODES, RACK, at_most, fill, in_one, node_in, rack_of, racks, racks_of, serve, skewed,
    submit, succeed, within,
};
use super::*;
use crate::QueuePolicy;
use fluxqueue_machine::cluster::Taint;
use serde_json::json;

#[test]
fn a_gang_is_spread_over_racks_as_it_asks() {
    let mut world = racks(settings());
    submit(&mut world, "j", 6, 1, |pod| at_most(2, pod));
    world.settle();
    assert_eq!(racks_of(&world, "j"), "aabbcc");
}

#[test]
fn a_gang_of_more_pods_than_the_racks_may_have_never_starts_and_says_why() {
    let mut world = racks(settings());
    submit(&mut world, "j", 4, 1, |pod| at_most(1, pod));
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Unsatisfiable));
    let why = world.blocked("j").1;
    assert!(
        why.contains("At most 1 of 4 pods may be in one rack, and there are 3 that they may use."),
        "{why}"
    );
}

#[test]
fn who_joins_a_gang_that_is_spread_goes_where_there_may_be_more() {
    let mut world = racks(settings());
    submit(&mut world, "j", 3, 2, |pod| at_most(1, pod));
    world.settle();
    assert_eq!(racks_of(&world, "j"), "abc");
    let (lost, of_lost) = (0..3)
        .map(|at| (format!("j{at}"), world.node_of(&format!("j{at}")).expect("it runs").to_owned()))
        .find(|(_, node)| node.starts_with('b'))
        .expect("one is in b");
    world.change(&lost, |pod| pod.phase = Phase::Failed);
    // A pod of another job takes the slot before the successor comes.
    world.tell(Event::NodeGone(of_lost.as_str().into(), format!("uid-{of_lost}").as_str().into()));
    world.submit(of_job(at_most(1, pod("j-next", 2)), "j"));
    for _ in 0..20 {
        world.settle();
        world.pass_seconds(1);
    }
    let next = world.node_of("j-next").expect("there is another node in b");
    assert!(next.starts_with('b') && next != of_lost, "{next}");
}

#[test]
fn pods_of_a_service_that_are_spread_start_one_after_the_other() {
    let mut world = racks(settings());
    serve(&mut world, &[1; 4], |pod| at_most(1, pod));
    for _ in 0..10 {
        world.settle();
        world.pass_seconds(1);
    }
    assert_eq!(racks_of(&world, "s"), "abc", "the fourth finds no rack");
    let message = &world.conditions["s3"].message;
    assert!(
        message.contains(
            "Of level rack, a, b, c have as many pods of its job as may be there beside the rest."
        ),
        "{message}"
    );
}

#[test]
fn no_rack_has_many_more_pods_of_a_gang_than_another() {
    // Nodes that are full, how many pods of 2 cores, the skew, where they are.
    let cases: [(&[&str], u32, u32, &str); 7] = [
        (&[], 6, 1, "aabbcc"),
        (&[], 7, 1, "aabbbcc"),
        (&["b1", "b2"], 5, 1, "aabcc"),
        (&["a1"], 4, 1, "abbc"),
        // One of rack a, so no more than two of each other rack.
        (&["a1"], 6, 1, ""),
        (&["a1"], 6, 2, "abbbcc"),
        // A rack without room counts, too.
        (&["a1", "a2"], 3, 1, ""),
    ];
    for (full, pods, skew, expected) in cases {
        let mut world = racks(settings());
        fill(&mut world, full);
        submit(&mut world, "j", pods, 2, |pod| skewed(skew, pod));
        world.settle();
        let racks = racks_of(&world, "j");
        if expected.is_empty() {
            assert_eq!(racks, "", "{pods} pods with skew {skew} where {full:?} are full");
            continue;
        }
        let counts = ['a', 'b', 'c'].map(|rack| racks.chars().filter(|of| *of == rack).count());
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(
            racks.len() == expected.len() && most - least <= skew as usize,
            "{racks} for {expected}"
        );
    }
}

#[test]
fn racks_count_to_which_the_pods_are_admitted_whatever_is_there() {
    let label = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
    // What becomes of the two nodes of rack c, whether it counts.
    for (what, counts) in [
        ("cordoned", true),
        ("not ready", true),
        ("tainted", false),
        ("not selected", false),
        ("not the queue's", false),
    ] {
        let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
        let labels = if what == "not the queue's" {
            json!({"nodeSelector": {"pool": "own"}})
        } else {
            json!({})
        };
        queues::queue(&mut world, "default", &labels);
        for (name, rack) in NODES {
            let mut node = Node::clone(&node(name, 2));
            node.labels = vec![label(HOST, name), label("pool", "own"), label(RACK, rack)];
            let is_other = rack == "c";
            match what {
                _ if !is_other => {}
                "cordoned" => node.unschedulable = true,
                "not ready" => node.readiness = Readiness::NotReady,
                "tainted" => {
                    node.taints.push(Taint {
                        key: "own".into(),
                        value: "".into(),
                        effect: "NoSchedule".into(),
                    });
                }
                _ => node.labels[1] = label("pool", "other"),
            }
            node.labels.sort();
            world.tell(Event::Node(Arc::new(node)));
        }
        submit(&mut world, "j", 4, 1, |pod| {
            let mut pod = skewed(1, pod);
            if what == "not selected" {
                Arc::make_mut(&mut pod.shape).constraints.node_selector =
                    vec![label("pool", "own")];
            }
            pod
        });
        world.settle();
        assert_eq!(racks_of(&world, "j"), if counts { "" } else { "aabb" }, "{what}");
        if counts {
            let (_, message) = world.blocked("j");
            let text = "The numbers of pods in any two parts of level rack may differ by 1 at most: c has room for 0, so that \
                        there is room for 2 of 4 pods.";
            assert!(message.contains(text), "{message}");
            let of_level = world
                .blockers("j")
                .into_iter()
                .find(|by| by.reason == NoRoomInLevel)
                .expect("a level");
            assert_eq!(
                (of_level.level.as_deref(), of_level.part.as_deref()),
                (Some("rack"), Some("c"))
            );
            assert_eq!(
                (of_level.requested.as_deref(), of_level.available.as_deref()),
                (Some("4"), Some("2"))
            );
        }
    }
}

#[test]
fn of_a_gang_within_one_zone_the_racks_of_that_zone_count() {
    let mut world = World::told(settings(), FunctionTable::builtin(), &[]);
    for (name, zone, rack) in
        [("a", "x", "1"), ("b", "x", "2"), ("c", "y", "3"), ("d", "y", "4"), ("e", "y", "5")]
    {
        let label = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
        let labels = vec![label(RACK, rack), label("topology.kubernetes.io/zone", zone)];
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 2)) })));
    }
    let in_zone = |pod: Pod| {
        let (zone, rack) = (
            within(LevelBound::Required, "zone", RuleScope::Job),
            skewed(1, pod.clone()).levels.unwrap(),
        );
        Pod { levels: Some(zone.iter().chain(&*rack).cloned().collect()), ..pod }
    };
    submit(&mut world, "j", 4, 1, in_zone);
    world.settle();
    assert_eq!(racks_of(&world, "j"), "aabb");
    // The same for a pod that replaces a lost one: no rack of the other zone has fewer.
    let lost = (0..4)
        .map(|at| format!("j{at}"))
        .find(|pod| world.node_of(pod) == Some("a"))
        .expect("one is there");
    world.delete(&lost);
    world.submit(in_zone(of_job(pod("j-next", 1), "j")));
    world.settle();
    assert_eq!(world.node_of("j-next"), Some("a"));
}

#[test]
fn an_even_spread_is_promised_for_when_the_fullest_rack_has_room() {
    let mut world = racks(CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() });
    // Rack c has room for one pod from 100 s on, and for two from 300 s on.
    for (name, node, seconds) in [("x", "c1", 100), ("y", "c2", 300)] {
        let lifetime = Lifetime::Seconds(seconds);
        let runs =
            Pod { node: Some(node.into()), lifetime, started: Some(world.now), ..pod(name, 2) };
        world.submit(Pod { scheduler: "other".into(), ..runs });
    }
    submit(&mut world, "j", 6, 2, |pod| Pod { lifetime: Lifetime::Seconds(50), ..skewed(1, pod) });
    world.settle();
    let start = world.now.seconds();
    assert_eq!(world.estimate("j"), Some((EstimateKind::Reserved, start + 300)));
    let (_, message) = world.blocked("j");
    assert!(
        message.contains("c has room for 0, so that there is room for 2 of 6 pods."),
        "{message}"
    );
    // A rack is lost for good meanwhile: of five nodes it fits when there is one free in c, three
    // in b.
    for name in ["a1", "a2"] {
        world.tell(Event::NodeGone(NodeName::from(name), Uid::from(format!("uid-{name}"))));
    }
    submit(&mut world, "k", 5, 2, |pod| Pod { lifetime: Lifetime::Seconds(50), ..skewed(2, pod) });
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Unsatisfiable));
    assert_eq!(world.estimate("k"), Some((EstimateKind::Reserved, start + 300)));
}

#[test]
fn a_promise_counts_racks_that_come_later() {
    let mut world = racks(CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() });
    for name in ["a1", "a2"] {
        let lifetime = Lifetime::Seconds(100);
        let runs = Pod {
            node: Some(name.into()),
            lifetime,
            started: Some(world.now),
            ..pod(&format!("on-{name}"), 2)
        };
        world.submit(Pod { scheduler: "other".into(), ..runs });
    }
    submit(&mut world, "j", 6, 2, |pod| Pod { lifetime: Lifetime::Seconds(50), ..skewed(1, pod) });
    world.settle();
    assert_eq!(world.estimate("j").map(|(kind, _)| kind), Some(EstimateKind::Reserved));
    // The nodes of the new rack cannot be used yet, but it counts: 2, 2, 2 and none are not even.
    for name in ["d1", "d2"] {
        let Event::Node(node) = node_in(name, "d") else { unreachable!("it is a node") };
        world.tell(Event::Node(Arc::new(Node { unschedulable: true, ..Node::clone(&node) })));
    }
    world.settle();
    assert_ne!(world.estimate("j").map(|(kind, _)| kind), Some(EstimateKind::Reserved));
    world.pass_seconds(101);
    for pod in ["on-a1", "on-a2"] {
        world.delete(pod);
    }
    world.settle();
    assert_eq!(racks_of(&world, "j"), "");
    world.tell(node_in("d1", "d"));
    world.settle();
    assert_eq!(racks_of(&world, "j").len(), 6);
}

#[test]
fn a_placement_that_is_not_even_any_more_is_withdrawn() {
    for (moved, pods) in [(true, 3), (false, 6)] {
        let mut world = racks(settings());
        submit(&mut world, "j", pods, 2, |pod| skewed(1, pod));
        let actions = world.step();
        assert_eq!(binds(&actions), 0, "it is written first");
        // A node comes to another rack, or a rack comes where none of them is.
        world.tell(if moved { node_in("c1", "a") } else { node_in("d1", "d") });
        world.carry_out_all(actions);
        world.settle();
        let (reason, message) = world.blocked("j");
        assert!(
            reason == "PlacementWithdrawn" && message.contains("which may differ by 1"),
            "{reason}: {message}"
        );
        world.pass_seconds(2);
        world.settle();
        assert_eq!(world.bound(), pods as usize);
    }
}

#[test]
fn a_seat_on_record_is_not_taken_again_where_its_node_has_left_the_rack() {
    for leaves in [false, true] {
        let mut world = racks(settings());
        submit(&mut world, "j", 3, 2, |pod| in_one("rack", pod));
        // One is bound, and the process ends.
        world.carry_out_to_first_binding();
        assert_eq!(racks_of(&world, "j"), "b");
        let taken = world.pods.values().find_map(|pod| pod.node.clone()).expect("one is bound");
        let free =
            ["b1", "b2", "b3"].into_iter().find(|name| *name != &*taken).expect("three nodes");
        let moved = |(name, rack)| (name, if leaves && name == free { "a" } else { rack });
        let nodes: Vec<_> = NODES.into_iter().map(moved).chain([("b4", "b")]).collect();
        succeed(&mut world, &nodes, job("j", 3, 3));
        for _ in 0..3 {
            world.settle();
            world.pass_seconds(1);
        }
        let mut nodes: Vec<String> =
            world.pods.values().filter_map(|pod| Some(pod.node.as_ref()?.to_string())).collect();
        nodes.sort_unstable();
        let expected: Vec<&str> = ["b1", "b2", "b3", "b4"]
            .into_iter()
            .filter(|name| *name != if leaves { free } else { "b4" })
            .collect();
        assert_eq!(nodes, expected);
    }
}

#[test]
fn who_joins_a_gang_that_is_even_counts_those_who_stand() {
    for restarts in [false, true] {
        let mut world = racks(settings());
        submit(&mut world, "j", 6, 1, |pod| skewed(1, pod));
        world.settle();
        assert_eq!(racks_of(&world, "j"), "aabbcc");
        // Both pods of rack a are lost with what they had; there is room for their successors
        // elsewhere, too.
        let of_a: Vec<String> = (0..6)
            .map(|at| format!("j{at}"))
            .filter(|pod| rack_of(&world, pod) == Some('a'))
            .collect();
        if restarts {
            succeed(&mut world, &NODES, job("j", 6, 6));
            world.settle();
        }
        for node in ["a1", "a2"] {
            world.tell(Event::NodeGone(NodeName::from(node), Uid::from(format!("uid-{node}"))));
        }
        for pod in &of_a {
            world.delete(pod);
        }
        world.tell(node_in("a3", "a"));
        world.tell(node_in("d1", "d"));
        for at in 0..2 {
            world.submit(skewed(1, of_job(pod(&format!("next{at}"), 1), "j")));
        }
        for _ in 0..5 {
            world.settle();
            world.pass_seconds(1);
        }
        // No rack may have a third one as long as these have none.
        let mut racks: Vec<Option<char>> =
            (0..2).map(|at| rack_of(&world, &format!("next{at}"))).collect();
        racks.sort_unstable();
        assert_eq!(racks, [Some('a'), Some('d')], "restarts: {restarts}");
    }
}

#[test]
fn pods_of_a_service_that_are_to_be_even_wait_for_the_rack_that_has_fewest() {
    let mut world = racks(settings());
    fill(&mut world, &["c1", "c2"]);
    let service = Controller { kind: OwnerKind::StatefulSet, completions: None, ..job("s", 4, 4) };
    world.tell(Event::Controller(Arc::new(service)));
    for at in 0..4 {
        let mut pod = skewed(1, of_job(pod(&format!("s{at}"), 1), "s"));
        pod.owner.as_mut().expect("it has an owner").kind = OwnerKind::StatefulSet;
        world.submit(Pod { lifetime: Lifetime::Endless, ..pod });
    }
    let go_on = |world: &mut World| {
        for _ in 0..10 {
            world.settle();
            world.pass_seconds(1);
        }
    };
    go_on(&mut world);
    assert_eq!(racks_of(&world, "s"), "ab", "rack c has none");
    let message = &world.conditions["s2"].message;
    assert!(
        message.contains(
            "Of level rack, a, b have as many pods of its job as may be there beside the rest."
        ),
        "{message}"
    );
    world.delete("on-c1");
    go_on(&mut world);
    let racks = racks_of(&world, "s");
    assert!(racks.len() == 4 && racks.contains('c'), "{racks}");
}

#[test]
fn a_library_without_levels_refuses_who_is_to_be_even() {
    let plain = FunctionTable { extensions: None, ..FunctionTable::builtin() };
    let mut world = World::on(plain, &[("a", 4)]);
    submit(&mut world, "j", 2, 1, |pod| skewed(1, pod));
    world.settle();
    let (reason, message) = world.blocked("j");
    assert!(
        reason == "UnsupportedConstraint" && message.ends_with("knows no levels above nodes"),
        "{message}"
    );
}
