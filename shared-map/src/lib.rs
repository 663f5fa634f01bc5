//! Sorted maps and rows whose copies share all that has not changed since.
//!
//! A copy of something large is made to try things on while the original goes on. Most of it is
//! never touched by either. So both kinds of collection here keep what is in them in chunks of some
//! dozens: a copy takes a reference to each chunk, and whoever changes something first copies the
//! one chunk in which it lies. As long as there is no copy they cost what a B-tree costs, or an
//! array.

mod map;
mod rows;

pub use map::SharedMap;
pub use rows::SharedRows;

/// Entries of a chunk at most: few enough to be moved, or copied, in about a microsecond.
const CHUNK_MAX: usize = 32;
