//! What the API server has of promises, and in which order it gets what it does not have yet.
//!
//! A successor reads the records, and nothing else. So at every instant they have to go together:
//! no two of them may need the same room. One that is better now is written a little later than it
//! was made. Until then its old room is taken by its record, whoever starts there or is promised it
//! by now: his record waits until the other one is written, and so do his Bindings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::jobs::Jobs;
use crate::jobs::job::{Job, Said};
use crate::parts::{Sight, Slots, WriteAhead};
use crate::promising::is_as_written;
use crate::records::awaited::Awaited;
use crate::records::record::time_of;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_api::{FluxJobStatus, Reservation};
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::{End, RankSet};
use fluxqueue_machine::ledger::Allocations;
use fluxqueue_planner::plan::{Kept, Request};
use fluxqueue_planner::promises::Promise;
use fluxqueue_planner::queue::{JobId, QueueId};
use fluxqueue_workload::{Lifetime, Pod, Time};

/// A promise that has become better is written so much after the last one.
const IMPROVEMENT_MILLIS: i64 = 5_000;

/// A promise that is later by so much is the same, which could not begin at once.
const PUT_OFF_SECONDS: u64 = 1;

/// Reservations as the API server has them, or may have them, and who waits for that to change.
#[derive(Default)]
pub(crate) struct OnRecord {
    written: BTreeMap<JobId, Kept>,
    /// What was sent, and may have arrived: forgotten when a later write has.
    sent: BTreeMap<JobId, Vec<Kept>>,
    /// Jobs that start, and whose records and Bindings wait until others' reservations are on
    /// record as they are now: what these have left they take.
    resting: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs that are promised what another one has left: their records wait for his. Of several it
    /// is the one that is probably written last.
    behind: BTreeMap<JobId, JobId>,
    /// Jobs whose broken promise is being taken off record: then they may have another one.
    taken_off: BTreeSet<JobId>,
    /// Jobs that start, and of which it is not known yet on whom that rests.
    begun: Vec<Begun>,
    /// Jobs for whose records others wait: to be written now.
    called: Vec<JobId>,
    /// For how long records are waited for.
    pub(crate) awaited: Awaited,
}

/// A reservation on record that is not the job's any more, or not yet.
pub(crate) struct Owed {
    job: JobId,
    namespace: Arc<str>,
    start: i64,
    end: i64,
    nodes: RankSet,
    /// The queue, if it limits what runs.
    limited: Option<QueueId>,
    /// What is said of it is what an earlier process has written.
    is_inherited: bool,
}

/// A job that starts.
struct Begun {
    job: JobId,
    /// When it is planned to have ended.
    end: i64,
    nodes: RankSet,
    /// One of each kind of its pods that keep others away.
    repelling: Vec<Arc<Pod>>,
}

/// Where a job starts, or is promised a start.
struct Place<'a> {
    job: JobId,
    start: i64,
    end: i64,
    nodes: &'a RankSet,
    limited: Option<QueueId>,
}

impl Owed {
    /// No successor could keep both.
    fn is_in_the_way_of(&self, place: &Place) -> bool {
        let is_at_the_same_time = self.start < place.end && place.start < self.end;
        let share_limits = || self.limited.is_some() && self.limited == place.limited;
        self.job != place.job
            && is_at_the_same_time
            && (share_limits() || self.nodes.intersects(place.nodes))
    }

    /// True if no job of that namespace waits for the record any more.
    fn is_given_up(&self, awaited: &Awaited, by_namespace: Option<&Arc<str>>) -> bool {
        by_namespace.is_some_and(|by_namespace| {
            awaited.is_given_up(self.job, &self.namespace, by_namespace)
        })
    }
}

impl OnRecord {
    /// The API server has this reservation of a job, or none.
    fn note(&mut self, job: JobId, kept: Option<Kept>) {
        match kept {
            Some(kept) => drop(self.written.insert(job, kept)),
            None => drop(self.written.remove(&job)),
        }
    }

    /// This reservation of a job is on its way.
    fn note_sent(&mut self, job: JobId, kept: Kept) {
        let sent = self.sent.entry(job).or_default();
        if !sent.contains(&kept) {
            sent.push(kept);
        }
    }

    /// What was sent last has arrived, and nothing that was sent before can any more.
    pub(crate) fn forget_sent(&mut self, job: JobId) {
        self.sent.remove(&job);
    }

    fn is_empty(&self) -> bool {
        self.written.is_empty() && self.sent.is_empty()
    }

    /// What may be read of jobs' reservations.
    fn all(&self) -> impl Iterator<Item = (JobId, &Kept)> {
        let sent = self.sent.iter().flat_map(|(job, sent)| sent.iter().map(|kept| (*job, kept)));
        self.written.iter().map(|(job, kept)| (*job, kept)).chain(sent)
    }

    /// What may be read of a job's.
    fn of(&self, job: JobId) -> impl Iterator<Item = &Kept> {
        self.written.get(&job).into_iter().chain(self.sent.get(&job).into_iter().flatten())
    }

    // --- who waits for whom ---

    /// A job takes what another one has left: its record and its Bindings wait for the other one's
    /// record.
    fn rest(&mut self, job: JobId, on: JobId) {
        self.resting.entry(job).or_default().insert(on);
    }

    /// The record and the Bindings of a job wait for the records of others.
    pub(crate) fn rests(&self, job: JobId) -> bool {
        self.resting.contains_key(&job)
    }

    /// True if a job waits for the record of this one.
    pub(crate) fn is_waited_for(&self, on: JobId) -> bool {
        self.behind.values().any(|ahead| *ahead == on)
            || self.resting.values().any(|others| others.contains(&on))
    }

    /// Which job waits for the record of which.
    pub(crate) fn waits(&self) -> Vec<(JobId, JobId)> {
        let resting =
            self.resting.iter().flat_map(|(job, others)| others.iter().map(|other| (*job, *other)));
        self.behind.iter().map(|(job, ahead)| (*job, *ahead)).chain(resting).collect()
    }

    /// A job waits for the record of another one no longer. True if it starts, and waits for no
    /// other.
    pub(crate) fn end_wait(&mut self, job: JobId, on: JobId) -> bool {
        if self.behind.get(&job) == Some(&on) {
            self.behind.remove(&job);
        }
        let is_last = self
            .resting
            .get_mut(&job)
            .is_some_and(|others| others.remove(&on) && others.is_empty());
        if is_last {
            self.resting.remove(&job);
        }
        is_last
    }

    /// Nobody waits for a job's record any more: those who start, and now wait for nobody's.
    pub(crate) fn end_rest(&mut self, on: JobId) -> Vec<JobId> {
        if self.resting.is_empty() {
            return Vec::new();
        }
        for others in self.resting.values_mut() {
            others.remove(&on);
        }
        let free: Vec<JobId> = self
            .resting
            .iter()
            .filter(|(_, others)| others.is_empty())
            .map(|(job, _)| *job)
            .collect();
        self.resting.retain(|_, others| !others.is_empty());
        free
    }

    /// The record of a job has changed: those who waited behind it look again.
    pub(crate) fn end_turn(&mut self, of: JobId) -> Vec<JobId> {
        let mut next: Vec<JobId> =
            self.behind.iter().filter(|(_, ahead)| **ahead == of).map(|(job, _)| *job).collect();
        for job in &next {
            self.behind.remove(job);
        }
        next.extend(self.taken_off.take(&of));
        next
    }

    /// The record of the first waits for that of the other, perhaps by way of others.
    fn waits_for(&self, job: JobId, other: JobId) -> bool {
        let (mut to_look_at, mut seen) = (vec![job], BTreeSet::new());
        while let Some(job) = to_look_at.pop() {
            if job == other {
                return true;
            }
            if seen.insert(job) {
                to_look_at.extend(self.behind.get(&job));
                to_look_at.extend(self.resting.get(&job).into_iter().flatten());
            }
        }
        false
    }

    /// Jobs for whose records others have come to wait since the last call.
    pub(crate) fn take_called(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.called)
    }

    /// What may be read of a job's reservation is something else than it has now.
    fn is_owing(&self, job: JobId, promise: Option<&Promise>) -> bool {
        self.of(job).any(|kept| kept.is_not(promise))
    }

    /// A job is no more.
    pub(crate) fn forget_job(&mut self, job: JobId) {
        self.written.remove(&job);
        self.sent.remove(&job);
        self.behind.remove(&job);
        self.taken_off.remove(&job);
        self.awaited.end(job);
    }
}

impl WriteAhead<'_> {
    /// A promise that was made, or broken, is written at once; one that became better, with others
    /// a little later. Neither is before what it rests on. `owed` is found out when it is first
    /// needed.
    pub(crate) fn note_what_is_promised(
        &mut self,
        id: JobId,
        owed: &mut Option<Vec<Owed>>,
    ) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.said.is_none() && job.pending.is_empty() {
            return Ok(());
        }
        let actual = self.promise_of(job);
        let start = |said: &Option<Said>| said.as_ref().and_then(|said| said.start);
        let is_better = match (start(&job.said), start(&actual)) {
            (Some(before), Some(now)) => now <= before,
            _ => false,
        };
        let due = job.said_at.plus_millis(IMPROVEMENT_MILLIS);
        if job.said == actual || (is_better && !job.must_say && self.clock.now < due) {
            if job.said != actual {
                self.agenda.timers.wake(Timer::Job(id), due);
            }
            return Ok(());
        }
        let must_say = job.must_say || (actual.is_some() && !is_better);
        if let Some(said) = &actual
            && self.comes_after_others(id, said, must_say, owed)
        {
            self.say_meanwhile(id, said)?;
            return Ok(());
        }
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.must_say = must_say;
            (job.said, job.said_at) = (actual, self.clock.now);
        }
        Ok(())
    }

    /// What a job is promised rests on what others have left, and their records do not say so yet:
    /// they are called. Two who have come to be where the other one was would wait for each other:
    /// one of them does not.
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
        let written = job.record.status.as_deref().and_then(|status| status.reservation.as_ref());
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

    /// Others wait for a job's record.
    fn call(&mut self, owed: &Owed, must_say: bool) {
        if owed.is_inherited {
            self.planner.promises.say_as_it_is(owed.job);
        }
        self.hurry(owed.job, must_say);
        self.records.on_record.called.push(owed.job);
        self.wait_for_record(owed.job);
    }

    /// A job's record is written as soon as it may be.
    fn hurry(&mut self, id: JobId, must_say: bool) {
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.said_at = Time(0);
            job.must_say |= must_say;
        }
    }

    /// What a job was promised on record is broken by what it is promised now.
    fn is_broken(&self, job: &Job, said: &Said) -> bool {
        let start = |said: &Said| said.start;
        let before = job.said.as_ref().map_or_else(|| start(&self.written(job)?), start);
        before.zip(said.start).is_some_and(|(before, now)| now > before.plus_secs(PUT_OFF_SECONDS))
    }

    /// What is on record of a job's promise.
    fn written(&self, job: &Job) -> Option<Said> {
        let written = job.record.status.as_deref()?.reservation.as_ref()?;
        let start = written.start.as_ref().map(|at| self.clock.core(time_of(at)));
        Some(Said { start, nodes: written.nodes.clone() })
    }

    /// Until something else may be written, what is written stands. If it is broken it is taken
    /// off, so that others can be written; when that has been done it is this one's turn again.
    fn say_meanwhile(&mut self, id: JobId, said: &Said) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if self.is_broken(job, said) {
            if let Some(job) = self.jobs.all.get_mut(&id) {
                (job.said, job.said_at, job.must_say) = (None, self.clock.now, true);
            }
            self.records.on_record.taken_off.insert(id);
        } else if job.said.is_none() {
            let written = self.written(job);
            if let Some(job) = self.jobs.all.get_mut(&id) {
                job.said = written;
            }
        }
        Ok(())
    }

    /// What may be read, and is not so any more.
    fn owed(&self) -> Vec<Owed> {
        let promises = &self.planner.promises;
        let owed = self.records.on_record.all().filter_map(|(job, kept)| {
            let promise =
                self.planner.queue.first_of(job).and_then(|pending| promises.reservation(pending));
            // One that is overdue is put back where it can begin. Of whom nothing is promised any
            // more it is not known how long it was to run.
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

    /// A job has begun where and when its record says that it does.
    fn has_begun(&self, id: JobId, kept: &Kept) -> bool {
        let Some(job) = self.jobs.all.get(&id).filter(|job| job.pending.is_empty()) else {
            return false;
        };
        let mut taken = self.jobs.allocations(job).map(|allocation| allocation.rank).peekable();
        kept.start <= self.clock.now.seconds()
            && taken.peek().is_some()
            && taken.all(|rank| kept.nodes.contains(rank))
    }

    /// A status of a job is sent that says this of its promise.
    pub(crate) fn note_sent(&mut self, id: JobId, status: &FluxJobStatus) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let known = job.record.status.as_deref().and_then(|status| status.reservation.as_ref());
        let news = status.reservation.as_ref().filter(|news| known != Some(*news));
        if let Some(kept) = news.and_then(|news| self.sight().kept_of(news)) {
            self.records.on_record.note_sent(id, kept);
        }
        Ok(())
    }

    /// What the API server has of a job's promise has changed, perhaps.
    pub(crate) fn note_on_record(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        // Of whose record nobody knows what it says now: what it said may stand there still.
        let Some(status) = job.record.status.as_deref() else { return Ok(()) };
        let written = status.reservation.as_ref();
        let is_said =
            written.map_or(job.said.is_none(), |written| self.sight().is_said(job, written));
        let start =
            || job.said.as_ref().and_then(|said| said.start).filter(|_| is_said).map(Time::seconds);
        // By another clock the same start may be another second.
        let kept = written.and_then(|written| self.sight().kept_of(written));
        let kept = kept.map(|kept| Kept { start: start().unwrap_or(kept.start), ..kept });
        self.records.on_record.note(id, kept);
        // While it waits for another record, what is to be written at once is not said yet.
        let waits = self.records.on_record.behind.contains_key(&id);
        if let Some(job) = self.jobs.all.get_mut(&id).filter(|_| is_said && !waits) {
            job.must_say = false;
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

    /// A job has no record any more on which others could rest.
    pub(crate) fn owe_nothing(&mut self, id: JobId) {
        self.planner.promises.forget_job(id);
        self.records.on_record.forget_job(id);
        self.let_all_go_on(id);
    }

    /// Jobs start. If they take what others were promised by their records, and have left since,
    /// that is to be on record before their own records and their first Bindings: else a successor
    /// could not keep what it reads.
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

impl Sight<'_> {
    /// What a record has of a reservation is what this process says of it.
    pub(crate) fn is_said(&self, job: &Job, written: &Reservation) -> bool {
        let start = |said: &Said| said.start.map(|at| self.clock.wall(at));
        job.said.as_ref().is_some_and(|said| is_as_written(said, start(said), written))
    }
}

impl Slots<'_> {
    /// A job starts there. What that rests on is found out when it is known who else does.
    pub(crate) fn note_start_on(&mut self, id: JobId, request: &Request, slots: &Allocations) {
        if self.records.on_record.is_empty() {
            return;
        }
        let repelling = request.groups.iter().filter(|group| group.repels_pods());
        let begun = Begun {
            job: id,
            end: end_of(request, self.clock.now.seconds()),
            nodes: slots.iter().flatten().flatten().map(|allocation| allocation.rank).collect(),
            repelling: repelling.map(|group| Arc::clone(&group.sample)).collect(),
        };
        self.records.on_record.begun.push(begun);
    }
}

/// A successor cannot put back either what pods that have started keep its pods away from, whenever
/// these end.
fn is_kept_away(jobs: &Jobs, cluster: &mut Cluster, owed: &Owed, begun: &Begun) -> bool {
    let Some(other) = jobs.all.get(&owed.job).filter(|_| !begun.repelling.is_empty()) else {
        return false;
    };
    let pods = jobs.live(other).map(|member| &member.pod);
    let mut repelling = begun.repelling.iter().map(|pod| &pod.shape.constraints);
    repelling.any(|constraints| {
        cluster.out_of_reach(constraints, pods.clone(), &owed.nodes).intersects(&begun.nodes)
    })
}

/// When what starts then is planned to have ended.
fn end_of(request: &Request, start: i64) -> i64 {
    let lifetime =
        request.groups.iter().map(|group| group.lifetime).max().unwrap_or(Lifetime::Endless);
    match End::of(lifetime, start) {
        End::At(end) => end,
        End::Eventually | End::Never => i64::MAX,
    }
}
