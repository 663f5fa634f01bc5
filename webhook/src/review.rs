//! The API server's questions, of which only the fields that are needed are decoded.
//!
//! A question is up to 8 MiB, and a tenant chooses its content. Decoded as a whole it could take a
//! hundred times as much. So objects stay text, of which only the few fields below are decoded. A
//! pod's spec is decoded where its rules are checked, if it holds few enough values.

use std::collections::BTreeMap;

use fluxqueue_workload::json::values_at_most;
use fluxqueue_workload::scheduling_group::{self, JobScheduling};
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::core::GroupVersionKind;
use kube::core::admission::Operation;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::objects::{self, Kind};

/// The most values in the spec of a pod that is decoded: a value can take 600 bytes then. A pod
/// with a thousand environment variables has about 3,000.
pub(crate) const SPEC_VALUES_MAX: usize = 10_000;

/// The most values in the metadata of an object: the list of field managers can have as many as the
/// rest of the object.
const METADATA_VALUES_MAX: usize = 100_000;

/// A question about an object.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The uid of the question, which its answer repeats.
    pub uid: String,
    /// The kind of the object.
    pub kind: GroupVersionKind,
    /// The name of the object; empty while it has none.
    pub name: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The part of the object that is written, if not all of it.
    pub sub_resource: String,
    /// The name of the user that asks the API server for it.
    pub user: String,
    /// The operation about which the API server asks.
    pub operation: Operation,
    /// The object, if it is of a known kind.
    pub object: Option<Object<'a>>,
    /// The object as it was before an update.
    pub old_object: Option<Object<'a>>,
}

/// An object that is a pod or makes pods.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    /// Its metadata, without `managedFields`.
    pub metadata: ObjectMeta,
    /// The part about its pods; `None` if it is missing, and then the API server refuses the object
    /// by itself.
    pub pod: Option<PodPart<'a>>,
    /// The template of its pods, as text.
    pub template: Option<&'a RawValue>,
    /// The metadata that a CronJob gives its Jobs.
    pub of_jobs: Option<ObjectMeta>,
    /// True if a CronJob has such metadata, even if it is empty.
    pub has_of_jobs: bool,
    /// The fields of a Job by which it waits.
    pub job: JobFields,
}

/// The part of an object about its pods: the pod itself, or the template.
#[derive(Debug)]
pub(crate) struct PodPart<'a> {
    /// The metadata of the template; none of a pod, which has its own.
    pub metadata: ObjectMeta,
    /// True if the template has metadata, even if it is empty.
    pub has_metadata: bool,
    /// The fields that are always read.
    pub fields: PodFields,
    spec: &'a RawValue,
}

/// The fields of a pod's spec that are always read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodFields {
    pub scheduler_name: Option<String>,
    pub node_name: Option<String>,
    pub scheduling_gates: Option<Vec<Gate>>,
    pub volumes: Option<Vec<Volume>>,
    pub workload_ref: Option<WorkloadRef>,
}

/// The Workload of a pod, as Kubernetes 1.35 has it.
#[derive(Debug, Deserialize)]
pub(crate) struct WorkloadRef {
    #[serde(default)]
    pub name: String,
}

/// A scheduling gate.
#[derive(Debug, Deserialize)]
pub(crate) struct Gate {
    #[serde(default)]
    pub name: String,
}

/// A volume.
#[derive(Debug, Deserialize)]
pub(crate) struct Volume {
    /// Present if the volume is made with the pod.
    pub ephemeral: Option<IgnoredAny>,
}

/// The fields of a Job by which it waits.
#[derive(Debug, Default)]
pub(crate) struct JobFields {
    pub suspend: bool,
    pub managed_by: Option<String>,
    pub parallelism: Option<u64>,
    pub completions: Option<u64>,
    /// The parts of its `scheduling` that are there.
    pub scheduling: JobScheduling,
}

#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Asked<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    uid: String,
    kind: GroupVersionKind,
    operation: Operation,
    name: Option<String>,
    namespace: Option<String>,
    sub_resource: Option<String>,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct Outline<'a> {
    metadata: Option<Meta>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MakerSpec<'a> {
    #[serde(borrow)]
    template: Option<&'a RawValue>,
    #[serde(borrow)]
    job_template: Option<&'a RawValue>,
    suspend: Option<bool>,
    managed_by: Option<String>,
    parallelism: Option<u64>,
    completions: Option<u64>,
    scheduling: Option<Scheduling>,
}

#[derive(Deserialize)]
struct Scheduling {
    #[serde(rename = "schedulingPolicy")]
    policy: Option<IgnoredAny>,
    #[serde(rename = "schedulingConstraints")]
    constraints: Option<IgnoredAny>,
    #[serde(rename = "resourceClaims")]
    claims: Option<Vec<IgnoredAny>>,
}

/// The fields of `metadata` that are read.
#[derive(Default)]
struct Meta(ObjectMeta);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaFields {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<Scheduling> for JobScheduling {
    fn from(said: Scheduling) -> Self {
        JobScheduling {
            policy: said.policy.is_some(),
            constraints: said.constraints.is_some(),
            claims: said.claims.is_some_and(|claims| !claims.is_empty()),
        }
    }
}

// === impl Request ===

impl<'a> Request<'a> {
    /// Reads a question. Objects of unknown kinds are left out.
    pub(crate) fn read(review: &'a [u8]) -> Result<Self, serde_json::Error> {
        let Asked {
            uid,
            kind,
            operation,
            name,
            namespace,
            sub_resource,
            user_info,
            object,
            old_object,
        } = serde_json::from_slice::<Review<'a>>(review)?.request;
        let known = Kind::of(&kind);
        let read = |object: Option<&'a RawValue>| {
            known.zip(object).map(|(kind, raw)| Object::read(kind, raw)).transpose()
        };
        Ok(Request {
            object: read(object)?,
            old_object: read(old_object)?,
            uid,
            kind,
            operation,
            name: name.unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            sub_resource: sub_resource.unwrap_or_default(),
            user: user_info.username,
        })
    }
}

// === impl Object ===

impl<'a> Object<'a> {
    /// Reads an object. Metadata that cannot be read is an error; any other unreadable part counts
    /// as absent: the API server refuses it.
    fn read(kind: Kind, raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let Outline { metadata, spec } = serde_json::from_str(raw.get())?;
        let mut object = Object {
            metadata: metadata.unwrap_or_default().0,
            pod: None,
            template: None,
            of_jobs: None,
            has_of_jobs: false,
            job: JobFields::default(),
        };
        if kind == Kind::Pod {
            object.pod = spec.and_then(|spec| PodPart::read(None, spec));
            return Ok(object);
        }
        let mut maker = spec.and_then(read_part::<MakerSpec<'_>>);
        if kind == Kind::CronJob {
            let of_jobs = maker.and_then(|maker| read_part::<Outline<'_>>(maker.job_template?));
            let (metadata, spec) = of_jobs.map(|of_jobs| (of_jobs.metadata, of_jobs.spec)).unzip();
            object.has_of_jobs = metadata.as_ref().is_some_and(Option::is_some);
            object.of_jobs = metadata.map(|metadata| metadata.unwrap_or_default().0);
            maker = spec.flatten().and_then(read_part::<MakerSpec<'_>>);
        }
        let Some(maker) = maker else { return Ok(object) };
        object.template = maker.template;
        let template = maker.template.and_then(read_part::<Outline<'_>>);
        object.pod = template.and_then(|template| PodPart::read(template.metadata, template.spec?));
        object.job = JobFields {
            suspend: maker.suspend.unwrap_or_default(),
            managed_by: maker.managed_by,
            parallelism: maker.parallelism,
            completions: maker.completions,
            scheduling: maker.scheduling.map(JobScheduling::from).unwrap_or_default(),
        };
        Ok(object)
    }

    /// True if the templates of two objects differ.
    pub(crate) fn has_other_template(&self, other: &Object<'_>) -> bool {
        if self.template.map(RawValue::get) == other.template.map(RawValue::get) {
            return false;
        }
        // The two may differ only in their notation. Where they are too large to be compared by
        // value, they count as different.
        let value = |object: &Object<'_>| {
            let template = object
                .template
                .filter(|template| values_at_most(template.get().as_bytes()) <= SPEC_VALUES_MAX)?;
            serde_json::from_str::<serde_json::Value>(template.get()).ok()
        };
        value(self).zip(value(other)).is_none_or(|(one, other)| one != other)
    }
}

fn read_part<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

// === impl PodPart ===

impl<'a> PodPart<'a> {
    fn read(metadata: Option<Meta>, spec: &'a RawValue) -> Option<Self> {
        let has_metadata = metadata.is_some();
        let metadata = metadata.unwrap_or_default().0;
        Some(PodPart { metadata, has_metadata, fields: read_part(spec)?, spec })
    }

    /// True if the spec holds more values than are decoded.
    pub(crate) fn is_too_large(&self) -> bool {
        values_at_most(self.spec.get().as_bytes()) > SPEC_VALUES_MAX
    }

    /// Returns all of the spec; `None` if it is too large, or cannot be read.
    pub(crate) fn spec(&self) -> Option<PodSpec> {
        if self.is_too_large() {
            return None;
        }
        let mut spec: PodSpec = read_part(self.spec)?;
        if let Some(workload) = &self.fields.workload_ref {
            spec.scheduling_group = Some(scheduling_group::of_workload_ref(&workload.name));
        }
        Some(spec)
    }

    pub(crate) fn scheduler(&self) -> &str {
        self.fields.scheduler_name.as_deref().unwrap_or_default()
    }

    /// True if the pod has a node already.
    pub(crate) fn has_node(&self) -> bool {
        self.fields.node_name.as_deref().is_some_and(|node| !node.is_empty())
    }

    /// Returns the names of its scheduling gates; `None` if it has no such list.
    pub(crate) fn gates(&self) -> Option<impl Iterator<Item = &str>> {
        Some(self.fields.scheduling_gates.as_ref()?.iter().map(|gate| gate.name.as_str()))
    }

    /// True if the template's label says that its pods are to be left alone.
    pub(crate) fn declines(&self) -> bool {
        objects::declines(&self.metadata)
    }
}

// === impl Meta ===

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        if values_at_most(raw.get().as_bytes()) > METADATA_VALUES_MAX {
            return Err(serde::de::Error::custom(format!(
                "metadata has more than {METADATA_VALUES_MAX} values"
            )));
        }
        let fields: Option<MetaFields> =
            serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        let Some(fields) = fields else { return Ok(Meta::default()) };
        Ok(Meta(ObjectMeta {
            name: fields.name,
            namespace: fields.namespace,
            uid: fields.uid,
            deletion_timestamp: fields.deletion_timestamp,
            labels: fields.labels,
            annotations: fields.annotations,
            owner_references: fields.owner_references,
            ..ObjectMeta::default()
        }))
    }
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
