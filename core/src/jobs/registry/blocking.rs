//! The reason for which a job waits, as it is found out.

use crate::jobs::job::Job;
use crate::jobs::registry::Jobs;
use crate::telling::obstacle::Obstacle;
use crate::telling::outside::Outside;
use fluxqueue_planner::queue::JobId;

impl Jobs {
    /// Sets the obstacle for which the job waits, which the plan does not know.
    pub(crate) fn block(&mut self, id: JobId, obstacle: Outside) {
        if let Some(job) = self.all.get_mut(&id) {
            job.waiting.is_late_entrant |= obstacle.costs_the_place();
            block_by(job, Obstacle::Outside(obstacle));
        }
    }
}

/// Sets the obstacle for which a job waits.
pub(crate) fn block_by(job: &mut Job, obstacle: Obstacle) {
    // A reason from an earlier process ends here, together with the first finding of this one.
    job.told.found_first = None;
    job.told.blocker = Some(obstacle.into());
}
