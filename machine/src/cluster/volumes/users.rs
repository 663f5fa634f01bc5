//! The pods that use storage, and the nodes that they are on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::claims::claims_of;
use crate::cluster::presence::Presence;
use fluxqueue_workload::{NodeName, ObjectKey, Pod, Uid};

/// Pods with claims, or with disks of which a node attaches a limited number.
#[derive(Debug, Clone, Default)]
pub(super) struct Users {
    pub(super) pods: HashMap<Uid, Arc<Pod>>,
    /// The pods that mount a claim.
    pub(super) by_claim: HashMap<ObjectKey, BTreeSet<Uid>>,
    /// The nodes of those pods that have a node, or a slot on one, or are nominated to one.
    pub(super) places: HashMap<Uid, (NodeName, Presence)>,
    on_node: HashMap<NodeName, BTreeSet<Uid>>,
}

impl Users {
    /// Takes a pod in, or its newest state. False if its claims are known already.
    pub(super) fn note(&mut self, pod: &Arc<Pod>) -> bool {
        if let Some(known) = self.pods.insert(pod.id.uid.clone(), Arc::clone(pod))
            && known.claims == pod.claims
        {
            return false;
        }
        for claim in claims_of(pod) {
            self.by_claim.entry(claim).or_default().insert(pod.id.uid.clone());
        }
        true
    }

    /// Forgets a pod, which has no place any more.
    pub(super) fn forget(&mut self, uid: &Uid) {
        if let Some(pod) = self.pods.remove(uid) {
            for claim in claims_of(&pod) {
                if let Some(users) = self.by_claim.get_mut(&claim) {
                    users.remove(uid);
                    if users.is_empty() {
                        self.by_claim.remove(&claim);
                    }
                }
            }
        }
    }

    /// Puts a pod on a node. False if it is there already.
    pub(super) fn place(&mut self, presence: Presence, uid: &Uid, node: &NodeName) -> bool {
        if self.places.get(uid).is_some_and(|place| *place == (node.clone(), presence)) {
            return false;
        }
        self.leave(uid);
        self.places.insert(uid.clone(), (node.clone(), presence));
        self.on_node.entry(node.clone()).or_default().insert(uid.clone());
        true
    }

    /// Takes a pod off its node. False if it has none.
    pub(super) fn leave(&mut self, uid: &Uid) -> bool {
        let Some((node, _)) = self.places.remove(uid) else { return false };
        if let Some(there) = self.on_node.get_mut(&node) {
            there.remove(uid);
            if there.is_empty() {
                self.on_node.remove(&node);
            }
        }
        true
    }

    /// Returns the pods that mount a claim.
    pub(super) fn users_of(&self, claim: &ObjectKey) -> Vec<Uid> {
        self.by_claim.get(claim).into_iter().flatten().cloned().collect()
    }

    /// True if another pod that has a node uses the claim.
    pub(super) fn is_in_use(&self, claim: &ObjectKey, by_other_than: &Uid) -> bool {
        let users = self.by_claim.get(claim).into_iter().flatten();
        users
            .into_iter()
            .any(|user| user != by_other_than && self.presence(user) == Some(Presence::There))
    }

    /// Returns how a pod is on its node, if it has one.
    pub(super) fn presence(&self, uid: &Uid) -> Option<Presence> {
        self.places.get(uid).map(|(_, presence)| *presence)
    }

    /// Returns the pods on a node.
    pub(super) fn on_node(&self, node: &str) -> impl Iterator<Item = &Uid> {
        self.on_node.get(node).into_iter().flatten()
    }
}
