//! Graphs that grow and shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Engine, Job};
use crate::graph::{TypeId, VertexId, check_edges, check_uniq_ids, plan_growth};
use crate::readers::jgf;
use crate::schedule::{Hold, Schedule, Touch};
use crate::time::End;
use crate::{Error, idset};

impl Engine {
    /// Adds the vertices of a JGF document that are not there yet.
    pub fn add_subgraph(&mut self, text: &str) -> Result<(), Error> {
        self.not_in_a_trial("add_subgraph")?;
        let document = jgf::parse(text)?;
        check_edges(&document.nodes, &document.edges)?;
        let before = self.graph.len();
        if !self.graph.has_pool_types() {
            let weighs = |vertex| self.weights.weight(&self.graph, vertex) != 0;
            check_uniq_ids(&self.graph, &document.nodes, &document.edges, weighs)?;
        }
        let growth = plan_growth(&self.graph, &document.nodes, &document.edges)?;
        self.changes_from_now_on();
        self.graph.grow(growth)?;
        self.count_new(before);
        self.give_new_nodes(before);
        Ok(())
    }

    /// Counts the vertices that are new since there were `before`.
    pub(super) fn count_new(&mut self, before: usize) {
        if self.graph.len() == before {
            return;
        }
        self.follows_from_jobs &= self.graph.has_pool_types();
        if self.schedule.grow(&self.graph, before, self.now) {
            self.weights.grow(&self.graph, before);
        } else {
            self.reprime();
        }
    }

    /// New nodes below a vertex that a job has for itself are the job's.
    fn give_new_nodes(&mut self, before: usize) {
        if !self.graph.has_pool_types() {
            return;
        }
        for node in (before..self.graph.len()).map(VertexId::at) {
            let Some(row) = self.graph.position_of(node) else { continue };
            let above = self.graph.way_up(node).skip(1);
            let holds: Vec<Hold> =
                above.flat_map(|vertex| self.schedule.holds(vertex)).copied().collect();
            for hold in holds {
                let end = self.jobs.get(&hold.job).map_or(End::Never, |job| job.term.end);
                self.graph.pools.claim_node(row, hold.job, (hold.from, end), hold.reserved);
            }
        }
    }

    /// Removes what lies at a path, and everything below. What jobs hold of it they keep until they
    /// end; on a graph with pools they lose it, and units of pools.
    pub fn remove_subgraph(&mut self, path: &str) -> Result<(), Error> {
        self.not_in_a_trial("remove_subgraph")?;
        let found = self.graph.at_path(path);
        if found.is_empty() {
            return Err(Error::not_found(format!("path {path:?}: there is no such vertex")));
        }
        if found.contains(&self.graph.root()) {
            return Err(Error::invalid(format!("vertex {path}: the root cannot be removed")));
        }
        self.changes_from_now_on();
        for vertex in found {
            // One may lie below another that has the same path.
            if self.graph.is_linked(vertex) {
                self.cut(vertex)?;
            }
        }
        self.compact();
        Ok(())
    }

    /// Removes the vertices of ranks, and takes from jobs what they hold of them. As upstream, that
    /// fails where several jobs are on a rank and one of them has less than they have there
    /// together: each is to give back all of it.
    pub fn remove_ranks(&mut self, ranks: &str) -> Result<(), Error> {
        self.not_in_a_trial("remove_ranks")?;
        let ranges = idset::parse(ranks)?;
        let within = |rank: i32| {
            u32::try_from(rank).is_ok_and(|rank| {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&rank))
            })
        };
        let root = self.graph.root();
        if within(self.graph.rank(root)) {
            // Before anything is changed.
            return Err(Error::invalid(format!(
                "vertex {}: the root cannot be removed",
                self.graph.path(root)
            )));
        }
        // The set may name billions of ranks that are not there.
        let ranks: Vec<i32> = self.graph.ranks().into_iter().filter(|rank| within(*rank)).collect();
        for rank in &ranks {
            if let Some(id) = short_of(self, *rank) {
                return Err(Error::invalid(format!(
                    "job {id}: has less than jobs have on rank {rank} together"
                )));
            }
        }
        self.changes_from_now_on();
        let ids: Vec<u64> = self.jobs.keys().copied().collect();
        for id in ids {
            self.release_ranks(id, &within);
            self.drop_if_empty(id);
        }
        for rank in ranks {
            while let Some(top) = self.graph.top_of_rank(rank) {
                self.cut(top)?;
            }
        }
        self.compact();
        Ok(())
    }

    /// Removes a subtree, and corrects the jobs that had units there; on a graph with pools those
    /// too that had vertices there.
    pub(super) fn cut(&mut self, top: VertexId) -> Result<(), Error> {
        let parent = self.graph.parent(top);
        let mut losers = Vec::new();
        if parent.is_some() && self.graph.has_pool_types() {
            losers = self.release_subtree(top);
        }
        losers.extend(self.graph.cut(top)?);
        self.has_shrunk = true;
        self.follows_from_jobs &= self.graph.has_pool_types();
        losers.sort_unstable();
        losers.dedup();
        for id in losers {
            if let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) {
                let pools = &self.graph.pools;
                job.ranks.retain(|rank| pools.position(*rank).is_some());
            }
            self.drop_if_empty(id);
        }
        if !self.schedule.shrink(&self.graph, top, parent) {
            self.reprime();
        } else if let Some(parent) = parent {
            self.weights.recount(&self.graph, parent);
        }
        Ok(())
    }

    /// Takes what lies in a subtree from all jobs. Returns those that had some of it.
    fn release_subtree(&mut self, top: VertexId) -> Vec<u64> {
        let subtree: BTreeSet<VertexId> = self.graph.subtree(top).into_iter().collect();
        let is_concerned =
            |job: &Job| job.touches.iter().any(|touch| subtree.contains(&touch.vertex));
        let ids: Vec<u64> =
            self.jobs.iter().filter(|(_, job)| is_concerned(job)).map(|(id, _)| *id).collect();
        for id in ids.iter().copied() {
            self.release_vertices(id, &subtree);
            if let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) {
                let pools = &self.graph.pools;
                let has_units =
                    job.rows(pools).any(|row| !subtree.contains(&pools.vertices()[row]));
                let holds = |touch: &Touch| touch.exclusive;
                if !has_units && !job.touches.iter().any(holds) {
                    // Only the way to its former vertices is left.
                    for touch in std::mem::take(&mut job.touches) {
                        self.schedule.remove(job.term, &touch);
                    }
                }
            }
        }
        ids
    }

    /// Drops vertices that were removed, if they are the most, and nothing refers to a vertex by
    /// its number.
    pub(super) fn compact(&mut self) {
        let is_known =
            !self.schedule.is_idle() || !self.weights.is_fresh() || self.writer.has_vertices();
        if is_known || !self.graph.is_sparse() {
            return;
        }
        self.graph.compact();
        let put_off = self.schedule.put_off;
        self.schedule = Schedule::new(std::mem::take(&mut self.schedule.filters));
        self.schedule.put_off = put_off;
        self.schedule.prime(&self.graph);
        self.weights.prime(&self.graph);
        self.index = None;
        self.unindexed = None;
    }

    /// Counts all vertices again, and the use of them.
    pub(super) fn reprime(&mut self) {
        let mut filters = std::mem::take(&mut self.schedule.filters);
        let before = filters.clone();
        filters.prime(&self.graph);
        let mut schedule = Schedule::new(filters);
        schedule.put_off = self.schedule.put_off;
        schedule.make_room(&self.graph);
        let all = self.jobs.values_mut().chain(self.lost.iter_mut().map(|(_, job)| job));
        for job in all.map(Arc::make_mut) {
            for touch in &mut job.touches {
                let (old, new) = (
                    before.tracked(&self.graph, touch.vertex),
                    schedule.filters.tracked(&self.graph, touch.vertex),
                );
                if !touch.below.is_empty() && old != new {
                    let used = |kind| {
                        old.iter().position(|known| *known == kind).map_or(0, |at| touch.below[at])
                    };
                    let below = new.iter().map(|kind| used(*kind)).collect();
                    *touch = Touch { below, ..touch.clone() };
                }
                schedule.add(&self.graph, job.term, touch);
            }
        }
        if !self.graph.has_pool_types() {
            schedule.hold_back(&self.graph, &before, self.now);
        }
        self.schedule = schedule;
        self.weights.prime(&self.graph);
    }
}

/// Of several jobs on a rank, one that has less, as vertices above the rank count it, than all
/// of them have there.
fn short_of(engine: &Engine, rank: i32) -> Option<u64> {
    let (mut ids, mut counts) = (Vec::new(), BTreeMap::<TypeId, i64>::new());
    for (id, job) in engine.jobs.iter() {
        let here = job.touches.iter().filter(|touch| engine.graph.rank(touch.vertex) == rank);
        for touch in here {
            ids.push(*id);
            if touch.exclusive {
                let size = i64::try_from(engine.graph.size(touch.vertex)).unwrap_or(i64::MAX);
                let sum = counts.entry(engine.graph.kind(touch.vertex)).or_default();
                *sum = sum.saturating_add(size);
            }
        }
    }
    ids.dedup();
    if ids.len() < 2 {
        return None;
    }
    let top = engine.graph.top_of_rank(rank)?;
    let above: Vec<VertexId> = engine.graph.way_up(top).skip(1).collect();
    let is_short = |touch: &Touch| {
        let tracked = engine.schedule.filters.tracked(&engine.graph, touch.vertex);
        tracked
            .iter()
            .zip(&touch.below)
            .any(|(kind, has)| counts.get(kind).is_some_and(|all| all > has))
    };
    let touches = |id: &u64| engine.jobs[id].touches.iter();
    ids.into_iter()
        .find(|id| touches(id).any(|touch| above.contains(&touch.vertex) && is_short(touch)))
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, MatchOp};

    /// A cluster of nodes with a core each.
    fn engine(nodes: usize) -> Engine {
        let vertex = |id: usize, kind: &str, of_kind: usize, rank: i64, path: &str| {
            format!(
                r#"{{"id":"{id}","metadata":{{"type":"{kind}","id":{of_kind},"rank":{rank},"paths":{{"containment":"{path}"}}}}}}"#
            )
        };
        let (mut vertices, mut edges) = (vec![vertex(0, "cluster", 0, -1, "/c0")], Vec::new());
        for (node, rank) in (0..nodes).zip(0..) {
            let (id, path) = (1 + 2 * node, format!("/c0/node{node}"));
            vertices.push(vertex(id, "node", node, rank, &path));
            vertices.push(vertex(id + 1, "core", 0, rank, &format!("{path}/core0")));
            edges.push(format!(
                r#"{{"source":"0","target":"{id}"}},{{"source":"{id}","target":"{}"}}"#,
                id + 1
            ));
        }
        let document = format!(
            r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
            vertices.join(","),
            edges.join(",")
        );
        Engine::new(
            &document,
            r#"{"load_format":"jgf","matcher_policy":"first","match_format":"rlite"}"#,
        )
        .unwrap()
    }

    /// What `first` has noted of the children of a vertex goes with them.
    #[test]
    fn first_does_not_look_for_what_is_gone() {
        let spec = r#"{"version":1,"resources":[{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}],
            "tasks":[{"command":["a"],"slot":"s","count":{"per_slot":1}}],"attributes":{"system":{"duration":9}}}"#;
        let mut engine = engine(4);
        engine.set_status("/c0/node3", false).unwrap();
        let grant = engine.match_next(MatchOp::Allocate, spec).unwrap();
        assert!(grant.r.contains(r#""rank": "2""#), "{}", grant.r);
        engine.cancel(grant.job.unwrap()).unwrap();
        engine.set_status("/c0/node3", true).unwrap();
        engine.remove_subgraph("/c0/node0").unwrap();
        // Those where it has not been come first, the last of them first.
        for next in [3, 1, 2] {
            let grant = engine.match_next(MatchOp::Allocate, spec).unwrap();
            assert!(grant.r.contains(&format!(r#""rank": "{next}""#)), "{}", grant.r);
        }
        assert!(engine.match_next(MatchOp::Allocate, spec).is_err());
    }
}
