//! The choices made for pods that have a slot, until they are bound: a volume for each claim that
//! has none, or the node for which one is to be made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{MadeFor, Volumes};
use crate::cluster::Node;
use fluxqueue_workload::storage::{Claim, PersistentVolume};
use fluxqueue_workload::{NodeName, ObjectRef, Pod, Time, Uid};

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

/// How a claim gets its volume.
#[derive(Clone, Copy)]
enum Gets<'a> {
    /// It is there.
    Volume(&'a Arc<str>),
    /// It is to be made for the pod.
    MadeForIt,
    /// It is to be made for another pod, on another node.
    MadeForAnother,
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

    /// Every claim had its volume already.
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.make.is_empty() && self.shared.is_empty()
    }

    fn covers(&self, claim: &ObjectRef) -> bool {
        self.sees_to(claim) || self.shared.contains(claim)
    }

    /// True if the claim gets its volume by the choice for this pod.
    fn sees_to(&self, claim: &ObjectRef) -> bool {
        self.make.contains(claim) || self.bind.iter().any(|(bound, _)| bound == claim)
    }
}

impl Volumes {
    /// Chooses for all of these pods, each on its node, one after the other; `together` are all
    /// that start together. If one cannot have its volumes beside the others, nothing is chosen for
    /// any of them, and those that cannot are returned.
    pub fn choose(&mut self, seats: &[(Uid, Arc<Node>)], together: &BTreeSet<Uid>) -> Vec<Uid> {
        let version = self.version;
        let (done, misfits) = self.choose_in_turn(seats, together);
        if !misfits.is_empty() {
            self.give_back(done, version);
        }
        misfits
    }

    /// Returns which of these pods could not have their volumes there beside the others. No choice
    /// is made for any of them.
    pub fn misfits(&mut self, seats: &[(Uid, Arc<Node>)], together: &BTreeSet<Uid>) -> Vec<Uid> {
        let version = self.version;
        let (done, misfits) = self.choose_in_turn(seats, together);
        self.give_back(done, version);
        misfits
    }

    /// Takes in pods that are there as long as volumes are searched, and perhaps no longer. The
    /// version stays, since that is no news.
    pub fn note_for_now(&mut self, pods: &[&Arc<Pod>]) {
        let version = self.version;
        for pod in pods {
            self.note_pod(pod);
        }
        self.version = version;
    }

    /// Forgets pods that were taken in for now.
    pub fn forget_for_now(&mut self, pods: &[Uid]) {
        let version = self.version;
        for uid in pods {
            self.forget_pod(uid);
        }
        self.version = version;
    }

    /// Chooses for one pod after the other. Returns the pods with a choice, and the pods for which
    /// there is none.
    fn choose_in_turn(
        &mut self,
        seats: &[(Uid, Arc<Node>)],
        together: &BTreeSet<Uid>,
    ) -> (Vec<Uid>, Vec<Uid>) {
        let (mut done, mut misfits) = (Vec::new(), Vec::new());
        for (uid, node) in seats {
            let Some(pod) = self.pods.get(uid).cloned() else { continue };
            match self
                .mounts(&pod)
                .ok_or(Vec::new())
                .and_then(|mounts| self.look(&mounts, node, together))
            {
                Ok(choice) => {
                    for (claim, volume) in &choice.bind {
                        self.taken.insert(Arc::clone(volume), claim.clone());
                    }
                    for claim in &choice.make {
                        let made_for = || MadeFor { pod: uid.clone(), node: choice.node.clone() };
                        self.made_for.entry(claim.clone()).or_insert_with(made_for);
                    }
                    self.choices.insert(uid.clone(), choice);
                    self.place(uid, &node.name);
                    done.push(uid.clone());
                }
                Err(_) => misfits.push(uid.clone()),
            }
        }
        (done, misfits)
    }

    /// Undoes the choices for these pods and restores the version, since nothing differs from then.
    fn give_back(&mut self, chosen: Vec<Uid>, version: u64) {
        for uid in chosen {
            self.release(&uid);
        }
        self.version = version;
    }

    /// Returns the choice for a pod.
    pub fn choice(&self, uid: &Uid) -> Option<&Choice> {
        self.choices.get(uid)
    }

    /// The same, to be changed.
    pub fn choice_mut(&mut self, uid: &Uid) -> Option<&mut Choice> {
        self.choices.get_mut(uid)
    }

    pub(super) fn forget_choice(&mut self, uid: &Uid) {
        let Some(choice) = self.choices.remove(uid) else { return };
        for (claim, volume) in choice.bind {
            if self.taken.get(&volume) == Some(&claim) && self.chosen_by_another(&claim).is_none() {
                self.taken.remove(&volume);
            }
        }
        for claim in choice.make {
            match self.chosen_by_another(&claim) {
                Some(pod) => {
                    if let Some(made_for) = self.made_for.get_mut(&claim) {
                        made_for.pod = pod;
                    }
                }
                None => drop(self.made_for.remove(&claim)),
            }
        }
    }

    /// Returns another pod with a choice by which the claim gets its volume.
    fn chosen_by_another(&self, claim: &ObjectRef) -> Option<Uid> {
        let mut users = self.users.get(&claim.key).into_iter().flatten();
        users
            .find(|user| self.choices.get(*user).is_some_and(|choice| choice.sees_to(claim)))
            .cloned()
    }

    /// The claim's volume is made for one of these pods, on that node.
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

    /// A pod with a slot on this node can still have its volumes there: those that are bound, and
    /// those that were chosen.
    pub fn still_suit(&self, pod: &Pod, node: &Node) -> bool {
        let Some(mut mounts) = self.mounts(pod) else { return false };
        let choice = self.choices.get(&pod.id.uid).filter(|choice| choice.node == node.name);
        let is_left_open =
            mounts.leave_out(|claim| choice.is_some_and(|choice| choice.covers(&claim.id)));
        !is_left_open && self.look(&mounts, node, &BTreeSet::new()).is_ok()
    }

    /// Returns how far each claim is on its way to the chosen volume.
    pub fn progress(&self, choice: &Choice, node: &Node) -> Vec<(ObjectRef, Progress)> {
        let bind = choice.bind.iter().map(|(claim, volume)| (claim, Gets::Volume(volume)));
        let make = choice.make.iter().map(|claim| (claim, Gets::MadeForIt));
        let all =
            bind.chain(make).chain(choice.shared.iter().map(|claim| (claim, Gets::MadeForAnother)));
        all.map(|(claim, gets)| (claim.clone(), self.progress_of(choice, claim, gets, node)))
            .collect()
    }

    fn progress_of(
        &self,
        choice: &Choice,
        id: &ObjectRef,
        gets: Gets<'_>,
        node: &Node,
    ) -> Progress {
        let Some(claim) = self.claim(id) else {
            return Progress::Failed(format!("persistentvolumeclaim {} not found", id.key));
        };
        if claim.deleting {
            return Progress::Failed(format!("persistentvolumeclaim {} is being deleted", id.key));
        }
        if claim.is_bound {
            return match claim.volume.as_ref().and_then(|name| self.persistent.get(name)) {
                Some(volume) if self.reaches_bound(volume, node) => Progress::Bound,
                Some(volume) => Progress::Failed(format!(
                    "persistentvolumeclaim {} is bound to pv {:?}, whose node affinity doesn't match node {:?}",
                    id.key, volume.name, node.name
                )),
                None => Progress::Waits,
            };
        }
        let written = choice.written.get(id);
        match gets {
            Gets::Volume(volume) => self.progress_of_volume(written, claim, volume),
            Gets::MadeForIt => progress_of_making(written, claim, node),
            Gets::MadeForAnother
                if claim.selected_node.is_some() || self.made_for.contains_key(id) =>
            {
                Progress::Waits
            }
            Gets::MadeForAnother => Progress::Failed(format!(
                "the volume of persistentvolumeclaim {} is made for no pod any more",
                id.key
            )),
        }
    }

    fn progress_of_volume(
        &self,
        written: Option<&Written>,
        claim: &Claim,
        name: &Arc<str>,
    ) -> Progress {
        let Some(volume) = self.persistent.get(name) else {
            return Progress::Failed(format!(
                "persistentvolume {name:?} for claim {} is gone",
                claim.id.key
            ));
        };
        let owner = volume.claim.as_ref();
        if owner.is_some_and(|own| own.uid.as_ref() == Some(&claim.id.uid)) {
            return Progress::Waits;
        }
        if owner.is_some() && !volume.is_of(&claim.id) {
            return Progress::Failed(format!(
                "persistentvolume {name:?} for claim {} is another's now",
                claim.id.key
            ));
        }
        match written {
            None => Progress::Claim(Arc::clone(volume)),
            Some(Written::Asked) => Progress::Waits,
            Some(Written::Done(version)) if *version == volume.resource_version => Progress::Waits,
            Some(Written::Done(_)) => Progress::Failed(format!(
                "ClaimRef got reset for pv {name:?}, chosen for claim {}",
                claim.id.key
            )),
        }
    }
}

fn progress_of_making(written: Option<&Written>, claim: &Claim, node: &Node) -> Progress {
    match (&claim.selected_node, written) {
        (Some(selected), _) if *selected == node.name => Progress::Waits,
        (Some(selected), _) => Progress::Failed(format!(
            "the volume of persistentvolumeclaim {} is made for node {selected:?}",
            claim.id.key
        )),
        (None, None) => Progress::Select(claim.resource_version.clone()),
        (None, Some(Written::Asked)) => Progress::Waits,
        (None, Some(Written::Done(version))) if *version == claim.resource_version => {
            Progress::Waits
        }
        // A provisioner that gives up takes the node away.
        (None, Some(Written::Done(_))) => Progress::Failed(format!(
            "provisioning failed for persistentvolumeclaim {}",
            claim.id.key
        )),
    }
}
