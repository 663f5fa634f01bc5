//! Where a request fits: pure search, nothing is taken.
//!
//! Requests for slots of pool units go the [`flat`] way: rows of columns. Everything else walks the [`tree`].

pub(crate) mod candidates;
pub(crate) mod flat;
pub(crate) mod tree;

/// In which order nodes and vertices are taken.
///
/// For pools: `first`, `low` and `lonode` fill the lowest ranks first, `high` and `hinode` the highest.
/// `first` promises no more than to be the cheapest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Whatever is found first.
    First,
    /// Low ids first.
    Low,
    /// High ids first.
    High,
    /// Low nodes first, and within a node low ids.
    Lonode,
    /// High nodes first, and within a node high ids.
    Hinode,
}

impl Policy {
    /// The policy of this name, if it is offered.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "first" => Policy::First,
            "low" => Policy::Low,
            "high" => Policy::High,
            "lonode" => Policy::Lonode,
            "hinode" => Policy::Hinode,
            _ => return None,
        })
    }

    /// Highest first.
    pub(crate) fn descends(self) -> bool {
        matches!(self, Policy::High | Policy::Hinode)
    }
}
