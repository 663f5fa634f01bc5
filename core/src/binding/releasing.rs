//! Writes to a suspended Job: its release, and the outcome of that.

use crate::action::{ActionId, Write};
use crate::backoff::Backoff;
use crate::event::WriteOutcome;
use crate::in_flight::InFlight;
use crate::jobs::setbacks::Setback;
use crate::jobs::suspended::{JobChange, JobWrite, Suspended};
use crate::parts::Binding;
use crate::queueing::quotas;
use crate::sound::{Lookup, Sound};
use crate::telling::words;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::SuspensionPhase;

const RETRY: Backoff = Backoff { min_millis: 250, max_millis: 30_000 };

/// The number of writes of a Job that fail in a row before its place is given back. A client that
/// changes the Job all the time makes each of them conflict, and nodes would stand idle meanwhile.
const ATTEMPTS_MAX: u32 = 6;

impl Binding<'_> {
    // --- the release ---

    /// Releases the Job of a job that could begin, so that its pods come.
    pub(crate) fn release_job(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.get(&id);
        if let Some(short) = job.and_then(|job| quotas::shortage(self.jobs, job, self.clock.now)) {
            // Another Job was released since this one was placed.
            let text = words::outside::of_quota(&short);
            return self.slots().withdraw(id, &text, Setback::Changed);
        }
        self.write_job(id, JobChange::Release)?;
        self.queueing().note_coming(id)?;
        Ok(())
    }

    pub(crate) fn write_job(&mut self, id: JobId, change: JobChange) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let made_by = self.jobs.controllers.of_job(&job.workload.identity);
        // A Job that is gone needs no write, and neither does one that waits no more.
        let (Some(made_by), Suspended::Waits(write)) = (made_by, &job.suspended) else {
            return Ok(());
        };
        // The mark may have been removed since, or the last write failed a moment ago.
        let Some(suspension) =
            made_by.suspension.as_ref().filter(|_| write.is_idle(self.clock.now))
        else {
            return Ok(());
        };
        // A Job that is released needs no write any more.
        let SuspensionPhase::Marked { resource_version, .. } = &suspension.phase else {
            return Ok(());
        };
        let (job, resource_version) = (made_by.id.clone(), resource_version.clone());
        let write = match change {
            JobChange::Release => {
                Write::ReleaseJob { job, resource_version, at: self.clock.wall_now() }
            }
            JobChange::Suspend => Write::SuspendJob { job, resource_version },
        };
        let action = self.agenda.actions.ask(write, InFlight::Job(id));
        let job = self.jobs.all.get_mut(&id);
        if let Some(Suspended::Waits(write)) = job.map(|job| &mut job.suspended) {
            write.under_way = Some((action, change));
        }
        Ok(())
    }

    /// Takes up the outcome of a write of the Job. A failed write may have taken effect all the
    /// same: then the watch shows that.
    pub(crate) fn job_written(
        &mut self,
        id: JobId,
        action: ActionId,
        outcome: &WriteOutcome,
    ) -> Sound {
        let now = self.clock.now;
        let job = self.jobs.all.current_mut(&id)?;
        // The watch may have shown the release before this answer came.
        let Suspended::Waits(write) = &mut job.suspended else { return Ok(()) };
        // The answer may be to a write of an earlier wait of the Job.
        let Some((_, change)) = write.under_way.take_if(|(asked, _)| *asked == action) else {
            return Ok(());
        };
        self.agenda.touched.insert(id);
        match (outcome, change) {
            (WriteOutcome::Written(_), JobChange::Release) => {
                job.suspended = Suspended::Released { since: now }
            }
            (WriteOutcome::Written(_), JobChange::Suspend) => {
                // The watch is about to show it.
                *write =
                    JobWrite { retry_at: now.plus_millis(RETRY.min_millis), ..JobWrite::default() };
            }
            (outcome, _) => {
                write.attempts += 1;
                write.retry_at = now.plus_millis(RETRY.after(write.attempts));
                write.failure = None;
                if let WriteOutcome::Failed(text)
                | WriteOutcome::Invalid(text)
                | WriteOutcome::Refused(text) = outcome
                {
                    tracing::warn!(job = %job.key, error = %text, "writing a suspended Job \
                        failed; it is tried again");
                    write.failure = Some(text.clone());
                }
                let is_enough = outcome.refusal().is_some() || write.attempts >= ATTEMPTS_MAX;
                if change == JobChange::Release && is_enough {
                    let text = match (outcome, &write.failure) {
                        (WriteOutcome::Conflict, _) => "it changes again and again",
                        (_, Some(text)) => text,
                        (_, None) => "it is gone",
                    };
                    let text = format!("its Job cannot be released: {text}");
                    self.stop_start(id, text)?;
                }
            }
        }
        Ok(())
    }
}
