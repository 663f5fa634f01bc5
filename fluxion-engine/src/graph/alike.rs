//! Nodes that hold the same: most machines have a thousand of one kind.

use super::{Graph, VertexId};

impl Graph {
    /// Whether the same lies below two vertices: as many vertices in the same order, of the same
    /// types, ids, sizes, marks and properties.
    pub(crate) fn are_alike_below(&self, one: VertexId, other: VertexId) -> bool {
        let (mine, theirs) = (self.children(one), self.children(other));
        mine.len() == theirs.len()
            && mine.iter().zip(theirs).all(|(mine, theirs)| {
                let (hot, other) = (&self.hot[mine.index()], &self.hot[theirs.index()]);
                (hot.kind, hot.id, hot.size, hot.flags)
                    == (other.kind, other.id, other.size, other.flags)
                    && self.cold[mine.index()].properties == self.cold[theirs.index()].properties
                    && self.are_alike_below(*mine, *theirs)
            })
    }
}
