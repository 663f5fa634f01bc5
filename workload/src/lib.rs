//! The workload: pods and the objects that make them, as the core sees them.
//!
//! The types here are small, owned and comparable; conversion from Kubernetes objects lives in the
//! submodules and is pure. From these facts the core decides which pods belong together (a gang, an
//! elastic set); nothing here does.

pub mod constraints;
mod controller;
pub mod device_class;
pub mod exclusive;
mod group;
mod ids;
pub mod json;
pub mod levels;
pub mod metadata;
mod object;
mod pod;
pub mod pod_group;
mod priority_class;
pub mod quantity;
mod quota;
mod reading;
mod refusal;
pub mod requests;
mod resources;
mod role;
pub mod scheduling_group;
mod shape;
pub mod storage;
mod suspension;
pub mod template;
mod time;
mod unsupported;
pub mod walltime;

pub use controller::Controller;
pub use group::GROUP_SIZE_MAX;
pub use ids::{NodeName, Uid};
pub use metadata::InvalidObject;
pub use object::{ObjectKey, ObjectRef, Owner, OwnerKind};
pub use pod::{GroupLabels, Phase, Pod, ScheduledCondition};
pub use priority_class::PriorityClass;
pub use quota::{Left, Quota};
pub use refusal::Refusal;
pub use resources::{ResourceName, Resources};
pub use role::SaidRole;
pub use scheduling_group::{JobGroup, NamedGroup};
pub use shape::{SHAPES_MAX, Shape, ShapeInterner};
pub use suspension::{Suspension, SuspensionPhase};
pub use time::Time;
pub use unsupported::Unsupported;
pub use walltime::Lifetime;
