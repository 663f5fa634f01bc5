//! The API types of Fluxqueue: `FluxJob`, `FluxQueue`, and the labels, annotations and names it
//! shares with its users. No I/O.

mod blocked_by;
pub mod conditions;
mod crd;
mod events;
pub mod fluxjob;
pub mod fluxqueue;
mod job_state;
pub mod kinds;
pub mod manifest;
pub mod names;
mod overrides;
pub mod pause;
pub mod placement;
pub mod syntax;
pub mod text;
mod validation;

pub use crd::{Definition, crd_yaml};

pub use blocked_by::{BlockedBy, BlockedReason};
pub use conditions::{
    AcceptedReason, ConditionType, DegradedReason, FinishedReason, ScheduledReason,
};
pub use events::EventReason;
pub use fluxjob::{
    EstimateKind, EstimatedStart, FluxJob, FluxJobSpec, FluxJobStatus, LostPods, ObservedWorkload,
    PlacementRange, PodSet, Reservation, StartEstimates, WorkloadRef,
};
pub use fluxqueue::{
    FluxQueue, FluxQueueSpec, FluxQueueStatus, MaxWalltimeAction, Policy, StopPolicy,
};
pub use job_state::JobState;
pub use kinds::WorkloadKind;
pub use overrides::{Hold, Overrides};
