//! A Job that waits without pods: the owner of its suspension, and the form of its pods.

use std::sync::Arc;

use fluxqueue_api::names;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use crate::metadata;
use crate::object::{ObjectRef, Owner, OwnerKind};
use crate::pod::Pod;
use crate::shape::ShapeInterner;
use crate::template;
use crate::time::Time;
use crate::walltime::Lifetime;

/// A Job that Fluxqueue has had suspended.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspension {
    /// The phase of the suspension.
    pub phase: SuspensionPhase,
    /// The form of its pods, as far as its template shows it.
    pub sample: Pod,
    /// The PriorityClass that they name.
    pub priority_class: Option<Arc<str>>,
    /// True if its pods have completion indexes.
    pub is_indexed: bool,
}

/// The phase of a suspension for Fluxqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuspensionPhase {
    /// It carries the mark (`names::SUSPENDED`): it has to wait without pods.
    Marked {
        /// `metadata.resourceVersion`: writes to the Job name this version.
        resource_version: Option<Arc<str>>,
        /// `spec.suspend`. If false, a user has released it who may not.
        is_suspended: bool,
    },
    /// Mark and suspension were removed together.
    Released {
        /// The time of the release (`names::RELEASED_AT`).
        at: Time,
    },
}

/// True if a Job carries our mark: then a suspension of it is ours.
pub(super) fn is_marked(job: &Job) -> bool {
    metadata::annotation(&job.metadata, names::SUSPENDED) == Some("true")
}

impl Suspension {
    /// Returns the state of Fluxqueue's suspension of a Job; `None` for a Job that it never
    /// suspended.
    pub(super) fn of_job(
        job: &Job,
        id: &ObjectRef,
        shapes: &mut ShapeInterner,
    ) -> Option<Suspension> {
        let spec = job.spec.as_ref()?;
        let phase = if is_marked(job) {
            SuspensionPhase::Marked {
                resource_version: job.metadata.resource_version.as_deref().map(Arc::from),
                is_suspended: spec.suspend == Some(true),
            }
        } else {
            let at: Timestamp =
                metadata::annotation(&job.metadata, names::RELEASED_AT)?.parse().ok()?;
            SuspensionPhase::Released { at: Time(at.as_microsecond()) }
        };
        let of_pods = spec.template.metadata.clone().unwrap_or_default();
        let metadata = ObjectMeta {
            name: job.metadata.name.clone(),
            namespace: job.metadata.namespace.clone(),
            uid: job.metadata.uid.clone(),
            creation_timestamp: job.metadata.creation_timestamp.clone(),
            labels: of_pods.labels,
            annotations: of_pods.annotations,
            ..ObjectMeta::default()
        };
        let mut of_pod = spec.template.spec.clone().unwrap_or_default();
        // Gates are removed from pods later, and volumes that are made with a pod are handled with
        // it.
        of_pod.scheduling_gates = None;
        of_pod
            .volumes
            .iter_mut()
            .for_each(|volumes| volumes.retain(|volume| volume.ephemeral.is_none()));
        let priority_class =
            of_pod.priority_class_name.as_deref().filter(|name| !name.is_empty()).map(Arc::from);
        let mut pod = KubePod { metadata, spec: Some(of_pod), status: None };
        template::fill_in(&mut pod);
        let mut sample = Pod::from_kubernetes(&pod, shapes).ok()?;
        sample.stands_in = true;
        // A stand-in belongs to the Job, whatever its labels are: other pods of a group may never
        // come without it.
        sample.group = None;
        sample.owner = Some(Owner::of(OwnerKind::Job, id));
        // The Job's time begins with its pods, and ends them.
        let deadline = spec.active_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        sample.lifetime = match (sample.lifetime, deadline) {
            (Lifetime::Seconds(own), Some(deadline)) => Lifetime::Seconds(own.min(deadline)),
            (_, Some(deadline)) => Lifetime::Seconds(deadline),
            (own, None) => own,
        };
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        Some(Suspension { phase, sample, priority_class, is_indexed })
    }

    /// Makes one of the pods that stand in for those that the Job will have, with this priority.
    pub fn stand_in(&self, number: u32, priority: i32) -> Pod {
        let mut pod = Pod { priority, ..self.sample.clone() }.stand_in_of_number(number);
        pod.completion_index = self.is_indexed.then_some(number);
        pod
    }

    /// Makes the pod that stands in for all that the Job will have, while these have no place.
    pub fn stand_in_for_all(&self, priority: i32) -> Pod {
        Pod { priority, ..self.sample.clone() }.stand_in_of_number(0)
    }
}

impl Pod {
    /// Makes another stand-in of the same Job. Its number is in its name and its uid.
    #[must_use]
    pub fn stand_in_of_number(&self, number: u32) -> Pod {
        let mut pod = self.clone();
        if let Some(job) = &self.owner {
            pod.id.key.name = format!("{}-{number}", job.name).into();
            // No uid of the API server has a slash.
            pod.id.uid = format!("{}/{number}", job.uid).into();
        }
        pod
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Controller;

    fn read(annotations: &Value, more: &Value) -> Controller {
        let mut spec = json!({
            "suspend": true, "parallelism": 3, "completions": 2, "completionMode": "Indexed",
            "activeDeadlineSeconds": 90,
            "template": {
                "metadata": {
                    "labels": {"app": "a", "fluxqueue/pod-group": "g", "fluxqueue/group-size": "9"},
                },
                "spec": {
                    "schedulerName": "fluxqueue", "restartPolicy": "Never",
                    "priorityClassName": "high",
                    "schedulingGates": [{"name": "another's"}],
                    "containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}],
                    "volumes": [
                        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                    ],
                },
            },
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let metadata = json!({
            "name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "annotations": annotations,
            "creationTimestamp": "1970-01-01T00:00:10Z",
        });
        let job = json!({"metadata": metadata, "spec": spec});
        Controller::from_job(&serde_json::from_value(job).unwrap(), &mut ShapeInterner::default())
            .unwrap()
    }

    #[test]
    fn a_marked_job_wants_pods_and_has_a_sample_of_them() {
        let job = read(&json!({"fluxqueue/suspended": "true"}), &json!({}));
        assert_eq!(job.wants, 2, "that it is suspended is ours");
        let suspension = job.suspension.expect("it is marked");
        let version = Some(Arc::from("7"));
        assert_eq!(
            suspension.phase,
            SuspensionPhase::Marked { resource_version: version, is_suspended: true }
        );
        assert_eq!(suspension.priority_class.as_deref(), Some("high"));
        let pod = suspension.stand_in(1, 5);
        assert_eq!(
            (&*pod.id.key.name, &*pod.id.uid, pod.completion_index),
            ("j-1", "u/1", Some(1))
        );
        assert_eq!(pod.owner.as_ref().map(|owner| &*owner.uid), Some("u"));
        assert_eq!(
            (pod.shape.requests.get("cpu"), pod.label("app"), pod.priority),
            (2000, Some("a"), 5)
        );
        assert_eq!((pod.lifetime, pod.created), (Lifetime::Seconds(90), Time::from_seconds(10)));
        assert!(
            pod.stands_in
                && pod.gates.is_empty()
                && pod.group.is_none()
                && pod.resource_version.is_none()
        );
        assert_eq!(pod.claims.len(), 1, "one is made with each pod");
        let all = suspension.stand_in_for_all(5);
        assert_eq!((&*all.id.uid, all.completion_index, all.priority), ("u/0", None, 5));
        let third = all.stand_in_of_number(2);
        assert_eq!((&*third.id.key.name, &*third.id.uid, third.stands_in), ("j-2", "u/2", true));
    }

    #[test]
    fn pods_apart_within_their_job_may_be_near_other_jobs_with_their_labels() {
        let term = json!({
            "topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}},
            "matchLabelKeys": ["job-name"],
        });
        let apart =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let template = |job: &str| {
            json!({"template": {
                "metadata": {"labels": {"app": "x", "job-name": job}},
                "spec": {
                    "schedulerName": "fluxqueue", "containers": [{"name": "c"}], "affinity": apart,
                },
            }})
        };
        let stand_in = |job: &str| {
            let job = read(&json!({"fluxqueue/suspended": "true"}), &template(job));
            job.suspension.expect("it is marked").stand_in(0, 0)
        };
        let (one, other) = (stand_in("one"), stand_in("other"));
        let selects = |term: &crate::constraints::PodTerm, pod: &Pod| {
            term.pods.selects("ns", &[], &pod.labels)
        };
        let term = &one.shape.constraints.repels[0];
        assert!(selects(term, &one) && !selects(term, &other));
    }

    #[test]
    fn others_suspensions_are_others() {
        let job = read(&json!({}), &json!({}));
        assert_eq!((job.wants, job.suspension), (0, None));
        let job = read(
            &json!({"fluxqueue/suspended": "true"}),
            &json!({"suspend": false, "completionMode": "NonIndexed"}),
        );
        let suspension = job.suspension.expect("it is marked");
        assert!(matches!(suspension.phase, SuspensionPhase::Marked { is_suspended: false, .. }));
        assert_eq!(suspension.stand_in(0, 0).completion_index, None);
    }

    #[test]
    fn one_that_was_released_says_when_and_a_suspension_of_it_is_anothers() {
        let released = json!({"fluxqueue/released-at": "1970-01-01T00:01:00.5Z"});
        let job = read(&released, &json!({}));
        assert_eq!(job.wants, 0);
        assert_eq!(
            job.suspension.unwrap().phase,
            SuspensionPhase::Released { at: Time(60_500_000) }
        );
        assert_eq!(read(&json!({"fluxqueue/released-at": "soon"}), &json!({})).suspension, None);
    }
}
