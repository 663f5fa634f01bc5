//! The number of nodes held for a gang that others may no longer pass by: as many as it needs.

use fluxqueue_workload::levels::{LevelBound, RuleScope};

use super::kept_away::{BACKFILL, held};
use super::neighbours::constrained;
use super::topology::{at_most, node_in, within};
use super::*;
use crate::QueuePolicy;

/// Four racks of four nodes, all in use by work with an unknown end. Those of a name come one after
/// the other.
fn busy(policy: QueuePolicy) -> World {
    let mut world = World::told(
        CoreSettings { queue_policy: policy, ..settings() },
        FunctionTable::builtin(),
        &[],
    );
    for name in (0..4).flat_map(|at| ["a", "b", "c", "d"].map(|rack| format!("{rack}{at}"))) {
        world.tell(node_in(&name, &name[..1]));
        world.submit(Pod { node: Some(name.as_str().into()), ..pod(&format!("on-{name}"), 2) });
    }
    world.settle();
    world
}

/// The nodes that are held for the gang `j` of these pods.
fn held_for(world: &mut World, pods: impl IntoIterator<Item = Pod>) -> Vec<String> {
    let pods: Vec<Pod> = pods.into_iter().collect();
    let size = u32::try_from(pods.len()).unwrap();
    for pod in pods {
        world.submit(of_group(pod, "j", Ok(size)));
    }
    world.settle();
    world.pass_seconds(301);
    world.settle();
    let nodes = held(world, "j").expect("nodes are held");
    flux_lists::hostlist::decode(&nodes).expect("a list").iter().map(ToString::to_string).collect()
}

fn of_racks(nodes: &[String]) -> usize {
    nodes.iter().map(|node| &node[..1]).collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn for_roles_or_slices_in_a_rack_each_no_other_rack_is_held() {
    for policy in BACKFILL {
        for of in [RuleScope::Role, RuleScope::Slice(3)] {
            let pods = (0..6u32).map(|at| {
                let role = if of == RuleScope::Role && at > 2 { "worker" } else { "head" };
                let labels = Arc::from([(Arc::from("ray.io/group"), Arc::from(role))]);
                let levels = Some(within(LevelBound::Required, "rack", of.clone()));
                Pod { labels, levels, completion_index: Some(at), ..pod(&format!("j{at}"), 2) }
            });
            let nodes = held_for(&mut busy(policy), pods);
            assert_eq!((nodes.len(), of_racks(&nodes)), (6, 2), "{policy:?}, {of:?}: {nodes:?}");
        }
    }
}

#[test]
fn for_pods_of_which_each_is_in_another_rack_a_node_of_each_is_held() {
    let mut world = busy(QueuePolicy::Easy);
    // Rack a has the fewest ends in the way.
    for name in ["b", "c", "d"].iter().flat_map(|rack| (0..4).map(move |at| format!("{rack}{at}")))
    {
        world.change(&format!("on-{name}"), |pod| pod.phase = Phase::Succeeded);
        for half in ["one", "two"] {
            world.submit(Pod {
                node: Some(name.as_str().into()),
                ..pod(&format!("{half}-{name}"), 1)
            });
        }
    }
    world.settle();
    let nodes = held_for(&mut world, (0..3).map(|at| at_most(1, pod(&format!("j{at}"), 2))));
    assert_eq!((nodes.len(), of_racks(&nodes)), (3, 3), "{nodes:?}");
}

#[test]
fn for_a_pod_that_may_use_one_node_only_no_others_are_held() {
    for policy in BACKFILL {
        let mut world = busy(policy);
        world.change("on-d3", |pod| pod.phase = Phase::Succeeded);
        for half in ["one", "two"] {
            world.submit(Pod { node: Some("d3".into()), ..pod(&format!("{half}-d3"), 1) });
        }
        world.settle();
        // Of all nodes this one has the most ends in the way.
        let host = |of: &mut Constraints| {
            of.node_selector = vec![("kubernetes.io/hostname".into(), "d3".into())];
        };
        let nodes = held_for(&mut world, [constrained(pod("j0", 2), host), pod("j1", 2)]);
        assert!(nodes.len() == 2 && nodes.contains(&"d3".to_owned()), "{policy:?}: {nodes:?}");
    }
}
