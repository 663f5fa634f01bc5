//! How many volumes of a driver a node attaches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::look::Mounts;
use super::{Volumes, claims_of};
use crate::cluster::Node;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::Disk;
use fluxqueue_workload::storage::{Attachable, Claim};

impl Volumes {
    /// Some node attaches only so many volumes of this driver.
    pub(super) fn is_limited(&self, volume: &Attachable) -> bool {
        self.csi_nodes.values().any(|node| node.limits.contains_key(&volume.driver))
    }

    /// What drivers attach for a pod. A claim that is not there (any more) counts for nothing.
    pub(super) fn attachables(&self, pod: &Pod) -> Vec<Attachable> {
        let claims = claims_of(pod).filter_map(|key| self.claims.get(&key));
        let disks = pod.shape.constraints.disks.iter().filter_map(Disk::attachable);
        claims.filter_map(|claim| self.attachable(claim)).chain(disks).collect()
    }

    /// What is attached for a claim: its volume, or the one that its class will make.
    fn attachable(&self, claim: &Claim) -> Option<Attachable> {
        match claim.volume.as_ref().and_then(|name| self.persistent.get(name)) {
            Some(volume) => volume.attachable.clone(),
            None => {
                let class = self.classes.get(&claim.wants.class)?;
                Some(Attachable::to_be_made(&class.provisioner, &claim.id.key))
            }
        }
    }

    /// With the pod's volumes the node would have more of some driver than it attaches.
    pub(super) fn exceeds_limit(&self, mounts: &Mounts, node: &Node) -> bool {
        let Some(csi) = self.csi_nodes.get(&node.name).filter(|csi| !csi.limits.is_empty()) else { return false };
        let wanted: BTreeSet<&Attachable> = mounts.attachables.iter().collect();
        if !wanted.iter().any(|volume| csi.limits.contains_key(&volume.driver)) {
            return false;
        }
        let mut there: BTreeSet<(Arc<str>, Arc<str>)> = BTreeSet::new();
        for uid in self.on_node.get(&node.name).into_iter().flatten().filter(|uid| *uid != mounts.uid()) {
            let Some(pod) = self.pods.get(uid) else { continue };
            there.extend(self.attachables(pod).into_iter().map(|volume| (volume.driver, volume.handle)));
        }
        let mut counts: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        let mut is_new =
            |volume: &&&Attachable| !there.contains(&(Arc::clone(&volume.driver), Arc::clone(&volume.handle)));
        let new: Vec<&Attachable> = wanted.iter().filter(&mut is_new).copied().collect();
        // What is attached and used by nobody counts too, also if the pod wants it: as kube-scheduler has it.
        there.extend(self.attached_to(&node.name));
        for (driver, _) in &there {
            *counts.entry(Arc::clone(driver)).or_default() += 1;
        }
        let mut more: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
        for volume in new {
            *more.entry(&volume.driver).or_default() += 1;
        }
        more.into_iter().any(|(driver, more)| {
            let there = counts.get(driver).copied().unwrap_or(0);
            csi.limits.get(driver).is_some_and(|limit| there + more > *limit)
        })
    }

    fn attached_to(&self, node: &str) -> Vec<(Arc<str>, Arc<str>)> {
        let attachments = self.attachments.get(node).into_iter().flat_map(BTreeMap::values);
        let volumes = attachments.filter_map(|attachment| {
            let volume = self.persistent.get(&attachment.volume)?;
            let csi = volume.attachable.as_ref().filter(|it| it.replaces.is_none())?;
            Some((Arc::clone(&attachment.driver), Arc::clone(&csi.handle)))
        });
        volumes.filter(|(driver, _)| !driver.is_empty()).collect()
    }
}
