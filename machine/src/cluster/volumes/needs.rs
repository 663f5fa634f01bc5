//! Whether a pod's claims are ready, and what makes two pods alike in what they ask of nodes for
//! their claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Volumes, claims_of};
use fluxqueue_workload::constraints::{Disk, NodeSelectorTerm};
use fluxqueue_workload::storage::{Attachable, Claim, PodClaim, TakenOver, VolumeWants};
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Pod};

/// The needs of a pod's volumes. Pods of one class with equal needs may use the same nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeNeeds {
    each: Vec<Need>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Need {
    /// A volume that is there: its nodes.
    Bound {
        affinity: Option<Vec<NodeSelectorTerm>>,
        taken_over: Option<TakenOver>,
        zones: Vec<(Arc<str>, BTreeSet<Arc<str>>)>,
    },
    /// A volume that counts against a limit.
    Attached(Attachable),
    /// A volume that has to be found or made, for any such claim, or for this one alone.
    Unbound { wants: VolumeWants, selected: Option<NodeName>, own: Option<ObjectRef> },
    /// A claim that one pod at a time may use.
    Exclusive(ObjectKey),
}

/// A pod's claims are not such that it could be placed. More nodes would not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unready {
    /// kube-scheduler's words.
    pub said: String,
    /// The name of the claim.
    pub claim: Arc<str>,
    /// True if the words are a whole sentence about the nodes.
    pub is_whole: bool,
}

impl VolumeNeeds {
    /// True if it rests on more than the places of its volumes: on the use by other pods, or on
    /// volumes that are still to be found or made. The graph cannot hold that in time.
    pub fn rests_on_others(&self) -> bool {
        !self.each.iter().all(|need| matches!(need, Need::Bound { .. }))
    }
}

impl Volumes {
    /// Returns the needs of the pod's volumes; `None` if any node will do.
    pub fn needs(&self, pod: &Pod) -> Result<Option<VolumeNeeds>, Unready> {
        let claims = self.ready_claims(pod)?;
        let mut each = Vec::new();
        for (mounted, claim) in pod.claims.iter().zip(&claims) {
            if claim.is_for_one_pod() && !mounted.is_ephemeral {
                each.push(Need::Exclusive(claim.id.key.clone()));
            }
            let Some(volume) = claim.volume.as_ref().and_then(|name| self.persistent.get(name))
            else {
                each.push(self.need_of_unbound(claim));
                continue;
            };
            if !volume.is_everywhere() {
                let zones = if mounted.is_ephemeral { Vec::new() } else { volume.zones.clone() };
                let (affinity, taken_over) = (volume.affinity.clone(), volume.taken_over.clone());
                each.push(Need::Bound { affinity, taken_over, zones });
            }
            each.extend(
                volume
                    .attachable
                    .iter()
                    .filter(|it| self.is_limited(it))
                    .cloned()
                    .map(Need::Attached),
            );
        }
        let disks = pod.shape.constraints.disks.iter().filter_map(Disk::attachable);
        each.extend(disks.filter(|disk| self.is_limited(disk)).map(Need::Attached));
        Ok((!each.is_empty()).then_some(VolumeNeeds { each }))
    }

    /// The claim of the pod that one pod at a time may use and another one uses.
    pub fn in_use(&self, pod: &Pod) -> Option<Arc<str>> {
        self.for_one_pod(pod).find(|key| self.is_in_use(key, &pod.id.uid)).map(|key| key.name)
    }

    /// The claims that the pod names and one pod at a time may use.
    pub fn for_one_pod(&self, pod: &Pod) -> impl Iterator<Item = ObjectKey> {
        let named =
            pod.claims.iter().zip(claims_of(pod)).filter(|(mounted, _)| !mounted.is_ephemeral);
        let named = named.map(|(_, key)| key);
        named.filter(|key| self.claims.get(key).is_some_and(|claim| claim.is_for_one_pod()))
    }

    /// Claims that ask for the same are alike, unless some volume is meant for one of them.
    fn need_of_unbound(&self, claim: &Claim) -> Need {
        let of_class = self.by_class.get(&claim.wants.class).into_iter().flatten();
        let meant = of_class
            .filter_map(|name| self.persistent.get(name))
            .any(|volume| volume.is_of(&claim.id));
        let is_chosen =
            self.made_for.contains_key(&claim.id) || self.taken.values().any(|of| *of == claim.id);
        let own = (meant || is_chosen).then(|| claim.id.clone());
        Need::Unbound { wants: claim.wants.clone(), selected: claim.selected_node.clone(), own }
    }

    /// The pod's claims, if each of them is such that the pod could be placed. In kube-scheduler's
    /// order: first VolumeRestrictions asks whether all are there, then VolumeBinding for their
    /// state, then VolumeZone for their volumes. The first and the last know nothing of claims that
    /// are made for the pod.
    pub(super) fn ready_claims(&self, pod: &Pod) -> Result<Vec<Arc<Claim>>, Unready> {
        if pod.claims.is_empty() {
            return Ok(Vec::new());
        }
        let unready = |claim: &Arc<str>, said: String| {
            Err(Unready { said, claim: Arc::clone(claim), is_whole: false })
        };
        if let Some(why) = &self.hidden {
            return unready(&pod.claims[0].name, why.to_string());
        }
        let mut claims = Vec::with_capacity(pod.claims.len());
        for (mounted, key) in pod.claims.iter().zip(claims_of(pod)) {
            let name = &mounted.name;
            match self.claims.get(&key) {
                Some(claim) => claims.push(Arc::clone(claim)),
                None if !mounted.is_ephemeral => {
                    return unready(name, format!("persistentvolumeclaim {name:?} not found"));
                }
                None => {}
            }
        }
        for (mounted, key) in pod.claims.iter().zip(claims_of(pod)) {
            let name = &mounted.name;
            let Some(claim) = self.claims.get(&key) else {
                let text =
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim";
                return unready(name, format!("{text} {name:?}"));
            };
            if claim.is_lost {
                let volume = claim.volume.as_deref().unwrap_or_default();
                let text = format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
                );
                return unready(name, text);
            }
            if claim.deleting {
                return unready(name, format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if mounted.is_ephemeral && claim.owner.as_ref() != Some(&pod.id.uid) {
                let text =
                    format!("PVC {key} was not created for pod {} (pod is not owner)", pod.id);
                return unready(name, text);
            }
        }
        if let Some(claim) =
            claims.iter().find(|claim| !claim.is_bound && !self.waits_for_pod(claim))
        {
            let text = "pod has unbound immediate PersistentVolumeClaims".to_owned();
            return unready(&claim.id.key.name, text);
        }
        let has_no_volume = |(mounted, claim): &(&PodClaim, &Arc<Claim>)| {
            let volume = claim.volume.as_ref().filter(|_| claim.is_bound && !mounted.is_ephemeral);
            volume.is_some_and(|volume| !self.persistent.contains_key(volume))
        };
        if let Some((_, claim)) = pod.claims.iter().zip(&claims).find(has_no_volume) {
            let volume = claim.volume.as_deref().unwrap_or_default();
            return unready(&claim.id.key.name, format!("persistentvolume {volume:?} not found"));
        }
        Ok(claims)
    }

    /// Its volume is found or made once a pod needs it. One that names its volume itself is the
    /// controller's matter.
    fn waits_for_pod(&self, claim: &Claim) -> bool {
        claim.volume.is_none()
            && self.classes.get(&claim.wants.class).is_some_and(|class| class.waits_for_pod)
    }
}
