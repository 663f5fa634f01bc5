//! All jobs and their pods, and the objects that make those.
//!
//! The questions that can be answered from these alone are asked here: who of a job is alive, how
//! many it wants. How long it runs is in `lifetimes`. What of it waits, holds a slot or is on
//! record is others' business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{BlockedReason, FluxJob, JobState, ScheduledReason, WorkloadKind, names};

use crate::jobs::controllers::{Controllers, MadeBy, group_of};
use crate::jobs::grouping;
use crate::jobs::grouping::{Capacity, Start, StartSize};
use crate::jobs::job::{Identity, Job, Lifecycle, Member, PodOrder, RetainedSlot, Style};
use crate::jobs::releases::Releases;
use crate::jobs::waves::Waves;
use crate::jobs::wishes::PriorityClasses;
use crate::labelled::Labelled;
use crate::sound::{Lookup, Sound};
use crate::telling::blockers::Blockers;
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_machine::table::Table;
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::levels::LevelRule;
use fluxqueue_workload::{Controller, ObjectKey, OwnerKind, Phase, Pod, Time, Uid};

/// While pods of an earlier start still stop, a group waits for as long before it is smaller than
/// it asks for: an operator may make the other pods only when the old ones are gone. Few need more
/// than ten minutes to stop, and some never do.
const STOPPING_SECS_MAX: u64 = 600;

/// A time on record is believed if it is no more than a day before its job was made, or ahead of
/// the present: clocks that were wrong by hours when the record was written must not cost a job its
/// place.
const CLOCKS_DIFFER_SECS: u64 = 86_400;

/// The jobs, their pods and their controllers, with the indexes that find them.
pub(crate) struct Jobs {
    /// Boxed: a job is a kilobyte, and the map moves what it holds.
    pub all: BTreeMap<JobId, Box<Job>>,
    /// Pods that are ours, in no order.
    pub members: Table<Uid, Member>,
    pub controllers: Controllers,
    pub index: Index,
    /// Groups by the objects that made pods of them, or own their FluxJobs: what these say concerns
    /// the group.
    groups_of: BTreeMap<Uid, BTreeSet<JobId>>,
    /// Gangs that have begun and are not whole.
    starting: BTreeSet<JobId>,
    /// What came of releases of Jobs that waited without pods.
    pub releases: Releases,
    /// The jobs that keep a slot for a pod to come, and perhaps some that did lately.
    pub retaining: BTreeSet<JobId>,
    /// The jobs that wait, by the labels of their pods.
    pub labelled: Labelled,
    pub priority_classes: PriorityClasses,
    pub waves: Waves,
    pub times: Times,
}

/// The jobs by their names, and the number of the next one.
pub(crate) struct Index {
    pub by_identity: Table<Identity, JobId>,
    /// The jobs by the names of their FluxJobs.
    pub by_key: Table<ObjectKey, JobId>,
    /// The number of the next job.
    pub next: JobId,
}

impl Default for Index {
    fn default() -> Self {
        let (by_identity, by_key) = (Table::default(), Table::default());
        Index { by_identity, by_key, next: JobId::FIRST }
    }
}

/// The settings that say how long pods take their nodes, where their jobs do not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The walltime of a job that says none and would otherwise end some day, in seconds.
    pub default_walltime: Option<u64>,
    /// The time between its Binding and the start of a pod at most, in seconds.
    pub start_slack: u64,
    /// The time between the planned end of a pod and the news of it at most, in seconds.
    pub end_slack: u64,
}

/// The core's time, and how far the API server's clock is from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub now: Time,
    /// What is to be added to the core's time for one by the API server's clock, in microseconds.
    pub offset: i64,
}

impl Clock {
    /// The present by the API server's clock: what is put on record, and compared with its times.
    pub(crate) fn wall_now(self) -> Time {
        self.wall(self.now)
    }

    /// A time of the core by the API server's clock.
    pub(crate) fn wall(self, at: Time) -> Time {
        Time(at.0.saturating_add(self.offset))
    }

    /// A time by the API server's clock in the core's own.
    pub(crate) fn core(self, wall: Time) -> Time {
        Time(wall.0.saturating_sub(self.offset))
    }
}

impl Jobs {
    pub(crate) fn new(times: Times) -> Self {
        Jobs {
            all: BTreeMap::new(),
            members: Table::default(),
            controllers: Controllers::default(),
            index: Index::default(),
            groups_of: BTreeMap::new(),
            starting: BTreeSet::new(),
            releases: Releases::default(),
            retaining: BTreeSet::new(),
            labelled: Labelled::default(),
            priority_classes: PriorityClasses::default(),
            waves: Waves::default(),
            times,
        }
    }

    /// An object has made this pod of the job, or adopted it. A group depends on it from now on,
    /// and on the Deployment above.
    pub(crate) fn note_controller(&mut self, id: JobId, pod: &Pod) -> Sound {
        let made_by = self.controllers.maker(pod);
        let job = self.all.known_mut(&id)?;
        let Some(owner) = made_by.uid() else { return Ok(()) };
        job.controllers.insert(owner.clone());
        if !matches!(job.identity, Identity::Group(_)) || job.is_finished() {
            return Ok(());
        }
        let deployment =
            made_by.known().and_then(|set| grouping::deployment_of(set, &self.controllers));
        for uid in [Some(owner), deployment.map(|above| &above.uid)].into_iter().flatten() {
            self.groups_of.entry(uid.clone()).or_default().insert(id);
        }
        Ok(())
    }

    /// The groups that have not ended and depend on this object: it has made pods of them, or its
    /// pod template names them.
    pub(crate) fn groups_of(&self, made_by: &Controller) -> impl Iterator<Item = JobId> {
        let named = made_by.group.as_ref().map(|_| Identity::Group(group_of(made_by)));
        let named = named.and_then(|identity| self.index.by_identity.get(&identity));
        let groups = self.groups_of.get(&made_by.id.uid).into_iter().flatten().chain(named);
        groups.copied().filter(|id| self.all.get(id).is_some_and(|job| !job.is_finished()))
    }

    /// An object that makes pods is gone. The pods that it has left behind will be deleted too.
    pub(crate) fn remove_controller(&mut self, uid: &Uid) -> Option<Arc<Controller>> {
        let made_by = self.controllers.remove(uid)?;
        for id in self.groups_of(&made_by).collect::<Vec<_>>() {
            if let Some(job) = self.all.get_mut(&id) {
                job.gone_makers.insert(uid.clone());
            }
        }
        Some(made_by)
    }

    /// Whether it is a gang that has begun and is not whole may have changed.
    pub(crate) fn note_life(&mut self, id: JobId) {
        if self.all.get(&id).is_some_and(|job| matches!(job.life, Lifecycle::Starting { .. })) {
            self.starting.insert(id);
        } else {
            self.starting.remove(&id);
        }
    }

    /// Gangs that have begun and are not whole.
    pub(crate) fn starting(&self) -> impl Iterator<Item = &Job> {
        let jobs = self.starting.iter().filter_map(|id| self.all.get(id).map(Box::as_ref));
        jobs.filter(|job| matches!(job.life, Lifecycle::Starting { .. }))
    }

    /// A pod of a job, of which nothing is known elsewhere.
    pub(crate) fn put_in(&mut self, id: JobId, member: Member) {
        if let Some(job) = self.all.get_mut(&id) {
            job.members.insert(member.pod.id.uid.clone());
            job.live.insert(PodOrder::of(&member.pod), member.pod.id.uid.clone());
            self.members.insert(member.pod.id.uid.clone(), member);
        }
    }

    /// The same is no more.
    pub(crate) fn take_out(&mut self, id: JobId, pod: &Pod) {
        self.members.remove(&pod.id.uid);
        if let Some(job) = self.all.get_mut(&id) {
            job.members.remove(&pod.id.uid);
            job.live.remove(&PodOrder::of(pod));
        }
    }

    /// Takes a job out, with all that leads to it.
    pub(crate) fn forget(&mut self, id: JobId) {
        let Some(job) = self.all.remove(&id) else { return };
        self.starting.remove(&id);
        if self.index.by_identity.get(&job.identity) == Some(&id) {
            self.index.by_identity.remove(&job.identity);
        }
        if self.index.by_key.get(&job.key) == Some(&id) {
            self.index.by_key.remove(&job.key);
        }
        for controller in job
            .controllers
            .iter()
            .cloned()
            .chain(job.owners.iter().map(|owner| Uid::from(owner.uid.as_str())))
        {
            if let Some(groups) = self.groups_of.get_mut(&controller) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.groups_of.remove(&controller);
                }
            }
        }
    }

    /// The pods of a job that have not ended, in the order in which they get seats: completion
    /// index, age, name.
    pub(crate) fn live<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Member> + Clone {
        job.live.values().filter_map(|uid| self.members.get(uid))
    }

    /// What a waiting pod is told, if the API server refuses what its job needs.
    pub(crate) fn refusal_of(&self, uid: &Uid) -> Option<String> {
        let member = self.members.get(uid).filter(|member| member.stage.is_waiting())?;
        let blocker = self.all.get(&member.job)?.blocker.as_ref();
        blocker.filter(|blocker| blocker.reason() == BlockedReason::BindFailed).map(Blockers::text)
    }

    /// The same, as a list.
    pub(crate) fn live_members<'a>(&'a self, job: &'a Job) -> Vec<&'a Member> {
        // How many there are is known, though not to who collects them.
        let mut live = Vec::with_capacity(job.live.len());
        live.extend(self.live(job));
        live
    }

    /// The live pods of a job without those of a gang that are on their way out: being deleted, or
    /// made by an object that is deleted. These still take room, and are no members any more.
    pub(crate) fn remaining<'a>(&'a self, job: &'a Job) -> Vec<&'a Member> {
        let mut members = self.live_members(job);
        if job.style == Style::Gang {
            let namespace = &job.key.namespace;
            let is_ending = |uid: &Uid| {
                self.controllers.get(namespace, uid).is_some_and(|made_by| made_by.deleting)
            };
            let makers_end = !job.gone_makers.is_empty() || job.controllers.iter().any(is_ending);
            let leaves_with = |uid: &Uid| job.gone_makers.contains(uid) || is_ending(uid);
            let leaves = |pod: &Pod| {
                pod.deleting || makers_end && pod.owner.iter().any(|owner| leaves_with(&owner.uid))
            };
            members.retain(|member| !leaves(&member.pod));
        }
        members
    }

    /// The pods by which a job is described: those that remain. Of a gang that leaves as a whole it
    /// is all.
    pub(crate) fn counted<'a>(&'a self, job: &'a Job) -> Vec<&'a Member> {
        let remaining = self.remaining(job);
        if remaining.is_empty() { self.live_members(job) } else { remaining }
    }

    /// Nothing that remains of a gang is on a node or on its way there: what comes is a new start.
    ///
    ///   1. Four pods run and are deleted; each takes 20 s to stop.
    ///   2. Their Job makes four others. None of them will work with one of the old ones: they
    ///      start together, as the first did.
    pub(crate) fn is_new_start(&self, job: &Job) -> bool {
        // A pod that waits again was not bound by what was sent.
        let in_doubt = |member: &Member| member.maybe_bound && !member.stage.is_waiting();
        let has_begun = |member: &Member| member.is_bound() || in_doubt(member);
        let remaining = self.remaining(job);
        if self.live(job).any(|member| member.stage.is_binding()) {
            // The answer is waited for.
            false
        } else if remaining.is_empty() {
            job.started_at.is_none()
                && job.life != Lifecycle::Placed
                && !self.live(job).any(Member::is_bound)
        } else {
            !remaining.into_iter().any(has_begun)
        }
    }

    /// Each of the pods that are ready has a retained slot of its own.
    pub(crate) fn have_retained_slots(&self, job: &Job) -> bool {
        let mut slots: Vec<&RetainedSlot> = job.retained.iter().collect();
        let mut ready =
            self.remaining(job).into_iter().filter(|member| member.is_ready(names::GATE));
        ready.all(|member| {
            let found = slots.iter().position(|slot| slot.is_for(&member.pod));
            found.map(|at| slots.swap_remove(at)).is_some()
        })
    }

    /// Until all pods of a new start are there, none of them takes a retained slot: how many there
    /// are, and how many are wanted.
    pub(crate) fn is_short_of(
        &self,
        job: &Job,
        grace_secs: u64,
        now: Time,
    ) -> Option<(usize, usize)> {
        let (StartSize::Pods(size) | StartSize::Clamped { to: size, .. }) =
            self.start_size(job, grace_secs, now)
        else {
            return None;
        };
        let is_there = |member: &&&Member| member.is_ready(names::GATE) || member.stage.is_unsent();
        let ready = self.remaining(job).iter().filter(is_there).count();
        (ready < size).then_some((ready, size))
    }

    /// A gang starts anew. Pods of its earlier start that still stop have no seats any more.
    pub(crate) fn forget_start(&mut self, id: JobId) -> Sound {
        let job = self.all.known_mut(&id)?;
        for uid in job.live.values() {
            if let Some(member) = self.members.get_mut(uid) {
                member.seat = None;
            }
        }
        job.forget_start();
        Ok(())
    }

    /// How many of the pods that remain start together.
    pub(crate) fn start_size(&self, job: &Job, grace_secs: u64, now: Time) -> StartSize {
        let remaining = self.remaining(job);
        let mut stop = self.live(job).filter(|member| member.pod.deleting && member.is_bound());
        let is_followed = remaining.len() < job.live.len() && stop.next().is_some();
        let stopping_secs = if is_followed { STOPPING_SECS_MAX } else { 0 };
        let capacity = self.capacity(job, &remaining);
        let controllers = &self.controllers;
        Start { job, controllers, capacity, grace_secs, stopping_secs, now }.size(&remaining)
    }

    /// How many pods the objects of a group can have at once, by their specs; `None` if some of its
    /// pods have no maker that says so.
    fn capacity(&self, job: &Job, members: &[&Member]) -> Option<Capacity> {
        let Identity::Group(key) = &job.identity else { return None };
        let get = |uid: &Uid| self.controllers.get(&job.key.namespace, uid);
        let mut makers: BTreeSet<&Uid> = job.controllers.iter().collect();
        let named = self.controllers.makers_of(key);
        // What has ended by the time that the group begins is of an earlier one of the name.
        makers.extend(named.filter(|uid| get(uid).is_some_and(|made_by| !made_by.finished)));
        let mut capacity = Capacity::default();
        for member in members {
            match self.controllers.maker(&member.pod) {
                MadeBy::Known(_) => {}
                MadeBy::Unseen(_) => capacity.add_stray(),
                MadeBy::Nothing => return None,
            }
        }
        let makers = makers.into_iter().filter_map(get);
        // The pods of a Deployment are made by its ReplicaSets.
        for made_by in
            makers.filter(|made_by| !made_by.deleting && made_by.kind != OwnerKind::Deployment)
        {
            let is_seen = |uid: &&Uid| {
                let pod = self.members.get(*uid).map(|member| &member.pod);
                pod.is_some_and(|pod| {
                    pod.phase == Phase::Succeeded && is_made_by(pod, &made_by.id.uid)
                })
            };
            let seen = if made_by.completions.is_some() {
                job.members.iter().filter(is_seen).count()
            } else {
                0
            };
            capacity.add(made_by, u32::try_from(seen).unwrap_or(u32::MAX));
        }
        Some(capacity)
    }

    /// The pods of a job that are to run: those that have not ended and are not told to stop. While
    /// others stand in for its pods, these alone.
    fn to_run<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Member> + Clone {
        self.live(job).filter(|member| {
            !member.pod.deleting && !member.deletion_observed && job.counts(member)
        })
    }

    /// False if nothing of a job is to run any more: its pods go, or the object that made them has
    /// gone or is going.
    pub(crate) fn goes_on(&self, job: &Job) -> bool {
        let is_there = match &job.identity {
            Identity::Controller(namespace, uid) => {
                self.controllers.get(namespace, uid).is_some_and(|made_by| !made_by.deleting)
            }
            Identity::Group(_) | Identity::Pod(_) => true,
        };
        is_there && self.to_run(job).next().is_some()
    }

    /// Takes the priority of a job from its pods: the lowest, so that no pod lifts the others, and
    /// none for longer than it is there.
    pub(crate) fn note_priority(&mut self, id: JobId) {
        let lowest = self
            .all
            .get(&id)
            .and_then(|job| self.to_run(job).map(|member| member.pod.priority).min());
        if let (Some(job), Some(lowest)) = (self.all.get_mut(&id), lowest) {
            job.pod_priority = Some(lowest);
        }
    }

    /// The priority of a request: that which a person wishes for its job, that of the pod where
    /// pods start one by one, else the job's.
    pub(crate) fn priority_of(&self, job: &Job, pending: &PendingRequest) -> i32 {
        let pod = match (job.style, pending) {
            (Style::Elastic, PendingRequest::Member(_, uid)) => self.members.get(uid),
            _ => None,
        };
        let wished = job.record.wished_priority;
        wished.or(pod.map(|member| member.pod.priority)).unwrap_or_else(|| job.priority())
    }

    /// Priorities of the pods of a gang that are to run, if they differ.
    pub(crate) fn contradicting_priorities(&self, job: &Job) -> Option<String> {
        let mut priorities: Vec<i32> = self.to_run(job).map(|member| member.pod.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let (lowest, highest) = (priorities.first()?, priorities.last()?);
        let text = format!(
            "its pods have priorities from {lowest} to {highest}: the lowest, {lowest}, counts"
        );
        (job.style == Style::Gang && lowest < highest).then_some(text)
    }

    /// What its pods have of nodes, and the slots that are retained for it.
    pub(crate) fn allocations<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Allocation> {
        let of_pods = self.live(job).filter_map(|member| member.allocation());
        of_pods.chain(job.retained.iter().map(|slot| &slot.allocation))
    }

    /// Those of them that have a slot and of which no Binding has left.
    pub(crate) fn unsent(&self, job: &Job) -> Vec<Uid> {
        self.live(job)
            .filter(|member| member.stage.is_unsent())
            .map(|member| member.pod.id.uid.clone())
            .collect()
    }

    /// How many pods the job wants to run now.
    pub(crate) fn wanted(&self, job: &Job) -> usize {
        match &job.identity {
            Identity::Pod(_) => 1,
            _ if job.is_finished() => job.start_size,
            Identity::Controller(namespace, uid) => match self.controllers.get(namespace, uid) {
                Some(made_by) => grouping::wants(
                    made_by,
                    succeeded_of(job, made_by.kind == OwnerKind::Job, job.succeeded),
                ) as usize,
                None => self.counted(job).len(),
            },
            Identity::Group(_) => {
                let live = self.counted(job).len();
                if job.life.is_placed() {
                    live.max(job.retained.len() + live)
                } else {
                    live.max(job.start_size)
                }
            }
        }
    }

    /// How many pods its workload asks for, those that have ended included; `None` if nobody can
    /// say.
    pub(crate) fn asked(&self, job: &Job) -> Option<usize> {
        match &job.identity {
            _ if job.is_finished() => None,
            Identity::Controller(namespace, uid) if job.kind == WorkloadKind::Job => self
                .controllers
                .get(namespace, uid)
                .map(|made_by| made_by.can_start_together as usize),
            _ => Some(self.wanted(job)),
        }
    }

    /// Where the job is in its life, as people see it.
    pub(crate) fn state(&self, job: &Job) -> JobState {
        JobState::of(job.life.end(), self.scheduled(job))
    }

    /// Whether its pods are bound, and why not.
    pub(crate) fn scheduled(&self, job: &Job) -> ScheduledReason {
        if job.is_finished() {
            let ran = job.started_at.is_some();
            return if ran { ScheduledReason::Scheduled } else { ScheduledReason::NeverScheduled };
        }
        let (mut bound, mut on_the_way) = (0, false);
        for member in self.counted(job) {
            bound += usize::from(member.is_bound());
            on_the_way |= member.stage.is_on_the_way();
        }
        match (bound, on_the_way) {
            (0, true) => ScheduledReason::Starting,
            // Its pods have ended, and whoever made them has not said yet whether more will come.
            (0, false) if job.live.is_empty() && job.started_at.is_some() => {
                ScheduledReason::Scheduled
            }
            (0, false) => {
                let blocker = job.blocker.as_ref();
                blocker.map_or(ScheduledReason::Queued, |blocker| {
                    ScheduledReason::Blocked(blocker.reason())
                })
            }
            _ if matches!(job.life, Lifecycle::Placed | Lifecycle::Starting { .. }) => {
                ScheduledReason::Starting
            }
            _ => ScheduledReason::Scheduled,
        }
    }

    /// Nothing of a job has a slot.
    pub(crate) fn has_nothing(&self, job: &Job) -> bool {
        job.retained.is_empty() && self.live(job).all(|member| member.allocation().is_none())
    }

    /// The queue that a job with nodes is charged to. It does not change as long as the job has
    /// any, whatever labels and wishes say meanwhile: a limit would otherwise bind only as long as
    /// the job likes. A new process reads it from the pods, whose Bindings said it, or from the
    /// FluxJob of a gang.
    pub(crate) fn charged_queue(&self, job: &Job) -> Option<Arc<str>> {
        let has_node = |member: &Member| member.allocation().is_some() || member.pod.node.is_some();
        if job.retained.is_empty() && !self.live(job).any(has_node) {
            return None;
        }
        let known = Some(&job.queue.name).filter(|name| !name.is_empty()).cloned();
        let of_pods = || self.live(job).find_map(|member| member.pod.charged_queue.clone());
        let on_record = || job.record.status.as_deref()?.queue_name.as_deref().map(Arc::from);
        known.or_else(of_pods).or_else(|| on_record().filter(|_| job.style == Style::Gang))
    }

    /// When a job came to its place in the queue, as its FluxJob says. A time that cannot be true
    /// counts as none: before anything of the job was made, or still to come.
    pub(crate) fn place_on_record(
        &self,
        id: JobId,
        object: &FluxJob,
        clock: Clock,
    ) -> Option<Time> {
        let job = self.all.get(&id)?;
        let at = Time(object.status.as_ref()?.queued_at.as_ref()?.0.as_microsecond());
        // Without a time by the API server there is nothing to compare with.
        let Some(made) = object.metadata.creation_timestamp.as_ref() else { return Some(at) };
        let pods = job
            .members
            .iter()
            .filter_map(|uid| self.members.get(uid))
            .map(|member| member.pod.created);
        let own = if let Identity::Controller(_, uid) = &job.identity { Some(uid) } else { None };
        let makers = job.controllers.iter().chain(own);
        let makers = makers.filter_map(|uid| self.controllers.get(&job.key.namespace, uid));
        let makers = makers.map(|made_by| made_by.created);
        let made = pods.chain(makers).chain([Time(made.0.as_microsecond())]).min()?;
        let is_true = made <= at.plus_secs(CLOCKS_DIFFER_SECS)
            && at <= clock.wall_now().plus_secs(CLOCKS_DIFFER_SECS);
        if !is_true {
            tracing::warn!(job = %job.key, ?at, ?made, "status.queuedAt cannot be true, and is ignored");
        }
        is_true.then_some(at)
    }

    // --- what makers say ---

    /// What a pod asks of levels: the object that made it says so, else the pod itself.
    pub(crate) fn level_rules<'a>(&'a self, pod: &'a Pod) -> Option<&'a Arc<[LevelRule]>> {
        let of_maker =
            self.controller(pod).and_then(|made_by| made_by.levels.as_ref().ok()?.as_ref());
        of_maker.or(pod.levels.as_ref())
    }

    /// Whether a pod asks for its node alone: the object that made it says so, else the pod itself.
    pub(crate) fn is_exclusive(&self, pod: &Pod) -> bool {
        let of_maker = self
            .controller(pod)
            .and_then(|made_by| made_by.exclusive.as_ref().ok().copied().flatten());
        of_maker.or(pod.exclusive).unwrap_or(false)
    }

    /// The objects that have made pods of a job, as far as they are known.
    pub(crate) fn makers<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Arc<Controller>> {
        job.controllers.iter().filter_map(|uid| self.controllers.get(&job.key.namespace, uid))
    }

    /// The object that made a pod.
    pub(crate) fn controller(&self, pod: &Pod) -> Option<&Controller> {
        self.controllers.that_made(pod).map(|made_by| &**made_by)
    }
}

/// The object has made the pod.
pub(crate) fn is_made_by(pod: &Pod, uid: &Uid) -> bool {
    pod.owner.as_ref().is_some_and(|owner| owner.uid == *uid)
}

/// How many of a Job's pods were seen to succeed; other controllers do not count that.
pub(crate) fn succeeded_of(job: &Job, is_job: bool, succeeded: u32) -> u32 {
    if is_job && job.kind == WorkloadKind::Job { succeeded } else { 0 }
}
