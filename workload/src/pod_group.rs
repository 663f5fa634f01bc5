//! PodGroups and Workloads of Kubernetes' own (`scheduling.k8s.io`), as far as they say how pods
//! start.
//!
//! The versions of the API differ in fields that do not matter here, such as `disruptionMode`, in
//! the field that names the Workload, and in the type of the condition: all are read by one reader,
//! and the stable version, which does not exist yet, as the latest beta.

use std::sync::Arc;

use fluxqueue_api::names::QUEUE_NAME;
use fluxqueue_api::text::{self, KEY_BYTES_MAX};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::metadata::{self, InvalidObject};
use crate::object::{ObjectRef, Owner};
use crate::time::Time;
use crate::unsupported::Unsupported;
use crate::walltime::{self, Lifetime};

/// The API group of PodGroups and Workloads.
pub const API_GROUP: &str = "scheduling.k8s.io";

/// A version of the API group that serves PodGroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GroupVersion {
    /// The stable one, which is read as [`GroupVersion::V1beta1`].
    V1,
    /// That of Kubernetes 1.37.
    #[default]
    V1beta1,
    /// The alpha version of Kubernetes 1.37.
    V1alpha3,
    /// That of Kubernetes 1.36.
    V1alpha2,
}

/// A PodGroup.
#[derive(Debug, Clone, PartialEq)]
pub struct PodGroup {
    /// Its identity.
    pub id: ObjectRef,
    /// `metadata.resourceVersion`: writes to the group name this version.
    pub resource_version: Option<Arc<str>>,
    /// `metadata.creationTimestamp`: its terms count for no pod that began before.
    pub created: Time,
    /// `metadata.generation`: the condition names it.
    pub generation: i64,
    /// The version in which it was read, and is written.
    pub version: GroupVersion,
    /// How its pods start; the error is about a policy that is not known, or cannot be read.
    pub policy: Result<GroupPolicy, Unsupported>,
    /// The node label of which all pods of the group are to be in one value.
    pub topology: Option<Arc<str>>,
    /// `spec.priority`, as admission has filled it in: that of all its pods.
    pub priority: Option<i32>,
    /// The first other part of it that is not supported.
    pub unsupported: Option<Unsupported>,
    /// The name of its Workload.
    pub workload: Option<Arc<str>>,
    /// The object that made it: the Job, for a group that the Job controller made.
    pub controller: Option<Owner>,
    /// Its labels and annotations about its pods.
    pub terms: Terms,
    /// Its condition about the start of its pods, as last seen.
    pub condition: Option<GroupCondition>,
}

/// How the pods of a group start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupPolicy {
    /// Pod by pod.
    Basic,
    /// No pod starts before this number of pods can start together.
    Gang(u32),
}

/// A Workload: its PodGroups name it.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupWorkload {
    /// Its identity.
    pub id: ObjectRef,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// What its labels and annotations say of the pods of its groups.
    pub terms: Terms,
}

/// What an object says of pods by Fluxqueue's labels and annotations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// The queue, by a label or an annotation.
    pub queue: Option<Arc<str>>,
    /// The walltime annotation; the error is about an unusable value (and names the annotation).
    pub walltime: Option<Result<Lifetime, Unsupported>>,
}

/// The condition of a group about the start of its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCondition {
    /// True if the group has started: this never changes any more.
    pub is_true: bool,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The generation of the group that it is about.
    pub observed_generation: i64,
}

impl GroupVersion {
    /// All versions, the newest first.
    pub const NEWEST_FIRST: [GroupVersion; 4] =
        [GroupVersion::V1, GroupVersion::V1beta1, GroupVersion::V1alpha3, GroupVersion::V1alpha2];

    /// Returns its name in paths.
    pub fn as_str(self) -> &'static str {
        match self {
            GroupVersion::V1 => "v1",
            GroupVersion::V1beta1 => "v1beta1",
            GroupVersion::V1alpha3 => "v1alpha3",
            GroupVersion::V1alpha2 => "v1alpha2",
        }
    }

    /// Returns the type of the condition about the start of a group's pods.
    pub fn condition_type(self) -> &'static str {
        match self {
            GroupVersion::V1 | GroupVersion::V1beta1 | GroupVersion::V1alpha3 => {
                "PodGroupInitiallyScheduled"
            }
            GroupVersion::V1alpha2 => "PodGroupScheduled",
        }
    }
}

impl PodGroup {
    /// Makes a group that says nothing but its policy.
    pub fn new(id: ObjectRef, policy: GroupPolicy) -> PodGroup {
        PodGroup {
            id,
            resource_version: None,
            created: Time::default(),
            generation: 1,
            version: GroupVersion::default(),
            policy: Ok(policy),
            topology: None,
            priority: None,
            unsupported: None,
            workload: None,
            controller: None,
            terms: Terms::default(),
            condition: None,
        }
    }

    /// Reads a PodGroup of this version from its parts. Fails only without a name, namespace or
    /// uid: any other fault is kept as a reason to refuse its pods.
    pub fn from_parts(
        version: GroupVersion,
        metadata: &ObjectMeta,
        spec: &Value,
        status: &Value,
    ) -> Result<PodGroup, InvalidObject> {
        let id = metadata::object_ref("PodGroup", metadata)?;
        let (topology, bad_constraints) = match topology(&spec["schedulingConstraints"]) {
            Ok(topology) => (topology, None),
            Err(wrong) => (None, Some(wrong)),
        };
        Ok(PodGroup {
            id,
            resource_version: metadata.resource_version.as_deref().map(Arc::from),
            created: metadata::time(metadata.creation_timestamp.as_ref()),
            generation: metadata.generation.unwrap_or_default(),
            version,
            policy: policy(&spec["schedulingPolicy"]),
            topology,
            priority: spec["priority"].as_i64().and_then(|value| i32::try_from(value).ok()),
            unsupported: unsupported(spec).or(bad_constraints),
            workload: workload(spec).map(|name| text::name(name).into()),
            controller: metadata::owner(metadata),
            terms: Terms::of(metadata),
            condition: condition(version, &status["conditions"]),
        })
    }
}

impl GroupWorkload {
    /// Reads a Workload.
    pub fn from_metadata(metadata: &ObjectMeta) -> Result<GroupWorkload, InvalidObject> {
        let id = metadata::object_ref("Workload", metadata)?;
        let created = metadata::time(metadata.creation_timestamp.as_ref());
        Ok(GroupWorkload { id, created, terms: Terms::of(metadata) })
    }
}

impl Terms {
    fn of(metadata: &ObjectMeta) -> Terms {
        let label = metadata::label(metadata, QUEUE_NAME);
        let annotation = || metadata::annotation(metadata, QUEUE_NAME).map(metadata::label_value);
        let queue = label.or_else(annotation).filter(|queue| !queue.is_empty()).map(Arc::from);
        Terms { queue, walltime: walltime::of_object(metadata) }
    }

    /// True if the object says nothing.
    pub fn are_empty(&self) -> bool {
        self.queue.is_none() && self.walltime.is_none()
    }
}

fn refused(field: &str, message: impl Into<String>) -> Unsupported {
    Unsupported { field: format!("spec.{field}"), message: message.into() }
}

/// Reads the policy: exactly one of those that are known.
fn policy(policy: &Value) -> Result<GroupPolicy, Unsupported> {
    let field = "schedulingPolicy";
    let Some(members) = policy.as_object() else {
        return Err(refused(field, "there is none"));
    };
    let mut said = members.iter().filter(|(_, value)| !value.is_null());
    let (Some((name, value)), None) = (said.next(), said.next()) else {
        return Err(refused(field, "has to say either basic or gang"));
    };
    match name.as_str() {
        "basic" => Ok(GroupPolicy::Basic),
        "gang" => {
            let count = value["minCount"].as_u64().and_then(|count| u32::try_from(count).ok());
            let count = count.filter(|count| *count > 0);
            count.map(GroupPolicy::Gang).ok_or_else(|| {
                refused("schedulingPolicy.gang.minCount", "is not a number of at least 1")
            })
        }
        other => Err(refused(field, format!("{} is not supported", text::quoted(other)))),
    }
}

/// Reads the label of the one topology that there may be.
fn topology(constraints: &Value) -> Result<Option<Arc<str>>, Unsupported> {
    let Some(members) = constraints.as_object() else { return Ok(None) };
    let other = members.iter().find(|(name, value)| *name != "topology" && !value.is_null());
    if let Some((name, _)) = other {
        let message = format!("{} is not supported", text::quoted(name));
        return Err(refused("schedulingConstraints", message));
    }
    let field = "schedulingConstraints.topology";
    match constraints["topology"].as_array().map(Vec::as_slice).unwrap_or_default() {
        [] => Ok(None),
        [one] => match one["key"].as_str() {
            Some(key) if !key.is_empty() && key.len() <= KEY_BYTES_MAX => Ok(Some(key.into())),
            _ => Err(refused(&format!("{field}[0].key"), "is no key of a node label")),
        },
        several => Err(refused(field, format!("has {} entries: one is supported", several.len()))),
    }
}

/// Returns the first part that is known and not supported.
fn unsupported(spec: &Value) -> Option<Unsupported> {
    let parent = spec["parentCompositePodGroupName"].as_str().filter(|name| !name.is_empty());
    if let Some(parent) = parent {
        let message = format!("CompositePodGroup {}: not supported yet", text::quoted(parent));
        return Some(refused("parentCompositePodGroupName", message));
    }
    let claims = spec["resourceClaims"].as_array().is_some_and(|claims| !claims.is_empty());
    claims.then(|| refused("resourceClaims", "dynamic resource allocation is not supported yet"))
}

/// Returns the name of the Workload, by the field that the version has for it.
fn workload(spec: &Value) -> Option<&str> {
    let of_1_36 = &spec["podGroupTemplateRef"]["workload"]["workloadName"];
    let name = spec["workloadRef"]["workloadName"].as_str().or_else(|| of_1_36.as_str());
    name.filter(|name| !name.is_empty())
}

fn condition(version: GroupVersion, conditions: &Value) -> Option<GroupCondition> {
    let is_meant = |it: &&Value| it["type"].as_str() == Some(version.condition_type());
    let found = conditions.as_array()?.iter().find(is_meant)?;
    let said = |field: &str| found[field].as_str().unwrap_or_default();
    Some(GroupCondition {
        is_true: said("status") == "True",
        reason: text::name(said("reason")).into_owned(),
        message: text::message(said("message")).into_owned(),
        observed_generation: found["observedGeneration"].as_i64().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::OwnerKind;

    fn metadata() -> ObjectMeta {
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j",
            "controller": true,
        });
        serde_json::from_value(json!({
            "name": "ring", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "generation": 3, "ownerReferences": [owner],
        }))
        .unwrap()
    }

    fn read(version: GroupVersion, spec: &Value, status: &Value) -> PodGroup {
        PodGroup::from_parts(version, &metadata(), spec, status).unwrap()
    }

    fn spec(spec: &Value) -> PodGroup {
        read(GroupVersion::V1beta1, spec, &Value::Null)
    }

    #[test]
    fn a_group_of_each_version_is_read() {
        let policy = json!({"gang": {"minCount": 4}});
        let of_1_37 = json!({
            "schedulingPolicy": policy, "priority": 10, "priorityClassName": "high",
            "workloadRef": {"workloadName": "train", "templateName": "workers"},
            "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            "disruptionMode": {"all": {}}, "preemptionPolicy": "Never",
        });
        let of_1_36 = json!({
            "schedulingPolicy": policy, "priority": 10, "priorityClassName": "high",
            "podGroupTemplateRef": {
                "workload": {"workloadName": "train", "podGroupTemplateName": "workers"},
            },
            "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
            "disruptionMode": "PodGroup",
        });
        for version in GroupVersion::NEWEST_FIRST {
            let spec = if version == GroupVersion::V1alpha2 { &of_1_36 } else { &of_1_37 };
            let condition = json!({
                "type": version.condition_type(), "status": "False", "reason": "Unschedulable",
                "message": "full", "observedGeneration": 2,
            });
            let other = json!({"type": "DisruptionTarget", "status": "True"});
            let status = json!({"conditions": [other, condition]});
            let group = read(version, spec, &status);
            assert_eq!(group.policy, Ok(GroupPolicy::Gang(4)), "{version:?}");
            assert_eq!(group.topology.as_deref(), Some("example.com/rack"));
            assert_eq!((group.priority, group.workload.as_deref()), (Some(10), Some("train")));
            assert_eq!((group.generation, group.resource_version.as_deref()), (3, Some("7")));
            assert_eq!(group.unsupported, None);
            assert_eq!(group.controller.map(|owner| owner.kind), Some(OwnerKind::Job));
            let condition = group.condition.expect("it has one");
            assert_eq!((condition.is_true, condition.observed_generation), (false, 2));
            assert_eq!((&*condition.reason, &*condition.message), ("Unschedulable", "full"));
        }
        assert_eq!(GroupVersion::V1alpha2.condition_type(), "PodGroupScheduled");
        assert_eq!(GroupVersion::V1.condition_type(), "PodGroupInitiallyScheduled");
    }

    #[test]
    fn a_policy_is_exactly_one_of_those_that_are_known() {
        let policy = |policy: Value| spec(&json!({"schedulingPolicy": policy})).policy;
        assert_eq!(policy(json!({"basic": {}})), Ok(GroupPolicy::Basic));
        assert_eq!(policy(json!({"basic": {}, "gang": null})), Ok(GroupPolicy::Basic));
        let field = |said: Value| policy(said).unwrap_err().field;
        for wrong in [json!(null), json!({}), json!({"basic": {}, "gang": {"minCount": 1}})] {
            assert_eq!(field(wrong), "spec.schedulingPolicy");
        }
        for count in [json!(null), json!(0), json!(-1), json!("2"), json!(1_u64 << 32)] {
            let gang = json!({"gang": {"minCount": count}});
            assert_eq!(field(gang), "spec.schedulingPolicy.gang.minCount");
        }
        let newer = policy(json!({"elastic\n": {}})).unwrap_err();
        assert_eq!(newer.message, "\"elastic\\n\" is not supported");
    }

    #[test]
    fn parts_that_are_not_supported_are_refused_by_name() {
        let field = |part: &Value| spec(part).unsupported.map(|refused| refused.field);
        assert_eq!(field(&json!({"resourceClaims": []})), None);
        let claims = json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]});
        assert_eq!(field(&claims).as_deref(), Some("spec.resourceClaims"));
        let parent = json!({"parentCompositePodGroupName": "all"});
        assert_eq!(field(&parent).as_deref(), Some("spec.parentCompositePodGroupName"));
        let constraints = |of: Value| field(&json!({"schedulingConstraints": of}));
        assert_eq!(constraints(json!({"topology": []})), None);
        let key = "spec.schedulingConstraints.topology[0].key";
        for wrong in [json!({}), json!({"key": ""}), json!({"key": "k".repeat(318)})] {
            assert_eq!(constraints(json!({"topology": [wrong]})).as_deref(), Some(key));
        }
        let two = json!({"topology": [{"key": "a"}, {"key": "b"}]});
        assert_eq!(constraints(two).as_deref(), Some("spec.schedulingConstraints.topology"));
        let newer = json!({"topology": [], "spread": {"key": "a"}});
        assert_eq!(constraints(newer).as_deref(), Some("spec.schedulingConstraints"));
    }

    #[test]
    fn terms_come_from_labels_and_annotations() {
        let mut metadata = metadata();
        assert!(GroupWorkload::from_metadata(&metadata).unwrap().terms.are_empty());
        let annotations = [(QUEUE_NAME, "night"), ("fluxqueue/walltime", "1h")];
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        metadata.annotations = Some(pairs(&annotations));
        let terms = GroupWorkload::from_metadata(&metadata).unwrap().terms;
        assert_eq!(terms.queue.as_deref(), Some("night"));
        assert_eq!(terms.walltime, Some(Ok(Lifetime::Seconds(3600))));
        metadata.labels = Some(pairs(&[(QUEUE_NAME, "day")]));
        metadata.annotations =
            Some(pairs(&[(QUEUE_NAME, "night"), ("fluxqueue/walltime", "soon")]));
        let terms = Terms::of(&metadata);
        assert_eq!(terms.queue.as_deref(), Some("day"), "the label comes first");
        assert!(terms.walltime.is_some_and(|walltime| walltime.is_err()));
    }

    #[test]
    fn texts_of_a_group_are_bounded() {
        let long = "x".repeat(100_000);
        let spec = json!({
            "schedulingPolicy": {&long: {}}, "parentCompositePodGroupName": long,
            "workloadRef": {"workloadName": long},
        });
        let condition = json!({
            "type": "PodGroupInitiallyScheduled", "status": long, "reason": long, "message": long,
        });
        let group = read(GroupVersion::V1beta1, &spec, &json!({"conditions": [condition]}));
        let condition = group.condition.unwrap();
        assert!(condition.reason.len() <= text::NAME_BYTES_MAX);
        assert!(condition.message.len() <= text::MESSAGE_BYTES_MAX);
        assert!(group.workload.unwrap().len() <= text::NAME_BYTES_MAX);
        assert!(group.policy.unwrap_err().message.len() < 400);
        assert!(group.unsupported.unwrap().message.len() < 400);
    }
}
