//! Promises to a job or a request.

use std::collections::BTreeMap;

use fluxqueue_api::Reservation;

use crate::jobs::job::{Job, Style, starts_job};
use crate::jobs::lifecycle::Lifecycle;
use crate::parts::Sight;
use crate::records::times::time_of;
use fluxqueue_machine::fluxion::RankSet;
use fluxqueue_planner::plan::Kept;
use fluxqueue_planner::queue::{JobId, PendingRequest, QueueId};
use fluxqueue_workload::{NodeName, Time};

impl Sight<'_> {
    /// Returns the queue of a job, if it limits running jobs.
    pub(crate) fn limited_queue(&self, job: JobId) -> Option<QueueId> {
        let queue = self.jobs.all.get(&job)?.queue.id;
        self.queues.limits(queue).map(|_| queue)
    }

    /// Returns the names of those of these nodes that still exist, as a hostlist. Ranks have a
    /// meaning in one process only, so records use names.
    pub(crate) fn names_of(&self, nodes: &RankSet) -> String {
        let nodes = nodes.iter().filter_map(|rank| self.planner.cluster.node(rank));
        flux_lists::hostlist::encode_set(nodes.map(|node| &*node.name))
    }

    /// Returns the time since which a job has been passed by.
    pub(crate) fn passed_by_since(&self, job: &Job) -> Option<Time> {
        let place =
            |pending: &PendingRequest| self.planner.queue.place_of(pending).map(|(place, _)| place);
        let may_wait_again = job.style != Style::Elastic && job.life == Lifecycle::Waiting;
        self.planner
            .promises
            .passed_by_since_of(job.id, place)
            .filter(|_| !job.waiting.requests.is_empty() || may_wait_again)
    }

    /// Returns the nodes that are held for the first of a job's requests that holds some.
    pub(crate) fn held_for(&self, job: &Job) -> Option<&RankSet> {
        let place =
            |pending: &PendingRequest| self.planner.queue.place_of(pending).map(|(place, _)| place);
        self.planner.promises.drained_of(job.id, place)
    }

    pub(crate) fn nodes_of(&self, names: &str) -> RankSet {
        let names = flux_lists::hostlist::decode(names).unwrap_or_default();
        names
            .iter()
            .filter_map(|name| self.planner.cluster.rank(&NodeName::from(name.as_str())))
            .collect()
    }

    /// Returns a reservation from a record, if it has a date.
    pub(crate) fn kept_of(&self, written: &Reservation) -> Option<Kept> {
        let start = self.clock.core(time_of(written.start.as_ref()?)).seconds();
        Some(Kept { start, nodes: self.nodes_of(&written.nodes) })
    }

    /// Returns the promises by which jobs start, which are on record; and the requests that have
    /// other promises.
    pub(crate) fn promised_by_records(
        &self,
    ) -> (BTreeMap<PendingRequest, Kept>, Vec<PendingRequest>) {
        let (mut on_record, mut others) = (BTreeMap::new(), Vec::new());
        for (pending, promise) in self.planner.promises.reservations() {
            if self.jobs.all.get(&pending.job()).is_some_and(|job| starts_job(job, pending)) {
                let kept = Kept { start: promise.place.start, nodes: promise.place.nodes.clone() };
                on_record.insert(pending.clone(), kept);
            } else {
                others.push(pending.clone());
            }
        }
        (on_record, others)
    }
}
