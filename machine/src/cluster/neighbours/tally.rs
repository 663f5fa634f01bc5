//! Counts of pods by domain.

use std::collections::BTreeMap;

use super::topology::{Domain, DomainTable, KeyId};
use crate::fluxion::{Rank, RankSet};

/// How many pods there are in each domain of a label; pods on nodes without the label are not
/// counted.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    pub(super) key: KeyId,
    counts: Vec<u32>,
    all: u64,
}

/// The same on nodes that count for a spread constraint, with the least of all domains that have
/// such a node.
#[derive(Debug, Clone)]
pub(super) struct SpreadTally {
    pods: Tally,
    counting: RankSet,
    /// The number of such nodes in each domain.
    nodes: Vec<u32>,
    /// The number of domains with such nodes, by their number of pods.
    domains_by_count: BTreeMap<u32, u32>,
    domains: usize,
}

impl Tally {
    pub(super) fn new(key: KeyId) -> Self {
        Tally { key, counts: Vec::new(), all: 0 }
    }

    pub(super) fn of(&self, domain: Domain) -> u32 {
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }

    /// True if no domain has any pod.
    pub(super) fn is_empty(&self) -> bool {
        self.all == 0
    }

    pub(super) fn add(&mut self, domain: Option<Domain>, pods: u32) {
        if let Some(domain) = domain {
            if self.counts.len() <= domain as usize {
                self.counts.resize(domain as usize + 1, 0);
            }
            self.counts[domain as usize] += pods;
            self.all += u64::from(pods);
        }
    }

    pub(super) fn remove(&mut self, domain: Option<Domain>, pods: u32) {
        if let Some(domain) = domain {
            self.counts[domain as usize] -= pods;
            self.all -= u64::from(pods);
        }
    }

    /// Adds the nodes of all domains that have a pod.
    pub(super) fn add_occupied_to(&self, nodes: &mut RankSet, topology: &DomainTable) {
        for (domain, count) in (0..).zip(&self.counts) {
            if *count > 0 {
                nodes.union_with(topology.members(self.key, domain));
            }
        }
    }
}

impl SpreadTally {
    pub(super) fn new(key: KeyId) -> Self {
        SpreadTally {
            pods: Tally::new(key),
            counting: RankSet::new(),
            nodes: Vec::new(),
            domains_by_count: BTreeMap::new(),
            domains: 0,
        }
    }

    pub(super) fn key(&self) -> KeyId {
        self.pods.key
    }

    /// Pods in a domain, on nodes that count.
    pub(super) fn of(&self, domain: Domain) -> u32 {
        self.pods.of(domain)
    }

    /// True if the node counts.
    pub(super) fn counts_on(&self, rank: Rank) -> bool {
        self.counting.contains(rank)
    }

    /// The fewest pods of any domain; 0 if there are fewer domains than there should be.
    pub(super) fn least(&self, min_domains: usize) -> u32 {
        let least = self.domains_by_count.first_key_value().map_or(0, |(count, _)| *count);
        if self.domains < min_domains { 0 } else { least }
    }

    /// Returns the same if this domain had `more` additional pods.
    pub(super) fn least_with(&self, min_domains: usize, domain: Domain, more: u32) -> u32 {
        let least = self.least(min_domains);
        let is_lowest =
            more > 0 && self.of(domain) == least && self.domains_by_count.get(&least) == Some(&1);
        if !is_lowest
            || self.domains < min_domains
            || self.nodes.get(domain as usize).is_none_or(|nodes| *nodes == 0)
        {
            return least;
        }
        let next =
            self.domains_by_count.range(least + 1..).next().map_or(u32::MAX, |(count, _)| *count);
        next.min(least + more)
    }

    /// A node of this domain, without pods, counts from now on.
    pub(super) fn add_node(&mut self, rank: Rank, domain: Domain) {
        if self.nodes.len() <= domain as usize {
            self.nodes.resize(domain as usize + 1, 0);
        }
        self.counting.insert(rank);
        self.nodes[domain as usize] += 1;
        if self.nodes[domain as usize] == 1 {
            self.domains += 1;
            self.note(self.of(domain), true);
        }
    }

    /// A node of this domain, without pods, counts no more.
    pub(super) fn remove_node(&mut self, rank: Rank, domain: Domain) {
        self.counting.remove(rank);
        self.nodes[domain as usize] -= 1;
        if self.nodes[domain as usize] == 0 {
            self.domains -= 1;
            self.note(self.of(domain), false);
        }
    }

    pub(super) fn add(&mut self, domain: Domain, pods: u32) {
        self.note(self.of(domain), false);
        self.pods.add(Some(domain), pods);
        self.note(self.of(domain), true);
    }

    pub(super) fn remove(&mut self, domain: Domain, pods: u32) {
        self.note(self.of(domain), false);
        self.pods.remove(Some(domain), pods);
        self.note(self.of(domain), true);
    }

    /// Counts one domain more, or less, with this number of pods.
    fn note(&mut self, count: u32, more: bool) {
        let domains = self.domains_by_count.entry(count).or_default();
        if more {
            *domains += 1;
        } else {
            *domains -= 1;
            if *domains == 0 {
                self.domains_by_count.remove(&count);
            }
        }
    }
}
