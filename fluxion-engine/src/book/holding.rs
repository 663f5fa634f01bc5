//! Taking and giving back: vertices and units of jobs.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Book;
use super::job::{Job, JobInfo, JobMode, no_job};
use crate::Error;
use crate::graph::VertexId;
use crate::jobspec::Jobspec;
use crate::pools::Slots;
use crate::schedule::{Term, Touch};
use crate::time::{End, WINDOW_SECONDS};
use crate::vertex_search::Selection;
use crate::vertex_search::select::Marked;

impl Book {
    /// Notes how long the match of a job took.
    pub(crate) fn set_overhead(&mut self, id: u64, seconds: f64) {
        if let Some(job) = self.change(id) {
            job.info.overhead = seconds;
        }
    }

    /// Adds a job that holds nothing yet. As upstream (Q16), which does not notice that there is
    /// one, an older job of the same id is lost.
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

    /// Gives slots on nodes to a job, which must exist.
    pub(crate) fn claim(&mut self, id: u64, slots: Slots) {
        if self.jobs.contains(id) {
            enter_rows(self, id, &slots);
            if let Some(job) = self.jobs.change(id) {
                job.claims.add_slots(slots);
            }
        }
    }

    /// Makes a job hold the vertices of a selection, which it passes through only if it has some of
    /// them for itself, or no slots. Returns those that hold less than is taken of
    /// them, because a part of the graph was removed together with the vertices of other jobs
    /// there: as upstream (Q26), this is not counted, and they are not written.
    pub(crate) fn touch(&mut self, id: u64, selection: &Selection) -> Vec<VertexId> {
        let mut unmarked = Vec::new();
        let Some(term) = self.jobs.get(id).map(|job| job.term) else { return unmarked };
        let has = |marked: &Marked| marked.exclusive && !self.graph.is_pool(marked.vertex);
        if self.jobs.get(id).is_some_and(|job| job.claims.has_slots())
            && !selection.marked.iter().any(has)
        {
            // Units are counted by node.
            return unmarked;
        }
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
            job.claims.add_vertices(touches);
        }
        unmarked
    }

    /// What earlier grants under the id of a job take of the vertices that it takes too is never
    /// given back: as upstream (Q16), which remembers one span per vertex and job.
    pub(crate) fn leak(&mut self, id: u64) {
        if !self.jobs.lost().iter().any(|(lost, _)| *lost == id) {
            return;
        }
        let touches = self.jobs.get(id).into_iter().flat_map(|job| job.claims.vertices());
        let taken: HashSet<VertexId> = touches.map(|touch| touch.vertex).collect();
        let mut leaked = Vec::new();
        for (_, older) in self.jobs.lost_mut().filter(|(lost, _)| *lost == id) {
            let of_older = older.claims.vertices_mut();
            let (gone, kept): (Vec<Touch>, Vec<Touch>) = std::mem::take(of_older)
                .into_iter()
                .partition(|touch| taken.contains(&touch.vertex));
            *of_older = kept;
            leaked.extend(gone.into_iter().map(|touch| (older.term, touch)));
        }
        self.jobs.strand(leaked);
    }

    /// Remembers of a reservation all that moving it needs.
    pub(crate) fn prepare_to_move(&mut self, id: u64, spec: &Jobspec) {
        let pools = &self.graph.pools;
        let gains = spec.extras.not_before.is_none().then(|| pools.gains.count());
        if let Some(job) = self.jobs.change(id) {
            (job.gains, job.slots) = (gains, job.claims.slot_count());
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
        self.changes_from_now_on();
        if let Some(trial) = &mut self.trial {
            trial.note_weights(&self.weights);
        }
        for (vertex, left) in weights {
            self.weights.set(&self.graph, vertex, left);
        }
    }

    /// As upstream (Q5): the resources of a job with a grant that cannot be written stay taken, and
    /// no job has them.
    pub(crate) fn lose(&mut self, id: u64) {
        if let Some(job) = self.jobs.remove(id) {
            self.jobs.lose(id, job);
        }
    }

    /// Drops a job that was just made, with all that it holds.
    pub(crate) fn drop_job(&mut self, id: u64) {
        if let Some(job) = self.jobs.remove(id) {
            self.give_back(&job);
        }
    }

    /// Takes a job out of the book, with all that it holds. Returns it, for [`Book::put_back`].
    pub(crate) fn withdraw(&mut self, id: u64) -> Result<Arc<Job>, Error> {
        self.note_job(id);
        let job = self.jobs.remove(id).ok_or_else(|| no_job(id))?;
        self.give_back(&job);
        Ok(job)
    }

    /// Gives a job all its claims again.
    pub(crate) fn put_back(&mut self, id: u64, job: Arc<Job>) {
        enter_all(self, &job);
        self.jobs.insert(id, job);
        self.schedule_job(id);
    }

    /// Gives back everything of a job.
    pub(crate) fn cancel(&mut self, id: u64) -> Result<(), Error> {
        if !self.jobs.contains(id) {
            return Err(no_job(id));
        }
        self.note_job(id);
        let job = self.jobs.remove(id).ok_or_else(|| no_job(id))?;
        self.give_back(&job);
        // What an earlier job of the same id held would otherwise be held for ever.
        for older in self.jobs.take_lost(id) {
            self.give_back(&older);
        }
        self.end(id, &job);
        Ok(())
    }

    /// A job that has nothing left has ended.
    pub(crate) fn drop_if_empty(&mut self, id: u64) -> bool {
        self.note_job(id);
        let empty = self.jobs.get(id).is_some_and(|job| job.claims.is_empty());
        if empty && let Some(job) = self.jobs.remove(id) {
            self.schedule.put_off -= usize::from(job.put_off);
            self.end(id, &job);
        }
        empty
    }

    /// Frees the vertices and units of a job.
    fn give_back(&mut self, job: &Job) {
        // As upstream (Q24), which goes down from the root by the marks of the job: what lies below
        // a vertex that was given back before is not come to, and stays held. Not so on a graph
        // with pools, which upstream does not have.
        let vertices = job.claims.vertices();
        let marked: Option<HashSet<VertexId>> = (job.has_gaps && !self.graph.has_pool_types())
            .then(|| vertices.iter().map(|touch| touch.vertex).collect());
        let Some(marked) = marked.filter(|marked| marked.contains(&self.graph.root())) else {
            return leave_all(self, job);
        };
        leave_slots(self, job);
        let mut stranded = Vec::new();
        for touch in vertices {
            if self.graph.way_up(touch.vertex).all(|at| marked.contains(&at)) {
                self.leave(job.term, touch);
            } else {
                stranded.push((job.term, touch.clone()));
            }
        }
        self.jobs.strand(stranded);
    }

    /// Counts a touch of a vertex from now on; in the account of the nodes too, where the job has
    /// them whole.
    pub(super) fn enter(&mut self, term: Term, touch: &Touch) {
        self.changes_from_now_on();
        self.schedule.add(&self.graph, term, touch);
        if touch.exclusive && self.graph.has_pool_types() {
            for row in self.graph.rows_within(touch.vertex) {
                self.graph.pools.claim_node(row, term.job, (term.from, term.end), term.reserved);
            }
        }
    }

    /// Counts a touch of a vertex no more.
    pub(super) fn leave(&mut self, term: Term, touch: &Touch) {
        self.changes_from_now_on();
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

/// The indexes count all claims of a job from now on.
pub(super) fn enter_all(book: &mut Book, job: &Job) {
    if job.put_off {
        book.changes_from_now_on();
        book.schedule.put_off += 1;
    }
    for slots in job.claims.slots() {
        enter_rows(book, job.term.job, slots);
    }
    for touch in job.claims.vertices() {
        book.enter(job.term, touch);
    }
}

/// The indexes count no claim of a job any more.
pub(super) fn leave_all(book: &mut Book, job: &Job) {
    leave_slots(book, job);
    for touch in job.claims.vertices() {
        book.leave(job.term, touch);
    }
}

fn leave_slots(book: &mut Book, job: &Job) {
    if job.put_off {
        book.changes_from_now_on();
        book.schedule.put_off -= 1;
    }
    for slots in job.claims.slots() {
        leave_rows(book, job.term.job, slots);
    }
}

/// The index over nodes counts these slots of a job from now on.
fn enter_rows(book: &mut Book, id: u64, slots: &Slots) {
    let row = |(rank, count): &(u32, u64)| Some((book.graph.pools.position(*rank)?, *count));
    let rows: Vec<(usize, u64)> = slots.on().iter().filter_map(row).collect();
    book.graph.pools.claim(&rows, &slots.lot(id));
}

/// The index over nodes counts these slots of a job no more.
pub(super) fn leave_rows(book: &mut Book, id: u64, slots: &Slots) {
    for (rank, count) in slots.on() {
        if let Some(row) = book.graph.pools.position(*rank) {
            book.graph.pools.release(row, &slots.lot(id), *count);
        }
    }
}
