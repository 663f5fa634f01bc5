//! The nomination of a pod: the node that its status names until it is bound.

use crate::action::ActionId;
use fluxqueue_workload::{NodeName, Time};

/// The pause, in milliseconds, until a write is repeated that was based on an older version of the
/// pod, or made beside another write to it.
pub(crate) const SOON_MILLIS: i64 = 1_000;

/// The state of a pod's nomination.
#[derive(Debug)]
pub(crate) struct Nomination {
    /// True if the pod has a slot and its claims are being bound.
    pub(crate) is_due: bool,
    /// The node that is written, or is being written, by Fluxqueue, which therefore may remove it.
    pub(crate) said: Option<NodeName>,
    pub(crate) writing: Option<ActionId>,
    /// The time of the next attempt after a write that failed.
    pub(crate) retry_at: Time,
}

impl Nomination {
    /// Creates the state of a pod without a nomination.
    pub(crate) fn none() -> Self {
        Nomination { is_due: false, said: None, writing: None, retry_at: Time(0) }
    }

    /// True if a write is under way.
    pub(crate) fn is_being_written(&self) -> bool {
        self.writing.is_some()
    }
}
