//! How full nodes are, and nodes in that order: for the policies `binpack` and `spread`.
//!
//! A node's *fill* is the mean, over its pools, of the part that is used: in billionths, rounded
//! down for each pool and once more for the mean. A pool that is used beyond its size counts as
//! full. Pools of size 0 of which nothing is used do not count; a node without pools has 0.
//!
//! For the present the fills are kept from match to match, and so is the sequence of all rows by
//! them ([`Sequence`]), once it was needed: a change of a row is noted, and the row moves to its
//! new place when the next match wants the sequence. Where an eighth of all rows has changed, the
//! sequence is rebuilt. For other moments a fill is worked out when it is needed.

use std::cell::{Ref, RefCell};

use super::by_node::ByNode;
use super::sequence::{Cursor, Key, Sequence};
use super::tenancy::Tenancy;
use super::timeline::Timelines;
use crate::policy::ByFill;
use crate::sound::contradiction;
use crate::time::When;
use crate::vertex::TypeId;

/// The fill of a node of which every pool is full.
pub(crate) const FULL: u32 = 1_000_000_000;
/// Below this many units, a multiplication by [`FULL`] fits 64 bits.
const FEW_UNITS: u128 = 1 << 34;
/// Stands for a row that is in no sequence.
const ABSENT: u32 = u32::MAX;

/// Units of types.
pub(crate) type Units = smallvec::SmallVec<[(TypeId, u128); 4]>;

/// Fills and sequences of the present.
#[derive(Debug, Default)]
struct Kept {
    /// By row; empty where there is no sequence.
    fills: Vec<u32>,
    /// One for each [`ByFill`], if it was needed.
    sequences: [Option<Sequence>; 2],
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
    by_node: &'a ByNode,
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
        self.sequences.iter().any(Option::is_some)
    }

    /// Applies a change to each sequence that there is.
    fn each(&mut self, mut change: impl FnMut(ByFill, &mut Sequence)) {
        for (by, sequence) in
            [ByFill::Fullest, ByFill::Emptiest].into_iter().zip(&mut self.sequences)
        {
            if let Some(sequence) = sequence {
                change(by, sequence);
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
            // No match has asked for long.
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

    /// Takes a row, which is still there, out of the sequences.
    pub(super) fn remove_row(&mut self, by_node: &ByNode, timelines: &Timelines, row: usize) {
        let kept = self.0.get_mut();
        if !kept.is_used() {
            return;
        }
        let (fill, rank) = (kept.fills.remove(row), by_node.nodes().ranks()[row]);
        if fill != ABSENT {
            let raise = |key: Key, row: &mut [i64], lasting: bool| {
                raise((by_node, timelines), key, row, lasting);
            };
            kept.each(|by, sequence| sequence.remove(by.key(fill, rank), raise));
        }
    }

    /// Drops all that is kept: it does not hold any more.
    pub(super) fn forget(&mut self) {
        *self.0.get_mut() = Kept::default();
    }

    /// Rows by their fill at a moment, for slots of a tenancy.
    pub(super) fn ranked<'a>(
        &'a self,
        (by_node, timelines): (&'a ByNode, &Timelines),
        by: ByFill,
        when: When,
        tenancy: Tenancy,
    ) -> Ranked<'a> {
        // The sequence that is kept passes over rows that have too little for slots that share.
        let is_now = tenancy == Tenancy::Shared
            && matches!(when, When::Window { from, .. } if from == by_node.now());
        let lasting = is_now && by_node.has_to_last(when);
        let kept = is_now.then(|| {
            self.refresh_sequence((by_node, timelines), by, lasting);
            self.0.borrow()
        });
        Ranked { by_node, by, when, kept, lasting }
    }

    /// Brings a sequence of the present up to date, or makes it; `lasting`: also in what lasts.
    fn refresh_sequence(
        &self,
        (by_node, timelines): (&ByNode, &Timelines),
        by: ByFill,
        lasting: bool,
    ) {
        let mut kept = self.0.borrow_mut();
        let (kept, nodes) = (&mut *kept, by_node.nodes());
        let is_there = |sequence: &Option<Sequence>| {
            sequence.as_ref().is_some_and(|sequence| !lasting || sequence.has_lasting())
        };
        if is_there(&kept.sequences[by as usize]) && kept.changed.is_empty() {
            return;
        }
        let now = When::Window { from: by_node.now(), to: by_node.now() };
        let raise = |key: Key, row: &mut [i64], lasting: bool| {
            raise((by_node, timelines), key, row, lasting);
        };
        let mut changed = std::mem::take(&mut kept.changed);
        if !kept.is_used() {
            kept.fills = (0..nodes.len()).map(|row| fill(by_node, row, now, &[])).collect();
        }
        changed.sort_unstable();
        changed.dedup();
        let anew = changed.len() > nodes.len() / 8;
        // A rank that is gone has left already.
        let there = changed.into_iter().filter_map(|rank| Some((rank, nodes.position(rank)?)));
        for (rank, row) in there {
            let after = fill(by_node, row, now, &[]);
            let before = std::mem::replace(&mut kept.fills[row], after);
            if !anew {
                kept.each(|by, sequence| {
                    if before == after {
                        sequence.touch(by.key(after, rank), raise);
                        return;
                    }
                    if before != ABSENT {
                        sequence.remove(by.key(before, rank), raise);
                    }
                    sequence.insert(by.key(after, rank), raise);
                });
            }
        }
        let all = |by: ByFill| {
            let keys = nodes
                .ranks()
                .iter()
                .zip(&kept.fills)
                .map(|(rank, fill)| by.key(*fill, *rank))
                .collect();
            Sequence::new(by_node.columns().len().max(1), keys, raise)
        };
        let mut sequences = std::mem::take(&mut kept.sequences);
        for (at, sequence) in [ByFill::Fullest, ByFill::Emptiest].into_iter().zip(&mut sequences) {
            if sequence.is_some() && anew || sequence.is_none() && at == by {
                *sequence = Some(all(at));
            }
        }
        for (at, sequence) in [ByFill::Fullest, ByFill::Emptiest].into_iter().zip(&mut sequences) {
            if let Some(sequence) = sequence {
                let keep = lasting && at == by || sequence.has_lasting() && by_node.plans();
                sequence.keep_lasting(keep, raise);
            }
        }
        kept.sequences = sequences;
    }
}

/// How full a row is at a moment, if more is used than is known; `more` names each type once.
fn fill(by_node: &ByNode, row: usize, when: When, more: &[(TypeId, u128)]) -> u32 {
    let (mut sum, mut pools) = (0_u64, 0_u64);
    for (kind, column) in by_node.columns().by_kind() {
        let used = match when {
            When::Window { from, .. } if from == by_node.now() => by_node.used_now(column, row),
            _ => by_node.used_at(row, kind, when),
        };
        let more = more.iter().find(|(known, _)| *known == kind).map_or(0, |(_, units)| *units);
        let (size, used) = (column.sizes()[row], used + more);
        if size > 0 || used > 0 {
            pools += 1;
            sum += share(size, used);
        }
    }
    sum.checked_div(pools).and_then(|mean| u32::try_from(mean).ok()).unwrap_or(0)
}

/// Raises each number to the free units of a node, now or for ever.
fn raise((by_node, timelines): (&ByNode, &Timelines), key: Key, row: &mut [i64], lasting: bool) {
    let Some(at) = by_node.nodes().position(key.rank()) else {
        return contradiction("a rank that is gone is in a sequence");
    };
    for (place, (most, column)) in row.iter_mut().zip(by_node.columns().iter()).enumerate() {
        let now = column.free()[at];
        let free = if lasting { timelines.lasting(by_node, at, now, place) } else { now };
        *most = (*most).max(clamp(free));
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
        self.by.key(fill, self.by_node.nodes().ranks()[row])
    }

    /// Where a row stands once more of it is used.
    pub(crate) fn key_with(&self, row: usize, more: &[(TypeId, u128)]) -> Key {
        self.by.key(self.fill(row, more), self.by_node.nodes().ranks()[row])
    }

    /// How full a row is once more of it is used.
    pub(crate) fn fill(&self, row: usize, more: &[(TypeId, u128)]) -> u32 {
        fill(self.by_node, row, self.when, more)
    }

    /// The row at a key.
    pub(crate) fn row(&self, key: Key) -> Option<usize> {
        self.by_node.nodes().position(key.rank())
    }

    /// The beginning of the sequence, if it is kept for this moment.
    pub(crate) fn start(&self) -> Option<Cursor> {
        self.kept.as_ref().map(|_| Cursor::default())
    }

    /// The next key of the sequence that is kept, without most of those that have less free than is
    /// needed.
    pub(crate) fn next(&self, cursor: &mut Cursor, needs: &[(usize, i64)]) -> Option<Key> {
        let sequence = self.kept.as_ref()?.sequences[self.by as usize].as_ref()?;
        let may = |row: &[i64]| {
            needs.iter().all(|(at, units)| row.get(*at).is_some_and(|most| most >= units))
        };
        sequence.next(cursor, self.lasting, &may)
    }

    /// Units of a type in the form that [`Ranked::next`] takes.
    pub(crate) fn need(&self, kind: TypeId, units: u64) -> (usize, i64) {
        (self.by_node.columns().place(kind), clamp(units))
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
