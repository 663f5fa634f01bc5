//! Starts that rest on promises: they wait until these are on record.

pub(crate) mod awaited;

use std::sync::Arc;

use fluxqueue_api::FluxJobStatus;

use crate::agenda::Agenda;
use crate::jobs::clock::Clock;
use crate::jobs::job::{Job, Said, is_as_written, starts_job};
use crate::jobs::registry::Jobs;
use crate::records::Records;
use crate::records::on_record::{Begun, Owed, Place, end_of};
use crate::records::times::time_of;
use crate::settings::CoreSettings;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_planner::Planner;
use fluxqueue_planner::plan::Kept;
use fluxqueue_planner::plan::PUT_OFF_SECONDS;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::Time;

/// Keeps starts back until the promises that they rest on are on record.
pub(crate) struct RecordOrder<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a Queues,
    pub agenda: &'a mut Agenda,
}

/// The least time in milliseconds between the last write of a promise and the write of an improved
/// one.
const IMPROVEMENT_MILLIS: i64 = 5_000;

impl RecordOrder<'_> {
    /// Decides which promise the record of a job states. A promise that was made or broken is
    /// written at once, an improved one a little later together with others. Neither is written
    /// before the records on which it rests. `owed` is computed when it is first needed.
    pub(crate) fn note_what_is_promised(
        &mut self,
        id: JobId,
        owed: &mut Option<Vec<Owed>>,
    ) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.told.promise.is_none() && job.waiting.requests.is_empty() {
            return Ok(());
        }
        let actual = self.promise_of(job);
        let start = |said: &Option<Said>| said.as_ref().and_then(|said| said.start);
        let is_better = match (start(&job.told.promise), start(&actual)) {
            (Some(before), Some(now)) => now <= before,
            _ => false,
        };
        let due = job.told.promised_at.plus_millis(IMPROVEMENT_MILLIS);
        if job.told.promise == actual
            || (is_better && !job.told.is_promise_due && self.clock.now < due)
        {
            if job.told.promise != actual {
                self.agenda.timers.wake(Timer::Job(id), due);
            }
            return Ok(());
        }
        let must_say = job.told.is_promise_due || (actual.is_some() && !is_better);
        if let Some(said) = &actual
            && self.comes_after_others(id, said, must_say, owed)
        {
            self.say_meanwhile(id, said)?;
            return Ok(());
        }
        let job = self.jobs.all.known_mut(&id)?;
        job.told.is_promise_due = must_say;
        (job.told.promise, job.told.promised_at) = (actual, self.clock.now);
        Ok(())
    }

    /// Finds the records that have to change before this promise may be written, and calls for
    /// them: the promise rests on nodes that other jobs have left, and their records do not show
    /// that yet. Two jobs that have exchanged places would wait for each other: one of them does
    /// not.
    fn comes_after_others(
        &mut self,
        id: JobId,
        said: &Said,
        must_say: bool,
        owed: &mut Option<Vec<Owed>>,
    ) -> bool {
        self.records.on_record.behind.remove(&id);
        let Some(job) = self.jobs.all.get(&id).filter(|_| !self.records.on_record.is_empty())
        else {
            return false;
        };
        let written = job.status_on_record().and_then(|status| status.reservation.as_ref());
        let is_news = written.is_none_or(|written| {
            !is_as_written(said, said.start.map(|at| self.clock.wall(at)), written)
        });
        let promise = self
            .planner
            .queue
            .first_of(id)
            .and_then(|pending| self.planner.promises.reservation(pending));
        let Some(promise) = promise.filter(|_| is_news && said.start.is_some()) else {
            return false;
        };
        let start = promise.place.start;
        let place = Place {
            job: id,
            start,
            end: end_of(&promise.request, start),
            nodes: &promise.place.nodes,
            limited: self.sight().limited_queue(id),
        };
        let is_broken = self.is_broken(job, said);
        let namespace = Arc::clone(&job.key.namespace);
        let owed = owed.get_or_insert_with(|| self.owed());
        let awaited = &self.records.on_record.awaited;
        let is_ahead = |owed: &&Owed| {
            owed.is_in_the_way_of(&place) && !owed.is_given_up(awaited, Some(&namespace))
        };
        let ahead: Vec<&Owed> = owed.iter().filter(is_ahead).collect();
        let last = ahead.iter().filter(|owed| !self.records.on_record.waits_for(owed.job, id));
        let last = last.max_by_key(|owed| (owed.start, owed.job)).map(|owed| owed.job);
        let waits = last.is_some() || (is_broken && !ahead.is_empty());
        for other in ahead {
            self.call(other, must_say);
        }
        if let Some(last) = last {
            self.records.on_record.behind.insert(id, last);
        }
        waits
    }

    /// Hurries the record of a job, since other jobs wait for it.
    fn call(&mut self, owed: &Owed, must_say: bool) {
        if owed.is_inherited {
            self.planner.promises.say_as_it_is(owed.job);
        }
        self.hurry(owed.job, must_say);
        self.records.on_record.called.push(owed.job);
        self.wait_for_record(owed.job);
    }

    /// Lets a job's record be written as soon as possible.
    fn hurry(&mut self, id: JobId, must_say: bool) {
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.told.promised_at = Time(0);
            job.told.is_promise_due |= must_say;
        }
    }

    /// True if the new promise breaks the one that a job has on record.
    fn is_broken(&self, job: &Job, said: &Said) -> bool {
        let start = |said: &Said| said.start;
        let before = job.told.promise.as_ref().map_or_else(|| start(&self.written(job)?), start);
        before
            .zip(said.start)
            .is_some_and(|(before, now)| now > before.plus_secs(PUT_OFF_SECONDS.unsigned_abs()))
    }

    /// Returns the promise that a job has on record.
    pub(crate) fn written(&self, job: &Job) -> Option<Said> {
        let written = job.status_on_record()?.reservation.as_ref()?;
        let start = written.start.as_ref().map(|at| self.clock.core(time_of(at)));
        Some(Said { start, nodes: written.nodes.clone() })
    }

    /// Keeps the promise on record until another one may be written. A broken promise is taken off,
    /// so that other records can be written; after that it is this job's turn again.
    fn say_meanwhile(&mut self, id: JobId, said: &Said) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if self.is_broken(job, said) {
            let job = self.jobs.all.known_mut(&id)?;
            (job.told.promise, job.told.promised_at, job.told.is_promise_due) =
                (None, self.clock.now, true);
            self.records.on_record.taken_off.insert(id);
        } else if job.told.promise.is_none() {
            let written = self.written(job);
            let job = self.jobs.all.known_mut(&id)?;
            job.told.promise = written;
        }
        Ok(())
    }

    /// Returns the promises that a reader may still see and that hold no longer.
    pub(crate) fn owed(&self) -> Vec<Owed> {
        let promises = &self.planner.promises;
        let owed = self.records.on_record.all().filter_map(|(job, kept)| {
            let promise =
                self.planner.queue.first_of(job).and_then(|pending| promises.reservation(pending));
            // An overdue promise is put back at a time when it can begin. A job without a promise
            // has an unknown end.
            let start = kept.start.max(self.clock.now.seconds());
            let end = || promise.map_or(i64::MAX, |promise| end_of(&promise.request, start));
            let is_owed = kept.is_not(promise) && !self.has_begun(job, kept);
            let namespace = &self.jobs.all.get(&job)?.key.namespace;
            is_owed.then(|| Owed {
                job,
                namespace: Arc::clone(namespace),
                start: kept.start,
                end: end(),
                nodes: kept.nodes.clone(),
                limited: self.sight().limited_queue(job),
                is_inherited: promise.is_some_and(|promise| promise.inherited.is_some()),
            })
        });
        owed.collect()
    }

    /// True if a job has begun at the place and time that its record states.
    pub(crate) fn has_begun(&self, id: JobId, kept: &Kept) -> bool {
        let Some(job) = self.jobs.all.get(&id).filter(|job| job.waiting.requests.is_empty()) else {
            return false;
        };
        let mut taken = self.jobs.allocations(job).map(|allocation| allocation.rank).peekable();
        kept.start <= self.clock.now.seconds()
            && taken.peek().is_some()
            && taken.all(|rank| kept.nodes.contains(rank))
    }

    /// Takes note of the promise in a status of a job that is being sent.
    pub(crate) fn note_sent(&mut self, id: JobId, status: &FluxJobStatus) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let known = job.status_on_record().and_then(|status| status.reservation.as_ref());
        let news = status.reservation.as_ref().filter(|news| known != Some(*news));
        if let Some(kept) = news.and_then(|news| self.sight().kept_of(news)) {
            self.records.on_record.note_sent(id, kept);
        }
        Ok(())
    }

    /// Takes up a possible change of a job's promise on the API server.
    pub(crate) fn note_on_record(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        // A record with unknown contents may still hold its earlier promise.
        let Some(status) = job.status_on_record() else { return Ok(()) };
        let written = status.reservation.as_ref();
        let is_said = written
            .map_or(job.told.promise.is_none(), |written| self.sight().is_said(job, written));
        let start = || {
            job.told
                .promise
                .as_ref()
                .and_then(|said| said.start)
                .filter(|_| is_said)
                .map(Time::seconds)
        };
        // By another clock the same start may be another second.
        let kept = written.and_then(|written| self.sight().kept_of(written));
        let kept = kept.map(|kept| Kept { start: start().unwrap_or(kept.start), ..kept });
        self.records.on_record.note(id, kept);
        // While the job waits for another record, its urgent promise is not written yet.
        let waits = self.records.on_record.behind.contains_key(&id);
        if let Some(job) = self.jobs.all.get_mut(&id).filter(|_| is_said && !waits) {
            job.told.is_promise_due = false;
        }
        self.agenda.dirty.extend(self.records.on_record.end_turn(id));
        let pending = self.planner.queue.first_of(id);
        let promise = pending.and_then(|pending| self.planner.promises.reservation(pending));
        if !self.records.on_record.is_owing(id, promise) {
            self.records.on_record.awaited.end(id);
            self.let_starts_go_on(id);
        }
        Ok(())
    }

    /// Removes a job's record from those on which other jobs could rest.
    pub(crate) fn owe_nothing(&mut self, id: JobId) {
        self.planner.promises.forget_job(id);
        self.records.on_record.forget_job(id);
        self.let_all_go_on(id);
    }

    /// Lets starting jobs wait for records. If they take nodes that the records of other jobs
    /// promise, and that these jobs have left since, the change has to be on record before the
    /// records and first Bindings of the starting jobs. Otherwise a successor could not keep the
    /// promises that it reads.
    pub(crate) fn rest_on_what_was_promised(&mut self) {
        let all = std::mem::take(&mut self.records.on_record.begun);
        if all.is_empty() {
            return;
        }
        let owed = self.owed();
        for begun in all {
            let start = self.clock.now.seconds();
            let limited = self.sight().limited_queue(begun.job);
            let place =
                Place { job: begun.job, start, end: begun.end, nodes: &begun.nodes, limited };
            let namespace = self.jobs.all.get(&begun.job).map(|job| Arc::clone(&job.key.namespace));
            let others = owed.iter().filter(|owed| {
                owed.job != begun.job
                    && !owed.is_given_up(&self.records.on_record.awaited, namespace.as_ref())
                    && (owed.is_in_the_way_of(&place)
                        || is_kept_away(self.jobs, &mut self.planner.cluster, owed, &begun))
            });
            let others: Vec<JobId> = others.map(|owed| owed.job).collect();
            for other in others {
                self.rest_on(begun.job, other);
            }
        }
    }

    fn rest_on(&mut self, id: JobId, other: JobId) {
        if self.records.on_record.waits_for(other, id) {
            return;
        }
        self.records.on_record.rest(id, other);
        self.wait_for_record(other);
        self.planner.promises.say_as_it_is(other);
        self.hurry(other, true);
        self.agenda.dirty.insert(other);
    }
}

/// True if pods of `begun` repel pods of the promised job from its nodes. A successor could not put
/// that promise back either, whenever the pods end.
fn is_kept_away(jobs: &Jobs, cluster: &mut Cluster, owed: &Owed, begun: &Begun) -> bool {
    let Some(other) = jobs.all.get(&owed.job).filter(|_| !begun.repelling.is_empty()) else {
        return false;
    };
    let pods = jobs.live(other).map(|member| &member.pod);
    let mut repelling = begun.repelling.iter().map(|pod| &pod.shape.constraints);
    repelling.any(|constraints| {
        cluster
            .reach()
            .out_of_reach(&constraints.repels, pods.clone(), &owed.nodes)
            .intersects(&begun.nodes)
    })
}

impl RecordOrder<'_> {
    /// Returns the present promise to a job. If its pods start one by one, nodes may be held for
    /// the first of them; the start of that pod is not the start of the job.
    fn promise_of(&self, job: &Job) -> Option<Said> {
        let pending = self.planner.queue.first_of(job.id)?;
        if let Some(promise) =
            self.planner.promises.reservation(pending).filter(|_| starts_job(job, pending))
        {
            let start = Some(Time::from_seconds(promise.place.start));
            return Some(Said { start, nodes: self.sight().names_of(promise.nodes_to_say()) });
        }
        let nodes = self.sight().names_of(self.sight().held_for(job)?);
        (!nodes.is_empty()).then_some(Said { start: None, nodes })
    }
}
