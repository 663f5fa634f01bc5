//! Claims, volumes and the facts of drivers about nodes: the one owner of all that the core knows
//! of storage.
//!
//! The effect of a pod's claims on its nodes follows kube-scheduler (VolumeBinding, VolumeZone,
//! VolumeRestrictions, NodeVolumeLimits), and so do the words. The files:
//!
//! - `needs`: whether a pod's claims are ready, and the needs that make two pods alike to nodes
//! - `look`: one pod on one node: which volumes it would have there
//! - `candidates`: volumes that a claim could be bound to
//! - `limits`: how many volumes a node attaches
//! - `choices`: the choices for pods that have a slot, as long as they are not bound
//!
//! Pods without claims are not known here. The graph knows nothing of volumes: a caller that gets
//! slots from it checks here for each pod whether it can have its volumes there
//! ([`Volumes::choose`]), those of a gang one after the other.

mod candidates;
mod choices;
mod limits;
mod look;
mod needs;

pub use choices::{Choice, Progress, Written};
pub use needs::{Unready, VolumeNeeds};

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::neighbours::Presence;
use fluxqueue_workload::storage::{
    Claim, CsiDriver, CsiNode, PersistentVolume, StorageCapacity, StorageClass, VolumeAttachment,
};
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Pod, Uid};
use limits::Disk;

/// Something about storage has come, changed or gone.
#[derive(Debug, Clone)]
pub enum StorageNews {
    /// A claim is there, or has changed.
    Claim(Arc<Claim>),
    /// It is gone.
    ClaimGone(ObjectRef),
    /// A volume is there, or has changed.
    Volume(Arc<PersistentVolume>),
    /// The volume of this name and uid is gone.
    VolumeGone(Arc<str>, Uid),
    /// A class is there, or has changed.
    Class(Arc<StorageClass>),
    /// The class of this name is gone.
    ClassGone(Arc<str>),
    /// The drivers of a node are known, or others than before.
    CsiNode(Arc<CsiNode>),
    /// Nothing is known of them any more.
    CsiNodeGone(NodeName),
    /// A driver is there, or has changed.
    Driver(Arc<CsiDriver>),
    /// The driver of this name is gone.
    DriverGone(Arc<str>),
    /// How much can be made somewhere is known, or another amount than before.
    Capacity(Arc<StorageCapacity>),
    /// It is not known any more.
    CapacityGone(ObjectKey),
    /// A volume is attached to a node, or to be.
    Attachment(Arc<VolumeAttachment>),
    /// It is not any more.
    AttachmentGone(Arc<VolumeAttachment>),
    /// Nothing of all this may be read; why, for people.
    Hidden(Arc<str>),
}

/// All that is known of storage, and of the pods that use it.
#[derive(Debug, Clone, Default)]
pub struct Volumes {
    /// Why nothing may be read.
    hidden: Option<Arc<str>>,
    claims: HashMap<ObjectKey, Arc<Claim>>,
    persistent: BTreeMap<Arc<str>, Arc<PersistentVolume>>,
    /// Their names by class.
    by_class: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    classes: HashMap<Arc<str>, Arc<StorageClass>>,
    csi_nodes: HashMap<NodeName, Arc<CsiNode>>,
    drivers: HashMap<Arc<str>, Arc<CsiDriver>>,
    capacities: BTreeMap<ObjectKey, Arc<StorageCapacity>>,
    attachments: HashMap<NodeName, BTreeMap<Arc<str>, Arc<VolumeAttachment>>>,
    /// Pods that have claims, or disks of which a node attaches a limited number.
    pods: HashMap<Uid, Arc<Pod>>,
    /// The pods that mount a claim.
    users: HashMap<ObjectKey, BTreeSet<Uid>>,
    /// The nodes of those pods that have a node, or a slot on one, or are nominated to one.
    places: HashMap<Uid, (NodeName, Presence)>,
    on_node: HashMap<NodeName, BTreeSet<Uid>>,
    choices: HashMap<Uid, Choice>,
    /// Volumes that were chosen for a claim and do not say so yet.
    taken: HashMap<Arc<str>, ObjectRef>,
    /// The pods for which volumes of claims are to be made, as long as the claims do not say so.
    made_for: HashMap<ObjectRef, MadeFor>,
    version: u64,
}

/// A pod for which a volume is to be made, and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MadeFor {
    pod: Uid,
    node: NodeName,
}

/// The claims of a pod, by the names under which they are found.
fn claims_of(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    pod.claims
        .iter()
        .map(|claim| ObjectKey::new(Arc::clone(&pod.id.key.namespace), Arc::clone(&claim.name)))
}

/// Its volumes matter here.
pub fn concern(pod: &Pod) -> bool {
    !pod.claims.is_empty()
        || pod.shape.constraints.disks.iter().any(|disk| disk.attachable().is_some())
}

impl Volumes {
    /// Changes with anything that a node's fitness for a pod with claims may rest on.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// True if there is no pod for which news about storage could matter.
    pub fn is_idle(&self) -> bool {
        self.pods.is_empty()
    }

    // --- news ---

    /// Takes news up. Returns the pods for which it may mean something of their own; for all others
    /// it is a change of nodes.
    pub fn take_up(&mut self, news: StorageNews) -> Vec<Uid> {
        self.version += 1;
        match news {
            StorageNews::Claim(claim) => {
                let users = self.users_of(&claim.id.key);
                self.claims.insert(claim.id.key.clone(), claim);
                users
            }
            StorageNews::ClaimGone(id) => {
                if self.claims.get(&id.key).is_some_and(|known| known.id.uid == id.uid) {
                    self.claims.remove(&id.key);
                }
                self.users_of(&id.key)
            }
            StorageNews::Volume(volume) => self.volume(volume),
            StorageNews::VolumeGone(name, uid) => self.volume_gone(&name, &uid),
            StorageNews::Class(class) => {
                let name = Arc::clone(&class.name);
                self.classes.insert(Arc::clone(&name), class);
                self.waiting_for_class(&name)
            }
            StorageNews::ClassGone(name) => {
                self.classes.remove(&name);
                self.waiting_for_class(&name)
            }
            StorageNews::CsiNode(node) => self.csi_node(node),
            StorageNews::CsiNodeGone(name) => {
                self.csi_nodes.remove(&name);
                Vec::new()
            }
            StorageNews::Driver(driver) => {
                self.drivers.insert(Arc::clone(&driver.name), driver);
                Vec::new()
            }
            StorageNews::DriverGone(name) => {
                self.drivers.remove(&name);
                Vec::new()
            }
            StorageNews::Capacity(capacity) => {
                self.capacities.insert(capacity.id.key.clone(), capacity);
                Vec::new()
            }
            StorageNews::CapacityGone(key) => {
                self.capacities.remove(&key);
                Vec::new()
            }
            StorageNews::Attachment(attachment) => {
                let on_node = self.attachments.entry(attachment.node.clone()).or_default();
                on_node.insert(Arc::clone(&attachment.name), attachment);
                Vec::new()
            }
            StorageNews::AttachmentGone(attachment) => {
                if let Some(on_node) = self.attachments.get_mut(&attachment.node) {
                    on_node.remove(&attachment.name);
                    if on_node.is_empty() {
                        self.attachments.remove(&attachment.node);
                    }
                }
                Vec::new()
            }
            StorageNews::Hidden(why) => {
                self.hidden = Some(why);
                self.pods.keys().cloned().collect()
            }
        }
    }

    /// The claims for which volumes are to be made on a node, also on one that is gone.
    pub fn claims_that_name_a_node(&self) -> impl Iterator<Item = &Arc<Claim>> {
        let names_one =
            |claim: &&Arc<Claim>| claim.selected_node.is_some() || claim.lost_node.is_some();
        self.claims.values().filter(|claim| !claim.is_bound).filter(names_one)
    }

    fn volume(&mut self, volume: Arc<PersistentVolume>) -> Vec<Uid> {
        let name = Arc::clone(&volume.name);
        let mut concerned = self.users_of_volume(&name);
        self.forget_volume(&name);
        self.by_class
            .entry(Arc::clone(&volume.offers.class))
            .or_default()
            .insert(Arc::clone(&name));
        if volume.claim.is_some() {
            // The volume itself now tells of the choice, or another controller was quicker.
            self.taken.remove(&name);
        }
        self.persistent.insert(Arc::clone(&name), volume);
        concerned.extend(self.users_of_volume(&name));
        concerned
    }

    fn volume_gone(&mut self, name: &Arc<str>, uid: &Uid) -> Vec<Uid> {
        let concerned = self.users_of_volume(name);
        if self.persistent.get(name).is_some_and(|known| known.uid == *uid) {
            self.forget_volume(name);
            self.taken.remove(name);
        }
        concerned
    }

    fn forget_volume(&mut self, name: &Arc<str>) {
        let Some(old) = self.persistent.remove(name) else { return };
        if let Some(of_class) = self.by_class.get_mut(&old.offers.class) {
            of_class.remove(name);
            if of_class.is_empty() {
                self.by_class.remove(&old.offers.class);
            }
        }
    }

    /// Puts the limits of a node. The existence of a driver's limit is part of the needs of pods.
    fn csi_node(&mut self, node: Arc<CsiNode>) -> Vec<Uid> {
        let is_new = |driver: &Arc<str>| {
            !self.csi_nodes.values().any(|known| known.limits.contains_key(driver))
        };
        let concerned = if node.limits.keys().any(is_new) {
            self.pods.keys().cloned().collect()
        } else {
            Vec::new()
        };
        self.csi_nodes.insert(node.node.clone(), node);
        concerned
    }

    fn users_of(&self, claim: &ObjectKey) -> Vec<Uid> {
        self.users.get(claim).into_iter().flatten().cloned().collect()
    }

    fn users_of_volume(&self, name: &Arc<str>) -> Vec<Uid> {
        let bound = self
            .persistent
            .get(name)
            .and_then(|volume| volume.claim.as_ref())
            .map(|claim| &claim.key);
        let chosen = self.taken.get(name).map(|claim| &claim.key);
        bound.into_iter().chain(chosen).flat_map(|claim| self.users_of(claim)).collect()
    }

    fn waiting_for_class(&self, class: &str) -> Vec<Uid> {
        let waits = |key: &ObjectKey| {
            self.claims
                .get(key)
                .is_some_and(|claim| !claim.is_bound && &*claim.wants.class == class)
        };
        self.users
            .iter()
            .filter(|(key, _)| waits(key))
            .flat_map(|(_, users)| users.iter().cloned())
            .collect()
    }

    // --- pods ---

    /// A pod that [`concern`]s this is there, or has changed.
    pub fn note_pod(&mut self, pod: &Arc<Pod>) {
        if let Some(known) = self.pods.insert(pod.id.uid.clone(), Arc::clone(pod))
            && known.claims == pod.claims
        {
            return;
        }
        self.version += 1;
        for claim in claims_of(pod) {
            self.users.entry(claim).or_default().insert(pod.id.uid.clone());
        }
    }

    /// Forgets a pod, which uses nothing any more. Returns the pods that may have waited for that.
    pub fn forget_pod(&mut self, uid: &Uid) -> Vec<Uid> {
        let mut concerned = self.release(uid);
        if let Some(pod) = self.pods.remove(uid) {
            for claim in claims_of(&pod) {
                if let Some(users) = self.users.get_mut(&claim) {
                    users.remove(uid);
                    if users.is_empty() {
                        self.users.remove(&claim);
                    }
                }
            }
        }
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
        if self.places.get(uid).is_some_and(|place| *place == (node.clone(), presence)) {
            return Vec::new();
        }
        self.leave(uid);
        self.version += 1;
        self.places.insert(uid.clone(), (node.clone(), presence));
        self.on_node.entry(node.clone()).or_default().insert(uid.clone());
        self.rivals_of(uid)
    }

    /// Takes a pod off its node or slot, and gives back its choice. Returns the pods that may have
    /// waited for that.
    pub fn release(&mut self, uid: &Uid) -> Vec<Uid> {
        self.forget_choice(uid);
        if !self.leave(uid) {
            return Vec::new();
        }
        self.version += 1;
        self.rivals_of(uid)
    }

    fn leave(&mut self, uid: &Uid) -> bool {
        let Some((node, _)) = self.places.remove(uid) else { return false };
        if let Some(there) = self.on_node.get_mut(&node) {
            there.remove(uid);
            if there.is_empty() {
                self.on_node.remove(&node);
            }
        }
        true
    }

    /// Takes all pods but these off their nodes, and detaches the volumes that no other pod there
    /// uses. The choices stay.
    pub fn forget_who_passes(&mut self, endless: &HashSet<Uid>) {
        let passing: Vec<Uid> =
            self.places.keys().filter(|uid| !endless.contains(*uid)).cloned().collect();
        let mut unused: HashMap<NodeName, BTreeSet<Disk>> = HashMap::new();
        for uid in &passing {
            let Some((node, _)) = self.places.get(uid).cloned() else { continue };
            unused.entry(node).or_default().extend(self.disks_of(uid));
            self.leave(uid);
        }
        for (node, unused) in &mut unused {
            for uid in self.on_node.get(node).into_iter().flatten() {
                let used = self.disks_of(uid);
                unused.retain(|disk| !used.contains(disk));
            }
        }
        self.detach(&unused);
        self.version += 1;
    }

    /// Others that mount a claim of this pod which only one may use.
    fn rivals_of(&self, uid: &Uid) -> Vec<Uid> {
        let Some(pod) = self.pods.get(uid) else { return Vec::new() };
        let exclusive = claims_of(pod)
            .filter(|key| self.claims.get(key).is_some_and(|claim| claim.is_for_one_pod()));
        exclusive.flat_map(|key| self.users_of(&key)).filter(|other| other != uid).collect()
    }

    /// Another pod that has a node uses the claim.
    fn is_in_use(&self, claim: &ObjectKey, by_other_than: &Uid) -> bool {
        let users = self.users.get(claim).into_iter().flatten();
        users
            .into_iter()
            .any(|user| user != by_other_than && self.presence(user) == Some(Presence::There))
    }

    fn presence(&self, uid: &Uid) -> Option<Presence> {
        self.places.get(uid).map(|(_, presence)| *presence)
    }

    /// A claim as it is now, if it still is this one.
    pub fn claim(&self, id: &ObjectRef) -> Option<&Arc<Claim>> {
        self.claims.get(&id.key).filter(|claim| claim.id.uid == id.uid)
    }
}
