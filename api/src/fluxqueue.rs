//! `FluxQueue`: a queue, as its administrator defines it. `spec` belongs to people, `status` to the
//! scheduler.
//!
//! Cluster-scoped: all queues share one machine. docs/queues.md explains what each field means for
//! jobs.
#![expect(clippy::duplicated_attributes, reason = "every printer column has a type of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::kinds::WorkloadKind;
use crate::{conditions, validation};

/// The rules of a queue. For a field that is absent, the settings of the process apply, unless its
/// description says otherwise.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "jobs.converged-computing.org",
    version = "v1alpha1",
    kind = "FluxQueue",
    plural = "fluxqueues",
    singular = "fluxqueue",
    shortname = "fq",
    category = "batch",
    status = "FluxQueueStatus",
    doc = "A queue of Fluxqueue: which jobs may wait in it, and which rules apply to them there.",
    printcolumn(
        name = "Policy",
        type_ = "string",
        json_path = ".spec.policy",
        description = "Which jobs may start before which"
    ),
    printcolumn(
        name = "Priority",
        type_ = "integer",
        json_path = ".spec.priority",
        description = "Queues of higher priority go first"
    ),
    printcolumn(
        name = "Stop",
        type_ = "string",
        json_path = ".spec.stopPolicy",
        description = "Whether waiting jobs are held"
    ),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status",
        description = "Whether the spec counts"
    ),
    printcolumn(
        name = "Waiting",
        type_ = "integer",
        json_path = ".status.waiting",
        description = "Jobs that wait"
    ),
    printcolumn(
        name = "Running",
        type_ = "integer",
        json_path = ".status.running",
        description = "Jobs that have nodes"
    ),
    printcolumn(
        name = "Used",
        type_ = "string",
        json_path = ".status.displayUsage",
        description = "The resources that running jobs use"
    ),
    printcolumn(
        name = "Limits",
        type_ = "string",
        json_path = ".status.displayLimits",
        description = "How much its jobs may use"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validation::default_within_maximum()))]
pub struct FluxQueueSpec {
    /// The namespaces whose jobs may use the queue, by their labels. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "validation::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// The kinds of work that the queue takes; jobs of other kinds are refused. Absent or empty:
    /// all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7), extend("x-kubernetes-list-type" = "set"))]
    pub workload_kinds: Vec<WorkloadKind>,
    /// The rule by which jobs may start before others within the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The number of jobs, from the first of the queue on, that may be promised a start. A job that
    /// fits starts, whatever its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queue_depth: Option<i32>,
    /// With `hybrid`, how many waiting jobs are promised a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub reservation_depth: Option<i32>,
    /// The time for which other jobs may go ahead of the first waiting job of the queue if its
    /// start has no known date, in seconds; 0: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bypass_seconds: Option<i64>,
    /// Queues of higher priority go first. The jobs of queues of equal priority are ordered by
    /// their own priority and age.
    #[serde(default)]
    pub priority: i32,
    /// The nodes that its jobs may use, by their labels. Absent: all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = validation::label_value()))]
    pub node_selector: BTreeMap<String, String>,
    /// The rule for waiting jobs: they may start (`None`) or are held (`Hold`). Running jobs go on.
    #[serde(default)]
    pub stop_policy: StopPolicy,
    /// The walltime of a job that gives none, in seconds; services have no walltime. Absent: the
    /// default of the settings, at most the maximum of the queue; without that, the maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub default_walltime_seconds: Option<i64>,
    /// The longest walltime of a job, in seconds. A queue with a maximum refuses services, which
    /// have no walltime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_walltime_seconds: Option<i64>,
    /// The treatment of a job that asks for more than the maximum: it is refused (`Refuse`) or
    /// planned with the maximum (`Clamp`). Fluxqueue does not end a job that is planned with the
    /// maximum; its manifest has to.
    #[serde(default)]
    pub max_walltime_action: MaxWalltimeAction,
    /// The limits on its jobs at a time. A promised start counts over the time for which it is
    /// planned.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
}

/// The limits on the jobs of a queue at a time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// All its jobs together.
    #[serde(flatten)]
    pub in_all: LimitsOfScope,
    /// The jobs of each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_namespace: Option<LimitsOfScope>,
}

/// The limits on a set of jobs at a time, together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsOfScope {
    /// The most jobs that may have nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub running_jobs: Option<i32>,
    /// The most jobs that may wait in the queue. A job that arrives when it is full has no place
    /// until there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub waiting_jobs: Option<i32>,
    /// How much the pods of these jobs may request, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = validation::quantity()))]
    pub resources: BTreeMap<String, IntOrString>,
    /// The same on some nodes alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub nodes: Vec<LimitsOnNodes>,
}

/// The limits on a set of jobs on some nodes at a time, together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsOnNodes {
    /// The nodes, by their labels.
    #[schemars(extend(
        "minProperties" = 1,
        "maxProperties" = 64,
        "additionalProperties" = validation::label_value()
    ))]
    pub node_selector: BTreeMap<String, String>,
    /// How much the pods on these nodes may request, by resource.
    #[schemars(extend(
        "minProperties" = 1,
        "maxProperties" = 64,
        "additionalProperties" = validation::quantity()
    ))]
    pub resources: BTreeMap<String, IntOrString>,
}

impl Limits {
    /// True if nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }
}

/// The rule by which jobs may start before others, by the names of Fluxion's queue policies: `fcfs`
/// no job before one that waits ahead of it in the queue; `easy` any job that does not delay the
/// first waiting job; `hybrid` any job that does not delay the first `reservationDepth` waiting
/// jobs; `conservative` any job that delays no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// No job before one that waits ahead of it in the queue.
    Fcfs,
    /// Any job that does not delay the first waiting job.
    Easy,
    /// Any job that does not delay the first `reservationDepth` waiting jobs.
    Hybrid,
    /// Any job that delays no other.
    Conservative,
}

/// The rule for waiting jobs of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum StopPolicy {
    /// Waiting jobs may start.
    #[default]
    None,
    /// Waiting jobs are held.
    Hold,
}

/// The treatment of a job that asks for more than the longest walltime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum MaxWalltimeAction {
    /// The job is refused.
    #[default]
    Refuse,
    /// The job is planned with the maximum. Fluxqueue does not end it then; its manifest has to.
    Clamp,
}

/// The content of the queue. The scheduler writes it some seconds after a change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxQueueStatus {
    /// Conditions. That of Fluxqueue is Accepted: whether the spec counts, and if not, which field
    /// of it cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::queue_schema")]
    pub conditions: Vec<Condition>,
    /// The spec that applies to the jobs of the queue: the last that was accepted. Absent if none
    /// ever was; then its jobs are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "validation::any_object")]
    pub accepted_spec: Option<Box<FluxQueueSpec>>,
    /// The number of jobs that wait.
    #[serde(default)]
    pub waiting: i32,
    /// The number of jobs that have nodes.
    #[serde(default)]
    pub running: i32,
    /// The resources that the pods of running jobs request, as Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 64,
        "additionalProperties" = { "type": "string", "maxLength": 64 }
    ))]
    pub used: BTreeMap<String, String>,
    /// The resources in use for kubectl, beside the limit where the queue has one in total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_usage: Option<String>,
    /// The limits for kubectl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_limits: Option<String>,
    /// The usage under the name that earlier versions gave to `displayUsage`. Fluxqueue writes it
    /// no more.
    #[serde(default, skip_serializing, rename = "usage")]
    pub old_usage: Option<String>,
    /// The limits under the name that earlier versions gave to `displayLimits`. Fluxqueue writes it
    /// no more.
    #[serde(default, skip_serializing, rename = "limits")]
    pub old_limits: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_for_kubectl_are_written_by_their_new_names() {
        let old = json!({ "waiting": 1, "running": 2, "usage": "2 cpu of 8", "limits": "8 cpu" });
        let mut read: FluxQueueStatus = serde_json::from_value(old).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json!({ "waiting": 1, "running": 2 }));
        read.display_usage = Some("2 cpu of 8".to_owned());
        assert_eq!(serde_json::to_value(&read).unwrap()["displayUsage"], "2 cpu of 8");
    }

    #[test]
    fn an_empty_spec_is_a_queue_for_all() {
        let read: FluxQueueSpec = serde_json::from_value(json!({})).unwrap();
        assert_eq!(read, FluxQueueSpec::default());
        assert_eq!(
            (read.stop_policy, read.max_walltime_action),
            (StopPolicy::None, MaxWalltimeAction::Refuse)
        );
    }
}
