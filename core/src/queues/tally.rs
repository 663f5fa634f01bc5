//! How many jobs wait and run in each queue, for its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::FluxQueueStatus;

use crate::queue::JobId;

/// What is in each queue.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    jobs: BTreeMap<JobId, (Arc<str>, Life)>,
    counts: BTreeMap<Arc<str>, Counts>,
    /// Queues in which something has changed since their status was last looked at.
    changed: BTreeSet<Arc<str>>,
}

/// Where a job is in its life, as far as its queue is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It could start, or will be able to.
    Waits,
    /// It has nodes.
    Runs,
}

#[derive(Debug, Default)]
struct Counts {
    waiting: usize,
    running: usize,
}

impl Tally {
    /// Where a job is now; `None`: it has ended, or is refused.
    pub(crate) fn note(&mut self, job: JobId, now: Option<(&Arc<str>, Life)>) {
        let before = self.jobs.get(&job);
        if before.map(|(queue, life)| (queue, *life)) == now {
            return;
        }
        if let Some((queue, life)) = self.jobs.remove(&job) {
            *self.count(&queue, life) -= 1;
        }
        if let Some((queue, life)) = now {
            *self.count(queue, life) += 1;
            self.jobs.insert(job, (Arc::clone(queue), life));
        }
    }

    /// The object of a queue is there, or has changed: its status is to be compared with what is so.
    pub(crate) fn note_object(&mut self, queue: &Arc<str>) {
        self.changed.insert(Arc::clone(queue));
    }

    /// Some queue has changed.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The queues that have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.changed)
    }

    /// What is to be on record of a queue.
    pub(crate) fn status(&self, queue: &str) -> FluxQueueStatus {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let counts = self.counts.get(queue);
        FluxQueueStatus {
            waiting: counts.map_or(0, |counts| number(counts.waiting)),
            running: counts.map_or(0, |counts| number(counts.running)),
        }
    }

    fn count(&mut self, queue: &Arc<str>, life: Life) -> &mut usize {
        self.changed.insert(Arc::clone(queue));
        let counts = self.counts.entry(Arc::clone(queue)).or_default();
        match life {
            Life::Waits => &mut counts.waiting,
            Life::Runs => &mut counts.running,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_counts_once_and_where_it_is() {
        let (mut tally, gpu, cpu) = (Tally::default(), Arc::from("gpu"), Arc::from("cpu"));
        let job = JobId::FIRST;
        tally.note(job, Some((&gpu, Life::Waits)));
        tally.note(job.next(), Some((&gpu, Life::Waits)));
        assert_eq!(tally.take_changed().len(), 1);
        tally.note(job, Some((&gpu, Life::Waits)));
        assert!(!tally.has_changes(), "nothing new");
        tally.note(job, Some((&gpu, Life::Runs)));
        assert_eq!((tally.status("gpu").waiting, tally.status("gpu").running), (1, 1));
        tally.note(job, Some((&cpu, Life::Runs)));
        tally.note(job.next(), None);
        assert_eq!((tally.status("gpu").waiting, tally.status("gpu").running, tally.status("cpu").running), (0, 0, 1));
        assert_eq!(tally.take_changed().len(), 2);
    }
}
