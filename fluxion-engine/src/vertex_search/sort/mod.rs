//! Sorting as the C++ standard library of GNU does it.
//!
//! Upstream sorts candidates by score alone with `std::sort`, which is not stable: which of two
//! equal candidates comes first depends on the algorithm. So this is the same one: introspective
//! sort with the median of three as pivot, ranges of up to 16 left to one insertion sort at the
//! end, heap sort where the recursion gets too deep.

mod introsort;
mod rows;

pub(crate) use introsort::{front, front_of_equals, sort};
pub(crate) use rows::front_of_rows;
