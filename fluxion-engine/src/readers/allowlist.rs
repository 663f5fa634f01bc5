//! Which types of vertices a reader may make.

use std::collections::BTreeSet;

/// Types of vertices that a reader may make; of none given, all. Only that of hwloc heeds it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowlist(BTreeSet<Box<str>>);

impl Allowlist {
    /// Reads types with commas between them.
    pub fn read(text: &str) -> Self {
        Allowlist(text.split(',').filter(|kind| !kind.is_empty()).map(Into::into).collect())
    }

    /// True if vertices of a type may be made.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.0.is_empty() || self.0.contains(kind)
    }
}
