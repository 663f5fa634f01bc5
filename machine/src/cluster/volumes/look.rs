//! One pod on one node: which volumes it would have there, or why it cannot have them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::candidates::Candidates;
use super::{Volumes, choices::Choice, claims_of};
use crate::cluster::Node;
use crate::cluster::filters::Rejection;
use crate::cluster::neighbours::Presence;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::constraints::{Disk, Requirement};
use fluxqueue_workload::storage::{Attachable, Claim, PersistentVolume, StorageClass};
use fluxqueue_workload::{ObjectKey, Pod, Uid};

/// The provisioner of classes for which volumes are not made on demand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Labels that volumes have, and the newer ones that nodes may have in their place.
const RENAMED: [(&str, &str); 2] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// The volumes of a pod, whatever the node.
pub(super) struct Mounts {
    uid: Uid,
    bound: Vec<Bound>,
    /// Each with the volumes that it could have.
    unbound: Vec<(Arc<Claim>, Candidates)>,
    exclusive: Vec<ObjectKey>,
    /// True if it has a disk of its own that others may have: then kube-scheduler checks those
    /// claims of nominated pods as well.
    has_restricted_disk: bool,
    pub(super) attachables: Vec<Attachable>,
}

/// A claim that is bound.
struct Bound {
    /// `None`: its volume is not there.
    volume: Option<Arc<PersistentVolume>>,
    /// True if it is to be in the node's zone.
    is_zonal: bool,
}

impl Mounts {
    pub(super) fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Leaves out claims that are looked after. True if some are left that have no volume.
    pub(super) fn leave_out(&mut self, looked_after: impl Fn(&Claim) -> bool) -> bool {
        self.unbound.retain(|(claim, _)| !looked_after(claim));
        !self.unbound.is_empty()
    }
}

impl Volumes {
    /// Returns the mounts of a pod; `None` if its claims are not ready.
    pub(super) fn mounts(&self, pod: &Pod) -> Option<Mounts> {
        let claims = self.ready_claims(pod).ok()?;
        let mut mounts = Mounts {
            uid: pod.id.uid.clone(),
            bound: Vec::new(),
            unbound: Vec::new(),
            exclusive: Vec::new(),
            has_restricted_disk: pod.shape.constraints.disks.iter().any(Disk::is_restricted),
            attachables: self.attachables(pod),
        };
        for (mounted, claim) in pod.claims.iter().zip(claims) {
            if claim.is_for_one_pod() && !mounted.is_ephemeral {
                mounts.exclusive.push(claim.id.key.clone());
            }
            match claim
                .volume
                .as_ref()
                .filter(|_| claim.is_bound)
                .map(|name| self.persistent.get(name))
            {
                Some(volume) => {
                    mounts
                        .bound
                        .push(Bound { volume: volume.cloned(), is_zonal: !mounted.is_ephemeral });
                }
                None => {
                    // A claim that is mounted twice is one.
                    if !mounts.unbound.iter().any(|(known, _)| known.id == claim.id) {
                        let candidates = self.candidates(&claim);
                        mounts.unbound.push((claim, candidates));
                    }
                }
            }
        }
        Some(mounts)
    }

    /// The nodes on which the pod cannot have its volumes, and why.
    pub fn closed_to<'a>(
        &self,
        pod: &Pod,
        nodes: impl Iterator<Item = (Rank, &'a Node)>,
    ) -> Vec<(RankSet, Rejection)> {
        let mounts = self.mounts(pod);
        let mut nodes = nodes.peekable();
        if let Some((mounts, (_, any))) = mounts.as_ref().zip(nodes.peek())
            && self.is_alike_everywhere(mounts)
            && self.look(mounts, any, &BTreeSet::new()).is_ok()
        {
            return Vec::new();
        }
        let mut closed: BTreeMap<Rejection, RankSet> = BTreeMap::new();
        for (rank, node) in nodes {
            let rejections = match &mounts {
                Some(mounts) => self.look(mounts, node, &BTreeSet::new()).err().unwrap_or_default(),
                None => vec![Rejection::VolumeMissing],
            };
            for rejection in rejections {
                closed.entry(rejection).or_default().insert(rank);
            }
        }
        closed.into_iter().map(|(rejection, ranks)| (ranks, rejection)).collect()
    }

    /// True if the pod has the same of its volumes on every node: nodes do not count them, and no
    /// rule limits where they can be had.
    fn is_alike_everywhere(&self, mounts: &Mounts) -> bool {
        let is_uncounted = mounts.attachables.is_empty() || self.csi_nodes.is_empty();
        let is_everywhere = |bound: &Bound| {
            bound
                .volume
                .as_ref()
                .is_none_or(|volume| volume.is_everywhere() && volume.taken_over.is_none())
        };
        let is_made_anywhere = |(claim, candidates): &(Arc<Claim>, Candidates)| {
            let class = self.classes.get(&claim.wants.class);
            candidates.are_none()
                && claim.selected_node.is_none()
                && !self.made_for.contains_key(&claim.id)
                && class.is_none_or(|class| {
                    class.allowed_topologies.is_empty() && !self.tells_capacity(class)
                })
        };
        is_uncounted
            && !mounts.has_restricted_disk
            && mounts.bound.iter().all(is_everywhere)
            && mounts.unbound.iter().all(is_made_anywhere)
    }

    /// The pod's claims that are bound to volumes which not all nodes can use, with these volumes.
    pub fn tied(&self, pod: &Pod) -> Vec<(ObjectKey, Arc<PersistentVolume>)> {
        let claims =
            claims_of(pod).filter_map(|key| self.claims.get(&key)).filter(|claim| claim.is_bound);
        let with_volume = claims.filter_map(|claim| {
            let volume = self.persistent.get(claim.volume.as_ref()?)?;
            Some((claim.id.key.clone(), Arc::clone(volume)))
        });
        with_volume.filter(|(_, volume)| !volume.is_everywhere()).collect()
    }

    /// Returns why the pod cannot have its volumes on the node: the reasons of the first of
    /// kube-scheduler's plugins that rejects it, by its first look, where nominated pods count on
    /// their node.
    pub fn reject(&self, pod: &Pod, node: &Node) -> Vec<Rejection> {
        let found = self.mounts(pod).map(|mounts| self.first_look(&mounts, node, &BTreeSet::new()));
        found.and_then(Result::err).unwrap_or_default()
    }

    /// The same by its second look alone, where they do not count.
    pub fn reject_alone(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        let mounts = self.mounts(pod)?;
        self.exceeds_limit_alone(&mounts, node).then_some(Rejection::VolumeLimit)
    }

    /// The node is where the volume, which is bound, can be used.
    pub(in crate::cluster) fn can_use(&self, volume: &PersistentVolume, node: &Node) -> bool {
        self.reaches_bound(volume, node) && is_in_zone(volume, node)
    }

    /// Returns the choice for the pod on this node, beside the choices for the pods that start
    /// together with it.
    pub(super) fn look(
        &self,
        mounts: &Mounts,
        node: &Node,
        together: &BTreeSet<Uid>,
    ) -> Result<Choice, Vec<Rejection>> {
        let found = self.first_look(mounts, node, together)?;
        if self.exceeds_limit_alone(mounts, node) {
            Err(vec![Rejection::VolumeLimit])
        } else {
            Ok(found)
        }
    }

    fn first_look(
        &self,
        mounts: &Mounts,
        node: &Node,
        together: &BTreeSet<Uid>,
    ) -> Result<Choice, Vec<Rejection>> {
        let is_in_use = |claim: &ObjectKey| self.is_in_use(claim, &mounts.uid);
        if mounts.exclusive.iter().any(is_in_use) || self.is_meant_for_another(mounts, node) {
            return Err(vec![Rejection::ClaimInUse]);
        }
        if self.exceeds_limit(mounts, node) {
            return Err(vec![Rejection::VolumeLimit]);
        }
        let found = self.bind(mounts, node, together)?;
        let mut zonal = mounts
            .bound
            .iter()
            .filter(|bound| bound.is_zonal)
            .filter_map(|bound| bound.volume.as_ref());
        if zonal.all(|volume| is_in_zone(volume, node)) {
            Ok(found)
        } else {
            Err(vec![Rejection::VolumeZone])
        }
    }

    /// A pod that is nominated to the node mounts a claim of the same name as one that only this
    /// pod may use. kube-scheduler asks about that only for pods that have disks of their own, and
    /// does not ask in which namespace the claim is.
    fn is_meant_for_another(&self, mounts: &Mounts, node: &Node) -> bool {
        if !mounts.has_restricted_disk || mounts.exclusive.is_empty() {
            return false;
        }
        let there =
            self.on_node.get(&node.name).into_iter().flatten().filter(|uid| *uid != mounts.uid());
        let nominated = there.filter(|uid| self.presence(uid) == Some(Presence::Nominated));
        let mut claims = nominated.filter_map(|uid| self.pods.get(uid)).flat_map(|pod| &pod.claims);
        claims.any(|claim| {
            !claim.is_ephemeral && mounts.exclusive.iter().any(|own| own.name == claim.name)
        })
    }

    fn bind(
        &self,
        mounts: &Mounts,
        node: &Node,
        together: &BTreeSet<Uid>,
    ) -> Result<Choice, Vec<Rejection>> {
        let of_bound = |bound: &Bound| match &bound.volume {
            None => Some(Rejection::VolumeMissing),
            Some(volume) => {
                (!self.reaches_bound(volume, node)).then_some(Rejection::VolumeAffinity)
            }
        };
        let mut rejections: Vec<Rejection> =
            mounts.bound.iter().find_map(of_bound).into_iter().collect();
        let mut choice = Choice::on(node.name.clone());
        let made_for =
            |claim: &Claim| self.made_for.get(&claim.id).map(|made_for| made_for.node.clone());
        let selected = |claim: &Claim| claim.selected_node.clone().or_else(|| made_for(claim));
        let mut to_make: Vec<&Arc<Claim>> = Vec::new();
        for (claim, _) in &mounts.unbound {
            match selected(claim) {
                None => {}
                // A claim is not bound to another volume once its own has been requested.
                Some(selected) if selected == node.name => to_make.push(claim),
                // As kube-scheduler would start this pod once the claim is bound, wherever the
                // volume can be had then.
                Some(selected)
                    if self.is_made_for(&claim.id, &selected, together)
                        && self.is_allowed(claim, node) =>
                {
                    choice.shared.push(claim.id.clone());
                }
                Some(_) => {
                    rejections.push(Rejection::NoVolume);
                    return Err(rejections);
                }
            }
        }
        let mut chosen: Vec<Arc<str>> = Vec::new();
        let mut to_find: Vec<&(Arc<Claim>, Candidates)> =
            mounts.unbound.iter().filter(|(claim, _)| selected(claim).is_none()).collect();
        // The smallest first, so that it does not take the volume that a larger one needs.
        to_find.sort_by_key(|(claim, _)| claim.wants.bytes.unwrap_or(0));
        for (claim, candidates) in to_find {
            match candidates.find(node, &chosen) {
                Some(volume) => {
                    chosen.push(Arc::clone(&volume.name));
                    choice.bind.push((claim.id.clone(), Arc::clone(&volume.name)));
                }
                None => to_make.push(claim),
            }
        }
        for claim in to_make {
            match self.can_make(claim, node) {
                Ok(()) => choice.make.push(claim.id.clone()),
                Err(rejection) => {
                    rejections.push(rejection);
                    break;
                }
            }
        }
        if rejections.is_empty() { Ok(choice) } else { Err(rejections) }
    }

    /// True if a provisioner makes volumes of its class.
    pub(super) fn is_made(&self, claim: &Claim) -> bool {
        let class = self.classes.get(&claim.wants.class);
        class.is_some_and(|class| {
            !class.provisioner.is_empty() && &*class.provisioner != NO_PROVISIONER
        })
    }

    /// The claim's class lets volumes be made that are of use on the node.
    fn is_allowed(&self, claim: &Claim, node: &Node) -> bool {
        self.classes.get(&claim.wants.class).is_some_and(|class| allows(class, node))
    }

    /// The driver that makes volumes of the class says how large they can be, and where.
    fn tells_capacity(&self, class: &StorageClass) -> bool {
        self.drivers.get(&class.provisioner).is_some_and(|driver| driver.tells_capacity)
    }

    /// A volume for the claim can be made that is of use on the node, as far as its class and its
    /// driver say.
    fn can_make(&self, claim: &Claim, node: &Node) -> Result<(), Rejection> {
        let class = self.classes.get(&claim.wants.class).ok_or(Rejection::NoVolume)?;
        if !self.is_made(claim) || !allows(class, node) {
            return Err(Rejection::NoVolume);
        }
        let Some(bytes) = claim.wants.bytes.filter(|_| self.tells_capacity(class)) else {
            return Ok(());
        };
        let mut capacities =
            self.capacities.values().filter(|capacity| capacity.class == class.name);
        let is_enough = capacities.any(|capacity| {
            capacity.bytes.is_some_and(|largest| largest >= bytes)
                && capacity.nodes.as_ref().is_some_and(|nodes| all_match(nodes, node))
        });
        if is_enough { Ok(()) } else { Err(Rejection::TooLittleStorage) }
    }
}

/// A term without requirements matches nothing.
fn allows(class: &StorageClass, node: &Node) -> bool {
    let terms = &class.allowed_topologies;
    terms.is_empty() || terms.iter().any(|term| !term.is_empty() && all_match(term, node))
}

fn all_match(requirements: &[Requirement], node: &Node) -> bool {
    requirements.iter().all(|requirement| requirement.matches(node.label(&requirement.key)))
}

/// A node without any zone or region is in all of them: the cluster has but one.
fn is_in_zone(volume: &PersistentVolume, node: &Node) -> bool {
    let has_zones =
        RENAMED.iter().any(|(old, new)| node.label(old).is_some() || node.label(new).is_some());
    !has_zones
        || volume.zones.iter().all(|(label, zones)| {
            let renamed = RENAMED.iter().find(|(old, _)| **old == **label).map(|(_, new)| *new);
            let zone = node.label(label).or_else(|| node.label(renamed?));
            zone.is_some_and(|zone| zones.contains(zone))
        })
}
