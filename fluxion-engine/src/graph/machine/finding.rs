//! Finding vertices: by rank, by path.

use std::collections::BTreeMap;

use super::Graph;
use crate::vertex::VertexId;

impl Graph {
    /// Vertices at a path; more than one if several ranks share it.
    pub fn at_path(&self, path: &str) -> Vec<VertexId> {
        let mut found = Vec::new();
        if self.names.are_enough() {
            if let Some(rest) = path.strip_prefix('/') {
                self.descend(self.root, rest, &mut found);
            }
        } else {
            // Paths of this graph do not follow from its names: each is compared.
            found.extend(
                self.vertices()
                    .filter(|vertex| self.is_linked(*vertex) && *self.path(*vertex) == *path),
            );
        }
        found.sort_unstable();
        found
    }

    /// Vertices at or below `at` with names that are `rest` when joined. Names may hold slashes.
    fn descend(&self, at: VertexId, rest: &str, found: &mut Vec<VertexId>) {
        if let Some(rest) = self.names.strip_name(&self.arena, at, rest) {
            if rest.is_empty() {
                found.push(at);
            } else if let Some(rest) = rest.strip_prefix('/') {
                for child in self.children(at) {
                    self.descend(*child, rest, found);
                }
            }
        }
    }

    /// The vertex of this path and rank.
    pub(crate) fn find(&self, path: &str, rank: i32) -> Option<VertexId> {
        if rank < 0 || !self.names.are_enough() {
            return self.at_path(path).into_iter().find(|id| self.rank(*id) == rank);
        }
        // Only vertices below the tops of the rank are searched: a machine that grows node by node
        // is not searched each time.
        let mut found = Vec::new();
        for top in self.ranks.tops(rank) {
            let above = self.parent(*top).map_or_else(String::new, |above| self.path(above));
            if let Some(rest) = path.strip_prefix(&*above).and_then(|rest| rest.strip_prefix('/')) {
                self.descend(*top, rest, &mut found);
            }
        }
        found.into_iter().filter(|id| self.rank(*id) == rank).min()
    }

    /// All vertices of a rank, in the order in which they were added.
    pub fn of_rank(&self, rank: i32) -> Vec<VertexId> {
        let mut all = Vec::new();
        for top in self.ranks.tops(rank) {
            all.extend(self.subtree(*top).into_iter().filter(|vertex| self.rank(*vertex) == rank));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The vertex that stands for a rank: the one with the shortest path.
    pub fn top_of_rank(&self, rank: i32) -> Option<VertexId> {
        let tops = self.ranks.tops(rank);
        if let [top] = tops {
            Some(*top)
        } else {
            tops.iter().copied().min_by_key(|top| self.path(*top).len())
        }
    }

    /// All ranks, ascending.
    pub fn ranks(&self) -> Vec<i32> {
        self.ranks.all()
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
