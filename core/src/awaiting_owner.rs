//! Pods of ours whose controller has not been seen, and until when it is waited for. After that they count as lone, until it comes after all.

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
    /// Those that count as lone by now, by the controller that has not been seen.
    orphans: BTreeMap<Uid, BTreeSet<Uid>>,
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

    pub(super) fn contains(&self, pod: &str) -> bool {
        self.pods.contains_key(pod)
    }

    pub(super) fn remove(&mut self, pod: &Uid) -> Option<AwaitingPod> {
        let awaiting_owner = self.pods.remove(pod)?;
        if let Some(owner) = &awaiting_owner.pod.owner {
            remove_from(&mut self.by_owner, &owner.uid, pod);
        }
        Some(awaiting_owner)
    }

    /// Its controller is not waited for any more.
    pub(super) fn note_orphan(&mut self, pod: &Pod) {
        if let Some(owner) = &pod.owner {
            self.orphans.entry(owner.uid.clone()).or_default().insert(pod.id.uid.clone());
        }
    }

    /// The pod is gone, or its controller is another one now.
    pub(super) fn forget_orphan(&mut self, pod: &Pod) {
        if let Some(owner) = &pod.owner {
            remove_from(&mut self.orphans, &owner.uid, &pod.id.uid);
        }
    }

    /// Those that did not wait for this object any more, in the order of their uids. It is there now.
    pub(super) fn take_orphans(&mut self, controller: &Uid) -> BTreeSet<Uid> {
        self.orphans.remove(controller).unwrap_or_default()
    }

    /// Those that wait for this object, in the order of their uids.
    pub(super) fn made_by(&self, controller: &Uid) -> Vec<Uid> {
        self.by_owner.get(controller).into_iter().flatten().cloned().collect()
    }
}

fn remove_from(by_owner: &mut BTreeMap<Uid, BTreeSet<Uid>>, owner: &Uid, pod: &Uid) {
    if let Some(pods) = by_owner.get_mut(owner) {
        pods.remove(pod);
        if pods.is_empty() {
            by_owner.remove(owner);
        }
    }
}
