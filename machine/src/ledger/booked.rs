//! All allocations once more, node by node: so that a copy of the ledger knows their ends without
//! owning them.

use std::sync::Arc;

use crate::cluster::OccupantId;
use crate::fluxion::{End, Rank, Tenancy};
use fluxqueue_workload::Shape;

/// Which allocation. In order they are as the graph knows their jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BookingId {
    /// The job number in the graph.
    pub gid: u64,
    /// Its node's rank.
    pub rank: Rank,
    /// Those of one job on one node have numbers of their own.
    pub number: u64,
}

/// A booking on a node.
#[derive(Debug, Clone)]
pub(crate) struct Booked {
    pub number: u64,
    pub gid: u64,
    pub label: Arc<str>,
    pub shape: Arc<Shape>,
    pub end: End,
    pub tenancy: Tenancy,
    /// The pod that is there, or will be; none where a slot waits for its next one.
    pub occupant: Option<OccupantId>,
}

impl Booked {
    fn has_node_alone(&self) -> bool {
        matches!(self.tenancy, Tenancy::Alone(_))
    }
}

/// The bookings on all nodes. Copies share all unchanged parts.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllBooked {
    by_rank: Vec<Arc<Vec<Booked>>>,
    next_number: u64,
    /// The number of bookings that have their nodes alone.
    alone: usize,
}

impl AllBooked {
    /// Adds a booking on a node, and gives it a number.
    pub(crate) fn add(
        &mut self,
        rank: Rank,
        (gid, label): (u64, &Arc<str>),
        shape: &Arc<Shape>,
        (end, tenancy): (End, Tenancy),
    ) -> u64 {
        let (number, label, shape) = (self.next_number, Arc::clone(label), Arc::clone(shape));
        self.next_number += 1;
        let rank = rank as usize;
        if self.by_rank.len() <= rank {
            self.by_rank.resize(rank + 1, Arc::default());
        }
        let booked = Booked { number, gid, label, shape, end, tenancy, occupant: None };
        self.alone += usize::from(booked.has_node_alone());
        Arc::make_mut(&mut self.by_rank[rank]).push(booked);
        number
    }

    /// Returns the bookings on a node.
    pub(crate) fn on(&self, rank: Rank) -> impl Iterator<Item = &Booked> {
        self.by_rank.get(rank as usize).into_iter().flat_map(|on_node| on_node.iter())
    }

    pub(crate) fn get(&self, rank: Rank, number: u64) -> Option<&Booked> {
        self.by_rank.get(rank as usize)?.iter().find(|booked| booked.number == number)
    }

    pub(crate) fn get_mut(&mut self, rank: Rank, number: u64) -> Option<&mut Booked> {
        Arc::make_mut(self.by_rank.get_mut(rank as usize)?)
            .iter_mut()
            .find(|booked| booked.number == number)
    }

    pub(crate) fn remove(&mut self, rank: Rank, number: u64) -> Option<Booked> {
        let on_node = self.by_rank.get_mut(rank as usize)?;
        let at = on_node.iter().position(|booked| booked.number == number)?;
        let gone = Arc::make_mut(on_node).swap_remove(at);
        self.alone -= usize::from(gone.has_node_alone());
        Some(gone)
    }

    /// True if some booking has its node alone.
    pub(crate) fn has_nodes_alone(&self) -> bool {
        self.alone > 0
    }

    /// True if the tenancy of a booking suits all others on its node.
    pub(crate) fn is_in_company(&self, rank: Rank, number: u64) -> bool {
        if self.alone == 0 {
            return true;
        }
        let Some(own) = self.get(rank, number) else { return true };
        self.by_rank[rank as usize]
            .iter()
            .all(|other| other.number == number || other.tenancy.suits(own.tenancy))
    }

    /// True if slots of this tenancy suit all bookings on a node.
    pub(crate) fn is_open_to(&self, rank: Rank, tenancy: Tenancy) -> bool {
        self.is_open_without(rank, tenancy, &[])
    }

    /// The same if these numbers were gone.
    pub(crate) fn is_open_without(&self, rank: Rank, tenancy: Tenancy, gone: &[u64]) -> bool {
        let suits = |other: &Booked| gone.contains(&other.number) || other.tenancy.suits(tenancy);
        self.by_rank.get(rank as usize).is_none_or(|on_node| on_node.iter().all(suits))
    }

    /// The node is gone, with all that was taken of it.
    pub(crate) fn forget(&mut self, rank: Rank) {
        if let Some(on_node) = self.by_rank.get_mut(rank as usize) {
            self.alone -= on_node.iter().filter(|booked| booked.has_node_alone()).count();
            *on_node = Arc::default();
        }
    }

    /// Everything that is taken, and on which node.
    pub(crate) fn into_each(self) -> impl Iterator<Item = (Rank, Booked)> {
        let on_nodes = (0..).zip(self.by_rank);
        on_nodes.flat_map(|(rank, on_node)| {
            Arc::unwrap_or_clone(on_node).into_iter().map(move |booked| (rank, booked))
        })
    }

    /// Returns the bookings with a known end, and the end, on this number of nodes from this rank
    /// on.
    pub(crate) fn ends(&self, from: Rank, ranks: usize) -> impl Iterator<Item = (i64, BookingId)> {
        let on_nodes = (from..).zip(self.by_rank.iter().skip(from as usize).take(ranks));
        on_nodes.flat_map(|(rank, on_node)| {
            on_node.iter().filter_map(move |booked| match booked.end {
                End::At(end) => {
                    Some((end, BookingId { gid: booked.gid, rank, number: booked.number }))
                }
                End::Eventually | End::Never => None,
            })
        })
    }

    /// Returns the first rank that no node has, nor any after it.
    pub(crate) fn end_of_ranks(&self) -> Rank {
        Rank::try_from(self.by_rank.len()).expect("ranks are u32")
    }
}
