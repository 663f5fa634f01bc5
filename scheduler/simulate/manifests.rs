//! Nodes and workload from Kubernetes manifests: what is submitted when, and how long its pods run.
//!
//! Two annotations say what no manifest does, [`SUBMIT`] and [`RUN`]. They stand on the object that is submitted: a Pod, Job, Deployment,
//! ReplicaSet or StatefulSet. Objects are read by the same code as those of a cluster.

use std::path::Path;
use std::sync::Arc;

use fluxqueue_core::cluster::Node;
use fluxqueue_workload::{Controller, Lifetime, Owner, OwnerKind, Pod, ShapeInterner, Time, metadata, walltime};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node as KubeNode, Pod as KubePod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Annotation: when the object is submitted, as a duration from the beginning; at once if it is not there.
pub(super) const SUBMIT: &str = "fluxqueue/simulated-submit";

/// Annotation: how long each of its pods runs; for as long as its walltime if it is not there.
pub(super) const RUN: &str = "fluxqueue/simulated-run";

/// Something that is submitted.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Its kind and name, or that of the group of which it is a part.
    pub name: Arc<str>,
    /// Seconds from the beginning.
    pub submit: u64,
    /// How many seconds each pod runs; `None`: for ever.
    pub run: Option<u64>,
    /// What makes its pods, topmost first; nothing for a pod by itself.
    pub controllers: Vec<Controller>,
    /// What its pods are like.
    pub pod: Pod,
    /// How many there are at once, and in all, if they end.
    pub at_once: usize,
    pub in_all: Option<usize>,
    /// They have completion indexes.
    pub is_indexed: bool,
}

/// Why manifests cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file cannot be read.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is neither YAML nor JSON.
    #[error("{file}: {problem}")]
    Malformed {
        /// The file.
        file: String,
        /// Why.
        problem: String,
    },
    /// An object is not what is expected.
    #[error("{file}: {object}: {problem}")]
    Object {
        /// The file.
        file: String,
        /// Its kind and name.
        object: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The nodes of a file, in its order.
pub(super) fn nodes(path: &Path) -> Result<Vec<Node>, ManifestError> {
    let file = path.display().to_string();
    documents(path)?
        .into_iter()
        .map(|document| {
            let object = name_of(&document);
            let read = || {
                expect_kind(&document, &["Node"])?;
                let mut node: KubeNode = parse(&document)?;
                complete(&mut node.metadata, "Node", None);
                let (node, unread) = Node::from_kubernetes(&node).map_err(|error| error.to_string())?;
                unread.first().map_or(Ok(node), |error| Err(error.to_string()))
            };
            read().map_err(|problem| ManifestError::Object { file: file.clone(), object, problem })
        })
        .collect()
}

/// What the files submit, in their order; pods that name no scheduler are taken to name this one.
pub(super) fn items(path: &Path, scheduler: &str, shapes: &mut ShapeInterner) -> Result<Vec<Item>, ManifestError> {
    let file = path.display().to_string();
    let mut items = Vec::new();
    for document in documents(path)? {
        let item = item(&document, scheduler, shapes).map_err(|problem| ManifestError::Object {
            file: file.clone(),
            object: name_of(&document),
            problem,
        })?;
        items.push(item);
    }
    Ok(items)
}

/// The documents of a file; a List is those that it holds.
fn documents(path: &Path) -> Result<Vec<Value>, ManifestError> {
    let file = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| ManifestError::Unreadable { file: file.clone(), source })?;
    let malformed = |problem: String| ManifestError::Malformed { file: file.clone(), problem };
    let read: Vec<Value> = if text.trim_start().starts_with('{') {
        let values = serde_json::Deserializer::from_str(&text).into_iter();
        values.collect::<Result<_, _>>().map_err(|error: serde_json::Error| malformed(error.to_string()))?
    } else {
        serde_saphyr::from_multiple(&text).map_err(|error| malformed(error.to_string()))?
    };
    let mut documents = Vec::new();
    for mut value in read {
        if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
            documents.append(items);
        } else if !value.is_null() {
            documents.push(value);
        }
    }
    Ok(documents)
}

fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path)?.as_str()
}

fn name_of(document: &Value) -> String {
    let kind = text(document, "/kind").unwrap_or("an object without kind");
    format!("{kind} {}", text(document, "/metadata/name").unwrap_or("without name"))
}

fn expect_kind(document: &Value, kinds: &[&str]) -> Result<(), String> {
    let kind = text(document, "/kind").unwrap_or_default();
    if kinds.contains(&kind) { Ok(()) } else { Err(format!("is not of kind {}", kinds.join(", "))) }
}

fn parse<T: DeserializeOwned>(document: &Value) -> Result<T, String> {
    serde_json::from_value(document.clone()).map_err(|error| error.to_string())
}

/// What the API server adds.
fn complete(metadata: &mut ObjectMeta, kind: &str, namespace: Option<&str>) {
    if let Some(namespace) = namespace {
        metadata.namespace.get_or_insert_with(|| namespace.to_owned());
    }
    let name = metadata.name.as_deref().unwrap_or_default();
    let uid = format!("{kind}/{}/{name}", metadata.namespace.as_deref().unwrap_or_default());
    metadata.uid.get_or_insert(uid);
}

fn item(document: &Value, scheduler: &str, shapes: &mut ShapeInterner) -> Result<Item, String> {
    expect_kind(document, &["Pod", "Job", "Deployment", "ReplicaSet", "StatefulSet"])?;
    let mut document = document.clone();
    let mut metadata: ObjectMeta = parse(&document["metadata"])?;
    let kind = text(&document, "/kind").unwrap_or_default().to_owned();
    complete(&mut metadata, &kind, Some("default"));
    document["metadata"] = serde_json::to_value(&metadata).map_err(|error| error.to_string())?;

    let mut is_indexed = false;
    let controllers = match kind.as_str() {
        "Job" => {
            let mut job: Job = parse(&document)?;
            if let Some(spec) = &mut job.spec {
                // As the API server has it; and of a work queue every pod has its time.
                let parallelism = *spec.parallelism.get_or_insert(1);
                spec.completions.get_or_insert(parallelism);
            }
            let spec = job.spec.as_ref();
            is_indexed = spec.and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed");
            if spec.is_some_and(|spec| spec.active_deadline_seconds.is_some()) {
                return Err("spec.activeDeadlineSeconds of a Job is not simulated: annotate fluxqueue/walltime".into());
            }
            vec![Controller::from_job(&job).map_err(|error| error.to_string())?]
        }
        "Deployment" => {
            let above = Controller::from_deployment(&parse::<Deployment>(&document)?);
            let above = above.map_err(|error| error.to_string())?;
            let set = replica_set_of(&above);
            vec![above, set]
        }
        "ReplicaSet" => {
            vec![Controller::from_replica_set(&parse::<ReplicaSet>(&document)?).map_err(|error| error.to_string())?]
        }
        "StatefulSet" => {
            vec![Controller::from_stateful_set(&parse::<StatefulSet>(&document)?).map_err(|error| error.to_string())?]
        }
        _ => Vec::new(),
    };
    let pod = pod_of(&document, &metadata, &controllers, scheduler, shapes)?;
    let submit = duration(&metadata, SUBMIT)?.unwrap_or(0);
    let (at_once, in_all) = controllers.first().map_or((1, Some(1)), |made_by| {
        let in_all = (made_by.kind == OwnerKind::Job).then(|| made_by.completions.unwrap_or(made_by.parallelism));
        (made_by.can_start_together.max(made_by.wants) as usize, in_all.map(|count| count as usize))
    });
    let walltime = match controllers.first().and_then(|made_by| made_by.walltime.clone()) {
        Some(walltime) => walltime?,
        None => pod.lifetime,
    };
    let run = match (duration(&metadata, RUN)?, walltime) {
        (Some(run), _) => Some(run),
        (None, Lifetime::Seconds(seconds)) => Some(seconds),
        (None, Lifetime::Endless) => None,
        (None, Lifetime::Eventually) => return Err(format!("says neither {RUN} nor fluxqueue/walltime")),
    };
    let group = pod.group.as_ref().map(|group| format!("group/{}", group.name));
    let name = group.unwrap_or_else(|| format!("{}/{}", kind.to_lowercase(), metadata.name.unwrap_or_default()));
    Ok(Item { name: name.into(), submit, run, controllers, pod, at_once, in_all, is_indexed })
}

/// What a Deployment makes its pods by.
fn replica_set_of(deployment: &Controller) -> Controller {
    let mut set = deployment.clone();
    let name = format!("{}-1", deployment.id.key.name);
    set.id.uid = format!("{}-1", deployment.id.uid).as_str().into();
    set.id.key.name = name.into();
    set.kind = OwnerKind::ReplicaSet;
    set.owner = Some(owner(deployment));
    set
}

/// An owner reference.
pub(super) fn owner(made_by: &Controller) -> Owner {
    let api_version = if made_by.kind == OwnerKind::Job { "batch/v1" } else { "apps/v1" };
    Owner {
        kind: made_by.kind.clone(),
        name: Arc::clone(&made_by.id.key.name),
        uid: made_by.id.uid.clone(),
        api_version: api_version.into(),
    }
}

fn pod_of(
    document: &Value,
    metadata: &ObjectMeta,
    controllers: &[Controller],
    scheduler: &str,
    shapes: &mut ShapeInterner,
) -> Result<Pod, String> {
    let mut pod: KubePod = if controllers.is_empty() {
        parse(document)?
    } else {
        let template: PodTemplateSpec = parse(&document["spec"]["template"])?;
        let metadata = ObjectMeta { name: metadata.name.clone(), ..template.metadata.unwrap_or_default() };
        KubePod { metadata, spec: template.spec, status: None }
    };
    pod.metadata.namespace.clone_from(&metadata.namespace);
    pod.metadata.uid = Some("template".to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.scheduler_name.get_or_insert_with(|| scheduler.to_owned());
    spec.restart_policy.get_or_insert_with(|| "Always".to_owned());
    let mut pod = Pod::from_kubernetes(&pod, shapes).map_err(|error| error.to_string())?;
    pod.owner = controllers.last().map(owner);
    pod.created = Time(0);
    Ok(pod)
}

/// An annotation that is a duration, in seconds. 0 is one here.
fn duration(metadata: &ObjectMeta, name: &str) -> Result<Option<u64>, String> {
    let Some(value) = metadata::annotation(metadata, name) else { return Ok(None) };
    if value.trim() == "0" {
        return Ok(Some(0));
    }
    match walltime::parse(value) {
        Ok(Lifetime::Seconds(seconds)) => Ok(Some(seconds)),
        Ok(_) => Err(format!("annotation {name}: {value:?} is no duration")),
        Err(reason) => Err(format!("annotation {name}: {value:?} {reason}")),
    }
}
