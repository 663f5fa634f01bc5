//! Jobs that are held.

use crate::jobs::job::Style;
use crate::jobs::member::Member;
use crate::parts::Refresh;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::plan::Delay;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Uid;

impl Refresh<'_> {
    /// Takes back the slots of a held job, or of a job in a held queue, for pods that have not been
    /// sent to their nodes yet. A gang with a pod that was sent is completed.
    pub(super) fn obey_hold(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if !job.record.overrides.is_held() && !job.queue.is_held() {
            return Ok(());
        }
        let now = self.clock.now;
        let is_sent = |m: &Member| m.stage.is_binding() || m.stage.is_bound();
        if job.style == Style::Gang && self.jobs.live(job).any(|m| m.maybe_bound || is_sent(m)) {
            return Ok(());
        }
        // A Binding without an answer may have had an effect: that is known after a while.
        let in_doubt = self.jobs.live(job).filter(|m| m.stage.is_unsent() && m.is_in_doubt(now));
        if let Some(at) = in_doubt.map(|member| member.doubt_until).min() {
            self.agenda.timers.wake(Timer::Job(id), at);
        }
        let unsent = self.jobs.live(job).filter(|m| m.stage.is_unsent() && !m.is_in_doubt(now));
        let unsent: Vec<Uid> = unsent.map(|member| member.pod.id.uid.clone()).collect();
        if unsent.is_empty() {
            return Ok(());
        }
        for uid in unsent {
            self.slots().unassign(&uid)?;
        }
        // The job may wait again before its record states the hold.
        self.promise_keeping().start_is_off(id, Delay::Edit)?;
        Ok(())
    }
}
