//! One look at the cluster: the submitted objects, their pods, and the FluxJobs about them.

use std::collections::BTreeMap;

use fluxqueue_api::{FluxJob, JobState};
use fluxqueue_workload::{Pod, ShapeInterner};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::expect::ANNOTATION;

/// The objects that one look has found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// Jobs, Deployments, ReplicaSets and StatefulSets.
    pub workloads: Vec<Workload>,
    pub pods: Vec<SeenPod>,
    /// The FluxJobs, by the name of the workload or group.
    pub records: BTreeMap<String, Record>,
}

/// An object that makes pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workload {
    pub name: String,
    /// The object that made it: the Deployment of a ReplicaSet.
    pub owner: Option<String>,
    /// The expectation, if its manifest states one.
    pub expected: Option<String>,
    /// The reasons of its conditions that are true, by their types.
    pub conditions: BTreeMap<String, String>,
}

/// A pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenPod {
    pub name: String,
    /// The object that made it.
    pub owner: Option<String>,
    pub expected: Option<String>,
    pub phase: String,
    /// The reason of this phase.
    pub reason: String,
    pub is_bound: bool,
    /// The time at which it was given a node.
    pub scheduled: Option<Timestamp>,
    /// The group whose pods start together.
    pub group: Option<String>,
}

/// The parts of a FluxJob that the demo shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub state: Option<JobState>,
    /// The reason for which the job waits.
    pub blocked_by: Option<String>,
}

impl Workload {
    /// Makes a workload from an object, and from the types and reasons of its conditions that are
    /// true.
    pub(crate) fn new(
        meta: &ObjectMeta,
        conditions: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        Workload {
            name: meta.name.clone().unwrap_or_default(),
            owner: owner(meta),
            expected: expected(meta),
            conditions: conditions.into_iter().collect(),
        }
    }
}

impl SeenPod {
    pub(crate) fn new(pod: &KubePod, shapes: &mut ShapeInterner) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let scheduled = status
            .conditions
            .iter()
            .flatten()
            .find(|it| it.type_ == "PodScheduled" && it.status == "True");
        let group = Pod::from_kubernetes(pod, shapes).ok().and_then(|pod| pod.group);
        SeenPod {
            name: pod.metadata.name.clone().unwrap_or_default(),
            owner: owner(&pod.metadata),
            expected: expected(&pod.metadata),
            phase: status.phase.unwrap_or_default(),
            reason: status.reason.unwrap_or_default(),
            is_bound: pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()),
            scheduled: scheduled.and_then(|it| it.last_transition_time.as_ref()).map(|at| at.0),
            group: group.map(|group| group.name.to_string()),
        }
    }
}

impl Record {
    /// Reads a FluxJob, and returns the name of its workload too.
    pub(crate) fn of(job: &FluxJob) -> (String, Self) {
        let status = job.status.clone().unwrap_or_default();
        let record = Record {
            state: status.state,
            blocked_by: status.blocked_by.into_iter().next().map(|first| first.message),
        };
        (job.spec.workload_ref.name.clone(), record)
    }
}

fn owner(meta: &ObjectMeta) -> Option<String> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.name.clone())
}

fn expected(meta: &ObjectMeta) -> Option<String> {
    meta.annotations.as_ref()?.get(ANNOTATION).cloned()
}
