//! Rules about single writes to objects of the API server, Bindings aside.

use std::sync::Arc;

use fluxqueue_api::{ConditionType, FluxJob, FluxJobSpec, FluxJobStatus, JobState, WorkloadKind};
use fluxqueue_core::{ActionKind, Urgency, Write};
use fluxqueue_workload::{ObjectKey, ObjectRef, Pod, Time};

use crate::jobs;
use crate::server::{Server, flux_job_key};
use crate::suspended;
use crate::trace;
use crate::view::View;
use crate::violation::{Violation, broken};

/// Judges a write at the moment of its request.
pub(crate) fn judge(
    view: &View,
    server: &Server,
    now: Time,
    write: &Write,
) -> Result<(), Violation> {
    judge_owner(view, server, write)?;
    judge_record(view, write)?;
    judge_version(write)?;
    judge_times(view, server, now, write)?;
    judge_epoch(view, server, write)?;
    judge_write(view, write)?;
    judge_end(view, server, write)?;
    judge_place(view, server, write)
}

/// Judges that each scheduler writes only to its own pods, and to FluxJobs that are made of them.
fn judge_owner(view: &View, server: &Server, write: &Write) -> Result<(), Violation> {
    let is_own = match write {
        Write::CreateFluxJob { job, .. } => jobs::is_of(job, &view.scheduler),
        Write::WriteStatus { job, .. } | Write::DeleteFluxJob { job, .. } => {
            server.flux_job(job).is_none_or(|stored| jobs::is_of(stored, &view.scheduler))
        }
        Write::Ungate { pod, .. }
        | Write::SetPodScheduled { pod, .. }
        | Write::Nominate { pod, .. } => {
            view.pods.get(&pod.uid).is_none_or(|pod| pod.scheduler == view.scheduler)
        }
        // Queues belong to all schedulers, and so do claims and volumes.
        Write::SelectNode { .. }
        | Write::ClaimVolume { .. }
        | Write::ReleaseJob { .. }
        | Write::SuspendJob { .. }
        | Write::SetGroupCondition { .. }
        | Write::WriteQueueStatus { .. } => true,
    };
    if is_own {
        return Ok(());
    }
    broken(
        "objects of another scheduler are left alone",
        format!("{} does {}", view.scheduler, trace::write(write)),
    )
}

/// Judges that a lone pod that got its node without waiting has no FluxJob, unless all lone pods
/// have one.
fn judge_record(view: &View, write: &Write) -> Result<(), Violation> {
    let Write::CreateFluxJob { job, .. } = write else { return Ok(()) };
    let has_its_node = |pod: &&Arc<Pod>| pod.node.is_some() || pod.phase.is_terminal();
    let of_lone_pod = |uid: &str| {
        job.spec.workload_ref.kind == WorkloadKind::Pod
            && !view.record_lone_pods
            && view.pods.get(uid).as_ref().is_some_and(has_its_node)
    };
    if of_lone_pod(jobs::workload_uid(job)) {
        return broken("a lone pod that has its node is given no FluxJob", trace::write(write));
    }
    Ok(())
}

/// Judges that a write names a version, and leaves the conditions of others alone. Otherwise it
/// would overwrite them.
fn judge_version(write: &Write) -> Result<(), Violation> {
    match write {
        Write::WriteStatus { status, .. }
            if status.conditions.iter().any(|it| ConditionType::from_name(&it.type_).is_none()) =>
        {
            broken("conditions of others are left to them", trace::write(write))
        }
        Write::WriteStatus { resource_version, .. }
        | Write::DeleteFluxJob { resource_version, .. }
        | Write::ReleaseJob { resource_version, .. }
        | Write::SuspendJob { resource_version, .. }
        | Write::SetGroupCondition { resource_version, .. }
            if resource_version.is_none() =>
        {
            broken("every write says on which version it was decided", trace::write(write))
        }
        _ => Ok(()),
    }
}

/// Judges that instants in a write are the server's, and that none lies ahead.
fn judge_times(view: &View, server: &Server, now: Time, write: &Write) -> Result<(), Violation> {
    let Write::WriteStatus { job, status, .. } = write else { return Ok(()) };
    let Some(stored) = server.flux_job(job) else { return Ok(()) };
    let times = |status: &FluxJobStatus| {
        [&status.queued_at, &status.start_time, &status.completion_time]
            .map(|at| at.as_ref().map(|at| at.0.as_microsecond()))
    };
    let known = stored
        .status
        .as_ref()
        .map_or_else(|| [view.places.get(&job.key).copied(), None, None], times);
    let latest = now.0 + view.offset_max.unwrap_or(0);
    let ahead = times(status)
        .into_iter()
        .zip(known)
        .any(|(at, known)| at != known && at.is_some_and(|at| at > latest));
    // A time ahead may be true of a pod that was made, or started, before the clock jumped back.
    let newest = view
        .pods
        .values()
        .map(|pod| pod.created.max(pod.started.unwrap_or(pod.created)).0)
        .max()
        .unwrap_or(0);
    if ahead && newest <= latest {
        return broken(
            "no instant is written that lies ahead",
            format!("{} at {latest}", trace::write(write)),
        );
    }
    Ok(())
}

/// Judges that the epoch of the process that placed a job stays on record as long as the placement.
fn judge_epoch(view: &View, server: &Server, write: &Write) -> Result<(), Violation> {
    let Write::WriteStatus { job, status, .. } = write else { return Ok(()) };
    let Some(stored) = stored(view, server, job).and_then(|stored| stored.status.as_ref()) else {
        return Ok(());
    };
    let kept = !status.placement.is_empty() && status.placement == stored.placement;
    if kept && stored.epoch.is_some() && status.epoch != stored.epoch {
        let text = format!("{:?} over {:?}: {}", status.epoch, stored.epoch, trace::write(write));
        return broken("the epoch is that of the leader that placed", text);
    }
    Ok(())
}

/// Judges that there is at most one write to each object at a time.
fn judge_write(view: &View, write: &Write) -> Result<(), Violation> {
    let key = target(write);
    // A write to an object that is gone is over, whatever its answer will be.
    let is_of_gone = |open: &Write| match open {
        Write::WriteStatus { job, .. } | Write::DeleteFluxJob { job, .. } => {
            view.gone.contains(&job.uid)
        }
        _ => false,
    };
    let mut others = view
        .open
        .iter()
        .filter(|(id, _)| !view.over.contains(id))
        .filter_map(
            |(_, open)| if let ActionKind::Write(write) = open { Some(write) } else { None },
        )
        .filter(|open| target(open) == key && !is_of_gone(open));
    if let Some(other) = others.next()
        && !(is_urgent(write) && is_trailing(other) && others.next().is_none())
    {
        return broken(
            "one write per object is under way",
            format!("{} while {}", trace::write(write), trace::write(other)),
        );
    }
    Ok(())
}

/// True if Bindings wait for the write: it may overtake a trailing one.
fn is_urgent(write: &Write) -> bool {
    urgency(write) == Some(Urgency::Urgent)
}

fn is_trailing(write: &Write) -> bool {
    urgency(write) == Some(Urgency::Trailing)
}

fn urgency(write: &Write) -> Option<Urgency> {
    match write {
        Write::CreateFluxJob { urgency, .. } | Write::WriteStatus { urgency, .. } => Some(*urgency),
        _ => None,
    }
}

/// True except for a set with pods that start one by one.
fn queues_as_one(spec: &FluxJobSpec) -> bool {
    matches!(
        spec.workload_ref.kind,
        WorkloadKind::Pod | WorkloadKind::Job | WorkloadKind::Group | WorkloadKind::PodGroup
    )
}

/// Judges that each job with a place in the queue keeps it, also over a restart. (Sets queue pod by
/// pod, each at its own age.) A Job that waits without pods gives it up while the releases of its
/// namespace are paused, and then comes back behind the waiting jobs.
fn judge_place(view: &View, server: &Server, write: &Write) -> Result<(), Violation> {
    let Write::WriteStatus { job, status, .. } = write else { return Ok(()) };
    let Some(stored) = stored(view, server, job) else { return Ok(()) };
    let queued_at = stored.status.as_ref().and_then(|status| status.queued_at.as_ref());
    let is_kept = match (queued_at, &status.queued_at) {
        (None, _) => true,
        (Some(_), None) => {
            let gave_it_up = view.gave_up_places.contains(&job.uid);
            suspended::is_paused(view, &stored.spec, status)
                || gave_it_up && suspended::may_be_paused(view, &stored.spec)
        }
        // By a clock that was set back the new place is earlier.
        (Some(before), Some(now)) => now == before || suspended::may_be_paused(view, &stored.spec),
    };
    if queues_as_one(&stored.spec) && !is_kept {
        return broken(
            "a place in the queue is kept",
            format!("{} over {queued_at:?}", trace::write(write)),
        );
    }
    Ok(())
}

/// Judges that an ended job stays ended with the same end time, also after a restart.
fn judge_end(view: &View, server: &Server, write: &Write) -> Result<(), Violation> {
    let Write::WriteStatus { job, status, .. } = write else { return Ok(()) };
    let Some(job) = stored(view, server, job) else { return Ok(()) };
    let Some(stored) = &job.status else { return Ok(()) };
    // A set with a deleted Deployment may make one more pod before it goes itself.
    let ended = matches!(stored.state, Some(JobState::Completed | JobState::Failed))
        && queues_as_one(&job.spec);
    if ended && (status.state != stored.state || status.completion_time != stored.completion_time) {
        let text =
            format!("{} over {:?} {:?}", trace::write(write), stored.state, stored.completion_time);
        return broken("an ended job stays ended", text);
    }
    Ok(())
}

/// Returns the target of the write: a `FluxJob` by its name, since it may not exist yet; a pod by
/// its uid.
fn target(write: &Write) -> (&'static str, Arc<str>) {
    let named = |key: &ObjectKey| Arc::from(key.to_string());
    match write {
        Write::CreateFluxJob { job, .. } => ("FluxJob", named(&flux_job_key(job))),
        Write::WriteStatus { job, .. } | Write::DeleteFluxJob { job, .. } => {
            ("FluxJob", named(&job.key))
        }
        Write::Ungate { pod, .. } => ("gate", (*pod.uid).into()),
        Write::SetPodScheduled { pod, .. } => ("condition", (*pod.uid).into()),
        Write::Nominate { pod, .. } => ("nomination", (*pod.uid).into()),
        Write::SelectNode { claim, .. } => ("claim", (*claim.uid).into()),
        Write::ClaimVolume { volume, .. } => ("volume", (*volume.uid).into()),
        Write::ReleaseJob { job, .. } | Write::SuspendJob { job, .. } => ("job", (*job.uid).into()),
        Write::SetGroupCondition { group, .. } => ("PodGroup", (*group.uid).into()),
        Write::WriteQueueStatus { queue, .. } => ("FluxQueue", Arc::clone(queue)),
    }
}

/// Returns the object as it is stored. The last writes of a paused leader do not count until the
/// core knows of them.
pub(crate) fn stored<'a>(
    view: &View,
    server: &'a Server,
    id: &ObjectRef,
) -> Option<&'a Arc<FluxJob>> {
    let told = view.placements.get(&id.uid).map_or(0, |(version, _)| *version);
    let is_told = |job: &FluxJob| {
        job.metadata
            .resource_version
            .as_ref()
            .is_some_and(|it| it.parse().is_ok_and(|it: u64| it <= told))
    };
    server.flux_job(id).filter(|job| !server.was_written_late(job) || is_told(job))
}
