//! The causes that block a job: a list, the most important first, with numbers and objects; and the
//! same in conditions and Events.

use super::queues::{of_queue, queue};
use super::*;
use crate::QueuePolicy;
use fluxqueue_api::BlockedReason;
use fluxqueue_api::BlockedReason::{InsufficientResources, QueueLimit, QueuedBehind, UnknownEnd};
use fluxqueue_workload::constraints::HostPort;
use serde_json::json;

fn world(nodes: &[(&str, u64)]) -> World {
    World::told(
        CoreSettings { queue_policy: QueuePolicy::Easy, ..settings() },
        FunctionTable::builtin(),
        nodes,
    )
}

fn lasting(name: &str, cores: u64, seconds: u64) -> Pod {
    Pod { lifetime: Lifetime::Seconds(seconds), ..pod(name, cores) }
}

fn submit(world: &mut World, pods: impl IntoIterator<Item = Pod>) {
    for pod in pods {
        world.submit(pod);
        world.settle();
    }
}

fn reasons(world: &World, workload: &str) -> Vec<BlockedReason> {
    world.blockers(workload).iter().map(|blocker| blocker.reason).collect()
}

/// Checks that the conditions of its FluxJob and its pod, and their Events, have the text of the
/// list.
fn says_the_same(world: &World, workload: &str) {
    let (_, text) = world.blocked(workload);
    let status = world.record(workload).status.as_ref().expect("a status");
    let scheduled = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Scheduled")
        .expect("a condition");
    assert_eq!(scheduled.message, text);
    let blockers = Blockers::of(world.blockers(workload)).expect("it is blocked");
    assert_eq!(world.conditions[workload].message, blockers.text_for_pods());
    for text in [&text, &blockers.text_for_pods()] {
        assert!(world.texts.contains(text), "no Event says {text:?}: {:?}", world.texts);
    }
    assert!(
        world
            .blockers(workload)
            .iter()
            .all(|blocker| text.contains(blocker.message.trim_end_matches('.')))
    );
}

#[test]
fn ends_that_nobody_knows_follow_what_is_short() {
    let mut world = world(&[("a", 4), ("b", 4)]);
    submit(&mut world, [pod("r1", 4), pod("r2", 4), lasting("waits", 3, 50)]);
    assert_eq!(reasons(&world, "waits"), [InsufficientResources, UnknownEnd, UnknownEnd]);
    let blockers = world.blockers("waits");
    let short = &blockers[0];
    let amounts =
        (short.resource.as_deref(), short.requested.as_deref(), short.available.as_deref());
    assert_eq!(amounts, (Some("cpu"), Some("3"), Some("0")));
    let behind = blockers[1..]
        .iter()
        .map(|blocker| blocker.behind.clone().expect("a job"))
        .collect::<Vec<_>>();
    assert_eq!(
        behind.iter().map(|job| job.split('-').next()).collect::<Vec<_>>(),
        [Some("ns/r1"), Some("ns/r2")]
    );
    says_the_same(&world, "waits");
}

#[test]
fn whose_ends_nobody_knows_is_said_in_the_order_of_nodes_by_name() {
    // The node that was seen first has the lower rank.
    let mut world = world(&[("b", 4), ("a", 4)]);
    submit(&mut world, [pod("r1", 4), pod("r2", 4), lasting("waits", 3, 50)]);
    assert_eq!((world.node_of("r1"), world.node_of("r2")), (Some("b"), Some("a")));
    let behind: Vec<_> =
        world.blockers("waits")[1..].iter().map(|blocker| blocker.behind.clone()).collect();
    let behind: Vec<_> =
        behind.iter().map(|job| job.as_deref().and_then(|job| job.split('-').next())).collect();
    assert_eq!(behind, [Some("ns/r2"), Some("ns/r1")]);
}

#[test]
fn what_is_kept_for_another_says_for_whom_and_from_when() {
    let mut world = world(&[("a", 4)]);
    submit(&mut world, [lasting("runs", 2, 100), lasting("first", 4, 50), lasting("long", 2, 500)]);
    let kept = world.blockers("long").into_iter().find(|blocker| blocker.reason == QueuedBehind);
    let kept = kept.expect("two cores are free, and kept");
    assert!(kept.behind.as_deref().is_some_and(|job| job.starts_with("ns/first-")), "{kept:?}");
    let from = kept.reserved_from.as_ref().map(|at| crate::records::times::time_of(at).seconds());
    assert_eq!(Some(from), Some(world.estimate("first").map(|(_, start)| start)));
    assert!(
        reasons(&world, "first").iter().all(|reason| *reason != QueuedBehind),
        "its own is not in its way"
    );
}

#[test]
fn all_limits_that_a_job_is_at_are_said_and_what_would_be_short_without() {
    let mut world = world(&[("a", 4)]);
    let limits = json!({"runningJobs": 1, "resources": {"cpu": 4}});
    queue(&mut world, "lab", &json!({ "limits": limits }));
    submit(
        &mut world,
        [of_queue(lasting("runs", 3, 100), "lab"), of_queue(lasting("waits", 2, 50), "lab")],
    );
    assert_eq!(reasons(&world, "waits"), [QueueLimit, QueueLimit, InsufficientResources]);
    let blockers = world.blockers("waits");
    let numbers = |at: usize| {
        let BlockedBy { resource, used, limit, queue, .. } = &blockers[at];
        [resource, used, limit, queue].map(|it| it.clone().unwrap_or_default())
    };
    let mut both = [numbers(0), numbers(1)];
    both.sort();
    assert_eq!(both, [["", "1", "1", "lab"], ["cpu", "3", "4", "lab"]]);
    says_the_same(&world, "waits");
    // With room on the nodes the limits are all that is in the way.
    let mut world = self::world(&[("a", 8)]);
    queue(&mut world, "lab", &json!({ "limits": limits }));
    submit(
        &mut world,
        [of_queue(lasting("runs", 3, 100), "lab"), of_queue(lasting("waits", 2, 50), "lab")],
    );
    assert_eq!(reasons(&world, "waits"), [QueueLimit, QueueLimit]);
}

#[test]
fn of_several_resources_that_are_short_the_shortest_is_first() {
    let mut world = world(&[("a", 4)]);
    let requests: Resources =
        [("cpu", 3_000), ("memory", 60 << 30), ("pods", 1)].into_iter().collect();
    let shape = Arc::new(Shape { requests, constraints: Constraints::default() });
    submit(
        &mut world,
        [
            Pod { shape: Arc::clone(&shape), ..lasting("runs", 1, 100) },
            Pod { shape, ..lasting("waits", 1, 50) },
        ],
    );
    let resources: Vec<_> =
        world.blockers("waits").into_iter().map(|blocker| blocker.resource).collect();
    assert_eq!(resources, [Some("memory".to_owned()), Some("cpu".to_owned())]);
    says_the_same(&world, "waits");
}

/// The cause changes while a pod's condition is being written; a later write has the new cause.
#[test]
fn what_has_changed_while_a_condition_is_written_is_said_after_it() {
    let mut world = world(&[("a", 4)]);
    world.submit(Pod { exclusive: Some(true), ..of_group(pod("p0", 9), "g", Ok(2)) });
    world.submit(Pod { exclusive: Some(true), ..of_group(pod("p1", 9), "g", Ok(2)) });
    let mut open = Vec::new();
    for _ in 0..3 {
        let (conditions, others): (Vec<_>, Vec<_>) = world.step().into_iter().partition(|action| {
            matches!(action.kind, ActionKind::Write(Write::SetPodScheduled { .. }))
        });
        open.extend(conditions);
        world.carry_out_all(others);
    }
    assert_eq!(open.len(), 2, "they are told that there is no room");
    world.submit(of_group(pod("other", 1), "g", Ok(2)));
    world.settle();
    // There is no answer for long.
    world.pass_seconds(40);
    world.settle();
    world.carry_out_all(open);
    world.settle();
    assert_ne!(world.conditions["p0"].message, world.conditions["other"].message);
    world.pass_seconds(31);
    world.settle();
    for name in ["p0", "p1"] {
        assert_eq!(world.conditions[name], world.conditions["other"], "{name}");
    }
    assert_eq!(world.conditions["p0"].reason, "SchedulerError");
}

#[test]
fn a_resource_of_which_every_node_has_enough_is_not_called_short() {
    let mut world = world(&[("a", 4)]);
    let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 };
    let constraints = Constraints { host_ports: vec![port], ..Constraints::default() };
    let requests: Resources = [("cpu", 1_000), ("pods", 1)].into_iter().collect();
    let shape = Arc::new(Shape { requests, constraints });
    let member = |name| Pod { shape: Arc::clone(&shape), ..lasting(name, 1, 50) };
    submit(&mut world, ["p0", "p1"].map(|name| of_group(member(name), "g", Ok(2))));
    let blockers = world.blockers("g");
    assert_eq!(blockers[0].resource, None, "{blockers:#?}");
    assert!(blockers[0].message.contains("a node of its own for host port 80"), "{blockers:#?}");
    assert!(!blockers[0].message.contains("cpu"), "{blockers:#?}");
}

#[test]
fn of_two_resources_that_suffice_in_all_the_one_that_nodes_lack_is_told() {
    // Of memory, each node has enough for one pod; of cores, only the last has.
    let nodes = [("a", 4), ("b", 4), ("c", 4), ("d", 4), ("e", 64)];
    let mut world = world(&nodes);
    for (name, _) in &nodes[..4] {
        let (node, scheduler) = (Some(NodeName::from(*name)), Arc::from("default-scheduler"));
        submit(&mut world, [Pod { node, scheduler, ..pod(&format!("on-{name}"), 2) }]);
    }
    let requests: Resources =
        [("cpu", 3_000), ("memory", 40 << 30), ("pods", 1)].into_iter().collect();
    let shape = Arc::new(Shape { requests, constraints: Constraints::default() });
    let member = |name| Pod { shape: Arc::clone(&shape), ..lasting(name, 1, 50) };
    submit(&mut world, ["p0", "p1"].map(|name| of_group(member(name), "g", Ok(2))));
    let blockers = world.blockers("g");
    assert_eq!(blockers[0].resource.as_deref(), Some("cpu"), "{blockers:#?}");
    let said = "2 pods start together and ask for 6 cpu, 72 free on the nodes they may use, \
                in parts too small for all of them.";
    assert!(blockers[0].message.contains(said), "{blockers:#?}");
}
