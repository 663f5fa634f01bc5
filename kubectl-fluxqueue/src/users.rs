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
use crate::find::group_of;
use crate::record::{Meta, Record};

/// Most workloads of one kind that are read. Their metadata have a kilobyte or two each.
const WORKLOADS_MAX: usize = 20_000;

/// The policy that guards the annotation.
const POLICY: &str = "fluxqueue-user";

/// The kind of jobs that are groups of pods.
const GROUP: &str = "Group";

/// The users of the workloads of some jobs.
#[derive(Debug, Default)]
pub(crate) struct Users {
    by_uid: BTreeMap<String, String>,
    /// By namespace and name of a group: its first pod may be gone.
    by_group: BTreeMap<(String, String), String>,
    /// True if there are workloads that were not read.
    is_cut: bool,
}

impl Users {
    /// Looks up the users of these jobs. `namespace` is that of all of them, if they have one.
    pub(crate) async fn of(
        cluster: &Cluster,
        namespace: Option<&str>,
        records: impl Iterator<Item = &Record>,
    ) -> anyhow::Result<Self> {
        let kinds: BTreeSet<&str> =
            records.map(|record| record.spec.workload_ref.kind.as_str()).collect();
        let mut users = Users::default();
        for kind in kinds {
            for (resource, labels) in lists(kind) {
                let selection = Selection {
                    namespace: namespace.map(str::to_owned),
                    labels,
                    is_metadata: true,
                    ..Selection::default()
                };
                let listed = cluster.list(resource, &selection, WORKLOADS_MAX).await?;
                users.is_cut |= listed.is_cut;
                for object in &listed.items {
                    users.note(kind, object);
                }
            }
        }
        Ok(users)
    }

    fn note(&mut self, kind: &str, object: &RawValue) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Noted {
            metadata: Meta,
        }
        let Noted { metadata } = serde_json::from_str(object.get()).unwrap_or_default();
        if let Some(user) = in_metadata(&metadata) {
            if kind == GROUP
                && let Some(group) = group_of(&metadata)
            {
                let key = (metadata.namespace.clone(), group.to_owned());
                self.by_group.entry(key).or_insert_with(|| user.clone());
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
            self.by_group.get(&key).filter(|_| workload.kind == GROUP)
        };
        self.by_uid.get(&workload.uid).or_else(of_group).map(String::as_str)
    }
}

/// Returns the user that metadata name.
pub(crate) fn in_metadata(metadata: &Meta) -> Option<String> {
    metadata.annotations.get(names::USER).filter(|user| !user.is_empty()).cloned()
}

/// Returns the lists in which the workloads of a kind are: what, and with which labels.
fn lists(kind: &str) -> Vec<(Resource, String)> {
    let all = |resource| vec![(resource, String::new())];
    match kind {
        "Pod" => vec![(Resource::POD, of_no_other())],
        "Job" => all(Resource::JOB),
        "Deployment" => all(Resource::DEPLOYMENT),
        "ReplicaSet" => all(Resource::REPLICA_SET),
        "StatefulSet" => all(Resource::STATEFUL_SET),
        GROUP => {
            let sizes: BTreeSet<&str> = names::GROUP_LABELS.iter().map(|(_, size)| *size).collect();
            sizes.into_iter().map(|size| (Resource::POD, size.to_owned())).collect()
        }
        _ => Vec::new(),
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
    fn every_kind_of_workload_is_listed() {
        use fluxqueue_api::WorkloadKind as Kind;
        for kind in [Kind::Job, Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::Pod] {
            let [(resource, _)] = &lists(kind.as_str())[..] else { panic!("{kind:?}") };
            assert_eq!(resource.kind, kind.as_str());
        }
        assert!(lists(Kind::Group.as_str()).iter().all(|(resource, _)| resource.kind == "Pod"));
        assert_eq!(
            lists(Kind::Group.as_str()).len(),
            4,
            "two kinds of groups have one label of size"
        );
        assert!(lists("JobSet").is_empty(), "a kind of a newer version");
    }
}
