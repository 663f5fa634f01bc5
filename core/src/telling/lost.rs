//! Losses since the last walk: requests that start later because of one get it as the reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_workload::{NodeName, ObjectKey, Pod};

/// Most pods that are remembered for having taken room; further ones are not named.
const PODS_MAX: usize = 1_000;

/// The losses.
#[derive(Default)]
pub(crate) struct Lost {
    /// True if a node has changed, or a pod has taken room without a plan.
    pub is_any: bool,
    /// The changes of nodes.
    nodes: BTreeMap<Rank, (NodeName, NodeLoss)>,
    /// The pods that took room, each with its node.
    pods: Vec<(Rank, ObjectKey, NodeName)>,
    /// Queues that a person has changed or deleted.
    queues: BTreeMap<Arc<str>, QueueChange>,
}

/// A loss of room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A node that is of less use now.
    Node(NodeName, NodeLoss),
    /// A pod that took room on a node without a plan.
    Pod(ObjectKey, NodeName),
}

/// The way in which a node is of less use than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeLoss {
    Gone,
    Cordoned,
    NotReady,
    /// It has less of a resource.
    Smaller,
    OtherTaints,
    OtherLabels,
    /// Its kubelet refused a pod: it is left alone for a moment.
    RefusedPod,
}

/// A change of a queue that a person has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueChange {
    Edited,
    Deleted,
}

impl Lost {
    /// Notes that a node is of less use now.
    pub(crate) fn node(&mut self, rank: Rank, name: &str, loss: NodeLoss) {
        self.nodes.insert(rank, (NodeName::from(name), loss));
    }

    /// Notes that a node has changed, if it may be of less use now.
    pub(crate) fn node_has_changed(&mut self, rank: Rank, before: &Node, after: &Node) {
        if let Some(loss) = is_less(before, after) {
            self.node(rank, &after.name, loss);
        }
    }

    /// Notes a pod that has taken room without a plan.
    pub(crate) fn took_room(&mut self, pod: &Pod, allocation: &Allocation) {
        if self.pods.len() < PODS_MAX {
            self.pods.push((allocation.rank, pod.id.key.clone(), allocation.node.clone()));
        }
    }

    /// Notes that a person has changed a queue.
    pub(crate) fn queue_has_changed(&mut self, name: &Arc<str>, change: QueueChange) {
        self.queues.insert(Arc::clone(name), change);
    }

    /// Returns a loss on these nodes.
    pub(crate) fn on(&self, nodes: &RankSet) -> Option<Loss> {
        self.among(|rank| nodes.contains(rank))
    }

    /// Returns a loss on any node: other jobs may have had to make room.
    pub(crate) fn anywhere(&self) -> Option<Loss> {
        self.among(|_| true)
    }

    fn among(&self, counts: impl Fn(Rank) -> bool) -> Option<Loss> {
        if let Some((_, (name, loss))) = self.nodes.iter().find(|(rank, _)| counts(**rank)) {
            return Some(Loss::Node(name.clone(), *loss));
        }
        let (_, pod, node) = self.pods.iter().find(|(rank, ..)| counts(*rank))?;
        Some(Loss::Pod(pod.clone(), node.clone()))
    }

    /// Returns the change that a person has made to this queue.
    pub(crate) fn queue(&self, name: &str) -> Option<(Arc<str>, QueueChange)> {
        self.queues.get_key_value(name).map(|(name, change)| (Arc::clone(name), *change))
    }

    /// Returns the change that a person has made to any queue.
    pub(crate) fn any_queue(&self) -> Option<(Arc<str>, QueueChange)> {
        self.queues.iter().next().map(|(name, change)| (Arc::clone(name), *change))
    }
}

/// Returns the way in which a node may be of less use than before.
fn is_less(before: &Node, after: &Node) -> Option<NodeLoss> {
    let is_smaller =
        || before.allocatable.iter().any(|(name, amount)| after.allocatable.get(name) < amount);
    match () {
        () if after.unschedulable && !before.unschedulable => Some(NodeLoss::Cordoned),
        () if after.readiness != Readiness::Ready && before.readiness == Readiness::Ready => {
            Some(NodeLoss::NotReady)
        }
        () if is_smaller() => Some(NodeLoss::Smaller),
        () if before.taints != after.taints => Some(NodeLoss::OtherTaints),
        () if before.labels != after.labels => Some(NodeLoss::OtherLabels),
        () => None,
    }
}
