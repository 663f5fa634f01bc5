//! Required anti-affinity of pods on nodes: the pods that it keeps off, and the nodes.

use std::collections::BTreeSet;

use super::company::Until;
use super::namespaces::Namespaces;
use super::tally::Tally;
use super::terms::Terms;
use super::topology::{DomainTable, KeyId};
use crate::cluster::presence::Presence;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::{PodSelector, PodTerm};

/// Changed terms told apart at most; beyond it all pods have to be checked again, so the list stays
/// short.
const MOST_CHANGED: usize = 1_000;

/// All terms that pods on nodes have.
#[derive(Debug, Clone, Default)]
pub(super) struct Repellers {
    terms: Terms,
    /// The same of pods that never end.
    endless: Terms,
    changed: ChangedTerms,
    version: u64,
}

/// The different terms that have come or gone: for the pods that these select, the terms that repel
/// them have to be found again.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangedTerms {
    /// Those that select pods so.
    Of(Vec<PodSelector>),
    /// Any: namespaces have other labels, or too many terms have changed to tell.
    Any,
}

impl ChangedTerms {
    /// True if no pod has to be asked.
    pub fn is_none(&self) -> bool {
        matches!(self, ChangedTerms::Of(terms) if terms.is_empty())
    }

    fn push(&mut self, says: &PodTerm) {
        match self {
            ChangedTerms::Of(terms) if terms.len() < MOST_CHANGED => terms.push(says.pods.clone()),
            ChangedTerms::Of(_) => *self = ChangedTerms::Any,
            ChangedTerms::Any => {}
        }
    }

    /// Returns the number of terms: later ones can be forgotten by this number.
    fn len(&self) -> usize {
        match self {
            ChangedTerms::Of(terms) => terms.len(),
            ChangedTerms::Any => 0,
        }
    }

    /// Forgets the terms that have come since. A list that became too long stays so: then all pods
    /// are checked again, with the same result as before.
    fn truncate(&mut self, len: usize) {
        if let ChangedTerms::Of(terms) = self {
            terms.truncate(len);
        }
    }
}

impl Default for ChangedTerms {
    fn default() -> Self {
        ChangedTerms::Of(Vec::new())
    }
}

impl Repellers {
    /// Returns the different terms that have come or gone since they were last taken.
    pub(super) fn changed(&self) -> &ChangedTerms {
        &self.changed
    }

    /// The same, which is known from now on.
    pub(super) fn take_changed(&mut self) -> ChangedTerms {
        std::mem::take(&mut self.changed)
    }

    /// Changes when a pod that repels others comes to a node or leaves one.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The labels that terms name.
    pub(super) fn keys(&self) -> BTreeSet<KeyId> {
        self.terms.keys()
    }

    /// Returns the state for [`Repellers::set_as_before`].
    pub(super) fn as_now(&self) -> (usize, u64) {
        (self.changed.len(), self.version)
    }

    /// Restores an earlier state, after the changes since then were taken back.
    pub(super) fn set_as_before(&mut self, (changed, version): (usize, u64)) {
        self.changed.truncate(changed);
        self.version = version;
    }

    /// Lets these terms keep their numbers while a pod that has them is away for a question:
    /// waiting pods have noted the terms that repel them by these numbers.
    pub(super) fn pin(&mut self, topology: &mut DomainTable, terms: &[PodTerm]) {
        self.terms.pin(topology, terms);
    }

    /// Takes back a [`Repellers::pin`].
    pub(super) fn unpin(&mut self, terms: &[PodTerm]) {
        self.terms.unpin(terms);
    }

    /// True if some term chooses namespaces by their labels.
    pub(super) fn choose_namespaces(&self) -> bool {
        self.terms.choose_namespaces()
    }

    /// Notes that namespaces have other labels: for all pods, the terms that repel them have to be
    /// found again.
    pub(super) fn namespaces_changed(&mut self) {
        self.changed = ChangedTerms::Any;
        self.version += 1;
    }

    /// A pod with these terms is on a node, or nominated to it, and perhaps never ends.
    pub(super) fn add(
        &mut self,
        topology: &mut DomainTable,
        (rank, presence): (Rank, Presence),
        terms: &[PodTerm],
        endless: bool,
    ) {
        self.version += u64::from(!terms.is_empty());
        for says in terms {
            let is_new = match presence {
                Presence::There => self.terms.add(topology, rank, says, 1),
                Presence::Nominated => self.terms.nominate(topology, rank, says),
            };
            if is_new {
                self.changed.push(says);
            }
            if endless {
                self.endless.add(topology, rank, says, 1);
            }
        }
    }

    /// Takes back a [`Repellers::add`].
    pub(super) fn remove(
        &mut self,
        topology: &DomainTable,
        (rank, presence): (Rank, Presence),
        terms: &[PodTerm],
        endless: bool,
    ) {
        self.version += u64::from(!terms.is_empty());
        for says in terms {
            let was_last = match presence {
                Presence::There => self.terms.remove(topology, rank, says, 1),
                Presence::Nominated => self.terms.withdraw(rank, says),
            };
            if was_last {
                self.changed.push(says);
            }
            if endless {
                self.endless.remove(topology, rank, says, 1);
            }
        }
    }

    /// A pod with these terms, which is on a node, never ends, or has an end after all.
    pub(super) fn set_endless(
        &mut self,
        topology: &mut DomainTable,
        rank: Rank,
        terms: &[PodTerm],
        endless: bool,
    ) {
        self.version += u64::from(!terms.is_empty());
        for says in terms {
            if endless {
                self.endless.add(topology, rank, says, 1);
            } else {
                self.endless.remove(topology, rank, says, 1);
            }
        }
    }

    /// Forgets the terms of pods with an end: only pods that never end repel others.
    pub(super) fn keep_endless(&mut self) {
        self.terms.clone_from(&self.endless);
    }

    /// The numbers of the terms that repel a pod, in order.
    pub(super) fn repelling(&self, pod: &Pod, namespaces: &Namespaces) -> Vec<u32> {
        self.terms.selecting(pod, namespaces)
    }

    /// True if the node is in a domain that the pod is kept out of, or kept by a pod that is
    /// nominated to it.
    pub(super) fn repel(
        &self,
        topology: &DomainTable,
        rank: Rank,
        pod: &Pod,
        namespaces: &Namespaces,
    ) -> bool {
        self.repelling(pod, namespaces).into_iter().any(|number| {
            let tally = self.terms.tally(number);
            topology.domain(tally.key, rank).is_some_and(|domain| tally.of(domain) > 0)
                || self.terms.nominated(number, topology).any(|nominated| nominated == rank)
        })
    }

    /// The nodes in domains that the pod is kept out of, now or for ever; and now those that are
    /// kept by pods that are nominated to them.
    pub(super) fn closed(
        &self,
        topology: &DomainTable,
        pod: &Pod,
        namespaces: &Namespaces,
        until: Until,
    ) -> RankSet {
        let terms = match until {
            Until::Now => &self.terms,
            Until::ForEver => &self.endless,
        };
        let mut closed = RankSet::new();
        for number in terms.selecting(pod, namespaces) {
            terms.tally(number).add_occupied_to(&mut closed, topology);
            closed.union_with(&terms.nominated(number, topology).collect());
        }
        closed
    }

    /// The terms that repel a pod: by domain, how many pods have them, and of these how many never
    /// end.
    pub(super) fn tallies(&self, pod: &Pod, namespaces: &Namespaces) -> (Vec<&Tally>, Vec<&Tally>) {
        let of = |terms: &'_ Terms| -> Vec<u32> { terms.selecting(pod, namespaces) };
        let all = of(&self.terms).into_iter().map(|number| self.terms.tally(number)).collect();
        (all, of(&self.endless).into_iter().map(|number| self.endless.tally(number)).collect())
    }
}
