//! Nodes and workload from Kubernetes manifests: each object with the time at which it is
//! submitted, and the run time of its pods.
//!
//! PodGroups and Workloads in the same file count for the pods that name them
//! ([`groups`](super::groups)).
//!
//! Two annotations add the times that manifests lack, [`SUBMIT`] and [`RUN`]. They stand on the
//! submitted object: a Pod, Job, Deployment, ReplicaSet or StatefulSet. [`crate::submission`] reads
//! the pods that it makes.

use std::path::Path;
use std::sync::Arc;

use fluxqueue_api::manifest;
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::pod_group::PodGroup;
use fluxqueue_workload::{Controller, Lifetime, OwnerKind, Pod, ShapeInterner, metadata, walltime};
use k8s_openapi::api::core::v1::Node as KubeNode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::groups::{self, Groups};
use crate::submission::{
    self, Additions, Defaults, Submission, complete, expect_kind, name_of, parse,
};

/// Annotation: the time at which the object is submitted, as a duration from the beginning; without
/// it the object is there from the beginning.
pub(super) const SUBMIT: &str = "fluxqueue/simulated-submit";

/// Annotation: the time for which each of its pods runs; without it, the walltime.
pub(super) const RUN: &str = "fluxqueue/simulated-run";

/// The namespace of objects that name none.
const NAMESPACE: &str = "default";

/// An object that is submitted.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Its kind and name, or those of its group.
    pub name: Arc<str>,
    /// The submit time, in seconds from the beginning.
    pub submit: u64,
    /// The seconds for which each pod runs; `None` if it runs for ever.
    pub run: Option<u64>,
    /// The objects that make its pods, topmost first; empty for a lone pod.
    pub controllers: Vec<Controller>,
    /// The form of its pods.
    pub pod: Pod,
    /// The PodGroup that comes with it, if there is one.
    pub pod_group: Option<Arc<PodGroup>>,
    /// The number of pods at once, and in all if they end.
    pub at_once: usize,
    pub in_all: Option<usize>,
    /// True if its pods have completion indexes.
    pub is_indexed: bool,
}

/// The reason why manifests cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file cannot be read.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file is neither YAML nor JSON.
    #[error("{file}: {problem}")]
    Malformed {
        /// The file.
        file: String,
        /// The fault.
        problem: String,
    },
    /// An object is not usable.
    #[error("{file}: {object}: {problem}")]
    Object {
        /// The file.
        file: String,
        /// Its kind and name.
        object: String,
        /// The fault.
        problem: String,
    },
}

/// Reads the nodes of a file, in its order.
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
                let (node, unread) =
                    Node::from_kubernetes(&node).map_err(|error| error.to_string())?;
                unread.first().map_or(Ok(node), |error| Err(error.to_string()))
            };
            read().map_err(|problem| ManifestError::Object { file: file.clone(), object, problem })
        })
        .collect()
}

/// Reads the submissions in a file, in its order, and its PodGroups; pods that name no scheduler
/// get this one.
pub(super) fn items(
    path: &Path,
    scheduler: &str,
    shapes: &mut ShapeInterner,
) -> Result<(Vec<Item>, Groups), ManifestError> {
    let file = path.display().to_string();
    let wrong = |document: &Value, problem: String| ManifestError::Object {
        file: file.clone(),
        object: name_of(document),
        problem,
    };
    let mut groups = Groups::default();
    let mut submitted = Vec::new();
    for document in documents(path)? {
        let is_group =
            groups.take(&document, NAMESPACE).map_err(|problem| wrong(&document, problem))?;
        if !is_group {
            submitted.push(document);
        }
    }
    let read = |document: &Value| {
        item(document, scheduler, &groups, shapes).map_err(|problem| wrong(document, problem))
    };
    let items = submitted.iter().map(read).collect::<Result<_, _>>()?;
    Ok((items, groups))
}

/// Reads the documents of a file.
fn documents(path: &Path) -> Result<Vec<Value>, ManifestError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| ManifestError::Unreadable { file: file.clone(), source })?;
    manifest::documents(&text).map_err(|problem| ManifestError::Malformed { file, problem })
}

fn item(
    document: &Value,
    scheduler: &str,
    groups: &Groups,
    shapes: &mut ShapeInterner,
) -> Result<Item, String> {
    let additions = Additions::default();
    let defaults = Defaults {
        scheduler,
        namespace: NAMESPACE,
        priority_of: &|_| Ok(None),
        additions: &additions,
    };
    let Submission { kind, metadata, controllers, pod, is_indexed, group: pod_group } =
        submission::read(document, &defaults, shapes)?;
    let of_file = if pod_group.is_some() { None } else { groups.of(&pod)? };
    if controllers.first().is_some_and(|made_by| made_by.deadline_secs.is_some()) {
        return Err(
            "spec.activeDeadlineSeconds of a Job is not simulated: annotate fluxqueue/walltime"
                .into(),
        );
    }
    let submit = duration(&metadata, SUBMIT)?.unwrap_or(0);
    let (at_once, in_all) = controllers.first().map_or((1, Some(1)), |made_by| {
        let in_all = (made_by.kind == OwnerKind::Job)
            .then(|| made_by.completions.unwrap_or(made_by.parallelism));
        (made_by.can_start_together.max(made_by.wants) as usize, in_all.map(|count| count as usize))
    });
    let walltime = match controllers.first().and_then(|made_by| made_by.walltime.clone()) {
        Some(walltime) => walltime.map_err(|wrong| wrong.to_string())?,
        None => {
            let of_group = of_file.filter(|_| !pod.states_lifetime);
            of_group.and_then(|group| groups.walltime(group)).unwrap_or(pod.lifetime)
        }
    };
    let run = match (duration(&metadata, RUN)?, walltime) {
        (Some(run), _) => Some(run),
        (None, Lifetime::Seconds(seconds)) => Some(seconds),
        (None, Lifetime::Endless) => None,
        (None, Lifetime::Eventually) => {
            return Err(format!("has neither the annotation {RUN} nor fluxqueue/walltime"));
        }
    };
    let gang = of_file.filter(|group| !groups::is_basic(group));
    let group = || Some(format!("group/{}", pod.group.as_ref()?.name));
    let name = gang.map(|gang| format!("podgroup/{}", gang.id.key.name)).or_else(group);
    let name = name.unwrap_or_else(|| {
        format!("{}/{}", kind.to_lowercase(), metadata.name.unwrap_or_default())
    });
    Ok(Item {
        name: name.into(),
        submit,
        run,
        controllers,
        pod,
        pod_group,
        at_once,
        in_all,
        is_indexed,
    })
}

/// Reads an annotation that is a duration, in seconds. It may be 0.
fn duration(metadata: &ObjectMeta, name: &str) -> Result<Option<u64>, String> {
    let Some(value) = metadata::annotation(metadata, name) else { return Ok(None) };
    if value.trim() == "0" {
        return Ok(Some(0));
    }
    match walltime::parse(value) {
        Ok(Lifetime::Seconds(seconds)) => Ok(Some(seconds)),
        Ok(_) => Err(format!("annotation {name}: {value:?} is not a duration")),
        Err(reason) => Err(format!("annotation {name}: {value:?} {reason}")),
    }
}
