//! Records for which other jobs wait, and for how long.
//!
//! A job that takes what another one has left waits until the other one's FluxJob says so
//! (`on_record`). A FluxJob is in a namespace of somebody, whose policies and quotas may keep it
//! from being written. So a write without an answer delays other jobs for 10 s at most, and once a
//! write in a namespace is refused, no job of another namespace waits for the records there until
//! one of them is written. A successor may then find a promise that cannot be kept: it is broken,
//! and that is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::EventReason;

use crate::parts::WriteAhead;
use crate::sound::Sound;
use crate::{EventKind, Subject, Timer};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{ObjectRef, Time};

/// How long other jobs wait for a record.
const WAIT_MILLIS: i64 = 10_000;

/// Which records are waited for, and which are not any more.
#[derive(Clone, Default)]
pub(crate) struct Awaited {
    /// Since when a record is waited for.
    since: BTreeMap<JobId, Time>,
    /// Jobs whose records are waited for no longer, until they say what their jobs are promised.
    given_up: BTreeSet<JobId>,
    /// Namespaces in which the last write of a FluxJob was refused.
    refusing: BTreeSet<Arc<str>>,
}

impl Awaited {
    /// A job comes to wait for the record of another one. Returns until when.
    pub(crate) fn begin(&mut self, on: JobId, now: Time) -> Time {
        self.since.entry(on).or_insert(now).plus_millis(WAIT_MILLIS)
    }

    /// A record says what its job is promised, or there is none any more.
    pub(crate) fn end(&mut self, on: JobId) {
        self.since.remove(&on);
        self.given_up.remove(&on);
    }

    /// True if no job of that namespace waits for the record of this job, which is in the other
    /// one.
    pub(crate) fn is_given_up(
        &self,
        on: JobId,
        of_namespace: &Arc<str>,
        by_namespace: &Arc<str>,
    ) -> bool {
        self.given_up.contains(&on)
            || (of_namespace != by_namespace && self.refusing.contains(of_namespace))
    }

    /// A namespace is gone, and its records with it.
    pub(crate) fn forget_namespace(&mut self, name: &str) {
        self.refusing.remove(name);
    }

    /// Records that were waited for long enough: from now on they are not.
    fn give_up_due(&mut self, now: Time) -> Vec<JobId> {
        let is_due = |since: Time| since.plus_millis(WAIT_MILLIS) <= now;
        let due: Vec<JobId> =
            self.since.iter().filter(|(_, since)| is_due(**since)).map(|(job, _)| *job).collect();
        for job in &due {
            self.since.remove(job);
            self.given_up.insert(*job);
        }
        due
    }
}

impl WriteAhead<'_> {
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

    /// No job waits for the record of this one any more.
    pub(crate) fn let_all_go_on(&mut self, on: JobId) {
        self.agenda.dirty.extend(self.records.on_record.end_turn(on));
        self.let_starts_go_on(on);
    }

    /// No job that starts waits for the record of this one any more.
    pub(crate) fn let_starts_go_on(&mut self, on: JobId) {
        for free in self.records.on_record.end_rest(on) {
            self.agenda.dirty.insert(free);
            let released = self.release(free);
            self.agenda.heed(released);
        }
    }

    /// A write of a job's FluxJob was refused: no job of another namespace waits for it, nor for others
    /// of its namespace.
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

    /// A FluxJob of this job's namespace was written.
    pub(crate) fn note_record_written(&mut self, id: JobId) {
        if let Some(namespace) = self.namespace_of(id) {
            self.records.on_record.awaited.refusing.remove(&namespace);
        }
    }

    fn namespace_of(&self, id: JobId) -> Option<Arc<str>> {
        self.jobs.all.get(&id).map(|job| Arc::clone(&job.key.namespace))
    }

    /// Tells a job that others do not wait for its record any more.
    fn tell_record_unanswered(&mut self, id: JobId) {
        if let Some(job) = self.jobs.all.get(&id) {
            let text = format!(
                "writing FluxJob {} has had no answer for {} s: other jobs do not wait for it any more, and if Fluxqueue restarts \
                 now, what the FluxJob promises may be lost",
                job.key,
                WAIT_MILLIS / 1000
            );
            tracing::warn!(job = %job.key, "other jobs do not wait for the write of a FluxJob any more");
            let record =
                job.record.uid().map(|uid| ObjectRef { key: job.key.clone(), uid: uid.clone() });
            let pod = self.jobs.live(job).find(|member| !member.pod.stands_in);
            let pod = pod.map(|member| Subject::Pod(member.pod.id.clone()));
            let reporter = Arc::clone(&job.reporter);
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

    /// A job comes to wait for the record of another one.
    pub(crate) fn wait_for_record(&mut self, on: JobId) {
        let until = self.records.on_record.awaited.begin(on, self.clock.now);
        self.agenda.timers.wake(Timer::Job(on), until);
    }
}
