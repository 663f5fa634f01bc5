//! Reads the objects that make pods: Jobs, ReplicaSets, Deployments, StatefulSets.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::metadata::{self, InvalidObject};
use super::{Controller, OwnerKind, Time, walltime};

impl Controller {
    /// Reads a Job.
    pub fn from_job(job: &Job) -> Result<Controller, InvalidObject> {
        let no_status = JobStatus::default();
        let status = job.status.as_ref().unwrap_or(&no_status);
        let spec = job.spec.as_ref();
        let has = |name: &str| status.conditions.iter().flatten().any(|c| c.type_ == name && c.status == "True");

        let parallelism = count(spec.and_then(|spec| spec.parallelism), 1);
        let completions = spec.and_then(|spec| spec.completions).map(|completions| count(Some(completions), 0));
        let succeeded = count(status.succeeded, 0);
        let finished = has("Complete") || has("Failed");
        // From these conditions on the Job makes no pods, though it is finished only when the last one has ended.
        let ending = has("SuccessCriteriaMet") || has("FailureTarget");
        let suspended = spec.and_then(|spec| spec.suspend) == Some(true);
        let wants = if finished || ending || suspended {
            0
        } else {
            match completions {
                Some(completions) => {
                    let given_up = count_indexes(status.failed_indexes.as_deref().unwrap_or_default());
                    parallelism.min(completions.saturating_sub(succeeded).saturating_sub(given_up))
                }
                // A work queue: after the first success no pod is made any more, those that run go on.
                None if succeeded > 0 => parallelism.min(count(status.active, 0)),
                None => parallelism,
            }
        };
        let deadline_secs = spec.and_then(|spec| spec.active_deadline_seconds);
        let deadline = status.start_time.as_ref().zip(deadline_secs).map(|(start, seconds)| {
            Time(metadata::time(Some(start)).0.saturating_add(seconds.saturating_mul(1_000_000)))
        });

        Ok(Controller {
            wants,
            can_start_together: completions.map_or(parallelism, |completions| parallelism.min(completions)),
            succeeded,
            completions,
            parallelism,
            finished,
            failed: has("Failed") || has("FailureTarget"),
            deadline,
            ..elastic(OwnerKind::Job, "Job", &job.metadata, 0)?
        })
    }

    /// Reads a ReplicaSet.
    pub fn from_replica_set(set: &ReplicaSet) -> Result<Controller, InvalidObject> {
        let replicas = count(set.spec.as_ref().and_then(|spec| spec.replicas), 1);
        elastic(OwnerKind::ReplicaSet, "ReplicaSet", &set.metadata, replicas)
    }

    /// Reads a Deployment.
    pub fn from_deployment(deployment: &Deployment) -> Result<Controller, InvalidObject> {
        let replicas = count(deployment.spec.as_ref().and_then(|spec| spec.replicas), 1);
        elastic(OwnerKind::Deployment, "Deployment", &deployment.metadata, replicas)
    }

    /// Reads a StatefulSet.
    pub fn from_stateful_set(set: &StatefulSet) -> Result<Controller, InvalidObject> {
        let spec = set.spec.as_ref();
        let replicas = count(spec.and_then(|spec| spec.replicas), 1);
        let controller = elastic(OwnerKind::StatefulSet, "StatefulSet", &set.metadata, replicas)?;
        // Ordered sets make the next pod when the one before is ready.
        let parallel = spec.and_then(|spec| spec.pod_management_policy.as_deref()) == Some("Parallel");
        let can_start_together = if parallel { replicas } else { replicas.min(1) };
        Ok(Controller { can_start_together, ..controller })
    }
}

/// A controller that keeps `replicas` pods for ever.
fn elastic(
    kind: OwnerKind,
    kind_name: &'static str,
    metadata: &ObjectMeta,
    replicas: u32,
) -> Result<Controller, InvalidObject> {
    Ok(Controller {
        id: metadata::object_ref(kind_name, metadata)?,
        kind,
        owner: metadata::owner(metadata),
        wants: replicas,
        can_start_together: replicas,
        succeeded: 0,
        completions: None,
        parallelism: replicas,
        finished: false,
        failed: false,
        deadline: None,
        deleting: metadata.deletion_timestamp.is_some(),
        walltime: walltime::of_object(metadata),
    })
}

/// A count of the API, which validates it to be 0 or more.
fn count(number: Option<i32>, default: u32) -> u32 {
    number.map_or(default, |number| u32::try_from(number).unwrap_or(0))
}

/// How many indexes a list such as `1,3-5,7` names; what cannot be read names none.
fn count_indexes(list: &str) -> u32 {
    let size = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').filter_map(size).fold(0, u32::saturating_add)
}
