//! Reports about jobs: reasons, positions, Events, the state and the numbers.

pub(crate) mod blockers;
pub(crate) mod closed;
pub(crate) mod cramped;
pub(crate) mod explain;
pub(crate) mod holders;
pub(crate) mod limits;
pub(crate) mod lost;
pub(crate) mod positions;
pub(crate) mod readers;
pub mod report;
pub(crate) mod shortage;
pub(crate) mod unready;

use std::collections::VecDeque;

use explain::Report;
use positions::Positions;

/// The reports that are still to be made to waiting requests.
#[derive(Default)]
pub(crate) struct Reporting {
    /// The classes of requests that are to learn why they wait.
    pub reports: VecDeque<Report>,
    pub positions: Positions,
}
