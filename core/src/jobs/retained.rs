//! A slot that a pod has left, for the pod that its controller will make.

use crate::jobs::seats::PodIndex;
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_workload::{Pod, Time, Uid};

/// A slot without a pod, for the pod that the controller will make.
pub(crate) struct RetainedSlot {
    pub allocation: Allocation,
    pub seat: Option<PodIndex>,
    /// The controller that makes the pod for the slot.
    pub controller: Uid,
    /// True if the number of pods that the controller wants is not known, by its kind.
    pub is_of_unknown_kind: bool,
    pub until: Time,
}

impl RetainedSlot {
    /// True if the pod is one that may take the slot, as far as the pod itself is concerned.
    pub(crate) fn is_for(&self, pod: &Pod) -> bool {
        pod.owner.as_ref().is_some_and(|owner| owner.uid == self.controller)
            && *self.allocation.shape == *pod.shape
    }
}
