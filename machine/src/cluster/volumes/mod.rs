//! Claims, volumes and the facts of drivers about nodes: the one owner of all that the core knows
//! of storage.
//!
//! The effect of a pod's claims on its nodes follows kube-scheduler (VolumeBinding, VolumeZone,
//! VolumeRestrictions, NodeVolumeLimits), and so do the words. The files:
//!
//! - `storage`: the objects as they are
//! - `users`: the pods that use them, and their nodes
//! - `needs`: whether a pod's claims are ready, and the needs that make two pods alike to nodes
//! - `look`: one pod on one node: which volumes it would have there
//! - `candidates`: volumes that a claim could be bound to
//! - `limits`: how many volumes a node attaches
//! - `choices`: the choices for pods that have a slot, as long as they are not bound; `progress`:
//!   how far these are
//!
//! Pods without claims are not known here. The graph knows nothing of volumes: a caller that gets
//! slots from it checks here for each pod whether it can have its volumes there
//! ([`Volumes::choose`]), those of a gang one after the other.

mod candidates;
mod choices;
mod claims;
mod known;
mod limits;
mod look;
mod needs;
mod progress;
mod storage;
mod users;

pub use choices::{Choice, Progress, Written};
pub use claims::concern;
pub use needs::VolumeNeeds;
pub use storage::{StorageNews, Unready};

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::filters::Rejection;
use super::node::Node;
use super::nodes::Nodes;
use super::presence::Presence;
use crate::fluxion::{Rank, RankSet};
use choices::Choices;
use claims::{Disk, claims_of};
use fluxqueue_workload::storage::{Claim, CsiNode, PersistentVolume};
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Pod, Uid};
use known::Known;
use storage::Storage;
use users::Users;

/// All that is known of storage, and of the pods that use it.
#[derive(Debug, Clone, Default)]
pub struct Volumes {
    storage: Storage,
    users: Users,
    choices: Choices,
    version: u64,
}

impl Volumes {
    /// Changes with anything that a node's fitness for a pod with claims may rest on.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// True if there is no pod for which news about storage could matter.
    pub fn is_idle(&self) -> bool {
        self.users.pods.is_empty()
    }

    // --- news ---

    /// Takes news up. Returns the pods for which it may mean something of their own; for all others
    /// it is a change of nodes.
    pub fn take_up(&mut self, news: StorageNews) -> Vec<Uid> {
        self.version += 1;
        match news {
            StorageNews::Claim(claim) => {
                let users = self.users.users_of(&claim.id.key);
                self.storage.claims.insert(claim.id.key.clone(), claim);
                users
            }
            StorageNews::ClaimGone(id) => {
                if self.storage.claims.get(&id.key).is_some_and(|known| known.id.uid == id.uid) {
                    self.storage.claims.remove(&id.key);
                }
                self.users.users_of(&id.key)
            }
            StorageNews::Volume(volume) => self.volume(volume),
            StorageNews::VolumeGone(name, uid) => self.volume_gone(&name, &uid),
            StorageNews::Class(class) => {
                let name = Arc::clone(&class.name);
                self.storage.classes.insert(Arc::clone(&name), class);
                self.waiting_for_class(&name)
            }
            StorageNews::ClassGone(name) => {
                self.storage.classes.remove(&name);
                self.waiting_for_class(&name)
            }
            StorageNews::CsiNode(node) => self.csi_node(node),
            StorageNews::CsiNodeGone(name) => {
                self.storage.csi_nodes.remove(&name);
                Vec::new()
            }
            StorageNews::Driver(driver) => {
                self.storage.drivers.insert(Arc::clone(&driver.name), driver);
                Vec::new()
            }
            StorageNews::DriverGone(name) => {
                self.storage.drivers.remove(&name);
                Vec::new()
            }
            StorageNews::Capacity(capacity) => {
                self.storage.capacities.insert(capacity.id.key.clone(), capacity);
                Vec::new()
            }
            StorageNews::CapacityGone(key) => {
                self.storage.capacities.remove(&key);
                Vec::new()
            }
            StorageNews::Attachment(attachment) => {
                let on_node = self.storage.attachments.entry(attachment.node.clone()).or_default();
                on_node.insert(Arc::clone(&attachment.name), attachment);
                Vec::new()
            }
            StorageNews::AttachmentGone(attachment) => {
                if let Some(on_node) = self.storage.attachments.get_mut(&attachment.node) {
                    on_node.remove(&attachment.name);
                    if on_node.is_empty() {
                        self.storage.attachments.remove(&attachment.node);
                    }
                }
                Vec::new()
            }
            StorageNews::Hidden(why) => {
                self.storage.hidden = Some(why);
                self.users.pods.keys().cloned().collect()
            }
        }
    }

    fn volume(&mut self, volume: Arc<PersistentVolume>) -> Vec<Uid> {
        let name = Arc::clone(&volume.name);
        let mut concerned = self.users_of_volume(&name);
        self.storage.forget_volume(&name);
        self.storage
            .by_class
            .entry(Arc::clone(&volume.offers.class))
            .or_default()
            .insert(Arc::clone(&name));
        if volume.claim.is_some() {
            // The volume itself now tells of the choice, or another controller was quicker.
            self.choices.taken.remove(&name);
        }
        self.storage.persistent.insert(Arc::clone(&name), volume);
        concerned.extend(self.users_of_volume(&name));
        concerned
    }

    fn volume_gone(&mut self, name: &Arc<str>, uid: &Uid) -> Vec<Uid> {
        let concerned = self.users_of_volume(name);
        if self.storage.persistent.get(name).is_some_and(|known| known.uid == *uid) {
            self.storage.forget_volume(name);
            self.choices.taken.remove(name);
        }
        concerned
    }

    /// Puts the limits of a node. The existence of a driver's limit is part of the needs of pods.
    fn csi_node(&mut self, node: Arc<CsiNode>) -> Vec<Uid> {
        let is_new = |driver: &Arc<str>| {
            !self.storage.csi_nodes.values().any(|known| known.limits.contains_key(driver))
        };
        let concerned = if node.limits.keys().any(is_new) {
            self.users.pods.keys().cloned().collect()
        } else {
            Vec::new()
        };
        self.storage.csi_nodes.insert(node.node.clone(), node);
        concerned
    }

    fn users_of_volume(&self, name: &Arc<str>) -> Vec<Uid> {
        let bound = self
            .storage
            .persistent
            .get(name)
            .and_then(|volume| volume.claim.as_ref())
            .map(|claim| &claim.key);
        let chosen = self.choices.taken.get(name).map(|claim| &claim.key);
        bound.into_iter().chain(chosen).flat_map(|claim| self.users.users_of(claim)).collect()
    }

    fn waiting_for_class(&self, class: &str) -> Vec<Uid> {
        let waits = |key: &ObjectKey| {
            self.storage
                .claims
                .get(key)
                .is_some_and(|claim| !claim.is_bound && &*claim.wants.class == class)
        };
        self.users
            .by_claim
            .iter()
            .filter(|(key, _)| waits(key))
            .flat_map(|(_, users)| users.iter().cloned())
            .collect()
    }

    // --- pods ---

    /// A pod that [`concern`]s this is there, or has changed.
    pub fn note_pod(&mut self, pod: &Arc<Pod>) {
        self.version += u64::from(self.users.note(pod));
    }

    /// Forgets a pod, which uses nothing any more. Returns the pods that may have waited for that.
    pub fn forget_pod(&mut self, uid: &Uid) -> Vec<Uid> {
        let mut concerned = self.release(uid);
        self.users.forget(uid);
        concerned.retain(|other| other != uid);
        concerned
    }

    /// Puts a pod on this node, or its slot. Returns the pods that may wait for a claim that only
    /// one pod may use.
    pub fn place(&mut self, uid: &Uid, node: &NodeName) -> Vec<Uid> {
        self.place_as(Presence::There, uid, node)
    }

    /// Nominates a pod to this node: its future attachments count there, and it uses nothing yet.
    /// Returns the pods that may wait for a claim that only one pod may use.
    pub fn nominate(&mut self, uid: &Uid, node: &NodeName) -> Vec<Uid> {
        self.place_as(Presence::Nominated, uid, node)
    }

    fn place_as(&mut self, presence: Presence, uid: &Uid, node: &NodeName) -> Vec<Uid> {
        if !self.users.place(presence, uid, node) {
            return Vec::new();
        }
        self.version += 1;
        self.rivals_of(uid)
    }

    /// Takes a pod off its node or slot, and gives back its choice. Returns the pods that may have
    /// waited for that.
    pub fn release(&mut self, uid: &Uid) -> Vec<Uid> {
        self.choices.forget(uid, &self.users);
        if !self.users.leave(uid) {
            return Vec::new();
        }
        self.version += 1;
        self.rivals_of(uid)
    }

    /// Takes all pods but these off their nodes, and detaches the volumes that no other pod there
    /// uses. The choices stay.
    pub fn keep_endless(&mut self, endless: &HashSet<Uid>) {
        let passing = self.users.places.iter().filter(|(uid, _)| !endless.contains(*uid));
        let passing: Vec<(Uid, NodeName)> =
            passing.map(|(uid, (node, _))| (uid.clone(), node.clone())).collect();
        let mut unused: HashMap<NodeName, BTreeSet<Disk>> = HashMap::new();
        for (uid, node) in passing {
            unused.entry(node).or_default().extend(limits::disks_of(self.known(), &uid));
            self.users.leave(&uid);
        }
        for (node, unused) in &mut unused {
            for uid in self.users.on_node(node) {
                let used = limits::disks_of(self.known(), uid);
                unused.retain(|disk| !used.contains(disk));
            }
        }
        self.storage.detach(&unused);
        self.version += 1;
    }

    /// Others that mount a claim of this pod which only one may use.
    fn rivals_of(&self, uid: &Uid) -> Vec<Uid> {
        let Some(pod) = self.users.pods.get(uid) else { return Vec::new() };
        let exclusive = claims_of(pod)
            .filter(|key| self.storage.claims.get(key).is_some_and(|claim| claim.is_for_one_pod()));
        exclusive.flat_map(|key| self.users.users_of(&key)).filter(|other| other != uid).collect()
    }

    // --- choices ---

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
            // Pods without claims are not known here.
            let Some(pod) = self.users.pods.get(uid).cloned() else { continue };
            match look::mounts(self.known(), &pod)
                .ok_or(Vec::new())
                .and_then(|mounts| look::look(self.known(), &mounts, node, together))
            {
                Ok(choice) => {
                    self.choices.put(uid, choice);
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

    // --- questions ---

    fn known(&self) -> Known<'_> {
        Known { storage: &self.storage, users: &self.users, choices: &self.choices }
    }

    /// Returns the needs of the pod's volumes; `None` if any node will do.
    pub fn needs(&self, pod: &Pod) -> Result<Option<VolumeNeeds>, Unready> {
        needs::needs(self.known(), pod)
    }

    /// The claim of the pod that one pod at a time may use and another one uses.
    pub fn in_use(&self, pod: &Pod) -> Option<Arc<str>> {
        needs::in_use(self.known(), pod)
    }

    /// Returns how many pods with the needs of this one find volumes on one node, at the very most;
    /// `None` if there is no such bound. The graph gets this bound, so that it does not put them
    /// all on the node that has one.
    pub fn most_on_a_node(&self, pod: &Pod) -> Option<u64> {
        candidates::most_on_a_node(self.known(), pod)
    }

    /// The nodes on which the pod cannot have its volumes, and why.
    pub fn closed_to<'a>(
        &self,
        pod: &Pod,
        nodes: impl Iterator<Item = (Rank, &'a Node)>,
    ) -> Vec<(RankSet, Rejection)> {
        look::closed_to(self.known(), pod, nodes)
    }

    /// Returns why the pod cannot have its volumes on the node: the reasons of the first of
    /// kube-scheduler's plugins that rejects it, by its first look, where nominated pods count on
    /// their node.
    pub fn reject(&self, pod: &Pod, node: &Node) -> Vec<Rejection> {
        look::reject(self.known(), pod, node)
    }

    /// The same by its second look alone, where they do not count.
    pub fn reject_alone(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        look::reject_alone(self.known(), pod, node)
    }

    /// True if a pod with a slot on this node can still have its volumes there: those that are
    /// bound, and those that were chosen.
    fn still_suit(&self, pod: &Pod, node: &Node) -> bool {
        progress::still_suit(self.known(), pod, node)
    }

    /// Returns how far each claim is on its way to the chosen volume.
    pub fn progress(&self, choice: &Choice, node: &Node) -> Vec<(ObjectRef, Progress)> {
        progress::progress(self.known(), choice, node)
    }

    /// The claims for which volumes are to be made on a node, also on one that is gone.
    pub fn claims_that_name_a_node(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.storage.claims_that_name_a_node()
    }

    /// A claim as it is now, if it still is this one.
    pub fn claim(&self, id: &ObjectRef) -> Option<&Arc<Claim>> {
        self.storage.claim(id)
    }

    /// The pod's claims that are bound to volumes which not all nodes can use, with these volumes.
    pub fn tied(&self, pod: &Pod) -> Vec<(ObjectKey, Arc<PersistentVolume>)> {
        self.storage.tied(pod)
    }

    /// The claims that the pod names and one pod at a time may use.
    pub fn for_one_pod(&self, pod: &Pod) -> impl Iterator<Item = ObjectKey> {
        self.storage.for_one_pod(pod)
    }

    /// True if the node is where the volume, which is bound, can be used.
    fn can_use(&self, volume: &PersistentVolume, node: &Node) -> bool {
        self.storage.can_use(volume, node)
    }

    /// Returns the choice for a pod.
    pub fn choice(&self, uid: &Uid) -> Option<&Choice> {
        self.choices.by_pod.get(uid)
    }

    /// The same, to be changed.
    pub fn choice_mut(&mut self, uid: &Uid) -> Option<&mut Choice> {
        self.choices.by_pod.get_mut(uid)
    }

    /// Describes, for people, the nodes that can use the volume of a claim.
    pub fn where_claim_is(
        &self,
        nodes: &Nodes,
        claim: &ObjectKey,
        volume: &PersistentVolume,
    ) -> String {
        let can_use = |rank: Rank| nodes.node(rank).is_some_and(|node| self.can_use(volume, node));
        let names: Vec<&str> =
            nodes.iter().filter(|(_, rank)| can_use(*rank)).map(|(name, _)| &**name).collect();
        let only = match names.as_slice() {
            [] => "no node can use".to_owned(),
            [name] => format!("only {name} can use"),
            names => format!("only {} of {} nodes can use", names.len(), nodes.len()),
        };
        format!("claim {claim} is bound to volume {}, which {only}", volume.name)
    }

    /// True if the pod, which has a slot on the node, can still have its volumes there.
    pub fn suit(&self, pod: &Pod, node: Option<&Node>) -> bool {
        !concern(pod) || node.is_some_and(|node| self.still_suit(pod, node))
    }
}
