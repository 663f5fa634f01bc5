//! The waiting requests of a job, its slots and its end: computed again after any change of the
//! job.
//!
//! Idempotent: it reads the job and its members, and makes the queue and the state agree with them.

pub(crate) mod gangs;
pub(crate) mod holds;
pub(crate) mod parts_of_ended;
pub(crate) mod places;
pub(crate) mod rules;

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_api::{BlockedReason, ConditionType, FinishedReason, JobState, names};

use crate::agenda::Agenda;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::grouping::StartSize;
use crate::jobs::job::{Identity, Job, Style};
use crate::jobs::lifecycle::{End, Lifecycle};
use crate::jobs::member::Member;
use crate::jobs::registry::{Jobs, lifetimes};
use crate::jobs::scheduling_groups;
use crate::jobs::unready::not_mountable;
use crate::lookahead::Lookahead;
use crate::occupancy::Occupancy;
use crate::records::stored::Stored;
use crate::records::{Records, bounds};
use crate::settings::CoreSettings;
use crate::sound::{Lookup, Sound};
use crate::telling::Reporting;
use crate::telling::outside::Outside;
use crate::telling::words;
use crate::timers::Timer;
use fluxqueue_planner::Planner;
use fluxqueue_planner::plan::{Delay, Terms};
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest, Place};
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{Pod, Refusal, Time, Uid};

/// Looks at the jobs that have changed: which of their pods wait, and whether they have ended.
pub(crate) struct Refresh<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub lookahead: &'a mut Lookahead,
    pub reporting: &'a mut Reporting,
    pub agenda: &'a mut Agenda,
}

impl Refresh<'_> {
    pub(crate) fn refresh_touched(&mut self) {
        self.slots().plan_due_waves();
        while let Some(id) = self.agenda.touched.pop_first() {
            self.agenda.gauges.jobs_looked_at += 1;
            let done = self.refresh(id);
            self.agenda.heed(done);
        }
    }

    /// Does the same for the jobs of these pods alone, even if other jobs were touched.
    pub(crate) fn refresh_those(&mut self, pods: &[Uid]) {
        for uid in pods {
            if let Some(id) = self.jobs.members.get(uid).map(|member| member.job)
                && self.agenda.touched.remove(&id)
            {
                self.agenda.gauges.jobs_looked_at += 1;
                let done = self.refresh(id);
                self.agenda.heed(done);
            }
        }
    }

    fn refresh(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.is_finished() {
            self.agenda.dirty.insert(id);
            return self.recording().finalize(id);
        }
        if self.part_from_ended(id)? {
            return Ok(());
        }
        self.members().look_at_late_pods(id)?;
        self.jobs.note_priority(id);
        self.slots().look_at_queue(id)?;
        let records_lone_pods = self.settings.record_lone_pods;
        self.notices().warn_of_bad_walltime(id, records_lone_pods)?;
        self.notices().warn_of_contradictions(id)?;
        self.notices().warn_of_unknown_class(id)?;
        self.slots().trim_retained(id)?;
        self.obey_hold(id)?;
        self.slots().forget_empty_start(id)?;
        self.outgrow_start(id)?;
        self.stand_ins().look_at_stand_ins(id)?;
        self.seat_externally_bound(id)?;
        self.binding().look_at_volumes(id)?;
        self.note_devices(id)?;
        let has_ended = self.has_ended(id)?;
        let may_start = if has_ended { None } else { self.may_start(id)? };
        let wanted = match may_start {
            Some(ready) => {
                let left = self.slots().pass_on_retained(id, ready)?;
                self.wanted_requests(id, left)?
            }
            None => Vec::new(),
        };
        self.set_requests(id, wanted)?;
        self.telling().look_at_first(id)?;
        self.notice_completeness(id)?;
        self.jobs.note_life(id);
        self.notice_stall(id)?;
        if has_ended {
            self.end_job(id)?;
        }
        self.report_refused(id)?;
        self.telling().report_unready(id)?;
        self.stand_ins().report_unreleased(id)?;
        self.queueing().count_in_queue(id)?;
        self.queueing().count_running(id)?;
        self.agenda.dirty.insert(id);
        if self.jobs.all.known(&id)?.is_finished() {
            self.recording().finalize(id)?;
        }
        Ok(())
    }

    /// Reports pods that cannot be placed as they are: more nodes would not help them.
    fn report_refused(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let live = self.jobs.live_members(job);
        let waiting = || live.iter().filter(|member| member.stage.is_waiting());
        if waiting().next().is_none() {
            return Ok(());
        }
        let by_queue =
            self.kept_out_by_queue(job).filter(|it| it.reason().state() == JobState::Refused);
        let for_all = self.refused_for_all(job, &live).map(|(_, text)| text);
        let for_all = for_all.or(by_queue.as_ref().map(words::outside::message));
        let refused: Vec<(Uid, String)> = waiting()
            .filter_map(|member| {
                Some((
                    member.pod.id.uid.clone(),
                    refusal(&[member]).map(|(_, text)| text).or_else(|| for_all.clone())?,
                ))
            })
            .collect();
        for (uid, text) in refused {
            self.notices().report_unscheduled(&uid, "SchedulerError", &text)?;
        }
        Ok(())
    }

    // --- the waiting requests ---

    /// Returns the pods of the job that are ready to start; `None` if something outside the queue
    /// keeps them from it, which the job's record states from now on.
    fn may_start(&mut self, id: JobId) -> Sound<Option<Vec<Uid>>> {
        let job = self.jobs.all.known(&id)?;
        let live = self.jobs.remaining(job);
        if job.suspended.has_stand_ins() && job.life.is_placed() {
            // Its own pods wait for each other.
            return Ok(None);
        }
        let ready = live.iter().filter(|member| member.is_ready(names::GATE) && job.counts(member));
        let ready: Vec<Uid> = ready.map(|member| member.pod.id.uid.clone()).collect();
        if let Some(held) = job.record.overrides.held() {
            self.jobs.block(id, Outside::Held(held));
            return Ok(None);
        }
        if let Some((obstacle, until)) = self.paused(job) {
            // The job comes back behind the jobs that wait now, and delays none of them.
            self.agenda.timers.wake(Timer::Job(id), until);
            let job = self.jobs.all.known_mut(&id)?;
            job.waiting.since = None;
            self.jobs.block(id, obstacle);
            return Ok(None);
        }
        if let Some(shortage) = self.lacks_quota(job) {
            self.queueing().wait_for_quota(id)?;
            self.jobs.block(id, Outside::Quota(shortage));
            return Ok(None);
        }
        // A pod that is deleted before it has a node has no requirements any more, however long its
        // deletion takes.
        let to_stay: Vec<&Member> =
            live.iter().copied().filter(|member| !member.goes_unbound()).collect();
        if let Some((reason, message)) = refusal(&to_stay).or_else(|| not_mountable(&to_stay))
            && (job.style != Style::Elastic || ready.is_empty())
            && !job.life.is_placed()
        {
            self.jobs.block(id, Outside::Refused(reason, message));
            return Ok(None);
        }
        let refused = if job.life.is_placed() {
            self.refused_for_group(job, &to_stay)
        } else {
            self.refused_for_all(job, &to_stay)
        };
        if let Some((reason, message)) = refused {
            self.jobs.block(id, Outside::Refused(reason, message));
            return Ok(None);
        }
        if let Identity::PodGroup(key, uid) = &job.workload.identity
            && self.jobs.controllers.groups.of_job(&job.workload.identity).is_none()
            && !ready.is_empty()
        {
            let hidden = self.jobs.controllers.groups.hidden.clone();
            self.jobs.block(id, Outside::NoGroup(key.clone(), uid.clone(), hidden));
            return Ok(None);
        }
        if !job.life.is_placed()
            && let Some(obstacle) = self.kept_out_by_queue(job)
        {
            self.jobs.block(id, obstacle);
            return Ok(None);
        }
        if !job.life.is_placed()
            && let Some(obstacle) = self.kept_outside(job)
        {
            self.jobs.block(id, Outside::Queue(obstacle));
            return Ok(None);
        }
        if let Some((there, size)) = self.lacks_pods(job) {
            self.jobs.block(id, Outside::Incomplete { there, size, gated: 0 });
            return Ok(None);
        }
        Ok(Some(ready))
    }

    /// Returns how many pods of a gang exist and how many are wanted, if slots are retained for a
    /// new start and some of its pods are missing: none of them takes a slot until then.
    fn lacks_pods(&self, job: &Job) -> Option<(usize, usize)> {
        let starts_again = job.style == Style::Gang
            && job.life.is_placed()
            && !job.start.retained.is_empty()
            && self.jobs.is_new_start(job);
        let grace_secs = self.settings.group_grace_secs;
        starts_again.then(|| self.jobs.is_short_of(job, grace_secs, self.clock.now)).flatten()
    }

    /// Returns the requests that the job should have in the queue for pods that are ready, with the
    /// pods' order among them.
    fn wanted_requests(
        &mut self,
        id: JobId,
        ready: Vec<Uid>,
    ) -> Sound<Vec<(PendingRequest, Time, u32)>> {
        let job = self.jobs.all.known(&id)?;
        match job.style {
            Style::Gang if !job.life.is_placed() => self.wanted_start(id, ready),
            Style::Gang => self.wanted_joiners(id, &ready),
            Style::Lone | Style::Elastic => self.wanted_singles(id, &ready),
        }
    }

    fn wanted_start(
        &mut self,
        id: JobId,
        ready: Vec<Uid>,
    ) -> Sound<Vec<(PendingRequest, Time, u32)>> {
        let job = self.jobs.all.known(&id)?;
        let live = self.jobs.remaining(job);
        let gated = live
            .iter()
            .filter(|m| m.stage.is_waiting() && m.pod.gates.iter().any(|g| **g != *names::GATE))
            .count();
        let size = self.jobs.start_size(job, self.settings.group_grace_secs, self.clock.now);
        let (size, clamped) = match size {
            StartSize::Pods(size) => (size, None),
            StartSize::Clamped { to, asked } => (to, Some(asked)),
            StartSize::Until(at) => {
                self.agenda.timers.wake(Timer::Job(id), at);
                self.jobs.block(id, Outside::TooFew(ready.len()));
                return Ok(Vec::new());
            }
            StartSize::None => {
                let job = self.jobs.all.known_mut(&id)?;
                job.may_queue();
                return Ok(Vec::new());
            }
        };
        if let Some(asked) = clamped {
            let text = format!(
                "its group asks for {asked} pods, but only {size} can appear: {size} start together"
            );
            self.notices().warn_once(id, ConditionType::SizeClamped, text)?;
        }
        let place = self.new_place(&ready);
        let job = self.jobs.all.known_mut(&id)?;
        // Another size is a new question to the graph.
        self.agenda.queue_changed |= job.start.size != size;
        job.start.size = size;
        let there = ready.len() * job.pods.stands_for;
        if there < size {
            self.jobs.block(id, Outside::Incomplete { there, size, gated });
            return Ok(Vec::new());
        }
        let at = *job.waiting.since.get_or_insert(place);
        job.may_queue();
        self.tell_of_pause(id)?;
        Ok(vec![(PendingRequest::Start(id), at, 0)])
    }

    /// States why a gang waits for which no place has been searched for yet, since the searches of
    /// its namespace pause.
    fn tell_of_pause(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let until = self.jobs.searches.pause_of(job, self.clock.now);
        if let Some(until) = until.filter(|_| job.told.blocker.is_none()) {
            // The next whole second is late enough.
            let at = Time::from_seconds(self.clock.wall(until).seconds() + 1);
            self.jobs.block(id, Outside::SearchesPause(at));
        }
        Ok(())
    }

    /// Returns the requests of the pods that join a gang, which queue at the job's place.
    fn wanted_joiners(
        &mut self,
        id: JobId,
        ready: &[Uid],
    ) -> Sound<Vec<(PendingRequest, Time, u32)>> {
        let (mut pending, now) = (Vec::new(), self.clock.wall_now());
        self.jobs.all.known_mut(&id)?.may_queue();
        for (index, uid) in self.slots().without_followers(id, ready)?.into_iter().enumerate() {
            let job = self.jobs.all.known_mut(&id)?;
            let at = *job.waiting.since.get_or_insert(now);
            pending.push((
                PendingRequest::Member(id, uid),
                at,
                u32::try_from(index).unwrap_or(u32::MAX),
            ));
        }
        Ok(pending)
    }

    fn wanted_singles(
        &mut self,
        id: JobId,
        ready: &[Uid],
    ) -> Sound<Vec<(PendingRequest, Time, u32)>> {
        let mut pending = Vec::new();
        let job = self.jobs.all.known(&id)?;
        let lone = job.style == Style::Lone;
        let first = ready
            .iter()
            .filter_map(|uid| self.jobs.members.get(uid))
            .map(|member| member.pod.created)
            .min();
        let queued_at = match (job.waiting.since, lone) {
            (Some(at), true) => Some(at),
            // A pod that waited behind a gate before could not be placed until now.
            (None, true) if !ready.is_empty() => Some(self.new_place(ready)),
            _ => first,
        };
        for (index, uid) in self.slots().without_followers(id, ready)?.iter().enumerate() {
            let member = self.jobs.members.known(uid)?;
            let at =
                if lone { queued_at.unwrap_or(self.clock.wall_now()) } else { member.pod.created };
            pending.push((
                PendingRequest::Member(id, uid.clone()),
                at,
                u32::try_from(index).unwrap_or(u32::MAX),
            ));
        }
        let job = self.jobs.all.known_mut(&id)?;
        if queued_at.is_some() {
            job.waiting.since = queued_at;
        }
        if lone {
            job.start.size = 1;
        }
        let gate = if ready.is_empty() { self.gate_of_another(id) } else { None };
        match (gate, self.jobs.all.get_mut(&id)) {
            (Some(gate), _) => self.jobs.block(id, gate),
            (None, Some(job)) => job.may_queue(),
            (None, None) => {}
        }
        Ok(pending)
    }

    /// Returns the gate of another owner that keeps a pod of the job from being placed.
    fn gate_of_another(&self, id: JobId) -> Option<Outside> {
        let job = self.jobs.all.get(&id)?;
        self.jobs.live(job).find_map(|member| {
            let gate = member.pod.gates.iter().find(|gate| ***gate != *names::GATE)?;
            Some(Outside::Gated(member.pod.id.clone(), Arc::clone(gate)))
        })
    }

    fn set_requests(&mut self, id: JobId, wanted: Vec<(PendingRequest, Time, u32)>) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let name = job.key.clone();
        let (in_queue, queue_priority) = (job.queue.id, self.queues.priority(job.queue.id));
        let before = job.waiting.requests.clone();
        let after: BTreeSet<PendingRequest> =
            wanted.iter().map(|(pending, ..)| pending.clone()).collect();
        for gone in before.difference(&after) {
            self.promise_keeping().forget_request(gone)?;
        }
        let mut survey = self.sight().survey_levels(id);
        let mut waiting: Vec<Arc<Pod>> = Vec::new();
        for (pending, at, index) in wanted {
            let joins = matches!(pending, PendingRequest::Member(..));
            let pods: Vec<Arc<Pod>> = self
                .sight()
                .asking()
                .pods(&pending)
                .into_iter()
                .map(|member| Arc::clone(&member.pod))
                .collect();
            for pod in pods {
                let levels = self.sight().level_wants(id, &pod, joins, &mut survey);
                let (tenancy, stance) = (
                    self.sight().tenancy(&pod, id),
                    self.planner.cluster.neighbours().stance(&pod),
                );
                let member = self.jobs.members.known_mut(&pod.id.uid)?;
                let volumes = member.terms.volumes.take();
                member.terms = Terms { stance, volumes, levels, tenancy };
                waiting.push(pod);
            }
            let key = self.sight().asking().key(&pending);
            let priority =
                self.jobs.all.get(&id).map_or(0, |job| self.jobs.priority_of(job, &pending));
            let place = Place::new(priority, at, index, pending.clone()).named(name.clone());
            let place = place.in_queue(in_queue, queue_priority);
            let before =
                self.planner.queue.place_of(&pending).map(|(place, class)| (place.clone(), class));
            let is_edited = !self
                .planner
                .queue
                .key_of(&pending)
                .is_some_and(|known| known.differs_by_repellers(&key));
            let is_new = self.planner.queue.put(place.clone(), key);
            self.note_newcomers(&pending, &place, before, is_edited)?;
            if is_new {
                self.promise_keeping().make_promise_again(&pending)?;
            } else {
                self.telling().tell_joining_pods(&pending)?;
            }
        }
        self.jobs.labelled.note(id, waiting.iter().map(|pod| &**pod));
        let job = self.jobs.all.known_mut(&id)?;
        job.wait_for(after);
        Ok(())
    }

    /// Decides whether a request goes ahead of existing promises. A job that comes for the first
    /// time goes ahead of those with less priority; one with a request that a user has changed goes
    /// ahead of all behind it. A late entrant delays no other job: it could have come earlier, but
    /// for a gate, a hold or the limits of its queue, or it was there before and a pod of it had to
    /// be replaced. A job that other pods keep away since delays none either.
    fn note_newcomers(
        &mut self,
        pending: &PendingRequest,
        place: &Place,
        before: Option<(Place, ClassId)>,
        is_edited: bool,
    ) -> Sound {
        let job = self.jobs.all.known_mut(&pending.job())?;
        let cause = match before {
            None if job.waiting.is_late_entrant || job.life.is_placed() => return Ok(()),
            // The job had come before this process began, and later promises were made with it in
            // mind.
            None if self.intake.taking_over
                && job.status_on_record().is_some_and(|status| status.queued_at.is_some()) =>
            {
                return Ok(());
            }
            None => {
                // The pods of an elastic job come one by one, each for the first time.
                job.waiting.is_late_entrant = job.style != Style::Elastic;
                Delay::Priority
            }
            Some((before, class)) => {
                let has_same_priority = !before.has_lower_priority_than(place)
                    && !place.has_lower_priority_than(&before);
                // The time for which the slot of a joining pod is held gets shorter with each pod
                // of its Job that succeeds.
                let joins = job.style == Style::Gang && job.life.is_placed();
                if has_same_priority
                    && (joins || !is_edited || self.planner.queue.class_of(pending) == Some(class))
                {
                    return Ok(());
                }
                Delay::Edit
            }
        };
        self.planner.promises.goes_ahead(pending, cause);
        Ok(())
    }

    // --- state ---

    /// True if none of the job's pods is left and no object will make more.
    fn has_ended(&self, id: JobId) -> Sound<bool> {
        let job = self.jobs.all.known(&id)?;
        Ok(self.jobs.live(job).next().is_none() && lifetimes::makes_no_more(self.jobs, job))
    }

    /// Ends a job that has no requests any more.
    fn end_job(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let on_record = job.record.seen.end;
        let failed = match &job.workload.identity {
            // The record has stated the end since before a restart; some of its pods may be gone by
            // now.
            _ if let Some(end) = on_record => end.reason == FinishedReason::Failed,
            Identity::Controller(namespace, uid) => {
                self.jobs.controllers.get(namespace, uid).is_some_and(|made_by| made_by.failed)
            }
            _ => job.pods.failed > 0,
        };
        let failed = failed || lifetimes::was_given_up(self.jobs, job);
        self.slots().free_retained(id);
        let wall = self.clock.wall_now();
        let job = self.jobs.all.known_mut(&id)?;
        let reason = if failed { FinishedReason::Failed } else { FinishedReason::Succeeded };
        // A restart changes neither the end of the job nor the time for which its record is
        // kept.
        let known = job.completed_at().or(job.pods.last_end.filter(|at| *at <= wall));
        job.life = Lifecycle::Finished(End { reason, at: known.or(Some(wall)) });
        job.told.blocker = None;
        if self.intake.taking_over && matches!(job.record.stored, Stored::Absent) {
            // The job ended too fast for a record, or its record was deleted: none is needed
            // any more.
            job.record.stored = Stored::Deleted;
        }
        // Pods of the same group that come later are a new job.
        let identity = job.workload.identity.clone();
        let is_over = identity.is_group() && !job.was_left();
        if is_over && self.jobs.index.by_identity.get(&identity) == Some(&id) {
            self.jobs.index.by_identity.remove(&identity);
        }
        Ok(())
    }

    /// Returns why none of these pods can be placed, even if each of them could by itself.
    fn refused_for_all(&self, job: &Job, live: &[&Member]) -> Option<(BlockedReason, String)> {
        let of_gang = || {
            if job.style == Style::Gang {
                bounds::unrecordable(live, &self.planner.cluster)
            } else {
                None
            }
        };
        // Pods that join others wait for a place, whatever the known DeviceClasses are.
        let devices = Some(&self.jobs.classes.devices).filter(|_| !job.life.is_placed());
        let waiting = live.iter().filter(|member| member.stage.is_waiting());
        let waiting = waiting.map(|member| &*member.pod);
        let of_devices = || devices?.refusal(&self.planner.cluster, waiting);
        let otherwise = || {
            let text = self.bad_levels(job).or_else(|| self.bad_exclusive(job, live));
            let text = text.or_else(of_devices).or_else(of_gang)?;
            Some((BlockedReason::UnsupportedConstraint, text))
        };
        self.refused_for_group(job, live).or_else(otherwise)
    }

    /// Returns why none of these pods can be placed, by a group of Kubernetes' own.
    fn refused_for_group(&self, job: &Job, live: &[&Member]) -> Option<(BlockedReason, String)> {
        scheduling_groups::refusal(self.jobs.makers(job), &self.jobs.controllers, live)
    }
}

/// Returns the reason for the first pod that cannot be placed as it is.
fn refusal(live: &[&Member]) -> Option<(BlockedReason, String)> {
    live.iter().find_map(|member| {
        let pod = &member.pod;
        Some(match pod.refusals().next()? {
            Refusal::GroupSize(error) => {
                (BlockedReason::InvalidRequest, format!("pod {}: {error}", pod.id))
            }
            Refusal::Unsupported(refused) => {
                (BlockedReason::UnsupportedConstraint, format!("pod {}: {refused}", pod.id))
            }
        })
    })
}
