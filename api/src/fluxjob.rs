//! `FluxJob`: the record of one thing that was submitted. `spec` says what is asked, `status` what happened.
//!
//! The fields of the fluxqueue prototype keep their names and meaning; the others stand beside them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct FluxJobSpec {
    /// The Flux jobspec (RFC 25) of the request, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobspec: Option<String>,
    /// The kind of the workload: 0 Pod, 1 Job, 2 Deployment, 3 ReplicaSet, 4 StatefulSet, 5 a group of pods.
    #[serde(rename = "type", default)]
    pub workload_type: WorkloadType,
    /// The workload's name (of a group: the group's).
    #[serde(default)]
    pub name: String,
    /// How many pods start together.
    #[serde(default)]
    pub nodes: i32,
    /// How long it runs at most, in seconds; 0: no limit is known.
    #[serde(default)]
    pub duration: i32,
    /// May hold a reservation.
    #[serde(default)]
    pub reservation: bool,
    /// The serialized workload object, base64; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub object: Option<String>,
    /// Nodes, as the prototype listed them; `status.placement` says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What the pods ask, by role: pods of one role are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// Higher goes first. Taken from the pods' PriorityClass.
    #[serde(default)]
    pub priority: i32,
    /// The queue it waits in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// While true, it is not started.
    #[serde(default)]
    pub hold: bool,
    /// The node label whose domain all pods must share; not honoured yet, so a value is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    pub nodes: Vec<String>,
}

/// Pods that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Role {
    /// Its name, unique in the job.
    pub name: String,
    /// How many pods.
    pub count: i32,
    /// How many of them must start together.
    #[serde(default)]
    pub min: i32,
    /// What each asks, as Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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

/// What keeps a job from starting.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    /// One of a closed set: InsufficientResources, QueuedBehind, Incomplete, Gated, Held, Unsatisfiable,
    /// UnsupportedConstraint, InvalidRequest, NoMatchingNodes, BindFailed.
    pub reason: String,
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
