//! The nodes of which something was taken or given back, for an index that is kept elsewhere.

/// Ranks of nodes with other claims, or another size, than before; in order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct TouchedRanks {
    /// `None`: it may be any. So it is until the index asks first, and where it has not asked for
    /// long.
    ranks: Option<Vec<u32>>,
}

impl TouchedRanks {
    /// Something has changed on a node, of which there are `nodes`.
    pub(super) fn note(&mut self, rank: u32, nodes: usize) {
        if let Some(ranks) = &mut self.ranks {
            ranks.push(rank);
            if ranks.len() > 4 * nodes + 1_024 {
                self.ranks = None;
            }
        }
    }

    /// Something may have changed on any node.
    pub(super) fn forget(&mut self) {
        self.ranks = None;
    }

    /// The nodes since the last call; `None`: it may be any.
    pub(crate) fn take(&mut self) -> Option<Vec<u32>> {
        self.ranks.replace(Vec::new())
    }

    /// True if there may be something to be taken by [`TouchedRanks::take`].
    pub(crate) fn are_any(&self) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| !ranks.is_empty())
    }
}
