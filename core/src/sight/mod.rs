//! Questions about the jobs, the nodes and the queue that most parts ask. None of them changes
//! anything.

pub(crate) mod exclusive;
pub(crate) mod levels;
pub(crate) mod promises;

use std::sync::Arc;

use fluxqueue_api::Reservation;

use crate::asking::Asking;
use crate::jobs::clock::Clock;
use crate::jobs::grouping::StartSize;
use crate::jobs::job::{Job, Said, is_as_written};
use crate::jobs::member::Member;
use crate::jobs::registry::Jobs;
use crate::settings::CoreSettings;
use fluxqueue_machine::cluster::Node;
use fluxqueue_machine::fluxion::{End, NOT_A_VERTEX};
use fluxqueue_planner::Planner;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{Lifetime, Pod, Time, Unsupported};

/// The owners about which most parts ask, and which none of these questions changes.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    pub settings: &'a CoreSettings,
    pub clock: Clock,
    pub jobs: &'a Jobs,
    pub planner: &'a Planner,
    pub queues: &'a Queues,
}

/// The planned end of a pod on a node, as far as it is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedEnd {
    pub end: End,
    /// True if the pod was planned to end at a second that has passed.
    pub is_over: bool,
}

impl Sight<'_> {
    /// Adds to a pod's unsupported fields the resources that the library in use cannot hold, and
    /// the levels that this machine lacks. They are treated like the fields that Fluxqueue itself
    /// does not honour.
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
    /// Returns the requests of the jobs.
    pub(crate) fn asking(&self) -> Asking<'a> {
        Asking { jobs: self.jobs, queues: self.queues, clock: self.clock }
    }
}

impl Sight<'_> {
    /// Returns the number of pods of a job that start together; `None` if it is not known yet.
    pub(crate) fn start_size_now(&self, job: &Job) -> Option<usize> {
        match self.jobs.start_size(job, self.settings.group_grace_secs, self.clock.now) {
            StartSize::Pods(size) | StartSize::Clamped { to: size, .. } => Some(size),
            StartSize::Until(_) | StartSize::None => None,
        }
    }

    /// True if the reservation in a record is the one that this process states.
    pub(crate) fn is_said(&self, job: &Job, written: &Reservation) -> bool {
        let start = |said: &Said| said.start.map(|at| self.clock.wall(at));
        job.told.promise.as_ref().is_some_and(|said| is_as_written(said, start(said), written))
    }

    /// Returns the time until which the record of a job that ended at `completed_at` is kept.
    pub(crate) fn record_due(&self, completed_at: Time) -> Time {
        self.clock.core(completed_at.plus_secs(self.settings.ttl_after_finished_secs))
    }

    /// Returns a planned end. The end of a pod that has outlived its planned end is unknown.
    pub(crate) fn unless_past(&self, end: End) -> PlannedEnd {
        match end {
            End::At(at) if at < self.clock.now.seconds() => {
                PlannedEnd { end: End::Eventually, is_over: true }
            }
            end => PlannedEnd { end, is_over: false },
        }
    }

    /// Returns the end of a pod of another scheduler, as far as it is known. Its walltime counts
    /// from its start, or from its creation if the start is not known. The start of a pod that is
    /// only nominated is unknown, and so is its end.
    pub(crate) fn pod_end(&self, pod: &Pod) -> PlannedEnd {
        if let (None, Lifetime::Seconds(_)) = (&pod.node, pod.lifetime) {
            return PlannedEnd { end: End::Eventually, is_over: false };
        }
        let from = self.clock.core(pod.started.unwrap_or(pod.created)).seconds();
        self.unless_past(End::of(pod.lifetime.plus_secs(pod.grace_secs), from))
    }

    /// True if pods on nodes now repel other waiting pods of a job than when the job was last
    /// refreshed.
    pub(crate) fn is_seen_again(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.all.get(&id) else { return false };
        let asking = self.asking();
        let differs = |member: &Member| {
            self.planner.cluster.neighbours().stance(&member.pod) != member.terms.stance
        };
        job.waiting.requests.iter().any(|pending| asking.pods(pending).into_iter().any(differs))
    }

    /// True if a known node moves to other parts of levels.
    pub(crate) fn is_moved(&self, node: &Node) -> bool {
        let known = self.planner.cluster.node_named(&node.name);
        let topology = &self.settings.topology;
        known.is_some_and(|known| {
            known.labels != node.labels && topology.parts(known).ne(topology.parts(node))
        })
    }
}
