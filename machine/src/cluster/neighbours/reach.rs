//! How far pods reach: the nodes around others to which they may not come, or draw others.

use std::sync::Arc;

use super::crowd;
use super::namespaces::Namespaces;
use super::topology::{DomainTable, KeyId};
use crate::fluxion::RankSet;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::{PodSelector, PodTerm, SpreadConstraint};

/// The labels of nodes and namespaces, by which terms reach.
pub struct Reach<'a> {
    pub(super) topology: &'a mut DomainTable,
    pub(super) namespaces: &'a Namespaces,
}

impl Reach<'_> {
    /// The nodes on which a pod with these terms of required anti-affinity would keep one of these
    /// pods off some of these nodes.
    pub fn out_of_reach<'a>(
        &mut self,
        terms: &[PodTerm],
        pods: impl Iterator<Item = &'a Arc<Pod>> + Clone,
        nodes: &RankSet,
    ) -> RankSet {
        self.around(terms.iter().map(|term| (&term.pods, &term.topology_key)), pods, nodes)
    }

    /// The nodes in the domains of these on which one of these pods would count for these
    /// constraints.
    pub fn crowded_by<'a>(
        &mut self,
        spreads: &[SpreadConstraint],
        pods: impl Iterator<Item = &'a Arc<Pod>> + Clone,
        nodes: &RankSet,
    ) -> RankSet {
        let count = spreads.iter().filter(|spread| !crowd::selects_all(&spread.pods));
        self.around(count.map(|spread| (&spread.pods, &spread.topology_key)), pods, nodes)
    }

    /// Returns the nodes in other domains than these on which one of these pods would attract pods
    /// with these terms.
    pub fn drawn_away_by<'a>(
        &mut self,
        near: &[PodTerm],
        pods: impl Iterator<Item = &'a Arc<Pod>> + Clone,
        nodes: &RankSet,
    ) -> RankSet {
        let selects = |term: &PodTerm, pod: &Pod| {
            self.namespaces.selects_as_own(&term.pods, &pod.id.key.namespace, &pod.labels)
        };
        let mut elsewhere = RankSet::new();
        if !pods.clone().any(|pod| near.iter().all(|term| selects(term, pod))) {
            return elsewhere;
        }
        for term in near {
            let key = self.topology.key(&term.topology_key);
            let mut others = self.topology.labelled(key).clone();
            others.subtract(&self.topology.around(key, nodes));
            elsewhere.union_with(&others);
        }
        elsewhere
    }

    /// The labels of which one of these pods may not be in a domain with a pod that has these terms
    /// of required anti-affinity.
    pub fn kept_out_of<'a>(
        &mut self,
        terms: &[PodTerm],
        pods: impl Iterator<Item = &'a Arc<Pod>>,
    ) -> Vec<KeyId> {
        let mut keys: Vec<KeyId> = pods.flat_map(|pod| self.kept_out(terms, pod)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the labels of those terms of required anti-affinity that select a pod: the pod may
    /// not be in their domains then.
    fn kept_out(&mut self, terms: &[PodTerm], pod: &Pod) -> Vec<KeyId> {
        let selects = |term: &&PodTerm| {
            self.namespaces.selects_as_own(&term.pods, &pod.id.key.namespace, &pod.labels)
        };
        let labels: Vec<Arc<str>> =
            terms.iter().filter(selects).map(|term| Arc::clone(&term.topology_key)).collect();
        labels.iter().map(|label| self.topology.key(label)).collect()
    }

    /// Returns all nodes of the domains of these nodes, by the labels with a selector that selects
    /// one of the pods.
    fn around<'a, 'b>(
        &mut self,
        selectors: impl Iterator<Item = (&'b PodSelector, &'b Arc<str>)>,
        pods: impl Iterator<Item = &'a Arc<Pod>> + Clone,
        nodes: &RankSet,
    ) -> RankSet {
        let mut around = RankSet::new();
        for (selector, label) in selectors {
            let is_selected = |pod: &Arc<Pod>| {
                self.namespaces.selects_as_own(selector, &pod.id.key.namespace, &pod.labels)
            };
            if pods.clone().any(is_selected) {
                let key = self.topology.key(label);
                around.union_with(&self.topology.around(key, nodes));
            }
        }
        around
    }
}
