//! Which job a pod belongs to, and how many of its pods start together.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_api::WorkloadKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::job::{Identity, Job, Member, Style};
use crate::table::Table;
use fluxqueue_workload::{Controller, ObjectKey, Owner, OwnerKind, Pod, Time, Uid};

/// What a pod is a part of.
#[derive(Debug)]
pub(super) struct Belonging {
    pub identity: Identity,
    pub kind: WorkloadKind,
    pub style: Style,
    pub name: Arc<str>,
    pub uid: Uid,
}

/// How many pods start together, or why that cannot be said yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartSize {
    /// This many, as asked.
    Pods(usize),
    /// This many, though `asked` were: more cannot appear.
    Clamped { to: usize, asked: usize },
    /// More than now can appear are asked for; until then others that are on their way may show up.
    Until(Time),
    /// Nothing is wanted now.
    None,
}

/// Finds what a pod is a part of; `None` while the object that made it has not been seen.
///
/// In this order: a group label with a size, its Job, its Deployment, ReplicaSet or StatefulSet, itself.
pub(super) fn belonging(pod: &Pod, controllers: &Table<Uid, Arc<Controller>>, orphan: bool) -> Option<Belonging> {
    let namespace = &pod.id.key.namespace;
    let alone = || Belonging {
        identity: Identity::Pod(pod.id.uid.clone()),
        kind: WorkloadKind::Pod,
        style: Style::Lone,
        name: Arc::clone(&pod.id.key.name),
        uid: pod.id.uid.clone(),
    };
    if let Some(owner) = &pod.owner
        && !matches!(owner.kind, OwnerKind::Other(_))
        && !controllers.contains_key(&owner.uid)
        && !orphan
    {
        return None;
    }
    if let Some(group) = &pod.group {
        return Some(Belonging {
            identity: Identity::Group(ObjectKey::new(Arc::clone(namespace), Arc::clone(&group.name))),
            kind: WorkloadKind::Group,
            style: Style::Gang,
            name: Arc::clone(&group.name),
            uid: pod.id.uid.clone(),
        });
    }
    let Some(owner) = &pod.owner else { return Some(alone()) };
    // A ReplicaSet is submitted by nobody when a Deployment made it.
    let top = match controllers.get(&owner.uid) {
        Some(set) if owner.kind == OwnerKind::ReplicaSet => {
            set.owner.as_ref().filter(|above| above.kind == OwnerKind::Deployment).unwrap_or(owner)
        }
        Some(_) => owner,
        None => return Some(alone()),
    };
    Some(of_owner(top).unwrap_or_else(alone))
}

/// What the pods of an object are a part of; `None` for objects of other kinds than those that Kubernetes itself has for that.
pub(super) fn of_owner(top: &Owner) -> Option<Belonging> {
    let (kind, style) = match top.kind {
        OwnerKind::Job => (WorkloadKind::Job, Style::Gang),
        OwnerKind::Deployment => (WorkloadKind::Deployment, Style::Elastic),
        OwnerKind::ReplicaSet => (WorkloadKind::ReplicaSet, Style::Elastic),
        OwnerKind::StatefulSet => (WorkloadKind::StatefulSet, Style::Elastic),
        OwnerKind::Other(_) => return None,
    };
    Some(Belonging {
        identity: Identity::Controller(top.uid.clone()),
        kind,
        style,
        name: Arc::clone(&top.name),
        uid: top.uid.clone(),
    })
}

/// The owners of a job's FluxJob: it goes when all of them are gone. Bare pods that form a group own nothing together.
pub(super) fn owners(
    pod: &Pod,
    belonging: &Belonging,
    controllers: &Table<Uid, Arc<Controller>>,
) -> Vec<OwnerReference> {
    let reference = |api: &str, kind: &str, name: &str, uid: &str| OwnerReference {
        api_version: api.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(false),
        block_owner_deletion: None,
    };
    if let Identity::Pod(_) = belonging.identity {
        return vec![reference("v1", "Pod", &pod.id.key.name, &pod.id.uid)];
    }
    let Some(owner) = &pod.owner else { return Vec::new() };
    let above = controllers.get(&owner.uid).and_then(|made_by| made_by.owner.clone());
    let top = match above {
        Some(above) if above.kind == OwnerKind::Deployment => above,
        _ => owner.clone(),
    };
    vec![reference(&top.api_version, top.kind.as_str(), &top.name, &top.uid)]
}

/// How many pods of the job start together.
///
/// `members` are the live ones. `grace_seconds` is how long more than the known controllers can make is waited for: a
/// group may be made by several objects, which do not appear at the same instant.
pub(super) fn start_size(
    job: &Job,
    members: &[&Member],
    controllers: &Table<Uid, Arc<Controller>>,
    grace_seconds: u64,
    now: Time,
) -> StartSize {
    match &job.identity {
        Identity::Pod(_) => StartSize::Pods(1),
        Identity::Controller(uid) => match controllers.get(uid) {
            Some(made_by) if made_by.wants > 0 => StartSize::Pods(made_by.wants as usize),
            _ => StartSize::None,
        },
        Identity::Group(_) => {
            let Some(asked) = group_size(members) else { return StartSize::None };
            let Some(possible) = can_appear(members, controllers) else { return StartSize::Pods(asked) };
            if possible >= asked {
                return StartSize::Pods(asked);
            }
            let until = job.joined.plus_secs(grace_seconds);
            if now < until { StartSize::Until(until) } else { StartSize::Clamped { to: possible.max(1), asked } }
        }
    }
}

/// The size that the oldest member with a valid size label asks for.
pub(super) fn group_size(members: &[&Member]) -> Option<usize> {
    members
        .iter()
        .filter_map(|member| {
            let size = *member.pod.group.as_ref()?.size.as_ref().ok()?;
            Some((member.pod.created, &member.pod.id.key.name, size))
        })
        .min()
        .map(|(_, _, size)| size as usize)
}

/// Sizes that members of one group ask for, if they differ.
pub(super) fn contradiction(members: &[&Member]) -> Option<String> {
    let sizes: BTreeSet<u32> =
        members.iter().filter_map(|member| member.pod.group.as_ref()?.size.as_ref().ok().copied()).collect();
    if sizes.len() < 2 {
        return None;
    }
    let all: Vec<String> = sizes.iter().map(u32::to_string).collect();
    let taken = group_size(members)?;
    Some(format!("its pods carry different sizes ({}): the oldest pod's, {taken}, counts", all.join(", ")))
}

/// How many pods the known controllers of the members can have at once; `None` if that is not bounded (bare pods).
fn can_appear(members: &[&Member], controllers: &Table<Uid, Arc<Controller>>) -> Option<usize> {
    let mut known = BTreeSet::new();
    let mut strays = 0;
    for member in members {
        match member.pod.owner.as_ref().filter(|owner| !matches!(owner.kind, OwnerKind::Other(_))) {
            Some(owner) if controllers.contains_key(&owner.uid) => drop(known.insert(&owner.uid)),
            Some(_) => strays += 1,
            None => return None,
        }
    }
    let made: usize = known
        .into_iter()
        .filter_map(|uid| controllers.get(uid))
        .map(|made_by| (made_by.can_start_together.max(made_by.wants.min(1))) as usize)
        .sum();
    Some(made + strays)
}

/// How many pods a controller still wants at once, given how many of its pods were seen to succeed: its own status lags.
pub(super) fn wants(made_by: &Controller, succeeded_seen: u32) -> u32 {
    if made_by.finished || made_by.deleting || made_by.wants == 0 {
        return 0;
    }
    match made_by.completions {
        Some(completions) => {
            let succeeded = made_by.succeeded.max(succeeded_seen);
            made_by.parallelism.min(completions.saturating_sub(succeeded))
        }
        None => made_by.wants,
    }
}
