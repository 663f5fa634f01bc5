//! Stand-ins for the pods of a Job that is suspended while it waits, and the release of such a Job.
//!
//! A Job with Fluxqueue's mark has no pods before it has a place. Here a member is made from a
//! sample by the Job's template, and waits as the Job's pods would: one for all of them, so that a
//! Job costs little however many pods it asks for. Once the job has a place, there is one stand-in
//! for each pod. The other modules treat stand-ins as pods, except in four ways: `binding` sends no
//! Binding for them and has the Job released instead, they alone represent the job's requirements
//! (`Job::counts`), nothing is written to them, and there are no Events about them. After the
//! release the Job's own pods take their places, all together or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_api::{EventReason, names};

use crate::action::{EventKind, Subject};
use crate::agenda::Agenda;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::grouping;
use crate::jobs::job::{Identity, Job};
use crate::jobs::lifecycle::{End, Lifecycle};
use crate::jobs::member::Member;
use crate::jobs::registry::Jobs;
use crate::jobs::setbacks::Setback;
use crate::jobs::suspended::{JobChange, JobWrite, Suspended};
use crate::occupancy::Occupancy;
use crate::records::Records;
use crate::settings::CoreSettings;
use crate::sound::{Lookup, Sound};
use crate::telling::outside::Outside;
use crate::timers::Timer;
use fluxqueue_machine::defect::OrDefect;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{
    Controller, GROUP_SIZE_MAX, ObjectKey, ObjectRef, Pod, Suspension, SuspensionPhase, Time, Uid,
};

/// Holds places for the pods of suspended Jobs, and releases the Jobs.
pub(crate) struct StandIns<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// The number of writes of a Job that have to fail in a row before its FluxJob reports that.
const ATTEMPTS_UNTOLD: u32 = 3;

impl StandIns<'_> {
    // --- how stand-ins are made ---

    /// Updates the stand-ins of all of these Jobs: those that wait without pods, and those with a
    /// place that is held for the pods that they are about to have.
    pub(crate) fn stand_in_for_all(&mut self, concerns: impl Fn(&Controller) -> bool) {
        if !self.intake.synced {
            return;
        }
        let suspended = self.jobs.controllers.all();
        let suspended =
            suspended.filter(|made_by| made_by.suspension.is_some() && concerns(made_by));
        let mut suspended: Vec<Uid> = suspended.map(|made_by| made_by.id.uid.clone()).collect();
        // Jobs get their numbers in this order.
        suspended.sort_unstable();
        for uid in suspended {
            let done = self.stand_in_for(&uid);
            self.agenda.heed(done);
        }
    }

    /// Makes the stand-ins of a Job that is suspended for Fluxqueue: one for all of its pods, or
    /// one for each once it has a place.
    pub(crate) fn stand_in_for(&mut self, uid: &Uid) -> Sound {
        let made_by = self.jobs.controllers.of_uid(uid).cloned();
        let made_by = made_by.or_defect("a suspended Job is not there");
        let Some(made_by) = made_by else { return Ok(()) };
        // A Job that does not wait for Fluxqueue has pods of its own.
        let Some(suspension) = &made_by.suspension else { return Ok(()) };
        if self.queues.suspends_jobs(&made_by.id.key.namespace) != Some(true) {
            self.tell_ignored_mark(&made_by);
            return Ok(());
        }
        let identity = Identity::Controller(Arc::clone(&made_by.id.key.namespace), uid.clone());
        let known = self.jobs.index.by_identity.get(&identity).and_then(|id| self.jobs.all.get(id));
        let state = known.map_or(&Suspended::No, |job| &job.suspended);
        let state = match (&suspension.phase, state) {
            (SuspensionPhase::Marked { .. }, Suspended::No) => {
                Suspended::Waits(JobWrite::default())
            }
            (SuspensionPhase::Marked { .. }, Suspended::Waits(write)) => {
                Suspended::Waits(write.clone())
            }
            (SuspensionPhase::Released { at }, Suspended::No)
                if self.has_place_on_record(&made_by) =>
            {
                Suspended::Released { since: self.time_of_release(*at) }
            }
            (SuspensionPhase::Released { at }, Suspended::No) if self.intake.taking_over => {
                // An earlier process has given its place back, if its pods are not there yet.
                let over = self.time_of_release(*at).plus_secs(self.settings.suspend_hold_secs);
                let (pods, there) = (
                    grouping::wants(&made_by, 0) as usize,
                    known.map_or(0, |job| job.pods.live.len()),
                );
                let has_run =
                    made_by.succeeded > 0 || known.is_some_and(|job| job.start.at.is_some());
                if there < pods && !has_run && self.jobs.releases.count(uid) {
                    let (namespace, pause) =
                        (&made_by.id.key.namespace, self.settings.release_pause_secs);
                    let times = (over, self.clock.now);
                    self.jobs.releases.note_failed(namespace, pods, times, pause);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let is_bound = known.is_some_and(|job| self.has_bound(job));
        if !self.settings.scheduler_names.contains(&suspension.sample.scheduler) || is_bound {
            return Ok(());
        }
        let priority = self.jobs.classes.priorities.of_pods(suspension.priority_class.as_deref());
        let count = grouping::wants(&made_by, 0).min(GROUP_SIZE_MAX);
        let there = known.map(|job| self.stand_ins(job)).unwrap_or_default();
        let has_place = match known.filter(|job| job.suspended.has_stand_ins()) {
            Some(job) => job.life.is_placed(),
            None => self.has_place_on_record(&made_by),
        };
        if let Some(id) = known.map(|job| job.id).filter(|_| has_place && !there.is_empty()) {
            if there.len() != count as usize {
                // The job has no place any more, and is examined again.
                return self.slots().withdraw(
                    id,
                    "its Job wants another number of pods",
                    Setback::LostRace,
                );
            }
            // The stand-ins are all made from one sample: if the first is as it is to be, all are.
            if self.is_as_seen(&suspension.stand_in(0, priority)) {
                return Ok(());
            }
        }
        let pods: Vec<Pod> = if has_place {
            (0..count).map(|number| suspension.stand_in(number, priority)).collect()
        } else {
            (count > 0).then(|| suspension.stand_in_for_all(priority)).into_iter().collect()
        };
        let wanted: BTreeSet<&Uid> = pods.iter().map(|pod| &pod.id.uid).collect();
        for gone in there.iter().filter(|pod| !wanted.contains(&pod.uid)) {
            self.members().pod_gone(gone)?;
        }
        for pod in pods {
            if !self.is_as_seen(&pod) {
                self.members().pod(Arc::new(pod))?;
            }
        }
        let job =
            self.jobs.index.by_identity.get(&identity).and_then(|id| self.jobs.all.get_mut(id));
        if let Some(job) = job {
            job.suspended = state;
            job.pods.stands_for = if has_place { 1 } else { (count as usize).max(1) };
        }
        Ok(())
    }

    /// True if its FluxJob has a place for the job, and no Binding has left.
    fn has_place_on_record(&self, made_by: &Controller) -> bool {
        let ObjectRef { key, uid } = &made_by.id;
        let name = names::fluxjob_name(&key.name, fluxqueue_api::WorkloadKind::Job, uid);
        let record = self.records.get(&ObjectKey::new(Arc::clone(&key.namespace), name));
        let status = record.and_then(|record| record.status.as_ref());
        status.is_some_and(|status| {
            !status.placement.is_empty()
                && status.start_time.is_none()
                && End::on_record(status).is_none()
        })
    }

    fn stand_ins(&self, job: &Job) -> Vec<ObjectRef> {
        self.jobs
            .live(job)
            .filter(|member| member.pod.stands_in)
            .map(|member| member.pod.id.clone())
            .collect()
    }

    fn has_bound(&self, job: &Job) -> bool {
        self.jobs.live(job).any(Member::is_bound)
    }

    // --- how stand-ins are updated ---

    /// Decides on the stand-ins of a job, by the present state.
    pub(crate) fn look_at_stand_ins(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let made_by = self.jobs.controllers.of_job(&job.workload.identity).cloned();
        let suspended = made_by.filter(|made_by| made_by.suspension.is_some());
        let is_gone = suspended.is_none();
        let suspended = suspended
            .filter(|made_by| self.queues.suspends_jobs(&made_by.id.key.namespace) == Some(true));
        if !job.suspended.has_stand_ins() {
            if let Some(made_by) = suspended {
                // Pods of the Job may have existed before, and have made stand-ins unnecessary.
                self.stand_in_for(&made_by.id.uid)?;
            }
            return Ok(());
        }
        if is_gone && matches!(job.suspended, Suspended::Released { .. }) && !self.has_bound(job) {
            // The Job was deleted, or has failed, before its pods were there.
            self.note_failed_release(id, self.clock.now);
            return self.dismiss(id);
        }
        let Some(made_by) = suspended.filter(|_| !self.has_bound(job)) else {
            // The Job is gone, the mark is removed or does not count in its namespace any more, or
            // a pod that existed all the same is bound.
            return self.dismiss(id);
        };
        if matches!(job.suspended, Suspended::Waits(_))
            && !job.life.is_placed()
            && job.pods.stands_for == 1
        {
            // The job may have had a place: one stand-in represents all pods again.
            self.stand_in_for(&made_by.id.uid)?;
        }
        let phase = made_by.suspension.as_ref().map(|suspension| &suspension.phase);
        let job = self.jobs.all.known(&id)?;
        let released = match (phase, &job.suspended) {
            (Some(SuspensionPhase::Released { at }), Suspended::Waits(_)) => {
                Some(self.time_of_release(*at))
            }
            _ => None,
        };
        let job = self.jobs.all.known_mut(&id)?;
        if let Some(since) = released {
            job.suspended = Suspended::Released { since };
        }
        match &job.suspended {
            Suspended::Waits(write) => {
                let (is_idle, retry_at, is_placed) =
                    (write.is_idle(self.clock.now), write.retry_at, job.life.is_placed());
                let pause = self
                    .jobs
                    .releases
                    .paused(&job.key.namespace, self.clock.now)
                    .filter(|_| is_idle && is_placed);
                if pause.is_some() {
                    self.slots().withdraw(
                        id,
                        "no Job of its namespace is released for a while",
                        Setback::Changed,
                    )?;
                } else if retry_at > self.clock.now {
                    self.agenda.timers.wake(Timer::Job(id), retry_at);
                } else if is_idle && is_placed {
                    // The Job is released when its turn to begin comes, if its placement is
                    // acknowledged.
                    self.record_order().release(id)?;
                } else if let Some(SuspensionPhase::Marked { is_suspended: false, .. }) =
                    phase.filter(|_| is_idle)
                {
                    self.binding().write_job(id, JobChange::Suspend)?;
                }
            }
            Suspended::Released { since } => {
                let since = *since;
                self.hold_place(id, since)?;
            }
            Suspended::No | Suspended::Over => {}
        }
        Ok(())
    }

    /// Converts a time on record to the core's own time, in which the wait for the pods is
    /// measured: the API server's clock may jump.
    fn time_of_release(&self, at: Time) -> Time {
        self.clock.core(at).min(self.clock.now)
    }

    /// Holds the place of a Job that was released at `since` until its pods exist, for a bounded
    /// time.
    fn hold_place(&mut self, id: JobId, since: Time) -> Sound {
        let hold_secs = self.settings.suspend_hold_secs;
        let until = since.plus_secs(hold_secs);
        self.queueing().note_coming(id)?;
        let job = self.jobs.all.known(&id)?;
        let own = self
            .jobs
            .live(job)
            .filter(|member| !member.pod.stands_in && member.is_ready(names::GATE))
            .count();
        if job.life != Lifecycle::Placed {
            self.dismiss(id)?;
        } else if own >= job.start.seats.len() {
            self.take_over(id)?;
        } else if self.clock.now >= until {
            let why = format!(
                "{own} of {} pods were there {hold_secs} s after its release",
                job.start.seats.len()
            );
            self.slots().withdraw(id, &why, Setback::Changed)?;
            self.note_failed_release(id, until);
            self.dismiss(id)?;
        } else {
            self.agenda.timers.wake(Timer::Job(id), until);
        }
        Ok(())
    }

    /// Gives the seats to the pods of the Job, which all exist now. If they do not fit there as
    /// they are, they wait at the place that the job has had, and the next pass offers them first
    /// the room that the stand-ins held.
    fn take_over(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        self.jobs.releases.note_done(&job.key.namespace, job.start.seats.len());
        self.remove_stand_ins(id)?;
        self.slots().reseat_waiting(id)?;
        let job = self.jobs.all.known(&id)?;
        let left = job.start.seats.empty().count();
        let pods = self.jobs.unsent(job);
        let misfit = match left {
            0 => self.binding().misfit(id, &pods),
            left => Some(format!("{left} of its pods do not fit where others stood in for them")),
        };
        if let Some(why) = misfit {
            self.slots().withdraw(id, &why, Setback::Changed)?;
        }
        Ok(())
    }

    /// Removes the stand-ins of the job: its existing pods wait for themselves from now on.
    fn dismiss(&mut self, id: JobId) -> Sound {
        self.remove_stand_ins(id)?;
        if let Some(job) = self.jobs.all.get_mut(&id).filter(|job| job.life == Lifecycle::Placed) {
            job.forget_start();
        }
        Ok(())
    }

    fn remove_stand_ins(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        // A Job that was not released may still be: news of a mark that has been removed since may
        // come late.
        let was_released = matches!(job.suspended, Suspended::Released { .. });
        job.suspended = if was_released { Suspended::Over } else { Suspended::No };
        job.pods.stands_for = 1;
        let job = self.jobs.all.known(&id)?;
        for pod in self.stand_ins(job) {
            // Its slot is given back first, so that its end does not count as the loss of a pod.
            self.slots().unassign(&pod.uid)?;
            self.members().pod_gone(&pod)?;
        }
        Ok(())
    }

    /// Reports why a job that has its place does not get its pods.
    pub(crate) fn report_unreleased(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if let Suspended::Waits(JobWrite { attempts, failure: Some(failure), .. }) = &job.suspended
            && job.life == Lifecycle::Placed
            && *attempts >= ATTEMPTS_UNTOLD
        {
            let obstacle = Outside::NotReleased(failure.clone());
            self.jobs.block(id, obstacle);
        }
        Ok(())
    }

    /// Charges the release of a Job to its namespace, if its pods had not all come by `at`: the
    /// other Jobs there that wait without pods give their promises and places back for a while.
    fn note_failed_release(&mut self, id: JobId, at: Time) {
        let charged = self.jobs.all.get(&id).map(|job| {
            let made_by = self.jobs.controllers.of_job(&job.workload.identity).cloned();
            let pods = job.start.seats.len().max(job.start.size);
            (Arc::clone(&job.key.namespace), made_by, pods)
        });
        if let Some((namespace, made_by, pods)) = charged
            && made_by.is_none_or(|made_by| self.jobs.releases.count(&made_by.id.uid))
        {
            self.agenda.gauges.releases_failed += 1;
            let (times, pause) = ((at, self.clock.now), self.settings.release_pause_secs);
            self.jobs.releases.note_failed(&namespace, pods, times, pause);
            let waits = |job: &Job| {
                job.key.namespace == namespace && matches!(job.suspended, Suspended::Waits(_))
            };
            let waiting = self.jobs.all.values().filter(|job| waits(job)).map(|job| job.id);
            self.agenda.touched.extend(waiting);
        }
    }

    /// True if a stand-in is the same as the known one.
    fn is_as_seen(&self, pod: &Pod) -> bool {
        let known = self.jobs.members.get(&pod.id.uid).map(|known| &known.pod);
        known.is_some_and(|known| *known == self.sight().refused_by_machine(Arc::new(pod.clone())))
    }

    /// Reports an ignored mark to the author of a Job, once, by the process that sees the mark
    /// first.
    fn tell_ignored_mark(&mut self, made_by: &Controller) {
        let namespace = &made_by.id.key.namespace;
        let is_known = self.queues.suspends_jobs(namespace).is_some();
        let waits = |suspension: &&Suspension| {
            matches!(suspension.phase, SuspensionPhase::Marked { is_suspended: true, .. })
                && self.settings.scheduler_names.contains(&suspension.sample.scheduler)
        };
        let suspension = made_by.suspension.as_ref().filter(waits).filter(|_| is_known);
        if let Some(suspension) = suspension
            && self.jobs.releases.ignore_mark(&made_by.id.uid)
            && !self.intake.taking_over
        {
            let (mark, label, enabled) =
                (names::SUSPENDED, names::ADMISSION_SUSPEND, names::ENABLED);
            let text = format!(
                "annotation {mark} is ignored, because namespace {namespace} does not have the \
                 label {label}={enabled}: the Job stays suspended until its spec.suspend is set \
                 to false"
            );
            let (subject, reason) =
                (Subject::Job(made_by.id.clone()), EventReason::SuspensionIgnored.as_str());
            self.agenda.note(
                subject,
                EventKind::Warning,
                reason,
                "Scheduling",
                text,
                &suspension.sample.scheduler,
            );
        }
    }
}
