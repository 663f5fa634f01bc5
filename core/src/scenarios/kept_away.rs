//! Pods that are kept off nodes by pods with an end, one after the other: they are passed by for a
//! time, and not for ever.

use super::neighbours::{apart, constrained, count, labels, list_racks, on, racks_under};
use super::promises::reserved;
use super::refused::of_namespace;
use super::*;
use crate::QueuePolicy;
use fluxqueue_workload::constraints::{HostPort, NamespaceScope, PodSelector, PodTerm};

pub(super) const BACKFILL: [QueuePolicy; 3] =
    [QueuePolicy::Easy, QueuePolicy::Hybrid, QueuePolicy::Conservative];

/// Four hosts, two in each rack, with room for many.
pub(super) const HOSTS: [(&str, &str, u64); 4] =
    [("a1", "a", 8), ("a2", "a", 8), ("b1", "b", 8), ("b2", "b", 8)];

pub(super) fn hosts(policy: QueuePolicy) -> World {
    racks_under(policy, &HOSTS)
}

/// A pod that shares no domain with its like, and has no known end.
fn mpi(name: &str, key: &str) -> Pod {
    apart(pod(name, 1), "mpi", key)
}

/// Submits job `j` with this number of such pods, which start together: `p0` and so on.
fn submit_mpi_gang(world: &mut World, pods: u32, key: &str) {
    world.tell(Event::Controller(Arc::new(job("j", pods, pods))));
    for at in 0..pods {
        world.submit(of_job(mpi(&format!("p{at}"), key), "j"));
    }
    world.settle();
}

/// Those of a stream that run now.
pub(super) struct Stream {
    pub(super) next: usize,
    running: Vec<String>,
    of: Box<dyn Fn(&str) -> Pod>,
}

impl Stream {
    /// Makes a stream of these pods, none of which has come.
    pub(super) fn of(of: impl Fn(&str) -> Pod + 'static) -> Self {
        Stream { next: 0, running: Vec::new(), of: Box::new(of) }
    }

    pub(super) fn submit(&mut self, world: &mut World, pods: usize) {
        for _ in 0..pods {
            let name = format!("s{}", self.next);
            world.submit((self.of)(&name));
            self.running.push(name);
            self.next += 1;
            world.settle();
        }
    }

    /// Goes on for this number of seconds: every ten seconds the oldest running pod ends, while
    /// others wait to take its place.
    pub(super) fn go_on(&mut self, world: &mut World, seconds: i64) {
        for _ in 0..seconds / 10 {
            world.pass_seconds(10);
            self.submit(world, 1);
            let runs = self.running.iter().position(|name| world.node_of(name).is_some());
            if let Some(at) = runs {
                let oldest = self.running.remove(at);
                world.change(&oldest, |pod| pod.phase = Phase::Succeeded);
            }
            world.settle();
        }
    }

    /// All that run end.
    pub(super) fn end(&mut self, world: &mut World) {
        let there: Vec<String> =
            self.running.iter().filter(|name| world.node_of(name).is_some()).cloned().collect();
        for name in there {
            world.change(&name, |pod| pod.phase = Phase::Succeeded);
        }
        world.settle();
    }
}

pub(super) fn passed_by(world: &World, workload: &str) -> bool {
    world.record(workload).status.as_ref().is_some_and(|status| status.passed_by_since.is_some())
}

pub(super) fn held(world: &World, workload: &str) -> Option<String> {
    reserved(world, workload).map(|(start, nodes)| {
        assert_eq!(start, None, "no start is promised");
        nodes
    })
}

#[test]
fn a_gang_with_a_host_for_each_pod_starts_beside_a_stream_of_its_like() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| mpi(name, "host"));
        stream.submit(&mut world, 4);
        submit_mpi_gang(&mut world, 4, "host");
        assert_eq!(count(&world, 4, ""), 0);
        let (reason, why) = world.blocked("j");
        assert_eq!(reason, "NoMatchingNodes");
        assert!(
            why.starts_with(
                "0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules."
            ),
            "{why}"
        );
        assert!(why.contains("No end is known for ns/s0-"), "{why}");
        assert!(passed_by(&world, "j"), "{policy:?}");
        stream.go_on(&mut world, 290);
        assert_eq!((count(&world, 4, ""), held(&world, "j")), (0, None), "{policy:?}");
        stream.go_on(&mut world, 20);
        assert_eq!(held(&world, "j").as_deref(), Some("a[1-2],b[1-2]"), "{policy:?}");
        // Those that run end, and no other takes their place.
        stream.go_on(&mut world, 10);
        assert_eq!(count(&world, 4, ""), 0);
        stream.end(&mut world);
        assert_eq!(count(&world, 4, ""), 4, "{policy:?}");
        assert_eq!(reserved(&world, "j"), None);
    }
}

#[test]
fn only_as_many_hosts_are_held_as_the_gang_needs_and_those_with_the_fewest_in_the_way() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| mpi(name, "host"));
        stream.submit(&mut world, 4);
        world.submit(on(pod("busy", 1), "a1"));
        submit_mpi_gang(&mut world, 3, "host");
        world.pass_seconds(301);
        world.settle();
        assert_eq!(held(&world, "j").as_deref(), Some("a2,b[1-2]"), "{policy:?}");
        world.submit(pod("other", 2));
        world.settle();
        assert_eq!(world.node_of("other"), Some("a1"), "{policy:?}");
        stream.go_on(&mut world, 40);
        assert_eq!(world.node_of("s4"), Some("a1"), "the stream goes on there");
        stream.end(&mut world);
        assert_eq!(count(&world, 3, ""), 3, "{policy:?}");
    }
}

/// By then the open hosts are full of other pods, which keep none away: these have to end as well.
#[test]
fn a_gang_whose_pods_share_no_host_waits_for_room_on_as_many_hosts() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        for node in ["a1", "a2", "b1"] {
            world.submit(on(pod(&format!("busy-{node}"), 8), node));
        }
        submit_mpi_gang(&mut world, 4, "host");
        assert!(passed_by(&world, "j"), "{policy:?}: {:?}", world.blocked("j"));
        world.pass_seconds(301);
        world.settle();
        assert_eq!(held(&world, "j").as_deref(), Some("a[1-2],b[1-2]"), "{policy:?}");
        for node in ["a1", "a2", "b1"] {
            world.submit(pod(&format!("late-{node}"), 8));
            world.change(&format!("busy-{node}"), |pod| pod.phase = Phase::Succeeded);
            world.settle();
        }
        assert_eq!(count(&world, 4, ""), 4, "{policy:?}");
    }
}

#[test]
fn a_gang_with_a_rack_for_each_pod_has_a_host_held_in_each() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| mpi(name, "rack"));
        stream.submit(&mut world, 2);
        submit_mpi_gang(&mut world, 2, "rack");
        assert!(passed_by(&world, "j"), "{policy:?}");
        world.pass_seconds(301);
        world.settle();
        assert_eq!(held(&world, "j").as_deref(), Some("a2,b2"), "{policy:?}");
        world.submit(pod("other", 7));
        world.settle();
        assert_eq!(world.node_of("other"), Some("a1"), "{policy:?}");
        stream.go_on(&mut world, 20);
        stream.end(&mut world);
        assert_eq!((count(&world, 2, "a"), count(&world, 2, "b")), (1, 1), "{policy:?}");
    }
}

#[test]
fn of_a_gang_whose_groups_are_apart_each_has_hosts_held() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| mpi(name, "host"));
        stream.submit(&mut world, 4);
        world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
        // The first pod has no rules about others, but is one of those that the others are apart
        // from.
        world.submit(of_job(Pod { labels: labels("mpi"), ..pod("p0", 1) }, "j"));
        for name in ["p1", "p2", "p3"] {
            world.submit(of_job(mpi(name, "host"), "j"));
        }
        world.settle();
        assert!(passed_by(&world, "j"), "{policy:?}: {:?}", world.blocked("j"));
        world.pass_seconds(301);
        world.settle();
        assert_eq!(held(&world, "j").as_deref(), Some("a[1-2],b[1-2]"), "{policy:?}");
        stream.go_on(&mut world, 20);
        stream.end(&mut world);
        assert_eq!(count(&world, 4, ""), 4, "{policy:?}");
    }
}

#[test]
fn a_lone_pod_that_is_to_be_apart_from_a_stream_starts_when_one_of_it_ends() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| Pod { labels: labels("x"), ..pod(name, 1) });
        stream.submit(&mut world, 2);
        world.submit(Pod { labels: labels("x"), ..on(pod("theirs", 1), "b1") });
        world.submit(Pod { labels: labels("y"), ..apart(pod("shy", 1), "x", "rack") });
        world.settle();
        assert!(passed_by(&world, "shy"), "{policy:?}: {:?}", world.blocked("shy"));
        stream.go_on(&mut world, 300);
        assert_eq!(world.node_of("shy"), None, "{policy:?}");
        stream.go_on(&mut world, 10);
        assert_eq!(
            held(&world, "shy").as_deref(),
            Some("b2"),
            "{policy:?}: the fewest have to end for that"
        );
        world.change("theirs", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert_eq!(world.node_of("shy").map(|node| &node[..1]), Some("b"), "{policy:?}");
    }
}

/// The other way round: those of the stream are to be apart from it.
#[test]
fn a_pod_that_a_stream_keeps_away_starts_when_those_that_run_have_ended() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream =
            Stream::of(|name| Pod { labels: labels("y"), ..apart(pod(name, 1), "x", "rack") });
        stream.submit(&mut world, 3);
        world.submit(Pod { labels: labels("x"), ..on(pod("beside", 1), "b1") });
        world.submit(apart(on(pod("theirs", 1), "b1"), "x", "rack"));
        world.submit(Pod { labels: labels("x"), ..pod("waits", 6) });
        world.settle();
        let why = world.blocked("waits").1;
        assert!(
            why.contains("node(s) didn't satisfy existing pods anti-affinity rules"),
            "{policy:?}: {why}"
        );
        assert!(passed_by(&world, "waits"), "{policy:?}");
        stream.go_on(&mut world, 310);
        let held = held(&world, "waits").expect("nodes are held");
        assert!(!held.contains(','), "one is enough: {held}");
        stream.go_on(&mut world, 30);
        assert_eq!(world.node_of("waits"), None, "{policy:?}");
        stream.end(&mut world);
        world.change("theirs", |pod| pod.phase = Phase::Succeeded);
        world.settle();
        assert!(world.node_of("waits").is_some(), "{policy:?}");
    }
}

#[test]
fn who_is_kept_away_by_what_never_ends_is_passed_over() {
    for policy in [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Conservative] {
        let mut world = hosts(policy);
        for node in ["a1", "a2", "b1"] {
            world.submit(Pod {
                lifetime: Lifetime::Endless,
                ..mpi(&format!("service-{node}"), "host")
            });
            world.settle();
            assert_eq!(world.node_of(&format!("service-{node}")), Some(node), "{policy:?}");
        }
        submit_mpi_gang(&mut world, 2, "host");
        world.submit(Pod { labels: labels("y"), ..apart(pod("shy", 1), "mpi", "host") });
        world.submit(pod("other", 7));
        world.settle();
        assert_eq!((world.node_of("shy"), count(&world, 2, "")), (Some("b2"), 0), "{policy:?}");
        world.pass_seconds(1_000);
        world.settle();
        assert!(!passed_by(&world, "j") && reserved(&world, "j").is_none(), "{policy:?}");
        world.submit(pod("more", 4));
        world.settle();
        assert!(world.node_of("more").is_some(), "{policy:?}: it holds nobody up");
        // A service that is to end after all is waited for.
        world.change("service-a1", |pod| pod.lifetime = Lifetime::Seconds(5_000));
        world.settle();
        assert!(
            policy == QueuePolicy::Fcfs || passed_by(&world, "j"),
            "{policy:?}: {:?}",
            world.blocked("j")
        );
    }
}

#[test]
fn a_host_of_a_service_is_not_among_those_that_are_held() {
    for policy in BACKFILL {
        let hosts =
            [("a1", "a", 8), ("a2", "a", 8), ("b1", "b", 8), ("b2", "b", 8), ("c1", "c", 8)];
        let mut world = racks_under(policy, &hosts);
        world.submit(Pod { lifetime: Lifetime::Endless, ..on(mpi("service", "host"), "a2") });
        let mut stream = Stream::of(|name| mpi(name, "host"));
        stream.submit(&mut world, 4);
        submit_mpi_gang(&mut world, 4, "host");
        world.pass_seconds(301);
        world.settle();
        assert_eq!(held(&world, "j").as_deref(), Some("a1,b[1-2],c1"), "{policy:?}");
        // It comes to one more, and there are too few left.
        world.submit(Pod { lifetime: Lifetime::Endless, ..on(mpi("second", "host"), "c1") });
        world.settle();
        assert_eq!(held(&world, "j"), None, "{policy:?}");
        world.submit(pod("other", 6));
        world.settle();
        assert!(world.node_of("other").is_some(), "{policy:?}");
    }
}

#[test]
fn a_successor_holds_the_same_nodes_and_writes_nothing() {
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(|name| mpi(name, "host"));
        stream.submit(&mut world, 4);
        submit_mpi_gang(&mut world, 3, "host");
        world.pass_seconds(301);
        world.settle();
        let before = held(&world, "j");
        assert!(before.is_some(), "{policy:?}");
        world.show_conditions(&["p0", "p1", "p2"]);
        let records = world.records.clone();
        world.restart();
        let [a1, a2, b1, b2] = HOSTS;
        list_racks(&mut world, &[b2, b1, a2, a1]);
        world.list(&[], &[job("j", 3, 3)]);
        let actions = world.step();
        assert!(actions.is_empty(), "a restart alone is no news: {actions:?}");
        assert_eq!(world.records, records, "{policy:?}");
        stream.go_on(&mut world, 10);
        assert_eq!(held(&world, "j"), before, "{policy:?}");
        stream.end(&mut world);
        assert_eq!(count(&world, 3, ""), 3, "{policy:?}");
    }
}

/// As for any request that waits for room: the ones behind do not get the nodes that it could use.
#[test]
fn first_come_first_served_nobody_passes_by_one_who_is_kept_away() {
    let mut world = hosts(QueuePolicy::Fcfs);
    let mut stream = Stream::of(|name| mpi(name, "host"));
    stream.submit(&mut world, 3);
    submit_mpi_gang(&mut world, 4, "host");
    world.submit(pod("other", 1));
    stream.submit(&mut world, 1);
    assert_eq!((world.node_of("other"), world.node_of("s3")), (None, None));
    assert!(
        world.blocked("other").1.starts_with("waits behind ns/j-"),
        "{:?}",
        world.blocked("other")
    );
    stream.end(&mut world);
    assert_eq!(count(&world, 4, ""), 4);
    assert!(world.node_of("other").is_some());
}

#[test]
fn a_gang_that_needs_a_host_port_starts_beside_a_stream_of_pods_that_have_it() {
    let with_port = |pod: Pod| {
        let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 22 };
        constrained(pod, |constraints| constraints.host_ports = vec![port])
    };
    for policy in BACKFILL {
        let mut world = hosts(policy);
        let mut stream = Stream::of(move |name| with_port(pod(name, 1)));
        stream.submit(&mut world, 4);
        world.tell(Event::Controller(Arc::new(job("j", 3, 3))));
        for name in ["p0", "p1", "p2"] {
            world.submit(of_job(with_port(pod(name, 1)), "j"));
        }
        world.settle();
        assert!(passed_by(&world, "j"), "{policy:?}: {:?}", world.blocked("j"));
        world.pass_seconds(301);
        world.settle();
        let nodes = held(&world, "j").expect("nodes are held");
        stream.go_on(&mut world, 30);
        stream.end(&mut world);
        assert_eq!(count(&world, 3, ""), 3, "{policy:?}, held {nodes}");
    }
}

// --- pods that keep pods of other namespaces away ---

/// A small pod that wants no pod of any namespace in its rack.
fn hermit(name: &str) -> Pod {
    let namespaces = NamespaceScope { named: Vec::new(), selected: Some(Vec::new()) };
    let pods = PodSelector { namespaces, labels: Some(Vec::new()) };
    constrained(pod(name, 1), |asks| {
        asks.repels.push(PodTerm { pods, topology_key: "rack".into() });
    })
}

fn theirs(name: &str, cores: u64) -> Pod {
    of_namespace("other", pod(name, cores))
}

/// Both racks are in use by pods of another namespace, without a known end, and the hermit waits.
fn beside_a_hermit(policy: QueuePolicy) -> World {
    let mut world = hosts(policy);
    for name in ["a1", "b1"] {
        world.submit(of_namespace("other", on(pod(&format!("on-{name}"), 8), name)));
    }
    world.submit(hermit("hermit"));
    world.settle();
    assert_eq!(world.node_of("hermit"), None);
    world
}

fn starts_after(world: &mut World, seconds: i64, pod: &str) -> bool {
    world.pass_seconds(seconds);
    world.settle();
    world.node_of(pod).is_some()
}

#[test]
fn a_pod_that_is_apart_from_all_namespaces_has_a_rack_held_for_a_while_and_once() {
    for policy in BACKFILL {
        let mut world = beside_a_hermit(policy);
        let bypass_secs = i64::try_from(world.core.settings.bypass_secs).expect("some minutes");
        world.submit(theirs("early", 8));
        assert!(starts_after(&mut world, 1, "early"), "{policy:?}: it passes by");
        world.pass_seconds(bypass_secs);
        world.settle();
        assert!(
            held(&world, "hermit").is_some_and(|node| node.len() == 2),
            "{policy:?}: {:?}",
            held(&world, "hermit")
        );
        world.submit(theirs("late", 8));
        assert!(!starts_after(&mut world, bypass_secs - 10, "late"), "{policy:?}");
        assert!(starts_after(&mut world, 20, "late"), "{policy:?}: its time is over");
        assert_eq!(held(&world, "hermit"), None);
        // What waits behind it is passed by for so long as if it was not there.
        world.submit(theirs("next", 8));
        world.settle();
        assert!(passed_by(&world, "next"), "{policy:?}");
        // A successor reads since when it waits.
        world.restart();
        list_racks(&mut world, &HOSTS);
        world.list(&[], &[]);
        world.settle();
        assert_eq!(held(&world, "hermit"), None, "{policy:?}");
        for name in ["on-a1", "early", "on-b1", "late"] {
            world.change(name, |pod| pod.phase = Phase::Succeeded);
        }
        world.settle();
        assert_eq!(world.node_of("hermit").map(str::len), Some(2), "{policy:?}: a rack is empty");
    }
}

#[test]
fn first_come_first_served_a_pod_that_is_apart_from_all_namespaces_holds_nodes_for_a_while_and_once()
 {
    let mut world = beside_a_hermit(QueuePolicy::Fcfs);
    let bypass_secs = i64::try_from(world.core.settings.bypass_secs).expect("some minutes");
    world.submit(theirs("late", 8));
    assert!(!starts_after(&mut world, 2 * bypass_secs - 10, "late"));
    assert!(starts_after(&mut world, 20, "late"));
    for name in ["on-a1", "on-b1", "late"] {
        world.change(name, |pod| pod.phase = Phase::Succeeded);
    }
    world.settle();
    assert!(world.node_of("hermit").is_some(), "all has ended");
}
