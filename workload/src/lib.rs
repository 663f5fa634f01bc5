//! What there is to run: pods and the objects that make them, as the core sees them.
//!
//! The types here are small, owned and comparable; conversion from Kubernetes objects lives in the
//! submodules and is pure. What belongs together (a gang, an elastic set) is decided by the core
//! from these facts, not here.

pub mod constraints;
mod controller;
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

/// A UTC instant in microseconds since the Unix epoch. The core never reads a clock: it is always
/// told the time.
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
    /// The uid, so that a successor of the same name is told apart.
    pub uid: Uid,
}

/// A pod, whoever schedules it, reduced to what placement depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// `metadata.resourceVersion` of a pod without a node: what is written to it is written to this
    /// version. Later nothing is written to it any more, and changes of its status alone are no
    /// news.
    pub resource_version: Option<Arc<str>>,
    /// Which pod.
    pub id: ObjectRef,
    /// `spec.schedulerName`; which of them are ours is a setting of the core.
    pub scheduler: Arc<str>,
    /// `spec.nodeName`: where it is bound, or was put by its author.
    pub node: Option<NodeName>,
    /// `status.nominatedNodeName`, where another scheduler means to put it.
    pub nominated: Option<NodeName>,
    /// Where it is in its life.
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
    /// `batch.kubernetes.io/job-completion-index`.
    pub completion_index: Option<u32>,
    /// `spec.priority` as resolved by the API server; 0 if absent.
    pub priority: i32,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// When it began to take its node: `status.startTime`, or when it was bound. `None` while that
    /// is not known.
    pub started: Option<Time>,
    /// When the last of its containers ended, of a pod that has ended.
    pub ended: Option<Time>,
    /// `metadata.labels`, sorted by key: what the anti-affinity of pods already there is matched
    /// against. They are not part of the shape, since pods of one template differ in them (a Job's
    /// completion index, say).
    pub labels: metadata::Labels,
    /// What it asks and where it may go. Pods of one template share one value.
    pub shape: Arc<Shape>,
    /// What it asks of levels of the machine, if it says so itself.
    pub levels: LevelRules,
    /// Whether it asks for its node alone, if it says so itself.
    pub exclusive: Option<bool>,
    /// The claims that it mounts. They are not part of the shape, since pods of one template differ
    /// in them.
    pub claims: Vec<PodClaim>,
    /// How long its resources are taken.
    pub lifetime: Lifetime,
    /// How long it may take to stop when it is told to, in seconds.
    pub grace_secs: u64,
    /// Required constraints that Fluxqueue does not honour: the pod is refused, and told this.
    pub unsupported: Vec<Unsupported>,
    /// Preferences that are accepted but not honoured on this machine: what names them.
    pub soft_ignored: Vec<&'static str>,
    /// What the pod's condition PodScheduled says now.
    pub scheduled_condition: Option<ScheduledCondition>,
    /// It stands in for a pod that a suspended Job will have: no API server knows it.
    pub stands_in: bool,
    /// The queue that it is charged to, as its Binding said; `None` while it has no node.
    pub charged_queue: Option<Arc<str>>,
}

impl Pod {
    /// A pod that has no node yet, made at the beginning of time, and of which nothing else is to
    /// be said: no owner, group, gates, labels or priority, an end that nobody knows, and no time
    /// to stop.
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

    /// It belongs to its node, as the pods of a DaemonSet do and those of which a kubelet knows by
    /// itself: wherever a job is, such pods are there too.
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

/// What a pod asks, and where it may go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What it takes of a node, `pods: 1` included.
    pub requests: Resources,
    /// Which nodes it may use, and prefers.
    pub constraints: Constraints,
}

/// How long a pod or job takes its resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lifetime {
    /// It ends this many seconds after its start at the latest.
    Seconds(u64),
    /// It ends some day (a restart policy other than Always), nobody knows when.
    Eventually,
    /// A service: it has no end.
    Endless,
}

impl Lifetime {
    /// The longest that anything is planned for: twice the longest walltime, 200 years. What lasts
    /// longer, as with the largest `terminationGracePeriodSeconds`, has no end that can be planned
    /// with: dates after the year 9999 cannot even be written.
    pub const SECS_MAX: u64 = 2 * walltime::WALLTIME_SECS_MAX;

    /// As long and so many seconds more, where it is known how long.
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
    /// What it would need.
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

/// Kinds of owners that are told apart.
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
    /// How many start together, or why the label's value is no size (names the label).
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
    /// Which object.
    pub id: ObjectRef,
    /// Its kind; never [`OwnerKind::Other`].
    pub kind: OwnerKind,
    /// Its own controller (a ReplicaSet's Deployment; a Job's CronJob).
    pub owner: Option<Owner>,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// How many pods it wants at once: min(parallelism, completions - succeeded) of a Job (0 once
    /// it is finished or suspended), `spec.replicas` of the others.
    pub wants: u32,
    /// How many pods it can have at once before any of them is ready: like `wants` at the start (so
    /// without what has succeeded), but 1 for a StatefulSet with podManagementPolicy OrderedReady.
    pub can_start_together: u32,
    /// A Job's `status.succeeded`; 0 for the others.
    pub succeeded: u32,
    /// A Job's `spec.completions`, if it has one.
    pub completions: Option<u32>,
    /// A Job's `spec.parallelism` (1 if absent); replicas of the others.
    pub parallelism: u32,
    /// The Job has the condition Complete or Failed.
    pub finished: bool,
    /// The Job has the condition Failed (or FailureTarget).
    pub failed: bool,
    /// What is known of its end: a Job's `activeDeadlineSeconds` counted from `status.startTime`
    /// (an instant).
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
    /// `unlimited`), or why its value is no duration (names the annotation).
    pub walltime: Option<Result<Lifetime, String>>,
    /// What the object's annotations ask of levels of the machine for those of its pods that ask
    /// for nothing themselves, or what is wrong with them.
    pub levels: Result<LevelRules, Unsupported>,
    /// Whether the object asks for nodes alone for its pods, if it says so, or what is wrong with
    /// that.
    pub exclusive: Result<Option<bool>, Unsupported>,
    /// What Fluxqueue's suspension has come to, of a Job that it has had suspended and that has not
    /// ended.
    pub suspension: Option<Suspension>,
}

/// A Job that Fluxqueue has had suspended.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspension {
    /// Whether it still waits for its place.
    pub phase: SuspensionPhase,
    /// What its pods will be like, as far as its template says.
    pub sample: Pod,
    /// The PriorityClass that they name.
    pub priority_class: Option<Arc<str>>,
    /// Its pods have completion indexes.
    pub is_indexed: bool,
}

/// How far a Job that was suspended for Fluxqueue has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuspensionPhase {
    /// It carries the mark (`names::SUSPENDED`): it has to wait without pods.
    Marked {
        /// `metadata.resourceVersion`: what is written to it is written to this version.
        resource_version: Option<Arc<str>>,
        /// `spec.suspend`. If not, somebody has let it go who may not.
        is_suspended: bool,
    },
    /// Mark and suspension were taken off together.
    Released {
        /// When (`names::RELEASED_AT`).
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
    /// It is that of pods that name none.
    pub is_default: bool,
}

impl Time {
    /// The instant as it is written; the last second of the year 9999, nearly, for what is later than
    /// can be written.
    pub fn timestamp(self) -> jiff::Timestamp {
        let (first, last) =
            (jiff::Timestamp::MIN.as_microsecond(), jiff::Timestamp::MAX.as_microsecond());
        jiff::Timestamp::from_microsecond(self.0.clamp(first, last)).unwrap_or(jiff::Timestamp::MAX)
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The instant `seconds` after the epoch.
    pub fn from_seconds(seconds: i64) -> Self {
        Time(seconds.saturating_mul(1_000_000))
    }

    /// This instant plus `millis` milliseconds.
    #[must_use]
    pub fn plus_millis(self, millis: i64) -> Self {
        Time(self.0.saturating_add(millis.saturating_mul(1000)))
    }

    /// This instant less `secs` seconds.
    #[must_use]
    pub fn minus_secs(self, secs: u64) -> Self {
        Time(self.0.saturating_sub_unsigned(secs.saturating_mul(1_000_000)))
    }

    /// This instant plus `secs` seconds.
    #[must_use]
    pub fn plus_secs(self, secs: u64) -> Self {
        let micros = secs.saturating_mul(1_000_000);
        Time(self.0.saturating_add_unsigned(micros))
    }
}

impl ObjectKey {
    /// A key from its parts.
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
    /// The pod has ended and uses nothing any more.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Phase::Succeeded | Phase::Failed | Phase::Refused { .. } | Phase::Disrupted { .. }
        )
    }
}

impl Pod {
    /// The pod takes up room on the node it is bound to.
    pub fn uses_node(&self) -> bool {
        self.node.is_some() && !self.phase.is_terminal()
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&self.labels[at].1)
    }
}

impl OwnerKind {
    /// The Kubernetes kind.
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
