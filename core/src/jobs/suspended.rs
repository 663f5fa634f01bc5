//! A Job that Fluxqueue has suspended, from its mark until its pods wait for themselves.

use crate::action::ActionId;
use fluxqueue_workload::Time;

/// The state of Fluxqueue's suspension of a Job, from its mark until its pods wait for themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Suspended {
    /// The Job is not suspended by Fluxqueue.
    #[default]
    No,
    /// The Job waits for its place, and others stand in for its pods.
    Waits(JobWrite),
    /// The Job was released, and this process knew of it at this time of the core. Others stand in
    /// for its pods until all pods exist.
    Released { since: Time },
    /// The suspension is over: no pod has a stand-in any more.
    Over,
}

/// A write into a suspended Job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct JobWrite {
    /// The action that is under way, and the change that it makes.
    pub under_way: Option<(ActionId, JobChange)>,
    /// The number of writes that failed in a row, why the last one did, and when the next may
    /// leave.
    pub attempts: u32,
    pub failure: Option<String>,
    pub retry_at: Time,
}

/// A change of a suspended Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobChange {
    /// Removes the mark and the suspension.
    Release,
    /// Suspends a Job again that another client has let go.
    Suspend,
}

impl Suspended {
    /// True if stand-ins represent the job's pods.
    pub(crate) fn has_stand_ins(&self) -> bool {
        matches!(self, Suspended::Waits(_) | Suspended::Released { .. })
    }

    /// True if the Job has been released, or the release is under way.
    pub(crate) fn is_being_released(&self) -> bool {
        match self {
            Suspended::Waits(write) => write.under_way.is_some(),
            Suspended::Released { .. } => true,
            Suspended::No | Suspended::Over => false,
        }
    }
}

impl JobWrite {
    /// True if no write is under way, and the next may leave.
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        self.under_way.is_none() && self.retry_at <= now
    }
}
