//! The reasons for which a core cannot be made.

use fluxqueue_machine::fluxion::GraphError;
use fluxqueue_planner::plan::QueuePolicy;

/// The reason for which a core cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The graph could not be made.
    #[error("making the resource graph")]
    Graph(#[from] GraphError),
    /// A policy needs a feature that this library does not have.
    #[error("queuePolicy {}: this Fluxion library keeps no reservations; only fcfs goes \
        without", .0.as_str())]
    Policy(QueuePolicy),
}
