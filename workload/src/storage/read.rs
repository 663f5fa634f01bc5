//! Reads claims, volumes and the objects around them. This is pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_api::text;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::storage::v1 as storage_v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

use super::objects::{
    Claim, ClaimRef, CsiDriver, CsiNode, PersistentVolume, PodClaim, SELECTED_NODE,
    StorageCapacity, StorageClass, VolumeAttachment, VolumeWants,
};
use super::replaced::{self, Attachable, TakenOver, ZONES_BETWEEN};
use crate::constraints::read::{node_terms, selector};
use crate::constraints::terms::{Operator, Requirement};
use crate::ids::NodeName;
use crate::metadata::{self, InvalidObject, annotation};
use crate::object::ObjectKey;
use crate::quantity;

/// Annotation of a CSINode: the plugins from which drivers have taken over there.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The annotation by which a class was named before there was a field for it. It still precedes the
/// field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Labels that bind a volume to a zone or region.
const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Returns the claims that a pod mounts.
pub(crate) fn claims_of(spec: &core_v1::PodSpec, pod: &str) -> Vec<PodClaim> {
    let claim =
        |volume: &core_v1::Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => {
                Some(PodClaim { name: claim.claim_name.as_str().into(), is_ephemeral: false })
            }
            (None, Some(_)) => {
                Some(PodClaim { name: format!("{pod}-{}", volume.name).into(), is_ephemeral: true })
            }
            (None, None) => None,
        };
    spec.volumes.iter().flatten().filter_map(claim).collect()
}

impl Claim {
    /// Reads a claim.
    pub fn from_kubernetes(claim: &core_v1::PersistentVolumeClaim) -> Result<Self, InvalidObject> {
        let meta = &claim.metadata;
        let spec = claim.spec.clone().unwrap_or_default();
        let volume = name(spec.volume_name.as_ref());
        let is_bound = volume.is_some() && annotation(meta, BIND_COMPLETED).is_some();
        Ok(Claim {
            id: metadata::object_ref("PersistentVolumeClaim", meta)?,
            resource_version: meta.resource_version.as_deref().filter(|_| !is_bound).map(Arc::from),
            deleting: meta.deletion_timestamp.is_some(),
            owner: metadata::owner(meta)
                .filter(|owner| owner.kind.as_str() == "Pod")
                .map(|owner| owner.uid),
            volume,
            is_bound,
            is_lost: claim.status.as_ref().and_then(|status| status.phase.as_deref())
                == Some("Lost"),
            selected_node: annotation(meta, SELECTED_NODE)
                .map(|node| NodeName::from(&*text::name(node))),
            lost_node: None,
            wants: VolumeWants {
                class: class(meta, spec.storage_class_name.as_ref()),
                bytes: storage(
                    spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()),
                ),
                access_modes: texts(spec.access_modes.as_ref()),
                is_block: spec.volume_mode.as_deref() == Some("Block"),
                attributes_class: spec.volume_attributes_class_name.unwrap_or_default().into(),
                selector: spec.selector.as_ref().map(selector),
            },
        })
    }
}

impl PersistentVolume {
    /// Reads a volume.
    pub fn from_kubernetes(volume: &core_v1::PersistentVolume) -> Result<Self, InvalidObject> {
        let meta = &volume.metadata;
        let (name, uid) = metadata::name_and_uid("PersistentVolume", meta)?;
        let spec = volume.spec.clone().unwrap_or_default();
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let affinity = required.map(|selector| node_terms(&selector.node_selector_terms));
        let labels: metadata::Labels = metadata::sorted(meta.labels.as_ref()).collect();
        let attachable = attachable(&spec, &labels);
        let plugin = attachable.as_ref().and_then(|attachable| attachable.replaces);
        let taken_over =
            plugin.and_then(|plugin| TakenOver::of(plugin, affinity.as_deref(), &labels));
        Ok(PersistentVolume {
            name,
            uid,
            resource_version: meta
                .resource_version
                .as_deref()
                .filter(|_| phase != Some("Bound"))
                .map(Arc::from),
            deleting: meta.deletion_timestamp.is_some(),
            labels,
            offers: VolumeWants {
                class: class(meta, spec.storage_class_name.as_ref()),
                bytes: storage(spec.capacity.as_ref()),
                access_modes: texts(spec.access_modes.as_ref()),
                is_block: spec.volume_mode.as_deref() == Some("Block"),
                attributes_class: spec
                    .volume_attributes_class_name
                    .clone()
                    .unwrap_or_default()
                    .into(),
                selector: None,
            },
            claim: spec.claim_ref.as_ref().map(|claim| ClaimRef {
                key: ObjectKey::new(
                    claim.namespace.clone().unwrap_or_default(),
                    claim.name.clone().unwrap_or_default(),
                ),
                uid: claim.uid.as_deref().filter(|uid| !uid.is_empty()).map(Into::into),
            }),
            is_available: phase == Some("Available"),
            affinity,
            zones: zones(meta),
            attachable,
            taken_over,
        })
    }
}

impl StorageClass {
    /// Reads a class.
    pub fn from_kubernetes(class: &storage_v1::StorageClass) -> Result<Self, InvalidObject> {
        let (name, uid) = metadata::name_and_uid("StorageClass", &class.metadata)?;
        let term = |term: &core_v1::TopologySelectorTerm| -> Vec<Requirement> {
            let requirement = |one: &core_v1::TopologySelectorLabelRequirement| Requirement {
                key: one.key.as_str().into(),
                operator: Operator::In,
                values: one.values.iter().map(|value| value.as_str().into()).collect(),
            };
            term.match_label_expressions.iter().flatten().map(requirement).collect()
        };
        Ok(StorageClass {
            name,
            uid,
            waits_for_pod: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            provisioner: class.provisioner.as_str().into(),
            allowed_topologies: class.allowed_topologies.iter().flatten().map(term).collect(),
        })
    }
}

impl CsiNode {
    /// Reads the drivers of a node.
    pub fn from_kubernetes(node: &storage_v1::CSINode) -> Result<Self, InvalidObject> {
        let (name, uid) = metadata::name_and_uid("CSINode", &node.metadata)?;
        let limit = |driver: &storage_v1::CSINodeDriver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((Arc::from(driver.name.as_str()), u64::try_from(count).unwrap_or(0)))
        };
        let migrated = annotation(&node.metadata, MIGRATED_PLUGINS).unwrap_or_default();
        Ok(CsiNode {
            node: (&*name).into(),
            uid,
            limits: node.spec.drivers.iter().filter_map(limit).collect(),
            taken_over: migrated
                .split(',')
                .filter(|plugin| !plugin.is_empty())
                .map(Arc::from)
                .collect(),
        })
    }
}

impl CsiDriver {
    /// Reads a driver.
    pub fn from_kubernetes(driver: &storage_v1::CSIDriver) -> Result<Self, InvalidObject> {
        let (name, uid) = metadata::name_and_uid("CSIDriver", &driver.metadata)?;
        Ok(CsiDriver { name, uid, tells_capacity: driver.spec.storage_capacity == Some(true) })
    }
}

impl StorageCapacity {
    /// Reads the capacity of some nodes.
    pub fn from_kubernetes(
        capacity: &storage_v1::CSIStorageCapacity,
    ) -> Result<Self, InvalidObject> {
        let largest = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        Ok(StorageCapacity {
            id: metadata::object_ref("CSIStorageCapacity", &capacity.metadata)?,
            class: capacity.storage_class_name.as_str().into(),
            bytes: largest.map(bytes),
            nodes: capacity.node_topology.as_ref().map(selector),
        })
    }
}

impl VolumeAttachment {
    /// Reads an attachment of a volume, present or to come.
    pub fn from_kubernetes(
        attachment: &storage_v1::VolumeAttachment,
    ) -> Result<Self, InvalidObject> {
        let (name, uid) = metadata::name_and_uid("VolumeAttachment", &attachment.metadata)?;
        let spec = &attachment.spec;
        Ok(VolumeAttachment {
            name,
            uid,
            node: spec.node_name.as_str().into(),
            driver: spec.attacher.as_str().into(),
            volume: spec.source.persistent_volume_name.as_deref().unwrap_or_default().into(),
        })
    }
}

fn name(text: Option<&String>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| text.as_str().into())
}

fn texts(texts: Option<&Vec<String>>) -> Vec<Arc<str>> {
    texts.into_iter().flatten().map(|text| text.as_str().into()).collect()
}

fn class(meta: &ObjectMeta, field: Option<&String>) -> Arc<str> {
    annotation(meta, CLASS_ANNOTATION).or(field.map(String::as_str)).unwrap_or_default().into()
}

fn storage(amounts: Option<&BTreeMap<String, Quantity>>) -> Option<u64> {
    amounts?.get("storage").map(bytes)
}

/// Reads an amount in bytes. An unreadable one is larger than anything: the API server stores no
/// such amount.
fn bytes(amount: &Quantity) -> u64 {
    quantity::value(&amount.0).unwrap_or(u64::MAX)
}

/// Reads the zone labels. A label with an empty zone does not count.
fn zones(meta: &ObjectMeta) -> Vec<(Arc<str>, BTreeSet<Arc<str>>)> {
    let labels = meta.labels.as_ref();
    let zones = |label: &&'static str| {
        let value = labels?.get(*label)?;
        let zones: BTreeSet<Arc<str>> =
            value.split(ZONES_BETWEEN).map(|zone| Arc::from(zone.trim())).collect();
        (!zones.contains("")).then(|| (Arc::from(*label), zones))
    };
    ZONE_LABELS.iter().filter_map(zones).collect()
}

fn attachable(
    spec: &core_v1::PersistentVolumeSpec,
    labels: &metadata::Labels,
) -> Option<Attachable> {
    if let Some(csi) = &spec.csi {
        let (driver, handle) = (csi.driver.as_str().into(), csi.volume_handle.as_str().into());
        return Some(Attachable { driver, handle, replaces: None });
    }
    if let Some(disk) = &spec.aws_elastic_block_store {
        return Attachable::of_aws(&disk.volume_id);
    }
    if let Some(disk) = &spec.gce_persistent_disk {
        return Attachable::of_gce(&disk.pd_name, labels);
    }
    let sources = [
        (replaced::AZURE_DISK, spec.azure_disk.as_ref().map(|disk| &disk.disk_uri)),
        (replaced::CINDER, spec.cinder.as_ref().map(|disk| &disk.volume_id)),
        (replaced::PORTWORX, spec.portworx_volume.as_ref().map(|disk| &disk.volume_id)),
    ];
    let (plugin, id) = sources.into_iter().find_map(|(plugin, id)| Some((plugin, id?)))?;
    Attachable::of_plugin(plugin, id)
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
