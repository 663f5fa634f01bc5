//! The nomination of a pod: the node that its status names until it is bound.

use crate::ActionId;
use fluxqueue_workload::{NodeName, Time};

/// What a pod says of the node that it is to go to.
#[derive(Debug)]
pub(crate) struct Nomination {
    /// It has a slot, and claims are being bound.
    pub(crate) is_due: bool,
    /// The node that is written, or on its way, and ours to take away.
    pub(crate) said: Option<NodeName>,
    pub(crate) writing: Option<ActionId>,
    /// It could not be written, and is not tried again before.
    pub(crate) retry_at: Time,
}

impl Nomination {
    /// Nothing is said.
    pub(crate) fn none() -> Self {
        Nomination { is_due: false, said: None, writing: None, retry_at: Time(0) }
    }

    /// A write is on its way.
    pub(crate) fn is_being_written(&self) -> bool {
        self.writing.is_some()
    }
}
