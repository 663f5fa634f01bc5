//! Pods of ours whose maker has not been seen, and until when it is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_workload::{Pod, Time, Uid};

/// A pod whose maker has not been seen.
pub(super) struct Parked {
    pub pod: Arc<Pod>,
    pub until: Time,
}

/// All of them.
#[derive(Default)]
pub(super) struct ParkedPods {
    pods: BTreeMap<Uid, Parked>,
    by_maker: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl ParkedPods {
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn insert(&mut self, parked: Parked) {
        let uid = parked.pod.id.uid.clone();
        self.remove(&uid);
        if let Some(owner) = &parked.pod.owner {
            self.by_maker.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        self.pods.insert(uid, parked);
    }

    pub(super) fn remove(&mut self, pod: &Uid) -> Option<Parked> {
        let parked = self.pods.remove(pod)?;
        if let Some(owner) = &parked.pod.owner
            && let Some(pods) = self.by_maker.get_mut(&owner.uid)
        {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_maker.remove(&owner.uid);
            }
        }
        Some(parked)
    }

    /// Those that wait for this object, in the order of their uids.
    pub(super) fn made_by(&self, maker: &Uid) -> Vec<Uid> {
        self.by_maker.get(maker).into_iter().flatten().cloned().collect()
    }

    /// All of them: nobody is waited for any more.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Arc<Pod>> + use<> {
        std::mem::take(self).pods.into_values().map(|parked| parked.pod)
    }
}
