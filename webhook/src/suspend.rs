//! The suspension of Jobs until they are placed, so that they wait without pods.
//!
//! The mark beside the suspension says that it is ours: the scheduler takes off both. Suspensions
//! of others are left alone, and so are Jobs of which too little is known before their pods are
//! there.

use fluxqueue_api::names;
use fluxqueue_workload::GROUP_SIZE_MAX;
use json_patch::{Patch, PatchOperation};
use kube::core::admission::Operation;

use crate::admission::Admission;
use crate::mutate::{add, annotate};
use crate::objects::{self, Kind};
use crate::review::{Object, PodPart, Request};
use crate::validate::pod_of;

/// The value of the annotation that marks the suspension.
const MARKED: &str = "true";

/// The label by which Kueue knows its Jobs, and suspends them.
const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// The value of `spec.managedBy` that names the Job controller.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

impl Admission {
    /// Returns the changes that make a Job wait without pods; none if it does already, or is not
    /// to.
    pub(crate) fn suspension(&self, request: &Request<'_>) -> Patch {
        Patch(self.suspend(request).unwrap_or_default())
    }

    fn suspend(&self, request: &Request<'_>) -> Option<Vec<PatchOperation>> {
        self.kind_of(request).filter(|kind| *kind == Kind::Job)?;
        let job = request.object.as_ref()?;
        let part = job.pod.as_ref().filter(|part| self.is_ours(part.scheduler()))?;
        if job.job.suspend {
            return None;
        }
        let suspended = add(&["spec", "suspend"], true.into());
        match request.operation {
            Operation::Create if may_be_suspended(job, part) => {
                Some(vec![suspended, add_mark(job)])
            }
            // A user who ends the suspension may not know that the Job waits.
            Operation::Update if is_marked(job) => Some(vec![suspended]),
            _ => None,
        }
    }
}

fn is_marked(job: &Object<'_>) -> bool {
    let mark =
        job.metadata.annotations.as_ref().and_then(|annotations| annotations.get(names::SUSPENDED));
    mark.is_some_and(|mark| mark == MARKED)
}

fn add_mark(job: &Object<'_>) -> PatchOperation {
    annotate(&["metadata"], Some(&job.metadata), names::SUSPENDED, MARKED)
}

/// True if no other program depends on the suspension of the Job, and its template shows what its
/// pods will be like.
fn may_be_suspended(job: &Object<'_>, part: &PodPart<'_>) -> bool {
    if objects::declines(&job.metadata) || part.declines() || part.has_node() {
        return false;
    }
    let is_kueues =
        job.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(KUEUE_QUEUE));
    let manager = job.job.managed_by.as_deref().unwrap_or(JOB_CONTROLLER);
    // The maker of the Job may act on its suspension. A CronJob does not.
    let is_made_by_others =
        objects::controller(&job.metadata).is_some_and(|kind| kind != "CronJob");
    // How the pods of such a Job start is not known before there is a PodGroup.
    let has_group = job.job.scheduling.says_something();
    if is_kueues || manager != JOB_CONTROLLER || is_made_by_others || has_group {
        return false;
    }
    let parallelism = job.job.parallelism.unwrap_or(1);
    let pods = parallelism.min(job.job.completions.unwrap_or(parallelism));
    let has_own_volumes =
        part.fields.volumes.iter().flatten().any(|volume| volume.ephemeral.is_some());
    // Other pods of its group may wait for its pods, and so may the owner of another gate.
    let pod = pod_of(Kind::Job, job, part);
    let stands_alone = pod.is_some_and(|pod| {
        let has_group = pod.group.is_some() || pod.scheduling_group.is_some();
        !has_group && pod.gates.iter().all(|gate| **gate == *names::GATE)
    });
    (1..=u64::from(GROUP_SIZE_MAX)).contains(&pods) && !has_own_volumes && stands_alone
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::mutate::tests::{admission, request};

    fn job(scheduler: &str) -> Value {
        json!({
            "metadata": {"name": "j"},
            "spec": {
                "parallelism": 2, "completions": 2, "suspend": false,
                "template": {"spec": {
                    "schedulerName": scheduler, "restartPolicy": "Never",
                    "containers": [{"name": "c"}],
                }},
            },
        })
    }

    fn patch(job: Value, old: Option<Value>) -> Value {
        serde_json::to_value(admission().suspension(&request("Job", job, old))).unwrap()
    }

    /// Returns the Job with this value at this path.
    fn with(path: &str, value: Value) -> Value {
        let mut job = job("fluxqueue");
        let (parent, name) = path.rsplit_once('/').unwrap();
        job.pointer_mut(parent).unwrap()[name] = value;
        job
    }

    #[test]
    fn a_new_job_of_ours_is_suspended_and_marked() {
        let suspended = json!({"op": "add", "path": "/spec/suspend", "value": true});
        let mark = json!({
            "op": "add", "path": "/metadata/annotations", "value": {"fluxqueue/suspended": "true"},
        });
        assert_eq!(patch(job("fluxqueue"), None), json!([suspended, mark]));
        let mark = json!({
            "op": "add", "path": "/metadata/annotations/fluxqueue~1suspended", "value": "true",
        });
        assert_eq!(
            patch(with("/metadata/annotations", json!({"a": "b"})), None),
            json!([suspended, mark])
        );
        let owner = |kind: &str| {
            json!([{
                "apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true,
            }])
        };
        assert_ne!(patch(with("/metadata/ownerReferences", owner("CronJob")), None), json!([]));
        assert_ne!(
            patch(with("/spec/managedBy", json!("kubernetes.io/job-controller")), None),
            json!([])
        );
        assert_ne!(
            patch(
                with("/spec/template/spec/schedulingGates", json!([{"name": "fluxqueue"}])),
                None
            ),
            json!([])
        );
    }

    #[test]
    fn suspensions_of_others_and_jobs_that_say_too_little_are_left_alone() {
        let owner = json!([{
            "apiVersion": "v1", "kind": "JobSet", "name": "o", "uid": "u", "controller": true,
        }]);
        let group = json!({"labels": {"fluxqueue/pod-group": "g", "fluxqueue/group-size": "2"}});
        let volume = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
        let left_alone = [
            job("default-scheduler"),
            with("/spec/suspend", json!(true)),
            with("/metadata/labels", json!({"kueue.x-k8s.io/queue-name": "q"})),
            with("/metadata/labels", json!({"fluxqueue/admission": "disabled"})),
            with("/metadata/ownerReferences", owner),
            with("/spec/managedBy", json!("kueue.x-k8s.io/multikueue")),
            with("/spec/parallelism", json!(0)),
            with("/spec/completions", json!(0)),
            with("/spec/template/metadata", group),
            with("/spec/template/spec/schedulingGroup", json!({"podGroupName": "g"})),
            with("/spec/scheduling", json!({"schedulingPolicy": {"basic": {}}})),
            with("/spec/template/spec/volumes", volume),
            with("/spec/template/spec/nodeName", json!("n")),
            with("/spec/template/spec/schedulingGates", json!([{"name": "another's"}])),
        ];
        for job in left_alone {
            assert_eq!(patch(job.clone(), None), json!([]), "{job}");
        }
        let pod = json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "fluxqueue"}});
        assert!(admission().suspension(&request("Pod", pod, None)).is_empty());
    }

    #[test]
    fn a_job_with_the_mark_cannot_be_resumed() {
        let marked = with("/metadata/annotations", json!({"fluxqueue/suspended": "true"}));
        let suspended = json!([{"op": "add", "path": "/spec/suspend", "value": true}]);
        assert_eq!(patch(marked.clone(), Some(marked)), suspended);
        // The scheduler takes mark and suspension off together.
        let released =
            with("/metadata/annotations", json!({"fluxqueue/released-at": "2026-01-01T00:00:00Z"}));
        assert_eq!(patch(released, Some(job("fluxqueue"))), json!([]));
    }
}
