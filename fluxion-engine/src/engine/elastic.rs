//! Graphs that grow and shrink.

use super::Engine;
use crate::graph::VertexId;
use crate::schedule::{Schedule, Touch};
use crate::{Error, idset};

impl Engine {
    /// Adds the vertices of a JGF document that are not there yet.
    pub fn add_subgraph(&mut self, text: &str) -> Result<(), Error> {
        let before = self.graph.len();
        self.graph.grow(text)?;
        if self.schedule.grow(&self.graph, before) {
            self.weights.grow(&self.graph, before);
        } else {
            self.reprime();
        }
        Ok(())
    }

    /// Removes what lies at a path, and everything below. What jobs hold of it they keep until they end; units of pools are
    /// lost.
    pub fn remove_subgraph(&mut self, path: &str) -> Result<(), Error> {
        let found = self.graph.at_path(path);
        if found.is_empty() {
            return Err(Error::not_found(format!("path {path:?}: there is no such vertex")));
        }
        for vertex in found {
            self.cut(vertex)?;
        }
        self.compact();
        Ok(())
    }

    /// Removes the vertices of ranks, and takes from jobs what they hold of them.
    pub fn remove_ranks(&mut self, ranks: &str) -> Result<(), Error> {
        let ranges = idset::parse(ranks)?;
        let within = |rank: i32| {
            u32::try_from(rank).is_ok_and(|rank| ranges.iter().any(|(first, last)| (*first..=*last).contains(&rank)))
        };
        let ids: Vec<u64> = self.jobs.keys().copied().collect();
        for id in ids {
            self.release_ranks(id, &within);
            self.drop_if_empty(id);
        }
        // The set may name billions of ranks that are not there.
        for rank in self.graph.ranks().into_iter().filter(|rank| within(*rank)) {
            while let Some(top) = self.graph.top_of_rank(rank) {
                self.cut(top)?;
            }
        }
        self.compact();
        Ok(())
    }

    /// Removes a subtree, and corrects the jobs that had units there.
    pub(super) fn cut(&mut self, top: VertexId) -> Result<(), Error> {
        let parent = self.graph.parent(top);
        let mut losers = self.graph.cut(top)?;
        losers.sort_unstable();
        losers.dedup();
        for id in losers {
            if let Some(job) = self.jobs.get_mut(&id) {
                let pools = &self.graph.pools;
                job.ranks.retain(|rank| pools.position(*rank).is_some());
            }
            self.drop_if_empty(id);
        }
        if !self.schedule.shrink(&self.graph, top, parent) {
            self.reprime();
        }
        Ok(())
    }

    /// Drops vertices that were removed, if they are the most, and nobody knows any vertex by its number.
    pub(super) fn compact(&mut self) {
        let is_known = !self.schedule.is_idle() || !self.weights.is_fresh() || self.writer.has_vertices();
        if is_known || !self.graph.is_sparse() {
            return;
        }
        self.graph.compact();
        self.schedule = Schedule::new(std::mem::take(&mut self.schedule.filters));
        self.schedule.prime(&self.graph);
        self.weights.prime(&self.graph);
        self.index = None;
        self.unindexed = None;
    }

    /// Counts anew what there is, and what is used of it.
    fn reprime(&mut self) {
        let mut filters = std::mem::take(&mut self.schedule.filters);
        let before = filters.clone();
        filters.prime(&self.graph);
        let mut schedule = Schedule::new(filters);
        schedule.make_room(&self.graph);
        let all = self.jobs.values_mut().chain(self.lost.iter_mut().map(|(_, job)| job));
        for job in all {
            for touch in &mut job.touches {
                let (old, new) =
                    (before.tracked(&self.graph, touch.vertex), schedule.filters.tracked(&self.graph, touch.vertex));
                if !touch.below.is_empty() && old != new {
                    let used = |kind| old.iter().position(|known| *known == kind).map_or(0, |at| touch.below[at]);
                    let below = new.iter().map(|kind| used(*kind)).collect();
                    *touch = Touch { below, ..touch.clone() };
                }
                schedule.add(&self.graph, job.term, touch);
            }
        }
        self.schedule = schedule;
        if self.options.policy.stops_early() {
            self.weights.prime(&self.graph);
        }
    }
}
