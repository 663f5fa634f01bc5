//! The identity of objects, and their owners.

use std::fmt;
use std::sync::Arc;

use fluxqueue_api::WorkloadKind;

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

impl Owner {
    /// Makes the reference to an object of a kind that is read.
    pub fn of(kind: OwnerKind, object: &ObjectRef) -> Self {
        let api_version = kind.workload().and_then(WorkloadKind::api_version).unwrap_or_default();
        Owner {
            kind,
            name: Arc::clone(&object.key.name),
            uid: object.uid.clone(),
            api_version: api_version.into(),
        }
    }
}

impl OwnerKind {
    /// The kinds that are read.
    const READ: [OwnerKind; 4] =
        [OwnerKind::Job, OwnerKind::ReplicaSet, OwnerKind::Deployment, OwnerKind::StatefulSet];

    /// Returns the kind of an object, by its API group and the name of its kind.
    pub fn of_object(group: &str, kind: &str) -> Self {
        let known = WorkloadKind::of_controller(group, kind);
        let read = Self::READ.into_iter().find(|read| known.is_some() && read.workload() == known);
        read.unwrap_or_else(|| OwnerKind::Other(kind.into()))
    }

    /// Returns the kind of workload that objects of this kind are, if they are read.
    pub fn workload(&self) -> Option<WorkloadKind> {
        self.workload_or_name().ok()
    }

    fn workload_or_name(&self) -> Result<WorkloadKind, &str> {
        match self {
            OwnerKind::Job => Ok(WorkloadKind::Job),
            OwnerKind::ReplicaSet => Ok(WorkloadKind::ReplicaSet),
            OwnerKind::Deployment => Ok(WorkloadKind::Deployment),
            OwnerKind::StatefulSet => Ok(WorkloadKind::StatefulSet),
            OwnerKind::Other(name) => Err(name),
        }
    }

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
        match self.workload_or_name() {
            Ok(kind) => kind.as_str(),
            Err(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_objects_that_make_pods_is_read() {
        for kind in WorkloadKind::CONTROLLERS {
            let served = kind.facts().served.expect("its objects are served");
            let owner = OwnerKind::of_object(served.group(), kind.as_str());
            assert_eq!((owner.workload(), owner.as_str()), (Some(kind), kind.as_str()));
            assert!(owner.is_read());
        }
        for (group, kind) in [("scheduling.k8s.io", "PodGroup"), ("example.org", "Job")] {
            let owner = OwnerKind::of_object(group, kind);
            assert_eq!((owner.workload(), owner.as_str()), (None, kind));
        }
    }

    #[test]
    fn a_reference_names_the_version_of_its_kind() {
        let object = ObjectRef { key: ObjectKey::new("ns", "a"), uid: "u".into() };
        for (kind, api_version) in
            [(OwnerKind::Job, "batch/v1"), (OwnerKind::ReplicaSet, "apps/v1")]
        {
            assert_eq!(&*Owner::of(kind, &object).api_version, api_version);
        }
    }
}
