//! The place of a job in its queue, and the reasons for which a queue keeps a job out.

use std::sync::Arc;

use crate::jobs::job::{InQueue, Job};
use crate::jobs::suspended::Suspended;
use crate::parts::Refresh;
use crate::queueing::quotas;
use crate::telling::outside::{Outside, QueueObstacle, QueueTrouble, QuotaShortage};
use fluxqueue_planner::queues::QueueStanding;
use fluxqueue_workload::{Pod, Time, Uid};

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
    pub(crate) fn kept_out_by_queue(&self, job: &Job) -> Option<Outside> {
        let InQueue { name, standing, had_place, .. } = &job.queue;
        let why = match standing {
            QueueStanding::Open => return self.too_long(job).map(|why| of(name, why)),
            QueueStanding::Paused => {
                return Some(Outside::Paused(self.queues.paused().unwrap_or_default()));
            }
            QueueStanding::OtherKinds => QueueTrouble::OtherKind(job.workload.kind),
            QueueStanding::Stopped => QueueTrouble::Stopped,
            QueueStanding::Invalid => {
                let trouble = self.queues.object(name).and_then(|queue| queue.trouble.as_deref());
                QueueTrouble::Invalid(trouble.unwrap_or("its spec cannot be read").to_owned())
            }
            QueueStanding::Missing if *had_place => QueueTrouble::Deleted,
            QueueStanding::Missing => QueueTrouble::Missing,
            QueueStanding::Closed => QueueTrouble::Closed(Arc::clone(&job.key.namespace)),
        };
        Some(of(name, why))
    }

    /// Returns the trouble of a job that lasts longer than its queue allows.
    fn too_long(&self, job: &Job) -> Option<QueueTrouble> {
        let walltimes = &job.queue.walltimes;
        walltimes.max_secs?;
        let asked = self.jobs.live(job).map(|member| self.jobs.walltime(&member.pod, job)).max()?;
        Some(QueueTrouble::TooLong { asked, most: walltimes.exceeded_by(asked)? })
    }

    // --- limits ---

    /// Returns the obstacle for a job without a place in a queue that already has its largest
    /// number of waiting jobs.
    pub(crate) fn kept_outside(&self, job: &Job) -> Option<QueueObstacle> {
        if !job.waiting.requests.is_empty()
            || job.waiting.since.is_some()
            || !self.queues.is_any_object()
        {
            return None;
        }
        let (path, most) = self.queues.full(&job.queue.name, &job.key.namespace)?;
        let queue = Arc::clone(&job.queue.name);
        Some(QueueObstacle { queue, why: QueueTrouble::Full { most, path } })
    }

    /// Returns why no Job of its namespace is released now, and until when in the core's time, if
    /// this one waits without pods.
    pub(crate) fn paused(&self, job: &Job) -> Option<(Outside, Time)> {
        if !waits_without_pods(job) {
            return None;
        }
        let (times, until) = self.jobs.releases.paused(&job.key.namespace, self.clock.now)?;
        Some((Outside::ReleasePaused { times, until: self.clock.wall(until) }, until))
    }

    /// Returns why a job that waits without pods, and without a place, is not to have one: a quota
    /// leaves too little for its pods.
    pub(crate) fn lacks_quota(&self, job: &Job) -> Option<QuotaShortage> {
        if !waits_without_pods(job) {
            return None;
        }
        quotas::shortage(self.jobs, job, self.clock.now)
    }
}

/// Returns the obstacle that a queue is for a job.
fn of(queue: &Arc<str>, why: QueueTrouble) -> Outside {
    Outside::Queue(QueueObstacle { queue: Arc::clone(queue), why })
}

/// True if a job waits without pods, and has no place yet.
fn waits_without_pods(job: &Job) -> bool {
    matches!(job.suspended, Suspended::Waits(_)) && !job.life.is_placed()
}
