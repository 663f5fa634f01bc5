//! Pods that belong together, and their `FluxJob`: implemented a second time, independently of the
//! code under test.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::placement::expand;
use fluxqueue_api::{FluxJob, PlacementRange, WorkloadKind};
use fluxqueue_workload::{ObjectKey, OwnerKind, Pod, Uid};

use crate::objects::{SECOND, SECOND_UID};
use crate::pod_groups;

/// The unit of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// Pods that share a group label, and their scheduler.
    Group(Arc<str>, Arc<str>),
    /// Pods of a scheduler that name the same gang PodGroup, and the same uid of it or none.
    PodGroup(Arc<str>, Arc<str>, Option<Uid>),
    /// The pods of a Job.
    Job(Uid),
    /// A pod on its own, whether it has an owner or not.
    Single(Uid),
}

impl Unit {
    /// Returns the unit of this pod.
    pub(crate) fn of(pod: &Pod) -> Unit {
        if let Some(named) = pod.scheduling_group.as_ref().filter(|it| !pod_groups::is_basic(it)) {
            let scheduler = Arc::clone(&pod.scheduler);
            return Unit::PodGroup(scheduler, Arc::clone(&named.name), named.uid.clone());
        }
        match (&pod.group, &pod.owner) {
            (Some(group), _) => Unit::Group(Arc::clone(&pod.scheduler), Arc::clone(&group.name)),
            (None, Some(owner)) if owner.kind == OwnerKind::Job => Unit::Job(owner.uid.clone()),
            _ => Unit::Single(pod.id.uid.clone()),
        }
    }

    /// True if the `FluxJob` can be the record of this unit.
    pub(crate) fn is_recorded_by(&self, job: &FluxJob) -> bool {
        match self {
            Unit::Group(scheduler, name) => {
                job.spec.workload_ref.kind == WorkloadKind::Group
                    && *job.spec.workload_ref.name == **name
                    && is_of(job, scheduler)
            }
            Unit::PodGroup(scheduler, name, uid) => {
                job.spec.workload_ref.kind == WorkloadKind::PodGroup
                    && *job.spec.workload_ref.name == **name
                    && is_of(job, scheduler)
                    && uid.as_ref().map_or_else(
                        || !pod_groups::is_of_group(workload_uid(job)),
                        |uid| is_for(job, uid),
                    )
            }
            Unit::Job(uid) | Unit::Single(uid) => {
                is_for(job, uid) && job.spec.workload_ref.kind != WorkloadKind::PodGroup
            }
        }
    }
}

/// True if the `FluxJob` is made of pods of this scheduler.
pub(crate) fn is_of(job: &FluxJob, scheduler: &str) -> bool {
    if job.spec.workload_ref.kind == WorkloadKind::PodGroup {
        // Its uid may be that of the group.
        return job.spec.scheduler_name.as_deref() == Some(scheduler);
    }
    workload_uid(job).starts_with(SECOND_UID) == (scheduler == SECOND)
}

/// True if the `FluxJob` stands for the object with this uid.
pub(crate) fn is_for(job: &FluxJob, uid: &str) -> bool {
    workload_uid(job) == uid
}

/// Returns the uid of the object that the `FluxJob` names as its workload.
pub(crate) fn workload_uid(job: &FluxJob) -> &str {
    &job.spec.workload_ref.uid
}

/// Returns `FluxJob`s that can be the record of this unit. Two of one name can stand for a group
/// that ended and its successor.
pub(crate) fn records<'a>(
    unit: &Unit,
    among: &'a BTreeMap<ObjectKey, Arc<FluxJob>>,
) -> Vec<&'a Arc<FluxJob>> {
    among.values().filter(|job| unit.is_recorded_by(job)).collect()
}

/// Returns how many slots a placement has on each node.
pub(crate) fn slots(placement: &[PlacementRange]) -> Result<BTreeMap<String, usize>, String> {
    let mut slots = BTreeMap::new();
    for (_, _, node) in expand(placement).map_err(|error| error.to_string())? {
        *slots.entry(node.to_string()).or_default() += 1;
    }
    Ok(slots)
}
