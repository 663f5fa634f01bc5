//! Where the vertices of a rank are: the topmost of them. All others lie below one of these.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::arena::Arena;
use crate::vertex::VertexId;

/// The topmost vertices, by rank.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranks(HashMap<i32, SmallVec<[VertexId; 1]>>);

impl Ranks {
    /// The ranks of all vertices.
    pub(super) fn of(arena: &Arena) -> Self {
        let mut ranks = Ranks::default();
        for vertex in arena.vertices() {
            ranks.add(arena, vertex);
        }
        ranks
    }

    /// The topmost vertices of a rank.
    pub(super) fn tops(&self, rank: i32) -> &[VertexId] {
        self.0.get(&rank).map_or(&[], |tops| tops)
    }

    /// All ranks, ascending.
    pub(super) fn all(&self) -> Vec<i32> {
        let mut ranks: Vec<i32> = self.0.keys().copied().filter(|rank| *rank >= 0).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Adds a vertex, if it is the topmost of its rank on its way to the root.
    pub(super) fn add(&mut self, arena: &Arena, vertex: VertexId) {
        let rank = arena.rank(vertex);
        let mut above = arena.way_up(vertex).skip(1);
        if rank >= 0 && above.all(|above| arena.rank(above) != rank) {
            self.0.entry(rank).or_default().push(vertex);
        }
    }

    /// Removes a vertex.
    pub(super) fn remove(&mut self, arena: &Arena, vertex: VertexId) {
        let rank = arena.rank(vertex);
        if let Some(tops) = self.0.get_mut(&rank) {
            tops.retain(|top| *top != vertex);
            if tops.is_empty() {
                self.0.remove(&rank);
            }
        }
    }

    /// The vertices have other numbers.
    pub(super) fn renumber(&mut self, to: impl Fn(VertexId) -> VertexId) {
        for tops in self.0.values_mut() {
            tops.iter_mut().for_each(|top| *top = to(*top));
        }
    }
}
