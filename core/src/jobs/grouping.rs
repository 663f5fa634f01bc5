//! Which job a pod belongs to, and how many of its pods start together.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_api::WorkloadKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::jobs::controllers::{Controllers, MadeBy};
use crate::jobs::job::{Identity, Job, Style};
use crate::jobs::member::Member;
use crate::jobs::pod_groups::{Grouped, PodGroups, key_of};
use fluxqueue_workload::{Controller, ObjectKey, Owner, OwnerKind, Pod, Time, Uid};

/// The job that a pod is a part of.
#[derive(Debug)]
pub(crate) struct Belonging {
    pub identity: Identity,
    pub kind: WorkloadKind,
    pub style: Style,
    pub name: Arc<str>,
    pub uid: Uid,
}

impl Belonging {
    /// Returns the same with another uid for the FluxJob's name.
    pub(crate) fn named_after(&self, uid: Uid) -> Self {
        let Belonging { identity, kind, style, name, uid: _ } = self;
        let (kind, style) = (*kind, *style);
        Belonging { identity: identity.clone(), kind, style, name: Arc::clone(name), uid }
    }
}

/// How many pods start together, or why that number is not known yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StartSize {
    /// This number of pods, as the workload asks.
    Pods(usize),
    /// This number of pods, though the workload asks for `asked`: no more can appear.
    Clamped { to: usize, asked: usize },
    /// The workload asks for more pods than can appear now. Until this time, objects that make
    /// others may still appear.
    Until(Time),
    /// No pod is wanted now.
    None,
}

/// Finds the job that a pod is a part of; `None` while the object that made the pod has not been
/// seen.
///
/// The first of these that applies: its PodGroup, if that starts its pods together or has not been
/// seen; its group label with a size; its Job, unless its PodGroup starts pod by pod; its
/// Deployment, ReplicaSet or StatefulSet; the pod itself. A pod with an owner reference that is not
/// true has no maker. `began_alone` returns true for a pod that began by itself, or with its label
/// group, as its PodGroup said before that went, or was made again as it is now.
pub(crate) fn belonging(
    pod: &Pod,
    controllers: &Controllers,
    orphan: bool,
    began_alone: impl Fn(Grouped) -> bool,
) -> Option<Belonging> {
    let namespace = &pod.id.key.namespace;
    let alone = || Belonging {
        identity: Identity::Pod(pod.id.uid.clone()),
        kind: WorkloadKind::Pod,
        style: Style::Lone,
        name: Arc::clone(&pod.id.key.name),
        uid: pod.id.uid.clone(),
    };
    let made_by = controllers.maker(pod);
    if matches!(made_by, MadeBy::Unseen(_)) && !orphan {
        return None;
    }
    let maker = made_by.known().map(|made_by| &**made_by);
    let grouped = match controllers.groups.grouped(pod, maker) {
        now @ (Grouped::Unseen | Grouped::Together) if began_alone(now) => {
            PodGroups::grouped_alone(maker)
        }
        now => now,
    };
    let named = pod.scheduling_group.as_ref();
    if let Some(named) = named.filter(|_| matches!(grouped, Grouped::Together | Grouped::Unseen)) {
        return Some(Belonging {
            identity: Identity::PodGroup(key_of(pod, named), named.uid.clone()),
            kind: WorkloadKind::PodGroup,
            style: Style::Gang,
            name: Arc::clone(&named.name),
            uid: pod.id.uid.clone(),
        });
    }
    if let Some(group) = &pod.group {
        return Some(Belonging {
            identity: Identity::Group(ObjectKey::new(
                Arc::clone(namespace),
                Arc::clone(&group.name),
            )),
            kind: WorkloadKind::Group,
            style: Style::Gang,
            name: Arc::clone(&group.name),
            uid: pod.id.uid.clone(),
        });
    }
    let (Some(owner), Some(made_by)) = (&pod.owner, made_by.known()) else { return Some(alone()) };
    if grouped == Grouped::PodByPod && made_by.kind.runs_to_completion() {
        return Some(alone());
    }
    let Owner { kind, name, uid, .. } = controllers.top(made_by).unwrap_or(owner);
    Some(of_maker(namespace, kind, name, uid).unwrap_or_else(alone))
}

/// Returns the job that the pods of an object are a part of; `None` if the object is of a kind that
/// is not one of Kubernetes' own workload kinds.
pub(crate) fn of_maker(
    namespace: &Arc<str>,
    kind: &OwnerKind,
    name: &Arc<str>,
    uid: &Uid,
) -> Option<Belonging> {
    Some(Belonging {
        identity: Identity::Controller(Arc::clone(namespace), uid.clone()),
        kind: kind.workload()?,
        style: if kind.runs_to_completion() { Style::Gang } else { Style::Elastic },
        name: Arc::clone(name),
        uid: uid.clone(),
    })
}

/// Returns the owners of a job's FluxJob, which is deleted when all of them are gone. Bare pods
/// that form a group have no owner in common.
pub(crate) fn owners(
    pod: &Pod,
    belonging: &Belonging,
    controllers: &Controllers,
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
    let made_by = controllers.maker(pod);
    if matches!(made_by, MadeBy::Nothing) && owner.kind.is_read() {
        // Kubernetes would delete the FluxJob because of a reference to an object that does not
        // exist.
        return Vec::new();
    }
    let top = made_by.known().and_then(|made_by| controllers.top(made_by)).unwrap_or(owner);
    vec![reference(&top.api_version, top.kind.as_str(), &top.name, &top.uid)]
}

/// How many pods the objects that make pods of a group can have at once, by their specs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// The pods that can still start: those that have succeeded or failed for good do not count.
    left: usize,
    /// The same with those that have ended.
    in_all: usize,
}

impl Capacity {
    /// Adds an object. `succeeded_seen` is the number of its pods that were seen to succeed, since
    /// its own status lags.
    pub(crate) fn add(&mut self, made_by: &Controller, succeeded_seen: u32) {
        let at_once = made_by.can_start_together.max(made_by.wants.min(1));
        self.in_all += at_once as usize;
        self.left += match made_by.completions {
            _ if made_by.finished => 0,
            Some(completions) => {
                let succeeded = made_by.succeeded.max(succeeded_seen);
                made_by.parallelism.min(completions.saturating_sub(succeeded)) as usize
            }
            // A work queue makes no pods after the first success.
            None if made_by.succeeded > 0 => made_by.wants as usize,
            None => at_once as usize,
        };
    }

    /// Adds a pod with an unknown maker.
    pub(crate) fn add_stray(&mut self) {
        self.in_all += 1;
        self.left += 1;
    }
}

/// The facts that decide how many pods start together, apart from the pods themselves.
pub(crate) struct Start<'a> {
    pub job: &'a Job,
    pub controllers: &'a Controllers,
    /// The number of pods that the objects of a group can have; `None` if it is not bounded (bare
    /// pods).
    pub capacity: Option<Capacity>,
    /// The number of waiting pods of a PodGroup without which none of them starts; `None` if that
    /// is not known.
    pub needed: Option<u32>,
    /// How long a group waits for objects that are not known yet: several objects may make its
    /// pods, and they do not appear at the same instant.
    pub grace_secs: u64,
    /// How much longer that is while pods of an earlier start still stop; else 0.
    pub stopping_secs: u64,
    pub now: Time,
}

impl Start<'_> {
    /// Returns the number of these pods that start together.
    pub(crate) fn size(&self, members: &[&Member]) -> StartSize {
        match &self.job.workload.identity {
            Identity::Pod(_) => StartSize::Pods(1),
            Identity::Controller(namespace, uid) => match self.controllers.get(namespace, uid) {
                Some(made_by) => match wants(made_by, self.job.succeeded_seen()) as usize {
                    0 => StartSize::None,
                    size => StartSize::Pods(size),
                },
                None => StartSize::None,
            },
            Identity::PodGroup(..) => {
                self.needed.map_or(StartSize::None, |needed| StartSize::Pods(needed as usize))
            }
            Identity::Group(_) => {
                group_size(members).map_or(StartSize::None, |asked| self.group_size(asked))
            }
        }
    }

    fn group_size(&self, asked: usize) -> StartSize {
        let Some(Capacity { left, in_all }) =
            self.capacity.filter(|capacity| capacity.left < asked)
        else {
            return StartSize::Pods(asked);
        };
        if in_all >= asked {
            // The other pods have ended: no more than these can come.
            return StartSize::Pods(left.max(1));
        }
        let until = self.others_may_come_until();
        if self.now < until {
            StartSize::Until(until)
        } else {
            StartSize::Clamped { to: left.max(1), asked }
        }
    }

    /// Returns the time until which objects that make further pods of the group may appear: some
    /// seconds after its last pod has appeared, and after the last pod of an earlier start has
    /// stopped, since some operators create the new objects only then.
    fn others_may_come_until(&self) -> Time {
        let job = self.job;
        job.pods
            .joined_at
            .max(job.pods.left_at)
            .plus_secs(self.grace_secs)
            .plus_secs(self.stopping_secs)
    }
}

/// Returns the size that the oldest member with a valid size label asks for.
pub(crate) fn group_size(members: &[&Member]) -> Option<usize> {
    members
        .iter()
        .filter_map(|member| {
            let size = *member.pod.group.as_ref()?.size.as_ref().ok()?;
            Some((member.pod.created, &member.pod.id.key.name, size))
        })
        .min()
        .map(|(_, _, size)| size as usize)
}

/// Returns a warning if members of one group ask for different sizes.
pub(crate) fn contradiction(members: &[&Member]) -> Option<String> {
    let sizes: BTreeSet<u32> = members
        .iter()
        .filter_map(|member| member.pod.group.as_ref()?.size.as_ref().ok().copied())
        .collect();
    if sizes.len() < 2 {
        return None;
    }
    let all: Vec<String> = sizes.iter().map(u32::to_string).collect();
    let taken = group_size(members)?;
    Some(format!(
        "its pods carry different sizes ({}): the oldest pod's, {taken}, counts",
        all.join(", ")
    ))
}

/// Returns how many pods a controller still wants at once. `succeeded_seen` is the number of its
/// pods that were seen to succeed, since its own status lags.
pub(crate) fn wants(made_by: &Controller, succeeded_seen: u32) -> u32 {
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
