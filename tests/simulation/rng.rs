//! The only source of randomness: everything that happens in a run follows from one seed.

use crate::splitmix::SplitMix;

/// First seed of the runs with whole amounts, on a Fluxion library without extensions.
pub(crate) const WHOLE: u64 = 1_000_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Rng {
    numbers: SplitMix,
    /// True if amounts come in whole cores and GiB.
    pub(crate) whole_amounts: bool,
}

impl Rng {
    /// Makes a stream of numbers that depends only on the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Rng { numbers: SplitMix(seed), whole_amounts: seed >= WHOLE }
    }

    fn next(&mut self) -> u64 {
        self.numbers.next()
    }

    /// Returns a number from 0 to `bound` - 1, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            0
        } else {
            usize::try_from(self.next() >> 16).expect("64-bit machine") % bound
        }
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + (self.next() >> 16) % (high - low + 1)
    }

    /// Returns true in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them, none if there is none.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Takes a random element out; none if there is none.
    pub(crate) fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        if from.is_empty() { None } else { Some(from.swap_remove(self.below(from.len()))) }
    }

    /// Returns a random index, with a probability in proportion to its weight.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut at = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if at < *weight {
                return index;
            }
            at -= weight;
        }
        0
    }
}
