//! The stages of a pod from its arrival to its end, each with the data that the pod has in it.

use std::sync::Arc;

use crate::action::{ActionId, ActionKind};
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_workload::ObjectRef;

/// A pod's way to a node, with its slot for as long as it has one.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The pod has no slot.
    Waiting,
    /// The pod has a slot, and is not known to be on its node yet.
    Placed(Slot),
    /// The pod is on its node, and takes this there.
    Bound(Allocation),
    /// The pod is on a node that is not known, so nothing is counted for it.
    OnUnknownNode,
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

impl Slot {
    /// Returns the Binding of its pod to its node: no other code makes one.
    pub(crate) fn binding(&self, pod: ObjectRef, queue: Arc<str>) -> ActionKind {
        ActionKind::Bind { pod, node: self.allocation.node.clone(), queue }
    }
}

impl Stage {
    /// Returns the stage of a pod that is on a node, with its allocation if that node is known.
    pub(crate) fn on_node(allocation: Option<Allocation>) -> Self {
        allocation.map_or(Stage::OnUnknownNode, Stage::Bound)
    }

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
        matches!(self, Stage::Bound(_) | Stage::OnUnknownNode)
    }

    /// True if the pod uses nothing any more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Stage::Ended)
    }

    /// Returns the slot of a pod that is not known to be on its node yet.
    pub(crate) fn slot(&self) -> Option<&Slot> {
        match self {
            Stage::Placed(slot) => Some(slot),
            Stage::Waiting | Stage::Bound(_) | Stage::OnUnknownNode | Stage::Ended => None,
        }
    }

    /// Returns the write that is to bring the pod to its node, if it has a slot and is not there
    /// yet.
    pub(crate) fn sending(&self) -> Option<Sending> {
        self.slot().map(|slot| slot.sending)
    }

    /// Returns the allocation on the node where the pod is or is to be.
    pub(crate) fn allocation(&self) -> Option<&Allocation> {
        match self {
            Stage::Placed(slot) => Some(&slot.allocation),
            Stage::Bound(allocation) => Some(allocation),
            Stage::Waiting | Stage::OnUnknownNode | Stage::Ended => None,
        }
    }

    /// Returns the same allocation, to be changed.
    pub(crate) fn allocation_mut(&mut self) -> Option<&mut Allocation> {
        match self {
            Stage::Placed(slot) => Some(&mut slot.allocation),
            Stage::Bound(allocation) => Some(allocation),
            Stage::Waiting | Stage::OnUnknownNode | Stage::Ended => None,
        }
    }

    /// Takes the allocation out. A pod that was placed waits again without it.
    pub(crate) fn take_allocation(&mut self) -> Option<Allocation> {
        match std::mem::replace(self, Stage::Waiting) {
            Stage::Placed(slot) => Some(slot.allocation),
            Stage::Bound(allocation) => {
                *self = Stage::OnUnknownNode;
                Some(allocation)
            }
            before @ (Stage::Waiting | Stage::OnUnknownNode | Stage::Ended) => {
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
        *self = Stage::on_node(self.take_allocation());
    }
}
