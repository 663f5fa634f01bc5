//! Claims, volumes, storage classes, and the facts about drivers on nodes; as with pods, only the
//! fields that placement depends on.

mod objects;
mod read;
pub(crate) mod replaced;

pub use objects::{
    BOUND_BY_CONTROLLER, Claim, ClaimRef, CsiDriver, CsiNode, PersistentVolume, PodClaim,
    SELECTED_NODE, StorageCapacity, StorageClass, VolumeAttachment, VolumeWants,
};
pub(crate) use read::claims_of;
pub use replaced::{Attachable, TakenOver};
