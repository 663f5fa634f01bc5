//! Graphs that grow and shrink under jobs, and other changes of vertices.

use std::collections::BTreeSet;

use super::Book;
use super::job::Job;
use crate::Error;
use crate::graph::{Enlargement, TypeId, VertexId};
use crate::schedule::{Schedule, Span, Term, Touch};
use crate::time::End;

impl Book {
    /// Adds vertices as planned.
    pub(crate) fn grow(&mut self, growth: Enlargement<'_>) -> Result<(), Error> {
        let before = self.graph.len();
        self.changes_from_now_on();
        self.graph.grow(growth)?;
        count_new(self, before);
        give_new_nodes(self, before);
        Ok(())
    }

    /// Sets the size of a node's pool; claims stay, even if they are for more.
    pub(crate) fn resize(&mut self, rank: u32, kind: &str, size: u64) -> Result<(), Error> {
        self.changes_from_now_on();
        let before = self.graph.len();
        let old = self.graph.resize(rank, kind, size)?;
        if self.graph.len() > before {
            count_new(self, before);
        } else if let Some(kind) = self.graph.types().get(kind) {
            let node = self.graph.pools.vertices()[self.graph.row(rank)?];
            self.schedule.filters.resize(&self.graph, node, kind, (old, size));
        }
        Ok(())
    }

    /// The number of a type, new or known.
    pub(crate) fn intern(&mut self, kind: &str) -> Result<TypeId, Error> {
        self.changes_from_now_on();
        self.graph.intern(kind)
    }

    /// Puts a row into a part of a level, and out of the one that it was in; `None`: into none.
    pub(crate) fn set_part(&mut self, row: usize, level: &str, part: Option<&str>) {
        self.changes_from_now_on();
        self.graph.pools.set_part(row, level, part);
    }

    /// Marks a vertex up or down.
    pub(crate) fn set_up(&mut self, vertex: VertexId, up: bool) {
        self.changes_from_now_on();
        self.graph.set_up(vertex, up);
    }

    /// Gives a vertex a property, or the property another value.
    pub(crate) fn set_property(&mut self, vertex: VertexId, name: &str, value: &str) {
        self.changes_from_now_on();
        self.graph.set_property(vertex, name, value);
    }

    /// Removes a subtree, and corrects the jobs that had units there; on a graph with pools those
    /// too that had vertices there.
    pub(crate) fn cut(&mut self, top: VertexId) -> Result<(), Error> {
        self.changes_from_now_on();
        let parent = self.graph.parent(top);
        let mut losers = Vec::new();
        if parent.is_some() && self.graph.has_pool_types() {
            losers = release_subtree(self, top);
        }
        losers.extend(self.graph.cut(top)?);
        self.has_shrunk = true;
        losers.sort_unstable();
        losers.dedup();
        let pools = &self.graph.pools;
        let is_gone = |rank: u32| pools.position(rank).is_none();
        for (_, job) in self.jobs.lost_mut().filter(|(id, _)| losers.contains(id)) {
            job.claims.take_ranks(is_gone);
        }
        for id in &losers {
            if let Some(job) = self.jobs.change(*id) {
                job.claims.take_ranks(is_gone);
            }
        }
        for id in losers {
            self.drop_if_empty(id);
        }
        if !self.schedule.shrink(&self.graph, top, parent) {
            self.reprime();
        } else if let Some(parent) = parent {
            self.weights.recount(&self.graph, parent);
        }
        Ok(())
    }

    /// Drops vertices that were removed, if they are the most, and nothing refers to a vertex by
    /// its number; `remembers`: the writer knows some. True if there are other numbers now.
    pub(crate) fn compact(&mut self, remembers: bool) -> bool {
        let is_known = !self.schedule.is_idle() || !self.weights.is_fresh() || remembers;
        if is_known || !self.graph.is_sparse() {
            return false;
        }
        self.graph.compact();
        let put_off = self.schedule.put_off;
        self.schedule = Schedule::new(std::mem::take(&mut self.schedule.filters));
        self.schedule.put_off = put_off;
        self.schedule.prime(&self.graph);
        self.weights.prime(&self.graph);
        true
    }

    /// Counts all vertices again, and the use of them.
    pub(crate) fn reprime(&mut self) {
        let mut filters = std::mem::take(&mut self.schedule.filters);
        let before = filters.clone();
        filters.prime(&self.graph);
        let mut schedule = Schedule::new(filters);
        schedule.put_off = self.schedule.put_off;
        schedule.make_room(&self.graph);
        let mut add = |term: Term, touch: &mut Touch| {
            let (old, new) = (
                before.tracked(&self.graph, touch.vertex),
                schedule.filters.tracked(&self.graph, touch.vertex),
            );
            if !touch.below.is_empty() && old != new {
                let used = |kind| {
                    old.iter().position(|known| *known == kind).map_or(0, |at| touch.below[at])
                };
                touch.below = new.iter().map(|kind| used(*kind)).collect();
            }
            schedule.add(&self.graph, term, touch);
        };
        for job in self.jobs.holders_mut() {
            let term = job.term;
            job.claims.vertices_mut().iter_mut().for_each(|touch| add(term, touch));
        }
        self.jobs.stranded_mut().iter_mut().for_each(|(term, touch)| add(*term, touch));
        if !self.graph.has_pool_types() {
            schedule.hold_back(&self.graph, &before, self.now);
        }
        self.schedule = schedule;
        self.weights.prime(&self.graph);
    }
}

/// Counts the vertices that are new since there were `before`.
fn count_new(book: &mut Book, before: usize) {
    if book.graph.len() == before {
        return;
    }
    if book.schedule.grow(&book.graph, before, book.now) {
        book.weights.grow(&book.graph, before);
    } else {
        book.reprime();
    }
}

/// New nodes below a vertex that a job has for itself are the job's.
fn give_new_nodes(book: &mut Book, before: usize) {
    if !book.graph.has_pool_types() {
        return;
    }
    let new: Vec<(VertexId, usize)> = (before..book.graph.len())
        .map(VertexId::at)
        .filter_map(|node| Some((node, book.graph.position_of(node)?)))
        .collect();
    for (node, row) in new {
        let above = book.graph.way_up(node).skip(1);
        let spans: Vec<Span> =
            above.flat_map(|vertex| book.schedule.spans(vertex)).copied().collect();
        for span in spans {
            let end = book.jobs.get(span.job).map_or(End::Never, |job| job.term.end);
            book.graph.pools.claim_node(row, span.job, (span.from, end), span.reserved);
        }
    }
}

/// Takes the vertices of a subtree from all jobs. Returns those that had some of it.
fn release_subtree(book: &mut Book, top: VertexId) -> Vec<u64> {
    let subtree: BTreeSet<VertexId> = book.graph.subtree(top).into_iter().collect();
    let is_concerned =
        |job: &Job| job.claims.vertices().iter().any(|touch| subtree.contains(&touch.vertex));
    let ids: Vec<u64> =
        book.jobs.iter().filter(|(_, job)| is_concerned(job)).map(|(id, _)| id).collect();
    for id in ids.iter().copied() {
        book.release_vertices(id, &subtree);
        if let Some(job) = book.jobs.change(id) {
            let pools = &book.graph.pools;
            let is_elsewhere = |rank: &u32| {
                let row = pools.position(*rank);
                row.is_some_and(|row| !subtree.contains(&pools.vertices()[row]))
            };
            let has_units = job.claims.ranks().iter().any(is_elsewhere);
            if !has_units && job.claims.own_vertices().next().is_none() {
                // Only the way to its former vertices is left.
                for touch in job.claims.take_vertices() {
                    book.schedule.remove(job.term, &touch);
                }
            }
        }
    }
    ids
}
