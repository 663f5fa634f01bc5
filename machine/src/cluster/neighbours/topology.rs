//! Which nodes are in which domain of which label: all nodes that have the same value of it are one
//! domain.
//!
//! Only labels that some term names are kept. Domains have numbers, so that counts of pods are
//! arrays.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cluster::node::Node;
use crate::fluxion::{Rank, RankSet};

/// A label that spans domains, by number.
pub type KeyId = usize;

/// A domain of a label, by number. May be given to another one when no node is in it any more.
pub(crate) type Domain = u32;

const NOWHERE: Domain = Domain::MAX;

/// The labels that terms name.
#[derive(Debug, Clone, Default)]
pub(super) struct DomainTable {
    nodes: Vec<Option<Arc<Node>>>,
    keys: Vec<Key>,
    by_label: HashMap<Arc<str>, KeyId>,
    free: Vec<KeyId>,
}

#[derive(Debug, Clone, Default)]
struct Key {
    label: Arc<str>,
    domains: HashMap<Arc<str>, Domain>,
    /// The domain of each node.
    of_rank: Vec<Domain>,
    /// The nodes of each domain.
    members: Vec<RankSet>,
    /// Nodes that have the label.
    labelled: RankSet,
    free: Vec<Domain>,
}

impl DomainTable {
    /// The number of a label, which is kept from now on.
    pub(super) fn key(&mut self, label: &Arc<str>) -> KeyId {
        if let Some(known) = self.by_label.get(label) {
            return *known;
        }
        let mut key = Key { label: Arc::clone(label), ..Key::default() };
        for (node, rank) in self.nodes.iter().zip(0..) {
            if let Some(node) = node {
                key.enter(rank, node);
            }
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.keys.push(Key::default());
            self.keys.len() - 1
        });
        self.keys[id] = key;
        self.by_label.insert(Arc::clone(label), id);
        id
    }

    /// Forgets all labels but these.
    pub(super) fn retain(&mut self, used: &BTreeSet<KeyId>) {
        let (keys, free) = (&mut self.keys, &mut self.free);
        self.by_label.retain(|_, id| {
            let stays = used.contains(id);
            if !stays {
                keys[*id] = Key::default();
                free.push(*id);
            }
            stays
        });
    }

    pub(super) fn node(&self, rank: Rank) -> Option<&Arc<Node>> {
        self.nodes.get(rank as usize)?.as_ref()
    }

    /// Every node.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (Rank, &Arc<Node>)> {
        (0..).zip(&self.nodes).filter_map(|(rank, node)| Some((rank, node.as_ref()?)))
    }

    pub(super) fn put(&mut self, rank: Rank, node: &Arc<Node>) {
        self.take(rank);
        if self.nodes.len() <= rank as usize {
            self.nodes.resize(rank as usize + 1, None);
        }
        self.nodes[rank as usize] = Some(Arc::clone(node));
        for key in &mut self.keys {
            key.enter(rank, node);
        }
    }

    pub(super) fn take(&mut self, rank: Rank) {
        if self.nodes.get_mut(rank as usize).and_then(Option::take).is_some() {
            for key in &mut self.keys {
                key.leave(rank);
            }
        }
    }

    /// The domain of a node; `None` if it lacks the label.
    pub(super) fn domain(&self, key: KeyId, rank: Rank) -> Option<Domain> {
        self.keys[key].of_rank.get(rank as usize).copied().filter(|domain| *domain != NOWHERE)
    }

    /// The nodes of a domain.
    pub(super) fn members(&self, key: KeyId, domain: Domain) -> &RankSet {
        &self.keys[key].members[domain as usize]
    }

    /// All nodes in the domains of these.
    pub(super) fn around(&self, key: KeyId, nodes: &RankSet) -> RankSet {
        let mut around = RankSet::new();
        for rank in nodes.iter() {
            // Where one of a domain was, all of it is there.
            if !around.contains(rank)
                && let Some(domain) = self.domain(key, rank)
            {
                around.union_with(self.members(key, domain));
            }
        }
        around
    }

    /// Nodes that have the label.
    pub(super) fn labelled(&self, key: KeyId) -> &RankSet {
        &self.keys[key].labelled
    }

    /// True if each of these nodes is a domain for itself.
    pub(super) fn tells_apart(&self, key: KeyId, nodes: &RankSet) -> bool {
        let Key { domains, labelled, .. } = &self.keys[key];
        domains.len() == labelled.len() && nodes.is_subset(labelled)
    }

    /// Domains with nodes.
    pub(super) fn domains(&self, key: KeyId) -> impl Iterator<Item = Domain> {
        (0..)
            .zip(&self.keys[key].members)
            .filter(|(_, members)| !members.is_empty())
            .map(|(domain, _)| domain)
    }
}

impl Key {
    fn enter(&mut self, rank: Rank, node: &Node) {
        // A node without the label is in no domain.
        let Some(value) = node.label(&self.label) else { return };
        let domain = self.domains.get(value).copied().unwrap_or_else(|| {
            let domain = self.free.pop().unwrap_or_else(|| {
                self.members.push(RankSet::new());
                Domain::try_from(self.members.len() - 1).expect("no more domains than nodes")
            });
            self.domains.insert(value.into(), domain);
            domain
        });
        if self.of_rank.len() <= rank as usize {
            self.of_rank.resize(rank as usize + 1, NOWHERE);
        }
        self.of_rank[rank as usize] = domain;
        self.members[domain as usize].insert(rank);
        self.labelled.insert(rank);
    }

    fn leave(&mut self, rank: Rank) {
        // The same holds for a node that leaves.
        let Some(of_rank) =
            self.of_rank.get_mut(rank as usize).filter(|domain| **domain != NOWHERE)
        else {
            return;
        };
        let domain = std::mem::replace(of_rank, NOWHERE);
        self.labelled.remove(rank);
        self.members[domain as usize].remove(rank);
        if self.members[domain as usize].is_empty() {
            self.domains.retain(|_, known| *known != domain);
            self.free.push(domain);
        }
    }
}
