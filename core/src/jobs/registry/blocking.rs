//! The reason for which a job waits, as it is found out.

use fluxqueue_api::{BlockedBy, BlockedReason};

use crate::jobs::registry::Jobs;
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
            job.is_late_entrant |= is_of_queue
                || matches!(
                    reason,
                    BlockedReason::Held
                        | BlockedReason::Paused
                        | BlockedReason::Gated
                        | BlockedReason::QuotaExceeded
                );
            let queue = is_of_queue.then(|| job.queue.name.to_string());
            // A reason from an earlier process ends here, together with the first finding of this
            // one.
            job.found_first = None;
            job.blocker = Some(BlockedBy { queue, ..BlockedBy::new(reason, message) }.into());
        }
    }
}
