//! Pods by the name of the node to which they are related: a node may appear after its pods, and
//! disappear before them.

use std::collections::BTreeSet;

use fluxqueue_machine::table::Table;
use fluxqueue_workload::{NodeName, Pod, Uid};

/// The pods that a change of a node concerns.
#[derive(Debug, Default)]
pub(crate) struct ByNode {
    /// Pods that are on a node, or nominated to one.
    listed: Table<NodeName, BTreeSet<Uid>>,
    /// Members with a slot on a node where they have not been seen.
    sent: Table<NodeName, BTreeSet<Uid>>,
}

impl ByNode {
    pub(crate) fn list(&mut self, pod: &Pod) {
        for node in places(pod) {
            insert(&mut self.listed, node, &pod.id.uid);
        }
    }

    pub(crate) fn unlist(&mut self, pod: &Pod) {
        for node in places(pod) {
            remove(&mut self.listed, node, &pod.id.uid);
        }
    }

    /// Notes that the pod was given a slot on this node.
    pub(crate) fn send(&mut self, node: &NodeName, pod: &Uid) {
        insert(&mut self.sent, node, pod);
    }

    /// Notes that the pod has lost that slot, or is on the node.
    pub(crate) fn unsend(&mut self, node: &NodeName, pod: &Uid) {
        remove(&mut self.sent, node, pod);
    }

    /// Returns the pods that are on the node, or nominated to it.
    pub(crate) fn listed(&self, node: &NodeName) -> Vec<Uid> {
        self.listed.get(node).into_iter().flatten().cloned().collect()
    }

    /// Returns the listed pods of the node and those that were given a slot on it; each once, in
    /// order.
    pub(crate) fn all(&self, node: &NodeName) -> BTreeSet<Uid> {
        self.each(node).cloned().collect()
    }

    /// Iterates over the same pods without copying them.
    pub(crate) fn each(&self, node: &NodeName) -> impl Iterator<Item = &Uid> {
        const NONE: &BTreeSet<Uid> = &BTreeSet::new();
        self.listed.get(node).unwrap_or(NONE).union(self.sent.get(node).unwrap_or(NONE))
    }
}

/// Returns the nodes that a pod is on or nominated to.
fn places(pod: &Pod) -> impl Iterator<Item = &NodeName> {
    [&pod.node, &pod.nominated].into_iter().flatten()
}

fn insert(map: &mut Table<NodeName, BTreeSet<Uid>>, node: &NodeName, pod: &Uid) {
    match map.get_mut(node) {
        Some(pods) => drop(pods.insert(pod.clone())),
        None => drop(map.insert(node.clone(), BTreeSet::from([pod.clone()]))),
    }
}

fn remove(map: &mut Table<NodeName, BTreeSet<Uid>>, node: &NodeName, pod: &Uid) {
    if let Some(pods) = map.get_mut(node) {
        pods.remove(pod);
        if pods.is_empty() {
            map.remove(node);
        }
    }
}
