//! Random numbers for tests: the same on every machine.

/// xorshift64*. The seed is not 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a number below this bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}
