//! Things of a node that a pod has for itself: host ports, disks.

use std::collections::BTreeMap;

use crate::defect::OrDefect;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::constraints::{Constraints, Disk, HostPort};

/// Something that not any two pods on a node can have.
trait Exclusive: Clone + PartialEq {
    /// True if one node cannot give both.
    fn conflicts(&self, other: &Self) -> bool;
}

/// The taken things of one kind, by node.
#[derive(Debug, Clone)]
struct Taken<T> {
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
    fn version(&self) -> u64 {
        self.version
    }

    /// Restores an earlier version, after the changes since then were taken back.
    fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// A pod takes these.
    fn take(&mut self, rank: Rank, things: &[T]) {
        if !things.is_empty() {
            self.version += 1;
            self.by_rank.entry(rank).or_default().extend(things.iter().cloned());
        }
    }

    /// Gives these things back.
    fn give_back(&mut self, rank: Rank, things: &[T]) {
        if things.is_empty() {
            return;
        }
        self.version += 1;
        if let Some(taken) = self.by_rank.get_mut(&rank).or_defect("nothing is taken on the node") {
            for thing in things {
                if let Some(at) = taken.iter().position(|taken| taken == thing) {
                    taken.swap_remove(at);
                }
            }
            if taken.is_empty() {
                self.by_rank.remove(&rank);
            }
        }
    }

    /// The node is gone.
    fn forget(&mut self, rank: Rank) {
        self.by_rank.remove(&rank);
        self.version += 1;
    }

    /// True if one of these cannot be had on the node.
    fn is_closed_to(&self, rank: Rank, wanted: &[T]) -> bool {
        self.by_rank.get(&rank).is_some_and(|taken| conflict(wanted, taken))
    }

    /// The nodes where one of these cannot be had.
    fn closed_to(&self, wanted: &[T]) -> RankSet {
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
    fn are_its_own(&self, rank: Rank, things: &[T]) -> bool {
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

/// The host ports and disks that pods on nodes have for themselves.
#[derive(Debug, Clone, Default)]
pub struct TakenThings {
    ports: Taken<HostPort>,
    disks: Taken<Disk>,
    /// Those of pods that never end.
    ports_for_ever: Taken<HostPort>,
    disks_for_ever: Taken<Disk>,
}

impl TakenThings {
    /// Changes when a thing that pods of these constraints want for themselves is given back or
    /// taken.
    pub fn version(&self, constraints: &Constraints) -> u64 {
        let ports = self.ports.version() + self.ports_for_ever.version();
        let ports = if constraints.host_ports.is_empty() { 0 } else { ports };
        let disks = self.disks.version() + self.disks_for_ever.version();
        ports + if constraints.disks.is_empty() { 0 } else { disks }
    }

    /// Returns the versions of a moment, to restore them after a trial.
    pub(super) fn versions(&self) -> (u64, u64) {
        (self.ports.version(), self.disks.version())
    }

    /// Restores earlier versions, after the changes since then were taken back.
    pub(super) fn set_versions(&mut self, (ports, disks): (u64, u64)) {
        self.ports.set_version(ports);
        self.disks.set_version(disks);
    }

    /// A pod of these constraints takes its things on a node.
    pub(super) fn take(&mut self, rank: Rank, constraints: &Constraints) {
        self.ports.take(rank, &constraints.host_ports);
        self.disks.take(rank, &constraints.disks);
    }

    /// Takes back a [`TakenThings::take`].
    pub(crate) fn give_back(&mut self, rank: Rank, constraints: &Constraints) {
        self.ports.give_back(rank, &constraints.host_ports);
        self.disks.give_back(rank, &constraints.disks);
    }

    /// A pod that never ends has its things on a node.
    pub(crate) fn take_for_ever(&mut self, rank: Rank, constraints: &Constraints) {
        self.ports_for_ever.take(rank, &constraints.host_ports);
        self.disks_for_ever.take(rank, &constraints.disks);
    }

    /// Takes back a [`TakenThings::take_for_ever`].
    pub(crate) fn give_back_for_ever(&mut self, rank: Rank, constraints: &Constraints) {
        self.ports_for_ever.give_back(rank, &constraints.host_ports);
        self.disks_for_ever.give_back(rank, &constraints.disks);
    }

    /// In a copy: only pods that never end have something.
    pub(super) fn keep_for_ever(&mut self) {
        self.ports = self.ports_for_ever.clone();
        self.disks = self.disks_for_ever.clone();
    }

    /// The node is gone.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.ports.forget(rank);
        self.disks.forget(rank);
        self.ports_for_ever.forget(rank);
        self.disks_for_ever.forget(rank);
    }

    /// True if a wanted host port is taken on the node.
    pub(super) fn has_port_conflict(&self, rank: Rank, wanted: &Constraints) -> bool {
        self.ports.is_closed_to(rank, &wanted.host_ports)
    }

    /// True if a wanted disk is in use on the node.
    pub(super) fn has_disk_conflict(&self, rank: Rank, wanted: &Constraints) -> bool {
        self.disks.is_closed_to(rank, &wanted.disks)
    }

    /// The nodes where a wanted host port is taken.
    pub(super) fn closed_by_ports(&self, wanted: &Constraints) -> RankSet {
        self.ports.closed_to(&wanted.host_ports)
    }

    /// The nodes where a wanted disk is in use.
    pub(super) fn closed_by_disks(&self, wanted: &Constraints) -> RankSet {
        self.disks.closed_to(&wanted.disks)
    }

    /// The nodes where pods that never end have a wanted port or disk.
    pub(super) fn closed_for_ever(&self, wanted: &Constraints) -> RankSet {
        let mut closed = self.ports_for_ever.closed_to(&wanted.host_ports);
        closed.union_with(&self.disks_for_ever.closed_to(&wanted.disks));
        closed
    }

    /// True if a pod that is counted on the node shares none of its things with another there.
    pub fn are_its_own(&self, rank: Rank, constraints: &Constraints) -> bool {
        self.ports.are_its_own(rank, &constraints.host_ports)
            && self.disks.are_its_own(rank, &constraints.disks)
    }
}
