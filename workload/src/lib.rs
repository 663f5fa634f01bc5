//! The workload: pods and the objects that make them, as the core sees them.
//!
//! The types here are small, owned and comparable; conversion from Kubernetes objects lives in the
//! submodules and is pure. From these facts the core decides which pods belong together (a gang, an
//! elastic set); nothing here does.

pub mod constraints;
mod controller;
pub mod device_class;
pub mod exclusive;
mod group;
mod ids;
pub mod json;
pub mod levels;
pub mod metadata;
mod pod;
pub mod quantity;
mod quota;
mod refusal;
pub mod requests;
mod resources;
mod role;
pub mod scheduling_group;
mod shape;
pub mod storage;
mod suspension;
pub mod template;
mod unsupported;
pub mod walltime;

pub use group::GROUP_SIZE_MAX;
pub use ids::{NodeName, Uid};
pub use metadata::InvalidObject;
pub use quota::{Left, Quota};
pub use refusal::Refusal;
pub use resources::{ResourceName, Resources};
pub use role::SaidRole;
pub use shape::{SHAPES_MAX, ShapeInterner};

use std::fmt;
use std::sync::Arc;

use constraints::Constraints;
use levels::LevelRules;
use storage::PodClaim;

/// A UTC instant in microseconds since the Unix epoch. The core never reads a clock: its caller
/// passes the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

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
    /// The PodGroup that `spec.schedulingGroup` names, of a pod that a Job made: whether the pod is
    /// refused for that is up to the Job.
    pub scheduling_group: Option<Arc<str>>,
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

/// The requests and constraints of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The resources that it takes of a node, `pods: 1` included.
    pub requests: Resources,
    /// The nodes that it may use, and those that it prefers.
    pub constraints: Constraints,
}

/// The time for which a pod or job takes its resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lifetime {
    /// It ends this many seconds after its start at the latest.
    Seconds(u64),
    /// It ends some day (a restart policy other than Always), at an unknown time.
    Eventually,
    /// A service: it has no end.
    Endless,
}

impl Lifetime {
    /// The longest time for which anything is planned, in seconds: twice the longest walltime, 200
    /// years. A longer one, such as the largest `terminationGracePeriodSeconds`, counts as no known
    /// end: dates after the year 9999 cannot even be written.
    pub const SECS_MAX: u64 = 2 * walltime::WALLTIME_SECS_MAX;

    /// Returns this lifetime, longer by this many seconds if it has a known end.
    #[must_use]
    pub fn plus_secs(self, more: u64) -> Self {
        match self {
            Lifetime::Seconds(seconds) => match seconds.saturating_add(more) {
                sum @ ..=Self::SECS_MAX => Lifetime::Seconds(sum),
                _ => Lifetime::Eventually,
            },
            other => other,
        }
    }
}

/// A required constraint that is not supported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// JSON path in the pod, such as `spec.volumes[2].persistentVolumeClaim`.
    pub field: String,
    /// The reason, for the author of the pod.
    pub message: String,
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

/// An object that makes pods: a Job, ReplicaSet, Deployment or StatefulSet.
#[derive(Debug, Clone, PartialEq)]
pub struct Controller {
    /// Its identity.
    pub id: ObjectRef,
    /// Its kind; never [`OwnerKind::Other`].
    pub kind: OwnerKind,
    /// Its own controller (a ReplicaSet's Deployment; a Job's CronJob).
    pub owner: Option<Owner>,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// The number of pods that it wants at once: min(parallelism, completions - succeeded) of a Job
    /// (0 once it is finished or suspended), `spec.replicas` of the others.
    pub wants: u32,
    /// The number of pods that it can have at once before any of them is ready: like `wants` at the
    /// start (so before any success), but 1 for a StatefulSet with podManagementPolicy
    /// OrderedReady.
    pub can_start_together: u32,
    /// A Job's `status.succeeded`; 0 for the others.
    pub succeeded: u32,
    /// A Job's `spec.completions`, if it has one.
    pub completions: Option<u32>,
    /// A Job's `spec.parallelism` (1 if absent); replicas of the others.
    pub parallelism: u32,
    /// True if the Job has the condition Complete or Failed.
    pub finished: bool,
    /// True if the Job has the condition Failed (or FailureTarget).
    pub failed: bool,
    /// Its known end: a Job's `activeDeadlineSeconds` counted from `status.startTime` (an instant).
    pub deadline: Option<Time>,
    /// A Job's `activeDeadlineSeconds`.
    pub deadline_secs: Option<u64>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The group that the labels of its pod template name: its pods are members of that group, also
    /// those that it has not made yet.
    pub group: Option<GroupLabels>,
    /// The queue that the object's label names.
    pub queue: Option<Arc<str>>,
    /// The walltime annotation of the object ([`Lifetime::Seconds`], or [`Lifetime::Endless`] for
    /// `unlimited`); the error is about an unusable value (and names the annotation).
    pub walltime: Option<Result<Lifetime, String>>,
    /// The object's rules about levels of the machine, for those of its pods that have none
    /// themselves; the error is about an unusable annotation.
    pub levels: Result<LevelRules, Unsupported>,
    /// True if the object asks for nodes alone for its pods; `None` without the annotation; the
    /// error is about an unusable value.
    pub exclusive: Result<Option<bool>, Unsupported>,
    /// The part of a Job about Kubernetes' own groups for which it is refused.
    pub scheduling: Option<Unsupported>,
    /// The state of Fluxqueue's suspension, of a Job that it has had suspended and that has not
    /// ended.
    pub suspension: Option<Suspension>,
}

/// A Job that Fluxqueue has had suspended.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspension {
    /// The phase of the suspension.
    pub phase: SuspensionPhase,
    /// The form of its pods, as far as its template shows it.
    pub sample: Pod,
    /// The PriorityClass that they name.
    pub priority_class: Option<Arc<str>>,
    /// True if its pods have completion indexes.
    pub is_indexed: bool,
}

/// The phase of a suspension for Fluxqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuspensionPhase {
    /// It carries the mark (`names::SUSPENDED`): it has to wait without pods.
    Marked {
        /// `metadata.resourceVersion`: writes to the Job name this version.
        resource_version: Option<Arc<str>>,
        /// `spec.suspend`. If false, a user has released it who may not.
        is_suspended: bool,
    },
    /// Mark and suspension were removed together.
    Released {
        /// The time of the release (`names::RELEASED_AT`).
        at: Time,
    },
}

/// A PriorityClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityClass {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// The priority of pods that name it.
    pub value: i32,
    /// True if pods that name none have it.
    pub is_default: bool,
}

impl Time {
    /// Returns the instant as a timestamp; nearly the last second of the year 9999 for later ones,
    /// which cannot be written.
    pub fn timestamp(self) -> jiff::Timestamp {
        let (first, last) =
            (jiff::Timestamp::MIN.as_microsecond(), jiff::Timestamp::MAX.as_microsecond());
        jiff::Timestamp::from_microsecond(self.0.clamp(first, last)).unwrap_or(jiff::Timestamp::MAX)
    }

    /// Returns whole seconds since the epoch, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns the instant `seconds` after the epoch.
    pub fn from_seconds(seconds: i64) -> Self {
        Time(seconds.saturating_mul(1_000_000))
    }

    /// Returns this instant plus `millis` milliseconds.
    #[must_use]
    pub fn plus_millis(self, millis: i64) -> Self {
        Time(self.0.saturating_add(millis.saturating_mul(1000)))
    }

    /// Returns this instant less `secs` seconds.
    #[must_use]
    pub fn minus_secs(self, secs: u64) -> Self {
        Time(self.0.saturating_sub_unsigned(secs.saturating_mul(1_000_000)))
    }

    /// Returns this instant plus `secs` seconds.
    #[must_use]
    pub fn plus_secs(self, secs: u64) -> Self {
        let micros = secs.saturating_mul(1_000_000);
        Time(self.0.saturating_add_unsigned(micros))
    }
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

impl Phase {
    /// True if the pod has ended and uses nothing any more.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Phase::Succeeded | Phase::Failed | Phase::Refused { .. } | Phase::Disrupted { .. }
        )
    }
}

impl Pod {
    /// True if the pod takes up room on the node that it is bound to.
    pub fn uses_node(&self) -> bool {
        self.node.is_some() && !self.phase.is_terminal()
    }

    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&self.labels[at].1)
    }
}

impl OwnerKind {
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
