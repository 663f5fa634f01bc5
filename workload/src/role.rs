//! What a pod is in its job, as far as its labels say so: a launcher, one of the workers, and which
//! of them.
//!
//! The labels are those of the controllers that make such jobs, and Kueue's. What they mean in
//! Kueue is its meaning here.

use super::Pod;

/// Labels whose value is a role: of JobSets, of Kubeflow's jobs, of RayClusters. The first that is
/// there counts.
const ROLES: [&str; 5] = [
    "jobset.sigs.k8s.io/replicatedjob-name",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "ray.io/group",
    "ray.io/node-type",
];

/// Which pod of its group it is, in a LeaderWorkerSet.
const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// Which of the Jobs of its role made it, in a JobSet.
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

/// Labels whose value is a pod's number among those of its role. The first that is there counts.
const NUMBERS: [&str; 4] = [
    "kueue.x-k8s.io/pod-group-pod-index",
    "training.kubeflow.org/replica-index",
    WORKER_INDEX,
    "apps.kubernetes.io/pod-index",
];

/// What labels say of a pod's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidRole<'a> {
    /// This one.
    Named(&'a str),
    /// Those that have the same template have the same role: so a leader that asks for what the
    /// workers do is one of them.
    ByShape,
    /// Nothing.
    Unsaid,
}

impl Pod {
    /// Its role, by its labels.
    pub fn said_role(&self) -> SaidRole<'_> {
        let said = |key: &&str| self.label(key).filter(|role| !role.is_empty());
        match ROLES.iter().find_map(said) {
            Some(role) => SaidRole::Named(role),
            None if self.label(WORKER_INDEX).is_some() => SaidRole::ByShape,
            None => SaidRole::Unsaid,
        }
    }

    /// Its number among the pods of its role, if it has one. Where several Jobs make these, their
    /// pods are numbered Job by Job: `pods_of_job` is how many each has.
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
    use crate::{ObjectKey, ObjectRef, Resources, Shape, Uid, constraints::Constraints};

    fn pod(labels: &[(&str, &str)]) -> Pod {
        let id = ObjectRef { key: ObjectKey::new("ns", "p"), uid: Uid::from("u") };
        let shape = Shape { requests: Resources::default(), constraints: Constraints::default() };
        let mut labels: Vec<(Arc<str>, Arc<str>)> =
            labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
        labels.sort();
        Pod { labels: labels.into(), ..Pod::waiting(id, "fluxqueue".into(), Arc::new(shape)) }
    }

    #[test]
    fn a_role_is_what_the_first_of_the_known_labels_says() {
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
            "nobody knows how many a Job has"
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
