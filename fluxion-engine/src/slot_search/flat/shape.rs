//! A shape of slots: their number, their units, and the nodes on which they fit.

use std::cmp::Reverse;
use std::collections::HashMap;

use smallvec::SmallVec;

use super::order::NodeOrder;
use crate::bits::Bits;
use crate::jobspec::{Count, Hold, SlotExtras};
use crate::pools::Free;

/// Slots of one label.
#[derive(Debug, Clone)]
pub(crate) struct Shape<'a> {
    pub(crate) label: &'a str,
    pub(crate) count: u64,
    /// The range that `count` is the minimum of, where more slots are welcome.
    pub(crate) range: Option<Count>,
    /// Position in `kinds`, and units of one slot.
    pub(crate) needs: SmallVec<[(usize, u64); 4]>,
    /// Positions in the caps of the request.
    pub(super) caps: SmallVec<[usize; 2]>,
    /// How long it is held.
    pub(crate) hold: Hold,
    /// Conditions on its nodes, if there are any.
    pub(crate) extras: Option<&'a SlotExtras>,
}

/// Slots of one shape on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) shape: usize,
    pub(crate) row: usize,
    pub(crate) count: u64,
}

/// The rows of this number of blocks are visited one by one before blocks are tested for being
/// passed over.
const BLOCKS_UNASKED: usize = 2;

impl Shape<'_> {
    /// Visits the rows tier by tier in the order of their ranks until `visit` says that it has
    /// enough. Blocks of 64 rows none of which has room for a slot are passed over.
    pub(super) fn walk(
        &self,
        free: &Free<'_>,
        tiers: &[Bits],
        order: &NodeOrder<'_>,
        mut visit: impl FnMut(usize) -> bool,
    ) {
        let down = matches!(order, NodeOrder::Down);
        for tier in tiers {
            let blocks = tier.blocks();
            for nth in 0..blocks {
                let block = if down { blocks - 1 - nth } else { nth };
                if tier.is_empty_block(block)
                    || nth >= BLOCKS_UNASKED && !free.block_may(block, &self.needs)
                {
                    continue;
                }
                let visit = |row: usize| free.effort().take(1) && visit(row);
                let mut rows = tier.block(block);
                let done = if down { !rows.rev().all(visit) } else { !rows.all(visit) };
                if done {
                    return;
                }
            }
        }
    }

    /// How many slots fit on a node, up to `most`.
    pub(crate) fn room(&self, free: &Free<'_>, row: usize, most: u64) -> u64 {
        let mut room = most;
        for (kind, amount) in &self.needs {
            let units = free.units(*kind, row);
            // Also answers for an amount of 0, which never fits anywhere.
            if units < *amount || *amount == 0 {
                return 0;
            }
            // Where all slots fit there is no need to divide.
            if amount.checked_mul(room).is_none_or(|all| all > units) {
                room = units / amount;
            }
        }
        room
    }

    /// Slots of both take the same of a node, for as long, and count for the same caps.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (&self.needs, &self.caps, self.hold) == (&other.needs, &other.caps, other.hold)
    }
}

/// Orders picks the way they are written: by how many slots, most first, then by row.
pub(crate) fn by_count(picks: &[Pick]) -> Vec<(u64, Vec<usize>)> {
    let mut groups: HashMap<u64, Vec<usize>> = HashMap::new();
    for pick in picks {
        groups.entry(pick.count).or_default().push(pick.row);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(count, _)| Reverse(*count));
    groups
}
