//! The ranked nodes: a row for each, in the order of ranks.

use crate::bits::Bits;
use crate::vertex::VertexId;

/// Ranks, vertices and marks of nodes, by row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nodes {
    ranks: Vec<u32>,
    vertices: Vec<VertexId>,
    up: Bits,
}

impl Nodes {
    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// The ranks of all nodes, ascending.
    pub(crate) fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The node vertices, row by row.
    pub(crate) fn vertices(&self) -> &[VertexId] {
        &self.vertices
    }

    /// Nodes that are up.
    pub(crate) fn up(&self) -> &Bits {
        &self.up
    }

    /// The row of a rank.
    pub(crate) fn position(&self, rank: u32) -> Option<usize> {
        // Ranks mostly are 0, 1, 2, ...: then the row is the rank.
        let guess = rank as usize;
        if self.ranks.get(guess) == Some(&rank) {
            Some(guess)
        } else {
            self.ranks.binary_search(&rank).ok()
        }
    }

    /// Rows from the first rank of at least `first` to the last of at most `last`.
    pub(crate) fn rows(&self, first: u32, last: u32) -> std::ops::Range<usize> {
        let from = self.rows_below(first);
        let to = last.checked_add(1).map_or(self.len(), |behind| self.rows_below(behind));
        from..to.max(from)
    }

    /// How many ranks are less than this one.
    fn rows_below(&self, rank: u32) -> usize {
        // No two are the same, so there cannot be more; where none is missing, there are as many.
        let least = self.ranks.first().copied().unwrap_or(rank);
        let most = self.len().min(rank.saturating_sub(least) as usize);
        if most == 0 || self.ranks[most - 1] < rank {
            return most;
        }
        self.ranks[..most].partition_point(|other| *other < rank)
    }

    /// The rows with ranks in one of these ranges.
    pub(crate) fn rows_of(&self, ranges: &[(u32, u32)]) -> Bits {
        let mut rows = Bits::empty(self.len());
        for (first, last) in ranges {
            rows.insert_range(self.rows(*first, *last));
        }
        rows
    }

    /// Adds a node. Returns its row.
    pub(super) fn insert(&mut self, rank: u32, vertex: VertexId, up: bool) -> usize {
        let row = self.ranks.partition_point(|other| *other < rank);
        self.ranks.insert(row, rank);
        self.vertices.insert(row, vertex);
        self.up.open(row, up);
        row
    }

    /// Removes a node.
    pub(super) fn remove(&mut self, row: usize) {
        self.ranks.remove(row);
        self.vertices.remove(row);
        self.up.close(row);
    }

    /// The vertices of nodes have other numbers.
    pub(super) fn renumber(&mut self, to: impl Fn(VertexId) -> VertexId) {
        self.vertices.iter_mut().for_each(|vertex| *vertex = to(*vertex));
    }

    /// Marks a node up or down.
    pub(super) fn set_up(&mut self, row: usize, up: bool) {
        if up {
            self.up.insert(row);
        } else {
            self.up.remove(row);
        }
    }
}
