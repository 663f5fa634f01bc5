//! Marks and properties of vertices.

use super::{Graph, rows};
use crate::vertex::VertexId;

impl Graph {
    /// Whether properties have changed since the last call, and which vertices were marked up or
    /// down.
    pub(crate) fn take_changes(&mut self) -> (bool, Vec<VertexId>) {
        self.changes.take()
    }

    /// Gives a vertex a property, or the property another value.
    pub fn set_property(&mut self, vertex: VertexId, name: &str, value: &str) {
        self.changes.of_properties();
        self.pools.admitted.forget();
        self.pools.gains.note_all();
        self.text_bytes = self.text_bytes.saturating_sub(self.text_bytes_of(vertex));
        let mut all = self.properties(vertex).clone();
        all.push((name.into(), value.into()));
        let set = self.names.properties(all.iter().map(|(name, value)| (&**name, &**value)));
        self.arena.set_properties(vertex, set);
        self.text_bytes = self.text_bytes.saturating_add(self.text_bytes_of(vertex));
    }

    /// Marks a vertex up or down.
    pub fn set_up(&mut self, vertex: VertexId, up: bool) {
        self.changes.of_marks(vertex);
        let was_up = self.is_marked_up(vertex);
        self.arena.mark(vertex, up);
        if self.is_pool(vertex) {
            if up != was_up {
                rows::mark_pool(self, vertex);
            }
        } else if self.is_node(vertex) {
            rows::refresh_up(self, vertex);
        } else if !self.children(vertex).is_empty() {
            for node in self.subtree(vertex) {
                if self.is_node(node) {
                    rows::refresh_up(self, node);
                }
            }
        }
    }
}
