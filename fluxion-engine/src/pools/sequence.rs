//! Nodes in the order of a key that changes all the time, so that the first ones with room are
//! found without a look at the others.
//!
//! Keys stand in blocks of some dozens, ascending. Each block has the most that any of its nodes
//! has free of each type; a tree of maxima ([`crate::maxima`]) over these finds the next block in
//! which a slot may have room. A maximum may be too large, never too small. To move one key costs a
//! look at the two blocks concerned; only a block that is split or joined rebuilds the tree.

use crate::maxima::Tree;
use crate::sound::contradiction;

/// A block is split when it becomes longer, and begins with half of that.
const BLOCK_MAX: usize = 128;
/// A block that becomes shorter is joined with its neighbour.
const BLOCK_MIN: usize = 16;

/// What comes first: the least cost, then the lowest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u64);

/// A place in an [`Sequence`]; valid as long as nothing moves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    block: usize,
    at: usize,
    /// It stands in a block, not before one.
    inside: bool,
}

/// Keys in their order.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Never empty ones.
    blocks: Vec<Vec<Key>>,
    /// A row for each block: the most that its nodes have free now.
    maxima: Tree,
    /// The same of lasting units, if it was needed.
    lasting: Option<Tree>,
    width: usize,
}

impl Key {
    pub(super) fn new(cost: u32, rank: u32) -> Self {
        Key(u64::from(cost) << 32 | u64::from(rank))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is the rank")]
    pub(super) fn rank(self) -> u32 {
        self.0 as u32
    }
}

impl Sequence {
    /// These keys. `raise` raises each number of a row to the free units of a node, now or, if it
    /// says so, for ever; rows have `width` numbers.
    pub(super) fn new(
        width: usize,
        mut keys: Vec<Key>,
        raise: impl Fn(Key, &mut [i64], bool),
    ) -> Self {
        keys.sort_unstable();
        let blocks: Vec<Vec<Key>> = keys.chunks(BLOCK_MAX / 2).map(<[Key]>::to_vec).collect();
        let mut sequence = Sequence { blocks, maxima: Tree::default(), lasting: None, width };
        sequence.maxima = sequence.tree(&raise, false);
        sequence
    }

    fn tree(&self, raise: &impl Fn(Key, &mut [i64], bool), lasting: bool) -> Tree {
        let rows =
            (0..self.blocks.len()).flat_map(|block| self.greatest(block, raise, lasting)).collect();
        Tree::new(self.width, rows)
    }

    /// Whether it knows what lasts.
    pub(super) fn has_lasting(&self) -> bool {
        self.lasting.is_some()
    }

    /// Keeps what lasts, or does so no more.
    pub(super) fn keep_lasting(&mut self, keep: bool, raise: impl Fn(Key, &mut [i64], bool)) {
        if !keep {
            self.lasting = None;
        } else if self.lasting.is_none() {
            self.lasting = Some(self.tree(&raise, true));
        }
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, key: Key, raise: impl Fn(Key, &mut [i64], bool)) {
        if self.blocks.is_empty() {
            let keep = self.has_lasting();
            *self = Sequence::new(self.width, vec![key], &raise);
            self.keep_lasting(keep, raise);
            return;
        }
        let at = self.block_of(key);
        let block = &mut self.blocks[at];
        let place = block.partition_point(|other| *other < key);
        block.insert(place, key);
        if block.len() > BLOCK_MAX {
            let upper = block.split_off(BLOCK_MAX / 2);
            self.blocks.insert(at + 1, upper);
            self.replace(at, 1, 2, &raise);
        } else {
            for (lasting, tree) in [(false, Some(&mut self.maxima)), (true, self.lasting.as_mut())]
            {
                if let Some(tree) = tree {
                    let mut row = tree.row(at).to_vec();
                    raise(key, &mut row, lasting);
                    tree.set(at, &row);
                }
            }
        }
    }

    /// Removes a key that is there.
    pub(super) fn remove(&mut self, key: Key, raise: impl Fn(Key, &mut [i64], bool)) {
        let at = self.block_of(key);
        let Some(Ok(place)) = self.blocks.get(at).map(|block| block.binary_search(&key)) else {
            return contradiction("a key that is removed is not in the sequence");
        };
        self.blocks[at].remove(place);
        let length = self.blocks[at].len();
        if length == 0 {
            self.blocks.remove(at);
            self.replace(at, 1, 0, &raise);
        } else if length < BLOCK_MIN
            && self.blocks.get(at + 1).is_some_and(|next| next.len() + length < BLOCK_MAX)
        {
            let next = self.blocks.remove(at + 1);
            self.blocks[at].extend(next);
            self.replace(at, 2, 1, &raise);
        } else {
            self.refresh(at, &raise);
        }
    }

    /// Notes that the free units of the node of a key have changed, and the key has not.
    pub(super) fn touch(&mut self, key: Key, raise: impl Fn(Key, &mut [i64], bool)) {
        if !self.blocks.is_empty() {
            self.refresh(self.block_of(key), &raise);
        }
    }

    /// The next key of a block that may do, now or as far as it lasts. What holds for a row must
    /// hold for every row that has at least as much.
    pub(super) fn next(
        &self,
        cursor: &mut Cursor,
        lasting: bool,
        may: &impl Fn(&[i64]) -> bool,
    ) -> Option<Key> {
        while !cursor.inside || cursor.at == self.blocks[cursor.block].len() {
            let from = cursor.block + usize::from(cursor.inside);
            if from >= self.blocks.len() {
                return None;
            }
            let maxima = self.lasting.as_ref().filter(|_| lasting).unwrap_or(&self.maxima);
            *cursor = Cursor { block: maxima.next(from, false, may)?, at: 0, inside: true };
        }
        cursor.at += 1;
        Some(self.blocks[cursor.block][cursor.at - 1])
    }

    /// The block in which a key is, or would be.
    fn block_of(&self, key: Key) -> usize {
        self.blocks.partition_point(|block| block[0] <= key).saturating_sub(1)
    }

    fn greatest(
        &self,
        block: usize,
        raise: &impl Fn(Key, &mut [i64], bool),
        lasting: bool,
    ) -> Vec<i64> {
        let mut row = vec![0; self.width];
        for key in &self.blocks[block] {
            raise(*key, &mut row, lasting);
        }
        row
    }

    fn refresh(&mut self, block: usize, raise: &impl Fn(Key, &mut [i64], bool)) {
        let row = self.greatest(block, raise, false);
        self.maxima.set(block, &row);
        if let Some(mut tree) = self.lasting.take() {
            tree.set(block, &self.greatest(block, raise, true));
            self.lasting = Some(tree);
        }
    }

    /// Replaces rows of the trees for blocks from `at` on by other rows.
    fn replace(
        &mut self,
        at: usize,
        before: usize,
        after: usize,
        raise: &impl Fn(Key, &mut [i64], bool),
    ) {
        let (width, span) = (self.width, at * self.width..(at + before) * self.width);
        let replaced = |tree: &Tree, lasting: bool| {
            let mut rows = tree.rows().to_vec();
            let new: Vec<i64> =
                (at..at + after).flat_map(|block| self.greatest(block, raise, lasting)).collect();
            rows.splice(span.clone(), new);
            Tree::new(width, rows)
        };
        let maxima = replaced(&self.maxima, false);
        let lasting = self.lasting.as_ref().map(|tree| replaced(tree, true));
        (self.maxima, self.lasting) = (maxima, lasting);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_the_first_with_room(
            start in prop::collection::btree_map(0_u32..400, (0_u32..30, 0_i64..6), 0..300),
            moves in prop::collection::vec((0_u32..400, prop::option::weighted(0.7, (0_u32..30, 0_i64..6))), 0..600),
            need in 1_i64..7,
        ) {
            let mut known: BTreeMap<u32, (u32, i64)> = start;
            // Half of it lasts.
            let raise = |known: &BTreeMap<u32, (u32, i64)>, key: Key, row: &mut [i64], lasting: bool| {
                let part = if lasting { 2 } else { 1 };
                row[0] = row[0].max(known.get(&key.rank()).map_or(0, |(_, free)| *free / part));
            };
            let keys = known.iter().map(|(rank, (cost, _))| Key::new(*cost, *rank)).collect();
            let mut sequence = Sequence::new(1, keys, |key, row, lasting| raise(&known, key, row, lasting));
            sequence.keep_lasting(true, |key, row, lasting| raise(&known, key, row, lasting));
            for (rank, to) in moves {
                let before = known.remove(&rank);
                match (before, to) {
                    (Some((cost, _)), Some((same, free))) if cost == same => {
                        known.insert(rank, (cost, free));
                        sequence.touch(Key::new(cost, rank), |key, row, lasting| raise(&known, key, row, lasting));
                        continue;
                    }
                    (Some((cost, _)), _) => sequence.remove(Key::new(cost, rank), |key, row, lasting| raise(&known, key, row, lasting)),
                    (None, _) => {}
                }
                if let Some((cost, free)) = to {
                    known.insert(rank, (cost, free));
                    sequence.insert(Key::new(cost, rank), |key, row, lasting| raise(&known, key, row, lasting));
                }
            }
            let mut expected: Vec<Key> = known.iter().map(|(rank, (cost, _))| Key::new(*cost, *rank)).collect();
            expected.sort_unstable();
            for (lasting, part) in [(false, 1), (true, 2)] {
                let mut cursor = Cursor::default();
                let next = || sequence.next(&mut cursor, lasting, &|row: &[i64]| row[0] >= need);
                let found: Vec<Key> = std::iter::from_fn(next).collect();
                let has = |key: &&Key| known[&key.rank()].1 / part >= need;
                prop_assert!(found.is_sorted());
                prop_assert_eq!(found.iter().filter(has).collect::<Vec<_>>(), expected.iter().filter(has).collect::<Vec<_>>());
            }
        }
    }
}
