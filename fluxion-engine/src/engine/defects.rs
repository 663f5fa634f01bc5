//! Defects that tests ask for.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    /// Where there is to be a defect.
    pub(super) static WANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// A defect, where a test asks for one. Elsewhere nothing.
#[cfg(test)]
pub(super) fn defect(place: &'static str) {
    assert!(WANTED.get() != Some(place), "{place}: a defect, as wanted");
}

#[cfg(not(test))]
#[inline]
pub(super) fn defect(_: &'static str) {}
