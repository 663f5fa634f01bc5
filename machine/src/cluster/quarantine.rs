//! Nodes that get no pods for a moment: something has just gone wrong there.

use crate::fluxion::{Rank, RankSet};

/// The nodes in quarantine. Their owner says when they are trusted again.
#[derive(Debug, Clone, Default)]
pub struct Quarantine {
    nodes: RankSet,
    version: u64,
}

impl Quarantine {
    /// Keeps further pods off a node from now on.
    pub fn add(&mut self, rank: Rank) {
        self.nodes.insert(rank);
        self.version += 1;
    }

    /// Lets pods come to a node again.
    pub fn remove(&mut self, rank: Rank) {
        self.nodes.remove(rank);
        self.version += 1;
    }

    /// In a copy that looks ahead: no node stays in quarantine for long.
    pub fn clear(&mut self) {
        self.nodes = RankSet::new();
        self.version += 1;
    }

    /// Returns the nodes in quarantine.
    pub(crate) fn nodes(&self) -> &RankSet {
        &self.nodes
    }

    /// Grows with each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}
