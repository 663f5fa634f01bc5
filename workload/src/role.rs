//! The role of a pod in its job, as far as its labels show it: a launcher, one of the workers, and
//! its number among them.
//!
//! The labels are those of the controllers that make such jobs, and Kueue's, with the same meaning
//! as in Kueue.

use crate::pod::Pod;

/// Labels with a role as value: of JobSets, of Kubeflow's jobs, of RayClusters. The first that is
/// present counts.
const ROLES: [&str; 5] = [
    "jobset.sigs.k8s.io/replicatedjob-name",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "ray.io/group",
    "ray.io/node-type",
];

/// The label with the pod's number in its group, in a LeaderWorkerSet.
const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// The label with the number of the pod's Job among those of its role, in a JobSet.
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

/// Labels with the pod's number among those of its role as value. The first that is present counts.
const NUMBERS: [&str; 4] = [
    "kueue.x-k8s.io/pod-group-pod-index",
    "training.kubeflow.org/replica-index",
    WORKER_INDEX,
    "apps.kubernetes.io/pod-index",
];

/// The role of a pod by its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidRole<'a> {
    /// The role has this name.
    Named(&'a str),
    /// Pods of the same template have the same role: so a leader with the same requests as the
    /// workers is one of them.
    ByShape,
    /// The labels name no role.
    Unsaid,
}

impl Pod {
    /// Returns its role, by its labels.
    pub fn said_role(&self) -> SaidRole<'_> {
        let said = |key: &&str| self.label(key).filter(|role| !role.is_empty());
        match ROLES.iter().find_map(said) {
            Some(role) => SaidRole::Named(role),
            None if self.label(WORKER_INDEX).is_some() => SaidRole::ByShape,
            None => SaidRole::Unsaid,
        }
    }

    /// Returns its number among the pods of its role, if it has one. Where several Jobs make these,
    /// their pods are numbered Job by Job: `pods_of_job` is how many each has.
    pub fn number(&self, pods_of_job: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let number = |key: &&str| self.label(key)?.parse::<u32>().ok();
        match (self.completion_index, number(&JOB_INDEX)) {
            (Some(index), Some(job)) => job.checked_mul(pods_of_job()?)?.checked_add(index),
            (Some(index), None) => Some(index),
            (None, _) => NUMBERS.iter().find_map(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::constraints::Constraints;
    use crate::ids::Uid;
    use crate::object::{ObjectKey, ObjectRef};
    use crate::resources::Resources;
    use crate::shape::Shape;

    fn pod(labels: &[(&str, &str)]) -> Pod {
        let id = ObjectRef { key: ObjectKey::new("ns", "p"), uid: Uid::from("u") };
        let shape = Shape { requests: Resources::default(), constraints: Constraints::default() };
        let mut labels: Vec<(Arc<str>, Arc<str>)> =
            labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
        labels.sort();
        Pod { labels: labels.into(), ..Pod::waiting(id, "fluxqueue".into(), Arc::new(shape)) }
    }

    #[test]
    fn the_first_of_the_known_labels_names_the_role() {
        let named = SaidRole::Named;
        for (labels, expected) in [
            (&[][..], SaidRole::Unsaid),
            (&[("app", "x")], SaidRole::Unsaid),
            (&[("jobset.sigs.k8s.io/replicatedjob-name", "workers")], named("workers")),
            (
                &[
                    ("training.kubeflow.org/replica-type", "master"),
                    ("training.kubeflow.org/job-role", "x"),
                ],
                named("master"),
            ),
            (&[("training.kubeflow.org/job-role", "launcher")], named("launcher")),
            (&[("ray.io/group", "gpus"), ("ray.io/node-type", "worker")], named("gpus")),
            (&[("ray.io/group", ""), ("ray.io/node-type", "head")], named("head")),
            (&[(WORKER_INDEX, "0")], SaidRole::ByShape),
        ] {
            assert_eq!(pod(labels).said_role(), expected, "{labels:?}");
        }
    }

    #[test]
    fn a_number_is_one_among_the_pods_of_a_role() {
        let with =
            |completion_index, labels: &[(&str, &str)]| Pod { completion_index, ..pod(labels) };
        let four = || Some(4);
        assert_eq!(with(None, &[]).number(four), None);
        assert_eq!(with(Some(3), &[]).number(four), Some(3));
        assert_eq!(
            with(Some(3), &[(JOB_INDEX, "2")]).number(four),
            Some(11),
            "the fourth of the third Job"
        );
        assert_eq!(
            with(Some(3), &[(JOB_INDEX, "2")]).number(|| None),
            None,
            "it is unknown how many a Job has"
        );
        assert_eq!(
            with(None, &[(JOB_INDEX, "2")]).number(four),
            None,
            "not which of its Job's pods it is"
        );
        for label in NUMBERS {
            assert_eq!(with(None, &[(label, "7")]).number(four), Some(7), "{label}");
            assert_eq!(with(None, &[(label, "x")]).number(four), None, "{label}");
        }
    }
}
