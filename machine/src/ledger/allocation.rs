//! Parts of nodes that are taken.

use std::sync::Arc;

use super::booked::BookingId;
use crate::cluster::Cluster;
use crate::fluxion::{End, Rank, Tenancy};
use fluxqueue_workload::{NodeName, Shape};

/// A part of a node that is taken.
#[derive(Debug)]
pub struct Allocation {
    /// The job number in the graph under which it is booked.
    pub gid: u64,
    /// The node's rank.
    pub rank: Rank,
    pub(super) generation: u64,
    pub(super) label: Arc<str>,
    /// The node on which it is.
    pub node: NodeName,
    /// The requests of its pod.
    pub shape: Arc<Shape>,
    /// Its end, as far as was known when it was made.
    pub end: End,
    /// Its tenancy on its node.
    pub tenancy: Tenancy,
    /// True if it has outlived its planned end.
    pub is_overdue: bool,
    /// Its number in the ledger.
    pub number: u64,
}

/// What groups were given: per group and want, lowest rank first.
pub type Allocations = Vec<Vec<Vec<Allocation>>>;

impl Allocation {
    /// Returns its booking, which is the same in copies of the ledger.
    pub fn booking(&self) -> BookingId {
        BookingId { gid: self.gid, rank: self.rank, number: self.number }
    }
}

/// True if the allocation's node is still the one it was made on.
pub fn valid(cluster: &Cluster, allocation: &Allocation) -> bool {
    cluster.nodes().generation(allocation.rank) == Some(allocation.generation)
}
