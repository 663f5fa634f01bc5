//! The users of jobs: `-u`, `--me`, and the column USER.
//!
//! A FluxJob does not name its user; the workload behind it does, by the annotation that
//! Fluxqueue's webhook writes. So the metadata of workloads is listed beside the FluxJobs, one list
//! for each kind that the jobs have, of up to [`WORKLOADS_MAX`] objects. The annotation is believed
//! only where the policy is installed that keeps clients from writing it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use serde::Deserialize;
use serde_json::value::RawValue;

use fluxqueue_api::names;

use crate::api_path::Resource;
use crate::cluster::{Cluster, Selection};
use crate::console::said;
use crate::find::{PodSpec, group_of};
use crate::record::{Meta, Record};

/// Most workloads of one kind that are read. Their metadata have a kilobyte or two each.
const WORKLOADS_MAX: usize = 20_000;

/// Most pods that are read with their specs, which have some ten kilobytes each.
const PODS_MAX: usize = 5_000;

/// The policy that guards the annotation.
const POLICY: &str = "fluxqueue-user";

/// The kind of jobs that are groups of pods.
const GROUP: &str = "Group";

/// The kind of jobs that are PodGroups of Kubernetes.
const POD_GROUP: &str = "PodGroup";

/// The users of the workloads of some jobs.
#[derive(Debug, Default)]
pub(crate) struct Users {
    by_uid: BTreeMap<String, String>,
    /// By namespace and name of a group: its first pod may be gone.
    by_group: BTreeMap<(String, String), String>,
    /// The same for PodGroups.
    by_pod_group: BTreeMap<(String, String), String>,
    /// True if there are workloads that were not read.
    is_cut: bool,
}

impl Users {
    /// Looks up the users of these jobs. `namespace` is that of all of them, if they have one.
    pub(crate) async fn of(
        cluster: &Cluster,
        namespace: Option<&str>,
        records: impl Iterator<Item = &Record> + Clone,
    ) -> anyhow::Result<Self> {
        let kind_of = |record: &'_ Record| record.spec.workload_ref.kind.clone();
        let kinds: BTreeSet<String> = records.clone().map(kind_of).collect();
        let mut users = Users::default();
        let mut selection =
            Selection { namespace: namespace.map(str::to_owned), ..Selection::default() };
        for kind in kinds {
            for (resource, labels) in lists(&kind) {
                (selection.labels, selection.is_metadata) = (labels, true);
                users.list(cluster, &kind, (resource, &selection), WORKLOADS_MAX).await?;
            }
        }
        // Metadata do not name the PodGroup of a pod that no controller of Kubernetes made.
        let is_unknown = |record: &Record| {
            record.spec.workload_ref.kind == POD_GROUP && users.of_record(record).is_none()
        };
        if records.clone().any(is_unknown) {
            (selection.labels, selection.is_metadata) = (String::new(), false);
            users.list(cluster, POD_GROUP, (Resource::POD, &selection), PODS_MAX).await?;
        }
        Ok(users)
    }

    /// Takes note of the users of the workloads of a kind in one list.
    async fn list(
        &mut self,
        cluster: &Cluster,
        kind: &str,
        (resource, selection): (Resource, &Selection),
        max: usize,
    ) -> anyhow::Result<()> {
        let listed = cluster.list(resource, selection, max).await?;
        self.is_cut |= listed.is_cut;
        for object in &listed.items {
            self.note(kind, object);
        }
        Ok(())
    }

    fn note(&mut self, kind: &str, object: &RawValue) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Noted {
            metadata: Meta,
            spec: PodSpec,
        }
        let Noted { metadata, spec } = serde_json::from_str(object.get()).unwrap_or_default();
        if let Some(user) = in_metadata(&metadata) {
            let of_namespace = |name: &str| (metadata.namespace.clone(), name.to_owned());
            if kind == GROUP
                && let Some(group) = group_of(&metadata)
            {
                self.by_group.entry(of_namespace(group)).or_insert_with(|| user.clone());
            }
            if kind == POD_GROUP
                && let Some(group) = pod_group_of(&metadata, &spec)
            {
                self.by_pod_group.entry(of_namespace(group)).or_insert_with(|| user.clone());
            }
            self.by_uid.insert(metadata.uid, user);
        }
    }

    /// Returns a line for people if not all workloads were read.
    pub(crate) fn trouble(&self) -> Vec<String> {
        let line =
            format!("Only the users of the first {WORKLOADS_MAX} workloads of a kind are known.");
        self.is_cut.then_some(line).into_iter().collect()
    }

    /// Returns the user of a job, if it is known.
    pub(crate) fn of_record(&self, record: &Record) -> Option<&str> {
        let workload = &record.spec.workload_ref;
        let of_group = || {
            let key = (record.metadata.namespace.clone(), workload.name.clone());
            match workload.kind.as_str() {
                GROUP => self.by_group.get(&key),
                POD_GROUP => self.by_pod_group.get(&key),
                _ => None,
            }
        };
        self.by_uid.get(&workload.uid).or_else(of_group).map(String::as_str)
    }
}

/// Returns the user that metadata name.
pub(crate) fn in_metadata(metadata: &Meta) -> Option<String> {
    metadata.annotations.get(names::USER).filter(|user| !user.is_empty()).cloned()
}

/// Returns the PodGroup that a pod names: in its spec, or by the owner reference of a pod that the
/// Job controller made.
fn pod_group_of<'a>(metadata: &'a Meta, spec: &'a PodSpec) -> Option<&'a str> {
    let owner = metadata.owner_references.iter().find(|owner| owner.kind == POD_GROUP);
    let named = Some(&spec.scheduling_group.pod_group_name).filter(|name| !name.is_empty());
    named.or_else(|| owner.map(|owner| &owner.name)).map(String::as_str)
}

/// Returns the lists in which the workloads of a kind are: what, and with which labels.
fn lists(kind: &str) -> Vec<(Resource, String)> {
    let all = |resource| vec![(resource, String::new())];
    match kind {
        "Pod" => vec![(Resource::POD, of_no_other())],
        GROUP => {
            let sizes: BTreeSet<&str> = names::GROUP_LABELS.iter().map(|(_, size)| *size).collect();
            sizes.into_iter().map(|size| (Resource::POD, size.to_owned())).collect()
        }
        POD_GROUP => all(Resource::POD),
        _ => Resource::of_controller(kind).map(all).unwrap_or_default(),
    }
}

/// Returns the selector of pods that no other object made and that are in no group.
pub(crate) fn of_no_other() -> String {
    let of_others =
        ["batch.kubernetes.io/job-name", "pod-template-hash", "controller-revision-hash"]
            .into_iter()
            .chain(names::GROUP_LABELS.iter().map(|(_, size)| *size));
    let mut labels: Vec<String> = of_others.map(|label| format!("!{label}")).collect();
    labels.dedup();
    labels.join(",")
}

/// Returns an error that says why, unless the users of jobs can be believed.
pub(crate) async fn check_policy(cluster: &Cluster) -> anyhow::Result<()> {
    let needs = "the users of jobs are noted by Fluxqueue's webhook (docs/admission.md)";
    match cluster.get::<Box<RawValue>>(Resource::ADMISSION_POLICY, None, POLICY).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => bail!("{needs}, and its policy {POLICY} is not on this cluster"),
        Err(error) => bail!("{needs}, and you may not see whether it is here: {}", said(&error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::*;
    use crate::record::tests::record;

    fn noted(kind: &str, objects: &[Value]) -> Users {
        let mut users = Users::default();
        for object in objects {
            users.note(kind, &to_raw_value(object).unwrap());
        }
        users
    }

    fn job(kind: &str, name: &str, uid: &str) -> Record {
        record(&json!({
            "metadata": {"namespace": "lab", "annotations": {"fluxqueue/user": "forged"}},
            "spec": {"workloadRef": {"kind": kind, "name": name, "uid": uid}},
        }))
    }

    #[test]
    fn a_job_is_that_of_the_user_of_its_workload() {
        let of = |uid: &str, user: Value| {
            json!({"metadata": {"uid": uid, "namespace": "lab",
                "annotations": {"fluxqueue/user": user}}})
        };
        let users = noted(
            "Job",
            &[
                of("1", json!("ann")),
                of("2", json!("")),
                of("3", json!(["ann"])),
                json!({"metadata": {"uid": "4"}}),
                json!({}),
            ],
        );
        for (uid, user) in [("1", Some("ann")), ("2", None), ("3", None), ("4", None), ("", None)] {
            assert_eq!(users.of_record(&job("Job", "j", uid)), user, "{uid}");
        }
    }

    #[test]
    fn a_group_outlives_its_first_pod() {
        let pod = |uid: &str, namespace: &str, user: &str| {
            json!({"metadata": {"uid": uid, "namespace": namespace,
                "annotations": {"fluxqueue/user": user},
                "labels": {"fluxqueue/pod-group": "g", "fluxqueue/group-size": "2"}}})
        };
        let users = noted(GROUP, &[pod("1", "lab", "ann"), pod("2", "x", "bob")]);
        assert_eq!(users.of_record(&job(GROUP, "g", "1")), Some("ann"));
        assert_eq!(users.of_record(&job(GROUP, "g", "gone")), Some("ann"));
        assert_eq!(users.of_record(&job(GROUP, "h", "gone")), None);
        assert_eq!(users.of_record(&job("Job", "g", "gone")), None);
    }

    #[test]
    fn a_pod_group_outlives_its_first_pod_too() {
        let pod = |uid: &str, user: &str, group: &str, (kind, owner): (&str, &str)| {
            json!({"metadata": {"uid": uid, "namespace": "lab",
                "annotations": {"fluxqueue/user": user},
                "ownerReferences": [{"kind": kind, "name": owner, "uid": "u"}]},
                "spec": {"schedulingGroup": {"podGroupName": group}}})
        };
        let users = noted(
            POD_GROUP,
            &[
                pod("1", "ann", "g", ("Job", "j")),
                pod("2", "bob", "", (POD_GROUP, "h")),
                pod("3", "cat", "", ("Job", "i")),
            ],
        );
        for (name, user) in [("g", Some("ann")), ("h", Some("bob")), ("i", None)] {
            assert_eq!(users.of_record(&job(POD_GROUP, name, "gone")), user, "{name}");
            assert_eq!(users.of_record(&job(GROUP, name, "gone")), None, "another kind");
        }
        assert_eq!(users.of_record(&job(POD_GROUP, "g", "2")), Some("bob"), "its first pod");
    }

    #[test]
    fn every_kind_of_workload_is_listed() {
        use fluxqueue_api::WorkloadKind as Kind;
        for kind in [Kind::Job, Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::Pod] {
            let [(resource, _)] = &lists(kind.as_str())[..] else { panic!("{kind:?}") };
            assert_eq!(resource.kind, kind.as_str());
        }
        assert!(lists(Kind::PodGroup.as_str()).iter().all(|(_, labels)| labels.is_empty()));
        assert!(lists(Kind::Group.as_str()).iter().all(|(resource, _)| resource.kind == "Pod"));
        assert_eq!(
            lists(Kind::Group.as_str()).len(),
            4,
            "two kinds of groups have one label of size"
        );
        assert!(lists("JobSet").is_empty(), "a kind of a newer version");
    }
}
