//! The only source of chance: everything that happens in a run follows from one seed.

/// Seeds from here on are runs with whole amounts, on a Fluxion library without extensions.
pub(crate) const WHOLE: u64 = 1_000_000_000;

/// splitmix64: small, fast, and the same on every machine for ever.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: u64,
    /// Amounts come in whole cores and GiB.
    pub(crate) whole_amounts: bool,
}

impl Rng {
    /// A stream of numbers that depends on nothing but the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Rng { state: seed, whole_amounts: seed >= WHOLE }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound` - 1; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { usize::try_from(self.next() >> 16).expect("64-bit machine") % bound }
    }

    /// A number between both, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + (self.next() >> 16) % (high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them, none if there is none.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Takes one out, in no order; none if there is none.
    pub(crate) fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        if from.is_empty() { None } else { Some(from.swap_remove(self.below(from.len()))) }
    }

    /// An index, each as often as its weight says.
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
