//! What the core has asked for and not been answered yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::FluxQueueStatus;

use crate::{Action, ActionId, ActionKind};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Uid};

/// What an outcome will be about.
#[derive(Debug, Clone)]
pub(crate) enum InFlight {
    /// The Binding of this pod.
    Bind(Uid),
    /// The removal of our gate from this pod.
    Ungate(Uid),
    /// The condition of this pod.
    Condition(Uid),
    /// For which node this pod is meant; and for which it was until then.
    Nomination(Uid, Option<NodeName>),
    /// What gets a claim of this pod its volume, decided on an object of that version.
    Volume(Uid, ObjectRef, Option<Arc<str>>),
    /// A write of this job's FluxJob.
    Record(JobId),
    /// The release of this job's Job, or its suspension.
    Job(JobId),
    /// Removal of a FluxJob that belongs to no job.
    Stray(ObjectKey),
    /// The status of this FluxQueue.
    Queue(Arc<str>, Uid, Box<FluxQueueStatus>),
}

/// The actions of this step, and what outcomes are awaited.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    decided: Vec<Action>,
    /// How many were decided so far: their numbers begin with 1.
    count: ActionId,
    in_flight: BTreeMap<ActionId, InFlight>,
    bindings: usize,
}

impl Actions {
    /// Asks for something of which the outcome matters.
    pub(crate) fn ask(&mut self, kind: ActionKind, about: InFlight) -> ActionId {
        let id = self.push(kind);
        self.bindings += usize::from(matches!(about, InFlight::Bind(_)));
        self.in_flight.insert(id, about);
        id
    }

    /// Asks for something that is forgotten then.
    pub(crate) fn push(&mut self, kind: ActionKind) -> ActionId {
        self.count += 1;
        self.decided.push(Action { id: self.count, kind });
        self.count
    }

    /// What this outcome is about; `None` if none is awaited.
    pub(crate) fn answered(&mut self, id: ActionId) -> Option<InFlight> {
        let about = self.in_flight.remove(&id)?;
        self.bindings -= usize::from(matches!(about, InFlight::Bind(_)));
        Some(about)
    }

    /// The status of this queue is on its way.
    pub(crate) fn is_writing_queue(&self, name: &str) -> bool {
        self.in_flight
            .values()
            .any(|about| matches!(about, InFlight::Queue(queue, ..) if **queue == *name))
    }

    /// Bindings that have no outcome yet.
    pub(crate) fn bindings_in_flight(&self) -> usize {
        self.bindings
    }

    /// Something was asked for since the last [`Actions::take`].
    pub(crate) fn has_decided(&self) -> bool {
        !self.decided.is_empty()
    }

    /// What was asked for since the last call.
    pub(crate) fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.decided)
    }
}
