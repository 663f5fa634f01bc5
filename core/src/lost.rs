//! What has been lost since the last walk: whoever starts later for that is told what it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cluster::{Node, Readiness};
use super::ledger::Allocation;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::Pod;

/// So many pods are remembered that took room.
const PODS_MAX: usize = 1_000;

/// In words for people.
#[derive(Default)]
pub(super) struct Lost {
    /// A node has changed, or somebody has taken room that nobody had planned.
    pub is_any: bool,
    /// What became of nodes.
    nodes: BTreeMap<Rank, String>,
    /// Who took room, and where.
    pods: Vec<(Rank, String)>,
    /// Queues that a person has changed or deleted.
    queues: BTreeMap<Arc<str>, &'static str>,
}

impl Lost {
    /// A node is not there any more.
    pub(super) fn node_is_gone(&mut self, rank: Rank, name: &str) {
        self.nodes.insert(rank, format!("node {name} is gone"));
    }

    /// A node was like this, and may be of less use now.
    pub(super) fn node_has_changed(&mut self, rank: Rank, before: &Node, after: &Node) {
        if let Some(what) = is_less(before, after) {
            self.nodes.insert(rank, format!("node {} {what}", after.name));
        }
    }

    /// A node has refused a pod, and is left alone for a moment.
    pub(super) fn node_has_refused(&mut self, rank: Rank, name: &str) {
        self.nodes.insert(rank, format!("node {name} refused a pod"));
    }

    /// A pod that nobody had planned is there.
    pub(super) fn took_room(&mut self, pod: &Pod, allocation: &Allocation) {
        if self.pods.len() < PODS_MAX {
            self.pods.push((allocation.rank, format!("pod {} took room on node {}", pod.id, allocation.node)));
        }
    }

    /// A queue was changed.
    pub(super) fn queue_has_changed(&mut self, name: &Arc<str>) {
        self.queues.insert(Arc::clone(name), "was changed");
    }

    /// A queue was deleted.
    pub(super) fn queue_is_gone(&mut self, name: &str) {
        self.queues.insert(Arc::from(name), "was deleted");
    }

    /// What was lost on these nodes.
    pub(super) fn on(&self, nodes: &RankSet) -> Option<&str> {
        let of_nodes = self.nodes.iter().map(|(rank, text)| (*rank, text));
        let mut all = of_nodes.chain(self.pods.iter().map(|(rank, text)| (*rank, text)));
        all.find(|(rank, _)| nodes.contains(*rank)).map(|(_, text)| text.as_str())
    }

    /// What was lost anywhere: others may have had to make room.
    pub(super) fn anywhere(&self) -> Option<&str> {
        let texts = self.nodes.values().chain(self.pods.iter().map(|(_, text)| text));
        texts.map(String::as_str).next()
    }

    /// What a person has done to this queue.
    pub(super) fn queue(&self, name: &str) -> Option<String> {
        self.queues.get(name).map(|what| format!("FluxQueue {name} {what}"))
    }

    /// What a person has done to any queue.
    pub(super) fn any_queue(&self) -> Option<String> {
        self.queues.iter().next().map(|(name, what)| format!("FluxQueue {name} {what}"))
    }
}

/// What is less of a node, or may be.
fn is_less(before: &Node, after: &Node) -> Option<&'static str> {
    let is_smaller = || before.allocatable.iter().any(|(name, amount)| after.allocatable.get(name) < amount);
    match () {
        () if after.unschedulable && !before.unschedulable => Some("was cordoned"),
        () if after.readiness != Readiness::Ready && before.readiness == Readiness::Ready => Some("is not ready"),
        () if is_smaller() => Some("has fewer resources"),
        () if before.taints != after.taints => Some("has other taints"),
        () if before.labels != after.labels => Some("has other labels"),
        () => None,
    }
}
