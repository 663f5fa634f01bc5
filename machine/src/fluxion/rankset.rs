//! Sets of ranks.

use std::fmt;
use std::str::FromStr;

use flux_lists::idset::{self, RangeWriter};

/// What stands for a node in the graph. Never reused for another node while the graph knows the
/// first.
pub type Rank = u32;

/// Ids beyond this are refused when parsing, so that a short text cannot ask for gigabytes.
const PARSED_RANK_MAX: Rank = (1 << 24) - 1;

/// A set of ranks, a bit for each: meant for ranks that are small and dense. Grows as needed.
///
/// Written and read as an idset (RFC 22): `0-3,7`.
#[derive(Clone, Default)]
pub struct RankSet {
    /// The last word is never zero, so that equal sets are equal values.
    words: Vec<u64>,
}

/// A text that is no idset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ranks {text:?}: not an idset of ranks up to {PARSED_RANK_MAX}")]
pub struct ParseRankSetError {
    /// Its beginning.
    pub text: String,
}

impl RankSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rank. Returns whether it is new.
    pub fn insert(&mut self, rank: Rank) -> bool {
        let (word, bit) = split(rank);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes a rank out. Returns whether it was there.
    pub fn remove(&mut self, rank: Rank) -> bool {
        let there = self.contains(rank);
        if there {
            let (word, bit) = split(rank);
            self.words[word] &= !bit;
            self.trim();
        }
        there
    }

    /// True if a rank is in the set.
    pub fn contains(&self, rank: Rank) -> bool {
        let (word, bit) = split(rank);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Number of ranks.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if it has no ranks.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The ranks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        self.words.iter().zip((0..).step_by(64)).flat_map(|(word, base)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                // For a word of zeros this takes nothing away, and the next line ends.
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(base + bit)
            })
        })
    }

    /// Adds all of `other`.
    pub fn union_with(&mut self, other: &RankSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, theirs) in self.words.iter_mut().zip(&other.words) {
            *word |= theirs;
        }
    }

    /// Returns the ranks that are in both.
    #[must_use]
    pub fn intersection(&self, other: &RankSet) -> RankSet {
        let mut both = self.clone();
        both.intersect_with(other);
        both
    }

    /// Keeps only the ranks that are in `other` too.
    pub fn intersect_with(&mut self, other: &RankSet) {
        self.words.truncate(other.words.len());
        for (word, theirs) in self.words.iter_mut().zip(&other.words) {
            *word &= theirs;
        }
        self.trim();
    }

    /// Takes out all of `other`.
    pub fn subtract(&mut self, other: &RankSet) {
        for (word, theirs) in self.words.iter_mut().zip(&other.words) {
            *word &= !theirs;
        }
        self.trim();
    }

    /// True if all of it is in `other`.
    pub fn is_subset(&self, other: &RankSet) -> bool {
        self.words.len() <= other.words.len()
            && self.words.iter().zip(&other.words).all(|(word, theirs)| word & !theirs == 0)
    }

    /// True if the two have a rank in common.
    pub fn intersects(&self, other: &RankSet) -> bool {
        self.words.iter().zip(&other.words).any(|(word, theirs)| word & theirs != 0)
    }

    /// Adds `first..=last`, which must not be a backward range.
    pub fn insert_range(&mut self, first: Rank, last: Rank) {
        let ((first_word, first_bit), (last_word, last_bit)) = (split(first), split(last));
        if last_word >= self.words.len() {
            self.words.resize(last_word + 1, 0);
        }
        // Bits from `first_bit` up, and up to `last_bit`.
        let (from, to) = (!(first_bit - 1), last_bit | (last_bit - 1));
        if first_word == last_word {
            self.words[first_word] |= from & to;
            return;
        }
        self.words[first_word] |= from;
        self.words[first_word + 1..last_word].fill(u64::MAX);
        self.words[last_word] |= to;
    }

    /// Calls `visit` for each run of consecutive ranks, ascending.
    fn for_each_range(&self, mut visit: impl FnMut(Rank, Rank)) {
        let mut open: Option<(Rank, Rank)> = None;
        for (word, base) in self.words.iter().zip((0..).step_by(64)) {
            let (mut left, mut shift) = (*word, 0);
            while left != 0 {
                // Skip the zeros, then take the ones that follow.
                let zeros = left.trailing_zeros();
                let ones = (left >> zeros).trailing_ones();
                let first = base + shift + zeros;
                let last = first + ones - 1;
                match &mut open {
                    // A run may go on from one word to the next.
                    Some((_, end)) if *end + 1 == first => *end = last,
                    _ => {
                        if let Some((first, last)) = open.replace((first, last)) {
                            visit(first, last);
                        }
                    }
                }
                shift += zeros + ones;
                left = if shift >= 64 { 0 } else { *word >> shift };
            }
        }
        if let Some((first, last)) = open {
            visit(first, last);
        }
    }

    /// Appends the set to a text, as an idset.
    pub(super) fn write(&self, out: &mut String) {
        let mut ranges = RangeWriter::new(out);
        self.for_each_range(|first, last| ranges.push(first, last));
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn split(rank: Rank) -> (usize, u64) {
    (rank as usize / 64, 1 << (rank % 64))
}

/// Calls `visit` for each range of an idset as it is written. `None`: the text is no idset.
pub(super) fn parse_ranges(text: &str, mut visit: impl FnMut(Rank, Rank)) -> Option<()> {
    for element in idset::elements(text)? {
        let (first, last) = element.ok()?;
        let last = last.unwrap_or(first);
        if first > last || last > PARSED_RANK_MAX {
            return None;
        }
        visit(first, last);
    }
    Some(())
}

impl PartialEq for RankSet {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for RankSet {}

impl std::hash::Hash for RankSet {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

impl fmt::Debug for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RankSet({self})")
    }
}

impl FromStr for RankSet {
    type Err = ParseRankSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut set = RankSet::new();
        parse_ranges(text, |first, last| set.insert_range(first, last))
            .ok_or_else(|| ParseRankSetError { text: text.chars().take(80).collect() })?;
        Ok(set)
    }
}

impl FromIterator<Rank> for RankSet {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> Self {
        let mut set = RankSet::new();
        set.extend(ranks);
        set
    }
}

impl Extend<Rank> for RankSet {
    fn extend<I: IntoIterator<Item = Rank>>(&mut self, ranks: I) {
        for rank in ranks {
            self.insert(rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn of(set: &BTreeSet<Rank>) -> RankSet {
        set.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn does_what_a_btreeset_does(
            a in prop::collection::btree_set(0_u32..300, 0..60),
            b in prop::collection::btree_set(0_u32..300, 0..60),
        ) {
            let (left, right) = (of(&a), of(&b));
            prop_assert_eq!(left.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!((left.len(), left.is_empty()), (a.len(), a.is_empty()));
            let mut both = left.clone();
            both.intersect_with(&right);
            prop_assert_eq!(&both, &of(&(&a & &b)));
            let mut any = left.clone();
            any.union_with(&right);
            prop_assert_eq!(&any, &of(&(&a | &b)));
            let mut less = left.clone();
            less.subtract(&right);
            prop_assert_eq!(&less, &of(&(&a - &b)));
            prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
            prop_assert_eq!(left.intersects(&right), !a.is_disjoint(&b));
            for rank in &b {
                prop_assert_eq!(less.remove(*rank), false);
                prop_assert_eq!(any.remove(*rank), true);
            }
            prop_assert_eq!(&any, &less);
            prop_assert_eq!(&left.to_string().parse::<RankSet>().unwrap(), &left);
        }

        #[test]
        fn fills_ranges(first in 0_u32..200, length in 0_u32..200) {
            let mut set = RankSet::new();
            set.insert_range(first, first + length);
            prop_assert_eq!(set, (first..=first + length).collect::<RankSet>());
        }
    }

    #[test]
    fn reads_and_writes_idsets() {
        let set: RankSet = "7,0-3".parse().unwrap();
        assert_eq!(set.to_string(), "0-3,7");
        assert_eq!("[1,2]".parse::<RankSet>().unwrap().to_string(), "1-2");
        assert_eq!(RankSet::new().to_string(), "");
        assert_eq!("".parse::<RankSet>().unwrap(), RankSet::new());
        for text in ["", "0", "0-3,7,9-10", "63-64", "0-63,65,127-200,4294967"] {
            assert_eq!(text.parse::<RankSet>().unwrap().to_string(), text);
        }
        for wrong in ["x", "1-", "3-1", "-1", "+1", "1,,2", "16777216", "4294967295", "[1"] {
            assert!(wrong.parse::<RankSet>().is_err(), "{wrong}");
        }
    }
}
