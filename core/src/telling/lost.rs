//! What has been lost since the last walk: whoever starts later for that is told what it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::telling::readers::{Named, Reader};
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_workload::{NodeName, ObjectKey, Pod};

/// Most pods that are remembered for having taken room.
const PODS_MAX: usize = 1_000;

/// In words for people.
#[derive(Default)]
pub(crate) struct Lost {
    /// A node has changed, or somebody has taken room that nobody had planned.
    pub is_any: bool,
    /// What became of nodes.
    nodes: BTreeMap<Rank, String>,
    /// Pods that took room, and on which node.
    pods: Vec<(Rank, ObjectKey, NodeName)>,
    /// Queues that a person has changed or deleted.
    queues: BTreeMap<Arc<str>, &'static str>,
}

impl Lost {
    /// A node is not there any more.
    pub(crate) fn node_is_gone(&mut self, rank: Rank, name: &str) {
        self.nodes.insert(rank, format!("node {name} is gone"));
    }

    /// A node was like this, and may be of less use now.
    pub(crate) fn node_has_changed(&mut self, rank: Rank, before: &Node, after: &Node) {
        if let Some(what) = is_less(before, after) {
            self.nodes.insert(rank, format!("node {} {what}", after.name));
        }
    }

    /// A node has refused a pod, and is left alone for a moment.
    pub(crate) fn node_has_refused(&mut self, rank: Rank, name: &str) {
        self.nodes.insert(rank, format!("node {name} refused a pod"));
    }

    /// A pod that nobody had planned is there.
    pub(crate) fn took_room(&mut self, pod: &Pod, allocation: &Allocation) {
        if self.pods.len() < PODS_MAX {
            self.pods.push((allocation.rank, pod.id.key.clone(), allocation.node.clone()));
        }
    }

    /// A queue was changed.
    pub(crate) fn queue_has_changed(&mut self, name: &Arc<str>) {
        self.queues.insert(Arc::clone(name), "was changed");
    }

    /// A queue was deleted.
    pub(crate) fn queue_is_gone(&mut self, name: &str) {
        self.queues.insert(Arc::from(name), "was deleted");
    }

    /// What was lost on these nodes, as it is told to this reader.
    pub(crate) fn on(&self, nodes: &RankSet, reader: &Reader<'_>) -> Option<String> {
        self.among(|rank| nodes.contains(rank), reader)
    }

    /// What was lost anywhere: others may have had to make room.
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

    /// What a person has done to this queue.
    pub(crate) fn queue(&self, name: &str) -> Option<String> {
        self.queues.get(name).map(|what| format!("FluxQueue {name} {what}"))
    }

    /// What a person has done to any queue.
    pub(crate) fn any_queue(&self) -> Option<String> {
        self.queues.iter().next().map(|(name, what)| format!("FluxQueue {name} {what}"))
    }
}

/// What is less of a node, or may be.
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
