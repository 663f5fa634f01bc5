//! Records for which other jobs wait, and the limit of that wait.

use std::sync::Arc;

use fluxqueue_api::EventReason;

use crate::action::{EventKind, Subject};
use crate::parts::RecordOrder;
use crate::records::awaited::WAIT_MILLIS;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::ObjectRef;

impl RecordOrder<'_> {
    /// Lets the jobs go on that have waited for a record for long enough.
    pub(crate) fn give_up_due_records(&mut self) {
        for id in self.records.on_record.awaited.give_up_due(self.clock.now) {
            if self.records.on_record.is_waited_for(id) {
                self.let_all_go_on(id);
                self.agenda.gauges.records_given_up += 1;
                self.tell_record_unanswered(id);
            }
        }
    }

    /// Ends every wait for the record of this job.
    pub(crate) fn let_all_go_on(&mut self, on: JobId) {
        self.agenda.dirty.extend(self.records.on_record.end_turn(on));
        self.let_starts_go_on(on);
    }

    /// Ends the waits of starting jobs for the record of this job.
    pub(crate) fn let_starts_go_on(&mut self, on: JobId) {
        for free in self.records.on_record.end_rest(on) {
            self.agenda.dirty.insert(free);
            let released = self.release(free);
            self.agenda.heed(released);
        }
    }

    /// Takes up that a write of a job's FluxJob was refused: jobs of other namespaces stop waiting
    /// for it, and for other records of its namespace.
    pub(crate) fn note_record_refusal(&mut self, id: JobId) -> Sound {
        let namespace = self.namespace_of(id).unwrap_or_default();
        self.records.on_record.awaited.refusing.insert(Arc::clone(&namespace));
        let in_namespace = |job: JobId| self.namespace_of(job).is_some_and(|of| of == namespace);
        let waits = self.records.on_record.waits();
        let through_wall: Vec<(JobId, JobId)> = waits
            .into_iter()
            .filter(|(job, on)| in_namespace(*on) && !in_namespace(*job))
            .collect();
        for (job, on) in through_wall {
            self.agenda.gauges.records_given_up += 1;
            self.agenda.dirty.insert(job);
            if self.records.on_record.end_wait(job, on) {
                self.release(job)?;
            }
        }
        Ok(())
    }

    /// Takes up that a FluxJob of this job's namespace was written.
    pub(crate) fn note_record_written(&mut self, id: JobId) {
        if let Some(namespace) = self.namespace_of(id) {
            self.records.on_record.awaited.refusing.remove(&namespace);
        }
    }

    fn namespace_of(&self, id: JobId) -> Option<Arc<str>> {
        self.jobs.all.get(&id).map(|job| Arc::clone(&job.key.namespace))
    }

    /// Publishes an Event about a job: other jobs have stopped waiting for its record.
    fn tell_record_unanswered(&mut self, id: JobId) {
        if let Some(job) = self.jobs.all.get(&id) {
            let text = format!(
                "writing FluxJob {} has had no answer for {} s: other jobs do not wait for it any \
                 more, and if Fluxqueue restarts now, the promises of the FluxJob may be lost",
                job.key,
                WAIT_MILLIS / 1000
            );
            tracing::warn!(job = %job.key, "other jobs do not wait for the write of a FluxJob any \
                more");
            let record =
                job.record.uid().map(|uid| ObjectRef { key: job.key.clone(), uid: uid.clone() });
            let pod = self.jobs.live(job).find(|member| !member.pod.stands_in);
            let pod = pod.map(|member| Subject::Pod(member.pod.id.clone()));
            let reporter = Arc::clone(&job.workload.reporter);
            for subject in record.map(Subject::FluxJob).into_iter().chain(pod).collect::<Vec<_>>() {
                let reason = EventReason::RecordUnanswered.as_str();
                self.agenda.note(
                    subject,
                    EventKind::Warning,
                    reason,
                    "Recording",
                    text.clone(),
                    &reporter,
                );
            }
        }
    }

    /// Sets the limit of the wait of another job for the record of this one.
    pub(crate) fn wait_for_record(&mut self, on: JobId) {
        let until = self.records.on_record.awaited.begin(on, self.clock.now);
        self.agenda.timers.wake(Timer::Job(on), until);
    }

    /// Gives the job's pods with slots their turns in the outbox: their placement is acknowledged,
    /// or a pause of the job is over.
    pub(crate) fn release(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.current(&id)?;
        for member in self.jobs.live_members(job) {
            self.agenda.outbox.add(self.jobs, &member.pod.id.uid);
        }
        Ok(())
    }
}
