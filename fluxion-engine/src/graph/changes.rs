//! Changes of a graph, for indexes that follow from it.

use crate::vertex::VertexId;

/// The number of marks that are remembered one by one.
const MARKED_MAX: usize = 65_536;

/// Changes, for indexes that follow from the graph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    /// Goes up whenever there are other vertices than before.
    revision: u64,
    /// True if properties have changed since the last question.
    properties: bool,
    /// Vertices that were marked up or down since the last question.
    marked: Vec<VertexId>,
}

impl Changes {
    /// Goes up whenever there are other vertices than before.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether vertices were marked since the last call of [`Changes::take`].
    pub(crate) fn is_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// Whether properties have changed since the last call of [`Changes::take`].
    pub(crate) fn has_other_properties(&self) -> bool {
        self.properties
    }

    /// Whether properties have changed since the last call, and which vertices were marked up or
    /// down.
    pub(super) fn take(&mut self) -> (bool, Vec<VertexId>) {
        (std::mem::take(&mut self.properties), std::mem::take(&mut self.marked))
    }

    /// There are other vertices than before.
    pub(super) fn of_vertices(&mut self) {
        self.revision += 1;
    }

    /// The vertices have other numbers.
    pub(super) fn of_numbers(&mut self) {
        self.marked.clear();
        self.revision += 1;
    }

    /// A vertex has other properties.
    pub(super) fn of_properties(&mut self) {
        self.properties = true;
    }

    /// A vertex was marked up or down.
    pub(super) fn of_marks(&mut self, vertex: VertexId) {
        if self.marked.len() == MARKED_MAX {
            // No index asks. Should one later: all may be different.
            self.of_numbers();
        }
        self.marked.push(vertex);
    }
}
