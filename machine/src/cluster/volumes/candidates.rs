//! Volumes that a claim could be bound to, the smallest first, found by node where they are bound
//! to one.

use std::collections::HashMap;
use std::sync::Arc;

use super::known::Known;
use super::storage::reaches;
use crate::cluster::node::Node;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::{NodeSelectorTerm, Operator};
use fluxqueue_workload::storage::{Claim, PersistentVolume, VolumeWants};

/// The label by which volumes on a node's own disks say where they are.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Volumes for a claim, whatever the node.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// A volume is meant for this very claim: no other will do.
    meant: Option<Arc<PersistentVolume>>,
    /// The volumes by the hostname that they are bound to.
    local: HashMap<Arc<str>, Vec<Arc<PersistentVolume>>>,
    others: Vec<Arc<PersistentVolume>>,
}

impl Candidates {
    /// True if no node has a candidate.
    pub(super) fn are_none(&self) -> bool {
        self.meant.is_none() && self.local.is_empty() && self.others.is_empty()
    }
}

/// The volumes that the claim could be bound to.
pub(super) fn of(known: Known<'_>, claim: &Claim) -> Candidates {
    let of_class = known.storage.by_class.get(&claim.wants.class).into_iter().flatten();
    let mut fit: Vec<&Arc<PersistentVolume>> = of_class
        .filter_map(|name| known.storage.persistent.get(name))
        .filter(|volume| volume.claim.is_none() || volume.is_of(&claim.id))
        .filter(|volume| known.choices.taken.get(&volume.name).is_none_or(|of| *of == claim.id))
        .filter(|volume| !volume.deleting && is_large_enough(&volume.offers, &claim.wants))
        .collect();
    let mut candidates = Candidates::default();
    // Pods that mount one claim get one volume, also while only the choice says so.
    let is_meant = |volume: &&&Arc<PersistentVolume>| {
        volume.is_of(&claim.id) || known.choices.taken.get(&volume.name) == Some(&claim.id)
    };
    if let Some(meant) = fit.iter().find(is_meant) {
        candidates.meant = Some(Arc::clone(meant));
        return candidates;
    }
    fit.retain(|volume| volume.is_available && will_do(volume, &claim.wants));
    fit.sort_by(|a, b| rank_of(a).cmp(&rank_of(b)));
    for volume in fit {
        match volume.affinity.as_deref().and_then(hostnames) {
            Some(hosts) => {
                for host in hosts {
                    candidates.local.entry(host).or_default().push(Arc::clone(volume));
                }
            }
            None => candidates.others.push(Arc::clone(volume)),
        }
    }
    candidates
}

/// Returns how many pods with the needs of this one find volumes on one node, at the very most;
/// `None` if there is no such bound. The graph gets this bound, so that it does not put them
/// all on the node that has one.
pub(super) fn most_on_a_node(known: Known<'_>, pod: &Pod) -> Option<u64> {
    let claims = known.storage.ready_claims(pod).ok()?;
    let to_find = claims.iter().filter(|claim| !claim.is_bound && claim.selected_node.is_none());
    to_find
        .filter(|claim| !known.storage.is_made(claim))
        .map(|claim| of(known, claim).most_on_a_node())
        .min()
}

impl Candidates {
    fn most_on_a_node(&self) -> u64 {
        let local = self.local.values().map(Vec::len).max().unwrap_or(0);
        (local + self.others.len() + usize::from(self.meant.is_some())).max(1) as u64
    }

    /// The smallest that can be had on this node and is not `chosen` already.
    pub(super) fn find(&self, node: &Node, chosen: &[Arc<str>]) -> Option<&Arc<PersistentVolume>> {
        let is_here = |volume: &Arc<PersistentVolume>| {
            reaches(volume, node) && !chosen.contains(&volume.name)
        };
        if let Some(meant) = &self.meant {
            return Some(meant).filter(|volume| is_here(volume));
        }
        let local =
            node.label(HOSTNAME).and_then(|host| self.local.get(host)).into_iter().flatten();
        let local = local.into_iter().find(|volume| is_here(volume));
        let other = self.others.iter().find(|volume| is_here(volume));
        [local, other].into_iter().flatten().min_by(|a, b| rank_of(a).cmp(&rank_of(b)))
    }
}

/// The smallest first; of equal ones, the one that fewer claims could be bound to.
fn rank_of(volume: &PersistentVolume) -> (Option<u64>, usize, &str) {
    (volume.offers.bytes, volume.offers.access_modes.len(), &volume.name)
}

fn is_large_enough(offers: &VolumeWants, wants: &VolumeWants) -> bool {
    offers.bytes.unwrap_or(0) >= wants.bytes.unwrap_or(0)
        && offers.is_block == wants.is_block
        && offers.attributes_class == wants.attributes_class
}

fn will_do(volume: &PersistentVolume, wants: &VolumeWants) -> bool {
    let label = |key: &str| {
        let at = volume.labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&*volume.labels[at].1)
    };
    let selector = wants.selector.as_deref().unwrap_or_default();
    selector.iter().all(|requirement| requirement.matches(label(&requirement.key)))
        && wants.access_modes.iter().all(|mode| volume.offers.access_modes.contains(mode))
}

/// The hosts that the terms name, if each of them names some.
fn hostnames(terms: &[NodeSelectorTerm]) -> Option<Vec<Arc<str>>> {
    let mut hosts = Vec::new();
    for term in terms {
        let names = |operator: Operator, key: &str| operator == Operator::In && key == HOSTNAME;
        let named =
            term.labels.iter().find(|requirement| names(requirement.operator, &requirement.key))?;
        hosts.extend(named.values.iter().cloned());
    }
    hosts.sort_unstable();
    hosts.dedup();
    Some(hosts)
}
