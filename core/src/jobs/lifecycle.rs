//! The stages of a job's life.

use fluxqueue_api::{FinishedReason, FluxJobStatus};

use crate::records::times::time_of;
use fluxqueue_workload::Time;

/// The stage of a job's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// The pods that start together have no slots. Lone pods and elastic jobs stay in this stage
    /// until they end.
    Waiting,
    /// The pods have slots, and no Binding has left yet: the placement can still be withdrawn.
    Placed,
    /// The first Binding left at this time. From here on the gang is completed, on other nodes if
    /// need be.
    Starting { since: Time },
    /// All pods that the job wanted were bound at some time.
    Whole,
    /// None of its pods is left, and no object makes more.
    Finished(End),
}

/// The end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub reason: FinishedReason,
    /// The time of the end by the API server's clock; `None` if a record states the end without
    /// it.
    pub at: Option<Time>,
}

impl End {
    /// Returns the end of a job that has this status, if it has ended.
    pub(crate) fn on_record(status: &FluxJobStatus) -> Option<Self> {
        let reason = FinishedReason::among(&status.conditions)?;
        Some(End { reason, at: status.completion_time.as_ref().map(time_of) })
    }
}

impl Lifecycle {
    /// True if the pods that start together have been given slots: pods that come now join them.
    pub(crate) fn is_placed(self) -> bool {
        matches!(self, Lifecycle::Placed | Lifecycle::Starting { .. } | Lifecycle::Whole)
    }

    pub(crate) fn end(self) -> Option<End> {
        match self {
            Lifecycle::Finished(end) => Some(end),
            _ => None,
        }
    }
}
