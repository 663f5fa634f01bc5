//! The promises that the API server has, and the order in which it gets those that it lacks.
//!
//! A successor reads the records, and nothing else. So at every instant the records have to be
//! consistent: no two of them may need the same room. A promise that was improved is written a
//! little later than it was made. Until then the old room is taken by the record. A job that starts
//! there, or is promised that room, has to wait: its record and its Bindings leave after the other
//! record is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::records::awaited::Awaited;
use fluxqueue_machine::fluxion::{End, RankSet};
use fluxqueue_planner::plan::{Kept, Request};
use fluxqueue_planner::promises::Promise;
use fluxqueue_planner::queue::{JobId, QueueId};
use fluxqueue_workload::{Lifetime, Pod};

/// The reservations that the API server has, or may have, and the jobs that wait for a change of
/// them.
#[derive(Default)]
pub(crate) struct OnRecord {
    written: BTreeMap<JobId, Kept>,
    /// Reservations that were sent, and may have arrived: forgotten when a later write has arrived.
    sent: BTreeMap<JobId, Vec<Kept>>,
    /// Starting jobs, each with the jobs that still have an old reservation on record for its
    /// nodes. The starting job's record and Bindings wait until these reservations are written as
    /// they are now.
    resting: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs that are promised room which another one has given up: their records wait for the
    /// record of the other job. Of several such jobs it is the one that is probably written last.
    pub(crate) behind: BTreeMap<JobId, JobId>,
    /// Jobs with a broken promise that is being removed from the record: after that they may have
    /// another one.
    pub(crate) taken_off: BTreeSet<JobId>,
    /// Starting jobs for which the records that they have to wait for are not known yet.
    pub(crate) begun: Vec<Begun>,
    /// Jobs with records that others wait for, to be written now.
    pub(crate) called: Vec<JobId>,
    /// How long jobs wait for records.
    pub(crate) awaited: Awaited,
}

/// A reservation on record that its job does not have any more, or does not have yet.
pub(crate) struct Owed {
    pub(crate) job: JobId,
    pub(crate) namespace: Arc<str>,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) nodes: RankSet,
    /// The queue, if it limits running jobs.
    pub(crate) limited: Option<QueueId>,
    /// True if the entry on record was written by an earlier process.
    pub(crate) is_inherited: bool,
}

/// A job that starts.
pub(crate) struct Begun {
    pub(crate) job: JobId,
    /// The planned end of the job.
    pub(crate) end: i64,
    pub(crate) nodes: RankSet,
    /// One pod of each kind among its pods that keep others away.
    pub(crate) repelling: Vec<Arc<Pod>>,
}

/// The place where a job starts, or is promised a start.
pub(crate) struct Place<'a> {
    pub(crate) job: JobId,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) nodes: &'a RankSet,
    pub(crate) limited: Option<QueueId>,
}

impl Owed {
    /// True if no successor could keep both.
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
    /// Notes the reservation of a job that the API server has, or that it has none.
    pub(crate) fn note(&mut self, job: JobId, kept: Option<Kept>) {
        match kept {
            Some(kept) => drop(self.written.insert(job, kept)),
            None => drop(self.written.remove(&job)),
        }
    }

    /// Notes that a write of this reservation is under way.
    pub(crate) fn note_sent(&mut self, job: JobId, kept: Kept) {
        let sent = self.sent.entry(job).or_default();
        if !sent.contains(&kept) {
            sent.push(kept);
        }
    }

    /// Forgets the sent reservations: the last one has arrived, and none of the earlier ones can
    /// any more.
    pub(crate) fn forget_sent(&mut self, job: JobId) {
        self.sent.remove(&job);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.sent.is_empty()
    }

    /// Returns all reservations of jobs that a successor might read.
    pub(crate) fn all(&self) -> impl Iterator<Item = (JobId, &Kept)> {
        let sent = self.sent.iter().flat_map(|(job, sent)| sent.iter().map(|kept| (*job, kept)));
        self.written.iter().map(|(job, kept)| (*job, kept)).chain(sent)
    }

    /// Returns the reservations of a job that a successor might read.
    fn of(&self, job: JobId) -> impl Iterator<Item = &Kept> {
        self.written.get(&job).into_iter().chain(self.sent.get(&job).into_iter().flatten())
    }

    // --- which job waits for which ---

    /// Notes that a job takes room which another one has given up: its record and its Bindings wait
    /// for the other one's record.
    pub(crate) fn rest(&mut self, job: JobId, on: JobId) {
        self.resting.entry(job).or_default().insert(on);
    }

    /// True if the record and the Bindings of a job wait for the records of others.
    pub(crate) fn rests(&self, job: JobId) -> bool {
        self.resting.contains_key(&job)
    }

    /// True if a job waits for the record of this one.
    pub(crate) fn is_waited_for(&self, on: JobId) -> bool {
        self.behind.values().any(|ahead| *ahead == on)
            || self.resting.values().any(|others| others.contains(&on))
    }

    /// Returns pairs of a job and the job for which its record waits.
    pub(crate) fn waits(&self) -> Vec<(JobId, JobId)> {
        let resting =
            self.resting.iter().flat_map(|(job, others)| others.iter().map(|other| (*job, *other)));
        self.behind.iter().map(|(job, ahead)| (*job, *ahead)).chain(resting).collect()
    }

    /// Ends the wait of a job for the record of another one. True if the job starts, and waits for
    /// no other.
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

    /// Ends the wait of starting jobs for this record; returns those that wait for no record now.
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

    /// Ends the wait of promised jobs for this record, which has changed; returns the jobs to check
    /// again.
    pub(crate) fn end_turn(&mut self, of: JobId) -> Vec<JobId> {
        let mut next: Vec<JobId> =
            self.behind.iter().filter(|(_, ahead)| **ahead == of).map(|(job, _)| *job).collect();
        for job in &next {
            self.behind.remove(job);
        }
        next.extend(self.taken_off.take(&of));
        next
    }

    /// True if the record of the first job waits for that of the other, directly or through other
    /// jobs.
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

    /// Takes the jobs with records that others have come to wait for since the last call.
    pub(crate) fn take_called(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.called)
    }

    /// True if a successor might read another reservation of a job than it has now.
    pub(crate) fn is_owing(&self, job: JobId, promise: Option<&Promise>) -> bool {
        self.of(job).any(|kept| kept.is_not(promise))
    }

    /// Forgets a job that is gone.
    pub(crate) fn forget_job(&mut self, job: JobId) {
        self.written.remove(&job);
        self.sent.remove(&job);
        self.behind.remove(&job);
        self.taken_off.remove(&job);
        self.awaited.end(job);
    }
}

/// Returns the planned end of a request that starts at `start`.
pub(crate) fn end_of(request: &Request, start: i64) -> i64 {
    let lifetime =
        request.groups.iter().map(|group| group.lifetime).max().unwrap_or(Lifetime::Endless);
    match End::of(lifetime, start) {
        End::At(end) => end,
        End::Eventually | End::Never => i64::MAX,
    }
}
