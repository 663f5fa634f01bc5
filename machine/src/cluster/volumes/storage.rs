//! The objects of storage as they are: claims, volumes, classes, and the facts of drivers about
//! nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::claims::{Disk, claims_of};
use crate::cluster::filters::{self, Rejection};
use crate::cluster::node::Node;
use fluxqueue_workload::constraints::{self, NodeSelectorTerm, Requirement};
use fluxqueue_workload::storage::{
    Attachable, Claim, CsiDriver, CsiNode, PersistentVolume, PodClaim, StorageCapacity,
    StorageClass, TakenOver, VolumeAttachment,
};
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Pod, Uid};

/// The provisioner of classes for which volumes are not made on demand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Labels that volumes have, and the newer ones that nodes may have in their place.
const RENAMED: [(&str, &str); 2] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// Something about storage has come, changed or gone.
#[derive(Debug, Clone)]
pub enum StorageNews {
    /// A claim is there, or has changed.
    Claim(Arc<Claim>),
    /// It is gone.
    ClaimGone(ObjectRef),
    /// A volume is there, or has changed.
    Volume(Arc<PersistentVolume>),
    /// The volume of this name and uid is gone.
    VolumeGone(Arc<str>, Uid),
    /// A class is there, or has changed.
    Class(Arc<StorageClass>),
    /// The class of this name is gone.
    ClassGone(Arc<str>),
    /// The drivers of a node are known, or others than before.
    CsiNode(Arc<CsiNode>),
    /// Nothing is known of them any more.
    CsiNodeGone(NodeName),
    /// A driver is there, or has changed.
    Driver(Arc<CsiDriver>),
    /// The driver of this name is gone.
    DriverGone(Arc<str>),
    /// How much can be made somewhere is known, or another amount than before.
    Capacity(Arc<StorageCapacity>),
    /// It is not known any more.
    CapacityGone(ObjectKey),
    /// A volume is attached to a node, or to be.
    Attachment(Arc<VolumeAttachment>),
    /// It is not any more.
    AttachmentGone(Arc<VolumeAttachment>),
    /// Nothing of all this may be read; why, for people.
    Hidden(Arc<str>),
}

/// All that is known of the objects of storage.
#[derive(Debug, Clone, Default)]
pub(super) struct Storage {
    /// Why nothing may be read.
    pub(super) hidden: Option<Arc<str>>,
    pub(super) claims: HashMap<ObjectKey, Arc<Claim>>,
    pub(super) persistent: BTreeMap<Arc<str>, Arc<PersistentVolume>>,
    /// Their names by class.
    pub(super) by_class: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    pub(super) classes: HashMap<Arc<str>, Arc<StorageClass>>,
    pub(super) csi_nodes: HashMap<NodeName, Arc<CsiNode>>,
    pub(super) drivers: HashMap<Arc<str>, Arc<CsiDriver>>,
    pub(super) capacities: BTreeMap<ObjectKey, Arc<StorageCapacity>>,
    pub(super) attachments: HashMap<NodeName, BTreeMap<Arc<str>, Arc<VolumeAttachment>>>,
}

/// A pod's claims are not such that it could be placed. More nodes would not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unready {
    /// kube-scheduler's words.
    pub said: String,
    /// The name of the claim.
    pub claim: Arc<str>,
    /// True if the words are a whole sentence about the nodes.
    pub is_whole: bool,
}

impl Storage {
    /// The claims for which volumes are to be made on a node, also on one that is gone.
    pub(super) fn claims_that_name_a_node(&self) -> impl Iterator<Item = &Arc<Claim>> {
        let names_one =
            |claim: &&Arc<Claim>| claim.selected_node.is_some() || claim.lost_node.is_some();
        self.claims.values().filter(|claim| !claim.is_bound).filter(names_one)
    }

    /// A claim as it is now, if it still is this one.
    pub(super) fn claim(&self, id: &ObjectRef) -> Option<&Arc<Claim>> {
        self.claims.get(&id.key).filter(|claim| claim.id.uid == id.uid)
    }

    pub(super) fn forget_volume(&mut self, name: &Arc<str>) {
        if let Some(old) = self.persistent.remove(name)
            && let Some(of_class) = self.by_class.get_mut(&old.offers.class)
        {
            of_class.remove(name);
            if of_class.is_empty() {
                self.by_class.remove(&old.offers.class);
            }
        }
    }

    /// The pod's claims, if each of them is such that the pod could be placed. In kube-scheduler's
    /// order: first VolumeRestrictions asks whether all are there, then VolumeBinding for their
    /// state, then VolumeZone for their volumes. The first and the last know nothing of claims that
    /// are made for the pod.
    pub(super) fn ready_claims(&self, pod: &Pod) -> Result<Vec<Arc<Claim>>, Unready> {
        if pod.claims.is_empty() {
            return Ok(Vec::new());
        }
        let unready = |claim: &Arc<str>, said: String| {
            Err(Unready { said, claim: Arc::clone(claim), is_whole: false })
        };
        if let Some(why) = &self.hidden {
            return unready(&pod.claims[0].name, why.to_string());
        }
        let mut claims = Vec::with_capacity(pod.claims.len());
        for (mounted, key) in pod.claims.iter().zip(claims_of(pod)) {
            let name = &mounted.name;
            match self.claims.get(&key) {
                Some(claim) => claims.push(Arc::clone(claim)),
                None if !mounted.is_ephemeral => {
                    return unready(name, format!("persistentvolumeclaim {name:?} not found"));
                }
                None => {}
            }
        }
        for (mounted, key) in pod.claims.iter().zip(claims_of(pod)) {
            let name = &mounted.name;
            let Some(claim) = self.claims.get(&key) else {
                let text =
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim";
                return unready(name, format!("{text} {name:?}"));
            };
            if claim.is_lost {
                let volume = claim.volume.as_deref().unwrap_or_default();
                let text = format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume \
                     {volume:?}"
                );
                return unready(name, text);
            }
            if claim.deleting {
                return unready(name, format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if mounted.is_ephemeral && claim.owner.as_ref() != Some(&pod.id.uid) {
                let text =
                    format!("PVC {key} was not created for pod {} (pod is not owner)", pod.id);
                return unready(name, text);
            }
        }
        if let Some(claim) =
            claims.iter().find(|claim| !claim.is_bound && !self.waits_for_pod(claim))
        {
            let text = "pod has unbound immediate PersistentVolumeClaims".to_owned();
            return unready(&claim.id.key.name, text);
        }
        let has_no_volume = |(mounted, claim): &(&PodClaim, &Arc<Claim>)| {
            let volume = claim.volume.as_ref().filter(|_| claim.is_bound && !mounted.is_ephemeral);
            volume.is_some_and(|volume| !self.persistent.contains_key(volume))
        };
        if let Some((_, claim)) = pod.claims.iter().zip(&claims).find(has_no_volume) {
            let volume = claim.volume.as_deref().unwrap_or_default();
            return unready(&claim.id.key.name, format!("persistentvolume {volume:?} not found"));
        }
        Ok(claims)
    }

    /// True if its volume is found or made once a pod needs it. One that names its volume itself is
    /// the controller's matter.
    fn waits_for_pod(&self, claim: &Claim) -> bool {
        claim.volume.is_none()
            && self.classes.get(&claim.wants.class).is_some_and(|class| class.waits_for_pod)
    }

    /// The claims that the pod names and one pod at a time may use.
    pub(super) fn for_one_pod(&self, pod: &Pod) -> impl Iterator<Item = ObjectKey> {
        let named =
            pod.claims.iter().zip(claims_of(pod)).filter(|(mounted, _)| !mounted.is_ephemeral);
        let named = named.map(|(_, key)| key);
        named.filter(|key| self.claims.get(key).is_some_and(|claim| claim.is_for_one_pod()))
    }

    /// The pod's claims that are bound to volumes which not all nodes can use, with these volumes.
    pub(super) fn tied(&self, pod: &Pod) -> Vec<(ObjectKey, Arc<PersistentVolume>)> {
        let claims =
            claims_of(pod).filter_map(|key| self.claims.get(&key)).filter(|claim| claim.is_bound);
        let with_volume = claims.filter_map(|claim| {
            let volume = self.persistent.get(claim.volume.as_ref()?)?;
            Some((claim.id.key.clone(), Arc::clone(volume)))
        });
        with_volume.filter(|(_, volume)| !volume.is_everywhere()).collect()
    }

    /// True if the bound volume can be used on the node. Where a driver has taken over from its
    /// plugin, the driver's labels decide; for a volume that is still to be bound its own fields
    /// do, as in kube-scheduler.
    pub(super) fn reaches_bound(&self, volume: &PersistentVolume, node: &Node) -> bool {
        let there = self.csi_nodes.get(&node.name);
        let is_there =
            |it: &&TakenOver| there.is_some_and(|there| there.taken_over.contains(it.plugin));
        match volume.taken_over.as_ref().filter(is_there) {
            Some(it) => is_met(it.affinity.as_deref(), node),
            None => reaches(volume, node),
        }
    }

    /// True if the node is where the volume, which is bound, can be used.
    pub(super) fn can_use(&self, volume: &PersistentVolume, node: &Node) -> bool {
        self.reaches_bound(volume, node) && is_in_zone(volume, node)
    }

    /// True if a provisioner makes volumes of its class.
    pub(super) fn is_made(&self, claim: &Claim) -> bool {
        let class = self.classes.get(&claim.wants.class);
        class.is_some_and(|class| {
            !class.provisioner.is_empty() && &*class.provisioner != NO_PROVISIONER
        })
    }

    /// True if the claim's class lets volumes be made that are of use on the node.
    pub(super) fn is_allowed(&self, claim: &Claim, node: &Node) -> bool {
        self.classes.get(&claim.wants.class).is_some_and(|class| allows(class, node))
    }

    /// True if the driver that makes volumes of the class says how large they can be, and where.
    pub(super) fn tells_capacity(&self, class: &StorageClass) -> bool {
        self.drivers.get(&class.provisioner).is_some_and(|driver| driver.tells_capacity)
    }

    /// A volume for the claim can be made that is of use on the node, as far as its class and its
    /// driver say.
    pub(super) fn can_make(&self, claim: &Claim, node: &Node) -> Result<(), Rejection> {
        let class = self.classes.get(&claim.wants.class).ok_or(Rejection::NoVolume)?;
        if !self.is_made(claim) || !allows(class, node) {
            return Err(Rejection::NoVolume);
        }
        // A driver that publishes no capacity counts as large enough, as any does without a size.
        let Some(bytes) = claim.wants.bytes.filter(|_| self.tells_capacity(class)) else {
            return Ok(());
        };
        let mut capacities =
            self.capacities.values().filter(|capacity| capacity.class == class.name);
        let is_enough = capacities.any(|capacity| {
            capacity.bytes.is_some_and(|largest| largest >= bytes)
                && capacity.nodes.as_ref().is_some_and(|nodes| all_match(nodes, node))
        });
        if is_enough { Ok(()) } else { Err(Rejection::TooLittleStorage) }
    }

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

    pub(super) fn attached_to(&self, node: &str) -> Vec<Disk> {
        let attachments = self.attachments.get(node).into_iter().flat_map(BTreeMap::values);
        attachments.filter_map(|attachment| attached(attachment, &self.persistent)).collect()
    }

    /// Detaches these disks.
    pub(super) fn detach(&mut self, disks: &HashMap<NodeName, BTreeSet<Disk>>) {
        for (node, disks) in disks {
            if let Some(there) = self.attachments.get_mut(node) {
                there.retain(|_, known| {
                    !attached(known, &self.persistent).is_some_and(|disk| disks.contains(&disk))
                });
            }
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

/// A term without requirements matches nothing.
fn allows(class: &StorageClass, node: &Node) -> bool {
    let terms = &class.allowed_topologies;
    terms.is_empty() || terms.iter().any(|term| !term.is_empty() && all_match(term, node))
}

fn all_match(requirements: &[Requirement], node: &Node) -> bool {
    requirements.iter().all(|requirement| requirement.matches(node.label(&requirement.key)))
}

/// A node without any zone or region is in all of them: the cluster has but one.
pub(super) fn is_in_zone(volume: &PersistentVolume, node: &Node) -> bool {
    let has_zones =
        RENAMED.iter().any(|(old, new)| node.label(old).is_some() || node.label(new).is_some());
    !has_zones
        || volume.zones.iter().all(|(label, zones)| {
            let renamed = RENAMED.iter().find(|(old, _)| **old == **label).map(|(_, new)| *new);
            let zone = node.label(label).or_else(|| node.label(renamed?));
            zone.is_some_and(|zone| zones.contains(zone))
        })
}

/// True if the volume can be used on the node, by the node's labels: neither kube-scheduler nor
/// kubelets look at its name.
pub(super) fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    is_met(volume.affinity.as_deref(), node)
}

fn is_met(affinity: Option<&[NodeSelectorTerm]>, node: &Node) -> bool {
    affinity.is_none_or(|terms| terms.iter().any(|term| filters::meets_by_labels(node, term)))
}
