//! The planner: which requests start, which wait for what, and when each is expected to start.
//!
//! - [`queue`]: the order of the requests that wait
//! - [`queues`]: the queues that jobs are in, their policies and limits, and the use of these
//! - [`plan`]: one walk over the queue, which decides
//! - [`policies`]: how a queue treats its jobs
//! - [`promises`]: reservations, and the patience of requests without one
//! - [`forward`]: the plan run forward in virtual time
//!
//! The planner knows requests and the machine, and neither jobs nor records. It reads no clock and
//! holds no lock.

pub mod forward;
pub mod plan;
mod planner;
pub mod policies;
pub mod promises;
pub mod queue;
pub mod queues;
#[cfg(test)]
mod samples;

pub use planner::{Planner, PlannerParts, Surroundings};
