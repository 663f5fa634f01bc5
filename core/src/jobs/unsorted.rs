//! Pods of the first lists, until all lists are complete and it can be said which jobs they belong
//! to.

use std::sync::Arc;

use fluxqueue_machine::table::Table;
use fluxqueue_workload::{Pod, Uid};

/// Pods in the order in which they came: a list has one of its own, and what is almost sorted is
/// soon sorted.
#[derive(Debug, Default)]
pub(crate) struct Unsorted {
    pods: Vec<Option<Arc<Pod>>>,
    /// Where each is.
    at: Table<Uid, usize>,
}

impl Unsorted {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    /// A pod is there, or has changed.
    pub(crate) fn put(&mut self, pod: Arc<Pod>) {
        if let Some(known) = self.at.get(&pod.id.uid) {
            self.pods[*known] = Some(pod);
        } else {
            self.at.insert(pod.id.uid.clone(), self.pods.len());
            self.pods.push(Some(pod));
        }
    }

    /// A pod is gone.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        if let Some(at) = self.at.remove(uid) {
            self.pods[at] = None;
        }
    }

    /// All of them.
    pub(crate) fn into_pods(self) -> Vec<Arc<Pod>> {
        self.pods.into_iter().flatten().collect()
    }
}
