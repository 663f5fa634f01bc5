//! The kinds of objects that are looked at, and where a pod stands in each.

use fluxqueue_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, GroupVersionKind};
use serde_json::Value;

/// A pod, or a kind that makes pods from a template. Others are asked about only if a configuration is wrong, and left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pod,
    Job,
    CronJob,
    Deployment,
    ReplicaSet,
    StatefulSet,
}

/// What an object says of its pods: the pod itself, or the template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodPart<'a> {
    /// Its `metadata`; `None` if it has none, or if the object is the pod.
    metadata: Option<&'a Value>,
    /// Its `spec`.
    pub spec: &'a Value,
}

impl Kind {
    pub(crate) fn of(kind: &GroupVersionKind) -> Option<Self> {
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Pod") => Some(Kind::Pod),
            ("batch", "Job") => Some(Kind::Job),
            ("batch", "CronJob") => Some(Kind::CronJob),
            ("apps", "Deployment") => Some(Kind::Deployment),
            ("apps", "ReplicaSet") => Some(Kind::ReplicaSet),
            ("apps", "StatefulSet") => Some(Kind::StatefulSet),
            _ => None,
        }
    }

    /// The path of what has a pod's `spec`, and `metadata`.
    pub(crate) fn path(self) -> &'static [&'static str] {
        match self {
            Kind::Pod => &[],
            Kind::CronJob => &["spec", "jobTemplate", "spec", "template"],
            Kind::Job | Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => &["spec", "template"],
        }
    }

    /// The same, in front of the path of a field of the pod.
    pub(crate) fn prefix(self) -> String {
        self.path().iter().flat_map(|part| [*part, "."]).collect()
    }

    /// The template of an object of this kind, or all that a pod says but its metadata.
    pub(crate) fn template(self, object: &DynamicObject) -> Option<&Value> {
        self.path().iter().try_fold(&object.data, |value, part| value.get(*part))
    }

    /// What an object of this kind says of its pods; `None` if it lacks that, which the API server refuses by itself.
    pub(crate) fn pod_part(self, object: &DynamicObject) -> Option<PodPart<'_>> {
        // `metadata` stands apart from the rest, so the rest has that of the template alone.
        let part = self.template(object)?;
        Some(PodPart { metadata: part.get("metadata"), spec: part.get("spec").filter(|spec| spec.is_object())? })
    }
}

impl<'a> PodPart<'a> {
    pub(crate) fn scheduler(&self) -> &'a str {
        self.spec.get("schedulerName").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether a node was chosen already.
    pub(crate) fn has_node(&self) -> bool {
        self.spec.get("nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
    }

    /// Names of its scheduling gates; `None` if it has no such list.
    pub(crate) fn gates(&self) -> Option<impl Iterator<Item = &str>> {
        let gates = self.spec.get("schedulingGates")?.as_array()?;
        Some(gates.iter().filter_map(|gate| gate.get("name")?.as_str()))
    }

    /// Labels and annotations that a template gives its pods.
    pub(crate) fn template_metadata(&self) -> ObjectMeta {
        let metadata = self.metadata.cloned().unwrap_or_default();
        serde_json::from_value(metadata).unwrap_or_default()
    }

    /// The template's label says that its pods are to be left alone.
    pub(crate) fn declines(&self) -> bool {
        let label = self.metadata.and_then(|metadata| metadata.get("labels")?.get(names::ADMISSION)?.as_str());
        label == Some(names::DISABLED)
    }
}

/// The object's label says that it is to be left alone.
pub(crate) fn declines(metadata: &ObjectMeta) -> bool {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(names::ADMISSION));
    label.is_some_and(|value| value == names::DISABLED)
}

/// The kind of the controller that made an object.
pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.kind.as_str())
}
