//! `FluxJob`: the record of one thing that was submitted. `spec` belongs to people, `status` to the
//! scheduler.
//!
//! `spec` names the thing that the record stands for, and holds the wishes of people that override
//! its own values. Every observation is in `status`: when a wish is taken back, the value of the
//! workload counts again, and `status` can follow an elastic workload. docs/fluxjob.md has each
//! field beside its counterpart in Kueue's Workload.
#![expect(
    clippy::duplicated_attributes,
    reason = "every printer column has a type and a priority of its own"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::blocked_by::{BlockedBy, one_or_several};
use crate::conditions;
use crate::job_state::JobState;
use crate::kinds::WorkloadKind;
use crate::overrides::Overrides;
use crate::validation;

/// The workload that the FluxJob stands for, and the wishes of people. The scheduler creates it;
/// people change only `overrides`.
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
    doc = "One thing that was submitted to Fluxqueue: a Job, a group of pods, a lone pod, or an \
           elastic set of pods.",
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
    /// The wishes of people, which override the values of the workload. To take a wish back, remove
    /// its field.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub overrides: Overrides,
}

/// The most bytes, as JSON, of the status that Fluxqueue writes into one FluxJob: a sixth of the
/// largest object that etcd stores, and still well below that with the API server's notes about its
/// fields. Parts that only inform are summed up before; a gang is refused if its placement might
/// not fit.
pub const STATUS_BYTES_MAX: usize = 256 << 10;

/// The most bytes of it that the names of a gang's nodes take: 5,000 names of 45 bytes.
pub const NODE_LIST_BYTES_MAX: usize = 225 << 10;

/// The most pod sets that a FluxJob describes.
pub const POD_SETS_MAX: usize = 1024;

/// The most resources in the requests that a pod set describes.
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

/// The observations of the scheduler, and what happened. Only the scheduler writes it; it leaves
/// conditions of other programs alone.
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
    /// The values of the workload itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<ObservedWorkload>,
    /// The priority that counts: the one wished for, else that of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The queue that counts: the one wished for, else that of the workload, else `services` for
    /// work with no end if there is such a queue, else that of the namespace, else `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    /// The walltime that counts: the one wished for, else that of the workload, else the default of
    /// the queue or of the settings; at most the maximum of a queue that clamps. Absent if there is
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime_seconds: Option<i64>,
    /// The time at which the job took its place in the queue: when it could first have been placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<MicroTime>,
    /// Its place in the queue; 1 is next. Places beyond 10 are rounded up to tens, places beyond
    /// 100 to hundreds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i32>,
    /// The expected start of the job. Absent if there is no estimate, as when it waits for work
    /// with no known end, which `blockedBy` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_start: Option<EstimatedStart>,
    /// The estimates of its start while it waited, compared with when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_estimates: Option<StartEstimates>,
    /// The promised start of the job. It starts later only if a job outlives its walltime, capacity
    /// is lost, a job of higher priority arrives, or a person changes something; an Event says
    /// which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// The time from which other jobs may go ahead of this one, because its start has no known
    /// date. Not reset while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_by_since: Option<MicroTime>,
    /// The time at which its first pod was bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// The time at which its last pod ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<MicroTime>,
    /// The nodes of its pods. Written before the first of them is bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PlacementRange>,
    /// The nodes that `placement` and `reservation` name by their places in this list, each once,
    /// as a hostlist (RFC 29). The first has place 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_list: Option<String>,
    /// The nodes of the placement for kubectl: a hostlist (RFC 29), or their number if the list is
    /// long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_nodes: Option<String>,
    /// The nodes under the name that earlier versions gave to `displayNodes`. Fluxqueue reads it,
    /// and writes it no more.
    #[serde(default, skip_serializing, rename = "nodes")]
    pub old_nodes: Option<String>,
    /// The epoch of the leader that wrote the placement: `leaseTransitions` of the Lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The number of pods that are bound now.
    #[serde(default)]
    pub bound: i32,
    /// The number of pods that the job wants to run now.
    #[serde(default)]
    pub total: i32,
    /// The pods that a gang has lost since it was whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_pods: Option<LostPods>,
    /// The size for kubectl: `bound/total`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_size: Option<String>,
    /// The size under the name that earlier versions gave to `displaySize`. Fluxqueue writes it no
    /// more.
    #[serde(default, skip_serializing, rename = "size")]
    pub old_size: Option<String>,
    /// The obstacles that keep the job from starting, most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub blocked_by: Vec<BlockedBy>,
}

impl FluxJobStatus {
    /// Returns the nodes of the placement as kubectl shows them, also those that an earlier version
    /// wrote.
    pub fn shown_nodes(&self) -> Option<&str> {
        self.display_nodes.as_deref().or(self.old_nodes.as_deref())
    }
}

/// Pods of a gang that were bound, and are missing now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostPods {
    /// The number of the pods.
    pub count: i32,
    /// The time from which the next one has a place, if that is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_start: Option<MicroTime>,
}

/// Nodes that are kept for a job from some time onwards.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The latest start of the job. Absent if it waits for work with no known end: then the nodes
    /// are held for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<MicroTime>,
    /// The nodes by their places in `nodeList`: `0-3,7`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_indexes: String,
    /// The nodes by their names, as a hostlist (RFC 29): `node[0-3],gpu7`. Earlier versions wrote
    /// and read this instead of `nodeIndexes`; it is there while it is short.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nodes: String,
}

/// The expected start of a job, and the basis of this estimate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EstimatedStart {
    /// The expected start.
    pub time: MicroTime,
    /// The basis of the estimate.
    pub kind: EstimateKind,
    /// The time at which the estimate was made.
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
    /// The last promised start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<MicroTime>,
    /// The seconds by which the job started later than the first estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_than_first_seconds: Option<i64>,
    /// The seconds by which the job started later than the last promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_than_promised_seconds: Option<i64>,
}

/// The basis of an estimate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum EstimateKind {
    /// The start is promised: `status.reservation` has the same time.
    Reserved,
    /// The start is a forecast from the current state: it holds if running jobs end when planned,
    /// and no other job arrives.
    Projected,
}

impl EstimateKind {
    /// All kinds.
    pub const ALL: [EstimateKind; 2] = [EstimateKind::Reserved, EstimateKind::Projected];

    /// Returns its name in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            EstimateKind::Reserved => "Reserved",
            EstimateKind::Projected => "Projected",
        }
    }
}

/// The values of the workload itself: those of the submitted object, and of its pods.
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
    /// The longest time for which the workload says that it runs, in seconds; absent if it does not
    /// say.
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
    /// The number of pods in the set.
    #[schemars(range(min = 0))]
    pub count: i32,
    /// The number of pods that start together; the others join one by one. Absent if all start
    /// together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_count: Option<i32>,
    /// The requests of each pod, as Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = REQUESTS_MAX,
        "additionalProperties" = { "type": "string", "maxLength": 64 }
    ))]
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
    /// and read this instead of `nodeIndexes`; it is there while it is short.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nodes: String,
    /// The number of consecutive pods that go to each node.
    pub pods_per_node: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn without_overrides_there_is_no_wish() {
        let spec = json!({ "workloadRef": { "kind": "Job", "name": "lammps", "uid": "u" } });
        let read: FluxJobSpec = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(read.overrides, Overrides::default());
        assert_eq!(serde_json::to_value(&read).unwrap(), spec, "absent fields stay absent");
        let wished = json!({
            "priorityClassName": "high", "walltimeSeconds": 60, "queueName": "gpu", "hold": true,
        });
        let read: Overrides = serde_json::from_value(wished.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), wished);
    }

    /// Both names at once leave the status readable.
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
    fn a_single_blocker_of_an_earlier_build_is_read() {
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
    fn unknown_values_are_left_out() {
        let status = serde_json::to_value(FluxJobStatus::default()).unwrap();
        assert_eq!(status, json!({ "bound": 0, "total": 0 }));
    }
}
