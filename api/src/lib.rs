//! The API types of Fluxqueue: `FluxJob`, and the labels, annotations and names it shares with its users. No I/O.

pub mod fluxjob;
pub mod names;

pub use fluxjob::{
    BlockedBy, FluxJob, FluxJobSpec, FluxJobStatus, JobState, PlacementRange, Resources, Role, WorkloadType,
};
