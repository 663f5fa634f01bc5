//! Questions that most parts ask of the jobs, the nodes and the queue, and that change nothing.

pub(crate) mod exclusive;
pub(crate) mod levels;
pub(crate) mod promises;

use std::sync::Arc;

use fluxqueue_api::Reservation;

use crate::asking::Asking;
use crate::jobs::grouping::StartSize;
use crate::jobs::job::{Job, Member, Said};
use crate::parts::Sight;
use crate::promise_keeping::is_as_written;
use crate::slots::assigning::PlannedEnd;
use fluxqueue_machine::cluster::Node;
use fluxqueue_machine::fluxion::{End, NOT_A_VERTEX};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Lifetime, Pod, Time, Unsupported};

impl Sight<'_> {
    /// What no graph of the library in use has or can hold, and levels that this machine has not,
    /// are as unsupported as what Fluxqueue itself does not honour.
    pub(crate) fn refused_by_machine(&self, pod: Arc<Pod>) -> Arc<Pod> {
        let no_vertex =
            self.planner.ledger.refuses(&pod.shape.requests).map(|resource| Unsupported {
                field: format!("spec.containers[*].resources.requests[{resource}]"),
                message: NOT_A_VERTEX.to_owned(),
            });
        let no_level = self.level_trouble(&pod.levels);
        let ignored: Vec<&str> = self.ignored_levels(&pod.levels).collect();
        let no_tenants = self.exclusive_trouble(&pod);
        if no_vertex.is_none() && no_level.is_none() && no_tenants.is_none() && ignored.is_empty() {
            return pod;
        }
        let mut refused = Pod::clone(&pod);
        refused.unsupported.extend(no_vertex.into_iter().chain(no_level).chain(no_tenants));
        refused.soft_ignored.extend(ignored);
        Arc::new(refused)
    }
}

impl<'a> Sight<'a> {
    /// What the jobs ask for.
    pub(crate) fn asking(&self) -> Asking<'a> {
        Asking { jobs: self.jobs, queues: self.queues, clock: self.clock }
    }
}

impl Sight<'_> {
    /// How many pods of a job start together; `None` if nobody can say yet.
    pub(crate) fn start_size_now(&self, job: &Job) -> Option<usize> {
        match self.jobs.start_size(job, self.settings.group_grace_secs, self.clock.now) {
            StartSize::Pods(size) | StartSize::Clamped { to: size, .. } => Some(size),
            StartSize::Until(_) | StartSize::None => None,
        }
    }
}

impl Sight<'_> {
    /// What a record has of a reservation is what this process says of it.
    pub(crate) fn is_said(&self, job: &Job, written: &Reservation) -> bool {
        let start = |said: &Said| said.start.map(|at| self.clock.wall(at));
        job.said.as_ref().is_some_and(|said| is_as_written(said, start(said), written))
    }
}

impl Sight<'_> {
    /// Until when the record of what ended then is kept.
    pub(crate) fn record_due(&self, completed_at: Time) -> Time {
        self.clock.core(completed_at.plus_secs(self.settings.ttl_after_finished_secs))
    }
}

impl Sight<'_> {
    /// Whoever has outlived his planned end ends at a time that nobody knows.
    pub(crate) fn unless_past(&self, end: End) -> PlannedEnd {
        match end {
            End::At(at) if at < self.clock.now.seconds() => {
                PlannedEnd { end: End::Eventually, is_over: true }
            }
            end => PlannedEnd { end, is_over: false },
        }
    }

    /// When a pod of another scheduler ends, as far as is known: its walltime counts from its
    /// start, or from its creation if that is not known. When one begins that is only nominated,
    /// nobody knows.
    pub(crate) fn pod_end(&self, pod: &Pod) -> PlannedEnd {
        if let (None, Lifetime::Seconds(_)) = (&pod.node, pod.lifetime) {
            return PlannedEnd { end: End::Eventually, is_over: false };
        }
        let from = self.clock.core(pod.started.unwrap_or(pod.created)).seconds();
        self.unless_past(End::of(pod.lifetime.plus_secs(pod.grace_secs), from))
    }
}

impl Sight<'_> {
    /// Pods on nodes repel other pods of a job that wait than they did when it was last looked at.
    pub(crate) fn is_seen_anew(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.all.get(&id) else { return false };
        let asking = self.asking();
        let differs = |member: &Member| self.planner.cluster.stance(&member.pod) != member.stance;
        job.pending.iter().any(|pending| asking.pods(pending).into_iter().any(differs))
    }
}

impl Sight<'_> {
    /// A node that is known will be in other parts of levels.
    pub(crate) fn is_moved(&self, node: &Node) -> bool {
        let known =
            self.planner.cluster.rank(&node.name).and_then(|rank| self.planner.cluster.node(rank));
        let topology = &self.settings.topology;
        known.is_some_and(|known| {
            known.labels != node.labels && topology.parts(known).ne(topology.parts(node))
        })
    }
}
