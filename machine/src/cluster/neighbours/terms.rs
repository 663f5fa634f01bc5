//! Terms about other pods that pods on nodes have: the different ones, and in which domains pods
//! have them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::interest::Interest;
use super::namespaces::Namespaces;
use super::tally::Tally;
use super::topology::{DomainTable, KeyId};
use crate::fluxion::Rank;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::PodTerm;

/// Terms of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Terms {
    /// The terms by number, which is never given to another term.
    by_number: BTreeMap<u32, Term>,
    numbers: HashMap<PodTerm, u32>,
    askers: Interest<u32>,
    next: u32,
}

/// A term that some pod on a node has.
#[derive(Debug, Clone)]
struct Term {
    says: PodTerm,
    /// The number of pods that have it.
    pods: usize,
    tally: Tally,
    /// The number of pods that have it and are only nominated to a node, by node.
    nominated: BTreeMap<Rank, u32>,
}

impl Terms {
    /// The labels that terms name.
    pub(super) fn keys(&self) -> BTreeSet<KeyId> {
        self.by_number.values().map(|term| term.tally.key).collect()
    }

    /// True if some term chooses namespaces by their labels.
    pub(super) fn choose_namespaces(&self) -> bool {
        self.by_number.values().any(|term| term.says.pods.namespaces.is_by_labels())
    }

    /// Adds this term of a pod on a node, with its weight. True if no pod had it.
    pub(super) fn add(
        &mut self,
        topology: &mut DomainTable,
        rank: Rank,
        says: &PodTerm,
        amount: u32,
    ) -> bool {
        let (term, is_new) = self.one_more(topology, says);
        term.tally.add(topology.domain(term.tally.key, rank), amount);
        is_new
    }

    /// Adds this term of a pod that is only nominated to a node. True if no pod had it.
    pub(super) fn nominate(
        &mut self,
        topology: &mut DomainTable,
        rank: Rank,
        says: &PodTerm,
    ) -> bool {
        let (term, is_new) = self.one_more(topology, says);
        *term.nominated.entry(rank).or_default() += 1;
        is_new
    }

    /// Lets these terms keep their numbers, whichever pod leaves its node, until [`Terms::unpin`].
    pub(super) fn pin(&mut self, topology: &mut DomainTable, terms: &[PodTerm]) {
        for says in terms {
            self.one_more(topology, says);
        }
    }

    /// Takes back a [`Terms::pin`].
    pub(super) fn unpin(&mut self, terms: &[PodTerm]) {
        for says in terms {
            self.one_less(says, |_| {});
        }
    }

    fn one_more(&mut self, topology: &mut DomainTable, says: &PodTerm) -> (&mut Term, bool) {
        let known = self.numbers.get(says).copied();
        let number = known.unwrap_or_else(|| self.know(topology, says));
        let term = self.by_number.get_mut(&number).expect("it is known");
        term.pods += 1;
        (term, known.is_none())
    }

    fn know(&mut self, topology: &mut DomainTable, says: &PodTerm) -> u32 {
        self.next += 1;
        self.numbers.insert(says.clone(), self.next);
        if let Some(requirements) = &says.pods.labels {
            self.askers.insert(requirements, self.next);
        }
        let tally = Tally::new(topology.key(&says.topology_key));
        self.by_number.insert(
            self.next,
            Term { says: says.clone(), pods: 0, tally, nominated: BTreeMap::new() },
        );
        self.next
    }

    /// Takes back a [`Terms::add`]. True if no pod has the term any more.
    pub(super) fn remove(
        &mut self,
        topology: &DomainTable,
        rank: Rank,
        says: &PodTerm,
        amount: u32,
    ) -> bool {
        self.one_less(says, |term| term.tally.remove(topology.domain(term.tally.key, rank), amount))
    }

    /// Takes back a [`Terms::nominate`]. True if no pod has the term any more.
    pub(super) fn withdraw(&mut self, rank: Rank, says: &PodTerm) -> bool {
        self.one_less(says, |term| {
            if let Some(count) = term.nominated.get_mut(&rank) {
                *count -= 1;
                if *count == 0 {
                    term.nominated.remove(&rank);
                }
            }
        })
    }

    fn one_less(&mut self, says: &PodTerm, take_back: impl FnOnce(&mut Term)) -> bool {
        let Some(number) = self.numbers.get(says).copied() else { return false };
        let Some(term) = self.by_number.get_mut(&number) else { return false };
        term.pods -= 1;
        take_back(term);
        if term.pods > 0 {
            return false;
        }
        self.by_number.remove(&number);
        self.numbers.remove(says);
        if let Some(requirements) = &says.pods.labels {
            self.askers.remove(requirements, number);
        }
        true
    }

    /// The numbers of the terms that select a pod, in order.
    pub(super) fn selecting(&self, pod: &Pod, namespaces: &Namespaces) -> Vec<u32> {
        let mut found: Vec<u32> = self.askers.of(&pod.labels).collect();
        found.retain(|number| {
            let says = self.by_number.get(number).map(|term| &term.says.pods);
            says.is_some_and(|pods| namespaces.selects(pods, &pod.id.key.namespace, &pod.labels))
        });
        found.sort_unstable();
        found
    }

    /// Returns the domains in which pods have a term.
    pub(super) fn tally(&self, number: u32) -> &Tally {
        &self.by_number[&number].tally
    }

    /// The nodes to which pods with a term are nominated, if the term means anything there.
    pub(super) fn nominated<'a>(
        &'a self,
        number: u32,
        topology: &'a DomainTable,
    ) -> impl Iterator<Item = Rank> + 'a {
        let Term { nominated, tally, .. } = &self.by_number[&number];
        nominated.keys().copied().filter(|rank| topology.domain(tally.key, *rank).is_some())
    }
}
