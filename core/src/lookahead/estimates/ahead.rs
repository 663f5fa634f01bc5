//! Progress of looking ahead: the plan is run forward a little at a time, between passes, and never
//! while Bindings wait.

use super::projection::{Projection, Remains};

use fluxqueue_workload::Time;

/// The progress of looking ahead.
#[derive(Default)]
pub(crate) struct LookingAhead {
    pub(crate) projection: Option<Box<Projection>>,
    /// The parts of the last projection: each is dropped in a slice of its own.
    pub(crate) remains: Remains,
    /// The time at which the last one was begun.
    pub(crate) begun: Option<Time>,
    /// True if the queue was walked since it was begun.
    pub(crate) is_stale: bool,
    /// True if its turn is in this step.
    pub(crate) is_due: bool,
    /// How many times it has given way since the last slice.
    pub(crate) yields: u32,
    /// The number of slices so far.
    pub(crate) slices: u64,
}
