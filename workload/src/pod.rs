//! A pod, as the core sees it.

use crate::ids::NodeName;
use crate::levels::LevelRules;
use crate::metadata;
use crate::object::{ObjectRef, Owner, OwnerKind};
use crate::scheduling_group::NamedGroup;
use crate::shape::Shape;
use crate::storage::PodClaim;
use crate::time::Time;
use crate::unsupported::Unsupported;
use crate::walltime::Lifetime;
use std::sync::Arc;

/// A pod of any scheduler, reduced to the fields that placement depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// `metadata.resourceVersion` of a pod without a node: writes to the pod name this version.
    /// Later nothing is written to it any more, and changes of its status alone are no news.
    pub resource_version: Option<Arc<str>>,
    /// Its identity.
    pub id: ObjectRef,
    /// `spec.schedulerName`; which of them are ours is a setting of the core.
    pub scheduler: Arc<str>,
    /// `spec.nodeName`: where it is bound, or was put by its author.
    pub node: Option<NodeName>,
    /// `status.nominatedNodeName`, where another scheduler means to put it.
    pub nominated: Option<NodeName>,
    /// Its phase.
    pub phase: Phase,
    /// `metadata.deletionTimestamp` is set. It still uses its node until it is gone or terminal.
    pub deleting: bool,
    /// Names of `spec.schedulingGates`.
    pub gates: Vec<Arc<str>>,
    /// The controller owner, if it has one.
    pub owner: Option<Owner>,
    /// The group labels of the seeds, if it carries a pair of them (a group name without a size is
    /// no group).
    pub group: Option<GroupLabels>,
    /// The PodGroup that `spec.schedulingGroup` names.
    pub scheduling_group: Option<NamedGroup>,
    /// `batch.kubernetes.io/job-completion-index`.
    pub completion_index: Option<u32>,
    /// `spec.priority` as resolved by the API server; 0 if absent.
    pub priority: i32,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// The time at which it began to take its node: `status.startTime`, or that of its Binding.
    /// `None` while that is not known.
    pub started: Option<Time>,
    /// The time at which the last of its containers ended, of a pod that has ended.
    pub ended: Option<Time>,
    /// `metadata.labels`, sorted by key: the anti-affinity of other pods is matched against them.
    /// They are not part of the shape, since pods of one template differ in them (by a Job's
    /// completion index, for example).
    pub labels: metadata::Labels,
    /// Its requests and constraints. Pods of one template share one value.
    pub shape: Arc<Shape>,
    /// Its own rules about levels of the machine, if it has any.
    pub levels: LevelRules,
    /// True if it asks for its node alone; `None` if it has no such annotation of its own.
    pub exclusive: Option<bool>,
    /// The claims that it mounts. They are not part of the shape, since pods of one template differ
    /// in them.
    pub claims: Vec<PodClaim>,
    /// The time for which it takes its resources.
    pub lifetime: Lifetime,
    /// True if the pod states that time, by an annotation or a deadline.
    pub states_lifetime: bool,
    /// The time that it may take to stop on request, in seconds.
    pub grace_secs: u64,
    /// Required constraints that Fluxqueue does not honour: the pod is refused, and the first of
    /// them is its reason.
    pub unsupported: Vec<Unsupported>,
    /// The names of preferences that are accepted but not honoured on this machine.
    pub soft_ignored: Vec<&'static str>,
    /// Its condition PodScheduled.
    pub scheduled_condition: Option<ScheduledCondition>,
    /// True if it stands in for a pod that a suspended Job will have: no API server knows it.
    pub stands_in: bool,
    /// The queue that it is charged to, as its Binding said; `None` while it has no node.
    pub charged_queue: Option<Arc<str>>,
}

/// A phase of `status.phase`, with what tells a refused pod from a failed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Pending or Unknown.
    Pending,
    /// Running.
    Running,
    /// Succeeded.
    Succeeded,
    /// Failed by itself.
    Failed,
    /// Failed because the kubelet refused or evicted it; `reason` is `status.reason` (OutOfcpu,
    /// Evicted, ...).
    Refused {
        /// `status.reason`.
        reason: Arc<str>,
    },
    /// Failed because it was drained, preempted or deleted with its node (condition
    /// DisruptionTarget): its kubelet had nothing against it.
    Disrupted {
        /// The reason of the condition.
        reason: Arc<str>,
    },
}

/// The labels by which the seeds form a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupLabels {
    /// The group's name, unique in the namespace.
    pub name: Arc<str>,
    /// The number of pods that start together; the error is about an unusable value (and names the
    /// label).
    pub size: Result<u32, String>,
}

/// The pod condition PodScheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledCondition {
    /// `status == "True"`.
    pub scheduled: bool,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Pod {
    /// Makes a pod without a node, created at the beginning of time, and without anything else: no
    /// owner, group, gates, labels or priority, no known end, and no time to stop.
    pub fn waiting(id: ObjectRef, scheduler: Arc<str>, shape: Arc<Shape>) -> Self {
        Pod {
            resource_version: None,
            id,
            scheduler,
            node: None,
            nominated: None,
            phase: Phase::Pending,
            deleting: false,
            gates: Vec::new(),
            owner: None,
            group: None,
            scheduling_group: None,
            completion_index: None,
            priority: 0,
            created: Time(0),
            started: None,
            ended: None,
            labels: Arc::from([]),
            shape,
            levels: None,
            exclusive: None,
            claims: Vec::new(),
            lifetime: Lifetime::Eventually,
            states_lifetime: false,
            grace_secs: 0,
            unsupported: Vec::new(),
            soft_ignored: Vec::new(),
            scheduled_condition: None,
            stands_in: false,
            charged_queue: None,
        }
    }

    /// True if it belongs to its node, as the pods of a DaemonSet do and those that a kubelet
    /// starts by itself: such pods are also where a job has its node alone.
    pub fn stays_on_its_node(&self) -> bool {
        let kind = self.owner.as_ref().map(|owner| &owner.kind);
        matches!(kind, Some(OwnerKind::Other(kind)) if matches!(&**kind, "DaemonSet" | "Node"))
    }
}

impl Pod {
    /// True if the pod takes up room on the node that it is bound to.
    pub fn uses_node(&self) -> bool {
        self.node.is_some() && !self.phase.is_terminal()
    }

    /// True if the pod asks for room on a node that suits it, and for nothing more: no nodes of its
    /// own, no volumes, and no place by levels of the machine or by other pods. Every field is
    /// listed here, so that none is forgotten: those with `_` identify the pod and its job, or tell
    /// its order, its time, and where it is in its life.
    pub fn asks_only_for_room(&self) -> bool {
        let Pod {
            resource_version: _,
            id: _,
            scheduler: _,
            node: _,
            nominated: _,
            phase: _,
            deleting: _,
            gates: _,
            owner: _,
            group: _,
            scheduling_group: _,
            completion_index: _,
            priority: _,
            created: _,
            started: _,
            ended: _,
            labels: _,
            shape,
            levels,
            exclusive,
            claims,
            lifetime: _,
            states_lifetime: _,
            grace_secs: _,
            unsupported: _,
            soft_ignored: _,
            scheduled_condition: _,
            stands_in: _,
            charged_queue: _,
        } = self;
        let Shape { requests: _, constraints } = &**shape;
        levels.is_none()
            && exclusive.is_none()
            && claims.is_empty()
            && constraints.asks_about_nodes_alone()
    }

    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&self.labels[at].1)
    }
}

impl Phase {
    /// True if the pod has ended and uses nothing any more.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Phase::Succeeded | Phase::Failed | Phase::Refused { .. } | Phase::Disrupted { .. }
        )
    }
}
