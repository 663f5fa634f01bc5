//! Volumes that are chosen with nodes, and claims that name a node.

use super::storage::mounting;
use super::volumes::NODES;
use super::*;

#[test]
fn volumes_that_are_chosen_with_nodes_are_on_nodes_that_nobody_else_uses() {
    let alone = |pod: Pod| Pod { exclusive: Some(true), ..pod };
    let mut world = World::labelled(&NODES);
    world.class("local", "kubernetes.io/no-provisioner");
    for (volume, on) in [("v0", "n0"), ("v1", "n1"), ("v2", "n2")] {
        world.volume(volume, "local", Some(on));
    }
    world.submit(Pod { node: Some("n0".into()), scheduler: "other".into(), ..pod("x", 1) });
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for (name, claim) in [("p0", "c0"), ("p1", "c1")] {
        world.claim(claim, "local");
        world.submit(alone(of_job(mounting(pod(name, 1), &[claim]), "j")));
    }
    world.settle();
    let written = world.written();
    let volumes: Vec<&str> = written.iter().map(|(_, volume)| &**volume).collect();
    assert!(
        volumes == ["v1", "v2"] || volumes == ["v2", "v1"],
        "there is room on n0, and somebody else: {written:?}"
    );
    // While the claims are bound its nodes are its own.
    for name in ["y0", "y1"] {
        world.submit(pod(name, 1));
    }
    world.settle();
    assert_eq!((world.node_of("y0"), world.node_of("y1")), (Some("n0"), Some("n0")));
    // So is a pod that mounts an existing volume: the node of its volume is held.
    world.claim("c2", "local");
    world.volume("v3", "local", Some("n1"));
    world.bind_claim("c2", "v3");
    world.submit(mounting(pod("z", 1), &["c2"]));
    world.settle();
    assert_eq!(world.node_of("z"), None);
    let (_, text) = world.blocked("z");
    assert!(text.contains("1 node(s) were held by exclusive jobs"), "{text}");
    for (claim, volume) in written {
        world.bind_claim(&claim, &volume);
    }
    world.settle();
    assert!(world.node_of("p0").is_some() && world.node_of("p1").is_some());
    for name in ["p0", "p1"] {
        world.delete(name);
    }
    world.tell(Event::ControllerGone("uid-j".into()));
    world.pass_seconds(60);
    world.settle();
    assert_eq!(world.node_of("z"), Some("n1"));
}

/// A claim with a volume that is being made for a node of three.
fn with_a_claim_to_be_made() -> (World, String) {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    world.submit(mounting(pod("p", 1), &["data"]));
    world.settle();
    let node = world.written()[0].1.clone();
    (world, node)
}

#[test]
fn a_claim_that_names_a_node_that_is_gone_is_given_another_one() {
    let (mut world, gone) = with_a_claim_to_be_made();
    world.tell(Event::NodeGone(gone.as_str().into(), Uid::from(format!("uid-{gone}"))));
    world.settle();
    world.pass_seconds(5);
    world.settle();
    let node = world.selected_node("data").cloned().expect("it names a node");
    assert_ne!(*node, *gone);
    world.volume("v", "made", Some(&node));
    world.bind_claim("data", "v");
    world.settle();
    assert_eq!(world.node_of("p"), Some(&*node));
}

#[test]
fn a_claim_of_another_cluster_is_given_a_node_of_this_one() {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    world.change_claim("data", |claim| claim.selected_node = Some("of-the-old-cluster".into()));
    world.start_anew(&NODES, &[]);
    world.submit(mounting(pod("p", 1), &["data"]));
    world.settle();
    assert!(
        NODES
            .iter()
            .any(|node| world.selected_node("data").is_some_and(|named| *node.0 == **named))
    );
}

#[test]
fn a_claim_that_may_not_be_given_another_node_is_named_with_its_node() {
    use super::refused::settle_but;
    let (mut world, gone) = with_a_claim_to_be_made();
    world.tell(Event::NodeGone(gone.as_str().into(), Uid::from(format!("uid-{gone}"))));
    let refused = |action: &Action| {
        let refused = || Outcome::Write(WriteOutcome::Refused("403: forbidden".to_owned()));
        matches!(action.kind, ActionKind::Write(Write::SelectNode { .. })).then(refused)
    };
    settle_but(&mut world, refused);
    world.pass_seconds(3);
    settle_but(&mut world, refused);
    let said = &world.conditions["p"].message;
    assert!(said.contains("ns/data") && said.contains(&gone) && said.contains("403"), "{said}");
    // What needs the machine meanwhile has it.
    assert_eq!(world.core.gauges().assumed_pods, 0);
}
