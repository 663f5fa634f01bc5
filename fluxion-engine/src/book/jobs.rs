//! The jobs that there are, those that have ended, and grants that no job has.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use shared_map::SharedMap;

use super::job::{Job, JobInfo, JobMode, no_job};
use crate::Error;
use crate::schedule::{Term, Touch};

/// The number of ended jobs that are remembered, the latest ones.
const ENDED_MAX: usize = 65_536;

/// All jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jobs {
    alive: SharedMap<u64, Arc<Job>>,
    /// Jobs that have ended, and the order in which they did.
    ended: SharedMap<u64, JobInfo>,
    ended_order: VecDeque<u64>,
    /// Jobs of grants that could not be written: their resources stay taken.
    lost: Vec<(u64, Arc<Job>)>,
    /// Vertices that nothing gives back any more, as upstream leaves them.
    stranded: Vec<(Term, Touch)>,
}

impl Jobs {
    /// A job that holds or will hold resources.
    pub(crate) fn get(&self, id: u64) -> Option<&Arc<Job>> {
        self.alive.get(&id)
    }

    /// Whether a job holds or will hold resources.
    pub(crate) fn contains(&self, id: u64) -> bool {
        self.alive.contains_key(&id)
    }

    /// Number of jobs that hold or will hold resources.
    pub(crate) fn len(&self) -> usize {
        self.alive.len()
    }

    /// The jobs that hold or will hold resources, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Arc<Job>)> {
        self.alive.iter().map(|(id, job)| (*id, job))
    }

    /// The record of a job, also of one that has ended.
    pub(crate) fn info(&self, id: u64) -> Result<JobInfo, Error> {
        let alive = self.alive.get(&id).map(|job| job.info());
        alive.or_else(|| self.ended.get(&id).copied()).ok_or_else(|| no_job(id))
    }

    /// All jobs, also those that have ended, by id.
    pub(crate) fn infos(&self) -> Vec<(u64, JobInfo)> {
        let mut all: BTreeMap<u64, JobInfo> =
            self.ended.iter().map(|(id, info)| (*id, *info)).collect();
        all.extend(self.alive.iter().map(|(id, job)| (*id, job.info())));
        all.into_iter().collect()
    }

    /// A job to be changed.
    pub(super) fn change(&mut self, id: u64) -> Option<&mut Job> {
        self.alive.get_mut(&id).map(Arc::make_mut)
    }

    /// Adds a job. Returns an older one of the same id.
    pub(super) fn insert(&mut self, id: u64, job: Arc<Job>) -> Option<Arc<Job>> {
        self.alive.insert(id, job)
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, id: u64) -> Option<Arc<Job>> {
        self.alive.remove(&id)
    }

    /// Grants that no job has: the id under which each was made, and its resources.
    pub(crate) fn lost(&self) -> &[(u64, Arc<Job>)] {
        &self.lost
    }

    /// Notes a grant that no job has.
    pub(super) fn lose(&mut self, id: u64, job: Arc<Job>) {
        self.lost.push((id, job));
    }

    /// Takes out the lost grants of an id.
    pub(super) fn take_lost(&mut self, id: u64) -> Vec<Arc<Job>> {
        let (same, others) =
            std::mem::take(&mut self.lost).into_iter().partition(|(lost, _)| *lost == id);
        self.lost = others;
        let same: Vec<(u64, Arc<Job>)> = same;
        same.into_iter().map(|(_, job)| job).collect()
    }

    /// Replaces all lost grants. Returns those that there were.
    pub(super) fn set_lost(&mut self, lost: Vec<(u64, Arc<Job>)>) -> Vec<(u64, Arc<Job>)> {
        std::mem::replace(&mut self.lost, lost)
    }

    /// The lost grants, to be changed.
    pub(super) fn lost_mut(&mut self) -> impl Iterator<Item = (u64, &mut Job)> {
        self.lost.iter_mut().map(|(id, job)| (*id, Arc::make_mut(job)))
    }

    /// Vertices that nothing gives back any more.
    pub(super) fn stranded(&self) -> &[(Term, Touch)] {
        &self.stranded
    }

    /// The same, to be changed.
    pub(super) fn stranded_mut(&mut self) -> &mut [(Term, Touch)] {
        &mut self.stranded
    }

    /// Notes vertices that nothing gives back any more.
    pub(super) fn strand(&mut self, vertices: impl IntoIterator<Item = (Term, Touch)>) {
        self.stranded.extend(vertices);
    }

    /// Takes out the stranded vertices that were noted since there were `count`.
    pub(super) fn take_stranded(&mut self, count: usize) -> Vec<(Term, Touch)> {
        self.stranded.split_off(count.min(self.stranded.len()))
    }

    /// All that holds resources: jobs, then lost grants.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.alive.values().chain(self.lost.iter().map(|(_, job)| job))
    }

    /// The same, to be changed.
    pub(super) fn holders_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        let lost = self.lost.iter_mut().map(|(_, job)| job);
        self.alive.values_mut().chain(lost).map(Arc::make_mut)
    }

    /// The record of a job that has ended.
    pub(super) fn ended(&self, id: u64) -> Option<JobInfo> {
        self.ended.get(&id).copied()
    }

    /// Remembers a job that has ended. If that is for good, the oldest of too many is forgotten.
    pub(super) fn end(&mut self, id: u64, info: JobInfo, for_good: bool) {
        if self.ended.insert(id, JobInfo { mode: JobMode::Canceled, ..info }).is_none() {
            self.ended_order.push_back(id);
            if for_good
                && self.ended_order.len() > ENDED_MAX
                && let Some(oldest) = self.ended_order.pop_front()
            {
                self.ended.remove(&oldest);
            }
        }
    }

    /// Takes back the end that was remembered last: the job had this record before, or none.
    pub(super) fn take_back_end(&mut self, id: u64, before: Option<JobInfo>) {
        if let Some(before) = before {
            self.ended.insert(id, before);
        } else {
            self.ended.remove(&id);
            self.ended_order.pop_back();
        }
    }
}
