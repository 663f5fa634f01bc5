//! When requests that wait are expected to start, and what a submission would come to.

pub(crate) mod estimates;
pub(crate) mod estimating;
pub(crate) mod projecting;

use estimates::{Estimates, LookingAhead};

/// What is known of the starts of requests that wait, and the projection that finds it out.
#[derive(Default)]
pub(crate) struct Lookahead {
    pub estimates: Estimates,
    pub ahead: LookingAhead,
}
