//! Gangs that are to be in one rack with a host for each pod, on a machine where most racks have
//! room and too few hosts.

use std::collections::BTreeSet;

use fluxqueue_workload::levels::{LevelBound, RuleScope};

use super::kept_away::{BACKFILL, held};
use super::neighbours::{apart, count, gang_of, near, on, spread};
use super::topology::{HOST, RACK, in_one, within};
use super::*;
use crate::QueuePolicy;
use fluxqueue_machine::cluster::{Level, Topology};

/// More racks than are tried, each with fewer hosts than a gang of `PODS` pods needs.
const NARROW: usize = 20;
const PODS: u32 = 8;

fn host(world: &mut World, name: &str, rack: &str) {
    let labels = vec![(Arc::from(HOST), Arc::from(name)), (Arc::from(RACK), Arc::from(rack))];
    world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(name, 8)) })));
}

/// Narrow racks of four hosts, and these wide ones, each with a host for each pod of the gang.
fn machine(policy: QueuePolicy, wide: &[&str]) -> World {
    let mut world = World::told(
        CoreSettings { queue_policy: policy, ..settings() },
        FunctionTable::builtin(),
        &[],
    );
    for rack in 0..NARROW {
        for at in 0..4 {
            host(&mut world, &format!("n{rack}-{at}"), &format!("n{rack}"));
        }
    }
    for rack in wide {
        for at in 0..PODS {
            host(&mut world, &format!("{rack}{at}"), rack);
        }
    }
    world
}

fn in_a_rack(pod: Pod) -> Pod {
    in_one("rack", pod)
}

fn near_in_a_rack(pod: Pod) -> Pod {
    near(pod, "mpi", RACK)
}

/// By anti-affinity, and by an even spread.
fn on_hosts(by_spread: bool, pod: Pod) -> Pod {
    if by_spread { spread(pod, "mpi", HOST) } else { apart(pod, "mpi", HOST) }
}

#[test]
fn the_one_rack_with_enough_hosts_is_found_behind_many_that_have_too_few() {
    for rule in [in_a_rack, near_in_a_rack] {
        for by_spread in [false, true] {
            let mut world = machine(QueuePolicy::Easy, &["w"]);
            gang_of(&mut world, PODS, 1, |pod| on_hosts(by_spread, rule(pod)));
            assert_eq!(count(&world, PODS as usize, "w"), PODS as usize, "{by_spread}");
        }
    }
}

#[test]
fn each_of_several_roles_finds_a_rack_with_enough_hosts() {
    for by_spread in [false, true] {
        let mut world = machine(QueuePolicy::Easy, &["v", "w"]);
        for at in 0..2 * PODS {
            let pod = of_group(pod(&format!("p{at}"), 5), "j", Ok(2 * PODS));
            let pod = on_hosts(
                by_spread,
                Pod { levels: Some(within(LevelBound::Required, "rack", RuleScope::Role)), ..pod },
            );
            let role =
                (Arc::from("ray.io/group"), Arc::from(if at < PODS { "head" } else { "worker" }));
            world.submit(Pod { labels: pod.labels.iter().cloned().chain([role]).collect(), ..pod });
        }
        world.settle();
        let racks = |from: u32| {
            let nodes = (from..from + PODS).filter_map(|at| world.node_of(&format!("p{at}")));
            nodes.map(|node| &node[..1]).collect::<String>()
        };
        let found = [racks(0), racks(PODS)];
        assert!(
            found == ["vvvvvvvv", "wwwwwwww"] || found == ["wwwwwwww", "vvvvvvvv"],
            "{by_spread}: {found:?}"
        );
    }
}

#[test]
fn hosts_are_held_in_the_rack_that_has_enough_though_more_has_to_end_there() {
    for policy in BACKFILL {
        for by_spread in [false, true] {
            let mut world = machine(policy, &["w"]);
            for name in (0..NARROW).flat_map(|rack| (0..4).map(move |at| format!("n{rack}-{at}"))) {
                world.submit(on(pod(&format!("busy-{name}"), 8), &name));
            }
            for at in 0..PODS {
                for half in ["one", "two"] {
                    world.submit(on(pod(&format!("{half}-{at}"), 4), &format!("w{at}")));
                }
            }
            gang_of(&mut world, PODS, 1, |pod| on_hosts(by_spread, near_in_a_rack(pod)));
            world.pass_seconds(301);
            world.settle();
            assert_eq!(
                held(&world, "j").as_deref(),
                Some("w[0-7]"),
                "{policy:?}, {by_spread}: {:?}",
                world.blocked("j")
            );
        }
    }
}

/// Four hosts with one supply of power are a rack, a row, a hall and a site of their own, with room
/// for the whole gang: at each level many parts are tried first in which its pods, of which each is
/// to have another supply, cannot be.
#[test]
fn pods_that_are_apart_start_though_many_parts_of_a_level_that_they_prefer_were_tried_first() {
    let names = ["site", "hall", "row", "rack"];
    let level = |name: &&str| Level { name: Arc::from(*name), node_labels: vec![Arc::from(*name)] };
    let topology = Topology::new(vec![names.iter().map(level).collect()]).unwrap();
    let settings = CoreSettings { topology: Arc::new(topology), ..settings() };
    let mut world = World::told(settings, FunctionTable::builtin(), &[]);
    for at in 0..64 {
        let (name, part) = (format!("n{at}"), format!("p{}", at / 4));
        let label = |key: &str| (Arc::from(key), Arc::from(part.as_str()));
        let labels: BTreeSet<(Arc<str>, Arc<str>)> =
            names.into_iter().chain(["power"]).map(label).collect();
        let labels = labels.into_iter().collect();
        world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node(&name, 8)) })));
    }
    let levels = within(LevelBound::Preferred, "rack", RuleScope::Job);
    gang_of(&mut world, 4, 1, |pod| Pod {
        levels: Some(Arc::clone(&levels)),
        ..apart(pod, "mpi", "power")
    });
    world.settle();
    assert_eq!(world.bound(), 4, "{:?}", world.blocked("j"));
}
