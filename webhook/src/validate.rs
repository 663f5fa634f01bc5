//! What is refused: what Fluxqueue would refuse, by the code that Fluxqueue reads pods with.
//!
//! Only of what names one of our schedulers, and of an update only what it makes wrong: what is
//! stored already must remain usable.

use fluxqueue_api::names;
use fluxqueue_workload::{Pod, Refusal, ShapeInterner, exclusive, levels, walltime};
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::admission::Admission;
use crate::objects::{self, Kind};
use crate::review::{Object, PodPart, Request, SPEC_VALUES_MAX};

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// JSON path in the object.
    pub field: String,
    pub message: String,
}

/// What there is to say of an object. Nothing is the rule.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// What it is refused for.
    pub problems: Vec<Problem>,
}

impl Admission {
    /// What is wrong with the object of a request, and was not wrong before.
    pub(crate) fn judge(&self, request: &Request<'_>) -> Findings {
        let Some((kind, object)) = self.kind_of(request).zip(request.object.as_ref()) else {
            return Findings::default();
        };
        // What is being deleted only has to get rid of its finalizers.
        if object.metadata.deletion_timestamp.is_some() {
            return Findings::default();
        }
        let mut findings = self.findings(kind, object);
        if let Some(old) = &request.old_object {
            let before = self.findings(kind, old);
            findings.problems.retain(|problem| !before.problems.contains(problem));
        }
        findings
    }

    fn findings(&self, kind: Kind, object: &Object<'_>) -> Findings {
        let mut findings = Findings::default();
        let part =
            object.pod.as_ref().filter(|part| self.is_ours(part.scheduler()) && !part.has_node());
        let Some(part) = part else { return findings };
        // Who made an object from a template that was accepted is not to blame for it; its pods are
        // looked at again.
        if kind != Kind::Pod && objects::controller(&object.metadata).is_some() {
            return findings;
        }
        if part.is_too_large() {
            let message =
                format!("has more than {SPEC_VALUES_MAX} values, which are not looked at");
            findings.problems.push(Problem { field: format!("{}spec", kind.prefix()), message });
        }
        if let Some(pod) = pod_of(kind, object, part) {
            findings.add_pod(&kind.prefix(), &pod);
        }
        findings.add_annotations("metadata", Some(&object.metadata).filter(|_| kind != Kind::Pod));
        findings.add_annotations("spec.jobTemplate.metadata", object.of_jobs.as_ref());
        if kind == Kind::CronJob {
            findings
                .add_lost_walltime(&object.metadata, object.of_jobs.iter().chain([&part.metadata]));
        }
        findings
    }
}

impl Findings {
    fn add_pod(&mut self, prefix: &str, pod: &Pod) {
        for refusal in pod.refusals() {
            let (field, message) = match refusal {
                Refusal::GroupSize(message) => ("metadata.labels", message),
                Refusal::Unsupported(refused) => (refused.field.as_str(), refused.message.as_str()),
            };
            self.problems
                .push(Problem { field: format!("{prefix}{field}"), message: message.to_owned() });
        }
        // The scheduler starts such pods one by one, and says so; an author who is there to be told
        // can mend it.
        if let Some(message) = pod.half_group_label() {
            self.problems.push(Problem { field: format!("{prefix}metadata.labels"), message });
        }
    }

    /// A walltime that a CronJob says for itself reaches none of its Jobs: it hands on the
    /// annotations of its template only.
    fn add_lost_walltime<'a>(
        &mut self,
        metadata: &ObjectMeta,
        mut of_templates: impl Iterator<Item = &'a ObjectMeta>,
    ) {
        let says = |metadata: &ObjectMeta| walltime::of_object(metadata).is_some();
        if says(metadata) && !of_templates.any(says) {
            let message = format!(
                "a CronJob does not hand on its own annotations: its Jobs have no walltime; put {} under \
                 spec.jobTemplate.metadata.annotations",
                names::WALLTIME,
            );
            self.problems.push(Problem {
                field: format!("metadata.annotations[{}]", names::WALLTIME),
                message,
            });
        }
    }

    /// What controllers say of their pods. The scheduler takes a walltime that it cannot read for
    /// none, and says so; for the others it refuses the pods.
    fn add_annotations(&mut self, path: &str, metadata: Option<&ObjectMeta>) {
        let Some(metadata) = metadata else { return };
        if let Some(Err(message)) = walltime::of_object(metadata) {
            let field = format!("{path}.annotations[{}]", names::WALLTIME);
            self.problems.push(Problem { field, message });
        }
        let of_nodes = exclusive::of_object(metadata).err();
        for wrong in levels::of_object(metadata).err().into_iter().chain(of_nodes) {
            let field = wrong.field.replacen("metadata", path, 1);
            self.problems.push(Problem { field, message: wrong.message });
        }
    }
}

/// The pod, or one of those that the template makes, as the scheduler reads it. `None` if it is too
/// large, or none that the API server would take.
pub(crate) fn pod_of(kind: Kind, object: &Object<'_>, part: &PodPart<'_>) -> Option<Pod> {
    let mut metadata =
        if kind == Kind::Pod { object.metadata.clone() } else { part.metadata.clone() };
    // What the API server gives a pod last. None of it decides whether the pod is refused.
    for identity in [&mut metadata.name, &mut metadata.namespace, &mut metadata.uid] {
        identity.get_or_insert_with(|| "to-be-given".to_owned());
    }
    let pod = KubePod { metadata, spec: Some(part.spec()?), status: None };
    Pod::from_kubernetes(&pod, &mut ShapeInterner::with_capacity(1)).ok()
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
