//! Giving back a part of a job.

use std::collections::{BTreeMap, BTreeSet};

use super::Book;
use super::holding::leave_rows;
use crate::amounts::amount_of;
use crate::graph::{TypeId, VertexId};
use crate::schedule::Row;

impl Book {
    /// Gives back `count` slots of a label that a job has on a rank; it ends with its last slot.
    pub(crate) fn release_slots(&mut self, id: u64, rank: u32, label: &str, count: u64) {
        give_back_slots(self, id, rank, label, count);
        self.drop_if_empty(id);
    }

    /// Gives back slots as far as a job has them: rank, label and number of each. True if there
    /// were any.
    pub(crate) fn release_some_slots(&mut self, id: u64, some: &[(u32, Box<str>, u64)]) -> bool {
        let mut any = false;
        for (rank, label, count) in some {
            any |= give_back_slots(self, id, *rank, label, *count);
        }
        any
    }

    /// Gives back all that a job has on some ranks. True if there was anything.
    pub(crate) fn release_ranks(&mut self, id: u64, within: &dyn Fn(i32) -> bool) -> bool {
        let within_rank = |rank: u32| i32::try_from(rank).is_ok_and(within);
        let Some(job) = self.change(id) else { return false };
        let taken = job.claims.take_ranks(within_rank);
        for slots in &taken {
            leave_rows(self, id, slots);
        }
        let vertices = self.jobs.get(id).into_iter().flat_map(|job| job.claims.vertices());
        let some: BTreeSet<VertexId> = vertices
            .map(|touch| touch.vertex)
            .filter(|vertex| within(self.graph.rank(*vertex)))
            .collect();
        self.release_vertices(id, &some) || !taken.is_empty()
    }

    /// Takes vertices from a job, and corrects what holds them.
    pub(crate) fn release_vertices(&mut self, id: u64, some: &BTreeSet<VertexId>) -> bool {
        self.changes_from_now_on();
        let Some(job) = self.change(id) else { return false };
        let term = job.term;
        let vertices = job.claims.take_vertices().into_iter();
        let (gone, mut kept): (Vec<_>, Vec<_>) =
            vertices.partition(|touch| some.contains(&touch.vertex));
        let mut has_gaps = false;
        // What each vertex above the released ones has less of below it.
        let mut less: BTreeMap<VertexId, Vec<(TypeId, i64)>> = BTreeMap::new();
        for touch in &gone {
            self.leave(term, touch);
            let size = i64::try_from(self.graph.size(touch.vertex)).unwrap_or(i64::MAX);
            let count = if touch.exclusive { size } else { 0 };
            let kind = self.graph.kind(touch.vertex);
            let mut at = self.graph.parent(touch.vertex);
            while let Some(above) = at {
                if !some.contains(&above) {
                    let sums = less.entry(above).or_default();
                    let sum = amount_of(sums, kind);
                    *sum = sum.saturating_add(count);
                }
                at = self.graph.parent(above);
            }
        }
        kept.retain_mut(|touch| {
            let Some(sums) = less.get(&touch.vertex) else { return true };
            let tracked = self.schedule.filters.tracked(&self.graph, touch.vertex);
            let of =
                |kind: &TypeId| sums.iter().find(|(known, _)| known == kind).map_or(0, |sum| sum.1);
            let amounts: Row = tracked.iter().map(of).collect();
            if touch.below.is_empty() {
                return true;
            }
            let left: Row = touch
                .below
                .iter()
                .zip(&amounts)
                .map(|(have, less)| have.saturating_sub(*less).max(0))
                .collect();
            if touch.exclusive || left.iter().any(|left| *left > 0) {
                let taken: Row =
                    touch.below.iter().zip(&left).map(|(have, left)| have - left).collect();
                self.schedule.reduce(term, touch.vertex, &taken);
                touch.below = left;
                true
            } else {
                // As upstream (Q24): also where the job took none of the types that it tracks.
                self.schedule.remove(term, touch);
                has_gaps = true;
                false
            }
        });
        if let Some(job) = self.jobs.change(id) {
            job.claims.add_vertices(kept);
            job.has_gaps |= has_gaps;
        }
        !gone.is_empty()
    }
}

/// Gives back slots as far as a job has them. True if there were any.
fn give_back_slots(book: &mut Book, id: u64, rank: u32, label: &str, count: u64) -> bool {
    let taken = book.change(id).map(|job| job.claims.take_slots(rank, label, count));
    let taken = taken.unwrap_or_default();
    for slots in &taken {
        leave_rows(book, id, slots);
    }
    !taken.is_empty()
}
