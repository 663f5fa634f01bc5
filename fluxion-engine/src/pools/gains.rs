//! On which nodes there is more room than before: the nodes to search for a reservation that wants
//! to start earlier.

use std::collections::VecDeque;

/// The number of gains that are remembered.
const GAINS_MAX: usize = 1 << 16;

/// Nodes on which something was given back, or came to be, in the order in which it happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gains {
    ranks: VecDeque<u32>,
    /// How many are forgotten.
    forgotten: u64,
}

impl Gains {
    /// How many there were so far: a reader of all of them remembers this.
    pub(crate) fn count(&self) -> u64 {
        self.forgotten + self.ranks.len() as u64
    }

    /// There is more room on a node.
    pub(super) fn note(&mut self, rank: u32) {
        self.ranks.push_back(rank);
        if self.ranks.len() > GAINS_MAX {
            self.ranks.pop_front();
            self.forgotten += 1;
        }
    }

    /// There may be more room anywhere.
    pub(crate) fn note_all(&mut self) {
        self.forgotten += self.ranks.len() as u64 + 1;
        self.ranks.clear();
    }

    /// The nodes since there were `count`; `None`: any.
    pub(crate) fn since(&self, count: u64) -> Option<impl Iterator<Item = u32> + '_> {
        let skip = usize::try_from(count.checked_sub(self.forgotten)?).ok()?;
        Some(self.ranks.iter().skip(skip).copied())
    }

    /// Takes back the notes since there were `count`: all is as it was before.
    pub(crate) fn take_back(&mut self, count: u64) {
        if let Some(keep) =
            count.checked_sub(self.forgotten).and_then(|keep| usize::try_from(keep).ok())
        {
            self.ranks.truncate(keep);
        }
    }
}
