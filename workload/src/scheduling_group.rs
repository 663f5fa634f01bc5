//! The PodGroup that a pod names, and the statement of a Job about the group of its pods.
//!
//! With the gate `WorkloadWithJob` the Job controller makes a PodGroup for every Job, also for one
//! that says nothing of scheduling, and names it in the Job's pods. The group of such a Job is
//! `basic`, which is no wish of a user: the pods stay Fluxqueue's gang. A pod alone does not tell
//! which group it has: the core looks at the Job ([`JobGroup`]) and at the group
//! ([`PodGroup`](crate::pod_group::PodGroup)).

use std::sync::Arc;

use fluxqueue_api::names::SUSPENDED;
use fluxqueue_api::text::{self, KEY_BYTES_MAX};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodSchedulingGroup, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::constraints::{NamespaceScope, Operator, PodSelector, PodTerm, Requirement};
use crate::ids::Uid;
use crate::pod_group::API_GROUP;
use crate::unsupported::Unsupported;

/// The field of Kubernetes 1.35 that names a pod's Workload.
const WORKLOAD_FIELD: &str = "spec.workloadRef";

/// What stands in front of the name of a Workload where one is kept as a group: no PodGroup has a
/// slash in its name.
const WORKLOAD_MARK: &str = "workloadRef/";

/// The way that is left to users.
const INSTEAD: &str = "use the labels fluxqueue/pod-group and fluxqueue/group-size";

/// The label by which terms about pods find the pods of a group. It stands on pods as they are read
/// here, and not in the API server: no key of a label begins with a slash.
const AS_LABEL: &str = "/podGroup";

/// The PodGroup that a pod names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedGroup {
    /// Its name, in the pod's namespace.
    pub name: Arc<str>,
    /// Its uid, if an owner reference of the pod names that too.
    pub uid: Option<Uid>,
}

/// The statement of a Job about Kubernetes' own groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobGroup {
    /// Nothing: the group in its pods is the one that the Job controller makes for every Job.
    #[default]
    Unsaid,
    /// Something, but for the policy: the Job controller fills that in.
    NoPolicy,
    /// The policy, or the group itself.
    Policy,
}

impl NamedGroup {
    /// Returns the group that a pod with this spec and these owners names.
    fn of(name: &str, metadata: &ObjectMeta) -> NamedGroup {
        let is_it = |api_version: &str, kind: &str, of: &str| {
            let group = api_version.split_once('/').map(|(group, _)| group);
            group == Some(API_GROUP) && kind == "PodGroup" && of == name
        };
        let owners = metadata.owner_references.iter().flatten();
        let mut owners = owners.filter(|of| is_it(&of.api_version, &of.kind, &of.name));
        let uid = owners
            .find_map(|of| (of.uid.len() <= KEY_BYTES_MAX).then(|| Uid::from(of.uid.as_str())));
        NamedGroup { name: text::name(name).into(), uid }
    }

    /// Returns the label that the pods of the group have, and no others of their namespace.
    pub fn label(&self) -> (Arc<str>, Arc<str>) {
        let value = self.uid.as_ref().map_or(&*self.name, |uid| uid);
        (AS_LABEL.into(), value.into())
    }

    /// Returns the term by which a pod of the group is in the same domain of a node label as the
    /// others of it.
    pub fn term(&self, namespace: &Arc<str>, topology_key: &Arc<str>) -> PodTerm {
        let (key, value) = self.label();
        let requirement = Requirement { key, operator: Operator::In, values: vec![value] };
        let namespaces = NamespaceScope { named: vec![Arc::clone(namespace)], selected: None };
        let pods = PodSelector { namespaces, labels: Some(vec![requirement]) };
        PodTerm { pods, topology_key: Arc::clone(topology_key) }
    }

    /// True if a term is that of a group.
    pub fn is_term(term: &PodTerm) -> bool {
        let labels = term.pods.labels.as_deref().unwrap_or_default();
        labels.iter().any(|requirement| &*requirement.key == AS_LABEL)
    }
}

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
    /// The first part that Fluxqueue does not honour, with its path in the Job.
    pub fn refused(self) -> Option<Unsupported> {
        self.claims.then(|| Unsupported {
            field: "spec.scheduling.resourceClaims".to_owned(),
            message: "dynamic resource allocation is not supported yet".to_owned(),
        })
    }

    /// True if the Job states something by which its pods are to be placed.
    pub fn says_something(self) -> bool {
        self.policy || self.constraints || self.claims
    }
}

/// A `spec.workloadRef`, as Kubernetes 1.35 has it, in the place that this build's types have for
/// such a thing.
pub fn of_workload_ref(workload: &str) -> PodSchedulingGroup {
    PodSchedulingGroup { pod_group_name: Some(format!("{WORKLOAD_MARK}{workload}")) }
}

/// The group of a pod, or why the pod is refused.
pub(super) fn of_pod(
    spec: &PodSpec,
    metadata: &ObjectMeta,
) -> Result<Option<NamedGroup>, Unsupported> {
    let Some(group) = &spec.scheduling_group else { return Ok(None) };
    let name = group.pod_group_name.as_deref().unwrap_or_default();
    if let Some(workload) = name.strip_prefix(WORKLOAD_MARK) {
        let message = format!("Workload {} is not supported: {INSTEAD}", text::quoted(workload));
        return Err(Unsupported { field: WORKLOAD_FIELD.to_owned(), message });
    }
    Ok(Some(NamedGroup::of(name, metadata)))
}

/// Why a Job is refused: its template names a Workload as 1.35 has it, or the group that the Job
/// controller makes for it has claims, or it is to wait without pods.
pub(super) fn of_job(job: &Job, is_to_wait: bool) -> Option<Unsupported> {
    let spec = job.spec.as_ref()?;
    let no_metadata = ObjectMeta::default();
    let of_template = spec.template.spec.as_ref();
    let of_template = of_template.and_then(|pod| of_pod(pod, &no_metadata).err());
    let in_template = |refused: Unsupported| Unsupported {
        field: format!("spec.template.{}", refused.field),
        ..refused
    };
    let waits = || {
        (is_to_wait && said_by(job) != JobGroup::Unsaid).then(|| Unsupported {
            field: format!("metadata.annotations[{SUSPENDED}]"),
            message: "a Job with a PodGroup that it describes itself cannot wait without pods"
                .to_owned(),
        })
    };
    of_template.map(in_template).or_else(|| scheduling_of(job).refused()).or_else(waits)
}

/// Returns the parts of a Job's `spec.scheduling`.
fn scheduling_of(job: &Job) -> JobScheduling {
    let said = job.spec.as_ref().and_then(|spec| spec.scheduling.as_ref());
    let said = said.map(|said| JobScheduling {
        policy: said.scheduling_policy.is_some(),
        constraints: said.scheduling_constraints.is_some(),
        claims: said.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()),
    });
    said.unwrap_or_default()
}

/// Returns the statement of a Job about the group of its pods.
pub(super) fn said_by(job: &Job) -> JobGroup {
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let names_one = pod.is_some_and(|pod| pod.scheduling_group.is_some());
    match scheduling_of(job) {
        JobScheduling { policy, .. } if policy || names_one => JobGroup::Policy,
        said if said.says_something() => JobGroup::NoPolicy,
        _ => JobGroup::Unsaid,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Controller, Pod, ShapeInterner};

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

    fn object(spec: &Value) -> Value {
        let mut job =
            json!({"metadata": {"name": "j", "namespace": "ns", "uid": "u"}, "spec": spec});
        if job["spec"]["template"].is_null() {
            job["spec"]["template"] = json!({});
        }
        job
    }

    /// A Job that is suspended for Fluxqueue.
    fn marked(spec: &Value) -> Value {
        let mut job = object(spec);
        job["metadata"]["annotations"] = json!({SUSPENDED: "true"});
        job["spec"]["suspend"] = json!(true);
        job
    }

    fn job(spec: &Value) -> Controller {
        let job = serde_json::from_value(object(spec)).unwrap();
        Controller::from_job(&job, &mut ShapeInterner::default()).unwrap()
    }

    fn refusal_of_job(spec: &Value) -> Option<String> {
        job(spec).scheduling.map(|refused| refused.field)
    }

    #[test]
    fn the_group_of_a_pod_is_read_beside_its_controller() {
        // The controller need not be the first owner.
        let api_version = "scheduling.k8s.io/v1beta1";
        let of_group =
            json!({"apiVersion": api_version, "kind": "PodGroup", "name": "j-1", "uid": "g"});
        let of_job = controller("batch/v1", "Job");
        let pod = pod(&json!([of_group, of_job]), &json!({"podGroupName": "j-1"}));
        assert_eq!(pod.owner.as_ref().map(|owner| &*owner.name), Some("j"), "the controller");
        let group = pod.scheduling_group.expect("it names one");
        assert_eq!((&*group.name, group.uid.as_deref()), ("j-1", Some("g")));
        assert_eq!(pod.unsupported, []);
    }

    #[test]
    fn the_uid_of_a_group_is_that_of_an_owner_reference_to_it() {
        let api_version = "scheduling.k8s.io/v1beta1";
        let owner = |api_version: &str, kind: &str, name: &str| {
            let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "g"});
            json!([owner])
        };
        for (owners, uid) in [
            (json!([]), None),
            (owner(api_version, "PodGroup", "ring"), Some("g")),
            (owner("scheduling.k8s.io/v1", "PodGroup", "ring"), Some("g")),
            (owner("example.com/v1", "PodGroup", "ring"), None),
            (owner(api_version, "Workload", "ring"), None),
            (owner(api_version, "PodGroup", "other"), None),
        ] {
            let pod = pod(&owners, &json!({"podGroupName": "ring"}));
            let group = pod.scheduling_group.expect("it names one");
            assert_eq!((&*group.name, group.uid.as_deref()), ("ring", uid), "{owners}");
            // Terms about pods find it, and no label of a user has such a key.
            let (key, value) = group.label();
            assert_eq!(&*value, uid.unwrap_or("ring"));
            assert!(pod.labels.first() == Some(&(key.clone(), value)) && key.starts_with('/'));
            let term = group.term(&"ns".into(), &"rack".into());
            assert!(NamedGroup::is_term(&term) && term.pods.selects("ns", &[], &pod.labels));
            assert!(!term.pods.selects("other", &[], &pod.labels));
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
    fn a_job_is_refused_for_claims_alone_unless_it_is_to_wait_without_pods() {
        assert_eq!(refusal_of_job(&json!({})), None);
        let topology = json!({"schedulingConstraints": {"topology": [{"key": "rack"}]}});
        let gang = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
        let claims = json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]});
        let nothing = [json!({}), json!({"disruptionMode": {"all": {}}})];
        for (scheduling, said) in nothing
            .into_iter()
            .map(|it| (it, JobGroup::Unsaid))
            .chain([(topology, JobGroup::NoPolicy), (gang, JobGroup::Policy)])
        {
            let spec = json!({"scheduling": scheduling});
            assert_eq!((refusal_of_job(&spec), job(&spec).said_of_group), (None, said), "{spec}");
            let waiting = Controller::from_job(
                &serde_json::from_value(marked(&spec)).unwrap(),
                &mut ShapeInterner::default(),
            );
            let field = waiting.unwrap().scheduling.map(|refused| refused.field);
            let expected = "metadata.annotations[fluxqueue/suspended]";
            let expected = (said != JobGroup::Unsaid).then_some(expected);
            assert_eq!(field.as_deref(), expected, "{spec}");
        }
        let field = refusal_of_job(&json!({"scheduling": claims}));
        assert_eq!(field.as_deref(), Some("spec.scheduling.resourceClaims"));
        let template =
            json!({"spec": {"containers": [], "schedulingGroup": {"podGroupName": "ring"}}});
        assert_eq!(job(&json!({"template": template})).said_of_group, JobGroup::Policy);
    }
}
