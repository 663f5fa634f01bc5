//! Objects as they come over the wire, without the parts that nothing here reads.
//!
//! `metadata.managedFields` is often half of an object, and parsing it costs as much as the rest.
//! It is skipped while reading, so it is never built.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use fluxqueue_api::{FluxJob, FluxQueue};
use fluxqueue_workload::pod_group::{API_GROUP, GroupVersion};
use fluxqueue_workload::scheduling_group;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus,
    StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{
    Namespace, NamespaceSpec, NamespaceStatus, Node, NodeSpec, NodeStatus, PersistentVolume,
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
    PersistentVolumeSpec, PersistentVolumeStatus, Pod, PodSpec, PodStatus, ResourceQuota,
    ResourceQuotaSpec, ResourceQuotaStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// An object of which only metadata (without `managedFields`), `spec` and `status` were read.
#[derive(Debug, Clone)]
pub struct Lean<K>(pub K);

/// An object of ours with metadata that could be read, and other parts that perhaps cannot: people
/// can write to FluxJobs, and a CRD of another version may be installed.
#[derive(Debug, Clone)]
pub struct Loose<K> {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// The raw `spec`.
    pub spec: serde_json::Value,
    /// The raw `status`.
    pub status: serde_json::Value,
    kind: PhantomData<fn() -> K>,
}

/// A FluxJob, as far as it could be read.
pub type LooseFluxJob = Loose<FluxJob>;

/// A FluxQueue, as far as it could be read.
pub type LooseFluxQueue = Loose<FluxQueue>;

/// A PodGroup of any version, as far as it could be read.
pub type LoosePodGroup = Loose<PodGroupKind>;

/// A Workload of any version, as far as it could be read.
pub type LooseWorkload = Loose<WorkloadKind>;

/// An object made of metadata, spec and status.
pub trait Parts: Resource {
    /// The type of its spec.
    type Spec: DeserializeOwned;
    /// The type of its status.
    type Status: DeserializeOwned;

    /// Puts an object together.
    fn from_parts(
        metadata: ObjectMeta,
        spec: Option<Self::Spec>,
        status: Option<Self::Status>,
    ) -> Self;
}

#[derive(Deserialize)]
struct Raw<S, T> {
    #[serde(default)]
    metadata: LeanMeta,
    spec: Option<S>,
    status: Option<T>,
}

/// The fields of `ObjectMeta` that are read.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

// === impl LeanMeta ===

impl From<LeanMeta> for ObjectMeta {
    fn from(lean: LeanMeta) -> Self {
        ObjectMeta {
            name: lean.name,
            namespace: lean.namespace,
            uid: lean.uid,
            resource_version: lean.resource_version,
            generation: lean.generation,
            creation_timestamp: lean.creation_timestamp,
            deletion_timestamp: lean.deletion_timestamp,
            labels: lean.labels,
            annotations: lean.annotations,
            owner_references: lean.owner_references,
            ..ObjectMeta::default()
        }
    }
}

// === impl Lean ===

impl<'de, K: Parts> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::<K::Spec, K::Status>::deserialize(deserializer)?;
        Ok(Lean(K::from_parts(raw.metadata.into(), raw.spec, raw.status)))
    }
}

impl<'de, K> Deserialize<'de> for Loose<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::<serde_json::Value, serde_json::Value>::deserialize(deserializer)?;
        Ok(Loose {
            metadata: raw.metadata.into(),
            spec: raw.spec.unwrap_or_default(),
            status: raw.status.unwrap_or_default(),
            kind: PhantomData,
        })
    }
}

impl<K: Resource> Resource for Lean<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }
    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }
    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }
    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }
    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

// === impl Loose ===

impl<K: Resource> Resource for Loose<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }
    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }
    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }
    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

// === impl PodGroupKind, WorkloadKind ===

/// Kinds of which the version is known only when the API server has been asked.
macro_rules! kinds_of_any_version {
    ($($(#[$doc:meta])* $kind:ident $name:literal $plural:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $kind {}

        impl Resource for $kind {
            type DynamicType = GroupVersion;
            type Scope = NamespaceResourceScope;

            fn kind(_: &GroupVersion) -> Cow<'_, str> {
                $name.into()
            }
            fn group(_: &GroupVersion) -> Cow<'_, str> {
                API_GROUP.into()
            }
            fn version(version: &GroupVersion) -> Cow<'_, str> {
                version.as_str().into()
            }
            fn plural(_: &GroupVersion) -> Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                match *self {}
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                match *self {}
            }
        }
    )*};
}

kinds_of_any_version! {
    /// PodGroups: no value is of this type.
    PodGroupKind "PodGroup" "podgroups";
    /// Workloads: no value is of this type.
    WorkloadKind "Workload" "workloads";
}

// === impl Parts ===

macro_rules! parts {
    ($($kind:ident of $spec:ty, $status:ty $(: $required:ident)?;)*) => {
        $(impl Parts for $kind {
            type Spec = $spec;
            type Status = $status;

            fn from_parts(
                metadata: ObjectMeta,
                spec: Option<$spec>,
                status: Option<$status>,
            ) -> Self {
                // A spec that the API server requires, and yet is not there, is an empty one.
                $(let spec = spec.$required();)?
                Self { metadata, spec, status }
            }
        })*
    };
}

impl Parts for Pod {
    type Spec = PodSpecOfAnyVersion;
    type Status = PodStatus;

    fn from_parts(
        metadata: ObjectMeta,
        spec: Option<PodSpecOfAnyVersion>,
        status: Option<PodStatus>,
    ) -> Self {
        Self { metadata, spec: spec.map(PodSpec::from), status }
    }
}

/// A pod's spec, with what only Kubernetes 1.35 has in it.
#[derive(Debug, Deserialize)]
pub struct PodSpecOfAnyVersion {
    #[serde(rename = "workloadRef")]
    workload_ref: Option<NamedWorkload>,
    #[serde(flatten)]
    spec: PodSpec,
}

#[derive(Debug, Deserialize)]
struct NamedWorkload {
    #[serde(default)]
    name: String,
}

impl From<PodSpecOfAnyVersion> for PodSpec {
    fn from(PodSpecOfAnyVersion { workload_ref, mut spec }: PodSpecOfAnyVersion) -> Self {
        if let Some(workload) = workload_ref {
            spec.scheduling_group = Some(scheduling_group::of_workload_ref(&workload.name));
        }
        spec
    }
}

parts! {
    Namespace of NamespaceSpec, NamespaceStatus;
    ResourceQuota of ResourceQuotaSpec, ResourceQuotaStatus;
    Node of NodeSpec, NodeStatus;
    Job of JobSpec, JobStatus;
    ReplicaSet of ReplicaSetSpec, ReplicaSetStatus: unwrap_or_default;
    Deployment of DeploymentSpec, DeploymentStatus: unwrap_or_default;
    StatefulSet of StatefulSetSpec, StatefulSetStatus: unwrap_or_default;
    PersistentVolume of PersistentVolumeSpec, PersistentVolumeStatus;
    PersistentVolumeClaim of PersistentVolumeClaimSpec, PersistentVolumeClaimStatus;
}
