//! The identity of objects, and their owners.

use std::fmt;
use std::sync::Arc;

use crate::ids::Uid;

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `metadata.namespace`
    pub namespace: Arc<str>,
    /// `metadata.name`
    pub name: Arc<str>,
}

/// Key and uid: names one object for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid, which differs from that of a successor of the same name.
    pub uid: Uid,
}

/// The controller owner of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its kind.
    pub kind: OwnerKind,
    /// Its name, in the pod's namespace.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// `apiVersion` of the owner reference.
    pub api_version: Arc<str>,
}

/// The kinds of owners that the core distinguishes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerKind {
    /// batch/v1 Job.
    Job,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// Anything else: its pods are scheduled one by one. The kind is kept for messages.
    Other(Arc<str>),
}

impl ObjectKey {
    /// Makes a key from its parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

impl OwnerKind {
    /// True if the pods of such an object end by themselves: they start together, and a pod that
    /// has succeeded is not made again.
    pub fn runs_to_completion(&self) -> bool {
        matches!(self, OwnerKind::Job)
    }

    /// True if such an object makes pods itself. Those of a Deployment are made by its ReplicaSets.
    pub fn makes_pods(&self) -> bool {
        !matches!(self, OwnerKind::Deployment)
    }

    /// True if objects of this kind are read, so that the number of pods that they want is known.
    pub fn is_read(&self) -> bool {
        !matches!(self, OwnerKind::Other(_))
    }

    /// Returns the Kubernetes kind.
    pub fn as_str(&self) -> &str {
        match self {
            OwnerKind::Job => "Job",
            OwnerKind::ReplicaSet => "ReplicaSet",
            OwnerKind::Deployment => "Deployment",
            OwnerKind::StatefulSet => "StatefulSet",
            OwnerKind::Other(kind) => kind,
        }
    }
}
