//! Seating: whether pods fit together. Every way of seating them is tried, which is affordable
//! since there are few.

use std::collections::BTreeMap;

use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::{NodeName, Pod};

use crate::room::{self, Nodes};

/// Nodes, and the pods on them.
pub(crate) struct Seating<'a> {
    nodes: &'a Nodes,
    there: BTreeMap<&'a NodeName, Vec<&'a Pod>>,
}

impl<'a> Seating<'a> {
    /// Makes a seating with these pods on their nodes.
    pub(crate) fn new(
        nodes: &'a Nodes,
        placed: impl Iterator<Item = (&'a NodeName, &'a Pod)>,
    ) -> Self {
        let mut there: BTreeMap<&NodeName, Vec<&Pod>> = BTreeMap::new();
        for (node, pod) in placed {
            there.entry(node).or_default().push(pod);
        }
        Seating { nodes, there }
    }

    /// True if each of the pods finds a node, with all of them there.
    pub(crate) fn fits(&mut self, pods: &[&'a Pod]) -> bool {
        let open: Vec<Vec<&'a Node>> = pods.iter().map(|pod| self.open(pod)).collect();
        let alike = pods.iter().all(|pod| are_alike(pod, pods[0]));
        self.fits_from(pods, &open, 0, alike)
    }

    /// `first` is the first node to look at: pods that are alike take nodes in order, so that no
    /// way is tried twice.
    fn fits_from(
        &mut self,
        pods: &[&'a Pod],
        open: &[Vec<&'a Node>],
        first: usize,
        alike: bool,
    ) -> bool {
        let Some(pod) = pods.first() else { return true };
        for (at, node) in open[0].iter().enumerate().skip(first) {
            if !self.has_room(node, pod) {
                continue;
            }
            self.sit(&node.name, pod);
            let like_next = pods.get(1).is_some_and(|next| are_alike(next, pod));
            if self.fits_from(&pods[1..], &open[1..], if like_next { at } else { 0 }, alike) {
                return true;
            }
            self.stand_up(&node.name);
            if alike {
                // Whichever node the first takes, pods like it find as much room.
                return false;
            }
        }
        false
    }

    /// True if each of the slots but `spare` finds a pod of its own that may take it, with all of
    /// them there.
    pub(crate) fn fill(&mut self, slots: &[&'a NodeName], pods: &[&'a Pod], spare: usize) -> bool {
        let Some((name, slots)) = slots.split_first() else { return true };
        for (at, pod) in pods.iter().enumerate() {
            if pods[..at].iter().any(|other| are_alike(other, pod)) {
                // A pod like it was tried here.
                continue;
            }
            if !self.take(name, pod) {
                continue;
            }
            let others: Vec<&Pod> =
                pods.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, pod)| *pod).collect();
            if self.fill(slots, &others, spare) {
                return true;
            }
            self.stand_up(name);
        }
        spare > 0 && self.fill(slots, pods, spare - 1)
    }

    /// Puts the pod on this node, if it may go there and there is room.
    pub(crate) fn take(&mut self, name: &'a NodeName, pod: &'a Pod) -> bool {
        let takes = self
            .nodes
            .get(name)
            .is_some_and(|node| self.is_open(node, pod) && self.has_room(node, pod));
        if takes {
            self.sit(name, pod);
        }
        takes
    }

    /// Returns the nodes that the pod may use, apart from room.
    fn open(&self, pod: &Pod) -> Vec<&'a Node> {
        self.nodes.values().map(|node| &**node).filter(|node| self.is_open(node, pod)).collect()
    }

    fn is_open(&self, node: &Node, pod: &Pod) -> bool {
        let there =
            self.there.iter().flat_map(|(name, pods)| pods.iter().map(move |pod| (*name, *pod)));
        room::barred(node, pod).is_none() && room::repeller(self.nodes, there, node, pod).is_none()
    }

    fn has_room(&self, node: &Node, pod: &Pod) -> bool {
        let beside = self.there.get(&node.name).map_or(&[][..], Vec::as_slice).iter().copied();
        room::shortage(node, beside.clone(), pod).is_none() && room::stranger(beside, pod).is_none()
    }

    fn sit(&mut self, node: &'a NodeName, pod: &'a Pod) {
        self.there.entry(node).or_default().push(pod);
    }

    fn stand_up(&mut self, node: &NodeName) {
        self.there.get_mut(node).expect("somebody sat down there").pop();
    }
}

/// True if every node that one of the two can take is also open to the other.
pub(crate) fn are_alike(a: &Pod, b: &Pod) -> bool {
    a.shape == b.shape && a.labels == b.labels && a.exclusive == b.exclusive
}
