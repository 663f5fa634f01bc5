//! Slots as a job has them: of one shape, on nodes, with times of their own.

use std::sync::Arc;

use smallvec::SmallVec;

use super::claim::{Lot, SlotShape};
use crate::time::End;

/// Slots of one shape on nodes, with times of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slots {
    pub(crate) shape: Arc<SlotShape>,
    /// When they are taken, and given back.
    pub(crate) times: (i64, End),
    /// True if they have not begun.
    pub(crate) planned: bool,
    /// Ranks with how many slots are there, ascending, each once.
    pub(crate) on: SmallVec<[(u32, u64); 2]>,
}

impl Slots {
    /// Slots on these ranks, in any order.
    pub(crate) fn new(
        shape: Arc<SlotShape>,
        times: (i64, End),
        planned: bool,
        on: impl IntoIterator<Item = (u32, u64)>,
    ) -> Self {
        let mut on: SmallVec<[(u32, u64); 2]> = on.into_iter().collect();
        if !on.is_sorted_by_key(|(rank, _)| *rank) {
            on.sort_by_key(|(rank, _)| *rank);
        }
        on.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            if is_same {
                first.1 += next.1;
            }
            is_same
        });
        Slots { shape, times, planned, on }
    }

    /// Ranks with how many slots are there, ascending.
    pub(crate) fn on(&self) -> &[(u32, u64)] {
        &self.on
    }

    /// The same slots as the index over nodes has them.
    pub(crate) fn lot(&self, job: u64) -> Lot<'_> {
        Lot { job, shape: &self.shape, times: self.times, planned: self.planned }
    }

    /// True if some of them are on a rank.
    pub(crate) fn has_rank(&self, rank: u32) -> bool {
        self.on.binary_search_by_key(&rank, |(rank, _)| *rank).is_ok()
    }

    /// The same slots on none of their ranks.
    pub(crate) fn elsewhere(&self) -> Self {
        Slots { on: SmallVec::new(), shape: Arc::clone(&self.shape), ..*self }
    }
}
