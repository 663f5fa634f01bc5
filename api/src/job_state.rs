//! The stage of a job's life in one word.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stage of a job's life: its conditions in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JobState {
    /// Not all its pods are there yet, one has a scheduling gate of another program, or a claim is
    /// not ready.
    Incomplete,
    /// The job waits for its turn or for resources.
    Pending,
    /// A person holds it, or its queue is stopped or was deleted.
    Held,
    /// The job can never run on the existing nodes, however idle.
    Unsatisfiable,
    /// The job asks for something that is not supported or not allowed, or contradicts itself.
    Refused,
    /// Its pods are being bound.
    Starting,
    /// Its pods are bound.
    Running,
    /// All its pods have ended, and succeeded.
    Completed,
    /// The job ended otherwise.
    Failed,
}
