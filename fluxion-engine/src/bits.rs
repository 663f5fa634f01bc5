//! A set of small numbers: positions in the columns of [`crate::pools`], or vertices.

/// A bit per position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// All of `0..len`.
    pub(crate) fn full(len: usize) -> Self {
        let mut words = vec![u64::MAX; len.div_ceil(64)];
        if !len.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last = (1 << (len % 64)) - 1;
        }
        Bits(words)
    }

    pub(crate) fn empty(len: usize) -> Self {
        Bits(vec![0; len.div_ceil(64)])
    }

    /// The members of one of these sets.
    pub(crate) fn union<'a>(sets: impl IntoIterator<Item = &'a Bits>) -> Self {
        let mut all = Bits::default();
        for set in sets {
            all.unite(set);
        }
        all
    }

    pub(crate) fn insert(&mut self, at: usize) {
        if at / 64 >= self.0.len() {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(crate) fn insert_range(&mut self, range: std::ops::Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (first, last) = (range.start / 64, (range.end - 1) / 64);
        if last >= self.0.len() {
            self.0.resize(last + 1, 0);
        }
        let (head, tail) =
            (u64::MAX << (range.start % 64), u64::MAX >> (63 - (range.end - 1) % 64));
        if first == last {
            self.0[first] |= head & tail;
            return;
        }
        self.0[first] |= head;
        self.0[first + 1..last].fill(u64::MAX);
        self.0[last] |= tail;
    }

    pub(crate) fn remove(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// Makes room at `at`: that position and all behind it move up by one.
    pub(crate) fn open(&mut self, at: usize, value: bool) {
        if self.0.last().is_some_and(|last| last >> 63 != 0) || at / 64 >= self.0.len() {
            self.0.resize(self.0.len().max(at / 64) + 1, 0);
        }
        // What falls off the upper end of a word comes in at the lower end of the next.
        let below = (1 << (at % 64)) - 1;
        let first = self.0[at / 64];
        let mut carry = first >> 63;
        self.0[at / 64] = (first & below) | (first & !below) << 1 | u64::from(value) << (at % 64);
        for word in &mut self.0[at / 64 + 1..] {
            (*word, carry) = (*word << 1 | carry, *word >> 63);
        }
    }

    /// Takes `at` out: all behind it move down by one.
    pub(crate) fn close(&mut self, at: usize) {
        if at / 64 >= self.0.len() {
            return;
        }
        let mut carry = 0;
        for word in self.0[at / 64 + 1..].iter_mut().rev() {
            (*word, carry) = (*word >> 1 | carry << 63, *word & 1);
        }
        let below = (1 << (at % 64)) - 1;
        let first = self.0[at / 64];
        self.0[at / 64] = (first & below) | (first >> 1 & !below) | carry << 63;
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// The first position from `at` on.
    pub(crate) fn first_from(&self, at: usize) -> Option<usize> {
        let first = *self.0.get(at / 64)? & (u64::MAX << (at % 64));
        let rest = self.0[at / 64 + 1..].iter().copied();
        let (word, bits) =
            (at / 64..).zip(std::iter::once(first).chain(rest)).find(|(_, bits)| *bits != 0)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The last position up to `at`.
    pub(crate) fn last_to(&self, at: usize) -> Option<usize> {
        let end = self.0.len().min(at / 64 + 1);
        (0..end).rev().find_map(|word| {
            let bits = if word == at / 64 {
                self.0[word] & (u64::MAX >> (63 - at % 64))
            } else {
                self.0[word]
            };
            (bits != 0).then(|| word * 64 + 63 - bits.leading_zeros() as usize)
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn intersect(&mut self, other: &Bits) {
        for (at, word) in self.0.iter_mut().enumerate() {
            *word &= other.0.get(at).copied().unwrap_or(0);
        }
    }

    pub(crate) fn unite(&mut self, other: &Bits) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, theirs) in self.0.iter_mut().zip(&other.0) {
            *word |= theirs;
        }
    }

    pub(crate) fn subtract(&mut self, other: &Bits) {
        for (word, theirs) in self.0.iter_mut().zip(&other.0) {
            *word &= !theirs;
        }
    }

    /// How many blocks of 64 positions there are.
    pub(crate) fn blocks(&self) -> usize {
        self.0.len()
    }

    /// Nothing of a block is in the set.
    pub(crate) fn is_empty_block(&self, block: usize) -> bool {
        self.0[block] == 0
    }

    /// The positions of a block in ascending order.
    pub(crate) fn block(&self, block: usize) -> impl DoubleEndedIterator<Item = usize> + use<> {
        Ones { word: self.0[block], base: block * 64 }
    }

    /// Positions in ascending order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.0.len()).flat_map(|at| Ones { word: self.0[at], base: at * 64 })
    }
}

/// The positions of one word, from either end.
struct Ones {
    word: u64,
    base: usize,
}

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.word == 0 {
            return None;
        }
        let at = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.base + at)
    }
}

impl DoubleEndedIterator for Ones {
    fn next_back(&mut self) -> Option<usize> {
        if self.word == 0 {
            return None;
        }
        let at = 63 - self.word.leading_zeros() as usize;
        self.word &= !(1 << at);
        Some(self.base + at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn opens_and_closes_as_a_list_does(
            start in prop::collection::vec(any::<bool>(), 0..200),
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(any::<bool>())), 0..100),
        ) {
            let mut list = start;
            let mut bits = Bits::default();
            list.iter().enumerate().filter(|(_, bit)| **bit).for_each(|(at, _)| bits.insert(at));
            for (at, change) in changes {
                match change {
                    Some(bit) => {
                        let at = at.index(list.len() + 1);
                        list.insert(at, bit);
                        bits.open(at, bit);
                    }
                    None if list.is_empty() => {}
                    None => {
                        let at = at.index(list.len());
                        list.remove(at);
                        bits.close(at);
                    }
                }
            }
            let expected: Vec<usize> = (0..list.len()).filter(|at| list[*at]).collect();
            prop_assert_eq!(bits.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn ranges_are_inserted_whole() {
        for (from, to) in
            [(0, 0), (3, 3), (3, 4), (0, 64), (63, 65), (5, 200), (64, 128), (127, 129)]
        {
            let mut bits = Bits::empty(10);
            bits.insert_range(from..to);
            assert_eq!(bits.iter().collect::<Vec<_>>(), (from..to).collect::<Vec<_>>());
        }
    }

    #[test]
    fn walks_from_both_ends() {
        let mut bits = Bits::full(130);
        assert_eq!(bits.count(), 130);
        for at in 0..130 {
            if at % 43 != 0 {
                bits.remove(at);
            }
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 43, 86, 129]);
        assert_eq!(
            [bits.first_from(0), bits.first_from(1), bits.first_from(130)],
            [Some(0), Some(43), None]
        );
        assert_eq!(
            [bits.last_to(129), bits.last_to(128), bits.last_to(42)],
            [Some(129), Some(86), Some(0)]
        );
        assert_eq!(
            [bits.contains(86), bits.contains(87), bits.contains(1_000)],
            [true, false, false]
        );
        assert_eq!(bits.iter().rev().collect::<Vec<_>>(), [129, 86, 43, 0]);
    }
}
