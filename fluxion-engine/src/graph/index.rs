//! Finding vertices: by rank, by path.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

use super::{Graph, VertexId};

/// Where the vertices of a rank are: the topmost of them. All others lie below one of these.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    pub(super) rank_tops: HashMap<i32, SmallVec<[VertexId; 1]>>,
}

impl Graph {
    /// Vertices at a path; more than one if several ranks share it.
    pub fn at_path(&self, path: &str) -> Vec<VertexId> {
        let mut found = Vec::new();
        if self.odd_paths.is_empty() {
            if let Some(rest) = path.strip_prefix('/') {
                self.descend(self.root, rest, &mut found);
            }
        } else {
            // Paths of this graph do not follow from its names: each is looked at.
            found.extend(self.vertices().filter(|vertex| self.is_linked(*vertex) && *self.path(*vertex) == *path));
        }
        found.sort_unstable();
        found
    }

    /// Vertices at or below `at` whose names, joined, are `rest`. Names may hold slashes.
    fn descend(&self, at: VertexId, rest: &str, found: &mut Vec<VertexId>) {
        let name = self.name(at);
        let Some(rest) = rest.strip_prefix(&*name) else { return };
        if rest.is_empty() {
            found.push(at);
        } else if let Some(rest) = rest.strip_prefix('/') {
            for child in self.children(at) {
                self.descend(*child, rest, found);
            }
        }
    }

    /// All vertices of a rank, in the order in which they were added.
    pub fn of_rank(&self, rank: i32) -> Vec<VertexId> {
        let mut all = Vec::new();
        for top in self.rank_tops(rank) {
            all.extend(self.subtree(*top).into_iter().filter(|vertex| self.rank(*vertex) == rank));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The vertex that stands for a rank: the one with the shortest path.
    pub fn top_of_rank(&self, rank: i32) -> Option<VertexId> {
        let tops = self.rank_tops(rank);
        if let [top] = tops { Some(*top) } else { tops.iter().copied().min_by_key(|top| self.path(*top).len()) }
    }

    /// All ranks, ascending.
    pub fn ranks(&self) -> Vec<i32> {
        let mut ranks: Vec<i32> = self.index.rank_tops.keys().copied().filter(|rank| *rank >= 0).collect();
        ranks.sort_unstable();
        ranks
    }

    fn rank_tops(&self, rank: i32) -> &[VertexId] {
        self.index.rank_tops.get(&rank).map_or(&[], |tops| tops)
    }

    /// Whether the vertex is the topmost of its rank on its way to the root.
    fn is_rank_top(&self, vertex: VertexId) -> bool {
        let rank = self.rank(vertex);
        let mut at = self.parent(vertex);
        while let Some(above) = at {
            if self.rank(above) == rank {
                return false;
            }
            at = self.parent(above);
        }
        true
    }

    pub(super) fn index_ranks(&mut self) {
        for at in 0..self.hot.len() {
            self.index_rank(VertexId::at(at));
        }
    }

    pub(super) fn index_rank(&mut self, vertex: VertexId) {
        let rank = self.rank(vertex);
        if rank >= 0 && self.is_rank_top(vertex) {
            self.index.rank_tops.entry(rank).or_default().push(vertex);
        }
    }

    pub(super) fn unindex_rank(&mut self, vertex: VertexId) {
        let rank = self.rank(vertex);
        if let Some(tops) = self.index.rank_tops.get_mut(&rank) {
            tops.retain(|top| *top != vertex);
            if tops.is_empty() {
                self.index.rank_tops.remove(&rank);
            }
        }
    }

    /// How many vertices there are of each type that can be reached from the root, by name.
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for vertex in self.vertices().filter(|vertex| self.is_linked(*vertex)) {
            *counts.entry(self.types.name(self.kind(vertex))).or_default() += 1;
        }
        counts
    }
}
