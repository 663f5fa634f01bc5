//! Reads the objects that make pods: Jobs, ReplicaSets, Deployments, StatefulSets.

use std::sync::Arc;

use fluxqueue_api::names;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::exclusive;
use crate::group;
use crate::levels;
use crate::levels::LevelRules;
use crate::metadata::{self, InvalidObject};
use crate::object::OwnerKind;
use crate::object::{ObjectRef, Owner};
use crate::pod::GroupLabels;
use crate::scheduling_group::{self, JobGroup};
use crate::shape::ShapeInterner;
use crate::suspension;
use crate::suspension::{Suspension, SuspensionPhase};
use crate::time::Time;
use crate::unsupported::Unsupported;
use crate::walltime;
use crate::walltime::Lifetime;

/// An object that makes pods: a Job, ReplicaSet, Deployment or StatefulSet.
#[derive(Debug, Clone, PartialEq)]
pub struct Controller {
    /// Its identity.
    pub id: ObjectRef,
    /// Its kind; never [`OwnerKind::Other`].
    pub kind: OwnerKind,
    /// Its own controller (a ReplicaSet's Deployment; a Job's CronJob).
    pub owner: Option<Owner>,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// The number of pods that it wants at once: min(parallelism, completions - succeeded) of a Job
    /// (0 once it is finished or suspended), `spec.replicas` of the others.
    pub wants: u32,
    /// The number of pods that it can have at once before any of them is ready: like `wants` at the
    /// start (so before any success), but 1 for a StatefulSet with podManagementPolicy
    /// OrderedReady.
    pub can_start_together: u32,
    /// A Job's `status.succeeded`; 0 for the others.
    pub succeeded: u32,
    /// A Job's `spec.completions`, if it has one.
    pub completions: Option<u32>,
    /// A Job's `spec.parallelism` (1 if absent); replicas of the others.
    pub parallelism: u32,
    /// True if the Job has the condition Complete or Failed.
    pub finished: bool,
    /// True if the Job has the condition Failed (or FailureTarget).
    pub failed: bool,
    /// Its known end: a Job's `activeDeadlineSeconds` counted from `status.startTime` (an instant).
    pub deadline: Option<Time>,
    /// A Job's `activeDeadlineSeconds`.
    pub deadline_secs: Option<u64>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The group that the labels of its pod template name: its pods are members of that group, also
    /// those that it has not made yet.
    pub group: Option<GroupLabels>,
    /// The queue that the object's label names.
    pub queue: Option<Arc<str>>,
    /// The walltime annotation of the object ([`Lifetime::Seconds`], or [`Lifetime::Endless`] for
    /// `unlimited`); the error is about an unusable value (and names the annotation).
    pub walltime: Option<Result<Lifetime, Unsupported>>,
    /// The object's rules about levels of the machine, for those of its pods that have none
    /// themselves; the error is about an unusable annotation.
    pub levels: Result<LevelRules, Unsupported>,
    /// True if the object asks for nodes alone for its pods; `None` without the annotation; the
    /// error is about an unusable value.
    pub exclusive: Result<Option<bool>, Unsupported>,
    /// The part of a Job about Kubernetes' own groups for which it is refused.
    pub scheduling: Option<Unsupported>,
    /// The statement of a Job about the group that its pods name.
    pub said_of_group: JobGroup,
    /// The state of Fluxqueue's suspension, of a Job that it has had suspended and that has not
    /// ended.
    pub suspension: Option<Suspension>,
}

impl Controller {
    /// Reads a Job.
    pub fn from_job(job: &Job, shapes: &mut ShapeInterner) -> Result<Controller, InvalidObject> {
        let no_status = JobStatus::default();
        let status = job.status.as_ref().unwrap_or(&no_status);
        let spec = job.spec.as_ref();
        let has = |name: &str| {
            status.conditions.iter().flatten().any(|c| c.type_ == name && c.status == "True")
        };

        let parallelism = count(spec.and_then(|spec| spec.parallelism), 1);
        let completions =
            spec.and_then(|spec| spec.completions).map(|completions| count(Some(completions), 0));
        // An index that has failed for good (backoffLimitPerIndex) needs no success any more.
        let given_up = count_indexes(status.failed_indexes.as_deref().unwrap_or_default());
        let succeeded = count(status.succeeded, 0);
        let finished = has("Complete") || has("Failed");
        // From these conditions on the Job makes no pods, though it is finished only when the last
        // one has ended.
        let ending = has("SuccessCriteriaMet") || has("FailureTarget");
        // A Job that is suspended for us wants its pods all the same: others stand in for them.
        let suspended =
            spec.and_then(|spec| spec.suspend) == Some(true) && !suspension::is_marked(job);
        let wants = if finished || ending || suspended {
            0
        } else {
            match completions {
                Some(completions) => {
                    parallelism.min(completions.saturating_sub(given_up).saturating_sub(succeeded))
                }
                // In a work queue, no more pods are made after the first success, and those that
                // run go on.
                None if succeeded > 0 => parallelism.min(count(status.active, 0)),
                None => parallelism,
            }
        };
        let deadline_secs = spec.and_then(|spec| spec.active_deadline_seconds);
        let deadline = status.start_time.as_ref().zip(deadline_secs).map(|(start, seconds)| {
            Time(metadata::time(Some(start)).0.saturating_add(seconds.saturating_mul(1_000_000)))
        });

        let template = spec.and_then(|spec| spec.template.metadata.as_ref());
        let controller = elastic(OwnerKind::Job, "Job", (&job.metadata, template), 0)?;
        let suspension =
            if finished { None } else { Suspension::of_job(job, &controller.id, shapes) };
        let phase = suspension.as_ref().map(|suspension| &suspension.phase);
        let is_to_wait = matches!(phase, Some(SuspensionPhase::Marked { .. }));
        Ok(Controller {
            wants,
            suspension,
            can_start_together: completions
                .map_or(parallelism, |completions| parallelism.min(completions)),
            succeeded,
            completions: completions.map(|completions| completions.saturating_sub(given_up)),
            parallelism,
            finished,
            failed: has("Failed") || has("FailureTarget"),
            deadline,
            deadline_secs: deadline_secs.and_then(|seconds| u64::try_from(seconds).ok()),
            scheduling: scheduling_group::of_job(job, is_to_wait),
            said_of_group: scheduling_group::said_by(job),
            ..controller
        })
    }

    /// Reads a ReplicaSet.
    pub fn from_replica_set(set: &ReplicaSet) -> Result<Controller, InvalidObject> {
        let spec = &set.spec;
        let replicas = count(spec.replicas, 1);
        let template = spec.template.as_ref().and_then(|template| template.metadata.as_ref());
        elastic(OwnerKind::ReplicaSet, "ReplicaSet", (&set.metadata, template), replicas)
    }

    /// Reads a Deployment.
    pub fn from_deployment(deployment: &Deployment) -> Result<Controller, InvalidObject> {
        let spec = &deployment.spec;
        let replicas = count(spec.replicas, 1);
        let template = spec.template.metadata.as_ref();
        elastic(OwnerKind::Deployment, "Deployment", (&deployment.metadata, template), replicas)
    }

    /// Reads a StatefulSet.
    pub fn from_stateful_set(set: &StatefulSet) -> Result<Controller, InvalidObject> {
        let spec = &set.spec;
        let replicas = count(spec.replicas, 1);
        let template = spec.template.metadata.as_ref();
        let controller =
            elastic(OwnerKind::StatefulSet, "StatefulSet", (&set.metadata, template), replicas)?;
        // Ordered sets make the next pod when the one before is ready.
        let parallel = spec.pod_management_policy.as_deref() == Some("Parallel");
        let can_start_together = if parallel { replicas } else { replicas.min(1) };
        Ok(Controller { can_start_together, ..controller })
    }
}

/// Makes a controller that keeps `replicas` pods for ever, from its own metadata and those of its
/// pod template.
fn elastic(
    kind: OwnerKind,
    kind_name: &'static str,
    (metadata, template): (&ObjectMeta, Option<&ObjectMeta>),
    replicas: u32,
) -> Result<Controller, InvalidObject> {
    Ok(Controller {
        id: metadata::object_ref(kind_name, metadata)?,
        kind,
        owner: metadata::owner(metadata),
        created: metadata::time(metadata.creation_timestamp.as_ref()),
        wants: replicas,
        can_start_together: replicas,
        succeeded: 0,
        completions: None,
        parallelism: replicas,
        finished: false,
        failed: false,
        deadline: None,
        deadline_secs: None,
        deleting: metadata.deletion_timestamp.is_some(),
        group: group::of_labels(template.and_then(|template| template.labels.as_ref())),
        queue: metadata::label(metadata, names::QUEUE_NAME).map(Arc::from),
        walltime: walltime::of_object(metadata),
        levels: levels::of_object(metadata),
        exclusive: exclusive::of_object(metadata),
        scheduling: None,
        said_of_group: JobGroup::Unsaid,
        suspension: None,
    })
}

/// Reads a count of the API, which validates it to be 0 or more.
fn count(number: Option<i32>, default: u32) -> u32 {
    number.map_or(default, |number| u32::try_from(number).unwrap_or(0))
}

/// Counts the indexes that a list such as `1,3-5,7` names; an unreadable one names none.
fn count_indexes(indexes: &str) -> u32 {
    let size = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    indexes.split(',').filter_map(size).fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::walltime::Lifetime;

    fn job(spec: &Value, status: &Value) -> Controller {
        let mut spec = spec.clone();
        spec["template"] = json!({});
        let metadata = json!({"name": "j", "namespace": "ns", "uid": "u"});
        let job = json!({"metadata": metadata, "spec": spec, "status": status});
        Controller::from_job(&serde_json::from_value(job).unwrap(), &mut ShapeInterner::default())
            .unwrap()
    }

    #[test]
    fn a_job_wants_the_pods_that_it_still_needs_at_once() {
        // spec, status, wants, can start together
        let cases = [
            (json!({}), json!({}), 1, 1),
            (json!({"parallelism": 4, "completions": 10}), json!({}), 4, 4),
            (json!({"parallelism": 4, "completions": 10}), json!({"succeeded": 8}), 2, 4),
            (json!({"parallelism": 4, "completions": 2}), json!({}), 2, 2),
            (json!({"parallelism": 4, "completions": 4}), json!({"succeeded": 4}), 0, 4),
            (json!({"parallelism": 4, "completions": 4}), json!({"succeeded": 9}), 0, 4),
            (
                json!({"parallelism": 4, "completions": 6}),
                json!({"succeeded": 1, "failedIndexes": "0,2-3,x,9-8"}),
                2,
                4,
            ),
            (json!({"parallelism": 3}), json!({"active": 3}), 3, 3),
            (json!({"parallelism": 3}), json!({"active": 2, "succeeded": 1}), 2, 3),
            (json!({"parallelism": 0, "completions": 5}), json!({}), 0, 0),
            (json!({"parallelism": 3, "suspend": true}), json!({}), 0, 3),
            (
                json!({"parallelism": 3}),
                json!({"conditions": [{"type": "Complete", "status": "True"}]}),
                0,
                3,
            ),
            (
                json!({"parallelism": 3}),
                json!({"conditions": [{"type": "Complete", "status": "False"}]}),
                3,
                3,
            ),
            (
                json!({"parallelism": 3}),
                json!({"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}),
                0,
                3,
            ),
            (
                json!({"parallelism": 3}),
                json!({"conditions": [{"type": "FailureTarget", "status": "True"}]}),
                0,
                3,
            ),
        ];
        for (spec, status, wants, together) in cases {
            let read = job(&spec, &status);
            assert_eq!((read.wants, read.can_start_together), (wants, together), "{spec} {status}");
        }
    }

    #[test]
    fn a_job_ends_with_its_conditions_and_its_deadline() {
        let condition = |name: &str| json!({"conditions": [{"type": name, "status": "True"}]});
        for (name, finished, failed) in [
            ("Complete", true, false),
            ("Failed", true, true),
            ("FailureTarget", false, true),
            ("Suspended", false, false),
        ] {
            let read = job(&json!({}), &condition(name));
            assert_eq!((read.finished, read.failed), (finished, failed), "{name}");
        }
        let deadline = json!({"activeDeadlineSeconds": 60});
        let started = json!({"startTime": "1970-01-01T00:01:40Z"});
        assert_eq!(job(&deadline, &started).deadline, Some(Time::from_seconds(160)));
        let waits = job(&deadline, &json!({}));
        assert_eq!((waits.deadline, waits.deadline_secs), (None, Some(60)), "it has not started");
        assert_eq!(job(&json!({}), &started).deadline, None);
    }

    #[test]
    fn sets_want_their_replicas() {
        let object = |spec: Value| {
            json!({
                "metadata": {
                    "name": "s", "namespace": "ns", "uid": "u",
                    "annotations": {"fluxqueue/walltime": "unlimited"},
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "x",
                        "controller": true,
                    }],
                },
                "spec": spec,
            })
        };
        let selector = json!({});
        let set = object(json!({"replicas": 3, "selector": selector}));
        let read = Controller::from_replica_set(&serde_json::from_value(set).unwrap()).unwrap();
        assert_eq!(
            (read.kind, read.wants, read.can_start_together, read.parallelism),
            (OwnerKind::ReplicaSet, 3, 3, 3)
        );
        assert_eq!(read.owner.unwrap().kind, OwnerKind::Deployment);
        assert_eq!(read.walltime, Some(Ok(Lifetime::Endless)));

        let deployment = object(json!({"selector": selector, "template": {}}));
        let read =
            Controller::from_deployment(&serde_json::from_value(deployment).unwrap()).unwrap();
        assert_eq!((read.kind, read.wants), (OwnerKind::Deployment, 1));

        let stateful = |policy: &str, replicas: i32| {
            let spec = json!({
                "replicas": replicas, "podManagementPolicy": policy, "selector": selector,
                "serviceName": "", "template": {},
            });
            let read =
                Controller::from_stateful_set(&serde_json::from_value(object(spec)).unwrap())
                    .unwrap();
            (read.wants, read.can_start_together)
        };
        assert_eq!(stateful("OrderedReady", 4), (4, 1));
        assert_eq!(stateful("OrderedReady", 0), (0, 0));
        assert_eq!(stateful("Parallel", 4), (4, 4));
    }
}
