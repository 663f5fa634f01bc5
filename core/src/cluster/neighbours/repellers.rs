//! Required anti-affinity of pods on nodes: whom it keeps off which nodes.

use std::collections::BTreeSet;

use super::namespaces::Namespaces;
use super::terms::Terms;
use super::topology::{KeyId, Topology};
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::PodTerm;

/// All terms that pods on nodes have.
#[derive(Debug, Clone, Default)]
pub(super) struct Repellers {
    terms: Terms,
    terms_version: u64,
    version: u64,
}

impl Repellers {
    /// Changes when the different terms do: who is repelled by which has to be asked anew.
    pub(super) fn terms_version(&self) -> u64 {
        self.terms_version
    }

    /// Changes when a pod that repels others comes to a node or leaves one.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The labels that terms name.
    pub(super) fn keys(&self) -> BTreeSet<KeyId> {
        self.terms.keys()
    }

    pub(super) fn versions(&self) -> (u64, u64) {
        (self.terms_version, self.version)
    }

    /// What has changed since is as it was then.
    pub(super) fn set_versions(&mut self, (terms_version, version): (u64, u64)) {
        (self.terms_version, self.version) = (terms_version, version);
    }

    /// Some term chooses namespaces by their labels.
    pub(super) fn choose_namespaces(&self) -> bool {
        self.terms.choose_namespaces()
    }

    /// Namespaces have other labels: whom terms repel has to be asked anew.
    pub(super) fn namespaces_changed(&mut self) {
        self.terms_version += 1;
        self.version += 1;
    }

    /// A pod with these terms is on a node.
    pub(super) fn add(&mut self, topology: &mut Topology, rank: Rank, terms: &[PodTerm]) {
        self.version += u64::from(!terms.is_empty());
        for says in terms {
            self.terms_version += u64::from(self.terms.add(topology, rank, says, 1));
        }
    }

    /// Takes back a [`Repellers::add`].
    pub(super) fn remove(&mut self, topology: &Topology, rank: Rank, terms: &[PodTerm]) {
        self.version += u64::from(!terms.is_empty());
        for says in terms {
            self.terms_version += u64::from(self.terms.remove(topology, rank, says, 1));
        }
    }

    /// The numbers of the terms that repel a pod, in order.
    pub(super) fn repelling(&self, pod: &Pod, namespaces: &Namespaces) -> Vec<u32> {
        self.terms.selecting(pod, namespaces)
    }

    /// The node is in a domain that the pod is kept out of.
    pub(super) fn repel(&self, topology: &Topology, rank: Rank, pod: &Pod, namespaces: &Namespaces) -> bool {
        self.repelling(pod, namespaces).into_iter().any(|number| {
            let tally = self.terms.tally(number);
            topology.domain(tally.key, rank).is_some_and(|domain| tally.of(domain) > 0)
        })
    }

    /// The nodes in domains that the pod is kept out of.
    pub(super) fn closed(&self, topology: &Topology, pod: &Pod, namespaces: &Namespaces) -> RankSet {
        let mut closed = RankSet::new();
        for number in self.repelling(pod, namespaces) {
            self.terms.tally(number).add_occupied_to(&mut closed, topology);
        }
        closed
    }
}
