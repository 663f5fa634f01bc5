//! Pods that wait for a controller that has not been seen yet, each with the end of its wait. After
//! that time a pod counts as a lone pod, until its controller appears.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_workload::{Pod, Time, Uid};

/// A pod with a controller that has not been seen.
pub(crate) struct AwaitingPod {
    pub pod: Arc<Pod>,
    pub until: Time,
}

/// All pods with controllers that have not been seen.
#[derive(Default)]
pub(crate) struct AwaitingOwner {
    pods: BTreeMap<Uid, AwaitingPod>,
    by_owner: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Pods that count as lone pods by now, by the uid of the controller that has not been seen.
    orphans: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl AwaitingOwner {
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Lets a pod wait for its controller. A pod that waits already keeps the time that it was
    /// given, unless it names another controller now. Returns the time until which the pod waits.
    pub(crate) fn insert(&mut self, mut awaiting_owner: AwaitingPod) -> Time {
        let uid = awaiting_owner.pod.id.uid.clone();
        if let Some(before) = self.remove(&uid)
            && before.pod.owner == awaiting_owner.pod.owner
        {
            awaiting_owner.until = before.until;
        }
        let until = awaiting_owner.until;
        if let Some(owner) = &awaiting_owner.pod.owner {
            self.by_owner.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        self.pods.insert(uid, awaiting_owner);
        until
    }

    /// Returns the pod as it was when it began to wait for its controller, or as it was seen since.
    pub(crate) fn get(&self, pod: &Uid) -> Option<&AwaitingPod> {
        self.pods.get(pod)
    }

    /// True if the pod does not wait for its controller any more.
    pub(crate) fn is_orphan(&self, pod: &Pod) -> bool {
        let owner = pod.owner.as_ref();
        owner
            .and_then(|owner| self.orphans.get(&owner.uid))
            .is_some_and(|pods| pods.contains(&pod.id.uid))
    }

    pub(crate) fn contains(&self, pod: &str) -> bool {
        self.pods.contains_key(pod)
    }

    pub(crate) fn remove(&mut self, pod: &Uid) -> Option<AwaitingPod> {
        let awaiting_owner = self.pods.remove(pod)?;
        if let Some(owner) = &awaiting_owner.pod.owner {
            remove_from(&mut self.by_owner, &owner.uid, pod);
        }
        Some(awaiting_owner)
    }

    /// Notes that the pod does not wait for its controller any more.
    pub(crate) fn note_orphan(&mut self, pod: &Pod) {
        if let Some(owner) = &pod.owner {
            self.orphans.entry(owner.uid.clone()).or_default().insert(pod.id.uid.clone());
        }
    }

    /// Forgets that the pod counts as a lone pod: it is gone, or has another controller now.
    pub(crate) fn forget_orphan(&mut self, pod: &Pod) {
        if let Some(owner) = &pod.owner {
            remove_from(&mut self.orphans, &owner.uid, &pod.id.uid);
        }
    }

    /// Takes out the pods that had stopped waiting for this controller, in the order of their uids.
    /// The controller has appeared.
    pub(crate) fn take_orphans(&mut self, controller: &Uid) -> BTreeSet<Uid> {
        self.orphans.remove(controller).unwrap_or_default()
    }

    /// Returns the pods that wait for this controller, in the order of their uids.
    pub(crate) fn made_by(&self, controller: &Uid) -> Vec<Uid> {
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
