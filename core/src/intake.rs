//! Events into state: nodes, pods, their controllers.
//!
//! Nothing is decided here; what may matter is marked (`touched`, `queue_changed`, the ledger's
//! changes).

use crate::jobs::awaiting_owner::AwaitingOwner;
use crate::jobs::unsorted::Unsorted;

/// What the first lists bring, and pods of ours that have no job yet.
#[derive(Default)]
pub(crate) struct Intake {
    /// True once the first lists are complete.
    pub listed: bool,
    /// The pods of ours from these lists: which jobs they belong to is decided when all lists are
    /// complete.
    pub unsorted: Unsorted,
    /// True once the first lists have been taken up.
    pub synced: bool,
    /// True while what was there at the start is looked at for the first time.
    pub taking_over: bool,
    /// Pods of ours whose controller has not been seen, and until when it is waited for.
    pub awaiting_owner: AwaitingOwner,
}
