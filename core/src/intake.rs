//! The first lists, and pods of ours that have no job yet.

use crate::jobs::awaiting_owner::AwaitingOwner;
use crate::jobs::unsorted::Unsorted;

/// The results of the first lists, and pods of ours that have no job yet.
#[derive(Default)]
pub(crate) struct Intake {
    /// True once the first lists are complete.
    pub listed: bool,
    /// The pods of ours from these lists: they are assigned to jobs when all lists are complete.
    pub unsorted: Unsorted,
    /// True once the first lists have been taken up.
    pub synced: bool,
    /// True while the state found at the start is examined for the first time.
    pub taking_over: bool,
    /// The pods of ours with a controller that has not been seen, and the time until which it is
    /// awaited.
    pub awaiting_owner: AwaitingOwner,
}
