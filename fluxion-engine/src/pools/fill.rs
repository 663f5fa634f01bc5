//! How full nodes are, and nodes in that order: for the policies `binpack` and `spread`.
//!
//! A node's *fill* is the mean, over its pools, of the part that is used: in billionths, rounded
//! down for each pool and once more for the mean. A pool that is used beyond its size counts as
//! full. Pools of size 0 of which nothing is used do not count; a node without pools has 0.
//!
//! For the present the fills are kept from match to match, and so is the order of all rows by them
//! ([`Order`]), once it was needed: a change of a row is noted, and the row moves to its
//! new place when the next match wants the order. Where an eighth of all rows has changed the order
//! is rebuilt. For other moments a fill is worked out when it is needed.

use std::cell::{Ref, RefCell};

use super::order::{Cursor, Key, Order};
use super::{Claim, Pools, Tenancy};
use crate::policy::ByFill;
use crate::time::{End, When};
use crate::vertex::TypeId;

/// The fill of a node of which every pool is full.
pub(crate) const FULL: u32 = 1_000_000_000;
/// Below this many units, a multiplication by [`FULL`] fits 64 bits.
const FEW_UNITS: u128 = 1 << 34;
/// Stands for a row that is in no order.
const ABSENT: u32 = u32::MAX;

/// Units of types.
pub(crate) type Units = smallvec::SmallVec<[(TypeId, u128); 4]>;

/// Fills and orders of the present.
#[derive(Debug, Default)]
struct Kept {
    /// By row; empty where there is no order.
    fills: Vec<u32>,
    /// One for each [`ByFill`], if it was needed.
    orders: [Option<Order>; 2],
    /// Ranks of which something has changed since.
    changed: Vec<u32>,
}

/// [`Kept`], which is brought up to date while a match only reads.
#[derive(Debug, Default)]
pub(super) struct Fills(RefCell<Kept>);

impl Clone for Fills {
    /// A copy begins without: it is made when it is needed.
    fn clone(&self) -> Self {
        Fills::default()
    }
}

/// Rows by their fill at a moment.
pub(crate) struct Ranked<'a> {
    pools: &'a Pools,
    by: ByFill,
    when: When,
    /// For the present.
    kept: Option<Ref<'a, Kept>>,
    /// True if free units have to last.
    lasting: bool,
}

impl ByFill {
    fn key(self, fill: u32, rank: u32) -> Key {
        match self {
            ByFill::Fullest => Key::new(FULL - fill, rank),
            ByFill::Emptiest => Key::new(fill, rank),
        }
    }
}

impl Kept {
    fn is_used(&self) -> bool {
        self.orders.iter().any(Option::is_some)
    }

    /// Applies a change to each order that there is.
    fn each(&mut self, mut change: impl FnMut(ByFill, &mut Order)) {
        for (by, order) in [ByFill::Fullest, ByFill::Emptiest].into_iter().zip(&mut self.orders) {
            if let Some(order) = order {
                change(by, order);
            }
        }
    }
}

impl Fills {
    /// Something has changed on a node.
    pub(super) fn note(&mut self, rank: u32) {
        let kept = self.0.get_mut();
        if !kept.is_used() {
            return;
        }
        kept.changed.push(rank);
        if kept.changed.len() > 4 * kept.fills.len() + 1_024 {
            // Nobody asks any more.
            *kept = Kept::default();
        }
    }

    /// There is a new row.
    pub(super) fn insert_row(&mut self, row: usize, rank: u32) {
        let kept = self.0.get_mut();
        if kept.is_used() {
            kept.fills.insert(row, ABSENT);
            self.note(rank);
        }
    }

    /// A row is going to be removed; `raise` as for [`Order::remove`].
    fn remove_row(&mut self, row: usize, rank: u32, raise: impl Fn(Key, &mut [i64], bool)) {
        let kept = self.0.get_mut();
        if !kept.is_used() {
            return;
        }
        let fill = kept.fills.remove(row);
        if fill != ABSENT {
            kept.each(|by, order| order.remove(by.key(fill, rank), &raise));
        }
    }

    /// Drops all that is kept: it does not hold any more.
    pub(super) fn forget(&mut self) {
        *self.0.get_mut() = Kept::default();
    }
}

impl Pools {
    /// Rows by their fill at a moment, for slots of a tenancy.
    pub(crate) fn ranked(&self, by: ByFill, when: When, tenancy: Tenancy) -> Ranked<'_> {
        // The order that is kept passes over rows that have too little for slots that share.
        let is_now = tenancy == Tenancy::Shared
            && matches!(when, When::Window { from, .. } if from == self.now);
        let lasting = is_now && self.has_to_last(when);
        let kept = is_now.then(|| {
            self.refresh_order(by, lasting);
            self.fills.0.borrow()
        });
        Ranked { pools: self, by, when, kept, lasting }
    }

    /// Takes a row, which is still there, out of the orders.
    pub(super) fn leave_orders(&mut self, row: usize) {
        let mut fills = std::mem::take(&mut self.fills);
        fills.remove_row(row, self.ranks[row], |key, most, lasting| self.raise(key, most, lasting));
        self.fills = fills;
    }

    /// How full a row is at a moment, if more is used than is known; `more` names each type once.
    fn fill(&self, row: usize, when: When, more: &[(TypeId, u128)]) -> u32 {
        let (mut sum, mut pools) = (0_u64, 0_u64);
        for (at, column) in self.columns.iter().enumerate() {
            let Some(column) = column else { continue };
            let kind = TypeId::from_index(at);
            let used = match when {
                When::Window { from, .. } if from == self.now => self.used_now(column, row),
                _ => self.used_at(row, kind, when),
            };
            let more = more.iter().find(|(known, _)| *known == kind).map_or(0, |(_, units)| *units);
            let (size, used) = (column.size[row], used + more);
            if size > 0 || used > 0 {
                pools += 1;
                sum += share(size, used);
            }
        }
        sum.checked_div(pools).and_then(|mean| u32::try_from(mean).ok()).unwrap_or(0)
    }

    /// Units used of a pool at the instant at which a moment begins.
    fn used_at(&self, row: usize, kind: TypeId, when: When) -> u128 {
        match when {
            When::Idle => 0,
            When::Eventually => self.used_by(row, kind, |claim| claim.end == End::Never),
            When::Window { from, .. } => {
                self.used_by(row, kind, |claim| claim.counts_at(from, self.now))
            }
        }
    }

    /// Units of a pool that the counting claims use: all of it, where one of them is the whole
    /// node.
    fn used_by(&self, row: usize, kind: TypeId, counts: impl Fn(&Claim) -> bool) -> u128 {
        let size = u128::from(self.size(row, kind));
        let of = |claim: &Claim| if claim.slot().is_some() { claim.units(kind) } else { size };
        self.claims[row].iter().filter(|claim| counts(claim)).map(of).sum()
    }

    /// Brings an order of the present up to date, or makes it; `lasting`: also in what lasts.
    fn refresh_order(&self, by: ByFill, lasting: bool) {
        let mut kept = self.fills.0.borrow_mut();
        let kept = &mut *kept;
        let is_there = |order: &Option<Order>| {
            order.as_ref().is_some_and(|order| !lasting || order.has_lasting())
        };
        if is_there(&kept.orders[by as usize]) && kept.changed.is_empty() {
            return;
        }
        let now = When::Window { from: self.now, to: self.now };
        let raise = |key: Key, row: &mut [i64], lasting: bool| self.raise(key, row, lasting);
        let mut changed = std::mem::take(&mut kept.changed);
        if !kept.is_used() {
            kept.fills = (0..self.len()).map(|row| self.fill(row, now, &[])).collect();
        }
        changed.sort_unstable();
        changed.dedup();
        let anew = changed.len() > self.len() / 8;
        for rank in changed {
            // A rank that is gone has left already.
            let Some(row) = self.position(rank) else { continue };
            let after = self.fill(row, now, &[]);
            let before = std::mem::replace(&mut kept.fills[row], after);
            if !anew {
                kept.each(|by, order| {
                    if before == after {
                        order.touch(by.key(after, rank), raise);
                        return;
                    }
                    if before != ABSENT {
                        order.remove(by.key(before, rank), raise);
                    }
                    order.insert(by.key(after, rank), raise);
                });
            }
        }
        let all = |by: ByFill| {
            let keys = self
                .ranks
                .iter()
                .zip(&kept.fills)
                .map(|(rank, fill)| by.key(*fill, *rank))
                .collect();
            Order::new(self.width(), keys, raise)
        };
        let mut orders = std::mem::take(&mut kept.orders);
        for (at, order) in [ByFill::Fullest, ByFill::Emptiest].into_iter().zip(&mut orders) {
            if order.is_some() && anew || order.is_none() && at == by {
                *order = Some(all(at));
            }
        }
        for (at, order) in [ByFill::Fullest, ByFill::Emptiest].into_iter().zip(&mut orders) {
            if let Some(order) = order {
                let keep = lasting && at == by || order.has_lasting() && self.has_planned();
                order.keep_lasting(keep, raise);
            }
        }
        kept.orders = orders;
    }

    /// Numbers in a row of an order: one per column, and at least one.
    pub(super) fn width(&self) -> usize {
        self.columns.iter().flatten().count().max(1)
    }

    /// Raises each number to the free units of a node, now or for ever.
    fn raise(&self, key: Key, row: &mut [i64], lasting: bool) {
        let Some(at) = self.position(key.rank()) else { return };
        for (place, (most, column)) in row.iter_mut().zip(self.columns.iter().flatten()).enumerate()
        {
            let free = column.free[at];
            *most = (*most).max(clamp(if lasting { self.lasting(at, free, place) } else { free }));
        }
    }

    /// Which number in a row of an order stands for a type.
    pub(super) fn place_in_order(&self, kind: TypeId) -> usize {
        self.columns[..kind.index().min(self.columns.len())].iter().flatten().count()
    }
}

impl Ranked<'_> {
    /// Which end comes first.
    pub(crate) fn by(&self) -> ByFill {
        self.by
    }

    /// Where a row stands.
    pub(crate) fn key(&self, row: usize) -> Key {
        let fill = self.kept.as_ref().map_or_else(|| self.fill(row, &[]), |kept| kept.fills[row]);
        self.by.key(fill, self.pools.ranks[row])
    }

    /// Where a row stands once more of it is used.
    pub(crate) fn key_with(&self, row: usize, more: &[(TypeId, u128)]) -> Key {
        self.by.key(self.fill(row, more), self.pools.ranks[row])
    }

    /// How full a row is once more of it is used.
    pub(crate) fn fill(&self, row: usize, more: &[(TypeId, u128)]) -> u32 {
        self.pools.fill(row, self.when, more)
    }

    /// The row at a key.
    pub(crate) fn row(&self, key: Key) -> Option<usize> {
        self.pools.position(key.rank())
    }

    /// The beginning of the order, if it is kept for this moment.
    pub(crate) fn start(&self) -> Option<Cursor> {
        self.kept.as_ref().map(|_| Cursor::default())
    }

    /// The next key of the order that is kept, without most of those that have less free than is
    /// needed.
    pub(crate) fn next(&self, cursor: &mut Cursor, needs: &[(usize, i64)]) -> Option<Key> {
        let order = self.kept.as_ref()?.orders[self.by as usize].as_ref()?;
        let may = |row: &[i64]| {
            needs.iter().all(|(at, units)| row.get(*at).is_some_and(|most| most >= units))
        };
        order.next(cursor, self.lasting, &may)
    }

    /// Units of a type in the form that [`Ranked::next`] takes.
    pub(crate) fn need(&self, kind: TypeId, units: u64) -> (usize, i64) {
        (self.pools.place_in_order(kind), clamp(units))
    }
}

/// The used part of a pool, in billionths.
fn share(size: u64, used: u128) -> u64 {
    if used >= u128::from(size) {
        u64::from(FULL)
    } else if used < FEW_UNITS {
        u64::try_from(used).unwrap_or(0) * u64::from(FULL) / size
    } else {
        u64::try_from(used * u128::from(FULL) / u128::from(size)).unwrap_or(u64::from(FULL))
    }
}

fn clamp(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        let full = u64::from(FULL);
        for (size, used, expected) in [
            (0, 1, full),
            (3, 1, 333_333_333),
            (3, 2, 666_666_666),
            (3, 3, full),
            (3, u128::MAX, full),
            (1 << 40, 1 << 39, full / 2),
            (u64::MAX, u128::from(u64::MAX) - 1, full - 1),
            (u64::MAX, u128::from(u64::MAX), full),
            (1 << 34, (1 << 34) - 1, full - 1),
        ] {
            assert_eq!(share(size, used), expected, "{used} of {size}");
        }
    }
}
