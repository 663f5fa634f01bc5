//! A pod that Fluxqueue schedules.

use std::sync::Arc;

use crate::action::ActionId;
use crate::jobs::nomination::Nomination;
use crate::jobs::seats::PodIndex;
use crate::jobs::setbacks::Setbacks;
use crate::jobs::stage::Stage;
use fluxqueue_machine::cluster::volumes::Unready;
use fluxqueue_machine::fluxion::End;
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_planner::plan::Terms;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Pod, Time};

/// Writes for a pod that failed in a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailedWrites {
    pub count: u32,
    /// The last error, if one of them had one: the write of a claim has none.
    pub error: Option<Box<str>>,
}

/// A pod that Fluxqueue schedules.
pub(crate) struct Member {
    pub pod: Arc<Pod>,
    pub job: JobId,
    pub stage: Stage,
    pub seat: Option<PodIndex>,
    /// The slots that the pod had to give back in a row, and the pause that follows.
    pub setbacks: Setbacks,
    /// The writes for the pod that failed in a row.
    pub failed: FailedWrites,
    /// The time before which no further write leaves.
    pub retry_at: Time,
    /// True if the API server said that the pod is gone or being deleted: it is not placed any
    /// more.
    pub deletion_observed: bool,
    /// True if the answer to a Binding got lost, so that the pod may be on a node without the
    /// core's knowledge.
    pub maybe_bound: bool,
    /// The time until which the watch may still show the pod on the node of a Binding with a lost
    /// answer. The pod keeps that slot until then.
    pub doubt_until: Time,
    /// The removal of Fluxqueue's gate that is under way. It goes on even if the pod loses its slot
    /// meanwhile.
    pub ungating: Option<ActionId>,
    /// True if Fluxqueue's gate has been removed, though the last seen state of the pod has it.
    pub ungated: bool,
    /// The last report on the pod: condition message and time.
    pub reported: Option<(String, Time)>,
    /// The terms of the pod's placement: the needs of its volumes as of the last look at them, all
    /// others as of when the pod was last queued.
    pub terms: Terms,
    /// Why its claims do not allow the pod to be placed.
    pub unready: Option<Unready>,
    /// How often its volumes could not be bound.
    pub mountings_failed: u32,
    /// True if its PodGroup has changed while the pod was on its way to a node.
    pub group_has_changed: bool,
    /// The write of the pod's condition that is under way.
    pub telling: Option<ActionId>,
    /// The nomination of the pod.
    pub nomination: Nomination,
}

impl Member {
    /// Creates a pod of this job that has no slot yet, and on which nothing has been reported.
    pub(crate) fn new(pod: Arc<Pod>, job: JobId, stage: Stage) -> Self {
        Member {
            pod,
            job,
            stage,
            seat: None,
            setbacks: Setbacks::default(),
            failed: FailedWrites::default(),
            retry_at: Time(0),
            deletion_observed: false,
            maybe_bound: false,
            doubt_until: Time(0),
            ungating: None,
            ungated: false,
            reported: None,
            terms: Terms::default(),
            unready: None,
            mountings_failed: 0,
            group_has_changed: false,
            telling: None,
            nomination: Nomination::none(),
        }
    }

    /// True if the pod can be given a slot, as far as the pod itself is concerned.
    pub(crate) fn is_ready(&self, gate: &str) -> bool {
        self.stage.is_waiting()
            && !self.deletion_observed
            && !self.pod.deleting
            && self.pod.unsupported.is_empty()
            && self.unready.is_none()
            && self.pod.gates.iter().all(|held| **held == *gate)
            && !matches!(self.pod.group, Some(ref group) if group.size.is_err())
    }

    /// True if a Binding with an unknown outcome may have left for the pod.
    pub(crate) fn is_in_doubt(&self, now: Time) -> bool {
        self.maybe_bound && now < self.doubt_until
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.stage.is_bound()
    }

    /// Returns the pod's allocation on the node where it is or is to be.
    pub(crate) fn allocation(&self) -> Option<&Allocation> {
        self.stage.allocation()
    }

    /// Returns the end with which the pod's allocation on its node was booked.
    pub(crate) fn booked_end(&self) -> Option<End> {
        self.allocation().map(|allocation| allocation.end)
    }

    /// Returns the time before which no write for the pod may leave, if that is to come.
    pub(crate) fn held_until(&self, now: Time) -> Option<Time> {
        let paused = self.retry_at.max(self.setbacks.leaves_from());
        // The pod is on its node already, or its group, as that is now, decides on its start.
        let is_unsettled = self.group_has_changed && self.is_in_doubt(now);
        let until = if is_unsettled { paused.max(self.doubt_until) } else { paused };
        (until > now).then_some(until)
    }

    /// True if the pod is being deleted and has no node: it never will have one.
    pub(crate) fn goes_unbound(&self) -> bool {
        self.pod.deleting && self.pod.node.is_none()
    }
}
