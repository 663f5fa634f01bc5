//! Writing FluxJobs, and reading the changes that users make in them.

pub(crate) mod keeping;
pub(crate) mod reading;
pub(crate) mod refusals;
pub(crate) mod snapshot;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::action::{ActionId, Urgency, Write};
use crate::agenda::Agenda;
use crate::event::WriteOutcome;
use crate::in_flight::InFlight;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::job::{Identity, Job, Style};
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::registry::Jobs;
use crate::jobs::stage::Stage;
use crate::lookahead::Lookahead;
use crate::occupancy::Occupancy;
use crate::records::on_record::Owed;
use crate::records::stored::{Reduction, StatusWrite, Stored, UNSEEN_MILLIS};
use crate::records::{Records, record};
use crate::settings::CoreSettings;
use crate::sound::{Lookup, Sound};
use crate::telling::Reporting;
use crate::timers::Timer;
use fluxqueue_planner::Planner;
use fluxqueue_planner::plan::Requests;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::metadata::owner_kind;
use fluxqueue_workload::{ObjectRef, Time, Uid};

/// Writes FluxJobs, and takes up what they say.
pub(crate) struct Recording<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub lookahead: &'a mut Lookahead,
    pub reporting: &'a mut Reporting,
    pub agenda: &'a mut Agenda,
}

/// How long, in milliseconds, the record of a group waits for further pods of the group.
const SETTLING_MILLIS: i64 = 2_000;

/// How long, in milliseconds, a lone pod waits before it is on record, unless all lone pods are. In
/// a shorter time no user asks why the pod waits.
const LONE_POD_WAIT_MILLIS: i64 = 1_000;

impl Recording<'_> {
    // --- writing ---

    pub(crate) fn write_records(&mut self) {
        self.record_order().give_up_due_records();
        let (mut dirty, mut called, mut owed) =
            (std::mem::take(&mut self.agenda.dirty), BTreeSet::new(), None);
        while let Some(id) = dirty.pop_first() {
            self.notices().consider_group_of(id);
            let done = self.write_record(id, &mut owed);
            self.agenda.heed(done);
            // One rewrite is enough, however many jobs come to wait for the record.
            dirty.extend(
                self.records
                    .on_record
                    .take_called()
                    .into_iter()
                    .filter(|other| called.insert(*other)),
            );
        }
    }

    fn write_record(&mut self, id: JobId, owed: &mut Option<Vec<Owed>>) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if self.records.on_record.rests(id) {
            // The start is written when the records that it depends on are written.
            return Ok(());
        }
        if job.record.setbacks.retry_at > self.clock.now {
            let at = job.record.setbacks.retry_at;
            self.agenda.timers.wake(Timer::Job(id), at);
            return Ok(());
        }
        self.record_order().note_what_is_promised(id, owed)?;
        let job = self.jobs.all.known(&id)?;
        let urgent = urgency(job) == Urgency::Urgent;
        if job.record.overtaken.is_some() && !urgent {
            // The outcome of that write marks the job again.
            return Ok(());
        }
        match &job.record.stored {
            Stored::Absent => self.create_record(id)?,
            Stored::Present { uid } => self.write_status(id, uid.clone())?,
            // A placement for which Bindings wait does not wait for a trailing write.
            Stored::Creating(trailing, _) if urgent && job.record.may_be_overtaken() => {
                let trailing = *trailing;
                self.create_record(id)?;
                self.note_overtaken(id, trailing)?;
            }
            Stored::Writing { uid, write } if urgent && job.record.may_be_overtaken() => {
                let (uid, trailing) = (uid.clone(), write.action);
                self.write_status(id, uid)?;
                self.note_overtaken(id, trailing)?;
            }
            Stored::Creating(..)
            | Stored::Writing { .. }
            | Stored::Deleting { .. }
            | Stored::Deleted => {
                let job = self.jobs.all.known_mut(&id)?;
                job.record.is_marked_again = true;
            }
            Stored::Unseen => {
                let at = self.clock.now.plus_millis(UNSEEN_MILLIS);
                self.agenda.timers.wake(Timer::Job(id), at);
                let job = self.jobs.all.known_mut(&id)?;
                job.record.stored = Stored::Absent;
                job.record.setbacks.retry_at = at;
            }
        }
        Ok(())
    }

    /// Notes that an urgent write overtook the trailing one, if one was requested: the outcome of
    /// the urgent write counts from now on.
    fn note_overtaken(&mut self, id: JobId, trailing: ActionId) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        if job.record.stored.action() != Some(trailing) {
            job.record.overtaken = Some(trailing);
        }
        Ok(())
    }

    fn create_record(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        match self.recorded_from(job) {
            // The end of the obstacle comes as an event.
            None => return Ok(()),
            Some(at) if at > self.clock.now => {
                self.agenda.timers.wake(Timer::Job(id), at);
                return Ok(());
            }
            Some(_) => {}
        }
        if job.is_finished() && self.is_past_keeping(job) {
            // The job ended so long ago that its record has been removed already.
            let job = self.jobs.all.known_mut(&id)?;
            job.record.stored = Stored::Deleted;
            self.agenda.touched.insert(id);
            return Ok(());
        }
        let snapshot = self.snapshot(job);
        let object = Box::new(snapshot.object());
        let urgency = urgency(job);
        let write = Write::CreateFluxJob { job: object, urgency };
        let action = self.agenda.actions.ask(write, InFlight::Record(id));
        let job = self.jobs.all.known_mut(&id)?;
        job.record.stored = Stored::Creating(action, urgency);
        Ok(())
    }

    /// Returns the time from which a job without a record is to have one.
    fn recorded_from(&self, job: &Job) -> Option<Time> {
        if job.pods.all.is_empty() || self.owners_are_gone(job) {
            return None;
        }
        match job.style {
            // The pods of the gang are still appearing. If they appear soon and find room, the
            // record begins with the placement.
            Style::Gang if !job.life.is_placed() && job.waiting.requests.is_empty() => {
                Some(job.pods.joined_at.plus_millis(SETTLING_MILLIS))
            }
            Style::Gang | Style::Elastic => Some(self.clock.now),
            Style::Lone => self.lone_pod_recorded_from(job),
        }
    }

    /// Returns the same for a lone pod. A pod that was just given a node is bound first and
    /// recorded later, or not at all; a pod that is gone, or about to go, needs no record.
    fn lone_pod_recorded_from(&self, job: &Job) -> Option<Time> {
        let member = job.pods.all.first().and_then(|uid| self.jobs.members.get(uid))?;
        let has_waited = !member.stage.is_on_the_way() || member.failed.count > 0;
        if !has_waited || member.pod.deleting || !self.was_tried(job) {
            return None;
        }
        match member.stage {
            _ if self.settings.record_lone_pods => Some(self.clock.now),
            Stage::Bound(_) | Stage::OnUnknownNode | Stage::Ended => None,
            _ => Some(job.pods.joined_at.plus_millis(LONE_POD_WAIT_MILLIS)),
        }
    }

    /// True if the makers of the job's pods were deleted: a record would be removed with them at
    /// once, again and again.
    fn owners_are_gone(&self, job: &Job) -> bool {
        let made_by_controller =
            !matches!(job.workload.identity, Identity::Pod(_)) && !job.workload.owners.is_empty();
        made_by_controller && !job.workload.owners.iter().any(|owner| self.may_be_there(owner, job))
    }

    /// True if the owner may still exist. The objects of operators are not watched, but a deletion
    /// of such an object deletes its pods too.
    fn may_be_there(&self, owner: &OwnerReference, job: &Job) -> bool {
        if owner_kind(&owner.api_version, &owner.kind).is_read() {
            return self.jobs.controllers.get(&job.key.namespace, &owner.uid).is_some();
        }
        let mut members = job.pods.all.iter().filter_map(|uid| self.jobs.members.get(uid));
        members.any(|member| !member.pod.deleting)
    }

    /// False only between the arrival of a pod and the first pass.
    fn was_tried(&self, job: &Job) -> bool {
        let asking = self.sight().asking();
        job.waiting.requests.iter().all(|pending| {
            self.planner.queue.last_attempt_of(pending).is_some() || asking.is_put_off(pending)
        })
    }

    fn write_status(&mut self, id: JobId, uid: Uid) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.record.seen.end.is_some() && !job.is_finished() && job.style != Style::Elastic {
            // The record states the end already, and the news that the pods have ended is on its
            // way.
            return Ok(());
        }
        let is_waiting = job.life == Lifecycle::Waiting
            && job.start.at.is_none()
            && !job.waiting.requests.is_empty();
        let is_reduced = job.record.setbacks.reduction == Reduction::Next && is_waiting;
        let status = self.snapshot(job).status();
        let status =
            if is_reduced { record::reduced(status) } else { self.estimating().ration(id, status) };
        let status = Arc::new(status);
        let job = self.jobs.all.known(&id)?;
        let version = job.start.seats.version();
        if job.status_on_record().is_some_and(|written| *written == *status) {
            self.record_order().note_on_record(id)?;
            // The API server has this placement already.
            if let Some(job) =
                self.jobs.all.get_mut(&id).filter(|job| !job.start.seats.is_acknowledged())
            {
                job.start.seats.acknowledge(version);
                self.record_order().release(id)?;
                self.agenda.timers.wake(Timer::Again, self.clock.now);
            }
            // The record on the API server already states that it cannot be written. Whether it
            // still cannot be written is not known.
            let refused =
                self.jobs.all.get_mut(&id).and_then(|job| job.record.setbacks.refused.take());
            if refused.is_some() {
                self.agenda.queue_changed = true;
                self.record_taken(id)?;
            }
            return Ok(());
        }
        let reference = ObjectRef { key: job.key.clone(), uid: uid.clone() };
        self.notices().notice_change(id, &reference, &status)?;
        self.record_order().note_sent(id, &status)?;
        let job = self.jobs.all.known(&id)?;
        let urgency = urgency(job);
        let resource_version = job.record.seen.resource_version.clone();
        let based_on = resource_version.clone();
        let write = Write::WriteStatus {
            job: reference,
            resource_version,
            status: Arc::clone(&status),
            urgency,
        };
        let action = self.agenda.actions.ask(write, InFlight::Record(id));
        let job = self.jobs.all.known_mut(&id)?;
        job.start
            .seats
            .note_on_record(job.start.seats.is_on_record() || !status.placement.is_empty());
        job.start.seats.placed_by(status.epoch.or(job.start.seats.epoch()));
        let write = StatusWrite { action, urgency, version, based_on, status, is_reduced };
        job.record.stored = Stored::Writing { uid, write };
        job.record.is_marked_again = false;
        Ok(())
    }

    pub(crate) fn record_done(
        &mut self,
        id: JobId,
        action: ActionId,
        outcome: WriteOutcome,
    ) -> Sound {
        let now = self.clock.now;
        let job = self.jobs.all.current_mut(&id)?;
        let is_status =
            matches!(&job.record.stored, Stored::Writing { write, .. } if write.action == action);
        let says_all =
            is_status && matches!(outcome, WriteOutcome::Written(_)) && !job.record.is_marked_again;
        if !says_all {
            self.agenda.dirty.insert(id);
        }
        if job.record.overtaken == Some(action) {
            job.record.overtaken = None;
            if job.is_finished() {
                self.agenda.touched.insert(id);
            }
            if let WriteOutcome::Written(Some(object)) = outcome {
                self.flux_job_written(id, &object)?;
            }
            return Ok(());
        }
        if job.record.stored.action() != Some(action) {
            return Ok(());
        }
        let stored = job.record.stored.clone();
        let knows_better = job.record.has_changed_since(&stored);
        let was_refused = job.record.setbacks.refused.clone();
        self.agenda.queue_changed |= job.record.note_outcome(&outcome, now);
        let refusal = job.record.setbacks.refused.clone();
        let (is_refused, is_written) =
            (outcome.refusal().is_some(), matches!(outcome, WriteOutcome::Written(_)));
        match (stored, outcome) {
            (Stored::Creating(..), WriteOutcome::Written(object)) => {
                job.record.stored = Stored::Unseen;
                if let Some(object) = object {
                    self.flux_job_written(id, &object)?;
                }
            }
            (Stored::Creating(..), WriteOutcome::Exists) => {
                job.record.stored = Stored::Unseen;
                let key = job.key.clone();
                self.members().adopt_record(id, &key)?;
            }
            (Stored::Creating(..), _) => job.record.stored = Stored::Absent,
            (Stored::Writing { uid, write }, WriteOutcome::Written(object)) => {
                self.records.on_record.forget_sent(id);
                job.record.is_own = true;
                job.start.seats.acknowledge(write.version);
                job.start.seats.note_on_record(!write.status.placement.is_empty());
                match object {
                    Some(object) => {
                        job.record.observe(&object);
                        self.records.see(&object);
                    }
                    None => job.record.seen.status = Some(write.status),
                }
                job.record.stored = Stored::Present { uid };
                self.record_order().release(id)?;
            }
            (Stored::Writing { uid, .. }, WriteOutcome::Gone)
            | (Stored::Deleting { uid, .. }, WriteOutcome::Written(_) | WriteOutcome::Gone) => {
                let reference = ObjectRef { key: job.key.clone(), uid };
                self.record_vanished(id, &reference)?;
            }
            // A newer version was seen, and the record follows that version.
            (Stored::Writing { uid, .. }, WriteOutcome::Conflict) if knows_better => {
                job.record.stored = Stored::Present { uid };
            }
            (Stored::Deleting { uid, .. }, _) => job.record.stored = Stored::Present { uid },
            (Stored::Writing { uid, .. }, WriteOutcome::Invalid(_) | WriteOutcome::Refused(_)) => {
                job.record.stored = Stored::Present { uid };
            }
            (Stored::Writing { uid, .. }, _) => {
                // The write may have taken effect, even if it conflicts: it conflicts with itself
                // if its first answer was lost.
                job.record.seen.status = None;
                job.record.stored = Stored::Present { uid };
            }
            _ => {}
        }
        self.record_order().note_on_record(id)?;
        if is_refused {
            self.record_order().note_record_refusal(id)?;
        } else if is_written {
            self.record_order().note_record_written(id);
        }
        match (was_refused, refusal) {
            (_, Some(text)) => self.record_refused(id, &text)?,
            (Some(_), None) => self.record_taken(id)?,
            (None, None) => {}
        }
        let job = self.jobs.all.known(&id)?;
        let (retry_at, finished) = (job.record.setbacks.retry_at, job.is_finished());
        if retry_at > now {
            self.agenda.timers.wake(Timer::Job(id), retry_at);
        }
        if finished {
            self.finalize(id)?;
        }
        Ok(())
    }
}

/// Returns the urgency of a record: Bindings wait for a placement that has not been acknowledged,
/// and a promise goes on record at once.
fn urgency(job: &Job) -> Urgency {
    let is_waited_for =
        (job.writes_ahead() && !job.start.seats.is_acknowledged()) || job.told.is_promise_due;
    if is_waited_for { Urgency::Urgent } else { Urgency::Trailing }
}
