//! The place of a job in its queue, and the reasons for which a queue keeps a job out.

use fluxqueue_api::BlockedReason;

use crate::jobs::job::{InQueue, Job};
use crate::jobs::suspended::Suspended;
use crate::parts::Refresh;
use crate::queueing::quotas;
use fluxqueue_planner::queues::QueueStanding;
use fluxqueue_workload::{Lifetime, Pod, Time, Uid};

/// The reason of PodScheduled as long as a pod has gates, in the words of the API server.
const GATED: &str = "SchedulingGated";

impl Refresh<'_> {
    /// Returns the place of a job that has none on record: the present. For a job that a new
    /// process finds waiting, it is the time when the last of these pods was made; but the time at
    /// which gates of other owners were removed is not known.
    pub(crate) fn new_place(&self, pods: &[Uid]) -> Time {
        let now = self.clock.wall_now();
        let since = |pod: &Pod| {
            let was_gated =
                pod.scheduled_condition.as_ref().is_some_and(|condition| condition.reason == GATED);
            if was_gated { now } else { pod.created.min(now) }
        };
        let pods = pods.iter().filter_map(|uid| self.jobs.members.get(uid));
        pods.map(|member| since(&member.pod))
            .max()
            .filter(|_| self.intake.taking_over)
            .unwrap_or(now)
    }

    /// Returns why a job may not wait in its queue, or not start from it.
    pub(crate) fn kept_out_by_queue(&self, job: &Job) -> Option<(BlockedReason, String)> {
        let InQueue { name, standing, walltimes, had_place, .. } = &job.queue;
        match standing {
            QueueStanding::Open => {}
            QueueStanding::OtherKinds => {
                let text = format!(
                    "FluxQueue {name} takes no {}: see its spec.workloadKinds",
                    job.workload.kind.as_str()
                );
                return Some((BlockedReason::QueueNotUsable, text));
            }
            QueueStanding::Stopped => {
                return Some((
                    BlockedReason::Held,
                    format!("its queue is stopped: spec.stopPolicy of FluxQueue {name} is Hold"),
                ));
            }
            QueueStanding::Paused => {
                let message = self.queues.paused().unwrap_or_default();
                return Some((BlockedReason::Paused, message));
            }
            QueueStanding::Invalid => {
                let trouble = self.queues.object(name).and_then(|queue| queue.trouble.as_deref());
                let trouble = trouble.unwrap_or("its spec cannot be read");
                return Some((
                    BlockedReason::QueueInvalid,
                    format!("FluxQueue {name} cannot be used: {trouble}"),
                ));
            }
            QueueStanding::Missing if *had_place => {
                return Some((
                    BlockedReason::Held,
                    format!("its queue was deleted: there is no FluxQueue {name} any more"),
                ));
            }
            QueueStanding::Missing => {
                return Some((
                    BlockedReason::QueueNotUsable,
                    format!("there is no FluxQueue {name}"),
                ));
            }
            QueueStanding::Closed => {
                let text = format!(
                    "FluxQueue {name} is not for namespace {}: see its spec.namespaceSelector",
                    job.key.namespace
                );
                return Some((BlockedReason::QueueNotUsable, text));
            }
        }
        walltimes.max_secs?;
        let longest =
            self.jobs.live(job).map(|member| self.jobs.walltime(&member.pod, job)).max()?;
        let max = walltimes.exceeded_by(longest)?;
        let asked = match longest {
            Lifetime::Seconds(seconds) => format!("a walltime of {seconds} s"),
            Lifetime::Eventually | Lifetime::Endless => "no end, as a service,".to_owned(),
        };
        let text = format!(
            "it asks for {asked} and FluxQueue {name} has {max} s at most (spec.maxWalltimeSeconds)"
        );
        Some((BlockedReason::WalltimeTooLong, text))
    }

    // --- limits ---

    /// Returns the message for a job without a place in a queue that already has its largest number
    /// of waiting jobs.
    pub(crate) fn kept_outside(&self, job: &Job) -> Option<String> {
        if !job.waiting.requests.is_empty()
            || job.waiting.since.is_some()
            || !self.queues.is_any_object()
        {
            return None;
        }
        let (path, most) = self.queues.full(&job.queue.name, &job.key.namespace)?;
        Some(format!("{most} jobs wait, as many as may: {path} of FluxQueue {}", job.queue.name))
    }

    /// Returns why no Job of its namespace is released now, and until when, if this one waits
    /// without pods.
    pub(crate) fn paused(&self, job: &Job) -> Option<(String, Time)> {
        if !waits_without_pods(job) {
            return None;
        }
        let (times, until) = self.jobs.releases.paused(&job.key.namespace, self.clock.now)?;
        let at = self.clock.wall(until).timestamp();
        let what = if times == 1 { "a Job was".to_owned() } else { format!("{times} Jobs were") };
        let text = format!(
            "{what} released in its namespace, and the pods did not all come in time: the next release is not before {at}"
        );
        Some((text, until))
    }

    /// Returns why a job that waits without pods, and without a place, is not to have one: a quota
    /// leaves too little for its pods.
    pub(crate) fn lacks_quota(&self, job: &Job) -> Option<String> {
        if !waits_without_pods(job) {
            return None;
        }
        quotas::shortage(self.jobs, job, self.clock.now)
    }
}

/// True if a job waits without pods, and has no place yet.
fn waits_without_pods(job: &Job) -> bool {
    matches!(job.suspended, Suspended::Waits(_)) && !job.life.is_placed()
}
