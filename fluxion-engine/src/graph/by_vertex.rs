//! Maps from vertices.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::VertexId;

/// A map from vertices. Their numbers are our own, so no document can make them collide.
pub(crate) type ByVertex<V> = HashMap<VertexId, V, BuildHasherDefault<VertexHasher>>;

/// Hashes small numbers by multiplication, which spreads them over all bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct VertexHasher(u64);

/// 2^64 divided by the golden ratio: neighbours end up far from each other.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for VertexHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The table takes its place from the low bits and its tag from the high ones.
        let spread = (self.0 ^ u64::from(number)).wrapping_mul(GOLDEN);
        self.0 = spread ^ (spread >> 32);
    }
}
