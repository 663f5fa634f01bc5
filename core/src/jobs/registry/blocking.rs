//! The reason for which a job waits, as it is found out.

use fluxqueue_api::{BlockedBy, BlockedReason};

use crate::jobs::job::Job;
use crate::jobs::registry::Jobs;
use crate::telling::obstacle::Obstacle;
use fluxqueue_planner::queue::JobId;

impl Jobs {
    /// Sets the reason why the job waits, as a user reads it.
    pub(crate) fn block(&mut self, id: JobId, reason: BlockedReason, message: String) {
        if let Some(job) = self.all.get_mut(&id) {
            let is_of_queue = matches!(
                reason,
                BlockedReason::QueueNotUsable
                    | BlockedReason::QueueInvalid
                    | BlockedReason::WalltimeTooLong
                    | BlockedReason::QueueFull
            );
            job.waiting.is_late_entrant |= is_of_queue
                || matches!(
                    reason,
                    BlockedReason::Held
                        | BlockedReason::Paused
                        | BlockedReason::Gated
                        | BlockedReason::QuotaExceeded
                );
            let queue = is_of_queue.then(|| job.queue.name.to_string());
            let stated = BlockedBy { queue, ..BlockedBy::new(reason, message) };
            block_by(job, Obstacle::Stated(stated));
        }
    }
}

/// Sets the obstacle for which a job waits.
pub(crate) fn block_by(job: &mut Job, obstacle: Obstacle) {
    // A reason from an earlier process ends here, together with the first finding of this one.
    job.told.found_first = None;
    job.told.blocker = Some(obstacle.into());
}
