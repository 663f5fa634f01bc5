//! The size of the parts that copies share.

/// The most entries that a chunk holds: few enough to be moved, or copied, in about a microsecond.
pub(crate) const CHUNK_MAX: usize = 32;
