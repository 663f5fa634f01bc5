//! The objects of storage, as placement sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::replaced::{Attachable, TakenOver};
use crate::constraints::terms::{NodeSelectorTerm, Requirement};
use crate::ids::{NodeName, Uid};
use crate::metadata;
use crate::object::{ObjectKey, ObjectRef};

/// Annotation of a claim: the node for which its volume is to be made. The scheduler sets it, a
/// provisioner that gives up removes it.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Annotation of a volume: its claimRef was set by a controller, and not by a person.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// A claim that a pod mounts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodClaim {
    /// The claim's name, in the pod's namespace.
    pub name: Arc<str>,
    /// True if it is made for this pod, from a template in the pod.
    pub is_ephemeral: bool,
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Its identity.
    pub id: ObjectRef,
    /// `metadata.resourceVersion`, while it is not bound: writes to the claim name this version.
    pub resource_version: Option<Arc<str>>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The controller of it: a pod, of a claim that is made for one.
    pub owner: Option<Uid>,
    /// `spec.volumeName`, if it has one.
    pub volume: Option<Arc<str>>,
    /// True if the controller has bound it, from both sides.
    pub is_bound: bool,
    /// True if `status.phase` is Lost: its volume is gone.
    pub is_lost: bool,
    /// The node for which its volume is to be made.
    pub selected_node: Option<NodeName>,
    /// The node that it names for that, if the cluster has no such node: then `selected_node` is
    /// `None`.
    pub lost_node: Option<NodeName>,
    /// The volume that it wants.
    pub wants: VolumeWants,
}

impl Claim {
    /// Returns the claim as it counts in a cluster with the nodes for which `is_there` is true. A
    /// claim without a volume that names a missing node may get another one: no provisioner makes a
    /// volume for a node that it cannot read.
    #[must_use]
    pub fn among(self: &Arc<Self>, is_there: impl Fn(&NodeName) -> bool) -> Arc<Self> {
        let named = self.selected_node.as_ref().or(self.lost_node.as_ref());
        let is_lost = named.is_some_and(|node| !self.is_bound && !is_there(node));
        if is_lost == self.lost_node.is_some() {
            return Arc::clone(self);
        }
        let mut claim = Claim::clone(self);
        std::mem::swap(&mut claim.selected_node, &mut claim.lost_node);
        Arc::new(claim)
    }
}

/// The properties of a volume that a claim wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeWants {
    /// The StorageClass, "" for none.
    pub class: Arc<str>,
    /// `spec.resources.requests.storage` in bytes, if present.
    pub bytes: Option<u64>,
    /// `spec.accessModes`.
    pub access_modes: Vec<Arc<str>>,
    /// True if `spec.volumeMode` is Block.
    pub is_block: bool,
    /// `spec.volumeAttributesClassName`, "" for none.
    pub attributes_class: Arc<str>,
    /// `spec.selector`: labels that the volume must have.
    pub selector: Option<Vec<Requirement>>,
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq)]
pub struct PersistentVolume {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.uid`
    pub uid: Uid,
    /// `metadata.resourceVersion`, while it is not bound.
    pub resource_version: Option<Arc<str>>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.labels`, sorted by key.
    pub labels: metadata::Labels,
    /// The properties that it offers: class, bytes, access modes and mode. It has no selector.
    pub offers: VolumeWants,
    /// `spec.claimRef`
    pub claim: Option<ClaimRef>,
    /// True if `status.phase` is Available.
    pub is_available: bool,
    /// `spec.nodeAffinity.required`; `None`: every node.
    pub affinity: Option<Vec<NodeSelectorTerm>>,
    /// Its zone labels, each with the values that it stands for.
    pub zones: Vec<(Arc<str>, BTreeSet<Arc<str>>)>,
    /// The attachment by which it counts against the limits of nodes.
    pub attachable: Option<Attachable>,
    /// Present if it is of a plugin that a driver has replaced: the nodes on which it can be used,
    /// of those where the driver has taken over.
    pub taken_over: Option<TakenOver>,
}

/// The claim that a volume belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRef {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The claim's uid, if it is known: a person who pre-binds a volume may leave it out.
    pub uid: Option<Uid>,
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageClass {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.uid`
    pub uid: Uid,
    /// True if `volumeBindingMode` is WaitForFirstConsumer.
    pub waits_for_pod: bool,
    /// `provisioner`
    pub provisioner: Arc<str>,
    /// `allowedTopologies`: one of them must match; none at all allows every node.
    pub allowed_topologies: Vec<Vec<Requirement>>,
}

/// A CSINode: the drivers of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct CsiNode {
    /// `metadata.name`, the node's.
    pub node: NodeName,
    /// `metadata.uid`
    pub uid: Uid,
    /// The most volumes that each driver attaches; drivers without a limit are left out.
    pub limits: BTreeMap<Arc<str>, u64>,
    /// The plugins from which drivers have taken over there.
    pub taken_over: BTreeSet<Arc<str>>,
}

/// A CSIDriver.
#[derive(Debug, Clone, PartialEq)]
pub struct CsiDriver {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.uid`
    pub uid: Uid,
    /// True if it publishes the remaining capacity (`spec.storageCapacity`).
    pub tells_capacity: bool,
}

/// A CSIStorageCapacity.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageCapacity {
    /// Its identity.
    pub id: ObjectRef,
    /// `storageClassName`
    pub class: Arc<str>,
    /// The largest volume that can be made: `maximumVolumeSize`, else `capacity`.
    pub bytes: Option<u64>,
    /// `nodeTopology`: the nodes that it is for; `None`: no node.
    pub nodes: Option<Vec<Requirement>>,
}

/// A VolumeAttachment.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeAttachment {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.uid`
    pub uid: Uid,
    /// `spec.nodeName`
    pub node: NodeName,
    /// `spec.attacher`: the driver.
    pub driver: Arc<str>,
    /// `spec.source.persistentVolumeName`
    pub volume: Arc<str>,
}

impl Claim {
    /// True if only one pod may use it at a time.
    pub fn is_for_one_pod(&self) -> bool {
        self.wants.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }
}

impl PersistentVolume {
    /// True if every node can use it.
    pub fn is_everywhere(&self) -> bool {
        let taken_over = self.taken_over.as_ref().and_then(|it| it.affinity.as_ref());
        self.affinity.is_none() && taken_over.is_none() && self.zones.is_empty()
    }

    /// True if it is bound to this claim, or meant for it.
    pub fn is_of(&self, claim: &ObjectRef) -> bool {
        self.claim.as_ref().is_some_and(|own| {
            own.key == claim.key && own.uid.as_ref().is_none_or(|uid| *uid == claim.uid)
        })
    }
}
