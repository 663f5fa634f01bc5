//! Submissions in manifests: the objects that make pods, and the pods as the API server and its
//! controllers would make them.
//!
//! Nothing here asks a cluster: the caller passes the changes that its admission makes
//! ([`Additions`]).

mod admission;

pub(crate) use admission::Additions;

use std::sync::Arc;

use fluxqueue_api::WorkloadKind;
use fluxqueue_workload::pod_group::{GroupVersion, PodGroup};
use fluxqueue_workload::{
    Controller, JobGroup, NamedGroup, Owner, OwnerKind, Pod, ShapeInterner, Time, scheduling_group,
    template,
};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod as KubePod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The kinds that can be submitted.
pub(crate) const KINDS: [WorkloadKind; 5] = [
    WorkloadKind::Pod,
    WorkloadKind::Job,
    WorkloadKind::Deployment,
    WorkloadKind::ReplicaSet,
    WorkloadKind::StatefulSet,
];

/// Returns the priority of pods that name a PriorityClass, or none; `None` if it is unknown.
pub(crate) type PriorityOf<'a> = dyn Fn(Option<&str>) -> Result<Option<i32>, String> + 'a;

/// The values for fields that an object leaves out.
pub(crate) struct Defaults<'a> {
    /// The scheduler of its pods.
    pub scheduler: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The priority of pods that name this PriorityClass, or none.
    pub priority_of: &'a PriorityOf<'a>,
    /// The changes that admission makes to its pods.
    pub additions: &'a Additions,
}

/// An object that is submitted.
#[derive(Debug, Clone)]
pub(crate) struct Submission {
    /// Its kind.
    pub kind: String,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// The objects that make its pods, topmost first; empty for a lone pod.
    pub controllers: Vec<Controller>,
    /// The form of its pods.
    pub pod: Pod,
    /// True if its pods have completion indexes.
    pub is_indexed: bool,
    /// The PodGroup that the Job controller makes for it, if it says something of that.
    pub group: Option<Arc<PodGroup>>,
}

/// Returns kind and name of an object, for people.
pub(crate) fn name_of(document: &Value) -> String {
    let kind = text(document, "/kind").unwrap_or("an object without kind");
    let name =
        text(document, "/metadata/name").or_else(|| text(document, "/metadata/generateName"));
    format!("{kind} {}", name.unwrap_or("without name"))
}

/// Fails unless the object is of one of these kinds.
pub(crate) fn expect_kind(document: &Value, kinds: &[&str]) -> Result<(), String> {
    let kind = text(document, "/kind").unwrap_or_default();
    if kinds.contains(&kind) { Ok(()) } else { Err(format!("is not of kind {}", kinds.join(", "))) }
}

/// Returns the RuntimeClass that the pods of an object name.
pub(crate) fn runtime_class_of(document: &Value) -> Option<&str> {
    text(document, "/spec/template/spec/runtimeClassName")
        .or_else(|| text(document, "/spec/runtimeClassName"))
}

/// Parses an object as its type.
pub(crate) fn parse<T: DeserializeOwned>(document: &Value) -> Result<T, String> {
    serde_json::from_value(document.clone()).map_err(|error| error.to_string())
}

fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path)?.as_str()
}

/// Adds the metadata that the API server adds.
pub(crate) fn complete(metadata: &mut ObjectMeta, kind: &str, namespace: Option<&str>) {
    if let Some(namespace) = namespace {
        metadata.namespace.get_or_insert_with(|| namespace.to_owned());
    }
    if let Some(prefix) = &metadata.generate_name {
        metadata.name.get_or_insert_with(|| format!("{prefix}00000"));
    }
    let name = metadata.name.as_deref().unwrap_or_default();
    let uid = format!("{kind}/{}/{name}", metadata.namespace.as_deref().unwrap_or_default());
    metadata.uid.get_or_insert(uid);
}

/// Reads a submission.
pub(crate) fn read(
    document: &Value,
    defaults: &Defaults<'_>,
    shapes: &mut ShapeInterner,
) -> Result<Submission, String> {
    expect_kind(document, &KINDS.map(WorkloadKind::as_str))?;
    let mut document = document.clone();
    let mut metadata: ObjectMeta = parse(&document["metadata"])?;
    let kind = text(&document, "/kind").unwrap_or_default().to_owned();
    complete(&mut metadata, &kind, Some(defaults.namespace));
    document["metadata"] = serde_json::to_value(&metadata).map_err(|error| error.to_string())?;

    let mut is_indexed = false;
    let controllers = match kind.as_str() {
        "Job" => {
            let mut job: Job = parse(&document)?;
            if let Some(spec) = &mut job.spec {
                // The API server sets this default; and in a work queue, every pod runs for its
                // full time.
                let parallelism = *spec.parallelism.get_or_insert(1);
                spec.completions.get_or_insert(parallelism);
            }
            let spec = job.spec.as_ref();
            is_indexed = spec.and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed");
            vec![Controller::from_job(&job, shapes).map_err(|error| error.to_string())?]
        }
        "Deployment" => {
            let above = Controller::from_deployment(&parse::<Deployment>(&document)?);
            let above = above.map_err(|error| error.to_string())?;
            let set = replica_set_of(&above);
            vec![above, set]
        }
        "ReplicaSet" => {
            vec![
                Controller::from_replica_set(&parse::<ReplicaSet>(&document)?)
                    .map_err(|error| error.to_string())?,
            ]
        }
        "StatefulSet" => {
            vec![
                Controller::from_stateful_set(&parse::<StatefulSet>(&document)?)
                    .map_err(|error| error.to_string())?,
            ]
        }
        _ => Vec::new(),
    };
    let pod = pod_of(&document, &metadata, &controllers, defaults, shapes)?;
    let mut submission = Submission { kind, metadata, controllers, pod, is_indexed, group: None };
    submission.add_group(&document["spec"]["scheduling"])?;
    Ok(submission)
}

impl Submission {
    /// Adds the PodGroup that the Job controller makes of this part of the Job, and names in its
    /// pods.
    fn add_group(&mut self, scheduling: &Value) -> Result<(), String> {
        let job = self.controllers.first().filter(|made_by| made_by.kind == OwnerKind::Job);
        let is_described = |job: &&Controller| job.said_of_group != JobGroup::Unsaid;
        let job = job.filter(is_described).filter(|_| self.pod.scheduling_group.is_none());
        if let Some(group) = job.map(|job| group_of(job, scheduling)).transpose()? {
            let named = NamedGroup { name: Arc::clone(&group.id.key.name), uid: None };
            self.pod.labels =
                std::iter::once(named.label()).chain(self.pod.labels.iter().cloned()).collect();
            self.pod.scheduling_group = Some(named);
            self.group = Some(Arc::new(group));
        }
        Ok(())
    }
}

/// Returns the PodGroup that the Job controller makes for a Job with this `spec.scheduling`.
fn group_of(job: &Controller, scheduling: &Value) -> Result<PodGroup, String> {
    let mut spec = scheduling.clone();
    if spec["schedulingPolicy"].is_null() {
        spec["schedulingPolicy"] = json!({"basic": {}});
    }
    let gang = spec.pointer_mut("/schedulingPolicy/gang");
    if let Some(gang) = gang.filter(|gang| gang.is_object() && gang["minCount"].is_null()) {
        gang["minCount"] = job.parallelism.into();
    }
    let metadata = ObjectMeta {
        name: Some(format!("{}-group", job.id.key.name)),
        namespace: Some(job.id.key.namespace.to_string()),
        uid: Some(format!("PodGroup/{}", job.id.uid)),
        ..ObjectMeta::default()
    };
    PodGroup::from_parts(GroupVersion::default(), &metadata, &spec, &Value::Null)
        .map_err(|error| error.to_string())
}

/// Returns the ReplicaSet by which a Deployment makes its pods.
fn replica_set_of(deployment: &Controller) -> Controller {
    let mut set = deployment.clone();
    let name = format!("{}-1", deployment.id.key.name);
    set.id.uid = format!("{}-1", deployment.id.uid).as_str().into();
    set.id.key.name = name.into();
    set.kind = OwnerKind::ReplicaSet;
    set.owner = Some(Owner::of(deployment.kind.clone(), &deployment.id));
    set
}

fn pod_of(
    document: &Value,
    metadata: &ObjectMeta,
    controllers: &[Controller],
    defaults: &Defaults<'_>,
    shapes: &mut ShapeInterner,
) -> Result<Pod, String> {
    let mut pod: KubePod = if controllers.is_empty() {
        parse(document)?
    } else {
        let template: PodTemplateSpec = parse(&document["spec"]["template"])?;
        let mut metadata =
            ObjectMeta { name: metadata.name.clone(), ..template.metadata.unwrap_or_default() };
        if let Some(job) = controllers.last().filter(|made_by| made_by.kind == OwnerKind::Job) {
            // The API server sets these labels; the label with the uid is left out, since there is
            // no uid yet.
            let labels = metadata.labels.get_or_insert_default();
            for label in ["job-name", "batch.kubernetes.io/job-name"] {
                labels.entry(label.to_owned()).or_insert_with(|| job.id.key.name.to_string());
            }
        }
        KubePod { metadata, spec: template.spec, status: None }
    };
    pod.metadata.namespace.clone_from(&metadata.namespace);
    pod.metadata.uid = Some("template".to_owned());
    let spec = pod.spec.get_or_insert_default();
    let workload = text(document, "/spec/template/spec/workloadRef/name")
        .or_else(|| text(document, "/spec/workloadRef/name"));
    if let Some(workload) = workload {
        spec.scheduling_group = Some(scheduling_group::of_workload_ref(workload));
    }
    spec.scheduler_name.get_or_insert_with(|| defaults.scheduler.to_owned());
    spec.restart_policy.get_or_insert_with(|| "Always".to_owned());
    if spec.priority.is_none() {
        spec.priority = (defaults.priority_of)(spec.priority_class_name.as_deref())?;
    }
    defaults.additions.add_to(&mut pod)?;
    template::fill_in(&mut pod);
    let mut pod = Pod::from_kubernetes(&pod, shapes).map_err(|error| error.to_string())?;
    pod.owner = controllers.last().map(|made_by| Owner::of(made_by.kind.clone(), &made_by.id));
    pod.created = Time(0);
    Ok(pod)
}
