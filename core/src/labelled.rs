//! Waiting jobs by the labels of their pods, and waiting jobs with terms about other pods. When a
//! term about pods comes to a node or goes, the labels lead to the jobs that it may concern.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use fluxqueue_machine::defect::OrDefect;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::{Operator, Requirement};

/// A label: key and value.
type Label = (Arc<str>, Arc<str>);

/// The waiting jobs, by label.
#[derive(Debug, Default)]
pub(crate) struct Labelled {
    jobs: HashMap<Arc<str>, HashMap<Arc<str>, BTreeSet<JobId>>>,
    /// The labels of each job's pods, each once, in order.
    labels: HashMap<JobId, Vec<Label>>,
    /// The jobs with a pod that has terms about other pods: its nodes depend on the places of
    /// those.
    asking: BTreeSet<JobId>,
}

/// Returns the requirement by which the pods that meet all of these are found: such pods have its
/// label.
pub(crate) fn found_by(requirements: &[Requirement]) -> Option<&Requirement> {
    let by =
        |operator| requirements.iter().find(move |requirement| requirement.operator == operator);
    by(Operator::In).or_else(|| by(Operator::Exists))
}

impl Labelled {
    /// Takes note of the waiting pods of a job: these and no others.
    pub(crate) fn note<'a>(&mut self, job: JobId, pods: impl Iterator<Item = &'a Pod>) {
        let mut labels: Vec<Label> = Vec::new();
        let mut asks = false;
        for pod in pods {
            labels.extend(pod.labels.iter().cloned());
            asks |= pod.shape.constraints.asks_about_pods();
        }
        labels.sort_unstable();
        labels.dedup();
        if self.labels.get(&job).map_or(&[][..], Vec::as_slice) != labels {
            self.note_labels(job, labels);
        }
        if asks {
            self.asking.insert(job);
        } else {
            self.asking.remove(&job);
        }
    }

    fn note_labels(&mut self, job: JobId, mut labels: Vec<Label>) {
        self.forget(job);
        for (key, value) in &labels {
            let values = self.jobs.entry(Arc::clone(key)).or_default();
            values.entry(Arc::clone(value)).or_default().insert(job);
        }
        if !labels.is_empty() {
            labels.shrink_to_fit();
            self.labels.insert(job, labels);
        }
    }

    /// Forgets a job that has no waiting pod.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.asking.remove(&job);
        for (key, value) in self.labels.remove(&job).unwrap_or_default() {
            if let Some(values) = self.jobs.get_mut(&key).or_defect("no job has the label") {
                if let Some(jobs) = values.get_mut(&value) {
                    jobs.remove(&job);
                    if jobs.is_empty() {
                        values.remove(&value);
                    }
                }
                if values.is_empty() {
                    self.jobs.remove(&key);
                }
            }
        }
    }

    /// True if a waiting pod has terms about other pods.
    pub(crate) fn is_asked_for(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Returns the jobs that have a pod with the label of this requirement, which [`found_by`] has
    /// found.
    pub(crate) fn having<'a>(
        &'a self,
        requirement: &'a Requirement,
    ) -> impl Iterator<Item = JobId> + 'a {
        let values = self.jobs.get(&requirement.key).into_iter();
        let is_any = requirement.operator == Operator::Exists;
        let jobs = values.flat_map(move |values| {
            let any = values.values().filter(move |_| is_any);
            requirement.values.iter().filter_map(|value| values.get(value)).chain(any)
        });
        jobs.flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_workload::constraints::Constraints;
    use fluxqueue_workload::metadata::Labels;
    use fluxqueue_workload::{ObjectKey, ObjectRef, Resources, Shape, Uid};

    fn pod(labels: &[(&str, &str)]) -> Pod {
        let id = ObjectRef { key: ObjectKey::new("tests", "pod"), uid: Uid::from("pod") };
        let labels: Labels =
            labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
        Pod {
            labels,
            ..Pod::waiting(
                id,
                "fluxqueue".into(),
                Arc::new(Shape {
                    requests: Resources::default(),
                    constraints: Constraints::default(),
                }),
            )
        }
    }

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement {
            key: key.into(),
            operator,
            values: values.iter().map(|value| Arc::from(*value)).collect(),
        }
    }

    fn is(values: &[&str]) -> Requirement {
        requirement("app", Operator::In, values)
    }

    fn found(labelled: &Labelled, requirement: &Requirement) -> Vec<u64> {
        let found: BTreeSet<JobId> = labelled.having(requirement).collect();
        found.into_iter().map(JobId::number).collect()
    }

    #[test]
    fn jobs_are_found_by_the_labels_of_their_pods() {
        let [x, y] = [pod(&[("app", "x")]), pod(&[("app", "y"), ("team", "t")])];
        let mut labelled = Labelled::default();
        labelled.note(JobId::from(1), [&x, &x, &y].into_iter());
        labelled.note(JobId::from(2), [&y].into_iter());
        assert_eq!(found(&labelled, &is(&["x"])), [1]);
        assert_eq!(found(&labelled, &is(&["z", "y"])), [1, 2]);
        assert_eq!(found(&labelled, &requirement("app", Operator::Exists, &[])), [1, 2]);
        assert!(found(&labelled, &requirement("tier", Operator::Exists, &[])).is_empty());
    }

    #[test]
    fn a_job_has_the_labels_of_the_pods_that_wait_now_and_nothing_is_kept_of_who_does_not() {
        let [x, y, bare] = [pod(&[("app", "x")]), pod(&[("app", "y")]), pod(&[])];
        let mut labelled = Labelled::default();
        labelled.note(JobId::from(1), [&x, &bare].into_iter());
        labelled.note(JobId::from(2), [&x].into_iter());
        assert_eq!(found(&labelled, &is(&["x"])), [1, 2]);
        labelled.note(JobId::from(1), [&y].into_iter());
        labelled.forget(JobId::from(2));
        assert_eq!(
            (found(&labelled, &is(&["x"])), found(&labelled, &is(&["y"]))),
            (vec![], vec![1])
        );
        labelled.note(JobId::from(1), [&bare].into_iter());
        assert!(labelled.jobs.is_empty() && labelled.labels.is_empty(), "{labelled:?}");
    }

    #[test]
    fn whoever_meets_the_requirements_has_the_label_by_which_he_is_found() {
        let without = [
            requirement("a", Operator::NotIn, &["x"]),
            requirement("b", Operator::DoesNotExist, &[]),
        ];
        assert_eq!(found_by(&without), None);
        let exists = [without[0].clone(), requirement("c", Operator::Exists, &[])];
        assert_eq!(found_by(&exists), Some(&exists[1]));
        let both = [exists[1].clone(), is(&["x"])];
        assert_eq!(found_by(&both), Some(&both[1]));
    }
}
