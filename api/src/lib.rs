//! The API types of Fluxqueue: `FluxJob`, `FluxQueue`, and the labels, annotations and names it
//! shares with its users. No I/O.

pub mod conditions;
mod crd;
mod events;
pub mod fluxjob;
pub mod fluxqueue;
pub mod hostlist;
pub mod idset;
pub mod manifest;
pub mod names;
mod overrides;
pub mod pause;
pub mod placement;
pub mod text;
mod validation;

pub use crd::{Definition, crd_yaml};

pub use conditions::{
    AcceptedReason, ConditionType, DegradedReason, FinishedReason, JobState, ScheduledReason,
};
pub use events::EventReason;
pub use fluxjob::{
    BlockedBy, BlockedReason, EstimateKind, EstimatedStart, FluxJob, FluxJobSpec, FluxJobStatus,
    ObservedWorkload, PlacementRange, PodSet, Reservation, StartEstimates, WorkloadKind,
    WorkloadRef,
};
pub use fluxqueue::{
    FluxQueue, FluxQueueSpec, FluxQueueStatus, MaxWalltimeAction, Policy, StopPolicy,
};
pub use overrides::{Hold, Overrides};
