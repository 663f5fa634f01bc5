//! The pods on nodes, as selectors see them; by node, and by those of their labels that a selector
//! has looked for.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use shared_map::SharedRows;

use super::interest::anchor;
use crate::cluster::presence::Presence;
use crate::fluxion::Rank;
use fluxqueue_workload::constraints::Requirement;
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::{Pod, Shape, Uid};

/// A pod on a node. The number may be given to another one when it has left.
pub type OccupantId = u32;

/// A pod on a node, as selectors see it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Occupant {
    pub(super) uid: Uid,
    pub(super) rank: Rank,
    pub(super) presence: Presence,
    pub(super) namespace: Arc<str>,
    pub(super) labels: Labels,
    /// True if it is being deleted: it counts for affinity, but not for spread.
    pub(super) deleting: bool,
    /// True if it never ends.
    pub(super) endless: bool,
    pub(super) shape: Arc<Shape>,
}

/// All pods on nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Occupants {
    slots: SharedRows<Option<Occupant>>,
    free: Vec<OccupantId>,
    by_rank: Vec<Arc<Vec<OccupantId>>>,
    /// The pods by label, for labels that a selector has looked for.
    watched: HashMap<Arc<str>, HashMap<Arc<str>, BTreeSet<OccupantId>>>,
}

impl Occupant {
    pub(super) fn of(pod: &Pod, rank: Rank, presence: Presence, endless: bool) -> Self {
        Occupant {
            uid: pod.id.uid.clone(),
            rank,
            presence,
            namespace: Arc::clone(&pod.id.key.namespace),
            labels: Arc::clone(&pod.labels),
            deleting: pod.deleting,
            endless,
            shape: Arc::clone(&pod.shape),
        }
    }
}

impl Occupants {
    pub(super) fn get(&self, id: OccupantId) -> Option<&Occupant> {
        self.slots.get(id as usize)?.as_ref()
    }

    /// Sets whether a pod never ends.
    pub(super) fn set_endless(&mut self, id: OccupantId, endless: bool) {
        if let Some(Some(occupant)) = self.slots.get_mut(id as usize) {
            occupant.endless = endless;
        }
    }

    /// Returns the pods that never end.
    pub(super) fn endless(&self) -> impl Iterator<Item = &Occupant> {
        self.slots.iter().flatten().filter(|pod| pod.endless)
    }

    /// The pods on a node.
    pub(super) fn on(&self, rank: Rank) -> impl Iterator<Item = (OccupantId, &Occupant)> {
        let ids = self.by_rank.get(rank as usize).map_or(&[][..], |ids| ids.as_slice());
        ids.iter().filter_map(|id| Some((*id, self.get(*id)?)))
    }

    pub(super) fn insert(&mut self, occupant: Occupant) -> OccupantId {
        let rank = occupant.rank as usize;
        if self.by_rank.len() <= rank {
            self.by_rank.resize(rank + 1, Arc::default());
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            OccupantId::try_from(self.slots.len() - 1).expect("fewer than 2^32 pods")
        });
        Arc::make_mut(&mut self.by_rank[rank]).push(id);
        if !self.watched.is_empty() {
            for (key, value) in &*occupant.labels {
                if let Some(values) = self.watched.get_mut(key) {
                    values.entry(Arc::clone(value)).or_default().insert(id);
                }
            }
        }
        if let Some(slot) = self.slots.get_mut(id as usize) {
            *slot = Some(occupant);
        }
        id
    }

    pub(super) fn remove(&mut self, id: OccupantId) -> Option<Occupant> {
        let occupant = self.slots.get_mut(id as usize)?.take()?;
        self.free.push(id);
        let on_node = Arc::make_mut(&mut self.by_rank[occupant.rank as usize]);
        if let Some(at) = on_node.iter().position(|other| *other == id) {
            on_node.swap_remove(at);
        }
        if !self.watched.is_empty() {
            for (key, value) in &*occupant.labels {
                if let Some(values) = self.watched.get_mut(key)
                    && let Some(ids) = values.get_mut(value)
                {
                    ids.remove(&id);
                    if ids.is_empty() {
                        values.remove(value);
                    }
                }
            }
        }
        Some(occupant)
    }

    /// Returns the pods that may meet the requirements. The first search for a label visits all
    /// pods; later ones visit only the pods that have it.
    pub(super) fn candidates(&mut self, requirements: &[Requirement]) -> Vec<OccupantId> {
        let Some(anchor) = anchor(requirements) else {
            return (0..)
                .zip(self.slots.iter())
                .filter(|(_, slot)| slot.is_some())
                .map(|(id, _)| id)
                .collect();
        };
        if !self.watched.contains_key(&anchor.key) {
            self.watch(&anchor.key);
        }
        let values = &self.watched[&anchor.key];
        let found: BTreeSet<OccupantId> =
            anchor.values.iter().filter_map(|value| values.get(value)).flatten().copied().collect();
        found.into_iter().collect()
    }

    /// No pod asks any more.
    pub(super) fn watch_nothing(&mut self) {
        self.watched.clear();
    }

    fn watch(&mut self, key: &Arc<str>) {
        let mut values: HashMap<Arc<str>, BTreeSet<OccupantId>> = HashMap::new();
        let slots = (0..).zip(self.slots.iter());
        for (id, occupant) in slots.filter_map(|(id, slot)| Some((id, slot.as_ref()?))) {
            if let Ok(at) = occupant.labels.binary_search_by(|(name, _)| name.cmp(key)) {
                values.entry(Arc::clone(&occupant.labels[at].1)).or_default().insert(id);
            }
        }
        self.watched.insert(Arc::clone(key), values);
    }
}
