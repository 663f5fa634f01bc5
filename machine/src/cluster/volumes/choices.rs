//! The choices made for pods that have a slot, until they are bound: a volume for each claim that
//! has none, or the node for which one is to be made.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::users::Users;
use fluxqueue_workload::storage::PersistentVolume;
use fluxqueue_workload::{NodeName, ObjectRef, Time, Uid};

/// The choice for a pod on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The node.
    pub node: NodeName,
    /// Volumes that are there, by the claims that are to have them.
    pub bind: Vec<(ObjectRef, Arc<str>)>,
    /// Claims for which volumes are to be made.
    pub make: Vec<ObjectRef>,
    /// Claims with volumes that are to be made for another pod that starts together with this one,
    /// on another node: whether they can be had here is known when they are there.
    pub shared: Vec<ObjectRef>,
    /// The time since when it is being bound.
    pub since: Option<Time>,
    /// The parts that have been written, by claim.
    pub written: BTreeMap<ObjectRef, Written>,
}

/// How far a write has come by which a claim gets its volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is on its way.
    Asked,
    /// It was carried out on an object of this version: news of an older or the same version say
    /// nothing about it.
    Done(Option<Arc<str>>),
}

/// How far a claim is on its way to the chosen volume.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// It is bound, and its volume can be had on the node.
    Bound,
    /// Others have to act, or news have to come.
    Waits,
    /// This volume is to be bound to it.
    Claim(Arc<PersistentVolume>),
    /// It has to say the node, at this version.
    Select(Option<Arc<str>>),
    /// It will not get the chosen volume.
    Failed(String),
}

impl Choice {
    pub(super) fn on(node: NodeName) -> Self {
        Choice {
            node,
            bind: Vec::new(),
            make: Vec::new(),
            shared: Vec::new(),
            since: None,
            written: BTreeMap::new(),
        }
    }

    /// True if every claim had its volume already.
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.make.is_empty() && self.shared.is_empty()
    }

    pub(super) fn covers(&self, claim: &ObjectRef) -> bool {
        self.sees_to(claim) || self.shared.contains(claim)
    }

    /// True if the claim gets its volume by the choice for this pod.
    pub(super) fn sees_to(&self, claim: &ObjectRef) -> bool {
        self.make.contains(claim) || self.bind.iter().any(|(bound, _)| bound == claim)
    }
}

/// The choices for pods with a slot.
#[derive(Debug, Clone, Default)]
pub(super) struct Choices {
    pub(super) by_pod: HashMap<Uid, Choice>,
    /// Volumes that were chosen for a claim and do not say so yet.
    pub(super) taken: HashMap<Arc<str>, ObjectRef>,
    /// The pods for which volumes of claims are to be made, as long as the claims do not say so.
    pub(super) made_for: HashMap<ObjectRef, MadeFor>,
}

/// A pod for which a volume is to be made, and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MadeFor {
    pub(super) pod: Uid,
    pub(super) node: NodeName,
}

impl Choices {
    /// Notes the choice for a pod.
    pub(super) fn put(&mut self, uid: &Uid, choice: Choice) {
        for (claim, volume) in &choice.bind {
            self.taken.insert(Arc::clone(volume), claim.clone());
        }
        for claim in &choice.make {
            let made_for = || MadeFor { pod: uid.clone(), node: choice.node.clone() };
            self.made_for.entry(claim.clone()).or_insert_with(made_for);
        }
        self.by_pod.insert(uid.clone(), choice);
    }

    /// Gives back the choice for a pod.
    pub(super) fn forget(&mut self, uid: &Uid, users: &Users) {
        if let Some(choice) = self.by_pod.remove(uid) {
            for (claim, volume) in choice.bind {
                if self.taken.get(&volume) == Some(&claim)
                    && self.chosen_by_another(&claim, users).is_none()
                {
                    self.taken.remove(&volume);
                }
            }
            for claim in choice.make {
                match self.chosen_by_another(&claim, users) {
                    Some(pod) => {
                        if let Some(made_for) = self.made_for.get_mut(&claim) {
                            made_for.pod = pod;
                        }
                    }
                    None => drop(self.made_for.remove(&claim)),
                }
            }
        }
    }

    /// Returns another pod with a choice by which the claim gets its volume.
    fn chosen_by_another(&self, claim: &ObjectRef, users: &Users) -> Option<Uid> {
        let mut of_claim = users.by_claim.get(&claim.key).into_iter().flatten();
        of_claim
            .find(|user| self.by_pod.get(*user).is_some_and(|choice| choice.sees_to(claim)))
            .cloned()
    }

    /// True if the claim's volume is made for one of these pods, on that node.
    pub(super) fn is_made_for(
        &self,
        claim: &ObjectRef,
        node: &NodeName,
        together: &BTreeSet<Uid>,
    ) -> bool {
        self.made_for
            .get(claim)
            .is_some_and(|made| made.node == *node && together.contains(&made.pod))
    }
}
