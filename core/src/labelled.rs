//! Jobs that wait, by labels of their pods: whom a term about pods may concern that comes to a node or goes.
//!
//! Only labels are kept that some term has asked for. The first time that one is asked for takes a look at all that wait; from then on
//! a job is found by it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::queue::JobId;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::{Operator, Requirement};

/// So many labels are kept. When another is asked for, all are forgotten and found again as they are asked for.
const MOST_LABELS: usize = 64;

/// Jobs that wait, by the labels that terms have asked for.
#[derive(Debug, Default)]
pub(super) struct Labelled {
    by_key: HashMap<Arc<str>, ByValue>,
}

#[derive(Debug, Default)]
struct ByValue {
    jobs: HashMap<Arc<str>, BTreeSet<JobId>>,
    /// What the pods of a job have, each once, in order.
    values: HashMap<JobId, Vec<Arc<str>>>,
}

/// The requirement by which those who meet all of them are found: they have this label.
pub(super) fn found_by(requirements: &[Requirement]) -> Option<&Requirement> {
    let by = |operator| requirements.iter().find(move |requirement| requirement.operator == operator);
    by(Operator::In).or_else(|| by(Operator::Exists))
}

impl Labelled {
    /// These pods of a job wait, and no others of it.
    pub(super) fn note<'a>(&mut self, job: JobId, pods: impl Iterator<Item = &'a Pod> + Clone) {
        for (key, by_value) in &mut self.by_key {
            by_value.note(job, pods.clone().filter_map(|pod| value(pod, key)).collect());
        }
    }

    /// Nothing of a job waits.
    pub(super) fn forget(&mut self, job: JobId) {
        self.note(job, std::iter::empty());
    }

    /// The jobs of which a pod meets this requirement, which [`found_by`] has found. `all` is asked where the label is new.
    pub(super) fn having<'a, Pods>(
        &mut self,
        requirement: &Requirement,
        all: impl FnOnce() -> Pods,
    ) -> impl Iterator<Item = JobId>
    where
        Pods: Iterator<Item = (JobId, &'a Pod)>,
    {
        let key = &requirement.key;
        if !self.by_key.contains_key(key) {
            if self.by_key.len() >= MOST_LABELS {
                self.by_key.clear();
            }
            let mut values: HashMap<JobId, Vec<Arc<str>>> = HashMap::new();
            for (job, pod) in all() {
                if let Some(value) = value(pod, key) {
                    values.entry(job).or_default().push(value);
                }
            }
            let mut by_value = ByValue::default();
            for (job, values) in values {
                by_value.note(job, values);
            }
            self.by_key.insert(Arc::clone(key), by_value);
        }
        let jobs = &self.by_key[key].jobs;
        let wanted = requirement.values.iter().filter_map(|value| jobs.get(value));
        let any = jobs.values().filter(|_| requirement.operator == Operator::Exists);
        wanted.chain(any).flatten().copied()
    }
}

impl ByValue {
    fn note(&mut self, job: JobId, mut values: Vec<Arc<str>>) {
        values.sort_unstable();
        values.dedup();
        if self.values.get(&job).map_or(&[][..], Vec::as_slice) == values {
            return;
        }
        for value in self.values.remove(&job).unwrap_or_default() {
            if let Some(jobs) = self.jobs.get_mut(&value) {
                jobs.remove(&job);
                if jobs.is_empty() {
                    self.jobs.remove(&value);
                }
            }
        }
        for value in &values {
            self.jobs.entry(Arc::clone(value)).or_default().insert(job);
        }
        if !values.is_empty() {
            self.values.insert(job, values);
        }
    }
}

fn value(pod: &Pod, key: &Arc<str>) -> Option<Arc<str>> {
    let at = pod.labels.binary_search_by(|(name, _)| name.cmp(key)).ok()?;
    Some(Arc::clone(&pod.labels[at].1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_workload::constraints::Constraints;
    use fluxqueue_workload::metadata::Labels;
    use fluxqueue_workload::{ObjectKey, ObjectRef, Resources, Shape, Uid};

    fn pod(labels: &[(&str, &str)]) -> Pod {
        let id = ObjectRef { key: ObjectKey::new("tests", "pod"), uid: Uid::from("pod") };
        let labels: Labels = labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
        Pod {
            labels,
            ..Pod::waiting(
                id,
                "fluxqueue".into(),
                Arc::new(Shape { requests: Resources::default(), constraints: Constraints::default() }),
            )
        }
    }

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement { key: key.into(), operator, values: values.iter().map(|value| Arc::from(*value)).collect() }
    }

    fn is(values: &[&str]) -> Requirement {
        requirement("app", Operator::In, values)
    }

    /// Those found where the label is known.
    fn found(labelled: &mut Labelled, requirement: &Requirement) -> Vec<u64> {
        let nobody = || -> std::iter::Empty<(JobId, &Pod)> { panic!("all were asked for") };
        let found: BTreeSet<JobId> = labelled.having(requirement, nobody).collect();
        found.into_iter().map(JobId::number).collect()
    }

    #[test]
    fn jobs_are_found_by_the_labels_of_their_pods_and_all_are_looked_at_once_for_each_label() {
        let [x, y] = [pod(&[("app", "x")]), pod(&[("app", "y"), ("team", "t")])];
        let all = [(JobId::from(1), &x), (JobId::from(1), &x), (JobId::from(1), &y), (JobId::from(2), &y)];
        let mut labelled = Labelled::default();
        labelled.note(JobId::from(1), [&x].into_iter());
        assert_eq!(labelled.having(&is(&["x"]), || all.into_iter()).collect::<Vec<_>>(), [JobId::from(1)]);
        assert_eq!(found(&mut labelled, &is(&["y"])), [1, 2]);
        assert_eq!(found(&mut labelled, &is(&["z", "x"])), [1]);
        assert_eq!(found(&mut labelled, &requirement("app", Operator::Exists, &[])), [1, 2]);
    }

    #[test]
    fn a_job_has_the_labels_of_the_pods_that_wait_now() {
        let [x, y, bare] = [pod(&[("app", "x")]), pod(&[("app", "y")]), pod(&[])];
        let mut labelled = Labelled::default();
        assert_eq!(labelled.having(&is(&["x"]), std::iter::empty).count(), 0);
        labelled.note(JobId::from(1), [&x, &bare].into_iter());
        labelled.note(JobId::from(2), [&x].into_iter());
        assert_eq!(found(&mut labelled, &is(&["x"])), [1, 2]);
        labelled.note(JobId::from(1), [&y].into_iter());
        labelled.forget(JobId::from(2));
        assert_eq!((found(&mut labelled, &is(&["x"])), found(&mut labelled, &is(&["y"]))), (vec![], vec![1]));
        labelled.forget(JobId::from(1));
        let by_value = &labelled.by_key["app"];
        assert!(by_value.jobs.is_empty() && by_value.values.is_empty(), "{by_value:?}");
    }

    #[test]
    fn so_many_labels_are_kept_and_no_more() {
        let mut labelled = Labelled::default();
        for number in 0..=MOST_LABELS {
            let key = requirement(&format!("key-{number}"), Operator::Exists, &[]);
            assert_eq!(labelled.having(&key, std::iter::empty).count(), 0);
            assert!(labelled.by_key.len() <= MOST_LABELS);
        }
        assert_eq!(labelled.by_key.len(), 1);
    }

    #[test]
    fn whoever_meets_the_requirements_has_the_label_by_which_he_is_found() {
        let without = [requirement("a", Operator::NotIn, &["x"]), requirement("b", Operator::DoesNotExist, &[])];
        assert_eq!(found_by(&without), None);
        let exists = [without[0].clone(), requirement("c", Operator::Exists, &[])];
        assert_eq!(found_by(&exists), Some(&exists[1]));
        let both = [exists[1].clone(), is(&["x"])];
        assert_eq!(found_by(&both), Some(&both[1]));
    }
}
