//! The API types of Fluxqueue: `FluxJob`, and the labels, annotations and names it shares with its users. No I/O.

pub mod conditions;
mod crd;
pub mod fluxjob;
pub mod hostlist;
pub mod idset;
pub mod names;
pub mod placement;
mod validation;

pub use crd::{crd_yaml, missing_from};

pub use conditions::{ConditionType, DegradedReason, FinishedReason, JobState, ScheduledReason};
pub use fluxjob::{
    BlockedBy, BlockedReason, FluxJob, FluxJobSpec, FluxJobStatus, ObservedWorkload, Overrides, PlacementRange, PodSet,
    Reservation, WorkloadKind, WorkloadRef,
};
