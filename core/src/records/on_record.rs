//! What the API server has of promises, and in which order it gets what it does not have yet.
//!
//! A successor reads the records, and nothing else. So at every instant they have to go together:
//! no two of them may need the same room. One that is better now is written a little later than it
//! was made. Until then its old room is taken by its record, whoever starts there or is promised it
//! by now: his record waits until the other one is written, and so do his Bindings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::records::awaited::Awaited;
use fluxqueue_machine::fluxion::{End, RankSet};
use fluxqueue_planner::plan::{Kept, Request};
use fluxqueue_planner::promises::Promise;
use fluxqueue_planner::queue::{JobId, QueueId};
use fluxqueue_workload::{Lifetime, Pod};

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
    pub(crate) behind: BTreeMap<JobId, JobId>,
    /// Jobs whose broken promise is being taken off record: then they may have another one.
    pub(crate) taken_off: BTreeSet<JobId>,
    /// Jobs that start, and of which it is not known yet on whom that rests.
    pub(crate) begun: Vec<Begun>,
    /// Jobs for whose records others wait: to be written now.
    pub(crate) called: Vec<JobId>,
    /// For how long records are waited for.
    pub(crate) awaited: Awaited,
}

/// A reservation on record that is not the job's any more, or not yet.
pub(crate) struct Owed {
    pub(crate) job: JobId,
    pub(crate) namespace: Arc<str>,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) nodes: RankSet,
    /// The queue, if it limits what runs.
    pub(crate) limited: Option<QueueId>,
    /// What is said of it is what an earlier process has written.
    pub(crate) is_inherited: bool,
}

/// A job that starts.
pub(crate) struct Begun {
    pub(crate) job: JobId,
    /// When it is planned to have ended.
    pub(crate) end: i64,
    pub(crate) nodes: RankSet,
    /// One of each kind of its pods that keep others away.
    pub(crate) repelling: Vec<Arc<Pod>>,
}

/// Where a job starts, or is promised a start.
pub(crate) struct Place<'a> {
    pub(crate) job: JobId,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) nodes: &'a RankSet,
    pub(crate) limited: Option<QueueId>,
}

impl Owed {
    /// No successor could keep both.
    pub(crate) fn is_in_the_way_of(&self, place: &Place) -> bool {
        let is_at_the_same_time = self.start < place.end && place.start < self.end;
        let share_limits = || self.limited.is_some() && self.limited == place.limited;
        self.job != place.job
            && is_at_the_same_time
            && (share_limits() || self.nodes.intersects(place.nodes))
    }

    /// True if no job of that namespace waits for the record any more.
    pub(crate) fn is_given_up(&self, awaited: &Awaited, by_namespace: Option<&Arc<str>>) -> bool {
        by_namespace.is_some_and(|by_namespace| {
            awaited.is_given_up(self.job, &self.namespace, by_namespace)
        })
    }
}

impl OnRecord {
    /// The API server has this reservation of a job, or none.
    pub(crate) fn note(&mut self, job: JobId, kept: Option<Kept>) {
        match kept {
            Some(kept) => drop(self.written.insert(job, kept)),
            None => drop(self.written.remove(&job)),
        }
    }

    /// This reservation of a job is on its way.
    pub(crate) fn note_sent(&mut self, job: JobId, kept: Kept) {
        let sent = self.sent.entry(job).or_default();
        if !sent.contains(&kept) {
            sent.push(kept);
        }
    }

    /// What was sent last has arrived, and nothing that was sent before can any more.
    pub(crate) fn forget_sent(&mut self, job: JobId) {
        self.sent.remove(&job);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.sent.is_empty()
    }

    /// What may be read of jobs' reservations.
    pub(crate) fn all(&self) -> impl Iterator<Item = (JobId, &Kept)> {
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
    pub(crate) fn rest(&mut self, job: JobId, on: JobId) {
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
    pub(crate) fn waits_for(&self, job: JobId, other: JobId) -> bool {
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
    pub(crate) fn is_owing(&self, job: JobId, promise: Option<&Promise>) -> bool {
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

/// When what starts then is planned to have ended.
pub(crate) fn end_of(request: &Request, start: i64) -> i64 {
    let lifetime =
        request.groups.iter().map(|group| group.lifetime).max().unwrap_or(Lifetime::Endless);
    match End::of(lifetime, start) {
        End::At(end) => end,
        End::Eventually | End::Never => i64::MAX,
    }
}
