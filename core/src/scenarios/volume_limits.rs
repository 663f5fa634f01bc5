//! Nodes that attach a limited number of volumes.

use fluxqueue_workload::storage::{Attachable, CsiNode};

use super::kept_away::{BACKFILL, Stream, held, passed_by};
use super::storage::mounting;
use super::*;
use crate::QueuePolicy;
use fluxqueue_machine::cluster::volumes::StorageNews;

/// Limits the number of volumes of one driver that the node attaches.
fn limit(world: &mut World, node: &str, volumes: u64) {
    let limits = [(Arc::from("example.com/disk"), volumes)].into();
    let node = CsiNode { node: node.into(), uid: "u".into(), limits, taken_over: [].into() };
    world.tell(Event::Storage(StorageNews::CsiNode(Arc::new(node))));
}

/// Two nodes with room for many pods, each of which attaches two volumes.
fn nodes(queue_policy: QueuePolicy) -> World {
    let settings = CoreSettings { queue_policy, ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &[("n0", 8), ("n1", 8)]);
    world.class("made", "example.com/disk");
    for node in ["n0", "n1"] {
        limit(&mut world, node, 2);
    }
    // Of a stream, and of others.
    for name in (0..50).map(|at| format!("s{at}")).chain((0..4).map(|at| format!("c{at}"))) {
        world.claim(&name, "made");
        world.volume(&format!("v-{name}"), "made", None);
        let csi = Attachable {
            driver: "example.com/disk".into(),
            handle: name.as_str().into(),
            replaces: None,
        };
        world.change_volume(&format!("v-{name}"), |volume| volume.attachable = Some(csi));
        world.bind_claim(&name, &format!("v-{name}"));
    }
    world
}

#[test]
fn a_node_attaches_so_many_volumes_and_no_more() {
    let mut world = World::labelled(&[("n0", 8)]);
    limit(&mut world, "n0", 2);
    world.class("made", "example.com/disk");
    for name in ["a", "b", "c"] {
        world.claim(name, "made");
        world.submit(mounting(pod(name, 1), &[name]));
    }
    world.settle();
    assert_eq!(world.written().len(), 2);
    let waiting =
        ["a", "b", "c"].into_iter().find(|name| world.selected_node(name).is_none()).unwrap();
    assert!(
        world.blocked(waiting).1.contains("1 node(s) exceed max volume count"),
        "{:?}",
        world.blocked(waiting)
    );
    limit(&mut world, "n0", 3);
    world.settle();
    assert_eq!(world.written().len(), 1);
}

#[test]
fn a_nominated_pod_keeps_the_place_of_its_volume_on_its_node() {
    let mut world = World::labelled(&[("n0", 8)]);
    limit(&mut world, "n0", 1);
    world.class("made", "example.com/disk");
    world.claim("theirs", "made");
    world.claim("ours", "made");
    let theirs =
        Pod { nominated: Some("n0".into()), scheduler: "other".into(), ..pod("theirs", 1) };
    world.submit(mounting(theirs, &["theirs"]));
    world.submit(mounting(pod("ours", 1), &["ours"]));
    world.settle();
    assert_eq!(world.written().len(), 0);
    assert!(
        world.blocked("ours").1.contains("1 node(s) exceed max volume count"),
        "{:?}",
        world.blocked("ours")
    );
    world.change("theirs", |pod| pod.nominated = None);
    world.settle();
    assert_eq!(world.written().len(), 1);
}

/// Each of them mounts a volume.
fn stream() -> Stream {
    Stream::of(|name| mounting(pod(name, 1), &[name]))
}

#[test]
fn a_pod_with_two_volumes_starts_beside_a_stream_of_pods_with_one() {
    for policy in BACKFILL {
        let mut world = nodes(policy);
        let mut stream = stream();
        stream.submit(&mut world, 4);
        world.submit(mounting(pod("two", 1), &["c0", "c1"]));
        world.settle();
        let (reason, why) = world.blocked("two");
        assert_eq!(reason, "NoMatchingNodes");
        assert!(why.contains("2 node(s) exceed max volume count"), "{why}");
        assert!(why.contains("No end is known for ns/s"), "{why}");
        assert!(passed_by(&world, "two"), "{policy:?}");
        stream.go_on(&mut world, 290);
        assert_eq!((world.node_of("two"), held(&world, "two")), (None, None), "{policy:?}");
        stream.go_on(&mut world, 10);
        assert_eq!(
            held(&world, "two").map(|nodes| nodes.len()),
            Some(2),
            "{policy:?}: one node is enough"
        );
        stream.go_on(&mut world, 60);
        assert!(world.node_of("two").is_some(), "{policy:?}: {:?}", world.blocked("two"));
    }
}

#[test]
fn a_gang_whose_volumes_need_both_nodes_starts_beside_such_a_stream() {
    for policy in BACKFILL {
        let mut world = nodes(policy);
        let mut stream = stream();
        stream.submit(&mut world, 4);
        world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
        for (name, claims) in [("p0", ["c0", "c1"]), ("p1", ["c2", "c3"])] {
            world.submit(of_job(mounting(pod(name, 1), &claims), "j"));
        }
        world.settle();
        assert!(passed_by(&world, "j"), "{policy:?}: {:?}", world.blocked("j"));
        stream.go_on(&mut world, 290);
        assert_eq!(held(&world, "j"), None, "{policy:?}");
        stream.go_on(&mut world, 10);
        assert_eq!(
            held(&world, "j").as_deref(),
            Some("n[0-1]"),
            "{policy:?}: though one has room for both pods"
        );
        stream.end(&mut world);
        let (first, second) = (world.node_of("p0"), world.node_of("p1"));
        assert!(
            first.is_some() && second.is_some() && first != second,
            "{policy:?}: {first:?} {second:?}"
        );
    }
}

#[test]
fn where_services_have_the_volumes_nothing_is_held() {
    for policy in BACKFILL {
        let mut world = nodes(policy);
        for (at, node) in ["n0", "n1"].into_iter().enumerate() {
            let service = Pod {
                lifetime: Lifetime::Endless,
                node: Some(node.into()),
                scheduler: "other".into(),
                ..pod(node, 1)
            };
            world.submit(mounting(service, &[&format!("s{at}")]));
        }
        world.submit(mounting(pod("two", 1), &["c0", "c1"]));
        world.pass_seconds(400);
        world.settle();
        assert!(!passed_by(&world, "two") && held(&world, "two").is_none(), "{policy:?}");
    }
}
