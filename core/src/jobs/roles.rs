//! The role of a pod in its job, a launcher or a worker, and its number among the pods of that
//! role: rules about levels may apply to each role by itself, and slices are cut from the pods of
//! one role.

use crate::jobs::job::Job;
use crate::jobs::registry::Jobs;
use fluxqueue_machine::ledger::Role;
use fluxqueue_workload::levels::RuleScope;
use fluxqueue_workload::{Pod, SaidRole};

/// Returns the role of a pod in its job, if its labels or its maker tell it.
pub(crate) fn role(jobs: &Jobs, job: &Job, pod: &Pod) -> Option<Role> {
    match pod.said_role() {
        SaidRole::Named(role) => return Some(Role::Named(role.into())),
        SaidRole::ByShape => return None,
        SaidRole::Unsaid => {}
    }
    let made_by = jobs.controllers.maker(pod);
    let owner = made_by.uid()?;
    if job.pods.makers.len() < 2 || !job.workload.identity.is_group() {
        return Some(Role::Only);
    }
    // The ReplicaSets of a Deployment form one role.
    let top = made_by.known().and_then(|made_by| jobs.controllers.top(made_by));
    Some(Role::MadeBy(top.map_or(owner, |top| &top.uid).clone()))
}

/// Returns the slice of a pod, for slices of `size` pods; `None` for a pod without a number.
pub(crate) fn slice_of(jobs: &Jobs, pod: &Pod, size: u32) -> Option<u32> {
    number(jobs, pod).map(|number| number / size)
}

/// Returns a pod's number among those of its role.
pub(crate) fn number(jobs: &Jobs, pod: &Pod) -> Option<u32> {
    pod.number(|| Some(jobs.controller(pod)?.can_start_together))
}

/// True if two pods of a job under one rule are among the pods that are placed together. The slice
/// of a pod without a number is not known, so such a pod shares none.
pub(crate) fn are_together(jobs: &Jobs, of: &RuleScope, job: &Job, pod: &Pod, other: &Pod) -> bool {
    match of {
        RuleScope::Job | RuleScope::Group(_) => true,
        RuleScope::Role => have_one_role(jobs, job, pod, other),
        RuleScope::Slice(size) => {
            let slice = slice_of(jobs, pod, *size);
            slice.is_some()
                && slice == slice_of(jobs, other, *size)
                && have_one_role(jobs, job, pod, other)
        }
    }
}

fn have_one_role(jobs: &Jobs, job: &Job, pod: &Pod, other: &Pod) -> bool {
    match (role(jobs, job, pod), role(jobs, job, other)) {
        (None, None) => pod.shape == other.shape,
        (role, other) => role == other,
    }
}
