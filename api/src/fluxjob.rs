//! `FluxJob`: the record of one thing that was submitted. `spec` says what is asked, `status` what happened.
//!
//! The fields of the fluxqueue prototype keep their names and meaning; the others stand beside them.
#![expect(clippy::duplicated_attributes, reason = "every printer column has a type and a priority of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

use crate::validation;

/// What is asked. Written by the scheduler; of it, people may change `priority`, `queue`, `duration` and `hold`.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "jobs.converged-computing.org",
    version = "v1alpha1",
    kind = "FluxJob",
    plural = "fluxjobs",
    singular = "fluxjob",
    shortname = "fj",
    namespaced,
    status = "FluxJobStatus",
    doc = "One thing that was submitted to Fluxqueue: a Job, a group of pods, a lone pod, or an elastic set of pods.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.state",
        description = "Where the job is in its life"
    ),
    printcolumn(
        name = "Size",
        type_ = "string",
        json_path = ".status.size",
        description = "Pods that are bound, of those it wants"
    ),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes", description = "Nodes it is placed on"),
    printcolumn(
        name = "Position",
        type_ = "integer",
        json_path = ".status.position",
        description = "Place in the queue, 1 being next"
    ),
    printcolumn(
        name = "Start",
        type_ = "string",
        json_path = ".status.estimatedStartTime",
        description = "When it is expected to start"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Queue",
        type_ = "string",
        json_path = ".spec.queue",
        description = "The queue it waits in",
        priority = "1"
    ),
    printcolumn(
        name = "Priority",
        type_ = "integer",
        json_path = ".spec.priority",
        description = "Higher goes first",
        priority = "1"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.blockedBy.reason",
        description = "Why it has not started",
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.blockedBy.message",
        description = "The same, with numbers",
        priority = "1"
    ),
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validation::only_a_persons_fields_change()))]
pub struct FluxJobSpec {
    /// The Flux jobspec (RFC 25) of the request, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub jobspec: Option<String>,
    /// The kind of the workload: 0 Pod, 1 Job, 2 Deployment, 3 ReplicaSet, 4 StatefulSet, 5 a group of pods.
    #[serde(rename = "type", default)]
    pub workload_type: WorkloadType,
    /// The workload's name (of a group: the group's).
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub name: String,
    /// How many pods start together.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub nodes: i32,
    /// How long it runs at most, in seconds; 0: no limit is known.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub duration: i32,
    /// May hold a reservation.
    #[serde(default)]
    pub reservation: bool,
    /// The serialized workload object, base64; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_048_576), extend("format" = "byte"))]
    pub object: Option<String>,
    /// Nodes, as the prototype listed them; `status.placement` says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What the pods ask, by role: pods of one role are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1024),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub roles: Vec<Role>,
    /// Higher goes first. Taken from the pods' PriorityClass.
    #[serde(default)]
    pub priority: i32,
    /// The queue it waits in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub queue: Option<String>,
    /// While true, it is not started.
    #[serde(default)]
    pub hold: bool,
    /// The node label whose domain all pods must share; not honoured yet, so a value is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub topology: Option<String>,
}

/// The kind of workload behind a FluxJob, as the integer that the prototype used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub enum WorkloadType {
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

/// Nodes as the prototype listed them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// Names of nodes.
    #[serde(default)]
    #[schemars(length(max = 16_384), inner(length(max = 253)))]
    pub nodes: Vec<String>,
}

/// Pods that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validation::minimum_within_count()))]
pub struct Role {
    /// Its name, unique in the job.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// How many pods.
    #[schemars(range(min = 0))]
    pub count: i32,
    /// How many of them must start together.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min: i32,
    /// What each asks, as Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = { "type": "string", "maxLength": 64 }))]
    pub requests: BTreeMap<String, String>,
}

/// What happened. Written by the scheduler alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxJobStatus {
    /// The prototype's state: statusNew, statusSubmit, statusError or statusCancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit_status: Option<String>,
    /// Where it is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// `metadata.generation` of the spec that this status has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its number in the resource graph of the current scheduler process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobid: Option<i64>,
    /// When it took its place in the queue: the moment at which it could first have been placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<MicroTime>,
    /// Its place in the queue, 1 being next. Coarse beyond the front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i32>,
    /// When it is expected to start, if the walltimes of what runs are true. Coarse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_start_time: Option<MicroTime>,
    /// When its first pod was bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When its last pod ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<MicroTime>,
    /// Where its pods go, written before the first of them is bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PlacementRange>,
    /// The nodes of `placement` as one hostlist, each named once, for kubectl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// The epoch of the leader that wrote the placement: the Lease's leaderTransitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// How many pods are bound now.
    #[serde(default)]
    pub bound: i32,
    /// How many pods it wants to run.
    #[serde(default)]
    pub total: i32,
    /// `bound/total`, for kubectl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The one thing that keeps it from starting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedBy>,
    /// Conditions: Scheduled, Degraded, Finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JobState {
    /// Its pods are not all there yet, or a foreign gate holds one.
    Incomplete,
    /// It waits for its turn or for resources.
    Pending,
    /// A person holds it.
    Held,
    /// It can never run on the nodes there are, however idle.
    Unsatisfiable,
    /// It asks for something that is not supported, or contradicts itself.
    Refused,
    /// Its pods are being bound.
    Starting,
    /// Its pods are bound.
    Running,
    /// All its pods have ended, and succeeded.
    Completed,
    /// It ended otherwise.
    Failed,
}

/// Ranks of one role on the nodes they go to: rank number i of `ranks` goes to node number i / `perNode` of `nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRange {
    /// The role's name.
    pub role: String,
    /// Ranks within the role, as an idset (RFC 22): `0-3,7`.
    pub ranks: String,
    /// Nodes, as a hostlist (RFC 29): `node[0-3],gpu7`.
    pub nodes: String,
    /// How many consecutive ranks go to each node.
    pub per_node: i32,
}

/// Why a job does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum BlockedReason {
    /// Not all pods that start together are there.
    Incomplete,
    /// A scheduling gate of somebody else is on one of its pods.
    Gated,
    /// A person holds it.
    Held,
    /// It asks for something that is not supported.
    UnsupportedConstraint,
    /// It contradicts itself, or cannot be read.
    InvalidRequest,
    /// An earlier job waits for nodes that it needs.
    QueuedBehind,
    /// The nodes that it may use have too little free.
    InsufficientResources,
    /// The nodes that it could use are cordoned, not ready or left alone for a moment.
    NoMatchingNodes,
    /// It does not fit on the nodes there are, however idle.
    Unsatisfiable,
    /// It had been placed, and its placement was withdrawn before its first Binding.
    PlacementWithdrawn,
    /// Binding its pods has failed several times.
    BindFailed,
    /// A reason that another version of Fluxqueue has written.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// What keeps a job from starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    /// Why.
    pub reason: BlockedReason,
    /// For people, with numbers.
    pub message: String,
    /// The resource that is short most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// How much of it the job asks, in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// How much of it is free on the nodes it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<String>,
    /// The job it waits behind, `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
}

// === impl BlockedReason ===

impl BlockedReason {
    /// Where a job is in its life that waits for this reason.
    pub fn state(self) -> JobState {
        match self {
            BlockedReason::Incomplete | BlockedReason::Gated => JobState::Incomplete,
            BlockedReason::Held => JobState::Held,
            BlockedReason::UnsupportedConstraint | BlockedReason::InvalidRequest => JobState::Refused,
            BlockedReason::Unsatisfiable => JobState::Unsatisfiable,
            BlockedReason::QueuedBehind
            | BlockedReason::InsufficientResources
            | BlockedReason::NoMatchingNodes
            | BlockedReason::PlacementWithdrawn
            | BlockedReason::BindFailed
            | BlockedReason::Unknown => JobState::Pending,
        }
    }

    /// A job that waits for this reason has no place in the queue: the reason is in the job itself.
    pub fn is_outside_the_queue(self) -> bool {
        !matches!(self.state(), JobState::Pending | JobState::Unsatisfiable)
    }
}

impl fmt::Display for BlockedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

// === impl BlockedBy ===

impl BlockedBy {
    /// A reason, and what a person reads about it.
    pub fn new(reason: BlockedReason, message: impl Into<String>) -> Self {
        BlockedBy { reason, message: message.into(), resource: None, requested: None, available: None, behind: None }
    }
}

// === impl WorkloadType ===

impl TryFrom<i32> for WorkloadType {
    type Error = String;

    fn try_from(value: i32) -> Result<Self, String> {
        Ok(match value {
            0 => WorkloadType::Pod,
            1 => WorkloadType::Job,
            2 => WorkloadType::Deployment,
            3 => WorkloadType::ReplicaSet,
            4 => WorkloadType::StatefulSet,
            5 => WorkloadType::Group,
            other => return Err(format!("spec.type: {other} is none of 0 to 5")),
        })
    }
}

impl From<WorkloadType> for i32 {
    fn from(value: WorkloadType) -> i32 {
        value as i32
    }
}

impl WorkloadType {
    /// The suffix of a FluxJob's name.
    pub fn suffix(self) -> &'static str {
        match self {
            WorkloadType::Pod => "pod",
            WorkloadType::Job => "job",
            WorkloadType::Deployment => "deployment",
            WorkloadType::ReplicaSet => "replicaset",
            WorkloadType::StatefulSet => "statefulset",
            WorkloadType::Group => "group",
        }
    }
}

impl JsonSchema for WorkloadType {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WorkloadType".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 5 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fluxjob_of_the_prototype_is_read() {
        let job: FluxJob = serde_json::from_value(json!({
            "apiVersion": "jobs.converged-computing.org/v1alpha1",
            "kind": "FluxJob",
            "metadata": { "name": "lammps-job", "namespace": "default" },
            "spec": {
                "jobspec": "version: 9999",
                "type": 1,
                "name": "lammps",
                "object": "e30=",
                "duration": 3600,
                "reservation": true,
                "nodes": 2,
                "resources": { "nodes": ["kind-worker", "kind-worker2"] }
            },
            "status": { "submitStatus": "statusSubmit" }
        }))
        .unwrap();
        assert_eq!(job.spec.workload_type, WorkloadType::Job);
        assert_eq!((job.spec.nodes, job.spec.duration, job.spec.reservation), (2, 3600, true));
        assert_eq!(job.spec.resources.unwrap().nodes, ["kind-worker", "kind-worker2"]);
        assert_eq!(job.status.unwrap().submit_status.as_deref(), Some("statusSubmit"));
    }

    #[test]
    fn an_empty_spec_is_a_pod_that_asks_nothing() {
        let spec: FluxJobSpec = serde_json::from_value(json!({})).unwrap();
        assert_eq!(spec, FluxJobSpec::default());
    }

    #[test]
    fn type_is_an_integer_from_a_closed_set() {
        for number in 0..=5 {
            let spec: FluxJobSpec = serde_json::from_value(json!({ "type": number })).unwrap();
            assert_eq!(serde_json::to_value(&spec).unwrap()["type"], number);
        }
        for bad in [json!(-1), json!(6), json!("job"), json!(1.5)] {
            assert!(serde_json::from_value::<FluxJobSpec>(json!({ "type": bad })).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_reason_of_another_version_is_read() {
        let read: BlockedBy = serde_json::from_value(json!({ "reason": "Gated", "message": "" })).unwrap();
        assert_eq!((read.reason, read.reason.to_string()), (BlockedReason::Gated, "Gated".to_owned()));
        let newer: BlockedBy = serde_json::from_value(json!({ "reason": "Preempted", "message": "" })).unwrap();
        assert_eq!(newer.reason, BlockedReason::Unknown);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let status = serde_json::to_value(FluxJobStatus::default()).unwrap();
        assert_eq!(status, json!({ "bound": 0, "total": 0 }));
    }
}
