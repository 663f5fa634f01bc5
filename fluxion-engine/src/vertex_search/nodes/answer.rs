//! The outcome of a search over nodes.

use std::ops::Range;

/// The choices, or that there are none, or that a search over nodes cannot tell.
pub(crate) enum Answer {
    /// The choices of the walk at the top: a range of its choices.
    Chosen(Range<usize>),
    /// The walk would find nothing.
    Nothing,
    /// Only the walk can tell.
    Unsure,
}
