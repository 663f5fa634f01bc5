//! Which vertex types are pools.

use std::collections::BTreeSet;

use crate::vertex::TypeId;

/// The types of vertices that hand out parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolTypes {
    /// These.
    pub names: BTreeSet<Box<str>>,
    /// Everything that lies directly below a node.
    pub all_of_nodes: bool,
}

impl PoolTypes {
    /// Whether any type is a pool.
    pub(super) fn are_any(&self) -> bool {
        self.all_of_nodes || !self.names.is_empty()
    }

    /// Whether vertices of this type, directly below a node, are pools.
    pub(super) fn have(&self, kind: &str) -> bool {
        self.all_of_nodes || self.names.contains(kind)
    }

    /// Whether vertices of this type are pools directly below one of another type.
    pub(super) fn have_below(&self, kind: &str, parent: TypeId) -> bool {
        self.names.contains(kind) || self.all_of_nodes && parent == TypeId::NODE
    }
}
