//! How many volumes of a driver a node attaches.

use std::collections::BTreeSet;

use super::claims::{Disk, disk_of};
use super::known::Known;
use crate::cluster::node::Node;
use crate::cluster::presence::Presence;
use fluxqueue_workload::Uid;
use fluxqueue_workload::storage::Attachable;

/// True if with the pod's volumes the node would have more of some driver than it attaches: by
/// kube-scheduler's first look, where nominated pods count on their node.
pub(super) fn exceeds_limit(
    known: Known<'_>,
    (uid, attachables): (&Uid, &[Attachable]),
    node: &Node,
) -> bool {
    !attachables.is_empty() && exceeds(known, (uid, attachables), node, true)
}

/// The same by its second look, where they do not: a disk that they would share is the pod's
/// alone then.
pub(super) fn exceeds_limit_alone(
    known: Known<'_>,
    (uid, attachables): (&Uid, &[Attachable]),
    node: &Node,
) -> bool {
    if attachables.is_empty() {
        return false;
    }
    let mut there = known.users.on_node(&node.name);
    let is_any_nominated = there.any(|uid| known.users.presence(uid) == Some(Presence::Nominated));
    is_any_nominated && exceeds(known, (uid, attachables), node, false)
}

fn exceeds(
    known: Known<'_>,
    (uid, attachables): (&Uid, &[Attachable]),
    node: &Node,
    with_nominated: bool,
) -> bool {
    let Some(csi) = known.storage.csi_nodes.get(&node.name).filter(|csi| !csi.limits.is_empty())
    else {
        return false;
    };
    let mut new: BTreeSet<Disk> = attachables.iter().map(disk_of).collect();
    if !new.iter().any(|(driver, _)| csi.limits.contains_key(driver)) {
        return false;
    }
    let mut there: BTreeSet<Disk> = BTreeSet::new();
    let others = known.users.on_node(&node.name).filter(|other| *other != uid);
    let counts = |uid: &&Uid| with_nominated || known.users.presence(uid) == Some(Presence::There);
    for pod in others.filter(counts).filter_map(|uid| known.users.pods.get(uid)) {
        there.extend(known.storage.attachables(pod).iter().map(disk_of));
    }
    new.retain(|disk| !there.contains(disk));
    // Attached volumes that no pod uses count too, also if the pod wants them: as in
    // kube-scheduler.
    there.extend(known.storage.attached_to(&node.name));
    let count = |disks: &BTreeSet<Disk>, driver: &str| {
        disks.iter().filter(|(of, _)| &**of == driver).count() as u64
    };
    csi.limits.iter().any(|(driver, limit)| {
        let more = count(&new, driver);
        more > 0 && count(&there, driver) + more > *limit
    })
}

/// What drivers attach for a pod, as disks.
pub(super) fn disks_of(known: Known<'_>, uid: &Uid) -> Vec<Disk> {
    known
        .users
        .pods
        .get(uid)
        .map_or_else(Vec::new, |pod| known.storage.attachables(pod).iter().map(disk_of).collect())
}
