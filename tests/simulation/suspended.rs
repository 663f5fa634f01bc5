//! Jobs that wait without pods: the rules of their release, and of their state at rest.

use std::sync::Arc;

use fluxqueue_api::{BlockedReason, FluxJobSpec, FluxJobStatus};
use fluxqueue_core::Write;
use fluxqueue_workload::{Controller, Pod, Suspension, SuspensionPhase};

use crate::controllers::waits_without_pods;
use crate::jobs::{self, Unit};
use crate::server::{PRIORITY_CLASSES, Server};
use crate::trace;
use crate::view::View;
use crate::violation::{Violation, broken};

pub(crate) const RELEASED_WHEN_PLACED: &str =
    "a Job is released when its placement is acknowledged";
pub(crate) const LEFT_ALONE: &str = "a suspension without the mark is left alone";
pub(crate) const NOT_STARTED: &str = "no pod starts while its Job is to wait without pods";
pub(crate) const WITHOUT_PODS: &str = "a Job that waits without pods has none";
pub(crate) const GIVEN_BACK: &str = "the place of a released Job is held for a bounded time";

/// Judges a write to a Job, as far as the core knows.
pub(crate) fn judge(view: &View, server: &Server, write: &Write) -> Result<(), Violation> {
    let (Write::ReleaseJob { job, .. } | Write::SuspendJob { job, .. }) = write else {
        return Ok(());
    };
    if !view.controllers.get(&job.uid).is_some_and(|job| is_marked(job)) {
        return broken(LEFT_ALONE, trace::write(write));
    }
    // The core may know its own record only from the answer to a write.
    let unit = Unit::Job(job.uid.clone());
    let records = [&server.flux_jobs, &view.flux_jobs].map(|known| jobs::records(&unit, known));
    let mut uids = records.iter().flatten().filter_map(|job| job.metadata.uid.as_deref());
    let is_placed =
        uids.any(|uid| view.acknowledged.get(uid).is_some_and(|known| !known.is_empty()));
    if matches!(write, Write::ReleaseJob { .. }) && !is_placed {
        return broken(RELEASED_WHEN_PLACED, trace::write(write));
    }
    Ok(())
}

/// Judges the Binding of a pod of a job that has not begun.
pub(crate) fn judge_binding(view: &View, pod: &Pod, about: &str) -> Result<(), Violation> {
    let made_by = pod.owner.as_ref().and_then(|owner| view.controllers.get(&owner.uid));
    if made_by.is_some_and(|job| is_marked(job) && !view.released.contains(&job.id.uid)) {
        return broken(NOT_STARTED, about);
    }
    Ok(())
}

/// True if the status of a Job that waits without pods says that no Job of its namespace is
/// released for a while.
pub(crate) fn is_paused(view: &View, spec: &FluxJobSpec, status: &FluxJobStatus) -> bool {
    may_be_paused(view, spec) && says_paused(status)
}

/// True if a status says that no Job of the namespace is released for a while.
pub(crate) fn says_paused(status: &FluxJobStatus) -> bool {
    let first = status.blocked_by.first();
    first.is_some_and(|blocker| blocker.reason == BlockedReason::ReleasePaused)
}

/// True if this is the FluxJob of a Job that waits without pods.
pub(crate) fn may_be_paused(view: &View, spec: &FluxJobSpec) -> bool {
    view.controllers.get(&*spec.workload_ref.uid).is_some_and(|job| is_marked(job))
}

fn is_marked(job: &Controller) -> bool {
    matches!(job.suspension.as_ref().map(|it| &it.phase), Some(SuspensionPhase::Marked { .. }))
}

/// Returns the priority of the pods that a Job will have.
pub(crate) fn priority(suspension: &Suspension) -> i32 {
    let class = suspension.priority_class.as_deref();
    PRIORITY_CLASSES.iter().find(|(name, _)| Some(*name) == class).map_or(0, |(_, value)| *value)
}

/// Returns the pods of Jobs that wait without them now, as their templates describe them.
pub(crate) fn stand_ins(server: &Server, scheduler: &str) -> Vec<Arc<Pod>> {
    let suspended =
        server.controllers.values().filter(|job| waits_without_pods(job) && !job.deleting);
    let pods = suspended.flat_map(|job| {
        let suspension = job.suspension.as_ref().expect("it is suspended");
        let priority = priority(suspension);
        (0..job.wants).map(move |number| Arc::new(suspension.stand_in(number, priority)))
    });
    pods.filter(|pod| *pod.scheduler == *scheduler).collect()
}

/// Judges that at rest a Job that waits without pods has none, and that no place is held for pods
/// that do not come.
pub(crate) fn judge_at_rest(server: &Server) -> Result<(), Violation> {
    for job in server.controllers.values().filter(|job| !job.deleting) {
        let Some(suspension) = &job.suspension else { continue };
        let its = |pod: &&Arc<Pod>| pod.owner.as_ref().is_some_and(|owner| owner.uid == job.id.uid);
        let mut pods = server.pods.values().filter(its).filter(|pod| !pod.phase.is_terminal());
        let records = jobs::records(&Unit::Job(job.id.uid.clone()), &server.flux_jobs);
        match suspension.phase {
            SuspensionPhase::Marked { .. } => {
                if let Some(pod) =
                    pods.next().filter(|pod| !server.bound_by_others.contains(&pod.id.uid))
                {
                    return broken(WITHOUT_PODS, format!("{}: {}", job.id, trace::pod(pod)));
                }
            }
            SuspensionPhase::Released { .. } => {
                let holds = records.iter().filter_map(|job| job.status.as_ref());
                let mut holds = holds
                    .filter(|status| !status.placement.is_empty() && status.start_time.is_none());
                if let (Some(status), true) = (holds.next(), pods.count() < job.wants as usize) {
                    return broken(GIVEN_BACK, format!("{}: {:?}", job.id, status.placement));
                }
            }
        }
    }
    Ok(())
}
