//! The only source of randomness: everything in a case follows from its seed.

use crate::splitmix::SplitMix;

pub(crate) struct Rng(SplitMix);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(SplitMix(seed.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + usize::try_from(self.0.next() >> 16).unwrap() % (high - low + 1)
    }

    /// Returns true in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.between(0, 99) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.between(0, from.len() - 1)]
    }

    /// Calls `make` up to `most` times, and returns the results.
    pub(crate) fn some<T>(&mut self, most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.between(0, most)).map(|_| make(self)).collect()
    }
}
