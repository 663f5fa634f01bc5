//! The changes on nodes, for requests that wait for them.

use std::collections::VecDeque;

use crate::fluxion::Rank;

/// Something changed on a node that may let wait, or start, what could not before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Room that would have become free some day is free.
    Freed(Rank),
    /// Room that would have become free at an unknown second is free: a request that waits for
    /// others there may have a date now.
    FreedUnknown(Rank),
    /// Room that was taken without an end is free.
    FreedForGood(Rank),
    /// Room was taken without an end.
    TakenForGood(Rank),
    /// The node came or went, has more or less than before, or other labels or taints.
    Node(Rank),
}

/// The latest changes, numbered.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    count: u64,
    latest: VecDeque<Change>,
}

/// Changes remembered at most. A reader that last read before the first of them has to act as if
/// everything had changed.
const CHANGES_MAX: usize = 4_096;

impl Changes {
    /// Returns the number of changes so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn push(&mut self, change: Change) {
        self.count += 1;
        if self.latest.len() == CHANGES_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(change);
    }

    /// Everything may have changed.
    pub(crate) fn forget(&mut self) {
        self.count += CHANGES_MAX as u64;
        self.latest.clear();
    }

    /// True if one of the changes since then matters, or there were too many to know.
    pub fn any_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool {
        let since = usize::try_from(self.count.saturating_sub(then)).unwrap_or(usize::MAX);
        since > self.latest.len()
            || self.latest.iter().rev().take(since).any(|change| matters(*change))
    }
}
