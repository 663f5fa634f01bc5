//! Places that are kept for later.

use super::allocation::Allocations;
use super::requests::GroupRequest;
use crate::fluxion::{Later, RankSet};

/// A place for groups that is kept for later.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The job number in the graph under which it is kept.
    pub(super) gid: u64,
    /// The second at which it starts.
    pub start: i64,
    /// The nodes that are reserved.
    pub nodes: RankSet,
    /// The groups for which it was made.
    pub groups: Vec<GroupRequest>,
}

/// The outcome of making a reservation again.
#[derive(Debug)]
pub enum Remade {
    /// It starts now, and has these slots.
    Starts(Allocations),
    /// It is kept, and why it starts later, if it does.
    Kept(Reservation, Option<Later>),
    /// Its room is gone, and no other is known for any second.
    Lost,
}
