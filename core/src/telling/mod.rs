//! What is told of jobs: reasons, positions, Events, the state and the numbers.

pub(crate) mod blockers;
pub(crate) mod closed;
pub(crate) mod cramped;
pub(crate) mod describe;
pub(crate) mod explain;
pub(crate) mod lost;
pub(crate) mod notices;
pub(crate) mod positions;
pub(crate) mod readers;
pub mod report;
pub(crate) mod shortage;
