//! Pods of ours whose controller has not been seen, and until when it is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_workload::{Pod, Time, Uid};

/// A pod whose controller has not been seen.
pub(super) struct AwaitingPod {
    pub pod: Arc<Pod>,
    pub until: Time,
}

/// All of them.
#[derive(Default)]
pub(super) struct AwaitingOwner {
    pods: BTreeMap<Uid, AwaitingPod>,
    by_owner: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl AwaitingOwner {
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn insert(&mut self, awaiting_owner: AwaitingPod) {
        let uid = awaiting_owner.pod.id.uid.clone();
        self.remove(&uid);
        if let Some(owner) = &awaiting_owner.pod.owner {
            self.by_owner.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        self.pods.insert(uid, awaiting_owner);
    }

    pub(super) fn remove(&mut self, pod: &Uid) -> Option<AwaitingPod> {
        let awaiting_owner = self.pods.remove(pod)?;
        if let Some(owner) = &awaiting_owner.pod.owner
            && let Some(pods) = self.by_owner.get_mut(&owner.uid)
        {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_owner.remove(&owner.uid);
            }
        }
        Some(awaiting_owner)
    }

    /// Those that wait for this object, in the order of their uids.
    pub(super) fn made_by(&self, controller: &Uid) -> Vec<Uid> {
        self.by_owner.get(controller).into_iter().flatten().cloned().collect()
    }
}
