//! The stages of a pod from its arrival to its end, each with the data that the pod has in it.

use crate::action::ActionId;
use fluxqueue_machine::ledger::Allocation;

/// A pod's way to a node, with its slot for as long as it has one.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The pod has no slot.
    Waiting,
    /// The pod has a slot, and is not known to be on its node yet.
    Placed(Slot),
    /// The pod is on its node. It has no allocation there while that node is not known.
    Bound(Option<Allocation>),
    /// The pod uses nothing any more.
    Ended,
}

/// The place of a pod that is to be bound.
#[derive(Debug)]
pub(crate) struct Slot {
    pub allocation: Allocation,
    pub sending: Sending,
}

/// The write that is to bring a pod to its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// No write is under way.
    Due,
    /// The removal of the pod's gate is under way.
    Ungating(ActionId),
    /// The pod's Binding is under way.
    Binding(ActionId),
}

/// Why a pod stopped using its node or waiting for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Succeeded,
    Failed,
    /// The kubelet refused or evicted the pod.
    Refused,
    /// The pod was drained, preempted or deleted with its node.
    Disrupted,
    /// The pod's object is gone, or was being deleted before the pod was bound.
    Deleted,
}

impl Stage {
    /// True if the pod has no slot.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Stage::Waiting)
    }

    /// True if the pod has a slot, and no write that brings it there is under way.
    pub(crate) fn is_assigned(&self) -> bool {
        self.sending() == Some(Sending::Due)
    }

    /// True if the pod's gate is being removed.
    pub(crate) fn is_ungating(&self) -> bool {
        matches!(self.sending(), Some(Sending::Ungating(_)))
    }

    /// True if the pod's Binding is under way.
    pub(crate) fn is_binding(&self) -> bool {
        matches!(self.sending(), Some(Sending::Binding(_)))
    }

    /// True if the pod has a slot, and no Binding has left.
    pub(crate) fn is_unsent(&self) -> bool {
        self.is_assigned() || self.is_ungating()
    }

    /// True if the pod has a slot, and is not known to be on its node yet.
    pub(crate) fn is_on_the_way(&self) -> bool {
        matches!(self, Stage::Placed(_))
    }

    /// True if the pod is on its node.
    pub(crate) fn is_bound(&self) -> bool {
        matches!(self, Stage::Bound(_))
    }

    /// True if the pod uses nothing any more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Stage::Ended)
    }

    /// Returns the write that is to bring the pod to its node, if it has a slot and is not there
    /// yet.
    pub(crate) fn sending(&self) -> Option<Sending> {
        match self {
            Stage::Placed(slot) => Some(slot.sending),
            _ => None,
        }
    }

    /// Returns the allocation on the node where the pod is or is to be.
    pub(crate) fn allocation(&self) -> Option<&Allocation> {
        match self {
            Stage::Placed(slot) => Some(&slot.allocation),
            Stage::Bound(allocation) => allocation.as_ref(),
            Stage::Waiting | Stage::Ended => None,
        }
    }

    /// Returns the same allocation, to be changed.
    pub(crate) fn allocation_mut(&mut self) -> Option<&mut Allocation> {
        match self {
            Stage::Placed(slot) => Some(&mut slot.allocation),
            Stage::Bound(allocation) => allocation.as_mut(),
            Stage::Waiting | Stage::Ended => None,
        }
    }

    /// Takes the allocation out. A pod that was placed waits again without it.
    pub(crate) fn take_allocation(&mut self) -> Option<Allocation> {
        match std::mem::replace(self, Stage::Waiting) {
            Stage::Placed(slot) => Some(slot.allocation),
            Stage::Bound(allocation) => {
                *self = Stage::Bound(None);
                allocation
            }
            before @ (Stage::Waiting | Stage::Ended) => {
                *self = before;
                None
            }
        }
    }

    /// Notes the write that is to bring a pod with a slot to its node.
    pub(crate) fn send_by(&mut self, sending: Sending) {
        if let Stage::Placed(slot) = self {
            slot.sending = sending;
        }
    }

    /// Notes that it is on its node, with the slot that it had there.
    pub(crate) fn bind(&mut self) {
        *self = Stage::Bound(self.take_allocation());
    }
}
