//! The claims of a pod, and disks as drivers know them.

use std::sync::Arc;

use fluxqueue_workload::storage::Attachable;
use fluxqueue_workload::{ObjectKey, Pod};

/// A driver, and the name by which it knows a volume.
pub(super) type Disk = (Arc<str>, Arc<str>);

/// The claims of a pod, by the names under which they are found.
pub(super) fn claims_of(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    pod.claims
        .iter()
        .map(|claim| ObjectKey::new(Arc::clone(&pod.id.key.namespace), Arc::clone(&claim.name)))
}

/// True if its volumes matter here.
pub fn concern(pod: &Pod) -> bool {
    !pod.claims.is_empty() || pod.shape.constraints.has_attachable_disks()
}

/// Returns the identity of a disk, which is the same whether a plugin or the driver that has
/// replaced it names the disk.
pub(super) fn disk_of(volume: &Attachable) -> Disk {
    (Arc::clone(&volume.driver), Arc::clone(&volume.handle))
}
