//! Positions of jobs in their queues, from 1, counted in jobs.

use std::collections::BTreeMap;

use fluxqueue_machine::table::Table;
use fluxqueue_planner::plan::Pending;
use fluxqueue_planner::queue::{JobId, QueueId};

/// The counted positions, for one state of the queues. Many jobs ask one after the other, as after
/// a restart: the positions are counted for the first of them.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    as_of: u64,
    of: BTreeMap<QueueId, Table<JobId, usize>>,
}

impl Positions {
    /// Returns the positions of all jobs that wait in a queue.
    pub(crate) fn in_queue(&mut self, all: &Pending, queue: QueueId) -> &Table<JobId, usize> {
        if self.as_of != all.changes() {
            self.of.clear();
            self.as_of = all.changes();
        }
        self.of.entry(queue).or_insert_with(|| {
            let mut positions = Table::default();
            for place in all.of_queue(queue) {
                let next = positions.len() + 1;
                positions.entry(place.request().job()).or_insert(next);
            }
            positions
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_planner::plan::RequestKey;
    use fluxqueue_planner::queue::{PendingRequest, Place};
    use fluxqueue_workload::Time;

    #[test]
    fn they_are_counted_anew_when_the_queue_is_another() {
        let jobs = [1, 2, 3].map(JobId::from);
        let (mut queue, mut positions) = (Pending::default(), Positions::default());
        for (second, job) in (0..).zip(&jobs) {
            let key = RequestKey { queue: QueueId::DEFAULT, counts: None, slots: Vec::new() };
            queue.put(
                Place::new(0, Time::from_seconds(second), 0, PendingRequest::Start(*job)),
                key,
            );
        }
        let counted = |queue: &Pending, positions: &mut Positions| {
            let all = positions.in_queue(queue, QueueId::DEFAULT);
            jobs.iter().map(|job| all.get(job).copied()).collect::<Vec<_>>()
        };
        assert_eq!(counted(&queue, &mut positions), [Some(1), Some(2), Some(3)]);
        queue.remove(&PendingRequest::Start(jobs[0]));
        assert_eq!(counted(&queue, &mut positions), [None, Some(1), Some(2)]);
        assert_eq!(queue.position_of(jobs[2], QueueId::DEFAULT), 2);
    }
}
