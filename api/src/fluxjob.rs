//! `FluxJob`: the record of one thing that was submitted. `spec` belongs to people, `status` to the
//! scheduler.
//!
//! `spec` says what the record stands for, and what people wish instead of what the workload says.
//! Everything that was observed is in `status`: when a wish is taken back, what the workload says
//! counts again, and `status` can follow an elastic workload. docs/fluxjob.md has each field beside
//! its counterpart in Kueue's Workload.
#![expect(
    clippy::duplicated_attributes,
    reason = "every printer column has a type and a priority of its own"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

use crate::conditions::{self, JobState};
use crate::overrides::Overrides;
use crate::{text, validation};

/// What the FluxJob stands for, and what people wish. The scheduler creates it; people change only
/// `overrides`.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "jobs.converged-computing.org",
    version = "v1alpha1",
    kind = "FluxJob",
    plural = "fluxjobs",
    singular = "fluxjob",
    shortname = "fj",
    category = "batch",
    namespaced,
    status = "FluxJobStatus",
    doc = "One thing that was submitted to Fluxqueue: a Job, a group of pods, a lone pod, or an elastic set of pods.",
    selectable = ".spec.workloadRef.kind",
    selectable = ".spec.workloadRef.name",
    selectable = ".spec.workloadRef.uid",
    selectable = ".spec.schedulerName",
    selectable = ".status.state",
    selectable = ".status.queueName",
    printcolumn(
        name = "Queue",
        type_ = "string",
        json_path = ".status.queueName",
        description = "The queue of the job"
    ),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.state",
        description = "Where the job is in its life"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.blockedBy[0].reason",
        description = "Why the job has not started"
    ),
    printcolumn(
        name = "Size",
        type_ = "string",
        json_path = ".status.displaySize",
        description = "How many pods are bound, of how many the job wants"
    ),
    printcolumn(
        name = "Walltime",
        type_ = "integer",
        json_path = ".status.walltimeSeconds",
        description = "How long the job is planned to run, in seconds"
    ),
    printcolumn(
        name = "Start",
        type_ = "string",
        json_path = ".status.estimatedStart.time",
        description = "When the job is expected to start"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.displayNodes",
        description = "The nodes of the job, or how many they are",
        priority = "1"
    ),
    printcolumn(
        name = "Position",
        type_ = "integer",
        json_path = ".status.position",
        description = "Place in the queue; 1 is next",
        priority = "1"
    ),
    printcolumn(
        name = "Estimate",
        type_ = "string",
        json_path = ".status.estimatedStart.kind",
        description = "Whether the start is promised (Reserved) or a forecast (Projected)",
        priority = "1"
    ),
    printcolumn(
        name = "Priority",
        type_ = "integer",
        json_path = ".status.priority",
        description = "Jobs of higher priority go first",
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.blockedBy[0].message",
        description = "Why the job has not started, with numbers",
        priority = "1"
    ),
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validation::only_overrides_change()))]
pub struct FluxJobSpec {
    /// The workload that the FluxJob stands for. Cannot be changed.
    pub workload_ref: WorkloadRef,
    /// `spec.schedulerName` of the pods. A Fluxqueue that serves other names leaves this FluxJob
    /// alone. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub scheduler_name: Option<String>,
    /// What people wish instead of what the workload says. To take a wish back, remove its field.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub overrides: Overrides,
}

/// What Fluxqueue writes into the status of one FluxJob takes at most this many bytes as JSON: a
/// sixth of what etcd stores of an object, and with what the API server notes of its fields still
/// well below that. Parts that only inform are summed up before; a gang whose placement might not
/// fit is refused.
pub const STATUS_BYTES_MAX: usize = 256 << 10;

/// The names of the nodes of a gang take at most this many bytes of it: 5,000 names of 45 bytes.
pub const NODE_LIST_BYTES_MAX: usize = 225 << 10;

/// A FluxJob describes at most this many pod sets.
pub const POD_SETS_MAX: usize = 1024;

/// A pod set describes the requests of at most this many resources.
pub const REQUESTS_MAX: usize = 64;

/// A workload: the object that was submitted, or a group of pods.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// API group and version of the object; absent for a group of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub api_version: Option<String>,
    /// Kind of the object, or Group for pods that share a group label.
    pub kind: WorkloadKind,
    /// Name of the object, or of the group.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The uid of the object; for a group, the uid of its first pod.
    #[schemars(length(max = 128))]
    pub uid: String,
}

/// The kind of workload behind a FluxJob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum WorkloadKind {
    /// A lone pod.
    #[default]
    Pod,
    /// A Job.
    Job,
    /// A Deployment.
    Deployment,
    /// A ReplicaSet.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
    /// Pods that share a group label.
    Group,
}

/// What was observed, and what happened. The scheduler writes it, and leaves conditions of others
/// alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxJobStatus {
    /// Conditions. Those of Fluxqueue are Scheduled, Degraded and Finished, and the warnings
    /// IncompleteGroupLabels, InvalidWalltime, PriorityContradiction, SizeClamped,
    /// SizeContradiction, SoftTermsIgnored and UnknownPriorityClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
    /// The conditions in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// The `metadata.generation` of the spec that this status takes into account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What the workload says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<ObservedWorkload>,
    /// The priority that counts: that of the wish, else that of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The queue that counts: that of the wish, else that of the workload, else `services` for work
    /// with no end if there is such a queue, else that of the namespace, else `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    /// The walltime that counts: that of the wish, else that of the workload, else the default of
    /// the queue or of the settings; at most the maximum of a queue that clamps. Absent if there is
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime_seconds: Option<i64>,
    /// When the job took its place in the queue: the moment at which it could first have been
    /// placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<MicroTime>,
    /// Its place in the queue; 1 is next. Places beyond 10 are rounded up to tens, places beyond
    /// 100 to hundreds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i32>,
    /// When the job is expected to start. Absent if there is no estimate, as when it waits for work
    /// with no known end, which `blockedBy` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_start: Option<EstimatedStart>,
    /// The estimates of its start while it waited, compared with when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_estimates: Option<StartEstimates>,
    /// The start that the job is promised. It starts later only if a job outlives its walltime,
    /// capacity is lost, a job of higher priority arrives, or a person changes something; an Event
    /// says which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// Since when other jobs may go ahead of this one because its start has no known date. Not
    /// reset while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_by_since: Option<MicroTime>,
    /// When its first pod was bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When its last pod ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<MicroTime>,
    /// Where its pods go. Written before the first of them is bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PlacementRange>,
    /// The nodes that `placement` and `reservation` name by their places in this list, each once,
    /// as a hostlist (RFC 29). The first has place 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_list: Option<String>,
    /// For kubectl: the nodes of the placement as a hostlist (RFC 29), or how many there are if the
    /// list is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_nodes: Option<String>,
    /// What earlier versions wrote as `displayNodes`. It is read, and not written any more.
    #[serde(default, skip_serializing, rename = "nodes")]
    pub old_nodes: Option<String>,
    /// The epoch of the leader that wrote the placement: `leaseTransitions` of the Lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// How many pods are bound now.
    #[serde(default)]
    pub bound: i32,
    /// How many pods the job wants to run now.
    #[serde(default)]
    pub total: i32,
    /// For kubectl: `bound/total`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_size: Option<String>,
    /// What earlier versions wrote as `displaySize`. It is not written any more.
    #[serde(default, skip_serializing, rename = "size")]
    pub old_size: Option<String>,
    /// What keeps the job from starting, most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub blocked_by: Vec<BlockedBy>,
}

impl FluxJobStatus {
    /// The nodes of the placement as kubectl shows them, also where an earlier version wrote them.
    pub fn shown_nodes(&self) -> Option<&str> {
        self.display_nodes.as_deref().or(self.old_nodes.as_deref())
    }
}

/// Nodes that are kept for a job from some time on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// When the job starts at the latest. Absent if it waits for work with no known end: then the
    /// nodes are held for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<MicroTime>,
    /// The nodes by their places in `nodeList`: `0-3,7`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_indexes: String,
    /// The nodes by their names, as a hostlist (RFC 29): `node[0-3],gpu7`. Earlier versions wrote
    /// this instead of `nodeIndexes`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nodes: String,
}

/// When a job is expected to start, and what the estimate is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EstimatedStart {
    /// The expected start.
    pub time: MicroTime,
    /// What the estimate is based on.
    pub kind: EstimateKind,
    /// When the estimate was made.
    pub as_of: MicroTime,
}

/// The estimates of the start of a job while it waited. Once the job has started, also by how many
/// seconds it started later than each; less than 0 if it started earlier.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartEstimates {
    /// The first estimate on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<EstimatedStart>,
    /// The start that was promised last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<MicroTime>,
    /// By how many seconds the job started later than the first estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_than_first_seconds: Option<i64>,
    /// By how many seconds the job started later than was promised last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_than_promised_seconds: Option<i64>,
}

/// What an estimate is based on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum EstimateKind {
    /// The start is promised: `status.reservation` has the same time.
    Reserved,
    /// The start is a forecast from the current state: it holds if running jobs end when planned,
    /// and nothing else arrives.
    Projected,
}

impl EstimateKind {
    /// All of them.
    pub const ALL: [EstimateKind; 2] = [EstimateKind::Reserved, EstimateKind::Projected];

    /// Its name in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            EstimateKind::Reserved => "Reserved",
            EstimateKind::Projected => "Projected",
        }
    }
}

/// What the workload says: the object that was submitted, and its pods.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedWorkload {
    /// The pods by what they request: the pods of one set are alike. Follows an elastic workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = POD_SETS_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub pod_sets: Vec<PodSet>,
    /// The highest `spec.priority` of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The queue that the workload names; absent if it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    /// How long the workload says that it runs at most, in seconds; absent if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime_seconds: Option<i64>,
}

/// Pods that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// The name of the pod set, unique in the job.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// How many pods the set has.
    #[schemars(range(min = 0))]
    pub count: i32,
    /// How many of the pods start together; the others join one by one. Absent if all start
    /// together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_count: Option<i32>,
    /// What each pod requests, as Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = REQUESTS_MAX, "additionalProperties" = { "type": "string", "maxLength": 64 }))]
    pub requests: BTreeMap<String, String>,
}

/// Pods of one set, and the nodes they go to: number i of `podIndexes` goes to node number i /
/// `podsPerNode` of `nodeIndexes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRange {
    /// The name of the pod set.
    pub pod_set: String,
    /// Indexes of pods within the set, as an idset (RFC 22): `0-3,7`.
    pub pod_indexes: String,
    /// The nodes by their places in `nodeList`, in this order: `0-3,7,2`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_indexes: String,
    /// The nodes by their names, as a hostlist (RFC 29): `node[0-3],gpu7`. Earlier versions wrote
    /// this instead of `nodeIndexes`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nodes: String,
    /// How many consecutive pods go to each node.
    pub pods_per_node: i32,
}

/// Why a job does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum BlockedReason {
    /// Not all pods that start together are there.
    Incomplete,
    /// One of its pods has a scheduling gate that belongs to somebody else.
    Gated,
    /// A person holds the job, or its queue is stopped or was deleted.
    Held,
    /// The queue that the job names does not exist, or the job's namespace may not use it.
    QueueNotUsable,
    /// The spec of its queue cannot be read, and none was ever accepted.
    QueueInvalid,
    /// It asks for a longer walltime than its queue allows.
    WalltimeTooLong,
    /// It asks for something that is not supported.
    UnsupportedConstraint,
    /// It contradicts itself, or cannot be read.
    InvalidRequest,
    /// An earlier job waits for nodes that this job needs.
    QueuedBehind,
    /// Its queue is at a limit.
    QueueLimit,
    /// As many jobs wait in its queue as may: it has no place there yet.
    QueueFull,
    /// Pods of a Job that was released in its namespace did not all come: no other Job is released
    /// there for a while.
    ReleasePaused,
    /// A ResourceQuota of its namespace leaves too little for the pods that its Job does not have
    /// yet.
    QuotaExceeded,
    /// The nodes that it may use have too little free.
    InsufficientResources,
    /// No rack, zone or other part of a level has room for as many of its pods as are to be in one.
    NoRoomInLevel,
    /// The nodes that it could use are cordoned, not ready, or have just refused a pod; or other
    /// pods keep it away from them.
    NoMatchingNodes,
    /// It does not fit on the existing nodes, however idle.
    Unsatisfiable,
    /// It had been placed, and its placement was withdrawn before its first Binding.
    PlacementWithdrawn,
    /// The API server refuses a write that the start needs, or such a write has failed several
    /// times.
    BindFailed,
    /// A claim of a pod is missing, lost, about to be deleted, not bound, or in use.
    VolumesNotReady,
    /// A claim could not be bound where its pod was placed.
    VolumeBindingFailed,
    /// Work with no known end is on nodes that it could use. Never by itself, only beside what is
    /// short there.
    UnknownEnd,
    /// A reason that another version of Fluxqueue has written.
    #[default]
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// One thing that keeps a job from starting, with numbers and the object that is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    /// The reason, in one word.
    pub reason: BlockedReason,
    /// The reason for people, with numbers.
    pub message: String,
    /// The resource that is short, or whose limit the queue has reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The level of the machine whose parts have too little room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The part of that level that has most room, or the part where the rest of the job is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// How much of the resource the job requests in total. For a level: how many pods are to be in
    /// one part, or in all parts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// How much of the resource is free on the nodes that the job may use, or left of the limit.
    /// For a level: for how many of those pods there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<String>,
    /// How much of a limit is used: an amount of the resource, or a number of running jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The FluxQueue that sets the limit or the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The job in the way, as `namespace/name`: this job waits behind it, or for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    /// From when on nodes are kept for the job in `behind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_from: Option<MicroTime>,
}

/// A list, or the one thing that earlier builds wrote instead.
fn one_or_several<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<BlockedBy>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrSeveral {
        Several(Vec<BlockedBy>),
        One(Box<BlockedBy>),
    }
    Ok(match Option::deserialize(deserializer)? {
        Some(OneOrSeveral::Several(list)) => list,
        Some(OneOrSeveral::One(one)) => vec![*one],
        None => Vec::new(),
    })
}

// === impl BlockedReason ===

impl BlockedReason {
    /// All that this version writes.
    pub const ALL: [BlockedReason; 22] = [
        BlockedReason::Incomplete,
        BlockedReason::Gated,
        BlockedReason::Held,
        BlockedReason::QueueNotUsable,
        BlockedReason::QueueInvalid,
        BlockedReason::WalltimeTooLong,
        BlockedReason::UnsupportedConstraint,
        BlockedReason::InvalidRequest,
        BlockedReason::QueuedBehind,
        BlockedReason::QueueLimit,
        BlockedReason::QueueFull,
        BlockedReason::ReleasePaused,
        BlockedReason::QuotaExceeded,
        BlockedReason::InsufficientResources,
        BlockedReason::NoRoomInLevel,
        BlockedReason::NoMatchingNodes,
        BlockedReason::Unsatisfiable,
        BlockedReason::PlacementWithdrawn,
        BlockedReason::BindFailed,
        BlockedReason::VolumesNotReady,
        BlockedReason::VolumeBindingFailed,
        BlockedReason::UnknownEnd,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            BlockedReason::Incomplete => "Incomplete",
            BlockedReason::Gated => "Gated",
            BlockedReason::Held => "Held",
            BlockedReason::QueueNotUsable => "QueueNotUsable",
            BlockedReason::QueueInvalid => "QueueInvalid",
            BlockedReason::WalltimeTooLong => "WalltimeTooLong",
            BlockedReason::UnsupportedConstraint => "UnsupportedConstraint",
            BlockedReason::InvalidRequest => "InvalidRequest",
            BlockedReason::QueuedBehind => "QueuedBehind",
            BlockedReason::QueueLimit => "QueueLimit",
            BlockedReason::QueueFull => "QueueFull",
            BlockedReason::ReleasePaused => "ReleasePaused",
            BlockedReason::QuotaExceeded => "QuotaExceeded",
            BlockedReason::InsufficientResources => "InsufficientResources",
            BlockedReason::NoRoomInLevel => "NoRoomInLevel",
            BlockedReason::NoMatchingNodes => "NoMatchingNodes",
            BlockedReason::Unsatisfiable => "Unsatisfiable",
            BlockedReason::PlacementWithdrawn => "PlacementWithdrawn",
            BlockedReason::BindFailed => "BindFailed",
            BlockedReason::VolumesNotReady => "VolumesNotReady",
            BlockedReason::VolumeBindingFailed => "VolumeBindingFailed",
            BlockedReason::UnknownEnd => "UnknownEnd",
            BlockedReason::Unknown => "Unknown",
        }
    }

    /// The state of a job that waits for this reason.
    pub fn state(self) -> JobState {
        match self {
            BlockedReason::Incomplete | BlockedReason::Gated | BlockedReason::VolumesNotReady => {
                JobState::Incomplete
            }
            BlockedReason::Held | BlockedReason::QueueInvalid => JobState::Held,
            BlockedReason::QueueNotUsable
            | BlockedReason::WalltimeTooLong
            | BlockedReason::UnsupportedConstraint
            | BlockedReason::InvalidRequest => JobState::Refused,
            BlockedReason::Unsatisfiable => JobState::Unsatisfiable,
            BlockedReason::QueuedBehind
            | BlockedReason::QueueLimit
            | BlockedReason::QueueFull
            | BlockedReason::ReleasePaused
            | BlockedReason::QuotaExceeded
            | BlockedReason::InsufficientResources
            | BlockedReason::NoRoomInLevel
            | BlockedReason::NoMatchingNodes
            | BlockedReason::PlacementWithdrawn
            | BlockedReason::BindFailed
            | BlockedReason::VolumeBindingFailed
            | BlockedReason::UnknownEnd
            | BlockedReason::Unknown => JobState::Pending,
        }
    }

    /// A job that waits for this reason has no place in the queue: the reason is in the job itself.
    pub fn is_outside_the_queue(self) -> bool {
        let has_no_place = matches!(
            self,
            BlockedReason::QueueFull | BlockedReason::ReleasePaused | BlockedReason::QuotaExceeded
        );
        has_no_place || !matches!(self.state(), JobState::Pending | JobState::Unsatisfiable)
    }
}

impl fmt::Display for BlockedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl BlockedBy ===

impl BlockedBy {
    /// A reason, and what a person reads about it.
    pub fn new(reason: BlockedReason, message: impl Into<String>) -> Self {
        BlockedBy { reason, message: text::into_message(message.into()), ..BlockedBy::default() }
    }
}

// === impl WorkloadKind ===

impl WorkloadKind {
    /// The kind as it is written in a FluxJob or FluxQueue.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkloadKind::Pod => "Pod",
            WorkloadKind::Job => "Job",
            WorkloadKind::Deployment => "Deployment",
            WorkloadKind::ReplicaSet => "ReplicaSet",
            WorkloadKind::StatefulSet => "StatefulSet",
            WorkloadKind::Group => "Group",
        }
    }

    /// The kind in lower case: the suffix of a FluxJob's name, and a label's value.
    pub fn suffix(self) -> &'static str {
        match self {
            WorkloadKind::Pod => "pod",
            WorkloadKind::Job => "job",
            WorkloadKind::Deployment => "deployment",
            WorkloadKind::ReplicaSet => "replicaset",
            WorkloadKind::StatefulSet => "statefulset",
            WorkloadKind::Group => "group",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nobody_wishes_anything_unless_said() {
        let spec = json!({ "workloadRef": { "kind": "Job", "name": "lammps", "uid": "u" } });
        let read: FluxJobSpec = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(read.overrides, Overrides::default());
        assert_eq!(serde_json::to_value(&read).unwrap(), spec, "what is absent stays absent");
        let wished = json!({ "priorityClassName": "high", "walltimeSeconds": 60, "queueName": "gpu", "hold": true });
        let read: Overrides = serde_json::from_value(wished.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), wished);
    }

    #[test]
    fn the_kind_of_a_workload_is_one_of_a_closed_set() {
        for kind in ["Pod", "Job", "Deployment", "ReplicaSet", "StatefulSet", "Group"] {
            let read: WorkloadKind = serde_json::from_value(json!(kind)).unwrap();
            assert_eq!((json!(read), read.suffix()), (json!(kind), &*kind.to_lowercase()));
            assert_eq!(read.as_str(), kind);
        }
        for bad in [json!(1), json!("job"), json!("JobSet")] {
            assert!(serde_json::from_value::<WorkloadKind>(bad.clone()).is_err(), "{bad}");
        }
    }

    /// Both names at once make no status unreadable.
    #[test]
    fn texts_for_kubectl_are_read_by_their_old_names_and_written_by_their_new_ones() {
        let read = |status: serde_json::Value| -> FluxJobStatus {
            serde_json::from_value(status).unwrap()
        };
        let old = read(json!({ "bound": 2, "total": 2, "nodes": "n-[0-1]", "size": "2/2" }));
        assert_eq!((old.shown_nodes(), old.old_size.as_deref()), (Some("n-[0-1]"), Some("2/2")));
        assert_eq!(serde_json::to_value(&old).unwrap(), json!({ "bound": 2, "total": 2 }));
        let both = read(json!({ "nodes": "n-0", "displayNodes": "n-1", "displaySize": "1/1" }));
        assert_eq!(both.shown_nodes(), Some("n-1"));
        let written =
            json!({ "bound": 0, "total": 0, "displayNodes": "n-1", "displaySize": "1/1" });
        assert_eq!(serde_json::to_value(&both).unwrap(), written);
    }

    #[test]
    fn a_reason_of_another_version_is_read() {
        let read: BlockedBy =
            serde_json::from_value(json!({ "reason": "Gated", "message": "" })).unwrap();
        assert_eq!(
            (read.reason, read.reason.to_string()),
            (BlockedReason::Gated, "Gated".to_owned())
        );
        assert!(BlockedReason::ALL.into_iter().all(|reason| json!(reason) == reason.as_str()));
        let newer: BlockedBy =
            serde_json::from_value(json!({ "reason": "Preempted", "message": "" })).unwrap();
        assert_eq!(newer.reason, BlockedReason::Unknown);
    }

    #[test]
    fn what_an_earlier_build_wrote_of_one_thing_is_read() {
        let one = json!({ "reason": "Gated", "message": "m" });
        for (written, count) in
            [(one.clone(), 1), (json!([one, one]), 2), (json!([]), 0), (json!(null), 0)]
        {
            let read: FluxJobStatus =
                serde_json::from_value(json!({ "blockedBy": written })).unwrap();
            assert_eq!(read.blocked_by.len(), count);
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let status = serde_json::to_value(FluxJobStatus::default()).unwrap();
        assert_eq!(status, json!({ "bound": 0, "total": 0 }));
    }
}
