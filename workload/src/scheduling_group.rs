//! Groups of Kubernetes' own (`PodGroup`): which of them leave a job as it is, and which are
//! refused.
//!
//! With the gate `WorkloadWithJob` the Job controller makes a PodGroup for every Job, also for one
//! that says nothing of scheduling, and names it in the Job's pods. The group of such a Job is
//! `basic`, which is no wish of a user: the pods stay Fluxqueue's gang. All other groups say
//! something that Fluxqueue does not honour yet, so they are refused by name.
//!
//! A pod alone does not tell which of the two its group is: [`of_pod`] refuses those of pods that
//! no Job made, and the core looks at the Job of the others
//! ([`Controller::scheduling`](crate::Controller)).

use std::sync::Arc;

use fluxqueue_api::text;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodSchedulingGroup, PodSpec};

use crate::object::{Owner, OwnerKind};
use crate::unsupported::Unsupported;

/// The field of a pod that names its PodGroup.
pub const FIELD: &str = "spec.schedulingGroup";

/// The field of Kubernetes 1.35 that names a pod's Workload.
const WORKLOAD_FIELD: &str = "spec.workloadRef";

/// What stands in front of the name of a Workload where one is kept as a group: no PodGroup has a
/// slash in its name.
const WORKLOAD_MARK: &str = "workloadRef/";

/// The way that is left to users.
const INSTEAD: &str = "use the labels fluxqueue/pod-group and fluxqueue/group-size";

/// The parts of a Job's `spec.scheduling` that matter here: true for those that are there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobScheduling {
    /// True if there is a `schedulingPolicy`.
    pub policy: bool,
    /// True if there are `schedulingConstraints`.
    pub constraints: bool,
    /// True if there are `resourceClaims`.
    pub claims: bool,
}

impl JobScheduling {
    /// The first part that Fluxqueue does not honour, with its path in the Job. A `disruptionMode`
    /// alone is no matter of placing pods.
    pub fn refused(self) -> Option<Unsupported> {
        let parts = [
            (self.policy, "schedulingPolicy"),
            (self.constraints, "schedulingConstraints"),
            (self.claims, "resourceClaims"),
        ];
        let (_, part) = parts.into_iter().find(|(is_there, _)| *is_there)?;
        let message =
            format!("scheduling by Kubernetes' own groups is not supported yet: {INSTEAD}");
        Some(Unsupported { field: format!("spec.scheduling.{part}"), message })
    }
}

/// A `spec.workloadRef`, as Kubernetes 1.35 has it, in the place that this build's types have for
/// such a thing.
pub fn of_workload_ref(workload: &str) -> PodSchedulingGroup {
    PodSchedulingGroup { pod_group_name: Some(format!("{WORKLOAD_MARK}{workload}")) }
}

/// The group of a pod that a Job made, or why the group of a pod is refused.
pub(super) fn of_pod(
    spec: &PodSpec,
    owner: Option<&Owner>,
) -> Result<Option<Arc<str>>, Unsupported> {
    let Some(group) = &spec.scheduling_group else { return Ok(None) };
    let name = group.pod_group_name.as_deref().unwrap_or_default();
    if let Some(workload) = name.strip_prefix(WORKLOAD_MARK) {
        let message = format!("Workload {} is not supported: {INSTEAD}", text::quoted(workload));
        return Err(Unsupported { field: WORKLOAD_FIELD.to_owned(), message });
    }
    if owner.is_some_and(|owner| owner.kind == OwnerKind::Job) {
        return Ok(Some(text::name(name).into()));
    }
    Err(refused(name))
}

/// Why the pods of a group are refused.
pub fn refused(group: &str) -> Unsupported {
    let message = format!(
        "PodGroup {} is not one that the Job controller makes by itself, and others are not \
         supported yet: {INSTEAD}",
        text::quoted(group)
    );
    Unsupported { field: FIELD.to_owned(), message }
}

/// Why a Job is refused: its pods are in a group that its template names, or the group that the Job
/// controller makes for it has a policy, constraints or claims of its own.
pub(super) fn of_job(job: &Job) -> Option<Unsupported> {
    let spec = job.spec.as_ref()?;
    let of_template = spec.template.spec.as_ref().and_then(|pod| of_pod(pod, None).err());
    let in_template = |refused: Unsupported| Unsupported {
        field: format!("spec.template.{}", refused.field),
        ..refused
    };
    let scheduling = spec.scheduling.as_ref().map(|said| JobScheduling {
        policy: said.scheduling_policy.is_some(),
        constraints: said.scheduling_constraints.is_some(),
        claims: said.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()),
    });
    of_template.map(in_template).or_else(|| scheduling.unwrap_or_default().refused())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Controller;
    use crate::pod::Pod;
    use crate::shape::ShapeInterner;

    /// A reference to the object that made a pod, of this kind.
    fn controller(version: &str, kind: &str) -> Value {
        json!({"apiVersion": version, "kind": kind, "name": "j", "uid": "j", "controller": true})
    }

    fn pod(owners: &Value, group: &Value) -> Pod {
        let metadata =
            json!({"name": "p", "namespace": "ns", "uid": "u", "ownerReferences": owners});
        let spec = json!({"containers": [], "schedulingGroup": group});
        let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        Pod::from_kubernetes(&pod, &mut ShapeInterner::default()).unwrap()
    }

    fn refusal_of_job(spec: &Value) -> Option<String> {
        let mut job =
            json!({"metadata": {"name": "j", "namespace": "ns", "uid": "u"}, "spec": spec});
        if job["spec"]["template"].is_null() {
            job["spec"]["template"] = json!({});
        }
        let job = serde_json::from_value(job).unwrap();
        let read = Controller::from_job(&job, &mut ShapeInterner::default()).unwrap();
        read.scheduling.map(|refused| refused.field)
    }

    #[test]
    fn the_group_of_a_pod_that_a_job_made_is_a_matter_of_the_job() {
        // The controller need not be the first owner.
        let api_version = "scheduling.k8s.io/v1beta1";
        let of_group =
            json!({"apiVersion": api_version, "kind": "PodGroup", "name": "j-1", "uid": "g"});
        let of_job = controller("batch/v1", "Job");
        let pod = pod(&json!([of_group, of_job]), &json!({"podGroupName": "j-1"}));
        assert_eq!(pod.owner.as_ref().map(|owner| &*owner.name), Some("j"), "the controller");
        assert_eq!((pod.scheduling_group.as_deref(), &*pod.unsupported), (Some("j-1"), &[][..]));
    }

    #[test]
    fn every_other_group_is_refused_by_name() {
        let not_controller =
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j"}]);
        let set = json!([controller("apps/v1", "ReplicaSet")]);
        for owners in [json!([]), not_controller, set] {
            let pod = pod(&owners, &json!({"podGroupName": "ring"}));
            let refused = &pod.unsupported[..];
            assert_eq!(refused.len(), 1, "{owners}");
            assert_eq!(refused[0].field, "spec.schedulingGroup");
            assert!(refused[0].message.contains("PodGroup \"ring\""), "{}", refused[0].message);
            assert_eq!(pod.scheduling_group, None);
        }
    }

    #[test]
    fn a_workload_ref_is_refused_by_name_with_and_without_a_job() {
        let of_job = json!([controller("batch/v1", "Job")]);
        let group = serde_json::to_value(of_workload_ref("train")).unwrap();
        for owners in [json!([]), of_job] {
            let refused = &pod(&owners, &group).unsupported;
            assert_eq!(refused[0].field, "spec.workloadRef");
            assert!(refused[0].message.starts_with("Workload \"train\""), "{}", refused[0].message);
        }
    }

    #[test]
    fn a_job_that_says_nothing_of_groups_is_not_refused() {
        assert_eq!(refusal_of_job(&json!({})), None);
        assert_eq!(refusal_of_job(&json!({"scheduling": {}})), None);
        assert_eq!(refusal_of_job(&json!({"scheduling": {"disruptionMode": {"all": {}}}})), None);
        let said = |scheduling: Value| refusal_of_job(&json!({"scheduling": scheduling})).unwrap();
        let policy = "spec.scheduling.schedulingPolicy";
        assert_eq!(said(json!({"schedulingPolicy": {"basic": {}}})), policy);
        assert_eq!(said(json!({"schedulingPolicy": {"gang": {"minCount": 2}}})), policy);
        let topology = json!({"schedulingConstraints": {"topology": [{"key": "rack"}]}});
        assert_eq!(said(topology), "spec.scheduling.schedulingConstraints");
        let claims = json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]});
        assert_eq!(said(claims), "spec.scheduling.resourceClaims");
        let template =
            json!({"spec": {"containers": [], "schedulingGroup": {"podGroupName": "ring"}}});
        let field = refusal_of_job(&json!({"template": template}));
        assert_eq!(field.as_deref(), Some("spec.template.spec.schedulingGroup"));
    }
}
