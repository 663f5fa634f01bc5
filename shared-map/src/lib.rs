//! Sorted maps and rows that share with their copies every part that neither side has changed.
//!
//! A copy of something large is made to try things on while the original goes on, and neither of
//! the two touches most of it. So both collections here keep their entries in chunks of some
//! dozens. A copy takes a reference to each chunk, and a change first copies the one chunk that it
//! falls in. As long as there is no copy, they cost as much as a B-tree, or an array.

mod chunk;
mod map;
mod rows;

pub use map::SharedMap;
pub use rows::SharedRows;
