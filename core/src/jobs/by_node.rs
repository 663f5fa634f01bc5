//! Pods by the name of the node that they have to do with: a node may come after its pods, and go
//! before them.

use std::collections::BTreeSet;

use fluxqueue_machine::table::Table;
use fluxqueue_workload::{NodeName, Pod, Uid};

/// Whoever a change of a node concerns.
#[derive(Debug, Default)]
pub(crate) struct ByNode {
    /// Pods that are on a node, or nominated to one.
    listed: Table<NodeName, BTreeSet<Uid>>,
    /// Pods of ours with a slot on a node where they have not been seen.
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

    /// The pod was given a slot on this node.
    pub(crate) fn send(&mut self, node: &NodeName, pod: &Uid) {
        insert(&mut self.sent, node, pod);
    }

    /// It has that slot no more, or is there.
    pub(crate) fn unsend(&mut self, node: &NodeName, pod: &Uid) {
        remove(&mut self.sent, node, pod);
    }

    /// Pods that are on the node, or nominated to it.
    pub(crate) fn listed(&self, node: &NodeName) -> Vec<Uid> {
        self.listed.get(node).into_iter().flatten().cloned().collect()
    }

    /// These, and those that were given a slot on it; each once, in order.
    pub(crate) fn all(&self, node: &NodeName) -> BTreeSet<Uid> {
        self.each(node).cloned().collect()
    }

    /// The same, one by one.
    pub(crate) fn each(&self, node: &NodeName) -> impl Iterator<Item = &Uid> {
        const NONE: &BTreeSet<Uid> = &BTreeSet::new();
        self.listed.get(node).unwrap_or(NONE).union(self.sent.get(node).unwrap_or(NONE))
    }
}

/// Where a pod is, or may be soon.
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
