//! Marks and properties of vertices.

use super::{Graph, rows, texts};
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
        self.text_bytes = self.text_bytes.saturating_sub(texts::bytes_of(self, vertex));
        let mut all = self.properties(vertex).clone();
        all.push((name.into(), value.into()));
        let set = self.names.properties(all.iter().map(|(name, value)| (&**name, &**value)));
        self.arena.set_properties(vertex, set);
        self.names.drop_unused_sets(&mut self.arena);
        self.text_bytes = self.text_bytes.saturating_add(texts::bytes_of(self, vertex));
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

#[cfg(test)]
mod tests {
    use crate::Engine;
    use crate::graph::Graph;

    const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":
        {"core":"0"}}],"nodelist":["n[0-3]"],"properties":{"arm":"1-2"}}}"#;

    #[test]
    fn properties_that_no_vertex_has_any_more_are_dropped() {
        let mut engine = Engine::new(R, r#"{"load_format":"rv1exec"}"#).unwrap();
        let sets = |engine: &Engine| engine.graph().names.sets();
        let long = "x".repeat(100_000);
        engine.set_property("/cluster0/n3", "kept", "yes").unwrap();
        // 100 MB, were each kept.
        let mut most = 0;
        for at in 0..1_000 {
            engine.set_property("/cluster0/n0", "at", &format!("{at}{long}")).unwrap();
            most = most.max(sets(&engine));
        }
        assert!(most < 200, "{most}");
        let graph: &Graph = engine.graph();
        let of =
            |path: &str, name: &str| graph.property(graph.at_path(path)[0], name).map(str::len);
        assert_eq!(of("/cluster0/n0", "at"), Some(3 + long.len()));
        assert_eq!((of("/cluster0/n3", "kept"), of("/cluster0/n3", "arm")), (Some(3), None));
        assert_eq!((of("/cluster0/n1", "arm"), of("/cluster0/n0", "arm")), (Some(0), None));
    }
}
