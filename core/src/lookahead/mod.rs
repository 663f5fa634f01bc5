//! Lookahead: expected starts of waiting requests, and the outcome of a possible submission.

pub(crate) mod estimates;
pub(crate) mod estimating;
pub(crate) mod projecting;

use estimates::{Estimates, LookingAhead};

/// The known starts of waiting requests, and the projection that finds them.
#[derive(Default)]
pub(crate) struct Lookahead {
    pub estimates: Estimates,
    pub ahead: LookingAhead,
}
