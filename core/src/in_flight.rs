//! Actions in flight: the core has requested them and has no answer yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::FluxQueueStatus;

use crate::action::{Action, ActionId, ActionKind};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::pod_group::GroupCondition;
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Uid};

/// The subject of an awaited outcome.
#[derive(Debug, Clone)]
pub(crate) enum InFlight {
    /// The Binding of this pod.
    Bind(Uid),
    /// The removal of our gate from this pod.
    Ungate(Uid),
    /// The condition of this pod.
    Condition(Uid),
    /// The nomination of this pod for a node, with the node for which it was nominated before.
    Nomination(Uid, Option<NodeName>),
    /// The write that gets a claim of this pod its volume, decided on an object of that version.
    Volume(Uid, ObjectRef, Option<Arc<str>>),
    /// This condition of a PodGroup of this uid.
    GroupCondition(ObjectKey, Uid, Box<GroupCondition>),
    /// A write of this job's FluxJob.
    Record(JobId),
    /// The release of this job's Job, or its suspension.
    Job(JobId),
    /// The removal of a FluxJob that belongs to no job.
    Stray(ObjectKey),
    /// The status of this FluxQueue.
    Queue(Arc<str>, Uid, Box<FluxQueueStatus>),
}

/// The actions of this step, and the awaited outcomes.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    decided: Vec<Action>,
    /// The number of actions so far: their own numbers begin with 1.
    count: ActionId,
    in_flight: BTreeMap<ActionId, InFlight>,
    bindings: usize,
}

impl Actions {
    /// Requests an action with an outcome that matters.
    pub(crate) fn ask(&mut self, kind: impl Into<ActionKind>, about: InFlight) -> ActionId {
        let id = self.push(kind.into());
        self.bindings += usize::from(matches!(about, InFlight::Bind(_)));
        self.in_flight.insert(id, about);
        id
    }

    /// Requests an action and forgets it.
    pub(crate) fn push(&mut self, kind: ActionKind) -> ActionId {
        self.count += 1;
        self.decided.push(Action { id: self.count, kind });
        self.count
    }

    /// Returns the subject of this outcome; `None` if no such outcome is awaited.
    pub(crate) fn answered(&mut self, id: ActionId) -> Option<InFlight> {
        let about = self.in_flight.remove(&id)?;
        self.bindings -= usize::from(matches!(about, InFlight::Bind(_)));
        Some(about)
    }

    /// True if the status of this queue is on its way.
    pub(crate) fn is_writing_queue(&self, name: &str) -> bool {
        self.in_flight
            .values()
            .any(|about| matches!(about, InFlight::Queue(queue, ..) if **queue == *name))
    }

    /// Returns the number of Bindings that have no outcome yet.
    pub(crate) fn bindings_in_flight(&self) -> usize {
        self.bindings
    }

    /// True if an action was requested since the last [`Actions::take`].
    pub(crate) fn has_decided(&self) -> bool {
        !self.decided.is_empty()
    }

    /// Takes the actions requested since the last call.
    pub(crate) fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.decided)
    }
}
