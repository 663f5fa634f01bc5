//! Keeping of promises: puts them on record, reports delays, and starts a walk when one is due.

use std::sync::Arc;

use fluxqueue_api::{BlockedReason, EventReason, FluxJobStatus};

use crate::action::{EventKind, Subject};
use crate::agenda::{Agenda, overdue_from};
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::job::{Job, Style, starts_job};
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::registry::Jobs;
use crate::jobs::unready::not_mountable;
use crate::occupancy::Occupancy;
use crate::records::stored::Stored;
use crate::records::times::time_of;
use crate::settings::CoreSettings;
use crate::sound::{Lookup, Sound};
use crate::taken;
use crate::telling::blockers::Blockers;
use crate::telling::delay::DelayedBy;
use crate::telling::readers::Named;
use crate::telling::words;
use crate::timers::Timer;
use fluxqueue_machine::fluxion::{End, RankSet};
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_planner::Planner;
use fluxqueue_planner::plan::{Delay, Kept, Late, Policies};
use fluxqueue_planner::queue::{JobId, PendingRequest, QueueId};
use fluxqueue_planner::queues::{QueueStanding, Queues};
use fluxqueue_workload::{ObjectRef, Pod, Time, Uid};

/// Reports promises and their delays, restores promises after a restart, and gives them up.
pub(crate) struct PromiseKeeping<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a Intake,
    pub jobs: &'a mut Jobs,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// The cause for which a pod stays longer than was planned.
enum Stays {
    /// A person has wished more time for this job since the last walk.
    Extended(JobId),
    /// This job, or pod of another scheduler, has outlived its planned end.
    Overdue(Named),
    /// This pod replaces one that has failed, so its Job takes longer.
    Retried(ObjectRef),
}

impl PromiseKeeping<'_> {
    /// Takes up that a request of a job has a promised start, or another one than before.
    pub(crate) fn promised(&mut self, id: JobId, start: i64, later: Option<Late>) -> Sound {
        if let Some(late) = later {
            self.tell_delay(id, &late, Some(start))?;
        }
        self.agenda.dirty.insert(id);
        Ok(())
    }

    /// Takes up that a request of a job has no reservation any more.
    pub(crate) fn broken(&mut self, id: JobId, later: Option<Late>) -> Sound {
        if let Some(late) = later {
            self.tell_delay(id, &late, None)?;
        }
        self.agenda.dirty.insert(id);
        Ok(())
    }

    /// Reports that a job which was about to begin has given up its promise for that, and does not
    /// start for the moment.
    pub(crate) fn start_is_off(&mut self, id: JobId, cause: Delay) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        if let Some(was) = job.start.promised_before.take() {
            self.broken(id, Some(Late { cause, was, by: None }))?;
        }
        Ok(())
    }

    /// Reports a broken promise: counts it, and publishes an Event with the cause and the job, pod
    /// or node in the way.
    pub(crate) fn tell_delay(&mut self, id: JobId, late: &Late, start: Option<i64>) -> Sound {
        // If neither rules nor nodes have changed, room within the limits of the queue comes later
        // because of the jobs that hold it.
        let queue = self.sight().limited_queue(id).filter(|_| late.cause == Delay::Walltime);
        let job = self.jobs.all.get(&id).filter(|_| late.cause == Delay::Capacity);
        let missing = job.and_then(|job| self.missing_claim(job));
        let (cause, by, stays) = match late.cause {
            Delay::Capacity if missing.is_some() => (Delay::Capacity, None, None),
            // The room is lost for another reason: a pod that should end in this very second is not
            // the cause.
            Delay::Capacity
                if self.agenda.lost.on(&late.was.nodes).is_some()
                    && self.agenda.extended.is_empty() =>
            {
                (Delay::Capacity, None, None)
            }
            Delay::Walltime | Delay::Capacity => match self.overstaying(&late.was, queue, id) {
                Some(Stays::Extended(by)) => (Delay::Edit, Some(by), None),
                Some(Stays::Overdue(named)) => {
                    let namespace = Arc::clone(&named.key().namespace);
                    (Delay::Walltime, None, Some((namespace, DelayedBy::Overdue(named))))
                }
                Some(Stays::Retried(pod)) => {
                    let namespace = Arc::clone(&pod.key.namespace);
                    (Delay::Walltime, None, Some((namespace, DelayedBy::Retried(pod.key))))
                }
                None => (Delay::Capacity, None, None),
            },
            cause => (cause, late.by, None),
        };
        if let Some((namespace, _)) = &stays {
            self.agenda.gauges.overruns.count(namespace);
        }
        let job = self.jobs.all.known(&id)?;
        let by = match cause {
            Delay::Walltime => stays.map_or(DelayedBy::OverdueJob, |(_, by)| by),
            Delay::Capacity => {
                missing.map_or_else(|| self.what_is_lost(&late.was, queue), DelayedBy::Claim)
            }
            Delay::Priority | Delay::Edit => self.changed_by(cause, by, job),
        };
        self.publish_delay(id, cause, &by, start.map(|start| start.saturating_sub(late.was.start)))
    }

    /// Takes up that a job which was promised a start may not start for now.
    pub(crate) fn put_off(&mut self, id: JobId, was: &Kept) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let Some(why) = job.told.blocker.as_ref().map(Blockers::text) else {
            return self
                .broken(id, Some(Late { cause: Delay::Capacity, was: was.clone(), by: None }));
        };
        self.publish_delay(id, Delay::Edit, &DelayedBy::PutOff(why), None)?;
        self.agenda.dirty.insert(id);
        Ok(())
    }

    /// Counts a broken promise, and publishes an Event about a job that starts this number of
    /// seconds later than promised, or at an unknown time.
    fn publish_delay(
        &mut self,
        id: JobId,
        cause: Delay,
        by: &DelayedBy,
        seconds: Option<i64>,
    ) -> Sound {
        *self.agenda.gauges.reservations_delayed.entry(cause.as_str()).or_default() += 1;
        let job = self.jobs.all.known(&id)?;
        let by = words::delay::message(by, &self.settings.reader(&job.key.namespace));
        let by_how_much = seconds.map_or("at an unknown time".to_owned(), |seconds| {
            format!("{seconds} s later than promised")
        });
        let text = format!("{}: starts {by_how_much}: {by}", cause.as_str());
        tracing::info!(job = %job.key, cause = cause.as_str(), "{text}");
        let reporter = Arc::clone(&job.workload.reporter);
        let record =
            job.record.uid().map(|uid| ObjectRef { key: job.key.clone(), uid: uid.clone() });
        let first = self.jobs.live(job).next().filter(|first| !first.pod.stands_in);
        let subjects = record
            .map(Subject::FluxJob)
            .into_iter()
            .chain(first.map(|first| Subject::Pod(first.pod.id.clone())));
        for subject in subjects.collect::<Vec<_>>() {
            self.agenda.note(
                subject,
                EventKind::Warning,
                EventReason::ReservationDelayed.as_str(),
                "Scheduling",
                text.clone(),
                &reporter,
            );
        }
        Ok(())
    }

    /// Returns the loss that delays a promise.
    fn what_is_lost(&self, was: &Kept, queue: Option<QueueId>) -> DelayedBy {
        let nodes = &was.nodes;
        if let Some(loss) = self.agenda.lost.on(nodes) {
            return DelayedBy::Loss(loss);
        }
        if let Some(queue) = queue {
            return DelayedBy::LimitsOf(Arc::from(self.queues.name(queue)));
        }
        let names = self.sight().names_of(nodes);
        match self.agenda.lost.anywhere() {
            Some(loss) => DelayedBy::Loss(loss),
            None if names.is_empty() => DelayedBy::NodesGone,
            None => self.ends_later(was).map_or(DelayedBy::LessRoom(names), DelayedBy::EndsLater),
        }
    }

    /// Finds a job, or a pod of another scheduler, on the promised nodes that ends after the
    /// promised start: if no room was lost, its kubelet has taken it up later than was planned.
    fn ends_later(&self, was: &Kept) -> Option<Named> {
        let stays = |end: End| matches!(end, End::At(end) if end > was.start);
        let mut holders = self.holders().on(&was.nodes);
        Some(holders.find(|holder| stays(holder.allocation.end))?.named())
    }

    /// Returns the job that came in ahead, or the change that a person has made.
    fn changed_by(&self, cause: Delay, by: Option<JobId>, job: &Job) -> DelayedBy {
        let lost = &self.agenda.lost;
        if let Some(by) = by.and_then(|by| self.jobs.all.get(&by)) {
            let key = by.key.clone();
            if cause == Delay::Priority {
                return DelayedBy::Priority(key);
            }
            let of_queue = lost.queue(&by.queue.name);
            return match of_queue.filter(|_| !self.agenda.extended.contains(&by.id)) {
                Some((queue, change)) => DelayedBy::QueueOf(queue, change, key),
                None => DelayedBy::Edited(key),
            };
        }
        if job.queue.standing == QueueStanding::Paused
            && !job.life.is_placed()
            && let Some(paused) = self.queues.paused()
        {
            return DelayedBy::Paused(paused);
        }
        // Without queues that have their own policies, no job may have a reservation any more.
        let has_no_promises = *self.queues.policies() == Policies::FirstComeFirstServed;
        let any = || lost.any_queue().filter(|_| has_no_promises);
        let changed = lost.queue(&job.queue.name).or_else(any);
        changed.map_or(DelayedBy::EditedItself, |(queue, change)| DelayedBy::Queue(queue, change))
    }

    /// Finds the job or pod that stays longer than was planned, and so delays a promise on these
    /// nodes or within the limits of this queue. Leaves out job `but`, which has the promise.
    fn overstaying(&self, was: &Kept, queue: Option<QueueId>, but: JobId) -> Option<Stays> {
        let nodes = &was.nodes;
        let extended = || {
            self.extended_on(nodes).or_else(|| self.extended_in_queue(queue?)).map(Stays::Extended)
        };
        let overdue = || {
            self.overdue_on(nodes, but)
                .or_else(|| self.overdue_in_queue(queue?, but))
                .map(Stays::Overdue)
        };
        // A retry is a pod that replaces a failed one; here it is planned to stay beyond the start
        // that was promised on these nodes.
        let stays = |end: End| end.is_later_than(End::At(was.start));
        let is_retry = |job: JobId, pod: &Pod| {
            self.jobs.all.get(&job).is_some_and(|job| self.jobs.is_retry(pod, job))
        };
        let retried = || {
            let mut holders =
                self.holders().on(nodes).filter(|holder| stays(holder.allocation.end));
            let retried =
                holders.find(|holder| holder.job.is_some_and(|job| is_retry(job, holder.pod)))?;
            Some(Stays::Retried(retried.pod.id.clone()))
        };
        let there = extended().or_else(overdue).or_else(retried);
        if there.is_some() || self.agenda.lost.is_any {
            return there;
        }
        // If nothing was lost, some job or pod stays longer elsewhere: other jobs make room for
        // those that wait for it.
        let anywhere = self.agenda.extended.first().copied().map(Stays::Extended);
        anywhere.or_else(|| self.late_anywhere().map(Stays::Overdue))
    }

    /// Finds a job on these nodes for which a person has wished more time since the last walk.
    fn extended_on(&self, nodes: &RankSet) -> Option<JobId> {
        let is_there =
            |job: &&Job| self.jobs.allocations(job).any(|taken| nodes.contains(taken.rank));
        self.agenda
            .extended
            .iter()
            .filter_map(|id| self.jobs.all.get(id).map(Box::as_ref))
            .find(is_there)
            .map(|job| job.id)
    }

    /// Finds such a job among those that count against the limits of a queue.
    fn extended_in_queue(&self, queue: QueueId) -> Option<JobId> {
        self.planner.accounts.counted(queue).find(|id| self.agenda.extended.contains(id))
    }

    /// Finds a job, or a pod of another scheduler, on these nodes that has outlived its planned
    /// end.
    fn overdue_on(&self, nodes: &RankSet, but: JobId) -> Option<Named> {
        let mut holders = self.holders().on(nodes);
        let is_late = |allocation: &Allocation| self.is_late(allocation);
        let overdue =
            holders.find(|holder| is_late(holder.allocation) && holder.job != Some(but))?;
        Some(overdue.named())
    }

    /// True if the planned end of an allocation has passed, or has come just now.
    fn is_late(&self, allocation: &Allocation) -> bool {
        allocation.is_overdue
            || matches!(allocation.end, End::At(at) if at <= self.clock.now.seconds())
    }

    /// Finds a job, or a pod of another scheduler, on any node that has outlived its planned end.
    fn late_anywhere(&self) -> Option<Named> {
        let late = taken::by_pods(self.jobs, self.occupancy)
            .find(|taken| self.is_late(taken.allocation))?;
        Some(match late.job {
            Some(job) => Named::Job(self.jobs.all.get(&job)?.key.clone()),
            None => Named::Pod(late.pod.id.key.clone()),
        })
    }

    /// Finds a job that counts against the limits of a queue and has outlived its planned end.
    fn overdue_in_queue(&self, queue: QueueId, but: JobId) -> Option<Named> {
        let counted = self.planner.accounts.counted(queue).filter(|job| *job != but);
        let mut counted = counted.filter_map(|job| self.jobs.all.get(&job));
        let overdue = counted
            .find(|job| self.jobs.allocations(job).any(|allocation| self.is_late(allocation)))?;
        Some(Named::Job(overdue.key.clone()))
    }

    /// Marks a pod as overdue if it has outlived its planned end: its end is unknown from now on.
    pub(crate) fn note_overdue(&mut self, uid: &Uid) {
        // Its end may have changed since, or it may have gone.
        if let Some(allocation) = taken::by_mut(self.jobs, self.occupancy, uid)
            && let End::At(end) = allocation.end
        {
            if overdue_from(end) <= self.clock.now {
                self.planner.ledger.set_end(&mut self.planner.cluster, allocation, End::Eventually);
                allocation.is_overdue = true;
                if let Some(id) = self.jobs.members.get(uid).map(|member| member.job) {
                    self.queueing().note_other_end(id);
                }
            } else {
                self.agenda.watch_end(uid, End::At(end));
            }
        }
    }

    /// Notes that a request is the first to wait: from now on it may be passed by, for as long as
    /// the settings allow.
    pub(crate) fn pass_by(&mut self, pending: &PendingRequest) {
        if self.planner.promises.pass_by(pending, self.clock.now) {
            self.agenda.dirty.insert(pending.job());
        }
    }

    /// Withdraws all reservations, since no job may have one any more.
    pub(crate) fn withdraw_all_promises(&mut self) {
        for pending in self.planner.promises.requests() {
            if let Some(was) = self.planner.promises.kept(&pending) {
                self.forget_promise(&pending);
                let done =
                    self.broken(pending.job(), Some(Late { cause: Delay::Edit, was, by: None }));
                self.agenda.heed(done);
            } else {
                self.forget_promise(&pending);
            }
        }
    }

    /// Reports the delay when a request with a promised start is taken back. The change of its job
    /// broke the promise, unless the job lacks a claim.
    fn tell_own_delay(&mut self, pending: &PendingRequest) -> Sound {
        // A request without a promise cannot be late.
        let Some(was) = self.planner.promises.kept(pending) else { return Ok(()) };
        let job = self.jobs.all.known(&pending.job())?;
        if !self.jobs.goes_on(job) {
            // It may wait again, though: with other pods, or after it has asked for none.
            let is_of_job = starts_job(job, pending);
            let job = self.jobs.all.known_mut(&pending.job())?;
            job.start.promised_before = Some(was).filter(|_| is_of_job);
            return Ok(());
        }
        if is_kept_outside(job) {
            return self.put_off(pending.job(), &was);
        }
        let cause = if self.missing_claim(job).is_some() { Delay::Capacity } else { Delay::Edit };
        self.tell_delay(pending.job(), &Late { cause, was, by: None }, None)?;
        Ok(())
    }

    /// Reports the promises of an earlier process to jobs that are kept out of the queue now, by no
    /// decision about them.
    pub(crate) fn tell_promises_of_kept_outside(&mut self) {
        let promised = |job: &Job| {
            let status = job.status_on_record().filter(|_| is_kept_outside(job))?;
            Some((job.id, self.sight().kept_of(status.reservation.as_ref()?)?))
        };
        let told: Vec<(JobId, Kept)> =
            self.jobs.all.values().filter_map(|job| promised(job)).collect();
        for (id, was) in told {
            let done = self.put_off(id, &was);
            self.agenda.heed(done);
        }
    }

    /// Describes the claim for which a job waits.
    fn missing_claim(&self, job: &Job) -> Option<String> {
        not_mountable(&self.jobs.live_members(job)).map(|(_, text)| text)
    }

    /// Forgets the promise to a request that waits no more, or is replaced by another one.
    pub(crate) fn forget_promise(&mut self, pending: &PendingRequest) {
        let starts = self.jobs.all.get(&pending.job()).is_some_and(|job| starts_job(job, pending));
        if let Some(promise) = self.planner.promises.forget(pending, starts) {
            self.planner.ledger.give_up(&promise.place);
        }
    }

    /// Sets the timer for the next promise that comes due.
    pub(crate) fn wake_for_promises(&mut self) {
        let start = self.planner.promises.next_start().map(Time::from_seconds);
        let bypass_secs =
            |pending: &_| self.queues.bypass_secs(self.planner.queue.queue_of(pending));
        let patience = self.planner.promises.next_patience(bypass_secs);
        if let Some(at) = start.into_iter().chain(patience).min() {
            self.agenda.timers.wake(Timer::Promises, at.max(self.clock.now.plus_millis(1)));
        }
    }

    /// Asks for a walk if a reservation may start, or if a request may not be passed by any longer.
    pub(crate) fn keep_promises(&mut self) {
        let is_over = self.end_patience();
        let is_due = self
            .planner
            .promises
            .next_start()
            .is_some_and(|start| Time::from_seconds(start) <= self.clock.now);
        if is_over || is_due {
            self.agenda.queue_changed = true;
        } else {
            self.wake_for_promises();
        }
    }

    /// Ends the passing by of requests that were passed by for as long as their queues allow. True
    /// if there was any.
    pub(crate) fn end_patience(&mut self) -> bool {
        let (queue, queues) = (&self.planner.queue, &self.queues);
        self.planner
            .promises
            .end_patience(self.clock.now, |pending| queues.bypass_secs(queue.queue_of(pending)))
    }

    /// Restores the times since which jobs were passed by, for jobs that do not wait now because
    /// they are incomplete or held.
    pub(crate) fn restore_patience(&mut self) {
        let not_now = self.jobs.all.values().filter(|job| {
            job.style != Style::Elastic
                && job.life == Lifecycle::Waiting
                && self.planner.queue.first_of(job.id).is_none()
        });
        let since = |job: &Job| job.status_on_record()?.passed_by_since.as_ref().map(time_of);
        let known = not_now.filter_map(|job| Some((job.id, self.clock.core(since(job)?))));
        for (id, since) in known.collect::<Vec<_>>() {
            self.planner.promises.was_passed_by(id, Some(since), RankSet::new());
        }
    }

    /// Takes up a write of an earlier leader that took effect while this one works. A promise in it
    /// is put back in the next pass, or broken.
    pub(crate) fn heed_promise(&mut self, id: JobId, status: &FluxJobStatus) {
        if let Some((pending, was)) = self.promise_of_another(id, status) {
            self.planner.promises.hear(&pending, was);
            self.agenda.queue_changed = true;
        }
    }

    /// Returns the promise in this status that an earlier leader has made and this one does not
    /// know, with its request.
    fn promise_of_another(
        &self,
        id: JobId,
        status: &FluxJobStatus,
    ) -> Option<(PendingRequest, Kept)> {
        let written = status.reservation.as_ref()?;
        let job = self.jobs.all.get(&id).filter(|job| self.intake.synced && !job.record.is_own)?;
        // A write of this process may be seen before it is answered.
        let sent = match &job.record.stored {
            Stored::Writing { write, .. } => write.status.reservation.as_ref(),
            _ => None,
        };
        let is_sent = sent == Some(written);
        if is_sent || self.sight().is_said(job, written) {
            return None;
        }
        let pending = self.planner.queue.first_of(id).filter(|it| starts_job(job, it))?;
        Some((pending.clone(), self.sight().kept_of(written)?))
    }

    /// Reports the promises for which a walk has found no other place.
    pub(crate) fn tell_lost_promises(&mut self, lost: &[PendingRequest]) {
        for pending in lost {
            if let Some(late) = self.planner.promises.take_lost(pending) {
                let done = self.tell_delay(pending.job(), &late, None);
                self.agenda.heed(done);
            }
        }
    }

    /// Has the promise made again, or told as broken, that a job had before its pods were replaced.
    pub(crate) fn make_promise_again(&mut self, pending: &PendingRequest) -> Sound {
        let job = self.jobs.all.known_mut(&pending.job())?;
        if starts_job(job, pending)
            && !job.life.is_placed()
            && let Some(was) = job.start.promised_before.take()
        {
            let late = Late { cause: Delay::Edit, was, by: None };
            self.planner.promises.must_be_made_again(pending, late);
        }
        Ok(())
    }

    pub(crate) fn forget_request(&mut self, pending: &PendingRequest) -> Sound {
        if self.planner.queue.remove(pending) {
            self.agenda.queue_changed = true;
        }
        self.tell_own_delay(pending)?;
        self.forget_promise(pending);
        if let Some(job) = self.jobs.all.get_mut(&pending.job()) {
            job.waiting.requests.remove(pending);
        }
        Ok(())
    }
}

/// True if releases rest in the namespace of a job, or a quota there leaves it no room.
fn is_kept_outside(job: &Job) -> bool {
    let reason = job.told.blocker.as_ref().map(Blockers::reason);
    let is_outside =
        matches!(reason, Some(BlockedReason::ReleasePaused | BlockedReason::QuotaExceeded));
    is_outside && !job.life.is_placed() && job.life.end().is_none()
}
