//! Refusals: admission refuses what Fluxqueue would refuse later, with the code by which Fluxqueue
//! reads pods.
//!
//! It judges only objects that name one of our schedulers, and in an update only the parts that the
//! update makes wrong: stored objects must remain usable.

use fluxqueue_api::names;
use fluxqueue_workload::{Pod, Refusal, ShapeInterner, exclusive, levels, walltime};
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::admission::Admission;
use crate::objects::{self, Kind};
use crate::review::{Object, PodPart, Request, SPEC_VALUES_MAX};

/// A fault in one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The JSON path of the field in the object.
    pub field: String,
    pub message: String,
}

/// The faults of an object, in most cases none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The faults for which the object is refused.
    pub problems: Vec<Problem>,
}

impl Admission {
    /// Returns the faults of a request's object that its old version did not have.
    pub(crate) fn judge(&self, request: &Request<'_>) -> Findings {
        let Some((kind, object)) = self.kind_of(request).zip(request.object.as_ref()) else {
            return Findings::default();
        };
        // An object in deletion only has to get rid of its finalizers.
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
        // The maker of an object from a template that was accepted is not to blame for it; the pods
        // are judged again.
        if kind != Kind::Pod && objects::controller(&object.metadata).is_some() {
            return findings;
        }
        if part.is_too_large() {
            let message =
                format!("has more than {SPEC_VALUES_MAX} values, so its rules cannot be checked");
            findings.problems.push(Problem { field: format!("{}spec", kind.prefix()), message });
        }
        if let Some(pod) = pod_of(kind, object, part) {
            findings.add_pod(&kind.prefix(), &pod);
        }
        if matches!(kind, Kind::Job | Kind::CronJob) {
            let of_jobs = if kind == Kind::CronJob { "spec.jobTemplate." } else { "" };
            findings.problems.extend(object.job.scheduling.refused().map(|refused| Problem {
                field: format!("{of_jobs}{}", refused.field),
                message: refused.message,
            }));
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
        // The scheduler starts such pods one by one, and warns; an author who is present can
        // correct it at once.
        if let Some(message) = pod.half_group_label() {
            self.problems.push(Problem { field: format!("{prefix}metadata.labels"), message });
        }
    }

    /// Adds the problem of a walltime on a CronJob itself, which reaches none of its Jobs: a
    /// CronJob hands on only the annotations of its template.
    fn add_lost_walltime<'a>(
        &mut self,
        metadata: &ObjectMeta,
        mut of_templates: impl Iterator<Item = &'a ObjectMeta>,
    ) {
        let says = |metadata: &ObjectMeta| walltime::of_object(metadata).is_some();
        if says(metadata) && !of_templates.any(says) {
            let message = format!(
                "a CronJob does not hand on its own annotations, so its Jobs have no walltime; \
                 put {} under \
                 spec.jobTemplate.metadata.annotations",
                names::WALLTIME,
            );
            self.problems.push(Problem {
                field: format!("metadata.annotations[{}]", names::WALLTIME),
                message,
            });
        }
    }

    /// Adds the faults in the annotations of a controller. The scheduler ignores a walltime that it
    /// cannot read, and warns; with other faults it refuses the pods.
    fn add_annotations(&mut self, path: &str, metadata: Option<&ObjectMeta>) {
        if let Some(metadata) = metadata {
            let of_walltime = walltime::of_object(metadata).and_then(Result::err);
            let of_nodes = exclusive::of_object(metadata).err();
            let of_levels = levels::of_object(metadata).err();
            for wrong in of_walltime.into_iter().chain(of_levels).chain(of_nodes) {
                let field = wrong.field.replacen("metadata", path, 1);
                self.problems.push(Problem { field, message: wrong.message });
            }
        }
    }
}

/// Reads the pod, or one of the pods that the template makes, as the scheduler reads it. `None` if
/// it is too large, or no pod that the API server would take.
pub(crate) fn pod_of(kind: Kind, object: &Object<'_>, part: &PodPart<'_>) -> Option<Pod> {
    let mut metadata =
        if kind == Kind::Pod { object.metadata.clone() } else { part.metadata.clone() };
    // The API server gives a pod these fields last. None of them decides whether the pod is
    // refused.
    for identity in [&mut metadata.name, &mut metadata.namespace, &mut metadata.uid] {
        identity.get_or_insert_with(|| "to-be-given".to_owned());
    }
    let pod = KubePod { metadata, spec: Some(part.spec()?), status: None };
    Pod::from_kubernetes(&pod, &mut ShapeInterner::with_capacity(1)).ok()
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
