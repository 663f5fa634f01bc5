//! `FluxQueue`: a queue, as its administrator wants it. `spec` is people's, `status` the scheduler's.
//!
//! Cluster-scoped: all queues share one machine. What a field means to jobs is in docs/queues.md.
#![expect(clippy::duplicated_attributes, reason = "every printer column has a type of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::validation;

/// The rules of a queue. What is absent is as the settings of the process say.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "jobs.converged-computing.org",
    version = "v1alpha1",
    kind = "FluxQueue",
    plural = "fluxqueues",
    singular = "fluxqueue",
    shortname = "fq",
    status = "FluxQueueStatus",
    doc = "A queue of Fluxqueue: who may wait in it, and what goes for those who do.",
    printcolumn(
        name = "Policy",
        type_ = "string",
        json_path = ".spec.policy",
        description = "Who may start before whom"
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
        description = "Whether those who wait are held"
    ),
    printcolumn(name = "Waiting", type_ = "integer", json_path = ".status.waiting", description = "Jobs that wait"),
    printcolumn(
        name = "Running",
        type_ = "integer",
        json_path = ".status.running",
        description = "Jobs that have nodes"
    ),
    printcolumn(name = "Used", type_ = "string", json_path = ".status.usage", description = "What those who run have"),
    printcolumn(
        name = "Limits",
        type_ = "string",
        json_path = ".status.limits",
        description = "How much they may have"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validation::default_within_maximum()))]
pub struct FluxQueueSpec {
    /// Namespaces whose jobs may use it, by their labels. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Who may start before whom within the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Only the first so many in the queue may be promised a start. Whoever fits starts, wherever he stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queue_depth: Option<i32>,
    /// With `hybrid`, how many of those who wait are promised a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub reservation_depth: Option<i32>,
    /// How long others may go ahead of the first who waits in the queue, if nobody knows when he can start, in seconds; 0: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bypass_seconds: Option<i64>,
    /// Queues of higher priority go first; the jobs of queues of equal priority are merged by their own priority and age.
    #[serde(default)]
    pub priority: i32,
    /// The nodes that its jobs may use, by their labels. Absent: all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub node_selector: BTreeMap<String, String>,
    /// Whether those who wait may start. What runs goes on.
    #[serde(default)]
    pub stop_policy: StopPolicy,
    /// The walltime of a job that says none and would end some day, in seconds. Absent: the maximum, if there is one, else that of
    /// the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub default_walltime_seconds: Option<i64>,
    /// The longest walltime of a job, in seconds. Services have no walltime, and are refused by a queue with a maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_walltime_seconds: Option<i64>,
    /// What becomes of a job that asks for more than the maximum.
    #[serde(default)]
    pub max_walltime_action: MaxWalltimeAction,
    /// How much its jobs may have at a time. What is planned counts over the time for which it is planned.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
}

/// How much the jobs of a queue may have at a time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// All of them together.
    #[serde(flatten)]
    pub in_all: LimitsOfScope,
    /// Those of each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_namespace: Option<LimitsOfScope>,
}

/// How much some jobs may have at a time, together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsOfScope {
    /// Jobs that have nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub running_jobs: Option<i32>,
    /// Jobs that wait in the queue. Who comes when there are as many waits outside, without a place, until there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub waiting_jobs: Option<i32>,
    /// What their pods ask for, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub resources: BTreeMap<String, IntOrString>,
    /// The same on some nodes alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub nodes: Vec<LimitsOnNodes>,
}

/// How much of some nodes some jobs may have at a time, together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsOnNodes {
    /// The nodes, by their labels.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64))]
    pub node_selector: BTreeMap<String, String>,
    /// What pods on them ask for, by resource.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64))]
    pub resources: BTreeMap<String, IntOrString>,
}

impl Limits {
    /// Nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }
}

/// Who may start before whom: Fluxion's queue policies, by their names there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Nobody before one of the queue who waits ahead of him.
    Fcfs,
    /// Whoever does not delay the first who waits.
    Easy,
    /// Whoever does not delay the first `reservationDepth` who wait.
    Hybrid,
    /// Whoever delays nobody.
    Conservative,
}

/// Whether those who wait in a queue may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum StopPolicy {
    /// They may.
    #[default]
    None,
    /// They are held.
    Hold,
}

/// What becomes of a job that asks for more than the longest walltime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum MaxWalltimeAction {
    /// It is refused.
    #[default]
    Refuse,
    /// It is planned with the maximum. Nobody ends it then: its manifest has to.
    Clamp,
}

/// What is in the queue. Written by the scheduler, some seconds after it has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxQueueStatus {
    /// Jobs that wait.
    #[serde(default)]
    pub waiting: i32,
    /// Jobs that have nodes.
    #[serde(default)]
    pub running: i32,
    /// What their pods ask for, as Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = { "type": "string", "maxLength": 64 }))]
    pub used: BTreeMap<String, String>,
    /// For kubectl: what is used, of what there may be where that is limited for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// For kubectl: the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_empty_spec_is_a_queue_for_all() {
        let read: FluxQueueSpec = serde_json::from_value(json!({})).unwrap();
        assert_eq!(read, FluxQueueSpec::default());
        assert_eq!((read.stop_policy, read.max_walltime_action), (StopPolicy::None, MaxWalltimeAction::Refuse));
    }
}
