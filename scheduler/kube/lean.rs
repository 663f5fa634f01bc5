//! Objects as they come over the wire, without what nobody here reads.
//!
//! `metadata.managedFields` is often half of an object, and parsing it costs as much as the rest. It is skipped while
//! reading, so it is never built.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fluxqueue_api::FluxJob;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// An object of which everything but `metadata.managedFields`, `spec` and `status` was skipped while reading it.
#[derive(Debug, Clone)]
pub struct Lean<K>(pub K);

/// A FluxJob whose metadata could be read, and the rest perhaps not: people can write to FluxJobs, and a CRD of another
/// version may be installed.
#[derive(Debug, Clone)]
pub struct LooseFluxJob {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// `spec` as it is.
    pub spec: serde_json::Value,
    /// `status` as it is.
    pub status: serde_json::Value,
}

/// An object made of metadata, spec and status.
pub trait Parts: Resource {
    /// Its spec.
    type Spec: DeserializeOwned;
    /// Its status.
    type Status: DeserializeOwned;

    /// Puts it together.
    fn from_parts(metadata: ObjectMeta, spec: Option<Self::Spec>, status: Option<Self::Status>) -> Self;
}

#[derive(Deserialize)]
struct Raw<S, T> {
    #[serde(default)]
    metadata: LeanMeta,
    // `default` would ask for it of S and T as well.
    #[serde(default = "Option::default")]
    spec: Option<S>,
    #[serde(default = "Option::default")]
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

impl<'de> Deserialize<'de> for LooseFluxJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::<serde_json::Value, serde_json::Value>::deserialize(deserializer)?;
        Ok(LooseFluxJob {
            metadata: raw.metadata.into(),
            spec: raw.spec.unwrap_or_default(),
            status: raw.status.unwrap_or_default(),
        })
    }
}

/// A wrapper is a resource of the kind it wraps.
macro_rules! resource_like {
    ([$($generics:tt)*] $wrapper:ty, $kind:ty, $meta:expr, $meta_mut:expr) => {
        impl<$($generics)*> Resource for $wrapper {
            type DynamicType = <$kind as Resource>::DynamicType;
            type Scope = <$kind as Resource>::Scope;

            fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
                <$kind>::kind(dt)
            }
            fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
                <$kind>::group(dt)
            }
            fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
                <$kind>::version(dt)
            }
            fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
                <$kind>::plural(dt)
            }
            fn meta(&self) -> &ObjectMeta {
                $meta(self)
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                $meta_mut(self)
            }
        }
    };
}

resource_like!([K: Resource] Lean<K>, K, |lean: &'_ Lean<K>| lean.0.meta(), |lean: &'_ mut Lean<K>| lean.0.meta_mut());
resource_like!([] LooseFluxJob, FluxJob, |job: &'_ LooseFluxJob| &job.metadata, |job: &'_ mut LooseFluxJob| &mut job.metadata);

/// Kinds whose spec is optional in the API's types, and kinds whose spec is not.
macro_rules! parts {
    ($($kind:ty { $spec:path, $status:path })*) => {
        $(impl Parts for $kind {
            type Spec = $spec;
            type Status = $status;

            fn from_parts(metadata: ObjectMeta, spec: Option<$spec>, status: Option<$status>) -> Self {
                Self { metadata, spec: spec.map(Into::into), status }
            }
        })*
    };
}

parts! {
    Node { k8s_openapi::api::core::v1::NodeSpec, k8s_openapi::api::core::v1::NodeStatus }
    Pod { k8s_openapi::api::core::v1::PodSpec, k8s_openapi::api::core::v1::PodStatus }
    Job { k8s_openapi::api::batch::v1::JobSpec, k8s_openapi::api::batch::v1::JobStatus }
    ReplicaSet { k8s_openapi::api::apps::v1::ReplicaSetSpec, k8s_openapi::api::apps::v1::ReplicaSetStatus }
    Deployment { k8s_openapi::api::apps::v1::DeploymentSpec, k8s_openapi::api::apps::v1::DeploymentStatus }
    StatefulSet { k8s_openapi::api::apps::v1::StatefulSetSpec, k8s_openapi::api::apps::v1::StatefulSetStatus }
}
