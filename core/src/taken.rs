//! Everything that is taken on nodes: by pods of jobs, by pods of other schedulers, and by slots
//! that are retained for pods to come.

use std::sync::Arc;

use crate::jobs::member::Member;
use crate::jobs::registry::Jobs;
use crate::occupancy::Occupancy;
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Pod, Uid};

/// A pod with its allocation.
pub(crate) struct Taken<'a> {
    /// The job of the pod; `None` for a pod of another scheduler.
    pub job: Option<JobId>,
    pub pod: &'a Arc<Pod>,
    pub allocation: &'a Allocation,
}

/// Returns the pod's allocation, with its job.
pub(crate) fn by<'a>(jobs: &'a Jobs, others: &'a Occupancy, uid: &Uid) -> Option<Taken<'a>> {
    if let Some(foreign) = others.foreign.get(uid) {
        let allocation = foreign.allocation.as_ref()?;
        return Some(Taken { job: None, pod: &foreign.pod, allocation });
    }
    of_member(jobs.members.get(uid)?)
}

/// Returns the allocation of a pod.
pub(crate) fn by_mut<'a>(
    jobs: &'a mut Jobs,
    others: &'a mut Occupancy,
    uid: &Uid,
) -> Option<&'a mut Allocation> {
    match others.foreign.get_mut(uid) {
        Some(foreign) => foreign.allocation.as_mut(),
        None => jobs.members.get_mut(uid)?.stage.allocation_mut(),
    }
}

/// Returns the allocations of all pods, those of other schedulers first.
pub(crate) fn by_pods<'a>(
    jobs: &'a Jobs,
    others: &'a Occupancy,
) -> impl Iterator<Item = Taken<'a>> {
    let of_others = others.foreign.values().filter_map(|foreign| {
        let allocation = foreign.allocation.as_ref()?;
        Some(Taken { job: None, pod: &foreign.pod, allocation })
    });
    of_others.chain(jobs.members.values().filter_map(of_member))
}

/// Returns every allocation: those of pods, and those of retained slots.
pub(crate) fn each_mut<'a>(
    jobs: &'a mut Jobs,
    others: &'a mut Occupancy,
) -> impl Iterator<Item = &'a mut Allocation> {
    let mut members: Vec<&mut Member> = jobs.members.values_mut().collect();
    members.sort_unstable_by(|a, b| a.pod.id.uid.cmp(&b.pod.id.uid));
    let of_members = members.into_iter().filter_map(|member| member.stage.allocation_mut());
    let of_others = others.foreign.values_mut().filter_map(|foreign| foreign.allocation.as_mut());
    let retained = jobs.all.values_mut().flat_map(|job| &mut job.start.retained);
    of_members.chain(of_others).chain(retained.map(|slot| &mut slot.allocation))
}

fn of_member(member: &Member) -> Option<Taken<'_>> {
    let allocation = member.allocation()?;
    Some(Taken { job: Some(member.job), pod: &member.pod, allocation })
}
