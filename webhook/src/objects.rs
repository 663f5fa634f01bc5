//! The kinds of objects that admission knows, and the path of the pod in each.

use fluxqueue_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::GroupVersionKind;

/// A pod, or a kind that makes pods from a template. The API server asks about other kinds only if
/// a configuration is wrong, and they are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pod,
    Job,
    CronJob,
    Deployment,
    ReplicaSet,
    StatefulSet,
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

    /// Returns the path of the part that has a pod's `spec` and `metadata`.
    pub(crate) fn path(self) -> &'static [&'static str] {
        match self {
            Kind::Pod => &[],
            Kind::CronJob => &["spec", "jobTemplate", "spec", "template"],
            Kind::Job | Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => {
                &["spec", "template"]
            }
        }
    }

    /// Returns the same in front of the path of a field of the pod.
    pub(crate) fn prefix(self) -> String {
        self.path().iter().flat_map(|part| [*part, "."]).collect()
    }
}

/// True if the object's label says that it is to be left alone.
pub(crate) fn declines(metadata: &ObjectMeta) -> bool {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(names::ADMISSION));
    label.is_some_and(|value| value == names::DISABLED)
}

/// Returns the kind of the controller that made an object.
pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.kind.as_str())
}
