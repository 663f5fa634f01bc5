//! Losses since the last walk: requests that start later because of one get it as the reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::telling::readers::{Named, Reader};
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_workload::{NodeName, ObjectKey, Pod};

/// Most pods that are remembered for having taken room; further ones are not named.
const PODS_MAX: usize = 1_000;

/// The losses, in words for people.
#[derive(Default)]
pub(crate) struct Lost {
    /// True if a node has changed, or a pod has taken room without a plan.
    pub is_any: bool,
    /// The changes of nodes, in words.
    nodes: BTreeMap<Rank, String>,
    /// The pods that took room, each with its node.
    pods: Vec<(Rank, ObjectKey, NodeName)>,
    /// Queues that a person has changed or deleted.
    queues: BTreeMap<Arc<str>, &'static str>,
}

impl Lost {
    /// Notes that a node is gone.
    pub(crate) fn node_is_gone(&mut self, rank: Rank, name: &str) {
        self.nodes.insert(rank, format!("node {name} is gone"));
    }

    /// Notes that a node has changed, if it may be of less use now.
    pub(crate) fn node_has_changed(&mut self, rank: Rank, before: &Node, after: &Node) {
        if let Some(what) = is_less(before, after) {
            self.nodes.insert(rank, format!("node {} {what}", after.name));
        }
    }

    /// Notes that a node has refused a pod, and is left alone for a moment.
    pub(crate) fn node_has_refused(&mut self, rank: Rank, name: &str) {
        self.nodes.insert(rank, format!("node {name} refused a pod"));
    }

    /// Notes a pod that has taken room without a plan.
    pub(crate) fn took_room(&mut self, pod: &Pod, allocation: &Allocation) {
        if self.pods.len() < PODS_MAX {
            self.pods.push((allocation.rank, pod.id.key.clone(), allocation.node.clone()));
        }
    }

    /// Notes that a queue was changed.
    pub(crate) fn queue_has_changed(&mut self, name: &Arc<str>) {
        self.queues.insert(Arc::clone(name), "was changed");
    }

    /// Notes that a queue was deleted.
    pub(crate) fn queue_is_gone(&mut self, name: &str) {
        self.queues.insert(Arc::from(name), "was deleted");
    }

    /// Returns a loss on these nodes, in words for this reader.
    pub(crate) fn on(&self, nodes: &RankSet, reader: &Reader<'_>) -> Option<String> {
        self.among(|rank| nodes.contains(rank), reader)
    }

    /// Returns a loss on any node: other jobs may have had to make room.
    pub(crate) fn anywhere(&self, reader: &Reader<'_>) -> Option<String> {
        self.among(|_| true, reader)
    }

    fn among(&self, counts: impl Fn(Rank) -> bool, reader: &Reader<'_>) -> Option<String> {
        if let Some((_, text)) = self.nodes.iter().find(|(rank, _)| counts(**rank)) {
            return Some(text.clone());
        }
        let (_, pod, node) = self.pods.iter().find(|(rank, ..)| counts(*rank))?;
        let pod = if reader.may_read(&pod.namespace) {
            format!("pod {pod}")
        } else {
            Named::Pod(pod.clone()).unnamed().to_owned()
        };
        Some(format!("{pod} took room on node {node}"))
    }

    /// Returns the change that a person has made to this queue.
    pub(crate) fn queue(&self, name: &str) -> Option<String> {
        self.queues.get(name).map(|what| format!("FluxQueue {name} {what}"))
    }

    /// Returns the change that a person has made to any queue.
    pub(crate) fn any_queue(&self) -> Option<String> {
        self.queues.iter().next().map(|(name, what)| format!("FluxQueue {name} {what}"))
    }
}

/// Returns the way in which a node may be of less use than before.
fn is_less(before: &Node, after: &Node) -> Option<&'static str> {
    let is_smaller =
        || before.allocatable.iter().any(|(name, amount)| after.allocatable.get(name) < amount);
    match () {
        () if after.unschedulable && !before.unschedulable => Some("was cordoned"),
        () if after.readiness != Readiness::Ready && before.readiness == Readiness::Ready => {
            Some("is not ready")
        }
        () if is_smaller() => Some("has fewer resources"),
        () if before.taints != after.taints => Some("has other taints"),
        () if before.labels != after.labels => Some("has other labels"),
        () => None,
    }
}
