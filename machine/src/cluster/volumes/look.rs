//! One pod on one node: which volumes it would have there, or why it cannot have them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::candidates::{self, Candidates};
use super::choices::Choice;
use super::known::Known;
use super::limits::{exceeds_limit, exceeds_limit_alone};
use super::storage::is_in_zone;
use crate::cluster::filters::Rejection;
use crate::cluster::node::Node;
use crate::cluster::presence::Presence;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::constraints::Disk;
use fluxqueue_workload::storage::{Attachable, Claim, PersistentVolume};
use fluxqueue_workload::{ObjectKey, Pod, Uid};

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
    /// Returns the pod, and the volumes that drivers attach for it.
    fn attaches(&self) -> (&Uid, &[Attachable]) {
        (&self.uid, &self.attachables)
    }

    pub(super) fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Leaves out claims that are looked after. True if some are left that have no volume.
    pub(super) fn leave_out(&mut self, looked_after: impl Fn(&Claim) -> bool) -> bool {
        self.unbound.retain(|(claim, _)| !looked_after(claim));
        !self.unbound.is_empty()
    }
}

/// Returns the mounts of a pod; `None` if its claims are not ready.
pub(super) fn mounts(known: Known<'_>, pod: &Pod) -> Option<Mounts> {
    let claims = known.storage.ready_claims(pod).ok()?;
    let mut mounts = Mounts {
        uid: pod.id.uid.clone(),
        bound: Vec::new(),
        unbound: Vec::new(),
        exclusive: Vec::new(),
        has_restricted_disk: pod.shape.constraints.disks.iter().any(Disk::is_restricted),
        attachables: known.storage.attachables(pod),
    };
    for (mounted, claim) in pod.claims.iter().zip(claims) {
        if claim.is_for_one_pod() && !mounted.is_ephemeral {
            mounts.exclusive.push(claim.id.key.clone());
        }
        match claim
            .volume
            .as_ref()
            .filter(|_| claim.is_bound)
            .map(|name| known.storage.persistent.get(name))
        {
            Some(volume) => {
                mounts
                    .bound
                    .push(Bound { volume: volume.cloned(), is_zonal: !mounted.is_ephemeral });
            }
            None => {
                // A claim that is mounted twice is one.
                if !mounts.unbound.iter().any(|(known, _)| known.id == claim.id) {
                    let candidates = candidates::of(known, &claim);
                    mounts.unbound.push((claim, candidates));
                }
            }
        }
    }
    Some(mounts)
}

/// The nodes on which the pod cannot have its volumes, and why.
pub(super) fn closed_to<'a>(
    known: Known<'_>,
    pod: &Pod,
    nodes: impl Iterator<Item = (Rank, &'a Node)>,
) -> Vec<(RankSet, Rejection)> {
    let mounts = mounts(known, pod);
    let mut nodes = nodes.peekable();
    if let Some((mounts, (_, any))) = mounts.as_ref().zip(nodes.peek())
        && is_alike_everywhere(known, mounts)
        && look(known, mounts, any, &BTreeSet::new()).is_ok()
    {
        return Vec::new();
    }
    let mut closed: BTreeMap<Rejection, RankSet> = BTreeMap::new();
    for (rank, node) in nodes {
        let rejections = match &mounts {
            Some(mounts) => look(known, mounts, node, &BTreeSet::new()).err().unwrap_or_default(),
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
fn is_alike_everywhere(known: Known<'_>, mounts: &Mounts) -> bool {
    let is_uncounted = mounts.attachables.is_empty() || known.storage.csi_nodes.is_empty();
    let is_everywhere = |bound: &Bound| {
        bound
            .volume
            .as_ref()
            .is_none_or(|volume| volume.is_everywhere() && volume.taken_over.is_none())
    };
    let is_made_anywhere = |(claim, candidates): &(Arc<Claim>, Candidates)| {
        let class = known.storage.classes.get(&claim.wants.class);
        candidates.are_none()
            && claim.selected_node.is_none()
            && !known.choices.made_for.contains_key(&claim.id)
            && class.is_none_or(|class| {
                class.allowed_topologies.is_empty() && !known.storage.tells_capacity(class)
            })
    };
    is_uncounted
        && !mounts.has_restricted_disk
        && mounts.bound.iter().all(is_everywhere)
        && mounts.unbound.iter().all(is_made_anywhere)
}

/// Returns why the pod cannot have its volumes on the node: the reasons of the first of
/// kube-scheduler's plugins that rejects it, by its first look, where nominated pods count on
/// their node.
pub(super) fn reject(known: Known<'_>, pod: &Pod, node: &Node) -> Vec<Rejection> {
    let found = mounts(known, pod).map(|mounts| first_look(known, &mounts, node, &BTreeSet::new()));
    found.and_then(Result::err).unwrap_or_default()
}

/// The same by its second look alone, where they do not count.
pub(super) fn reject_alone(known: Known<'_>, pod: &Pod, node: &Node) -> Option<Rejection> {
    let mounts = mounts(known, pod)?;
    exceeds_limit_alone(known, mounts.attaches(), node).then_some(Rejection::VolumeLimit)
}

/// Returns the choice for the pod on this node, beside the choices for the pods that start
/// together with it.
pub(super) fn look(
    known: Known<'_>,
    mounts: &Mounts,
    node: &Node,
    together: &BTreeSet<Uid>,
) -> Result<Choice, Vec<Rejection>> {
    let found = first_look(known, mounts, node, together)?;
    if exceeds_limit_alone(known, mounts.attaches(), node) {
        Err(vec![Rejection::VolumeLimit])
    } else {
        Ok(found)
    }
}

fn first_look(
    known: Known<'_>,
    mounts: &Mounts,
    node: &Node,
    together: &BTreeSet<Uid>,
) -> Result<Choice, Vec<Rejection>> {
    let is_in_use = |claim: &ObjectKey| known.users.is_in_use(claim, &mounts.uid);
    if mounts.exclusive.iter().any(is_in_use) || is_meant_for_another(known, mounts, node) {
        return Err(vec![Rejection::ClaimInUse]);
    }
    if exceeds_limit(known, mounts.attaches(), node) {
        return Err(vec![Rejection::VolumeLimit]);
    }
    let found = bind(known, mounts, node, together)?;
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

/// True if a pod that is nominated to the node mounts a claim of the same name as one that only
/// this pod may use. kube-scheduler asks about that only for pods that have disks of their own, and
/// does not ask in which namespace the claim is.
fn is_meant_for_another(known: Known<'_>, mounts: &Mounts, node: &Node) -> bool {
    if !mounts.has_restricted_disk || mounts.exclusive.is_empty() {
        return false;
    }
    let there = known.users.on_node(&node.name).filter(|uid| *uid != mounts.uid());
    let nominated = there.filter(|uid| known.users.presence(uid) == Some(Presence::Nominated));
    let mut claims =
        nominated.filter_map(|uid| known.users.pods.get(uid)).flat_map(|pod| &pod.claims);
    claims.any(|claim| {
        !claim.is_ephemeral && mounts.exclusive.iter().any(|own| own.name == claim.name)
    })
}

fn bind(
    known: Known<'_>,
    mounts: &Mounts,
    node: &Node,
    together: &BTreeSet<Uid>,
) -> Result<Choice, Vec<Rejection>> {
    let of_bound = |bound: &Bound| match &bound.volume {
        None => Some(Rejection::VolumeMissing),
        Some(volume) => {
            (!known.storage.reaches_bound(volume, node)).then_some(Rejection::VolumeAffinity)
        }
    };
    let mut rejections: Vec<Rejection> =
        mounts.bound.iter().find_map(of_bound).into_iter().collect();
    let mut choice = Choice::on(node.name.clone());
    let made_for =
        |claim: &Claim| known.choices.made_for.get(&claim.id).map(|made_for| made_for.node.clone());
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
                if known.choices.is_made_for(&claim.id, &selected, together)
                    && known.storage.is_allowed(claim, node) =>
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
        match known.storage.can_make(claim, node) {
            Ok(()) => choice.make.push(claim.id.clone()),
            Err(rejection) => {
                rejections.push(rejection);
                break;
            }
        }
    }
    if rejections.is_empty() { Ok(choice) } else { Err(rejections) }
}
