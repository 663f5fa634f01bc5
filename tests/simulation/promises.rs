//! Each promise is kept, or an Event names one of four causes for breaking it, which is true.

use std::collections::{BTreeMap, BTreeSet};

use fluxqueue_api::{BlockedReason, EstimateKind, FluxJob, FluxJobStatus, JobState, Reservation};
use fluxqueue_core::{Action, ActionKind, Event, EventKind, Note, Subject, Urgency, Write};
use fluxqueue_workload::{Lifetime, ObjectKey, ObjectRef, Time, Uid};

use crate::jobs::Unit;
use crate::server::flux_job_key;
use crate::suspended;
use crate::view::View;
use crate::violation::{Violation, broken};

const RULE: &str = "a promise is broken only for a cause that an Event names";
/// End of an Event that names a pod which makes its Job later than planned.
const RETRIED: &str = " takes the place of a pod that failed";
const RULE_OF_ESTIMATES: &str = "an estimate equals the promise, or lies ahead";
const RULE_OF_CAUSES: &str = "the cause for which a promise is broken is one that there was";

/// A start that is later by less is the same, by another clock.
const SAME_START_MICROS: i64 = 2_000_000;

/// The promises of a process, and those that it has announced to break.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// The promise that was last written, by FluxJob: none, or a start in the time of the core, if
    /// it has one.
    said: BTreeMap<Uid, Said>,
    /// The server's clock minus that time, in microseconds.
    pub(crate) offset: i64,
    /// FluxJobs with an Event since then that says that they start later.
    delayed: BTreeSet<Uid>,
    /// The number of broken promises.
    pub(crate) broken: u64,
    /// FluxJobs that are going to get a placement, each with the planned end of its first pod: a
    /// place is taken from the decision on, however long its record takes.
    decided: Decided,
}

type Decided = BTreeMap<ObjectKey, Time>;

/// A promise in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    /// Nodes are held until an unknown time.
    Nodes,
    Start(Time),
}

impl Promises {
    /// Hands an event to the core's view.
    pub(crate) fn tell(&mut self, event: &Event) {
        if let Event::ClockOffset(micros) = event {
            self.offset = *micros;
        }
    }

    /// Judges the actions of a step. `view` has not learned of them yet.
    pub(crate) fn judge(
        &mut self,
        view: &View,
        now: Time,
        actions: &[Action],
    ) -> Result<(), Violation> {
        for action in actions {
            match &action.kind {
                ActionKind::Note(Note {
                    subject: Subject::FluxJob(job),
                    reason: "ReservationDelayed",
                    kind,
                    note,
                    ..
                }) => {
                    if *kind != EventKind::Warning {
                        return broken(RULE, format!("{job}: {note}: is no warning"));
                    }
                    judge_cause(view, &self.decided, now, (job, note))?;
                    self.delayed.insert(job.uid.clone());
                    self.broken += 1;
                }
                ActionKind::Write(Write::CreateFluxJob { job, urgency: Urgency::Urgent }) => {
                    self.note_decision(flux_job_key(job), planned_end(view, now, job));
                }
                ActionKind::Write(Write::WriteStatus { job, status, .. }) => {
                    let known =
                        view.flux_jobs.get(&job.key).filter(|_| !status.placement.is_empty());
                    self.note_decision(
                        job.key.clone(),
                        known.and_then(|known| planned_end(view, now, known)),
                    );
                    judge_estimate(job, status)?;
                    self.judge_status(view, job, status)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn judge_status(
        &mut self,
        view: &View,
        job: &ObjectRef,
        status: &FluxJobStatus,
    ) -> Result<(), Violation> {
        let of_status = |status: &FluxJobStatus| match &status.reservation {
            None => Said::Nothing,
            Some(Reservation { start: None, .. }) => Said::Nodes,
            Some(Reservation { start: Some(at), .. }) => {
                Said::Start(Time(at.0.as_microsecond() - self.offset))
            }
        };
        let stored = || {
            let known = view.flux_jobs.get(&job.key).and_then(|known| known.status.as_ref());
            known.map_or(Said::Nothing, of_status)
        };
        let before = self.said.get(&job.uid).copied().unwrap_or_else(stored);
        let now = of_status(status);
        let is_broken = match (before, now) {
            (Said::Start(before), Said::Start(now)) => now.0 > before.0 + SAME_START_MICROS,
            // A job that waits for a gate or for a user's decision, or that starts, is promised
            // nothing any more. The same is true of a job with a start that the API server refuses:
            // its FluxJob says that.
            (Said::Start(_), Said::Nodes | Said::Nothing) => {
                let in_the_way = status.blocked_by.first().map(|blocker| blocker.reason);
                status.state == Some(JobState::Pending)
                    && in_the_way.is_some_and(|reason| reason != BlockedReason::BindFailed)
            }
            _ => false,
        };
        self.said.insert(job.uid.clone(), now);
        let is_said = self.delayed.remove(&job.uid);
        if is_broken && !is_said {
            return broken(
                RULE,
                format!("FluxJob {job}: {before:?}, then {now:?}, {:?}", status.blocked_by),
            );
        }
        Ok(())
    }

    /// Takes note of a request to record such a decision, or to take it back.
    fn note_decision(&mut self, key: ObjectKey, end: Option<Time>) {
        match end {
            Some(end) => drop(self.decided.entry(key).or_insert(end)),
            None => drop(self.decided.remove(&key)),
        }
    }
}

/// Judges the estimate: one of kind Reserved equals the promise beside it, and there is no promise
/// without one; a Projected one does not lie before the time at which it was computed.
fn judge_estimate(job: &ObjectRef, status: &FluxJobStatus) -> Result<(), Violation> {
    let promised = status.reservation.as_ref().and_then(|kept| kept.start.as_ref());
    let is_true = match &status.estimated_start {
        Some(estimate) if estimate.kind == EstimateKind::Reserved => {
            Some(&estimate.time) == promised
        }
        Some(estimate) => promised.is_none() && estimate.time.0 >= estimate.as_of.0,
        None => promised.is_none(),
    };
    if is_true {
        return Ok(());
    }
    broken(
        RULE_OF_ESTIMATES,
        format!("FluxJob {job}: {:?}, promised {promised:?}", status.estimated_start),
    )
}

/// Judges that there was such a cause, by the events that the process has received.
fn judge_cause(
    view: &View,
    decided: &Decided,
    now: Time,
    (job, note): (&ObjectRef, &str),
) -> Result<(), Violation> {
    let is_true = match note.split(':').next() {
        Some("walltime") if note.ends_with(RETRIED) => is_retry(view, note),
        Some("walltime") if !is_name_known(view, note) => false,
        Some("walltime") => {
            let offset = view.offset_max.unwrap_or(0).abs();
            let is_over = |from: Time, seconds: u64| {
                from.plus_secs(seconds).0.saturating_sub(offset) <= now.0.saturating_add(offset)
            };
            let ran = view.pods.values().any(|pod| {
                let is_bound = pod.node.is_some() || view.bindings.contains_key(&pod.id.uid);
                // Its owner may also state its walltime.
                let made_by = pod.owner.as_ref().and_then(|owner| view.controllers.get(&owner.uid));
                let annotated =
                    made_by.and_then(|made_by| made_by.walltime.as_ref()?.as_ref().ok().copied());
                let is_late = |lifetime: Lifetime| match lifetime {
                    Lifetime::Seconds(seconds) => {
                        is_over(pod.started.unwrap_or(pod.created), seconds)
                    }
                    Lifetime::Eventually | Lifetime::Endless => is_edited(view),
                };
                let is_past_deadline = made_by
                    .and_then(|made_by| made_by.deadline)
                    .is_some_and(|deadline| is_over(deadline, 0));
                is_bound
                    && (is_past_deadline || is_late(pod.lifetime) || annotated.is_some_and(is_late))
            });
            // A place is planned to be free again at some time, even if its pods have not come to
            // it by then.
            let was_held = || {
                let mut known = view.flux_jobs.values().filter_map(|job| job.status.as_ref());
                known.any(|status| {
                    let queued = status.queued_at.as_ref().map(|at| Time(at.0.as_microsecond()));
                    let seconds =
                        status.walltime_seconds.and_then(|seconds| u64::try_from(seconds).ok());
                    !status.placement.is_empty()
                        && status.start_time.is_none()
                        && queued
                            .zip(seconds)
                            .is_some_and(|(queued, seconds)| is_over(queued, seconds))
                })
            };
            let was_decided = || {
                let is_named =
                    |key: &ObjectKey| note.split_whitespace().any(|word| word == key.to_string());
                decided.iter().any(|(key, end)| *end <= now && is_named(key))
            };
            ran || was_held() || was_decided()
        }
        Some("priority") => {
            let known =
                view.flux_jobs.get(&job.key).and_then(|known| known.status.as_ref()?.priority);
            let pods = view.pods.values().map(|pod| pod.priority);
            // Jobs wait without pods, too.
            let stand_ins = view
                .controllers
                .values()
                .filter_map(|job| job.suspension.as_ref().map(suspended::priority));
            pods.chain(stand_ins).any(|priority| known.is_none_or(|own| priority > own))
                || view.queues.have_priorities()
                || is_edited(view)
        }
        // A user may have changed the job itself, and changes of nodes cannot be told apart from
        // later ones.
        Some("capacity" | "edit") => true,
        _ => false,
    };
    if is_true { Ok(()) } else { broken(RULE_OF_CAUSES, format!("FluxJob {job}: {note}")) }
}

/// True if the named pod exists, and another pod of the same owner has failed. Its place may not be
/// on record yet.
fn is_retry(view: &View, note: &str) -> bool {
    let named = note.strip_suffix(RETRIED).and_then(|rest| rest.rsplit(' ').next());
    let pod = view.pods.values().find(|pod| named == Some(pod.id.key.to_string().as_str()));
    pod.is_some_and(|pod| pod.owner.is_some() && view.has_failed.contains(&Unit::of(pod)))
}

/// True if the job or pod that is named as having outlived its planned end is known, or if no name
/// is given.
fn is_name_known(view: &View, note: &str) -> bool {
    let Some(named) =
        note.strip_suffix(" outlived its planned end").and_then(|rest| rest.rsplit(": ").next())
    else {
        return true;
    };
    let begins = |key: &ObjectKey| named.starts_with(&key.to_string());
    let of_group =
        |group: &str| named.split_once('/').is_some_and(|(_, name)| name.starts_with(group));
    named == "a job"
        || view.flux_jobs.keys().any(begins)
        || view.controllers.values().any(|made_by| begins(&made_by.id.key))
        || view
            .pods
            .values()
            .any(|pod| begins(&pod.id.key) || pod.group.iter().any(|group| of_group(&group.name)))
        || view
            .pods
            .values()
            .filter_map(|pod| pod.owner.as_ref())
            .any(|owner| of_group(&owner.name))
}

/// True if a user has set another walltime or priority for some job.
fn is_edited(view: &View) -> bool {
    view.flux_jobs.values().any(|job| {
        let wishes = &job.spec.overrides;
        wishes.walltime_seconds.is_some() || wishes.priority_class_name.is_some()
    })
}

/// Returns when the first of the pods of this FluxJob would end if they started now, if any has an
/// end.
fn planned_end(view: &View, now: Time, job: &FluxJob) -> Option<Time> {
    let pods = view.pods.values().filter(|pod| Unit::of(pod).is_recorded_by(job));
    let seconds = pods.filter_map(|pod| match pod.lifetime {
        Lifetime::Seconds(seconds) => Some(seconds),
        Lifetime::Eventually | Lifetime::Endless => None,
    });
    seconds.min().map(|seconds| now.plus_secs(seconds))
}
