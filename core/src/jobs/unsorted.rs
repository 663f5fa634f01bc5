//! Pods of the first lists, until all lists are complete and their jobs can be determined.

use std::sync::Arc;

use fluxqueue_machine::table::Table;
use fluxqueue_workload::{Pod, Uid};

/// Pods in the order in which they came. A list has an order of its own, and an almost sorted
/// sequence is sorted quickly.
#[derive(Debug, Default)]
pub(crate) struct Unsorted {
    pods: Vec<Option<Arc<Pod>>>,
    /// The place of each pod.
    at: Table<Uid, usize>,
}

impl Unsorted {
    /// Returns the number of pods.
    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    /// Adds a pod, or replaces it by its new state.
    pub(crate) fn put(&mut self, pod: Arc<Pod>) {
        if let Some(known) = self.at.get(&pod.id.uid) {
            self.pods[*known] = Some(pod);
        } else {
            self.at.insert(pod.id.uid.clone(), self.pods.len());
            self.pods.push(Some(pod));
        }
    }

    /// Removes a pod that is gone.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        if let Some(at) = self.at.remove(uid) {
            self.pods[at] = None;
        }
    }

    /// Returns all pods.
    pub(crate) fn into_pods(self) -> Vec<Arc<Pod>> {
        self.pods.into_iter().flatten().collect()
    }
}
