//! Things of a node that a pod has for itself: host ports, disks.

use std::collections::BTreeMap;

use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::constraints::{Disk, HostPort};

/// Something that not any two pods on a node can have.
pub(super) trait Exclusive: Clone + PartialEq {
    /// True if one node cannot give both.
    fn conflicts(&self, other: &Self) -> bool;
}

/// The taken things of one kind, by node.
#[derive(Debug, Clone)]
pub(super) struct Taken<T> {
    by_rank: BTreeMap<Rank, Vec<T>>,
    version: u64,
}

impl<T> Default for Taken<T> {
    fn default() -> Self {
        Taken { by_rank: BTreeMap::new(), version: 0 }
    }
}

impl Exclusive for HostPort {
    fn conflicts(&self, other: &Self) -> bool {
        HostPort::conflicts(self, other)
    }
}

impl Exclusive for Disk {
    fn conflicts(&self, other: &Self) -> bool {
        Disk::conflicts(self, other)
    }
}

impl<T: Exclusive> Taken<T> {
    /// Changes when something is taken or given back.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Restores an earlier version, after the changes since then were taken back.
    pub(super) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// A pod takes these.
    pub(super) fn take(&mut self, rank: Rank, things: &[T]) {
        if !things.is_empty() {
            self.version += 1;
            self.by_rank.entry(rank).or_default().extend(things.iter().cloned());
        }
    }

    /// Gives these things back.
    pub(super) fn give_back(&mut self, rank: Rank, things: &[T]) {
        self.version += u64::from(!things.is_empty());
        let Some(taken) = self.by_rank.get_mut(&rank) else { return };
        for thing in things {
            if let Some(at) = taken.iter().position(|taken| taken == thing) {
                taken.swap_remove(at);
            }
        }
        if taken.is_empty() {
            self.by_rank.remove(&rank);
        }
    }

    /// The node is gone.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.by_rank.remove(&rank);
        self.version += 1;
    }

    /// True if one of these cannot be had on the node.
    pub(super) fn is_closed_to(&self, rank: Rank, wanted: &[T]) -> bool {
        self.by_rank.get(&rank).is_some_and(|taken| conflict(wanted, taken))
    }

    /// The nodes where one of these cannot be had.
    pub(super) fn closed_to(&self, wanted: &[T]) -> RankSet {
        if wanted.is_empty() {
            return RankSet::new();
        }
        self.by_rank
            .iter()
            .filter(|(_, taken)| conflict(wanted, taken))
            .map(|(rank, _)| *rank)
            .collect()
    }

    /// A pod that has taken these shares none of them: each is taken on the node exactly once, by
    /// itself.
    pub(super) fn are_its_own(&self, rank: Rank, things: &[T]) -> bool {
        if things.is_empty() {
            return true;
        }
        let Some(taken) = self.by_rank.get(&rank) else { return false };
        let mut others = taken.clone();
        for thing in things {
            match others.iter().position(|other| other == thing) {
                Some(at) => drop(others.swap_remove(at)),
                None => return false,
            }
        }
        !conflict(things, &others)
    }
}

fn conflict<T: Exclusive>(wanted: &[T], taken: &[T]) -> bool {
    wanted.iter().any(|wanted| taken.iter().any(|taken| wanted.conflicts(taken)))
}
