//! How many volumes of a driver a node attaches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::look::Mounts;
use super::{Volumes, claims_of};
use crate::cluster::Node;
use crate::cluster::neighbours::Presence;
use fluxqueue_workload::constraints;
use fluxqueue_workload::storage::{Attachable, Claim, PersistentVolume, VolumeAttachment};
use fluxqueue_workload::{NodeName, Pod, Uid};

/// A driver, and the name by which it knows a volume.
pub(super) type Disk = (Arc<str>, Arc<str>);

impl Volumes {
    /// True if some node attaches a limited number of volumes of this driver.
    pub(super) fn is_limited(&self, volume: &Attachable) -> bool {
        self.csi_nodes.values().any(|node| node.limits.contains_key(&volume.driver))
    }

    /// What drivers attach for a pod. A claim that is not there (any more) counts for nothing.
    pub(super) fn attachables(&self, pod: &Pod) -> Vec<Attachable> {
        let claims = claims_of(pod).filter_map(|key| self.claims.get(&key));
        let disks = pod.shape.constraints.disks.iter().filter_map(constraints::Disk::attachable);
        claims.filter_map(|claim| self.attachable(claim)).chain(disks).collect()
    }

    /// Returns the volume that is attached for a claim: its own, or the one that its class will
    /// make.
    fn attachable(&self, claim: &Claim) -> Option<Attachable> {
        match claim.volume.as_ref().and_then(|name| self.persistent.get(name)) {
            Some(volume) => volume.attachable.clone(),
            None => {
                let class = self.classes.get(&claim.wants.class)?;
                Some(Attachable::to_be_made(&class.provisioner, &claim.id.key))
            }
        }
    }

    /// True if with the pod's volumes the node would have more of some driver than it attaches: by
    /// kube-scheduler's first look, where nominated pods count on their node.
    pub(super) fn exceeds_limit(&self, mounts: &Mounts, node: &Node) -> bool {
        !mounts.attachables.is_empty() && self.exceeds(mounts, node, true)
    }

    /// The same by its second look, where they do not: a disk that they would share is the pod's
    /// alone then.
    pub(super) fn exceeds_limit_alone(&self, mounts: &Mounts, node: &Node) -> bool {
        if mounts.attachables.is_empty() {
            return false;
        }
        let mut there = self.on_node.get(&node.name).into_iter().flatten();
        let is_any_nominated = there.any(|uid| self.presence(uid) == Some(Presence::Nominated));
        is_any_nominated && self.exceeds(mounts, node, false)
    }

    fn exceeds(&self, mounts: &Mounts, node: &Node, with_nominated: bool) -> bool {
        let Some(csi) = self.csi_nodes.get(&node.name).filter(|csi| !csi.limits.is_empty()) else {
            return false;
        };
        let mut new: BTreeSet<Disk> = mounts.attachables.iter().map(disk_of).collect();
        if !new.iter().any(|(driver, _)| csi.limits.contains_key(driver)) {
            return false;
        }
        let mut there: BTreeSet<Disk> = BTreeSet::new();
        for uid in
            self.on_node.get(&node.name).into_iter().flatten().filter(|uid| *uid != mounts.uid())
        {
            let counts = with_nominated || self.presence(uid) == Some(Presence::There);
            let Some(pod) = self.pods.get(uid).filter(|_| counts) else { continue };
            there.extend(self.attachables(pod).iter().map(disk_of));
        }
        new.retain(|disk| !there.contains(disk));
        // Attached volumes that no pod uses count too, also if the pod wants them: as in
        // kube-scheduler.
        there.extend(self.attached_to(&node.name));
        let count = |disks: &BTreeSet<Disk>, driver: &str| {
            disks.iter().filter(|(of, _)| &**of == driver).count() as u64
        };
        csi.limits.iter().any(|(driver, limit)| {
            let more = count(&new, driver);
            more > 0 && count(&there, driver) + more > *limit
        })
    }

    fn attached_to(&self, node: &str) -> Vec<Disk> {
        let attachments = self.attachments.get(node).into_iter().flat_map(BTreeMap::values);
        attachments.filter_map(|attachment| attached(attachment, &self.persistent)).collect()
    }

    /// What drivers attach for a pod, as disks.
    pub(super) fn disks_of(&self, uid: &Uid) -> Vec<Disk> {
        self.pods
            .get(uid)
            .map_or_else(Vec::new, |pod| self.attachables(pod).iter().map(disk_of).collect())
    }

    /// Detaches these disks.
    pub(super) fn detach(&mut self, disks: &HashMap<NodeName, BTreeSet<Disk>>) {
        for (node, disks) in disks {
            let Some(there) = self.attachments.get_mut(node) else { continue };
            there.retain(|_, known| {
                !attached(known, &self.persistent).is_some_and(|disk| disks.contains(&disk))
            });
        }
    }
}

/// The volume that this is about, if its driver counts it.
fn attached(
    attachment: &VolumeAttachment,
    volumes: &BTreeMap<Arc<str>, Arc<PersistentVolume>>,
) -> Option<Disk> {
    let csi =
        volumes.get(&attachment.volume)?.attachable.as_ref().filter(|it| it.replaces.is_none())?;
    (!attachment.driver.is_empty())
        .then(|| (Arc::clone(&attachment.driver), Arc::clone(&csi.handle)))
}

/// Returns the identity of a disk, which is the same whether a plugin or the driver that has
/// replaced it names the disk.
fn disk_of(volume: &Attachable) -> Disk {
    (Arc::clone(&volume.driver), Arc::clone(&volume.handle))
}
