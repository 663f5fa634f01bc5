//! Pods that join a job that has ended: they are a job of their own.

use fluxqueue_api::names;

use crate::jobs::member::Member;
use crate::parts::Refresh;
use crate::records::stored::completion_of;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;

impl Refresh<'_> {
    /// Separates the other pods from a group that has ended. A leader that was paused may record
    /// late that a group has ended to which other pods have come since. The record stays, and these
    /// pods are another group of its name, as they would be to a process that begins now. Returns
    /// whether the job is no more.
    ///
    /// As long as one of these pods is on its way to a node, its outcome is awaited. If the FluxJob
    /// is named after the first of them, the group has ended with that pod, and the news of the
    /// pod's end is still to come.
    pub(crate) fn part_from_ended(&mut self, id: JobId) -> Sound<bool> {
        let Some(job) = self.jobs.all.get(&id).filter(|job| job.record.seen.end.is_some()) else {
            return Ok(false);
        };
        let live = self.jobs.live_members(job);
        let Some(first) = live.iter().min_by_key(|member| (member.pod.created, &member.pod.id))
        else {
            return Ok(false);
        };
        let is_another = job.workload.kind.is_group()
            && names::fluxjob_name(&job.workload.name, job.workload.kind, &first.pod.id.uid)
                != *job.key.name
            && self.records.get(&job.key).is_some_and(|object| completion_of(object).is_some());
        let is_on_its_way = |member: &&Member| {
            member.is_in_doubt(self.clock.now)
                || (member.stage.is_binding() || member.stage.is_ungating())
        };
        if !is_another {
            return Ok(false);
        }
        if live.iter().any(is_on_its_way) {
            let in_doubt = live.iter().filter(|member| member.is_in_doubt(self.clock.now));
            if let Some(at) = in_doubt.map(|member| member.doubt_until).min() {
                self.agenda.timers.wake(Timer::Job(id), at);
            }
            return Ok(false);
        }
        let (key, members) = (job.key.clone(), job.pods.all.clone());
        tracing::info!(job = %key, "an earlier leader has put its end on record: its other pods \
            are another group");
        let pods = self.members().take_out(id, &members);
        let job = self.jobs.all.known_mut(&id)?;
        job.pods.all.clear();
        job.pods.live.clear();
        let pending = std::mem::take(&mut job.waiting.requests);
        for pending in pending {
            self.promise_keeping().forget_request(&pending)?;
        }
        self.recording().forget(id);
        self.recovery().find_jobs(pods);
        if !self.jobs.index.by_key.contains_key(&key) {
            self.members().consider_stray(&key)?;
        }
        Ok(true)
    }
}
