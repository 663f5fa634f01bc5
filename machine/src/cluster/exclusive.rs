//! Things of a node that a pod has for itself: host ports, disks.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::defect::OrDefect;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::constraints::{Constraints, Disk, HostPort};

/// Something that not any two pods on a node can have.
pub(crate) trait Exclusive: Clone + PartialEq + Debug {
    /// True if one node cannot give both.
    fn conflicts(&self, other: &Self) -> bool;
}

/// Things of one kind that are taken, by node.
#[derive(Debug, Clone)]
struct ByNode<T> {
    by_rank: BTreeMap<Rank, Vec<T>>,
    version: u64,
}

impl<T> Default for ByNode<T> {
    fn default() -> Self {
        ByNode { by_rank: BTreeMap::new(), version: 0 }
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

impl<T: Exclusive> ByNode<T> {
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

    /// Sets the taken things of a node.
    fn set(&mut self, rank: Rank, things: Vec<T>) {
        self.version += 1;
        if things.is_empty() {
            self.by_rank.remove(&rank);
        } else {
            self.by_rank.insert(rank, things);
        }
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

    /// True if a pod that has taken these shares none of them: each is taken on the node exactly
    /// once, by itself.
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

/// The things of one kind that pods have taken.
#[derive(Debug, Clone)]
pub(crate) struct Taken<T> {
    now: ByNode<T>,
    /// Taken by pods that never end.
    for_ever: ByNode<T>,
}

impl<T> Default for Taken<T> {
    fn default() -> Self {
        Taken { now: ByNode::default(), for_ever: ByNode::default() }
    }
}

impl<T: Exclusive> Taken<T> {
    /// Grows when a thing of the kind is given back or taken, for those that want one.
    pub(crate) fn version(&self, wanted: &[T]) -> u64 {
        if wanted.is_empty() { 0 } else { self.now.version + self.for_ever.version }
    }

    /// True if one of these cannot be had on the node.
    pub(crate) fn is_closed_to(&self, rank: Rank, wanted: &[T]) -> bool {
        self.now.is_closed_to(rank, wanted)
    }

    /// Returns the nodes where one of these cannot be had.
    pub(crate) fn closed_to(&self, wanted: &[T]) -> RankSet {
        self.now.closed_to(wanted)
    }

    /// Returns the nodes where pods that never end have one of these.
    pub(crate) fn closed_for_ever_to(&self, wanted: &[T]) -> RankSet {
        self.for_ever.closed_to(wanted)
    }

    /// True if a pod that is counted on the node shares none of its things with another there.
    pub(crate) fn are_its_own(&self, rank: Rank, things: &[T]) -> bool {
        self.now.are_its_own(rank, things)
    }

    /// Returns the differences between the things that are counted on a node and these.
    pub(crate) fn differences<'a>(
        &self,
        rank: Rank,
        expected: impl Iterator<Item = &'a T>,
    ) -> Vec<String>
    where
        T: 'a,
    {
        let mut counted = self.now.by_rank.get(&rank).cloned().unwrap_or_default();
        let mut differences = Vec::new();
        for thing in expected {
            match counted.iter().position(|other| other == thing) {
                Some(at) => drop(counted.swap_remove(at)),
                None => differences.push(format!("{thing:?}: taken by a pod, and not counted")),
            }
        }
        let stray = counted.iter().map(|thing| format!("{thing:?}: counted, and taken by no pod"));
        differences.extend(stray);
        differences
    }

    /// Sets the taken things of a node, whatever was counted so far.
    pub(crate) fn set(&mut self, rank: Rank, taken: Vec<T>) {
        self.now.set(rank, taken);
    }
}

/// The host ports and disks that pods on nodes have for themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct TakenThings {
    pub(crate) ports: Taken<HostPort>,
    pub(crate) disks: Taken<Disk>,
}

impl TakenThings {
    /// Returns the versions of a moment, to restore them after a trial.
    pub(super) fn versions(&self) -> (u64, u64) {
        (self.ports.now.version, self.disks.now.version)
    }

    /// Restores earlier versions, after the changes since then were taken back.
    pub(super) fn set_versions(&mut self, (ports, disks): (u64, u64)) {
        (self.ports.now.version, self.disks.now.version) = (ports, disks);
    }

    /// A pod of these constraints takes its things on a node.
    pub(super) fn take(&mut self, rank: Rank, constraints: &Constraints) {
        self.ports.now.take(rank, &constraints.host_ports);
        self.disks.now.take(rank, &constraints.disks);
    }

    /// Takes back a [`TakenThings::take`].
    pub(crate) fn give_back(&mut self, rank: Rank, constraints: &Constraints) {
        self.ports.now.give_back(rank, &constraints.host_ports);
        self.disks.now.give_back(rank, &constraints.disks);
    }

    /// A pod that never ends has its things on a node.
    pub(crate) fn take_for_ever(&mut self, rank: Rank, constraints: &Constraints) {
        self.ports.for_ever.take(rank, &constraints.host_ports);
        self.disks.for_ever.take(rank, &constraints.disks);
    }

    /// Takes back a [`TakenThings::take_for_ever`].
    pub(crate) fn give_back_for_ever(&mut self, rank: Rank, constraints: &Constraints) {
        self.ports.for_ever.give_back(rank, &constraints.host_ports);
        self.disks.for_ever.give_back(rank, &constraints.disks);
    }

    /// In a copy: only pods that never end have something.
    pub(super) fn keep_for_ever(&mut self) {
        self.ports.now = self.ports.for_ever.clone();
        self.disks.now = self.disks.for_ever.clone();
    }

    /// The node is gone.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.ports.now.forget(rank);
        self.disks.now.forget(rank);
        self.ports.for_ever.forget(rank);
        self.disks.for_ever.forget(rank);
    }
}
