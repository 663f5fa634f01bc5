//! Giving back a part of a job.

use std::collections::{BTreeMap, BTreeSet};

use super::Book;
use super::job::Ranks;
use crate::graph::{TypeId, VertexId};
use crate::schedule::Row;

impl Book {
    /// Gives back `count` slots of a label that a job has on a row, and ends it with its last slot.
    pub(crate) fn release_slots(&mut self, id: u64, row: usize, label: &str, count: u64) {
        self.note_job(id);
        self.graph.pools.release_slots(row, id, label, count);
        let rank = self.graph.pools.ranks()[row];
        if !self.graph.pools.ledger().has_slots(row, id)
            && let Some(job) = self.jobs.change(id)
            && let Ok(at) = job.ranks.binary_search(&rank)
        {
            job.ranks.remove(at);
        }
        self.drop_if_empty(id);
    }

    /// Gives back all that a job has on some ranks. True if there was anything.
    pub(crate) fn release_ranks(&mut self, id: u64, within: &dyn Fn(i32) -> bool) -> bool {
        self.note_vertices();
        self.note_job(id);
        let Some(job) = self.jobs.change(id) else { return false };
        let on = |rank: &u32| i32::try_from(*rank).is_ok_and(within);
        let (gone, kept): (Ranks, Ranks) = job.ranks.iter().copied().partition(on);
        job.ranks = kept;
        for rank in &gone {
            if let Some(row) = self.graph.pools.position(*rank) {
                self.graph.pools.release_job(row, id);
            }
        }
        let some: BTreeSet<VertexId> = job
            .touches
            .iter()
            .map(|touch| touch.vertex)
            .filter(|vertex| within(self.graph.rank(*vertex)))
            .collect();
        self.release_vertices(id, &some) || !gone.is_empty()
    }

    /// Takes vertices from a job, and corrects what holds them.
    pub(crate) fn release_vertices(&mut self, id: u64, some: &BTreeSet<VertexId>) -> bool {
        self.note_vertices();
        let Some(job) = self.change(id) else { return false };
        let term = job.term;
        let (gone, mut kept): (Vec<_>, Vec<_>) = std::mem::take(&mut job.touches)
            .into_iter()
            .partition(|touch| some.contains(&touch.vertex));
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
                    match sums.iter_mut().find(|(known, _)| *known == kind) {
                        Some((_, sum)) => *sum = sum.saturating_add(count),
                        None => sums.push((kind, count)),
                    }
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
                // As upstream: also where the job took none of the types that it tracks.
                self.schedule.remove(term, touch);
                has_gaps = true;
                false
            }
        });
        if let Some(job) = self.jobs.change(id) {
            job.touches = kept;
            job.has_gaps |= has_gaps;
        }
        !gone.is_empty()
    }
}
