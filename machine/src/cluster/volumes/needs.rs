//! Whether a pod's claims are ready, and what makes two pods alike in what they ask of nodes for
//! their claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::known::Known;
use super::storage::Unready;
use fluxqueue_workload::constraints::{Disk, NodeSelectorTerm};
use fluxqueue_workload::storage::{Attachable, Claim, TakenOver, VolumeWants};
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

impl VolumeNeeds {
    /// True if it rests on more than the places of its volumes: on the use by other pods, or on
    /// volumes that are still to be found or made. The graph cannot hold that in time.
    pub fn rests_on_others(&self) -> bool {
        !self.each.iter().all(|need| matches!(need, Need::Bound { .. }))
    }
}

/// Returns the needs of the pod's volumes; `None` if any node will do.
pub(super) fn needs(known: Known<'_>, pod: &Pod) -> Result<Option<VolumeNeeds>, Unready> {
    let claims = known.storage.ready_claims(pod)?;
    let mut each = Vec::new();
    for (mounted, claim) in pod.claims.iter().zip(&claims) {
        if claim.is_for_one_pod() && !mounted.is_ephemeral {
            each.push(Need::Exclusive(claim.id.key.clone()));
        }
        let Some(volume) =
            claim.volume.as_ref().and_then(|name| known.storage.persistent.get(name))
        else {
            each.push(need_of_unbound(known, claim));
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
                .filter(|it| known.storage.is_limited(it))
                .cloned()
                .map(Need::Attached),
        );
    }
    let disks = pod.shape.constraints.disks.iter().filter_map(Disk::attachable);
    each.extend(disks.filter(|disk| known.storage.is_limited(disk)).map(Need::Attached));
    Ok((!each.is_empty()).then_some(VolumeNeeds { each }))
}

/// The claim of the pod that one pod at a time may use and another one uses.
pub(super) fn in_use(known: Known<'_>, pod: &Pod) -> Option<Arc<str>> {
    known
        .storage
        .for_one_pod(pod)
        .find(|key| known.users.is_in_use(key, &pod.id.uid))
        .map(|key| key.name)
}

/// Claims that ask for the same are alike, unless some volume is meant for one of them.
fn need_of_unbound(known: Known<'_>, claim: &Claim) -> Need {
    let of_class = known.storage.by_class.get(&claim.wants.class).into_iter().flatten();
    let meant = of_class
        .filter_map(|name| known.storage.persistent.get(name))
        .any(|volume| volume.is_of(&claim.id));
    let is_chosen = known.choices.made_for.contains_key(&claim.id)
        || known.choices.taken.values().any(|of| *of == claim.id);
    let own = (meant || is_chosen).then(|| claim.id.clone());
    Need::Unbound { wants: claim.wants.clone(), selected: claim.selected_node.clone(), own }
}
