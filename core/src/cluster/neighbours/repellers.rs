//! Required anti-affinity of pods on nodes: its different terms, and in which domains pods have them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::interest::Interest;
use super::namespaces::Namespaces;
use super::tally::Tally;
use super::topology::{KeyId, Topology};
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::PodTerm;

/// All terms that pods on nodes have.
#[derive(Debug, Clone, Default)]
pub(super) struct Repellers {
    /// By number, which is never given to another term.
    terms: BTreeMap<u32, Term>,
    numbers: HashMap<PodTerm, u32>,
    askers: Interest<u32>,
    next_term: u32,
    terms_version: u64,
    version: u64,
}

/// An anti-affinity term that some pod on a node has.
#[derive(Debug, Clone)]
struct Term {
    says: PodTerm,
    /// How many pods have it.
    pods: usize,
    tally: Tally,
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
        self.terms.values().map(|term| term.tally.key).collect()
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
        self.terms.values().any(|term| term.says.pods.namespaces.is_by_labels())
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
            let number = self.numbers.get(says).copied().unwrap_or_else(|| self.know(topology, says));
            let term = self.terms.get_mut(&number).expect("it is known");
            term.pods += 1;
            term.tally.add(topology.domain(term.tally.key, rank), 1);
        }
    }

    fn know(&mut self, topology: &mut Topology, says: &PodTerm) -> u32 {
        self.next_term += 1;
        self.terms_version += 1;
        self.numbers.insert(says.clone(), self.next_term);
        if let Some(requirements) = &says.pods.labels {
            self.askers.insert(requirements, self.next_term);
        }
        let tally = Tally::new(topology.key(&says.topology_key));
        self.terms.insert(self.next_term, Term { says: says.clone(), pods: 0, tally });
        self.next_term
    }

    /// Takes back an [`Repellers::add`].
    pub(super) fn remove(&mut self, topology: &Topology, rank: Rank, terms: &[PodTerm]) {
        self.version += u64::from(!terms.is_empty());
        for says in terms {
            let Some(number) = self.numbers.get(says).copied() else { continue };
            let Some(term) = self.terms.get_mut(&number) else { continue };
            term.pods -= 1;
            term.tally.remove(topology.domain(term.tally.key, rank), 1);
            if term.pods == 0 {
                self.terms_version += 1;
                self.terms.remove(&number);
                self.numbers.remove(says);
                if let Some(requirements) = &says.pods.labels {
                    self.askers.remove(requirements, number);
                }
            }
        }
    }

    /// The numbers of the terms that repel a pod, in order.
    pub(super) fn repelling(&self, pod: &Pod, namespaces: &Namespaces) -> Vec<u32> {
        let mut found: Vec<u32> = self.askers.of(&pod.labels).collect();
        found.retain(|number| {
            let says = self.terms.get(number).map(|term| &term.says.pods);
            says.is_some_and(|pods| namespaces.selects(pods, &pod.id.key.namespace, &pod.labels))
        });
        found.sort_unstable();
        found
    }

    /// The node is in a domain that the pod is kept out of.
    pub(super) fn repel(&self, topology: &Topology, rank: Rank, pod: &Pod, namespaces: &Namespaces) -> bool {
        self.repelling(pod, namespaces).into_iter().any(|number| {
            let tally = &self.terms[&number].tally;
            topology.domain(tally.key, rank).is_some_and(|domain| tally.of(domain) > 0)
        })
    }

    /// The nodes in domains that the pod is kept out of.
    pub(super) fn closed(&self, topology: &Topology, pod: &Pod, namespaces: &Namespaces) -> RankSet {
        let mut closed = RankSet::new();
        for number in self.repelling(pod, namespaces) {
            self.terms[&number].tally.add_occupied_to(&mut closed, topology);
        }
        closed
    }
}
