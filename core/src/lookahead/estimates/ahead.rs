//! When the plan is run forward, and what its results are used for: a little at a time, between
//! passes, never while Bindings wait.

use super::projection::{Projection, Remains};

use crate::Core;
use fluxqueue_workload::Time;

/// How far the looking ahead has come.
#[derive(Default)]
pub(crate) struct LookingAhead {
    pub(crate) projection: Option<Box<Projection>>,
    /// What is left of the last one: each part is thrown away in a slice of its own.
    pub(crate) remains: Remains,
    /// When the last one was begun.
    pub(crate) begun: Option<Time>,
    /// The queue was walked since it was begun.
    pub(crate) is_stale: bool,
    /// It is its turn in this step.
    pub(crate) is_due: bool,
    /// How often it has given way since the last slice.
    pub(crate) yields: u32,
    /// How often it has been its turn to compute.
    pub(crate) slices: u64,
}

impl Core {
    /// How many slices of looking ahead there have been. Each has a step of its own, as far as it
    /// can.
    pub fn slices_ahead(&self) -> u64 {
        self.lookahead.ahead.slices
    }
}
