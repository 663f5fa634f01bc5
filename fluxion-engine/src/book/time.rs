//! The effects of the clock on jobs: reservations begin or are put off, and a job past its end
//! keeps its resources.

use std::sync::Arc;

use super::Book;
use super::job::{Job, JobMode};
use crate::graph::Graph;
use crate::schedule::{Schedule, Term, Touch};
use crate::time::End;

impl Book {
    /// Moves the present forward.
    ///
    /// A reservation that is due becomes an allocation if there is room where it has its
    /// place, in the order of starts and ids; else it stays a reservation, and begins in the next
    /// second at the earliest.
    pub(crate) fn advance(&mut self, now: i64) {
        self.changes_from_now_on();
        if let Some(trial) = &mut self.trial {
            trial.note_clock(&self.agendas);
        }
        self.now = now;
        self.graph.pools.advance(now);
        self.extend_overdue();
        self.begin_due();
    }

    /// A vertex that a job holds past its end is held until the next second.
    fn extend_overdue(&mut self) {
        let to = self.now + 1;
        while let Some((end, id)) = self.agendas.next_end(self.now) {
            let is_it = |job: &&mut Job| job.info.mode == JobMode::Allocated && job.term.to == end;
            self.note_job(id);
            // The entry may be of a job that has gone, or ends at another time since.
            if let Some(job) = self.jobs.change(id).filter(is_it) {
                extend(&mut self.schedule, &self.graph, job, to);
                self.agendas.add_end(id, to);
            }
        }
        for (_, job) in self.jobs.lost_mut() {
            if job.info.mode == JobMode::Allocated && job.term.to < to {
                extend(&mut self.schedule, &self.graph, job, to);
            }
        }
    }

    /// Begins the reservations that are due, or puts them off.
    fn begin_due(&mut self) {
        let mut due: Vec<(u64, Arc<Job>)> = Vec::new();
        while let Some((at, id)) = self.agendas.next_start(self.now) {
            let is_it = |job: &&Arc<Job>| job.info.mode == JobMode::Reserved && job.info.at == at;
            // A job that is on the agenda twice comes twice in a row.
            if due.last().is_none_or(|(last, _)| *last != id)
                && let Some(job) = self.jobs.get(id).filter(is_it)
            {
                due.push((id, Arc::clone(job)));
            }
        }
        // None of them is in the way of another before it has begun.
        for (id, job) in &due {
            self.note_job(*id);
            for touch in job.claims.vertices() {
                self.leave(job.term, touch);
            }
        }
        for (id, mut job) in due {
            // The copy is the only one then, so that it can be changed in its place.
            self.jobs.remove(id);
            begin(self, id, Arc::make_mut(&mut job));
            self.jobs.insert(id, job);
            self.schedule_job(id);
        }
    }
}

/// Begins a reservation that the vertices do not count any more, or puts it off.
fn begin(book: &mut Book, id: u64, job: &mut Job) {
    let pools = &book.graph.pools;
    let rows = job.claims.ranks().into_iter().filter_map(|rank| pools.position(rank));
    let rows: Vec<usize> = rows.collect();
    let begins = rows.iter().all(|row| book.graph.pools.by_node().may_begin(*row, id))
        && job.claims.vertices().iter().all(|touch| may_begin(book, touch));
    let later = book.now + 1 - job.info.at;
    for slots in job.claims.planned_mut() {
        let pools = &mut book.graph.pools;
        let lot = slots.lot(id);
        let rows = slots.on().iter().filter_map(|(rank, _)| pools.position(*rank));
        let rows: Vec<usize> = rows.collect();
        if begins {
            for row in rows {
                pools.begin(row, &lot);
            }
            slots.planned = false;
        } else {
            for row in rows {
                pools.put_off(row, &lot, later);
            }
            slots.times = (slots.times.0.saturating_add(later), slots.times.1.later(later));
        }
    }
    if begins {
        job.info.mode = JobMode::Allocated;
        job.term.reserved = false;
        // It may begin so late that it should have ended.
        job.term.to = job.term.to.max(book.now + 1);
    } else {
        if !std::mem::replace(&mut job.put_off, true) {
            book.schedule.put_off += 1;
        }
        job.info.at = book.now + 1;
        let Term { from, to, end, .. } = &mut job.term;
        (*from, *end) = (from.saturating_add(later), end.later(later));
        // A term without an end lasts as long as the window.
        *to = if let End::At(_) = end { to.saturating_add(later) } else { *to };
    }
    for touch in job.claims.vertices() {
        book.enter(job.term, touch);
    }
}

/// True if a vertex can be had now. A vertex that is not part of the graph any more belongs to
/// no other job.
fn may_begin(book: &Book, touch: &Touch) -> bool {
    !touch.exclusive
        || !book.graph.is_linked(touch.vertex)
        || book.is_to_be_had(touch.vertex, (book.now, book.now + 1), |row| {
            book.graph.pools.by_node().is_untouched(row)
        })
}

/// Moves the end of all vertices that a job holds.
fn extend(schedule: &mut Schedule, graph: &Graph, job: &mut Job, to: i64) {
    let longer = Term { to, ..job.term };
    for touch in job.claims.vertices() {
        schedule.remove(job.term, touch);
        schedule.add(graph, longer, touch);
    }
    job.term = longer;
}
