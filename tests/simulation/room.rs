//! Room: whether a pod may go to a node, and whether there is room. This is a second, simple
//! implementation, independent of the code under test, for the objects that the simulation
//! generates.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_machine::cluster::{Node, Readiness, Taint};
use fluxqueue_workload::constraints::{Disk, Operator, PodTerm, Requirement};
use fluxqueue_workload::{NodeName, Pod};

use crate::jobs::Unit;

/// All known nodes.
pub(crate) type Nodes = BTreeMap<NodeName, Arc<Node>>;

/// Returns why this node is not open to this pod, apart from the pods on it. `None` if it is.
pub(crate) fn barred(node: &Node, pod: &Pod) -> Option<String> {
    if node.unschedulable {
        return Some(format!("node {} is cordoned", node.name));
    }
    if node.readiness != Readiness::Ready {
        return Some(format!("node {} is not ready", node.name));
    }
    if let Some(taint) =
        node.taints.iter().find(|taint| taint.effect.starts_with("No") && !tolerates(pod, taint))
    {
        return Some(format!("node {} has the taint {}", node.name, taint.key));
    }
    unselected(node, pod)
}

/// Returns why the kubelet of this node would refuse the pod, apart from the pods on it.
pub(crate) fn refused(node: &Node, pod: &Pod) -> Option<String> {
    if node.taints.iter().any(|taint| &*taint.effect == "NoExecute" && !tolerates(pod, taint)) {
        return Some("TaintToleration".into());
    }
    unselected(node, pod).map(|_| "NodeAffinity".into())
}

/// Returns the shortage for the pod beside those on the node: `OutOf...` or `NodePorts`, as the
/// kubelet reports it. A pod without its disk would wait for ever: here it is refused, so that the
/// fault shows.
pub(crate) fn shortage<'a>(
    node: &Node,
    there: impl Iterator<Item = &'a Pod> + Clone,
    pod: &Pod,
) -> Option<String> {
    for (name, amount) in pod.shape.requests.iter() {
        let used: u64 = there.clone().map(|other| other.shape.requests.get(name)).sum();
        if used + amount > node.allocatable.get(name) {
            return Some(format!("OutOf{name}"));
        }
    }
    let ports = &pod.shape.constraints.host_ports;
    let mut taken = there.clone().flat_map(|other| &other.shape.constraints.host_ports);
    if taken.any(|port| ports.contains(port)) {
        return Some("NodePorts".to_string());
    }
    let wanted: Vec<(&str, bool)> = pod.shape.constraints.disks.iter().filter_map(target).collect();
    let mut used = there.flat_map(|other| &other.shape.constraints.disks).filter_map(target);
    let clash = used.any(|(used, reads)| {
        wanted.iter().any(|(wanted, only)| *wanted == used && !(reads && *only))
    });
    clash.then(|| "DiskInUse".to_string())
}

/// Returns the disk, and whether it is only read. The simulation has no other kind.
fn target(disk: &Disk) -> Option<(&str, bool)> {
    match disk {
        Disk::Iscsi { iqn, read_only } => Some((iqn, *read_only)),
        _ => None,
    }
}

/// Returns a pod on the node that this one must not share it with, because one of the two requires
/// the node alone and they are not of one job with that requirement on all pods. Pods that stay on
/// their nodes are beside all others, and the requirements of another scheduler's pods do not bind
/// this one's.
pub(crate) fn stranger<'a>(there: impl Iterator<Item = &'a Pod>, pod: &Pod) -> Option<&'a Pod> {
    let asks = |asking: &Pod| asking.exclusive == Some(true) && asking.scheduler == pod.scheduler;
    let mut others = there.filter(|other| other.id.uid != pod.id.uid);
    others.find(|other| {
        // A gang with the requirement on some pods only is refused. In a gang that another
        // scheduler began, each pod goes by its own requirement.
        let may_share =
            if asks(pod) { asks(other) && are_of_one_job(pod, other) } else { !asks(other) };
        !may_share && !pod.stays_on_its_node() && !other.stays_on_its_node()
    })
}

/// True if the pods are of one job: they have one owner, or one group.
fn are_of_one_job(pod: &Pod, other: &Pod) -> bool {
    let maker = |pod: &Pod| pod.owner.as_ref().map(|owner| owner.uid.clone());
    Unit::of(pod) == Unit::of(other)
        || pod.group.is_none() && maker(pod).is_some() && maker(pod) == maker(other)
}

/// Returns a pod among those there, each with its node, with an anti-affinity that keeps this pod
/// off the node.
pub(crate) fn repeller<'a>(
    nodes: &Nodes,
    there: impl Iterator<Item = (&'a NodeName, &'a Pod)>,
    node: &Node,
    pod: &Pod,
) -> Option<&'a Pod> {
    let repels = |place: &NodeName, other: &Pod| {
        let mut terms = other.shape.constraints.repels.iter();
        terms.any(|term| is_in_domain(nodes, node, (place, other), term) && is_selected(term, pod))
    };
    there.into_iter().find(|(place, other)| repels(place, other)).map(|(_, other)| other)
}

/// Returns a pod among those there, each with its node, that this pod's own anti-affinity keeps it
/// away from.
pub(crate) fn avoided<'a>(
    nodes: &Nodes,
    there: impl Iterator<Item = (&'a NodeName, &'a Pod)>,
    node: &Node,
    pod: &Pod,
) -> Option<&'a Pod> {
    let is_avoided = |place: &NodeName, other: &Pod| {
        let mut terms = pod.shape.constraints.repels.iter().filter(|term| is_selected(term, other));
        other.id.uid != pod.id.uid
            && terms.any(|term| is_in_domain(nodes, node, (place, other), term))
    };
    there.into_iter().find(|(place, other)| is_avoided(place, other)).map(|(_, other)| other)
}

/// True if a pod is in the node's domain, by the label of a term. A pod that is only nominated may
/// yet go elsewhere in the domain, so it counts on its node alone.
fn is_in_domain(
    nodes: &Nodes,
    node: &Node,
    (place, other): (&NodeName, &Pod),
    term: &PodTerm,
) -> bool {
    let is_nominated = other.node.is_none() && other.nominated.as_ref() == Some(place);
    let domain = nodes.get(place).and_then(|place| label(place, &term.topology_key));
    domain.is_some()
        && domain == label(node, &term.topology_key)
        && (!is_nominated || *place == node.name)
}

/// True if the term selects this pod.
pub(crate) fn is_selected(term: &PodTerm, pod: &Pod) -> bool {
    let value = |key: &str| pod.labels.iter().find(|(k, _)| **k == *key).map(|(_, value)| &**value);
    term.pods
        .labels
        .iter()
        .flatten()
        .all(|requirement| meets_value(value(&requirement.key), requirement))
}

fn unselected(node: &Node, pod: &Pod) -> Option<String> {
    let constraints = &pod.shape.constraints;
    let selector_matches =
        constraints.node_selector.iter().all(|(key, value)| label(node, key) == Some(&**value));
    let terms_match = constraints.required.as_ref().is_none_or(|terms| {
        terms.iter().any(|term| term.labels.iter().all(|requirement| meets(node, requirement)))
    });
    (!selector_matches || !terms_match)
        .then(|| format!("node {} does not match the selector", node.name))
}

fn meets(node: &Node, requirement: &Requirement) -> bool {
    meets_value(label(node, &requirement.key), requirement)
}

fn meets_value(value: Option<&str>, requirement: &Requirement) -> bool {
    let listed = value.is_some_and(|value| requirement.values.iter().any(|v| **v == *value));
    match requirement.operator {
        Operator::In => listed,
        Operator::NotIn => !listed,
        _ => unreachable!("the simulation makes no other operators"),
    }
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.labels.iter().find(|(k, _)| **k == *key).map(|(_, value)| &**value)
}

fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    pod.shape.constraints.tolerations.iter().any(|it| it.key == taint.key)
}
