//! The basis of all decisions: the schedulers that are ours, and the namespaces in which nothing is
//! ever changed.

use crate::objects::Kind;
use crate::review::Request;

/// The scheduler that the API server names in pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The namespace of Kubernetes' own components.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Decides about objects before they are stored. It has no state: equal requests get equal answers.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Names that Fluxqueue serves, never empty; pods that name no scheduler get the first.
    scheduler_names: Vec<String>,
    /// The namespace in which Fluxqueue itself runs. Nothing there may wait for it.
    own_namespace: String,
}

/// Says if our pods get the scheduling gate when they are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// Pods get the gate.
    Gated,
    /// Pods get no gate.
    Ungated,
}

/// The names of schedulers are unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at least one scheduler name is needed, and default-scheduler is kube-scheduler's")]
pub struct NoSchedulerName;

impl Admission {
    /// Gives pods to the first of these schedulers, and never touches objects in `own_namespace`.
    pub fn new(
        scheduler_names: Vec<String>,
        own_namespace: String,
    ) -> Result<Self, NoSchedulerName> {
        if scheduler_names.is_empty() || scheduler_names.iter().any(|name| is_unnamed(name)) {
            return Err(NoSchedulerName);
        }
        Ok(Admission { scheduler_names, own_namespace })
    }

    /// Returns the name for pods that name no scheduler.
    pub(crate) fn scheduler_name(&self) -> &str {
        &self.scheduler_names[0]
    }

    pub(crate) fn is_ours(&self, scheduler: &str) -> bool {
        self.own(scheduler).is_some()
    }

    /// Returns our own copy of this name, if it is one of ours.
    pub(crate) fn own(&self, scheduler: &str) -> Option<&str> {
        self.scheduler_names.iter().map(String::as_str).find(|name| *name == scheduler)
    }

    /// Returns the kind of a request's object, if it is one that admission may change or refuse.
    /// The configurations leave the others out already; but a configuration that an administrator
    /// has written must not lock the cluster out of its own namespaces.
    pub(crate) fn kind_of(&self, request: &Request<'_>) -> Option<Kind> {
        let is_protected =
            request.namespace == SYSTEM_NAMESPACE || request.namespace == self.own_namespace;
        if is_protected || !request.sub_resource.is_empty() {
            None
        } else {
            Kind::of(&request.kind)
        }
    }
}

/// True if this names no scheduler on purpose: the API server fills in the default before it asks
/// any webhook.
pub(crate) fn is_unnamed(scheduler: &str) -> bool {
    scheduler.is_empty() || scheduler == DEFAULT_SCHEDULER
}
