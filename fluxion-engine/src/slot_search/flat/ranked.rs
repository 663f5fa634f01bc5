//! Slots by how full nodes are: `binpack` and `spread`.
//!
//! Slot after slot goes to the node that then stands first: the fullest, or the emptiest, with the
//! lowest rank among equals, of those in the best tier that have room. The slots before it count.
//!
//! A node that is filled only becomes fuller. So with `binpack` the node that stands first stays
//! there until it has no room left. With `spread` it steps back behind others; nodes that have got
//! something stand in a heap beside the order of those that have not. Where there are far more
//! slots than nodes, it is cheaper to ask up to which level all nodes are filled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::request::SlotRequest;
use super::shape::Pick;
use super::taken::{Taken, room_beside};
use crate::amounts::amount_of;
use crate::bits::Bits;
use crate::graph::TypeId;
use crate::policy::ByFill;
use crate::pools::{Cursor, FULL, Free, Key, Ranked, Units};

/// The number of slots per node from which on they are not dealt out one by one.
const SLOTS_PER_NODE_MAX: u64 = 16;

/// One shape, tier by tier.
struct Filling<'a> {
    request: &'a SlotRequest<'a>,
    /// Position of the shape in its request.
    at: usize,
    free: &'a Free<'a>,
    ranked: &'a Ranked<'a>,
    taken: &'a Taken<'a>,
    /// Units of a slot.
    needs: SmallVec<[(TypeId, u64); 4]>,
    missing: u64,
    picks: Vec<Pick>,
}

/// A node as a bin that is packed: its room, and how many slots it has got.
#[derive(Clone, Copy)]
struct Bin {
    row: usize,
    room: u64,
    count: u64,
}

/// Rows of a tier with room that have got nothing yet, best first.
struct Untouched {
    /// In the order that is kept, with how many more keys may be looked at there.
    kept: Option<(Cursor, usize)>,
    last: Option<Key>,
    /// The rest, where the order is not kept, or mostly holds rows of other tiers.
    rest: Option<BinaryHeap<Reverse<(Key, usize)>>>,
    needs: SmallVec<[(usize, i64); 4]>,
}

/// Slots of a shape, node by node in the order of `ranked`; `None`: there is not room for all
/// of them.
pub(super) fn place_ranked(
    request: &SlotRequest<'_>,
    at: usize,
    free: &Free<'_>,
    tiers: &[Bits],
    ranked: &Ranked<'_>,
    taken: &Taken<'_>,
) -> Option<Vec<Pick>> {
    let shape = &request.shapes[at];
    let mut filling = Filling {
        request,
        at,
        free,
        ranked,
        taken,
        needs: request.units_of(shape)?,
        missing: shape.count,
        picks: Vec::new(),
    };
    for tier in tiers {
        let many = (tier.count() as u64).saturating_mul(SLOTS_PER_NODE_MAX);
        if ranked.by() == ByFill::Emptiest && filling.missing > many && taken.quotas.is_empty() {
            filling.by_level(tier);
        } else {
            filling.by_slot(tier);
        }
        if filling.missing == 0 {
            return Some(filling.picks);
        }
    }
    None
}

impl Filling<'_> {
    /// Slot after slot.
    fn by_slot(&mut self, tier: &Bits) {
        let mut untouched = Untouched::new(self, tier);
        let mut bins: Vec<Bin> = Vec::new();
        let mut touched: BinaryHeap<Reverse<(Key, usize)>> = BinaryHeap::new();
        for row in self.taken.rows().filter(|row| tier.contains(*row)) {
            let room = self.room(row);
            if room > 0 {
                touched.push(Reverse((self.key(row, 0), bins.len())));
                bins.push(Bin { row, room, count: 0 });
            }
        }
        let mut next = untouched.next(self, tier);
        while self.missing > 0 && self.free.effort().take(1) {
            let again = match (next, touched.peek()) {
                (Some((fresh, _)), Some(Reverse((known, _)))) => *known < fresh,
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (None, None) => break,
            };
            let known = if again { touched.pop() } else { None };
            let at = match known {
                Some(Reverse((_, at))) => at,
                None => {
                    let Some((_, row)) = next else { break };
                    bins.push(Bin { row, room: self.room(row), count: 0 });
                    bins.len() - 1
                }
            };
            let bin = &mut bins[at];
            // A node that stands first because it is the fullest stays first.
            let slots =
                if self.ranked.by() == ByFill::Fullest { bin.room.min(self.missing) } else { 1 };
            // Others may have got the slots that were left for its part.
            let slots = slots.min(self.taken.quotas.left(self.at, bin.row));
            self.taken.quotas.take(self.at, bin.row, slots);
            bin.count += slots;
            self.missing -= slots;
            if self.missing > 0 {
                let bin = *bin;
                if slots > 0 && bin.count < bin.room {
                    touched.push(Reverse((self.key(bin.row, bin.count), at)));
                }
                if !again {
                    next = untouched.next(self, tier);
                }
            }
        }
        let full = bins.iter().filter(|bin| bin.count > 0);
        self.picks.extend(full.map(|bin| Pick { shape: self.at, row: bin.row, count: bin.count }));
    }

    /// The same for `spread`, at once: every node is filled up to the same level, and the slots
    /// left over go to those that stand exactly there, the lowest ranks first.
    fn by_level(&mut self, tier: &Bits) {
        let rows = tier.iter().take_while(|_| self.free.effort().take(1));
        let rooms = rows.map(|row| Bin { row, room: self.room(row), count: 0 });
        let mut bins: Vec<Bin> = rooms.filter(|bin| bin.room > 0).collect();
        let all: u64 = bins.iter().fold(0, |sum, bin| sum.saturating_add(bin.room));
        if all <= self.missing {
            self.missing -= all;
            self.picks.extend(bins.iter().map(|bin| Pick {
                shape: self.at,
                row: bin.row,
                count: bin.room,
            }));
            return;
        }
        let sum = |level: u32| {
            bins.iter().fold(0_u64, |sum, bin| sum.saturating_add(self.below(*bin, level)))
        };
        let (mut level, mut above) = (0, FULL + 1);
        while above - level > 1 {
            let middle = level + (above - level) / 2;
            if sum(middle) <= self.missing {
                level = middle;
            } else {
                above = middle;
            }
        }
        for bin in &mut bins {
            bin.count = self.below(*bin, level);
            self.missing -= bin.count;
        }
        for bin in &mut bins {
            let more = (self.below(*bin, level + 1) - bin.count).min(self.missing);
            bin.count += more;
            self.missing -= more;
        }
        let full = bins.iter().filter(|bin| bin.count > 0);
        self.picks.extend(full.map(|bin| Pick { shape: self.at, row: bin.row, count: bin.count }));
    }

    /// How many slots a node gets before it is as full as that.
    fn below(&self, bin: Bin, level: u32) -> u64 {
        let (mut few, mut many) = (0, bin.room);
        while few < many {
            let middle = few + (many - few) / 2;
            if self.ranked.fill(bin.row, &self.units(bin.row, middle)) < level {
                few = middle + 1;
            } else {
                many = middle;
            }
        }
        few
    }

    /// How many slots there is room for on a node.
    fn room(&self, row: usize) -> u64 {
        room_beside(self.request, self.at, self.free, row, self.taken, self.missing)
    }

    /// Where a node stands with `count` slots.
    fn key(&self, row: usize, count: u64) -> Key {
        self.ranked.key_with(row, &self.units(row, count))
    }

    /// Units used of a node, beside the known ones, with `count` slots.
    fn units(&self, row: usize, count: u64) -> Units {
        let mut units = Units::new();
        for (other, slots) in
            self.request.shapes.iter().zip(self.taken.on(row).into_iter().flatten())
        {
            for (kind, amount) in
                self.request.units_of(other).into_iter().flatten().filter(|_| *slots > 0)
            {
                *amount_of(&mut units, kind) += u128::from(amount) * u128::from(*slots);
            }
        }
        for (kind, amount) in &self.needs {
            *amount_of(&mut units, *kind) += u128::from(*amount) * u128::from(count);
        }
        units
    }
}

impl Untouched {
    fn new(filling: &Filling<'_>, tier: &Bits) -> Self {
        let needs = filling
            .needs
            .iter()
            .map(|(kind, amount)| filling.ranked.need(*kind, *amount))
            .collect();
        // Were the rows of the tier spread evenly over the order, that would be enough to come to
        // the first of them.
        let kept = filling.ranked.start().map(|cursor| (cursor, tier.count()));
        Untouched { kept, last: None, rest: None, needs }
    }

    /// The best row that is left, with its key.
    fn next(&mut self, filling: &Filling<'_>, tier: &Bits) -> Option<(Key, usize)> {
        let has_room = |row: usize| filling.room(row) > 0 && filling.taken.on(row).is_none();
        while let Some((cursor, looks)) = self.kept.as_mut().filter(|(_, looks)| *looks > 0) {
            if !filling.free.effort().take(1) {
                return None;
            }
            *looks -= 1;
            let key = filling.ranked.next(cursor, &self.needs)?;
            self.last = Some(key);
            // The sequence has the rows of all tiers.
            let Some(row) = filling.ranked.row(key).filter(|row| tier.contains(*row)) else {
                continue;
            };
            if has_room(row) {
                return Some((key, row));
            }
        }
        let last = self.last;
        let rest = self.rest.get_or_insert_with(|| {
            let rows = tier
                .iter()
                .take_while(|_| filling.free.effort().take(1))
                .filter(|row| has_room(*row))
                .map(|row| Reverse((filling.ranked.key(row), row)));
            rows.filter(|Reverse((key, _))| last.is_none_or(|last| *key > last)).collect()
        });
        rest.pop().map(|Reverse(best)| best)
    }
}
