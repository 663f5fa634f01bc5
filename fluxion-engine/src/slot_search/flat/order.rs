//! The order in which nodes are taken.

use crate::policy::Policy;
use crate::pools::{Pools, Ranked, Tenancy};
use crate::time::When;

/// In which order nodes are taken.
pub(crate) enum NodeOrder<'a> {
    /// The lowest ranks first.
    Up,
    /// The highest ranks first.
    Down,
    /// By how full they are.
    Ranked(Ranked<'a>),
}

impl<'a> NodeOrder<'a> {
    /// The order of a policy at a moment, for slots of a tenancy.
    pub(crate) fn of(pools: &'a Pools, policy: Policy, when: When, tenancy: Tenancy) -> Self {
        match policy.by_fill() {
            Some(by) => NodeOrder::Ranked(pools.ranked(by, when, tenancy)),
            None if policy.descends() => NodeOrder::Down,
            None => NodeOrder::Up,
        }
    }
}
