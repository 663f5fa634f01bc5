//! How far pods with a slot are on their way to their volumes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::choices::{Choice, Progress, Written};
use super::known::Known;
use super::look;
use crate::cluster::node::Node;
use fluxqueue_workload::storage::Claim;
use fluxqueue_workload::{ObjectRef, Pod};

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

/// True if a pod with a slot on this node can still have its volumes there: those that are bound,
/// and those that were chosen.
pub(super) fn still_suit(known: Known<'_>, pod: &Pod, node: &Node) -> bool {
    let Some(mut mounts) = look::mounts(known, pod) else { return false };
    let choice = known.choices.by_pod.get(&pod.id.uid).filter(|choice| choice.node == node.name);
    let is_left_open =
        mounts.leave_out(|claim| choice.is_some_and(|choice| choice.covers(&claim.id)));
    !is_left_open && look::look(known, &mounts, node, &BTreeSet::new()).is_ok()
}

/// Returns how far each claim is on its way to the chosen volume.
pub(super) fn progress(
    known: Known<'_>,
    choice: &Choice,
    node: &Node,
) -> Vec<(ObjectRef, Progress)> {
    let bind = choice.bind.iter().map(|(claim, volume)| (claim, Gets::Volume(volume)));
    let make = choice.make.iter().map(|claim| (claim, Gets::MadeForIt));
    let all =
        bind.chain(make).chain(choice.shared.iter().map(|claim| (claim, Gets::MadeForAnother)));
    all.map(|(claim, gets)| (claim.clone(), progress_of(known, choice, claim, gets, node)))
        .collect()
}

fn progress_of(
    known: Known<'_>,
    choice: &Choice,
    id: &ObjectRef,
    gets: Gets<'_>,
    node: &Node,
) -> Progress {
    let Some(claim) = known.storage.claim(id) else {
        return Progress::Failed(format!("persistentvolumeclaim {} not found", id.key));
    };
    if claim.deleting {
        return Progress::Failed(format!("persistentvolumeclaim {} is being deleted", id.key));
    }
    if claim.is_bound {
        return match claim.volume.as_ref().and_then(|name| known.storage.persistent.get(name)) {
            Some(volume) if known.storage.reaches_bound(volume, node) => Progress::Bound,
            Some(volume) => Progress::Failed(format!(
                "persistentvolumeclaim {} is bound to pv {:?}, which cannot be used from node {:?}",
                id.key, volume.name, node.name
            )),
            None => Progress::Waits,
        };
    }
    let written = choice.written.get(id);
    match gets {
        Gets::Volume(volume) => progress_of_volume(known, written, claim, volume),
        Gets::MadeForIt => progress_of_making(written, claim, node),
        Gets::MadeForAnother
            if claim.selected_node.is_some() || known.choices.made_for.contains_key(id) =>
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
    known: Known<'_>,
    written: Option<&Written>,
    claim: &Claim,
    name: &Arc<str>,
) -> Progress {
    let Some(volume) = known.storage.persistent.get(name) else {
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
