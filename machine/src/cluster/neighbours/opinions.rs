//! The pods that pods on nodes would like to have near to them, or not: by their preferred affinity
//! and anti-affinity, and their required affinity, which others may heed or not.

use std::collections::BTreeSet;

use super::namespaces::Namespaces;
use super::tally::Tally;
use super::terms::Terms;
use super::topology::{DomainTable, KeyId};
use crate::fluxion::Rank;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::Constraints;

/// The weight of a pod that is selected by required affinity: kube-scheduler's
/// `hardPodAffinityWeight`.
const REQUIRED_WEIGHT: u32 = 1;

/// All terms that pods on nodes have, with the sums of their weights by domain.
#[derive(Debug, Clone, Default)]
pub(super) struct Opinions {
    welcoming: Terms,
    shunning: Terms,
}

impl Opinions {
    /// The labels that terms name.
    pub(super) fn keys(&self) -> BTreeSet<KeyId> {
        &self.welcoming.keys() | &self.shunning.keys()
    }

    /// A pod of these constraints comes to a node, or leaves it.
    pub(super) fn count(
        &mut self,
        topology: &mut DomainTable,
        rank: Rank,
        constraints: &Constraints,
        comes: bool,
    ) {
        let required = constraints.near.iter().map(|term| (false, REQUIRED_WEIGHT, term));
        let preferred = constraints.preferred_pods.iter();
        let preferred = preferred.map(|(weight, term)| (*weight < 0, weight.unsigned_abs(), term));
        for (shuns, weight, term) in required.chain(preferred) {
            let terms = if shuns { &mut self.shunning } else { &mut self.welcoming };
            if comes {
                terms.add(topology, rank, term, weight);
            } else {
                terms.remove(topology, rank, term, weight);
            }
        }
    }

    /// What those on nodes that have an opinion of a pod would like: by domain, and whether they
    /// shun it.
    pub(super) fn of(&self, pod: &Pod, namespaces: &Namespaces) -> Vec<(bool, &Tally)> {
        let selecting = |terms: &Terms| terms.selecting(pod, namespaces);
        let welcoming = selecting(&self.welcoming)
            .into_iter()
            .map(|number| (false, self.welcoming.tally(number)));
        let shunning =
            selecting(&self.shunning).into_iter().map(|number| (true, self.shunning.tally(number)));
        welcoming.chain(shunning).collect()
    }
}
