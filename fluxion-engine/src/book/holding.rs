//! Taking and giving back: vertices and units of jobs.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Book;
use super::job::{Job, JobInfo, JobMode, no_job};
use crate::Error;
use crate::graph::VertexId;
use crate::jobspec::Jobspec;
use crate::pools::SlotShape;
use crate::schedule::{Term, Touch};
use crate::time::{End, WINDOW_SECONDS};
use crate::traverser::Selection;

/// Slots of a job on a row: shape, number, start and end.
pub(crate) type Slots = (usize, Arc<SlotShape>, u64, (i64, End));

impl Book {
    /// Notes how long the match of a job took.
    pub(crate) fn set_overhead(&mut self, id: u64, seconds: f64) {
        if let Some(job) = self.change(id) {
            job.info.overhead = seconds;
        }
    }

    /// Adds a job that holds nothing yet. As upstream, which does not notice that there is one, an
    /// older job of the same id is lost.
    pub(crate) fn open(&mut self, id: u64, info: JobInfo, term: Term) {
        self.note_job(id);
        if let Some(older) = self.jobs.insert(id, Arc::new(Job::new(info, term))) {
            self.jobs.lose(id, older);
        }
    }

    /// The same, if there is none of this id: a job that holds the slots of its charges.
    pub(crate) fn open_charged(&mut self, id: u64) {
        self.note_job(id);
        if !self.jobs.contains(id) {
            let (job, from) = (id, self.now);
            let info = JobInfo { mode: JobMode::Allocated, at: from, overhead: 0.0 };
            let term = Term { job, from, to: WINDOW_SECONDS, end: End::Never, reserved: false };
            self.jobs.insert(id, Arc::new(Job::new(info, term)));
        }
    }

    /// Gives slots on rows to a job, which must exist, and remembers the ranks in it.
    pub(crate) fn claim(
        &mut self,
        rows: &[(usize, u64)],
        id: u64,
        slot: &Arc<SlotShape>,
        times: (i64, End),
    ) {
        if let Some(job) = self.jobs.change(id) {
            for (row, _) in rows {
                let rank = self.graph.pools.ranks()[*row];
                if job.ranks.last().is_none_or(|last| *last < rank) {
                    job.ranks.push(rank);
                } else if let Err(at) = job.ranks.binary_search(&rank) {
                    job.ranks.insert(at, rank);
                }
            }
        }
        self.graph.pools.claim(rows, id, slot, times);
    }

    /// Makes a job hold the vertices of a selection. Returns those that hold less than is taken of
    /// them, because a part of the graph was removed together with the vertices of other jobs
    /// there: as upstream, this is not counted, and they are not written.
    pub(crate) fn touch(&mut self, id: u64, selection: &Selection) -> Vec<VertexId> {
        let mut unmarked = Vec::new();
        let Some(term) = self.jobs.get(id).map(|job| job.term) else { return unmarked };
        let mut touches = Vec::with_capacity(selection.marked.len());
        for marked in &selection.marked {
            let exclusive = marked.exclusive && !self.graph.is_pool(marked.vertex);
            let mut touch = Touch { vertex: marked.vertex, exclusive, below: marked.below.clone() };
            if self.has_shrunk
                && !self.schedule.has_room(&self.graph, term, touch.vertex, &touch.below)
            {
                touch.below.clear();
                unmarked.push(touch.vertex);
            }
            self.enter(term, &touch);
            touches.push(touch);
        }
        if let Some(job) = self.jobs.change(id) {
            job.touches.append(&mut touches);
        }
        unmarked
    }

    /// What earlier grants under the id of a job take of the vertices that it takes too is never
    /// given back: as upstream, which remembers one span per vertex and job.
    pub(crate) fn leak(&mut self, id: u64) {
        if !self.jobs.lost().iter().any(|(lost, _)| *lost == id) {
            return;
        }
        let touches = self.jobs.get(id).into_iter().flat_map(|job| &job.touches);
        let taken: HashSet<VertexId> = touches.map(|touch| touch.vertex).collect();
        self.follows_from_jobs = false;
        for (_, older) in self.jobs.lost_mut().filter(|(lost, _)| *lost == id) {
            older.touches.retain(|touch| !taken.contains(&touch.vertex));
        }
    }

    /// Remembers of a reservation all that moving it needs.
    pub(crate) fn prepare_to_move(&mut self, id: u64, spec: &Jobspec) {
        let pools = &self.graph.pools;
        let gains = spec.extras.not_before.is_none().then(|| pools.gains.count());
        if let Some(job) = self.jobs.change(id) {
            (job.gains, job.slots) = (gains, job.slots_left(pools));
            let mut spec = spec.clone();
            spec.extras.not_before = None;
            job.spec = Some(Arc::new(spec));
        }
    }

    /// Records that a reservation was examined when there had been this many gains of room.
    pub(crate) fn set_gains(&mut self, id: u64, gains: u64) {
        if let Some(job) = self.change(id) {
            job.gains = Some(gains);
        }
    }

    /// Notes the units left below vertices when a grant passed through.
    pub(crate) fn weigh(&mut self, weights: Vec<(VertexId, i64)>) {
        self.has_taken();
        self.note_vertices();
        for (vertex, left) in weights {
            self.weights.set(&self.graph, vertex, left);
        }
    }

    /// As upstream: the resources of a job with a grant that cannot be written stay taken, and no
    /// job has them.
    pub(crate) fn lose(&mut self, id: u64) {
        if let Some(job) = self.jobs.remove(id) {
            self.jobs.lose(id, job);
        }
    }

    /// Drops a job that was just made, with all that it holds.
    pub(crate) fn drop_job(&mut self, id: u64) {
        if let Some(job) = self.jobs.remove(id) {
            self.give_back(id, &job);
        }
    }

    /// The slots that a job has or is to have.
    pub(crate) fn slots_of(&self, id: u64, job: &Job) -> Vec<Slots> {
        let ledger = self.graph.pools.ledger();
        let on =
            |row| ledger.placed(row, id).map(move |(slot, count, times)| (row, slot, count, times));
        job.rows(&self.graph.pools).flat_map(on).collect()
    }

    /// Takes a job out of the book, with all that it holds. Returns it with its slots, for
    /// [`Book::put_back`].
    pub(crate) fn withdraw(&mut self, id: u64) -> Result<(Arc<Job>, Vec<Slots>), Error> {
        self.note_job(id);
        let job = self.jobs.remove(id).ok_or_else(|| no_job(id))?;
        let slots = self.slots_of(id, &job);
        self.give_back(id, &job);
        Ok((job, slots))
    }

    /// Gives a job its former vertices and units again.
    pub(crate) fn put_back(&mut self, id: u64, job: Arc<Job>, slots: Vec<Slots>) {
        self.schedule.put_off += usize::from(job.put_off);
        self.jobs.insert(id, Arc::clone(&job));
        for (row, slot, count, times) in slots {
            self.graph.pools.claim(&[(row, count)], id, &slot, times);
        }
        for touch in &job.touches {
            self.enter(job.term, touch);
        }
        self.schedule_job(id);
    }

    /// Gives back everything of a job.
    pub(crate) fn cancel(&mut self, id: u64) -> Result<(), Error> {
        if !self.jobs.contains(id) {
            return Err(no_job(id));
        }
        self.note_job(id);
        let job = self.jobs.remove(id).ok_or_else(|| no_job(id))?;
        self.give_back(id, &job);
        // What an earlier job of the same id held would otherwise be held for ever.
        for older in self.jobs.take_lost(id) {
            self.give_back(id, &older);
        }
        self.end(id, &job);
        Ok(())
    }

    /// A job that has nothing left has ended.
    pub(crate) fn drop_if_empty(&mut self, id: u64) -> bool {
        self.note_job(id);
        let empty =
            self.jobs.get(id).is_some_and(|job| job.ranks.is_empty() && job.touches.is_empty());
        if empty && let Some(job) = self.jobs.remove(id) {
            self.schedule.put_off -= usize::from(job.put_off);
            self.end(id, &job);
        }
        empty
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

    /// Notes when a job that was just made has to be looked at. A trial has its own copy of the
    /// agendas, which ends with it: stale entries are not dropped in one.
    pub(crate) fn schedule_job(&mut self, id: u64) {
        if self.trial.is_none() {
            self.agendas.forget_stale_entries(&self.jobs);
        }
        if let Some(job) = self.jobs.get(id) {
            self.agendas.add(id, job);
        }
    }

    /// Remembers a job that has ended, and shows it as cancelled in forks that know it.
    fn end(&mut self, id: u64, job: &Job) {
        match &mut self.trial {
            Some(trial) => trial.note_end(&self.jobs, id),
            None => job.canceled.store(true, Ordering::Relaxed),
        }
        self.jobs.end(id, job.info, self.trial.is_none());
    }
}
