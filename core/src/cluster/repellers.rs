//! Required anti-affinity of pods on nodes: its different terms, and in which topology domains pods have them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Node;
use crate::fluxion::Rank;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::AntiAffinityTerm;

/// All terms that pods on nodes have.
#[derive(Debug, Default)]
pub(super) struct Repellers {
    /// By number, which is never given to another term.
    terms: BTreeMap<u32, Term>,
    numbers: HashMap<AntiAffinityTerm, u32>,
    next_term: u32,
    terms_version: u64,
    version: u64,
}

/// An anti-affinity term that some pod on a node has.
#[derive(Debug)]
struct Term {
    says: AntiAffinityTerm,
    /// Pods that have it, by node.
    pods: BTreeMap<Rank, usize>,
    /// The same by domain; nodes that are in none keep nobody away.
    domains: BTreeMap<Arc<str>, usize>,
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

    /// A pod with these terms is on a node.
    pub(super) fn add(&mut self, rank: Rank, node: &Node, terms: &[AntiAffinityTerm]) {
        self.version += u64::from(!terms.is_empty());
        for says in terms {
            let number = self.numbers.get(says).copied().unwrap_or_else(|| {
                self.next_term += 1;
                self.terms_version += 1;
                self.numbers.insert(says.clone(), self.next_term);
                self.next_term
            });
            let new = || Term { says: says.clone(), pods: BTreeMap::new(), domains: BTreeMap::new() };
            let term = self.terms.entry(number).or_insert_with(new);
            *term.pods.entry(rank).or_default() += 1;
            term.enter(node, 1);
        }
    }

    /// Takes back an [`Repellers::add`].
    pub(super) fn remove(&mut self, rank: Rank, node: &Node, terms: &[AntiAffinityTerm]) {
        self.version += u64::from(!terms.is_empty());
        for says in terms {
            let Some(number) = self.numbers.get(says).copied() else { continue };
            let Some(term) = self.terms.get_mut(&number) else { continue };
            if take(&mut term.pods, &rank, 1) {
                term.leave(node, 1);
            }
        }
        self.forget_unused(terms);
    }

    /// The node is gone, with all pods on it.
    pub(super) fn remove_node(&mut self, rank: Rank, node: &Node) {
        self.version += 1;
        let mut unused = Vec::new();
        for term in self.terms.values_mut() {
            if let Some(pods) = term.pods.remove(&rank) {
                term.leave(node, pods);
                if term.pods.is_empty() {
                    unused.push(term.says.clone());
                }
            }
        }
        self.forget_unused(&unused);
    }

    /// The node may be in other domains than before.
    pub(super) fn change_node(&mut self, rank: Rank, old: &Node, new: &Node) {
        for term in self.terms.values_mut() {
            if let Some(pods) = term.pods.get(&rank).copied() {
                term.leave(old, pods);
                term.enter(new, pods);
            }
        }
    }

    fn forget_unused(&mut self, terms: &[AntiAffinityTerm]) {
        for says in terms {
            let number = self.numbers.get(says).copied();
            if let Some(number) = number.filter(|number| self.terms.get(number).is_none_or(|term| term.pods.is_empty()))
            {
                self.terms_version += 1;
                self.numbers.remove(says);
                self.terms.remove(&number);
            }
        }
    }

    /// The numbers of the terms that repel a pod.
    pub(super) fn repelling<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = u32> + 'a {
        self.against(pod).map(|(number, _)| number)
    }

    /// The node is in a domain that the pod is kept out of.
    pub(super) fn repel(&self, node: &Node, pod: &Pod) -> bool {
        self.against(pod).any(|(_, term)| term.is_in_domain_of(node))
    }

    /// Which of these nodes are in a domain that the pod is kept out of.
    pub(super) fn closed<'a>(&self, nodes: impl Iterator<Item = (Rank, &'a Node)>, pod: &Pod) -> Vec<Rank> {
        let terms: Vec<&Term> = self.against(pod).map(|(_, term)| term).collect();
        nodes.filter(|(_, node)| terms.iter().any(|term| term.is_in_domain_of(node))).map(|(rank, _)| rank).collect()
    }

    fn against<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = (u32, &'a Term)> + 'a {
        let all = self.terms.iter().map(|(number, term)| (*number, term));
        all.filter(|(_, term)| term.says.repels(&pod.id.key.namespace, &pod.labels))
    }
}

impl Term {
    fn enter(&mut self, node: &Node, pods: usize) {
        if let Some(domain) = node.label(&self.says.topology_key) {
            match self.domains.get_mut(domain) {
                Some(known) => *known += pods,
                None => drop(self.domains.insert(Arc::from(domain), pods)),
            }
        }
    }

    fn leave(&mut self, node: &Node, pods: usize) {
        if let Some(domain) = node.label(&self.says.topology_key) {
            take(&mut self.domains, domain, pods);
        }
    }

    fn is_in_domain_of(&self, node: &Node) -> bool {
        node.label(&self.says.topology_key).is_some_and(|domain| self.domains.contains_key(domain))
    }
}

/// Takes something off a count, which goes when nothing is left. False if there was none.
fn take<K: Ord + std::borrow::Borrow<Q>, Q: Ord + ?Sized>(
    counts: &mut BTreeMap<K, usize>,
    key: &Q,
    less: usize,
) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count = count.saturating_sub(less);
    if *count == 0 {
        counts.remove(key);
    }
    true
}
