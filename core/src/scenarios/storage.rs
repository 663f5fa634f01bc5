//! What an API server would hold of storage, for worlds with pods that mount claims.

use fluxqueue_workload::constraints::{NodeSelectorTerm, Operator, Requirement};
use fluxqueue_workload::storage::{
    Claim, ClaimRef, PersistentVolume, PodClaim, StorageClass, VolumeWants,
};

use super::*;
use fluxqueue_machine::cluster::volumes::StorageNews;

/// What an API server would hold of storage.
#[derive(Default)]
pub(super) struct Storage {
    claims: BTreeMap<String, Claim>,
    volumes: BTreeMap<String, PersistentVolume>,
    classes: BTreeMap<String, StorageClass>,
    versions: u32,
    /// Volumes that were claimed and nodes that were selected, in order.
    written: Vec<(String, String)>,
}

impl World {
    fn version(&mut self) -> Arc<str> {
        self.storage.versions += 1;
        self.storage.versions.to_string().into()
    }

    /// A claim for a class, not bound.
    pub(super) fn claim(&mut self, name: &str, class: &str) {
        let claim = Claim {
            id: ObjectRef {
                key: ObjectKey::new("ns", name),
                uid: Uid::from(format!("uid-claim-{name}")),
            },
            resource_version: Some(self.version()),
            deleting: false,
            owner: None,
            volume: None,
            is_bound: false,
            is_lost: false,
            selected_node: None,
            lost_node: None,
            wants: wants(class),
        };
        self.tell_claim(claim);
    }

    fn tell_claim(&mut self, claim: Claim) {
        self.storage.claims.insert(claim.id.key.name.to_string(), claim.clone());
        self.tell(Event::Storage(StorageNews::Claim(Arc::new(claim))));
    }

    pub(super) fn change_claim(&mut self, name: &str, how: impl FnOnce(&mut Claim)) {
        let mut claim = self.storage.claims[name].clone();
        how(&mut claim);
        claim.resource_version = Some(self.version()).filter(|_| !claim.is_bound);
        self.tell_claim(claim);
    }

    /// A volume on this node's own disk, or one that can be had everywhere.
    pub(super) fn volume(&mut self, name: &str, class: &str, on: Option<&str>) {
        let hostname = |node: &str| Requirement {
            key: Arc::from("kubernetes.io/hostname"),
            operator: Operator::In,
            values: vec![Arc::from(node)],
        };
        let volume = PersistentVolume {
            name: name.into(),
            uid: Uid::from(format!("uid-volume-{name}")),
            resource_version: Some(self.version()),
            deleting: false,
            labels: Arc::from([]),
            offers: wants(class),
            claim: None,
            is_available: true,
            affinity: on.map(|node| {
                vec![NodeSelectorTerm { labels: vec![hostname(node)], fields: Vec::new() }]
            }),
            zones: Vec::new(),
            attachable: None,
            taken_over: None,
        };
        self.tell_volume(volume);
    }

    fn tell_volume(&mut self, volume: PersistentVolume) {
        self.storage.volumes.insert(volume.name.to_string(), volume.clone());
        self.tell(Event::Storage(StorageNews::Volume(Arc::new(volume))));
    }

    pub(super) fn change_volume(&mut self, name: &str, how: impl FnOnce(&mut PersistentVolume)) {
        let mut volume = self.storage.volumes[name].clone();
        how(&mut volume);
        volume.resource_version = Some(self.version());
        self.tell_volume(volume);
    }

    pub(super) fn class(&mut self, name: &str, provisioner: &str) {
        let class = StorageClass {
            name: name.into(),
            uid: Uid::from(format!("uid-class-{name}")),
            waits_for_pod: provisioner != "at-once",
            provisioner: provisioner.into(),
            allowed_topologies: Vec::new(),
        };
        self.storage.classes.insert(name.to_owned(), class.clone());
        self.tell(Event::Storage(StorageNews::Class(Arc::new(class))));
    }

    /// The node for which a claim's volume is to be made.
    pub(super) fn selected_node(&self, claim: &str) -> Option<&NodeName> {
        self.storage.claims[claim].selected_node.as_ref()
    }

    /// The controller binds a claim to a volume, from both sides.
    pub(super) fn bind_claim(&mut self, claim: &str, volume: &str) {
        let id = self.storage.claims[claim].id.clone();
        self.change_volume(volume, |volume| {
            volume.claim = Some(ClaimRef { key: id.key, uid: Some(id.uid) });
            volume.is_available = false;
        });
        self.change_claim(claim, |claim| {
            claim.volume = Some(volume.into());
            claim.is_bound = true;
        });
    }

    pub(super) fn list_storage(&mut self) {
        for class in self.storage.classes.values().cloned().collect::<Vec<_>>() {
            self.tell(Event::Storage(StorageNews::Class(Arc::new(class))));
        }
        for volume in self.storage.volumes.values().cloned().collect::<Vec<_>>() {
            self.tell(Event::Storage(StorageNews::Volume(Arc::new(volume))));
        }
        for claim in self.storage.claims.values().cloned().collect::<Vec<_>>() {
            self.tell(Event::Storage(StorageNews::Claim(Arc::new(claim))));
        }
    }

    pub(super) fn select_node(
        &mut self,
        claim: &ObjectRef,
        version: Option<&str>,
        node: &NodeName,
    ) -> WriteOutcome {
        let name = claim.key.name.to_string();
        let Some(known) = self.storage.claims.get(&name).filter(|known| known.id == *claim) else {
            return WriteOutcome::Gone;
        };
        if known.resource_version.as_deref() != version {
            return WriteOutcome::Conflict;
        }
        self.storage.written.push((name.clone(), node.to_string()));
        self.change_claim(&name, |claim| claim.selected_node = Some(node.clone()));
        WriteOutcome::Written(None)
    }

    pub(super) fn claim_volume(
        &mut self,
        volume: &ObjectRef,
        version: Option<&str>,
        claim: &ObjectRef,
    ) -> WriteOutcome {
        let name = volume.key.name.to_string();
        let Some(known) = self.storage.volumes.get(&name).filter(|known| known.uid == volume.uid)
        else {
            return WriteOutcome::Gone;
        };
        if known.resource_version.as_deref() != version {
            return WriteOutcome::Conflict;
        }
        self.storage.written.push((claim.key.name.to_string(), name.clone()));
        let reference = ClaimRef { key: claim.key.clone(), uid: Some(claim.uid.clone()) };
        self.change_volume(&name, |volume| volume.claim = Some(reference));
        WriteOutcome::Written(None)
    }

    /// Claims and where they are to be, as written so far; then it is forgotten.
    pub(super) fn written(&mut self) -> Vec<(String, String)> {
        let mut written = std::mem::take(&mut self.storage.written);
        written.sort();
        written
    }

    /// Nodes with the label by which local volumes find them.
    pub(super) fn labelled(nodes: &[(&str, u64)]) -> Self {
        let mut world = World::new(nodes);
        for (name, cores) in nodes {
            world.tell(Event::Node(labelled(name, *cores)));
        }
        world
    }

    /// A new process finds what an API server holds.
    pub(super) fn start_anew(&mut self, nodes: &[(&str, u64)], controllers: &[Controller]) {
        self.restart();
        self.list(nodes, controllers);
        for (name, cores) in nodes {
            self.tell(Event::Node(labelled(name, *cores)));
        }
        self.settle();
    }
}

fn labelled(name: &str, cores: u64) -> Arc<Node> {
    let labels = vec![(Arc::from("kubernetes.io/hostname"), Arc::from(name))];
    Arc::new(Node { labels, ..Node::clone(&node(name, cores)) })
}

fn wants(class: &str) -> VolumeWants {
    VolumeWants {
        class: class.into(),
        bytes: Some(1 << 30),
        access_modes: vec!["ReadWriteOnce".into()],
        is_block: false,
        attributes_class: "".into(),
        selector: None,
    }
}

pub(super) fn mounting(mut pod: Pod, claims: &[&str]) -> Pod {
    pod.claims =
        claims.iter().map(|name| PodClaim { name: (*name).into(), is_ephemeral: false }).collect();
    pod
}
