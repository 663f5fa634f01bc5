//! Rests after searches for places that gave up.

use std::sync::Arc;

use crate::parts::Slots;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::queue::PendingRequest;

impl Slots<'_> {
    /// Notes that the search for places of a request gave up after these steps. The request claims
    /// nothing for a while, and no gang of its namespace is searched for until the pauses of the
    /// namespace are over.
    pub(crate) fn rest_after_search(&mut self, pending: &PendingRequest, steps: u64) -> Sound {
        if steps == 0 {
            return Ok(());
        }
        let (now, most) = (self.clock.now, self.settings.search_steps);
        let job = self.jobs.all.known_mut(&pending.job())?;
        let namespace = Arc::clone(&job.key.namespace);
        let setbacks = match pending {
            PendingRequest::Start(_) => &mut job.start.setbacks,
            PendingRequest::Member(_, uid) => &mut self.jobs.members.known_mut(uid)?.setbacks,
        };
        let pause = setbacks.count_search(steps, most, now);
        if pause == 0 {
            // It cost less than the walk that the end of a pause asks for.
            return Ok(());
        }
        tracing::info!(job = %job.key, steps, pause_millis = pause, "a search for places gave up");
        let until = self.jobs.searches.owe(&namespace, pause, now);
        self.agenda.timers.wake(Timer::Searches(namespace), until);
        Ok(())
    }
}
