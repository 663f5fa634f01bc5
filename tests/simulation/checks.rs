//! The rules that hold after every step, whatever went wrong before. Each action is judged at the
//! moment of its request.

use std::sync::Arc;

use fluxqueue_api::{FluxJob, JobState, PlacementRange, names};
use fluxqueue_core::{Action, ActionId, ActionKind, Write};
use fluxqueue_workload::{NodeName, ObjectRef, OwnerKind, Phase, Pod, Time};

use crate::gangs;
use crate::jobs::{self, Unit};
use crate::machine::SLOT_KEEP_MAX_SECONDS;
use crate::pod_groups;
use crate::queues;
use crate::room;
use crate::server::{Server, flux_job_ref, is_version};
use crate::suspended;
use crate::trace;
use crate::view::{BindingState, View};
use crate::violation::{Violation, broken};
use crate::writes;

/// Judges actions, in the order in which the core gave them. `view` learns of each after it was
/// judged.
pub(crate) fn judge(
    view: &mut View,
    server: &Server,
    now: Time,
    last_id: &mut Option<ActionId>,
    actions: &[Action],
) -> Result<(), Violation> {
    let bound = 100 + 8 * (view.pods.len() + view.flux_jobs.len());
    if actions.len() > bound {
        return broken(
            "the actions of a step are bounded",
            format!("{} actions in one step", actions.len()),
        );
    }
    for action in actions {
        if last_id.is_some_and(|last| action.id <= last) {
            return broken(
                "an action id is never used again",
                format!("{action:?} after {last_id:?}"),
            );
        }
        *last_id = Some(action.id);
        if !view.synced && !matches!(action.kind, ActionKind::Note(_)) {
            return broken(
                "nothing is decided before the first lists are complete",
                format!("{action:?}"),
            );
        }
        match &action.kind {
            ActionKind::Bind { pod, node, .. } => judge_binding(view, server, now, pod, node)?,
            ActionKind::Note(_) => {}
            ActionKind::Write(write) => {
                writes::judge(view, server, now, write)?;
                suspended::judge(view, server, write)?;
                judge_placement_hold(view, write)?;
                pod_groups::judge_condition(view, now, write)?;
            }
        }
        view.ask(action, now);
    }
    Ok(())
}

fn judge_binding(
    view: &View,
    server: &Server,
    now: Time,
    id: &ObjectRef,
    node: &NodeName,
) -> Result<(), Violation> {
    let about = format!("Binding of pod {id} ({}) to {node}", id.uid);
    let Some(pod) = view.pods.get(&id.uid) else {
        return broken("only pods that exist are bound", format!("{about}: unknown or gone"));
    };
    judge_pod(view, pod, &about)?;
    if !has_begun(view, &Unit::of(pod)) {
        suspended::judge_binding(view, pod, &about)?;
    }
    let Some(target) = view.nodes.get(node) else {
        return broken("pods go to nodes that are there", format!("{about}: no such node"));
    };
    if let Some(why) = room::barred(target, pod) {
        return broken(
            "a node that does not want a pod does not get it",
            format!("{about}: {why}"),
        );
    }
    let others = view.charged(node, now).filter(|other| other.id.uid != id.uid);
    if let Some(what) = room::shortage(target, others.clone(), pod) {
        let there: Vec<String> =
            others.map(|it| format!("{} {:?}", it.id, it.shape.requests)).collect();
        let text = format!(
            "{about}: {what}: {:?} beside {there:?} in {:?}",
            pod.shape.requests, target.allocatable
        );
        return broken("a bound pod fits beside all pods that are known to be on its node", text);
    }
    if let Some(other) = room::stranger(view.charged(node, now), pod) {
        let text =
            format!("{about}: {} is there ({:?}, {:?})", other.id, pod.exclusive, other.exclusive);
        return broken("no two jobs share a node of an exclusive one", text);
    }
    if let Some(other) = room::repeller(
        &view.nodes,
        view.placed(now).filter(|(_, it)| it.id.uid != pod.id.uid),
        target,
        pod,
    ) {
        let text = format!(
            "{about}: {} there keeps it away: {:?}",
            other.id, other.shape.constraints.repels
        );
        return broken("no pod goes where another keeps it away", text);
    }
    if let Some(other) = room::avoided(&view.nodes, view.placed(now), target, pod) {
        let text = format!("{about}: {} is there: {:?}", other.id, pod.shape.constraints.repels);
        return broken("no pod goes where one is that it is to be apart from", text);
    }
    if !has_begun(view, &Unit::of(pod)) && !is_decided(view, pod) {
        queues::judge(view, pod, &about)?;
    }
    judge_start(view, pod, now, &about)?;
    judge_placement(view, server, now, pod, node, &about)
}

/// Judges that pods that follow a gang without running pods, of which old ones still stop, start
/// together: the first of them is not sent before all exist.
fn judge_start(view: &View, pod: &Pod, now: Time, about: &str) -> Result<(), Violation> {
    if leaves_with_its_maker(view, pod) {
        // The job began before its maker was deleted.
        return Ok(());
    }
    let unit = Unit::of(pod);
    let stays = |other: &&Pod| !other.deleting && !leaves_with_its_maker(view, other);
    let others = || members(view, &unit).filter(stays).filter(|other| other.id.uid != pod.id.uid);
    if others().any(|other| view.node_of(other).is_some()) {
        return Ok(());
    }
    if is_sent_again(view, pod)
        || is_starting(view, &unit)
        || follows_one_that_succeeded(view, &unit, now)
    {
        // Pods that left with it, or ran before it, may have ended since.
        return Ok(());
    }
    let there = 1 + others().count();
    pod_groups::judge_start(view, pod, there, about)?;
    let wanted = expected_together(view, pod).saturating_sub(seen_to_succeed(view, pod)) as usize;
    // A Job that was scaled up after its placement was decided begins with that placement.
    let is_scaled = pod.owner.as_ref().is_some_and(|owner| view.scaled_up.contains(&owner.uid));
    let placed = gangs::placed(view, &unit).filter(|_| is_scaled);
    let wanted = placed.map_or(wanted, |slots| wanted.min(slots.len()));
    if there < wanted {
        return broken(
            "a gang starts whole or not at all",
            format!("{about}: {there} of {wanted} pods are there"),
        );
    }
    Ok(())
}

/// True if the pod's Binding was requested before, and has failed.
fn is_sent_again(view: &View, pod: &Pod) -> bool {
    view.bindings
        .get(&pod.id.uid)
        .is_some_and(|binding| matches!(binding.state, BindingState::Unsure(_)))
}

/// True if pods of the unit have succeeded, and the slot of one is kept for the next, so its pods
/// come one by one.
fn follows_one_that_succeeded(view: &View, unit: &Unit, now: Time) -> bool {
    let has_succeeded =
        |other: &Arc<Pod>| other.phase == Phase::Succeeded && Unit::of(other) == *unit;
    is_slot_kept(view, unit, now) && view.pods.values().any(has_succeeded)
}

/// True if the unit lost a running pod so recently that the slot is kept.
fn is_slot_kept(view: &View, unit: &Unit, now: Time) -> bool {
    let keep_secs = SLOT_KEEP_MAX_SECONDS.cast_signed();
    view.left.get(unit).is_some_and(|at| at.seconds() + keep_secs >= now.seconds())
}

/// True if, by its FluxJob, some of its pods have begun, and not all.
fn is_starting(view: &View, unit: &Unit) -> bool {
    let records = jobs::records(unit, &view.flux_jobs);
    let mut statuses = records.iter().filter_map(|job| job.status.as_ref());
    statuses.any(|status| status.state == Some(JobState::Starting) && status.bound > 0)
}

fn leaves_with_its_maker(view: &View, pod: &Pod) -> bool {
    let made_by = pod.owner.as_ref().map(|owner| view.controllers.get(&owner.uid));
    made_by.is_some_and(|made_by| made_by.is_none_or(|made_by| made_by.deleting))
}

/// Returns how many pods of the Job that made this one have succeeded, which its own status may not
/// show yet.
fn seen_to_succeed(view: &View, pod: &Pod) -> u32 {
    let (Some(owner), None) = (&pod.owner, &pod.group) else { return 0 };
    let counted = view.controllers.get(&owner.uid).map_or(0, |made_by| made_by.succeeded);
    let is_one =
        |other: &&Arc<Pod>| other.owner.as_ref() == Some(owner) && other.phase == Phase::Succeeded;
    u32::try_from(view.pods.values().filter(is_one).count())
        .unwrap_or(u32::MAX)
        .saturating_sub(counted)
}

/// True if a placement of the pod's job was decided before, by the queue settings of that time.
fn is_decided(view: &View, pod: &Pod) -> bool {
    let unit = Unit::of(pod);
    matches!(unit, Unit::Group(..) | Unit::PodGroup(..) | Unit::Job(_))
        && !jobs::records(&unit, &view.flux_jobs).is_empty()
}

/// Judges that the pod may be bound at all.
fn judge_pod(view: &View, pod: &Pod, about: &str) -> Result<(), Violation> {
    let say = |why: &str| format!("{about}: {why}");
    if pod.scheduler != view.scheduler {
        return broken("pods of other schedulers are left alone", say(&pod.scheduler));
    }
    if pod.node.is_some() || pod.deleting || pod.phase.is_terminal() {
        return broken(
            "only pods that wait are bound",
            say(&format!("{:?} {:?} deleting {}", pod.node, pod.phase, pod.deleting)),
        );
    }
    if let Some(gate) =
        pod.gates.iter().find(|gate| ***gate != *names::GATE || !view.ungated.contains(&pod.id.uid))
    {
        return broken("gated pods are not bound", say(gate));
    }
    if !pod.unsupported.is_empty() {
        return broken("a pod that cannot be honoured is refused", say("unsupported constraint"));
    }
    match view.bindings.get(&pod.id.uid).map(|binding| binding.state) {
        Some(BindingState::Open) => broken("no pod is bound twice", say("a Binding is under way")),
        Some(BindingState::Sure) => broken("no pod is bound twice", say("it is bound")),
        Some(BindingState::Unsure(_)) | None => judge_hold(view, pod, about),
    }
}

fn judge_hold(view: &View, pod: &Pod, about: &str) -> Result<(), Violation> {
    let unit = Unit::of(pod);
    let mut records = jobs::records(&unit, &view.flux_jobs);
    // The name of a group that has ended may be used again.
    records.retain(|job| !has_ended(view, job));
    let begun = has_begun(view, &unit);
    if !begun && !records.is_empty() && records.iter().all(|job| is_held(view, job)) {
        return broken("a held job is not started", format!("{about}: held"));
    }
    Ok(())
}

/// Judges that a held job gets no placement.
fn judge_placement_hold(view: &View, write: &Write) -> Result<(), Violation> {
    let Write::WriteStatus { job: id, status, .. } = write else { return Ok(()) };
    let Some(job) = view.flux_jobs.get(&id.key) else { return Ok(()) };
    if status.start_time.is_some() {
        // The job began before it was held. Its FluxJob may be a new one, made after the first was
        // deleted.
        return Ok(());
    }
    let mut units =
        view.pods.values().map(|pod| Unit::of(pod)).filter(|unit| unit.is_recorded_by(job));
    if !status.placement.is_empty()
        && is_held(view, job)
        && !units.any(|unit| has_begun(view, &unit))
    {
        return broken("a held job is not started", format!("held: {}", trace::write(write)));
    }
    Ok(())
}

/// True if the job has begun: then it is finished in spite of a hold.
fn has_begun(view: &View, unit: &Unit) -> bool {
    members(view, unit).any(|member| view.node_of(member).is_some())
}

/// True if a user holds the job, and no placement of it was decided before.
fn is_held(view: &View, job: &FluxJob) -> bool {
    let placed = view
        .acknowledged
        .get(job.metadata.uid.as_deref().unwrap_or(""))
        .is_some_and(|it| !it.is_empty());
    let writing = view.open.values().any(|open| is_placement_of(open, job).is_some());
    job.spec.overrides.hold && !placed && !writing
}

/// The write-ahead rule: a gang's pod goes where the stored and acknowledged placement says.
fn judge_placement(
    view: &View,
    server: &Server,
    now: Time,
    pod: &Pod,
    node: &NodeName,
    about: &str,
) -> Result<(), Violation> {
    if pod.owner.as_ref().is_some_and(|owner| !view.controllers.contains_key(&owner.uid)) {
        // Its maker is gone, and the pod is about to go too, so its unit is unknown.
        return Ok(());
    }
    let unit = Unit::of(pod);
    let mut records = jobs::records(&unit, &server.flux_jobs);
    // A record that a user deleted still counts until the core knows of the deletion.
    records.extend(
        jobs::records(&unit, &view.flux_jobs).into_iter().filter(|job| !is_stored(server, job)),
    );
    records.retain(|job| !has_ended(view, job));
    let placed = records.iter().any(|job| {
        let known = job.metadata.uid.as_deref().and_then(|uid| view.placements.get(uid));
        let known_or_deleted =
            writes::stored(view, server, &flux_job_ref(job)).is_some() || !is_stored(server, job);
        let in_status = job.status.as_ref().is_some_and(|status| !status.placement.is_empty())
            && known_or_deleted;
        in_status || known.is_some_and(|(_, placement)| !placement.is_empty())
    });
    // A job that began with one pod has no placement, and later pods join it one by one.
    let of_unit = |it: &&Arc<Pod>| Unit::of(it) == unit;
    let sent = |it: &Arc<Pod>| {
        !it.deleting && (view.node_of(it).is_some() || view.ungated.contains(&it.id.uid))
    };
    // It may have lost that pod since: then its slot is kept.
    let begun = is_slot_kept(view, &unit, now) || view.pods.values().filter(of_unit).any(sent);
    let together = expected_together(view, pod);
    if !placed && (begun || together <= 1) {
        return Ok(());
    }
    let rule = "a gang is bound by its acknowledged placement";
    let mut why = format!("{about}: {together} start together, and there is no record");
    for job in records {
        match covers(view, server, now, job, pod, node) {
            Ok(()) => return Ok(()),
            Err(reason) => why = format!("{about}: {reason}"),
        }
    }
    broken(rule, why)
}

fn covers(
    view: &View,
    server: &Server,
    now: Time,
    job: &FluxJob,
    pod: &Pod,
    node: &NodeName,
) -> Result<(), String> {
    let unit = Unit::of(pod);
    // Where another user or scheduler put a pod, there may be one too many.
    let other = |it: &&Pod| {
        it.id.uid != pod.id.uid && !it.deleting && !server.bound_by_others.contains(&it.id.uid)
    };
    let there = view.charged(node, now).filter(|it| Unit::of(it) == unit).filter(other).count();
    let enough = |placement: &[PlacementRange]| -> Result<(), String> {
        let slots = jobs::slots(placement)?.get(&**node).copied().unwrap_or(0);
        if there < slots {
            Ok(())
        } else {
            Err(format!("{there} members there, {slots} slots by {placement:?}"))
        }
    };
    if writes::stored(view, server, &flux_job_ref(job)).is_some() {
        let placement = job.status.as_ref().map_or(&[][..], |status| &status.placement);
        enough(placement).map_err(|why| format!("stored: {why}"))?;
    }
    for open in view.open.values() {
        if let Some(placement) = is_placement_of(open, job) {
            enough(placement).map_err(|why| format!("being written: {why}"))?;
        }
    }
    let uid = job.metadata.uid.as_deref().unwrap_or("");
    let acknowledged = view.acknowledged.get(uid).map_or(&[][..], Vec::as_slice);
    if acknowledged.iter().any(|placement| enough(placement).is_ok()) {
        return Ok(());
    }
    Err(format!("no acknowledged placement has room: {acknowledged:?}"))
}

fn is_stored(server: &Server, job: &FluxJob) -> bool {
    server.flux_job(&flux_job_ref(job)).is_some()
}

/// Returns the placement that this action writes for this `FluxJob`, if the write can still take
/// effect.
fn is_placement_of<'a>(action: &'a ActionKind, job: &FluxJob) -> Option<&'a [PlacementRange]> {
    match action {
        ActionKind::Write(Write::WriteStatus { job: id, resource_version, status, .. })
            if Some(&*id.uid) == job.metadata.uid.as_deref()
                && !status.placement.is_empty()
                && is_version(job, resource_version.as_deref()) =>
        {
            Some(&status.placement)
        }
        _ => None,
    }
}

/// Returns the pods of the unit that have not ended, as far as the core knows.
pub(crate) fn members<'a>(view: &'a View, unit: &'a Unit) -> impl Iterator<Item = &'a Pod> {
    view.pods
        .values()
        .map(|pod| &**pod)
        .filter(move |pod| !pod.phase.is_terminal() && Unit::of(pod) == *unit)
}

/// Returns how many pods of this pod's job certainly start together, or else 1.
pub(crate) fn expected_together(view: &View, pod: &Pod) -> u32 {
    if pod.scheduling_group.is_some() {
        return pod_groups::known_to_need(view, pod).unwrap_or(1);
    }
    match (&pod.group, &pod.owner) {
        (Some(group), None) => {
            let same = |it: &Pod| it.group.as_ref().is_some_and(|other| other.size == group.size);
            if members(view, &Unit::of(pod)).all(same) {
                group.size.clone().unwrap_or(1)
            } else {
                1
            }
        }
        (None, Some(owner)) => {
            let made_by = view.controllers.get(&owner.uid);
            if owner.kind == OwnerKind::Job { made_by.map_or(1, |job| job.wants) } else { 1 }
        }
        _ => 1,
    }
}

/// True if the job has ended, by the server's object or by a write of the core that may have
/// failed.
fn has_ended(view: &View, job: &FluxJob) -> bool {
    let said = job.metadata.uid.as_deref().is_some_and(|uid| view.ended.contains(uid));
    said || job
        .status
        .as_ref()
        .is_some_and(|status| matches!(status.state, Some(JobState::Completed | JobState::Failed)))
}
