//! The end of jobs: what they hold is given back, and remembered of them that they were.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::{ENDED_MAX, Engine, Job, JobInfo, JobMode, no_job};
use crate::Error;
use crate::graph::VertexId;
use crate::schedule::{Term, Touch};

impl Engine {
    /// Gives back everything of a job.
    pub fn cancel(&mut self, id: u64) -> Result<(), Error> {
        if !self.jobs.contains_key(&id) {
            return Err(no_job(id));
        }
        self.note_job(id);
        let job = self.jobs.remove(&id).ok_or_else(|| no_job(id))?;
        self.give_back(id, &job);
        self.tell_forks(&job);
        // What an earlier job of the same id held would otherwise be held for ever.
        let (same, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.lost).into_iter().partition(|(lost, _)| *lost == id);
        self.lost = others;
        for (_, older) in same {
            self.give_back(id, &older);
        }
        self.end(id, job.info);
        Ok(())
    }

    /// Frees the vertices and units of a job.
    pub(super) fn give_back(&mut self, id: u64, job: &Job) {
        if job.put_off || !job.touches.is_empty() {
            self.note_vertices();
        }
        self.schedule.put_off -= usize::from(job.put_off);
        for rank in &job.ranks {
            if let Some(row) = self.graph.pools.position(*rank) {
                self.graph.pools.release_job(row, id);
            }
        }
        // As upstream, which goes down from the root by the marks of the job: what lies below a
        // vertex that was given back before is not come to, and stays held. Not so on a graph with
        // pools, which upstream does not have.
        let marked: Option<HashSet<VertexId>> = (job.has_gaps && !self.graph.has_pool_types())
            .then(|| job.touches.iter().map(|touch| touch.vertex).collect());
        let marked = marked.filter(|marked| marked.contains(&self.graph.root()));
        self.follows_from_jobs &= marked.is_none();
        for touch in &job.touches {
            let is_found = |marked: &HashSet<VertexId>| {
                self.graph.way_up(touch.vertex).all(|at| marked.contains(&at))
            };
            if marked.as_ref().is_none_or(is_found) {
                self.leave(job.term, touch);
            }
        }
    }

    /// Counts a touch of a vertex from now on; in the account of the nodes too, where the job has
    /// them whole.
    pub(super) fn enter(&mut self, term: Term, touch: &Touch) {
        self.note_vertices();
        self.schedule.add(&self.graph, term, touch);
        if touch.exclusive && self.graph.has_pool_types() {
            for row in self.graph.rows_within(touch.vertex) {
                self.graph.pools.claim_node(row, term.job, (term.from, term.end), term.reserved);
            }
        }
    }

    /// Counts a touch of a vertex no more.
    pub(super) fn leave(&mut self, term: Term, touch: &Touch) {
        self.note_vertices();
        self.schedule.remove(term, touch);
        if touch.exclusive && self.graph.has_pool_types() {
            for row in self.graph.rows_within(touch.vertex) {
                self.graph.pools.release_node(row, term.job, term.from);
            }
        }
    }

    /// Shows a job as cancelled in forks that know it.
    pub(super) fn tell_forks(&self, job: &Job) {
        if self.trial.is_none() {
            job.canceled.store(true, Ordering::Relaxed);
        }
    }

    /// Remembers a job that has ended.
    fn end(&mut self, id: u64, info: JobInfo) {
        let for_good = self.note_end(id);
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

    /// A job that has nothing left has ended.
    pub(super) fn drop_if_empty(&mut self, id: u64) -> bool {
        self.note_job(id);
        let empty =
            self.jobs.get(&id).is_some_and(|job| job.ranks.is_empty() && job.touches.is_empty());
        if empty && let Some(job) = self.jobs.remove(&id) {
            self.schedule.put_off -= usize::from(job.put_off);
            self.tell_forks(&job);
            self.end(id, job.info);
        }
        empty
    }
}
