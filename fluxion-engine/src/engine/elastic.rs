//! Graphs that grow and shrink.

use std::collections::BTreeMap;

use super::Engine;
use crate::graph::{TypeId, VertexId, check_edges, check_uniq_ids, plan_growth};
use crate::readers::jgf;
use crate::schedule::Touch;
use crate::{Error, lists};

impl Engine {
    /// Adds the vertices of a JGF document that are not there yet.
    pub fn add_subgraph(&mut self, text: &str) -> Result<(), Error> {
        self.book.not_in_a_trial("add_subgraph")?;
        let document = jgf::parse(text)?;
        check_edges(&document.nodes, &document.edges)?;
        let (graph, weights) = (self.graph(), self.book.weights());
        if !graph.has_pool_types() {
            let weighs = |vertex| weights.weight(graph, vertex) != 0;
            check_uniq_ids(graph, &document.nodes, &document.edges, weighs)?;
        }
        let growth = plan_growth(graph, &document.nodes, &document.edges)?;
        let kinds = graph.types().len() + growth.new_kinds(graph);
        let filters = &self.book.schedule().filters;
        filters.check_room(kinds, growth.new_inner(graph), "graph")?;
        self.book.grow(growth)
    }

    /// Removes what lies at a path, and everything below. What jobs hold of it they keep until they
    /// end; on a graph with pools they lose it, and units of pools.
    pub fn remove_subgraph(&mut self, path: &str) -> Result<(), Error> {
        self.book.not_in_a_trial("remove_subgraph")?;
        let found = self.graph().at_path(path);
        if found.is_empty() {
            return Err(Error::not_found(format!("path {path:?}: there is no such vertex")));
        }
        if found.contains(&self.graph().root()) {
            return Err(Error::invalid(format!("vertex {path}: the root cannot be removed")));
        }
        for vertex in found {
            // One may lie below another that has the same path.
            if self.graph().is_linked(vertex) {
                self.book.cut(vertex)?;
            }
        }
        compact(self);
        Ok(())
    }

    /// Removes the vertices of ranks, and takes from jobs what they hold of them. As upstream
    /// (Q25), that fails where several jobs are on a rank and one of them has less than they have
    /// there together: each is to give back all of it.
    pub fn remove_ranks(&mut self, ranks: &str) -> Result<(), Error> {
        self.book.not_in_a_trial("remove_ranks")?;
        let ranges = lists::read_idset(ranks)?;
        let within = |rank: i32| lists::hold_rank(&ranges, rank);
        let root = self.graph().root();
        if within(self.graph().rank(root)) {
            // Before anything is changed.
            return Err(Error::invalid(format!(
                "vertex {}: the root cannot be removed",
                self.graph().path(root)
            )));
        }
        // The set may name billions of ranks that are not there.
        let ranks: Vec<i32> =
            self.graph().ranks().into_iter().filter(|rank| within(*rank)).collect();
        for rank in &ranks {
            if let Some(id) = short_of(self, *rank) {
                return Err(Error::invalid(format!(
                    "job {id}: has less than jobs have on rank {rank} together"
                )));
            }
        }
        let ids: Vec<u64> = self.book.jobs().iter().map(|(id, _)| id).collect();
        for id in ids {
            self.book.release_ranks(id, &within);
            self.book.drop_if_empty(id);
        }
        for rank in ranks {
            while let Some(top) = self.graph().top_of_rank(rank) {
                self.book.cut(top)?;
            }
        }
        compact(self);
        Ok(())
    }
}

/// Drops vertices that were removed, if they are the most, and nothing refers to a vertex by its
/// number.
pub(super) fn compact(engine: &mut Engine) {
    if engine.book.compact(engine.writer.has_vertices()) {
        engine.searches.forget();
    }
}

/// Of several jobs on a rank, one that has less, as vertices above the rank count it, than all
/// of them have there.
fn short_of(engine: &Engine, rank: i32) -> Option<u64> {
    let graph = engine.graph();
    let (mut ids, mut counts) = (Vec::new(), BTreeMap::<TypeId, i64>::new());
    for (id, job) in engine.book.jobs().iter() {
        let here = job.claims.vertices().iter().filter(|touch| graph.rank(touch.vertex) == rank);
        for touch in here {
            ids.push(id);
            if touch.exclusive {
                let size = i64::try_from(graph.size(touch.vertex)).unwrap_or(i64::MAX);
                let sum = counts.entry(graph.kind(touch.vertex)).or_default();
                *sum = sum.saturating_add(size);
            }
        }
    }
    ids.dedup();
    if ids.len() < 2 {
        return None;
    }
    let top = graph.top_of_rank(rank)?;
    let above: Vec<VertexId> = graph.way_up(top).skip(1).collect();
    let is_short = |touch: &Touch| {
        let tracked = engine.book.schedule().filters.tracked(graph, touch.vertex);
        tracked
            .iter()
            .zip(&touch.below)
            .any(|(kind, has)| counts.get(kind).is_some_and(|all| all > has))
    };
    let jobs = engine.book.jobs();
    let touches = |id: &u64| jobs.get(*id).into_iter().flat_map(|job| job.claims.vertices());
    ids.into_iter()
        .find(|id| touches(id).any(|touch| above.contains(&touch.vertex) && is_short(touch)))
}

#[cfg(test)]
mod tests {
    use crate::{Engine, MatchOp};

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
