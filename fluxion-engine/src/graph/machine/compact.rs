//! Forgetting vertices that were removed.
//!
//! Where nodes come and go, vertices that are gone would fill the arena, and their names the table
//! of strings. Once more of them are gone than there are left, all others move together. Their
//! order stays, and with it every answer that follows from it: only numbers change, so none may
//! have been kept.

use super::{Graph, texts};
use crate::vertex::VertexId;

/// Fewer vertices that are gone are not worth it.
const GONE_MIN: usize = 1_024;

impl Graph {
    /// Whether more vertices are gone than are left. Not where upstream's count of vertices, with
    /// those that are gone, can be asked for: in graphs without pools.
    pub(crate) fn is_sparse(&self) -> bool {
        let gone = self.arena.gone();
        self.has_pool_types()
            && !self.has_associations()
            && gone >= GONE_MIN
            && gone > self.len() - gone
    }

    /// Drops vertices that are gone. All numbers of vertices become others.
    pub(crate) fn compact(&mut self) {
        let (arena, moved) = self.names.compact(&self.arena);
        self.arena = arena;
        let to = |vertex: VertexId| moved[vertex.index()];
        self.ranks.renumber(to);
        self.pools.renumber(to);
        self.root = to(self.root);
        self.text_bytes = self.vertices().map(|vertex| texts::bytes_of(self, vertex)).sum();
        self.changes.of_numbers();
    }
}
