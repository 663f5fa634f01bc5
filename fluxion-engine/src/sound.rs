//! Contradictions: states that the rest of the code excludes.

/// Notes a contradiction: a build with debug assertions panics, and a release passes over the entry
/// that should be there.
#[cold]
pub(crate) fn contradiction(what: &str) {
    debug_assert!(false, "{what}");
}
