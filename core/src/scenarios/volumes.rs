//! Pods with claims: the nodes that they may use, and the claims that have to be bound before they
//! start.

use fluxqueue_workload::constraints::Disk;

use super::neighbours::constrained;
use super::storage::mounting;
use super::*;

fn pair(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

pub(super) const NODES: [(&str, u64); 3] = [("n0", 4), ("n1", 4), ("n2", 4)];

#[test]
fn a_pod_goes_where_its_volume_is() {
    let mut world = World::labelled(&NODES);
    world.class("local", "kubernetes.io/no-provisioner");
    world.volume("v", "local", Some("n1"));
    world.claim("data", "local");
    world.bind_claim("data", "v");
    world.submit(mounting(pod("p", 1), &["data"]));
    world.settle();
    assert_eq!(world.node_of("p"), Some("n1"));
    // Where it is full, no other node will do.
    world.submit(mounting(pod("large", 4), &["data"]));
    world.submit(pod("free", 4));
    world.settle();
    assert_eq!((world.node_of("large"), world.node_of("free").is_some()), (None, true));
    let (_, text) = world.blocked("large");
    // A full node is counted as that, wherever the volume is.
    let full = "0/3 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 2 Insufficient cpu.";
    assert!(text.starts_with(full), "{text}");
}

#[test]
fn a_claim_that_is_not_ready_is_waited_for_and_named() {
    let mut world = World::labelled(&NODES);
    world.submit(mounting(pod("p", 1), &["data"]));
    world.settle();
    let said = |world: &World| world.conditions["p"].message.clone();
    assert_eq!(said(&world), r#"0/3 nodes are available: persistentvolumeclaim "data" not found."#);
    let (reason, text) = world.blocked("p");
    assert_eq!(reason, "VolumesNotReady");
    assert!(text.contains("claim ns/data") && text.contains("not found"), "{text}");

    world.class("fast", "at-once");
    world.claim("data", "fast");
    world.pass_seconds(60);
    world.settle();
    assert!(
        world.blocked("p").1.contains("unbound immediate PersistentVolumeClaims"),
        "{:?}",
        world.blocked("p")
    );
    world.volume("v", "fast", Some("n2"));
    world.bind_claim("data", "v");
    world.settle();
    assert_eq!(world.node_of("p"), Some("n2"), "that it is bound is an event");

    world.change_claim("data", |claim| claim.deleting = true);
    world.submit(mounting(pod("late", 1), &["data"]));
    world.settle();
    assert!(world.blocked("late").1.contains("is being deleted"), "{:?}", world.blocked("late"));
}

#[test]
fn one_pod_at_a_time_uses_a_claim_that_says_so() {
    let mut world = World::labelled(&NODES);
    world.class("net", "at-once");
    world.volume("v", "net", None);
    world.claim("data", "net");
    world.bind_claim("data", "v");
    world.change_claim("data", |claim| claim.wants.access_modes = vec!["ReadWriteOncePod".into()]);
    world.submit(mounting(pod("a", 1), &["data"]));
    world.submit(mounting(pod("b", 1), &["data"]));
    world.settle();
    assert_eq!(world.bound(), 1, "{:?}", world.bindings);
    let waiting = if world.node_of("a").is_none() { "a" } else { "b" };
    let running = if waiting == "a" { "b" } else { "a" };
    world.settle();
    assert!(world.blocked(waiting).1.contains("ReadWriteOncePod"), "{:?}", world.blocked(waiting));
    world.change(running, |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert!(world.node_of(waiting).is_some());
}

#[test]
fn a_claim_of_a_nominated_pod_keeps_others_off_its_node_that_have_disks_as_well() {
    let with_disk = |pod: Pod| {
        let disk = Disk::Gce { name: "disk".into(), read_only: false };
        constrained(pod, |constraints| constraints.disks = vec![disk])
    };
    for (ours, is_kept_off) in [(pod("ours", 1), false), (with_disk(pod("ours", 1)), true)] {
        let mut world = World::labelled(&[("n0", 8)]);
        world.class("net", "at-once");
        world.volume("v", "net", None);
        world.claim("data", "net");
        world.bind_claim("data", "v");
        world.change_claim("data", |claim| {
            claim.wants.access_modes = vec!["ReadWriteOncePod".into()];
        });
        let theirs =
            Pod { nominated: Some("n0".into()), scheduler: "other".into(), ..pod("theirs", 1) };
        world.submit(mounting(theirs, &["data"]));
        world.submit(mounting(ours, &["data"]));
        world.settle();
        assert_eq!(world.node_of("ours").is_none(), is_kept_off);
        if is_kept_off {
            assert!(
                world.blocked("ours").1.contains("ReadWriteOncePod"),
                "{:?}",
                world.blocked("ours")
            );
            world.change("theirs", |pod| pod.nominated = None);
            world.settle();
            assert_eq!(world.node_of("ours"), Some("n0"));
        }
    }
}

#[test]
fn a_gang_begins_when_all_its_claims_are_bound() {
    let mut world = World::labelled(&NODES);
    world.class("local", "kubernetes.io/no-provisioner");
    for (volume, on) in [("v0", "n0"), ("v1", "n1")] {
        world.volume(volume, "local", Some(on));
    }
    for claim in ["c0", "c1"] {
        world.claim(claim, "local");
    }
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for (name, claim) in [("p0", "c0"), ("p1", "c1")] {
        world.submit(of_job(mounting(pod(name, 1), &[claim]), "j"));
    }
    world.settle();
    assert_eq!(world.bound(), 0);
    assert_eq!(world.state("j"), Some(JobState::Starting));
    let written = world.written();
    assert_eq!(written.len(), 2, "{written:?}");
    assert_ne!(written[0].1, written[1].1, "no volume is chosen twice");
    world.bind_claim(&written[0].0, &written[0].1);
    world.settle();
    assert_eq!(world.bound(), 0, "one claim is not bound");
    world.bind_claim(&written[1].0, &written[1].1);
    world.settle();
    assert_eq!(world.bound(), 2, "{:?}", world.bindings);
    assert_ne!(world.node_of("p0"), world.node_of("p1"));
}

#[test]
fn two_jobs_never_have_the_same_volume() {
    let mut world = World::labelled(&NODES);
    world.class("local", "kubernetes.io/no-provisioner");
    world.volume("v", "local", Some("n0"));
    for (name, claim) in [("a", "ca"), ("b", "cb")] {
        world.claim(claim, "local");
        world.submit(mounting(pod(name, 1), &[claim]));
    }
    world.settle();
    let written = world.written();
    assert_eq!(written.len(), 1, "{written:?}");
    let other = if written[0].0 == "ca" { "b" } else { "a" };
    let (_, text) = world.blocked(other);
    assert!(text.contains("3 node(s) didn't find available persistent volumes to bind"), "{text}");
    world.volume("w", "local", Some("n1"));
    world.settle();
    assert_eq!(world.written().len(), 1, "another volume is an event");
}

#[test]
fn pods_that_start_together_and_share_a_claim_for_one_pod_are_told_so() {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    world.change_claim("data", |claim| claim.wants.access_modes = vec!["ReadWriteOncePod".into()]);
    for name in ["p0", "p1"] {
        world.submit(of_group(mounting(pod(name, 1), &["data"]), "g", Ok(2)));
    }
    world.settle();
    let (reason, text) = world.blocked("g");
    assert_eq!((world.bound(), reason), (0, "VolumesNotReady".to_owned()));
    assert!(text.contains("claim ns/data: pods that start together mount it"), "{text}");
    world.submit(pod("other", 4));
    world.settle();
    assert_eq!(world.bound(), 1, "it holds nobody up");
    world.change_claim("data", |claim| claim.wants.access_modes = vec!["ReadWriteMany".into()]);
    world.settle();
    assert_eq!(world.written().len(), 1, "it waits for its volume now");
}

/// A gang of two that mount one claim and have no room on one node; where the first of them is to
/// be is written to the claim.
fn gang_with_one_claim_to_be_made() -> (World, String) {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    for name in ["p0", "p1"] {
        world.submit(of_group(mounting(pod(name, 3), &["data"]), "g", Ok(2)));
    }
    world.settle();
    let written = world.written();
    assert_eq!((written.len(), world.bound()), (1, 0), "{written:?}");
    (world, written[0].1.clone())
}

#[test]
fn pods_that_share_a_claim_start_on_several_nodes_when_its_volume_is_there() {
    let (mut world, _) = gang_with_one_claim_to_be_made();
    world.volume("v", "made", None);
    world.bind_claim("data", "v");
    world.settle();
    assert_eq!(world.bound(), 2, "{:?}", world.bindings);
    assert_ne!(world.node_of("p0"), world.node_of("p1"));
    assert_eq!(world.written(), pair(&[]), "one node is written, once");
}

#[test]
fn pods_that_share_a_claim_whose_volume_only_one_node_can_use_give_their_places_back() {
    let (mut world, node) = gang_with_one_claim_to_be_made();
    world.volume("v", "made", Some(&node));
    world.bind_claim("data", "v");
    world.settle();
    assert_eq!(world.bound(), 0, "one of them could not have it: {:?}", world.bindings);
    world.pass_seconds(40);
    world.settle();
    assert_eq!(world.bound(), 0);
    assert!(
        world.blocked("g").1.contains("didn't match PersistentVolume's node affinity"),
        "{:?}",
        world.blocked("g")
    );
}

#[test]
fn pods_that_share_a_claim_wait_again_when_its_provisioner_gives_up() {
    let (mut world, _) = gang_with_one_claim_to_be_made();
    world.change_claim("data", |claim| claim.selected_node = None);
    world.settle();
    assert_eq!((world.bound(), world.blocked("g").0), (0, "PlacementWithdrawn".to_owned()));
    world.pass_seconds(5);
    world.settle();
    assert_eq!(world.written().len(), 1, "it is asked again");
    world.volume("v", "made", None);
    world.bind_claim("data", "v");
    world.settle();
    assert_eq!(world.bound(), 2, "{:?}", world.bindings);
}

#[test]
fn pods_that_share_a_claim_start_after_a_restart() {
    let (mut world, _) = gang_with_one_claim_to_be_made();
    world.start_anew(&NODES, &[]);
    assert_eq!(world.bound(), 0);
    world.volume("v", "made", None);
    world.bind_claim("data", "v");
    world.settle();
    world.pass_seconds(40);
    world.settle();
    assert_eq!(world.bound(), 2, "{:?}", world.bindings);
}

#[test]
fn pods_that_mount_one_claim_get_one_volume() {
    for class in ["local", "made"] {
        let mut world = World::labelled(&NODES);
        world.class("local", "kubernetes.io/no-provisioner");
        world.class("made", "example.com/disk");
        for (volume, on) in [("v0", "n0"), ("v1", "n1"), ("v2", "n2")] {
            world.volume(volume, "local", Some(on));
        }
        world.claim("data", class);
        for name in ["p0", "p1"] {
            world.submit(of_group(mounting(pod(name, 2), &["data"]), "g", Ok(2)));
        }
        world.settle();
        world.submit(mounting(pod("alone", 2), &["data"]));
        world.settle();
        world.pass_seconds(5);
        world.settle();
        let written = world.written();
        assert_eq!(written.len(), 1, "{class}: {written:?}");
        let node = written[0].1.replace('v', "n");
        if class == "made" {
            world.volume("w", "made", Some(&node));
            world.bind_claim("data", "w");
        } else {
            world.bind_claim("data", &written[0].1);
        }
        world.settle();
        world.pass_seconds(40);
        world.settle();
        assert_eq!(
            (world.node_of("p0"), world.node_of("p1")),
            (Some(&*node), Some(&*node)),
            "{class}"
        );
        assert_eq!(world.node_of("alone"), None, "{class}: there is no room beside them");
    }
}

#[test]
fn a_volume_is_made_for_the_node_and_waited_for() {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    world.submit(mounting(pod("p", 1), &["data"]));
    world.settle();
    assert_eq!((world.written(), world.bound()), (pair(&[("data", "n0")]), 0));
    world.volume("v", "made", Some("n0"));
    world.bind_claim("data", "v");
    world.settle();
    assert_eq!(world.node_of("p"), Some("n0"));
}

/// The node that a pod says it is meant for.
fn nominated<'a>(world: &'a World, pod: &str) -> Option<&'a str> {
    world.pods[pod].nominated.as_deref()
}

#[test]
fn while_a_claim_is_bound_its_pod_says_where_it_is_to_be() {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    world.submit(mounting(pod("p", 1), &["data"]));
    world.settle();
    assert_eq!((world.written(), nominated(&world, "p")), (pair(&[("data", "n0")]), Some("n0")));
    world.change_claim("data", |claim| claim.selected_node = None);
    world.settle();
    assert_eq!(nominated(&world, "p"), None, "its provisioner gave up");
    // A nomination by another client stays, until it has a place.
    world.change("p", |pod| pod.nominated = Some("gone".into()));
    world.settle();
    assert_eq!(nominated(&world, "p"), Some("gone"));
    world.pass_seconds(3);
    world.settle();
    let node = world.written()[0].1.clone();
    assert_eq!(nominated(&world, "p"), Some(&*node));
    world.volume("v", "made", Some(&node));
    world.bind_claim("data", "v");
    world.settle();
    assert_eq!((world.node_of("p"), nominated(&world, "p")), (Some(&*node), None));
}

#[test]
fn all_pods_of_a_gang_say_where_they_are_to_be_while_claims_are_bound() {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    world.submit(of_group(mounting(pod("p0", 3), &["data"]), "g", Ok(2)));
    world.submit(of_group(pod("p1", 3), "g", Ok(2)));
    world.settle();
    let node = world.written()[0].1.clone();
    let other = nominated(&world, "p1").expect("it waits for the other's claim").to_owned();
    assert_eq!(nominated(&world, "p0"), Some(&*node));
    world.volume("v", "made", Some(&node));
    world.bind_claim("data", "v");
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some(&*node), Some(&*other)));

    let mut world = gang_whose_volumes_are_made();
    assert!(["p0", "p1"].into_iter().all(|pod| nominated(&world, pod).is_some()));
    world.change_claim("c0", |claim| claim.selected_node = None);
    world.settle();
    assert_eq!(
        (nominated(&world, "p0"), nominated(&world, "p1")),
        (None, None),
        "{:?}",
        world.blocked("g")
    );
}

#[test]
fn where_a_pod_is_to_be_is_written_again_after_a_conflict_and_binds_without() {
    for outcome in [WriteOutcome::Conflict, WriteOutcome::Failed("timeout".to_owned())] {
        let mut world = World::labelled(&NODES);
        world.class("made", "example.com/disk");
        world.claim("data", "made");
        world.submit(mounting(pod("p", 1), &["data"]));
        world.submit(pod("plain", 1));
        let mut asked = Vec::new();
        for _ in 0..30 {
            for action in world.step() {
                match &action.kind {
                    ActionKind::Write(Write::Nominate { pod, .. }) => {
                        asked.push(pod.key.name.to_string());
                        world.tell(Event::Done(action.id, Outcome::Write(outcome.clone())));
                    }
                    _ => world.carry_out(action),
                }
            }
            world.now = world.now.plus_millis(100);
        }
        // What may have taken effect is left at that.
        let times = if matches!(outcome, WriteOutcome::Conflict) { 3 } else { 1 };
        assert_eq!(asked, vec!["p"; times], "once a second, and never for a pod without claims");
        world.volume("v", "made", Some("n0"));
        world.bind_claim("data", "v");
        world.settle();
        assert_eq!(world.node_of("p"), Some("n0"));
    }
}

#[test]
fn a_provisioner_that_gives_up_is_asked_again_and_one_elsewhere_is_followed() {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    world.submit(mounting(pod("p", 1), &["data"]));
    world.settle();
    assert_eq!(world.written().len(), 1);
    world.change_claim("data", |claim| claim.selected_node = None);
    world.settle();
    assert_eq!(world.blocked("p").0, "VolumeBindingFailed");
    assert!(world.blocked("p").1.contains("provisioning failed for persistentvolumeclaim ns/data"));
    world.pass_seconds(3);
    world.settle();
    assert_eq!((world.written().len(), world.bound()), (1, 0), "it is asked again");
    // The volume is made, but where it is of no use to that node.
    world.volume("v", "made", Some("n2"));
    world.bind_claim("data", "v");
    world.settle();
    world.pass_seconds(30);
    world.settle();
    assert_eq!(world.node_of("p"), Some("n2"));
}

/// A gang `g` of two pods has its slots, and the volume of each is being made.
fn gang_whose_volumes_are_made() -> World {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    for (name, claim) in [("p0", "c0"), ("p1", "c1")] {
        world.claim(claim, "made");
        world.submit(of_group(mounting(pod(name, 3), &[claim]), "g", Ok(2)));
    }
    world.settle();
    world
}

#[test]
fn a_gang_that_has_no_place_left_beside_what_was_bound_is_told_which_claims_are_where() {
    let mut world = gang_whose_volumes_are_made();
    let written = world.written();
    let (first, second) = (written[0].clone(), written[1].clone());
    world.volume("v", "made", Some(&second.1));
    world.bind_claim(&first.0, "v");
    world.change_claim(&second.0, |claim| claim.selected_node = None);
    // A service takes the node where that volume is.
    let service = Pod {
        lifetime: Lifetime::Endless,
        node: Some(second.1.as_str().into()),
        ..pod("service", 2)
    };
    world.submit(Pod { scheduler: "other".into(), ..service });
    world.settle();
    world.pass_seconds(40);
    world.settle();
    let (_, text) = world.blocked("g");
    let named =
        format!("Claim ns/{} is bound to volume v, which only {} can use.", first.0, second.1);
    assert!(text.contains(&named), "{text}");
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (None, None));
}

#[test]
fn what_was_bound_of_a_gang_that_failed_keeps_it_there() {
    let mut world = gang_whose_volumes_are_made();
    let written = world.written();
    assert_eq!(written.len(), 2);
    // One is made on the node that the other is to use, and there it stays; the other is given up.
    let (first, second) = (written[0].clone(), written[1].clone());
    world.volume("v", "made", Some(&second.1));
    world.bind_claim(&first.0, "v");
    world.change_claim(&second.0, |claim| claim.selected_node = None);
    world.settle();
    assert_eq!(world.blocked("g").0, "PlacementWithdrawn");
    assert!(world.blocked("g").1.contains("ns/c"), "{:?}", world.blocked("g"));
    world.pass_seconds(5);
    world.settle();
    let again = world.written();
    assert_eq!(again.len(), 1, "{again:?}");
    assert_ne!(again[0].1, second.1, "that node is full with the one whose volume is there");
    world.volume("w", "made", Some(&again[0].1));
    world.bind_claim(&again[0].0, "w");
    world.settle();
    assert_eq!(world.bound(), 2);
}

#[test]
fn a_process_that_dies_while_volumes_are_bound_is_followed_by_one_that_finds_them() {
    let mut world = gang_whose_volumes_are_made();
    let written = world.written();
    world.start_anew(&NODES, &[]);
    assert_eq!((world.written(), world.bound()), (Vec::new(), 0), "nothing is written twice");
    for (at, (claim, node)) in written.iter().enumerate() {
        world.volume(&format!("v{at}"), "made", Some(node));
        world.bind_claim(claim, &format!("v{at}"));
    }
    world.settle();
    assert_eq!(world.bound(), 2, "{:?}", world.blocked("g"));
}

#[test]
fn volumes_that_are_not_bound_in_time_give_the_slot_back() {
    let mut world = World::labelled(&NODES);
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    world.submit(mounting(pod("p", 4), &["data"]));
    world.settle();
    world.submit(pod("a", 4));
    world.submit(pod("b", 4));
    world.submit(pod("c", 4));
    world.settle();
    assert_eq!(world.bound(), 2, "the slot is taken");
    world.pass_seconds(601);
    world.settle();
    assert_eq!(world.bound(), 3, "{:?}", world.blocked("p"));
}

#[test]
fn what_rests_on_volumes_is_promised_no_start() {
    let mut world = World::told(
        CoreSettings { queue_policy: crate::QueuePolicy::Easy, ..settings() },
        FunctionTable::builtin(),
        &NODES,
    );
    world.class("made", "example.com/disk");
    world.claim("data", "made");
    for name in ["a", "b", "c"] {
        let mut pod = pod(name, 4);
        pod.lifetime = Lifetime::Seconds(100);
        world.submit(pod);
    }
    world.settle();
    world.submit(mounting(pod("mounts", 4), &["data"]));
    world.settle();
    let status = world.record("mounts").status.clone().expect("a status");
    assert_eq!((status.reservation, status.estimated_start), (None, None));
    world.pass_seconds(10);
    world.settle();
    let status = world.record("mounts").status.clone().expect("a status");
    assert_eq!(status.reservation, None);
    assert_eq!(
        world.estimate("mounts"),
        Some((fluxqueue_api::EstimateKind::Projected, 2100)),
        "it is no promise"
    );
    for name in ["a", "b", "c"] {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    assert_eq!(world.written().len(), 1);
}
