//! The nodes as one table: a rank for each, and its use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shared_map::SharedMap;

use super::filters::Rejection;
use super::node::Node;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::{NodeName, Pod, Resources, Shape};

/// All nodes, by rank and by name.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    by_name: SharedMap<NodeName, Rank>,
    /// Shared with copies of the cluster, in which the plan is run forward, as long as neither
    /// changes it.
    by_rank: Vec<Option<Arc<Entry>>>,
    free_ranks: BTreeSet<Rank>,
    present: RankSet,
    next_generation: u64,
    version: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    node: Arc<Node>,
    generation: u64,
    used: Resources,
}

/// The effect of a node's change on its pods.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// It is new, at this rank.
    Added(Rank),
    /// It was deleted and created again: the old rank is void.
    Replaced {
        /// The rank that is void.
        old: Rank,
        /// The rank of the new node.
        new: Rank,
    },
    /// Same node; `allocatable` differs in these resources.
    Changed {
        /// The node's rank.
        rank: Rank,
        /// New sizes of the resources that differ.
        resized: Vec<(Arc<str>, u64)>,
    },
    /// Nothing that matters here has changed.
    Same,
}

impl Nodes {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True without nodes.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The rank of a node.
    pub fn rank(&self, name: &str) -> Option<Rank> {
        self.by_name.get(name).copied()
    }

    /// The node of a rank.
    pub fn node(&self, rank: Rank) -> Option<&Arc<Node>> {
        self.entry(rank).map(|entry| &entry.node)
    }

    /// Changes whenever a rank is given to another node: an allocation of an older generation is
    /// void.
    pub fn generation(&self, rank: Rank) -> Option<u64> {
        self.entry(rank).map(|entry| entry.generation)
    }

    /// Returns the used amounts of a node.
    pub fn used(&self, rank: Rank) -> Option<&Resources> {
        self.entry(rank).map(|entry| &entry.used)
    }

    /// Counts changes of nodes: what could never fit may fit when it differs.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the free amounts of these nodes together.
    pub fn free_on(&self, nodes: &RankSet) -> Resources {
        let mut free = Resources::new();
        for entry in nodes.iter().filter_map(|rank| self.entry(rank)) {
            let mut of_node = entry.node.allocatable.clone();
            of_node.subtract(&entry.used);
            free.add(&of_node);
        }
        free
    }

    /// Every node with its rank, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, Rank)> {
        self.by_name.iter().map(|(name, rank)| (name, *rank))
    }

    /// Nodes by name, those after this one.
    pub fn names_after(&self, last: Option<&NodeName>) -> impl Iterator<Item = &NodeName> {
        let is_before = move |name: &NodeName| last.is_some_and(|last| name <= last);
        self.by_name.from(is_before).map(|(name, _)| name)
    }

    /// Every node.
    pub fn present(&self) -> &RankSet {
        &self.present
    }

    /// Returns how many pods of this shape the node has room for.
    pub fn room(&self, rank: Rank, shape: &Shape) -> u64 {
        self.used(rank).map_or(0, |used| self.room_beside(rank, shape, used))
    }

    /// True if the node holds no more than it has, of every resource that `requests` names.
    pub fn holds(&self, rank: Rank, requests: &Resources) -> bool {
        self.entry(rank).is_some_and(|entry| {
            requests
                .iter()
                .all(|(name, _)| entry.used.get(name) <= entry.node.allocatable.get(name))
        })
    }

    /// True if the node would have room for these requests after the amounts `freed` were given
    /// back.
    pub fn would_hold(&self, rank: Rank, requests: &Resources, freed: &Resources) -> bool {
        self.takes(rank, requests, |entry, name| {
            entry.used.get(name).saturating_sub(freed.get(name))
        })
    }

    /// True if the node has room for these requests beside the amounts `taken`.
    pub fn has_room_beside(&self, rank: Rank, requests: &Resources, taken: &Resources) -> bool {
        self.takes(rank, requests, |_, name| taken.get(name))
    }

    /// Returns the same for a node with this use.
    pub(crate) fn room_beside(&self, rank: Rank, shape: &Shape, used: &Resources) -> u64 {
        let Some(node) = self.node(rank) else { return 0 };
        let asked = shape.requests.iter().filter(|(_, amount)| *amount > 0);
        let rooms = asked.map(|(name, amount)| {
            node.allocatable.get(name).saturating_sub(used.get(name)) / amount
        });
        rooms.min().unwrap_or(u64::MAX)
    }

    /// True if the node has room for these requests beside the use of each resource.
    fn takes(&self, rank: Rank, requests: &Resources, used: impl Fn(&Entry, &str) -> u64) -> bool {
        self.entry(rank).is_some_and(|entry| {
            let has = |name: &str| entry.node.allocatable.get(name);
            requests
                .iter()
                .all(|(name, amount)| used(entry, name).saturating_add(amount) <= has(name))
        })
    }

    /// Returns all of them, in order of rank.
    pub(super) fn all(&self) -> impl Iterator<Item = (Rank, &Node)> {
        self.by_rank
            .iter()
            .zip(0..)
            .filter_map(|(entry, rank)| Some((rank, &*entry.as_ref()?.node)))
    }

    fn entry(&self, rank: Rank) -> Option<&Entry> {
        self.by_rank.get(rank as usize)?.as_deref()
    }

    fn entry_mut(&mut self, rank: Rank) -> Option<&mut Entry> {
        self.by_rank.get_mut(rank as usize)?.as_mut().map(Arc::make_mut)
    }

    /// Returns the nodes among these that have too little left for the pod, by what they lack.
    pub(crate) fn without_room(&self, nodes: &RankSet, pod: &Pod) -> Vec<(RankSet, Rejection)> {
        let mut short = BTreeMap::<Rejection, RankSet>::new();
        for rank in nodes.iter() {
            for rejection in self.short_of(rank, pod) {
                short.entry(rejection).or_default().insert(rank);
            }
        }
        short.into_iter().map(|(rejection, nodes)| (nodes, rejection)).collect()
    }

    /// Returns the resources of which too little is left on a node for the pod.
    pub(crate) fn short_of(&self, rank: Rank, pod: &Pod) -> Vec<Rejection> {
        let Some(Entry { node, used, .. }) = self.entry(rank) else { return Vec::new() };
        let short = pod.shape.requests.iter().filter(|(name, amount)| {
            *amount > 0 && used.get(name).saturating_add(*amount) > node.allocatable.get(name)
        });
        short.map(|(name, _)| Rejection::insufficient(name)).collect()
    }

    /// Gives a new node a rank.
    pub(super) fn add(&mut self, node: &Arc<Node>) -> Rank {
        let rank = self.free_ranks.pop_first().unwrap_or_else(|| {
            self.by_rank.push(None);
            Rank::try_from(self.by_rank.len() - 1).expect("fewer than 2^32 nodes")
        });
        self.next_generation += 1;
        self.version += 1;
        let entry = Entry {
            node: Arc::clone(node),
            generation: self.next_generation,
            used: Resources::new(),
        };
        self.by_rank[rank as usize] = Some(Arc::new(entry));
        self.by_name.insert(node.name.clone(), rank);
        self.present.insert(rank);
        rank
    }

    /// Takes up the newest state of a node, and returns the one before.
    pub(super) fn replace(&mut self, rank: Rank, node: &Arc<Node>) -> Option<Arc<Node>> {
        let entry = self.entry_mut(rank)?;
        let old = std::mem::replace(&mut entry.node, Arc::clone(node));
        self.version += 1;
        Some(old)
    }

    /// Forgets a node, and all that was used of it.
    pub(super) fn remove(&mut self, name: &NodeName) -> Option<Rank> {
        let rank = self.by_name.remove(name)?;
        self.version += 1;
        self.by_rank[rank as usize] = None;
        self.free_ranks.insert(rank);
        self.present.remove(rank);
        Some(rank)
    }

    /// Lets all answers about nodes be asked for again.
    pub(super) fn start_over(&mut self) {
        self.version += 1;
    }

    /// Changes the used amounts of a node. False if there is none of this rank.
    pub(super) fn change_use(&mut self, rank: Rank, change: impl FnOnce(&mut Resources)) -> bool {
        self.entry_mut(rank).map(|entry| change(&mut entry.used)).is_some()
    }
}

/// Returns the resources of which there is another amount now, with it.
pub(super) fn differing(old: &Resources, new: &Resources) -> Vec<(Arc<str>, u64)> {
    let mut out: Vec<(Arc<str>, u64)> = new
        .iter()
        .filter(|(name, size)| old.get(name) != *size)
        .map(|(name, size)| (Arc::clone(name), size))
        .collect();
    out.extend(
        old.iter().filter(|(name, _)| new.get(name) == 0).map(|(name, _)| (Arc::clone(name), 0)),
    );
    out
}
