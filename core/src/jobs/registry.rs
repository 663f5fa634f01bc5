//! All jobs and their pods, and the objects that make those.
//!
//! This module answers the questions that can be answered from these alone: which pods of a job are
//! alive, and how many it wants. How long a job runs is in `lifetimes`. Other modules know which of
//! its requests wait, which slots it holds and which facts are on record.

mod apart;
pub(crate) mod blocking;
mod holding;
pub(crate) mod lifetimes;
mod places;
mod walltimes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{BlockedReason, JobState, ScheduledReason, WorkloadKind, names};

use crate::jobs::controllers::{Controllers, MadeBy, group_of};
use crate::jobs::grouping;
use crate::jobs::grouping::{Capacity, Start, StartSize};
use crate::jobs::job::{Identity, Job, Style};
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::member::Member;
use crate::jobs::order::PodOrder;
use crate::jobs::releases::Releases;
use crate::jobs::searches::Searches;
use crate::jobs::setbacks::Setbacks;
use crate::jobs::waves::{PodsOf, Waves};
use crate::jobs::wishes::Classes;
use crate::labelled::Labelled;
use crate::sound::{Lookup, Sound};
use crate::telling::blockers::Blockers;
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_machine::table::Table;
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::levels::LevelRule;
use fluxqueue_workload::{Controller, ObjectKey, Phase, Pod, Time, Uid};

/// The longest extra wait, in seconds, of a group for pods of an earlier start that still stop,
/// before the group is started with fewer pods than it asks for. An operator may create the other
/// pods only when the old ones are gone. Few pods need more than ten minutes to stop, and some
/// never do.
const STOPPING_SECS_MAX: u64 = 600;

/// The largest difference, in seconds, between clocks that is believed. A time on record counts if
/// it is no more than a day before its job was made, or ahead of the present: a clock that was
/// wrong by hours when the record was written must not cost a job its place.
const CLOCKS_DIFFER_SECS: u64 = 86_400;

/// The jobs, their pods and their controllers, with the indexes that find them.
pub(crate) struct Jobs {
    /// Boxed: a job is a kilobyte, and the map moves its values.
    pub all: BTreeMap<JobId, Box<Job>>,
    /// The pods that Fluxqueue schedules, in no order.
    pub members: Table<Uid, Member>,
    pub controllers: Controllers,
    pub index: Index,
    /// Gangs that have begun and are not whole.
    starting: BTreeSet<JobId>,
    /// The outcomes of releases of Jobs that waited without pods.
    pub releases: Releases,
    /// The jobs that keep a slot for a pod to come, and perhaps some that did lately.
    pub retaining: BTreeSet<JobId>,
    /// The waiting jobs, by the labels of their pods.
    pub labelled: Labelled,
    pub classes: Classes,
    pub waves: Waves,
    pub searches: Searches,
    pub times: Times,
}

/// The jobs by their names and makers, and the number of the next one.
pub(crate) struct Index {
    pub by_identity: Table<Identity, JobId>,
    /// The jobs by the names of their FluxJobs.
    pub by_key: Table<ObjectKey, JobId>,
    /// Groups by the objects that made pods of them, or own their FluxJobs: a change of such an
    /// object concerns the group.
    groups_of: BTreeMap<Uid, BTreeSet<JobId>>,
    /// The number of the next job.
    pub next: JobId,
}

impl Default for Index {
    fn default() -> Self {
        let (by_identity, by_key) = (Table::default(), Table::default());
        Index { by_identity, by_key, groups_of: BTreeMap::new(), next: JobId::FIRST }
    }
}

/// The settings that say how long pods take their nodes, where their jobs do not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The walltime, in seconds, of a job that states none and would otherwise end some day.
    pub default_walltime: Option<u64>,
    /// The longest time between the Binding of a pod and its start, in seconds.
    pub start_slack: u64,
    /// The longest time between the planned end of a pod and the news of it, in seconds.
    pub end_slack: u64,
}

impl Jobs {
    pub(crate) fn new(times: Times) -> Self {
        Jobs {
            all: BTreeMap::new(),
            members: Table::default(),
            controllers: Controllers::default(),
            index: Index::default(),
            starting: BTreeSet::new(),
            releases: Releases::default(),
            retaining: BTreeSet::new(),
            labelled: Labelled::default(),
            classes: Classes::default(),
            waves: Waves::default(),
            searches: Searches::default(),
            times,
        }
    }

    /// Notes that an object has made this pod of the job, or adopted it. A group depends on the
    /// object from now on, and on the one above it that the user submitted.
    pub(crate) fn note_controller(&mut self, id: JobId, pod: &Pod) -> Sound {
        let made_by = self.controllers.maker(pod);
        let job = self.all.known_mut(&id)?;
        // A pod without a maker makes its job depend on no object.
        let Some(owner) = made_by.uid() else { return Ok(()) };
        job.pods.makers.insert(owner.clone());
        if !job.workload.identity.is_group() || job.is_finished() {
            return Ok(());
        }
        let top = made_by.known().and_then(|made_by| self.controllers.top(made_by));
        for uid in [Some(owner), top.map(|top| &top.uid)].into_iter().flatten() {
            self.index.groups_of.entry(uid.clone()).or_default().insert(id);
        }
        Ok(())
    }

    /// Returns the groups that have not ended and depend on this object: it has made pods of them,
    /// or its pod template names them.
    pub(crate) fn groups_of(&self, made_by: &Controller) -> impl Iterator<Item = JobId> {
        let named = made_by.group.as_ref().map(|_| Identity::Group(group_of(made_by)));
        let named = named.and_then(|identity| self.index.by_identity.get(&identity));
        let groups = self.index.groups_of.get(&made_by.id.uid).into_iter().flatten().chain(named);
        groups.copied().filter(|id| self.all.get(id).is_some_and(|job| !job.is_finished()))
    }

    /// Removes an object that makes pods and is gone. The pods that it has left behind will be
    /// deleted too.
    pub(crate) fn remove_controller(&mut self, uid: &Uid) -> Option<Arc<Controller>> {
        let made_by = self.controllers.remove(uid)?;
        for id in self.groups_of(&made_by).collect::<Vec<_>>() {
            if let Some(job) = self.all.get_mut(&id) {
                job.pods.gone_makers.insert(uid.clone());
            }
        }
        Some(made_by)
    }

    /// Updates the set of gangs that have begun and are not whole, after a change of this job.
    pub(crate) fn note_life(&mut self, id: JobId) {
        if self.all.get(&id).is_some_and(|job| matches!(job.life, Lifecycle::Starting { .. })) {
            self.starting.insert(id);
        } else {
            self.starting.remove(&id);
        }
    }

    /// Returns the gangs that have begun and are not whole.
    pub(crate) fn starting(&self) -> impl Iterator<Item = &Job> {
        let jobs = self.starting.iter().filter_map(|id| self.all.get(id).map(Box::as_ref));
        jobs.filter(|job| matches!(job.life, Lifecycle::Starting { .. }))
    }

    /// Adds a pod to a job, without a change elsewhere.
    pub(crate) fn put_in(&mut self, id: JobId, member: Member) {
        if let Some(job) = self.all.get_mut(&id) {
            job.pods.all.insert(member.pod.id.uid.clone());
            job.pods.live.insert(PodOrder::of(&member.pod), member.pod.id.uid.clone());
            self.members.insert(member.pod.id.uid.clone(), member);
        }
    }

    /// Removes a pod from a job, without a change elsewhere.
    pub(crate) fn take_out(&mut self, id: JobId, pod: &Pod) {
        self.members.remove(&pod.id.uid);
        if let Some(job) = self.all.get_mut(&id) {
            job.pods.all.remove(&pod.id.uid);
            job.pods.live.remove(&PodOrder::of(pod));
        }
    }

    /// Removes a job, with all indexes that lead to it.
    pub(crate) fn forget(&mut self, id: JobId) {
        // A job is forgotten once more after a contradiction.
        let Some(job) = self.all.remove(&id) else { return };
        self.starting.remove(&id);
        if self.index.by_identity.get(&job.workload.identity) == Some(&id) {
            self.index.by_identity.remove(&job.workload.identity);
        }
        if self.index.by_key.get(&job.key) == Some(&id) {
            self.index.by_key.remove(&job.key);
        }
        for controller in job
            .pods
            .makers
            .iter()
            .cloned()
            .chain(job.workload.owners.iter().map(|owner| Uid::from(owner.uid.as_str())))
        {
            if let Some(groups) = self.index.groups_of.get_mut(&controller) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.index.groups_of.remove(&controller);
                }
            }
        }
    }

    /// Returns the pods of a job that have not ended, in the order in which they get seats:
    /// completion index, age, name.
    pub(crate) fn live<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Member> + Clone {
        job.pods.live.values().filter_map(|uid| self.members.get(uid))
    }

    /// Returns the message for a waiting pod, if the API server refuses a write that its job needs.
    pub(crate) fn refusal_of(&self, uid: &Uid) -> Option<String> {
        let member = self.members.get(uid).filter(|member| member.stage.is_waiting())?;
        let blocker = self.all.get(&member.job)?.told.blocker.as_ref();
        blocker.filter(|blocker| blocker.reason() == BlockedReason::BindFailed).map(Blockers::text)
    }

    /// Returns the same pods as a list.
    pub(crate) fn live_members<'a>(&'a self, job: &'a Job) -> Vec<&'a Member> {
        // The iterator does not know its length, but the job does.
        let mut live = Vec::with_capacity(job.pods.live.len());
        live.extend(self.live(job));
        live
    }

    /// Returns the live pods of a job without the leaving pods of a gang: those that are being
    /// deleted, or were made by an object that is deleted. These still take room, and are no
    /// members any more.
    pub(crate) fn remaining<'a>(&'a self, job: &'a Job) -> Vec<&'a Member> {
        let mut members = self.live_members(job);
        if job.style == Style::Gang {
            let namespace = &job.key.namespace;
            let is_ending = |uid: &Uid| {
                self.controllers.get(namespace, uid).is_some_and(|made_by| made_by.deleting)
            };
            let makers_end =
                !job.pods.gone_makers.is_empty() || job.pods.makers.iter().any(is_ending);
            let leaves_with = |uid: &Uid| job.pods.gone_makers.contains(uid) || is_ending(uid);
            let leaves = |pod: &Pod| {
                pod.deleting || makers_end && pod.owner.iter().any(|owner| leaves_with(&owner.uid))
            };
            members.retain(|member| !leaves(&member.pod));
        }
        members
    }

    /// Returns the pods that describe a job: those that remain. For a gang that leaves as a whole,
    /// all live pods count.
    pub(crate) fn counted<'a>(&'a self, job: &'a Job) -> Vec<&'a Member> {
        let remaining = self.remaining(job);
        if remaining.is_empty() { self.live_members(job) } else { remaining }
    }

    /// True if no remaining pod of a gang is on a node or on its way to one: the pods that come are
    /// a new start.
    ///
    ///   1. Four pods run and are deleted; each takes 20 s to stop.
    ///   2. Their Job makes four others. None of them will work with one of the old ones: they
    ///      start together, as the first did.
    pub(crate) fn is_new_start(&self, job: &Job) -> bool {
        // A pod that waits again was not bound by the Binding that was sent.
        let in_doubt = |member: &Member| member.maybe_bound && !member.stage.is_waiting();
        let has_begun = |member: &Member| member.is_bound() || in_doubt(member);
        let remaining = self.remaining(job);
        if self.live(job).any(|member| member.stage.is_binding()) {
            // The start is not new before the answer to the Binding arrives.
            false
        } else if remaining.is_empty() {
            job.start.at.is_none()
                && job.life != Lifecycle::Placed
                && !self.live(job).any(Member::is_bound)
        } else {
            !remaining.into_iter().any(has_begun)
        }
    }

    /// Returns those of these pods that are on their nodes, in the order in which they get seats.
    pub(crate) fn bound_pods_of(&self, (id, uid): &PodsOf) -> Vec<Uid> {
        let job = self.all.get(id);
        let live = job.into_iter().flat_map(|job| self.live(job));
        let bound = live.filter(|member| member.is_bound() && is_made_by(&member.pod, uid));
        bound.map(|member| member.pod.id.uid.clone()).collect()
    }

    /// Returns how many pods of a new start exist and how many are wanted, if some are missing;
    /// none of them takes a retained slot until then.
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

    /// Forgets the start of a gang, which starts again. Pods of its earlier start that still stop
    /// have no seats any more, and the pauses of its pods are over: those of the gang count.
    pub(crate) fn forget_start(&mut self, id: JobId) -> Sound {
        let job = self.all.known_mut(&id)?;
        for uid in job.pods.live.values() {
            if let Some(member) = self.members.get_mut(uid) {
                member.seat = None;
                member.setbacks = Setbacks::default();
            }
        }
        job.forget_start();
        Ok(())
    }

    /// Returns how many of the pods that remain start together.
    pub(crate) fn start_size(&self, job: &Job, grace_secs: u64, now: Time) -> StartSize {
        let remaining = self.remaining(job);
        let mut stop = self.live(job).filter(|member| member.pod.deleting && member.is_bound());
        let is_followed = remaining.len() < job.pods.live.len() && stop.next().is_some();
        let stopping_secs = if is_followed { STOPPING_SECS_MAX } else { 0 };
        let capacity = self.capacity(job, &remaining);
        let controllers = &self.controllers;
        let needed = controllers.groups.needed(&job.workload.identity);
        Start { job, controllers, capacity, needed, grace_secs, stopping_secs, now }
            .size(&remaining)
    }

    /// Returns how many pods the objects of a group can have at once, by their specs; `None` if a
    /// pod of the group has no maker that limits it.
    fn capacity(&self, job: &Job, members: &[&Member]) -> Option<Capacity> {
        let Identity::Group(key) = &job.workload.identity else { return None };
        let get = |uid: &Uid| self.controllers.get(&job.key.namespace, uid);
        let mut makers: BTreeSet<&Uid> = job.pods.makers.iter().collect();
        let named = self.controllers.makers_of(key);
        // A maker that has finished by the time that the group begins belongs to an earlier group
        // of the name.
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
        for made_by in makers.filter(|made_by| !made_by.deleting && made_by.kind.makes_pods()) {
            let is_seen = |uid: &&Uid| {
                let pod = self.members.get(*uid).map(|member| &member.pod);
                pod.is_some_and(|pod| {
                    pod.phase == Phase::Succeeded && is_made_by(pod, &made_by.id.uid)
                })
            };
            let seen = if made_by.completions.is_some() {
                job.pods.all.iter().filter(is_seen).count()
            } else {
                0
            };
            capacity.add(made_by, u32::try_from(seen).unwrap_or(u32::MAX));
        }
        Some(capacity)
    }

    /// Returns the pods of a job that are to run: those that have not ended and are not being
    /// deleted. While others stand in for its pods, these are the stand-ins alone.
    fn to_run<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Member> + Clone {
        self.live(job).filter(|member| {
            !member.pod.deleting && !member.deletion_observed && job.counts(member)
        })
    }

    /// False if no pod of a job is to run any more: its pods leave, or the object that made them
    /// has gone or is going.
    pub(crate) fn goes_on(&self, job: &Job) -> bool {
        let is_there = match &job.workload.identity {
            Identity::Controller(namespace, uid) => {
                self.controllers.get(namespace, uid).is_some_and(|made_by| !made_by.deleting)
            }
            Identity::Group(_) | Identity::PodGroup(..) | Identity::Pod(_) => true,
        };
        is_there && self.to_run(job).next().is_some()
    }

    /// Takes the priority of a job from its pods: the lowest, so that no pod raises the others, and
    /// none counts after it is gone.
    pub(crate) fn note_priority(&mut self, id: JobId) {
        let lowest = self
            .all
            .get(&id)
            .and_then(|job| self.to_run(job).map(|member| member.pod.priority).min());
        if let (Some(job), Some(lowest)) = (self.all.get_mut(&id), lowest) {
            job.pods.priority = Some(lowest);
        }
    }

    /// Returns the priority of a request: the wish of a user for its job, else the pod's priority
    /// where pods start one by one, else the job's.
    pub(crate) fn priority_of(&self, job: &Job, pending: &PendingRequest) -> i32 {
        let pod = match (job.style, pending) {
            (Style::Elastic, PendingRequest::Member(_, uid)) => self.members.get(uid),
            _ => None,
        };
        let wished = job.record.wished_priority;
        wished.or(pod.map(|member| member.pod.priority)).unwrap_or_else(|| job.priority())
    }

    /// Returns a warning if the pods of a gang that are to run have different priorities.
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

    /// Returns the allocations of its pods, and the slots that are retained for it.
    pub(crate) fn allocations<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Allocation> {
        let of_pods = self.live(job).filter_map(|member| member.allocation());
        of_pods.chain(job.start.retained.iter().map(|slot| &slot.allocation))
    }

    /// Returns its pods that have a slot and for which no Binding has left.
    pub(crate) fn unsent(&self, job: &Job) -> Vec<Uid> {
        self.live(job)
            .filter(|member| member.stage.is_unsent())
            .map(|member| member.pod.id.uid.clone())
            .collect()
    }

    /// Returns how many pods the job wants to run now.
    pub(crate) fn wanted(&self, job: &Job) -> usize {
        match &job.workload.identity {
            Identity::Pod(_) => 1,
            _ if job.is_finished() => job.start.size,
            Identity::Controller(namespace, uid) => match self.controllers.get(namespace, uid) {
                Some(made_by) => grouping::wants(made_by, job.succeeded_seen()) as usize,
                None => self.counted(job).len(),
            },
            Identity::Group(_) | Identity::PodGroup(..) => {
                let live = self.counted(job).len();
                if job.life.is_placed() {
                    live.max(job.start.retained.len() + live)
                } else {
                    live.max(job.start.size)
                }
            }
        }
    }

    /// Returns how many pods its workload asks for, those that have ended included; `None` if that
    /// is not known.
    pub(crate) fn asked(&self, job: &Job) -> Option<usize> {
        match &job.workload.identity {
            _ if job.is_finished() => None,
            Identity::Controller(namespace, uid) if job.workload.kind == WorkloadKind::Job => self
                .controllers
                .get(namespace, uid)
                .map(|made_by| made_by.can_start_together as usize),
            _ => Some(self.wanted(job)),
        }
    }

    /// Returns the stage of the job's life, as users see it.
    pub(crate) fn state(&self, job: &Job) -> JobState {
        JobState::of(job.life.end().map(|end| end.reason), self.scheduled(job))
    }

    /// Returns whether its pods are bound, and why not.
    pub(crate) fn scheduled(&self, job: &Job) -> ScheduledReason {
        if job.is_finished() {
            let ran = job.start.at.is_some();
            return if ran { ScheduledReason::Scheduled } else { ScheduledReason::NeverScheduled };
        }
        let (mut bound, mut on_the_way) = (0, false);
        for member in self.counted(job) {
            bound += usize::from(member.is_bound());
            on_the_way |= member.stage.is_on_the_way();
        }
        match (bound, on_the_way) {
            (0, true) => ScheduledReason::Starting,
            // Its pods have ended, and their maker has not stated yet whether more will come.
            (0, false) if job.pods.live.is_empty() && job.start.at.is_some() => {
                ScheduledReason::Scheduled
            }
            (0, false) => {
                let blocker = job.told.blocker.as_ref();
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

    /// True if the job has neither a pod with a slot nor a retained slot.
    pub(crate) fn has_nothing(&self, job: &Job) -> bool {
        job.start.retained.is_empty() && self.live(job).all(|member| member.allocation().is_none())
    }

    /// Returns the queue that a job with nodes is charged to. The queue does not change as long as
    /// the job has any node, even if labels and wishes change: otherwise a user could avoid a limit
    /// by changing the label. A new process reads the queue from the pods, since their Bindings
    /// named it, or from the FluxJob of a gang.
    pub(crate) fn charged_queue(&self, job: &Job) -> Option<Arc<str>> {
        let has_node = |member: &Member| member.allocation().is_some() || member.pod.node.is_some();
        if job.start.retained.is_empty() && !self.live(job).any(has_node) {
            return None;
        }
        let known = Some(&job.queue.name).filter(|name| !name.is_empty()).cloned();
        let of_pods = || self.live(job).find_map(|member| member.pod.charged_queue.clone());
        let on_record = || job.status_on_record()?.queue_name.as_deref().map(Arc::from);
        known.or_else(of_pods).or_else(|| on_record().filter(|_| job.style == Style::Gang))
    }

    // --- requirements from the objects that make pods ---

    /// Returns the level rules of a pod: those of the object that made it, else those of the pod
    /// itself.
    pub(crate) fn level_rules<'a>(&'a self, pod: &'a Pod) -> Option<&'a Arc<[LevelRule]>> {
        let said = |made_by: &'a Controller| made_by.levels.as_ref().ok()?.as_ref();
        self.controllers.said_by_maker(pod, said).or(pod.levels.as_ref())
    }

    /// True if a pod asks for its node alone, by the object that made it, else by the pod itself.
    pub(crate) fn is_exclusive(&self, pod: &Pod) -> bool {
        let said = |made_by: &Controller| made_by.exclusive.as_ref().ok().copied().flatten();
        self.controllers.said_by_maker(pod, said).or(pod.exclusive).unwrap_or(false)
    }

    /// Returns the objects that have made pods of a job, as far as they are known.
    pub(crate) fn makers<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Arc<Controller>> {
        job.pods.makers.iter().filter_map(|uid| self.controllers.get(&job.key.namespace, uid))
    }

    /// Returns the object that made a pod.
    pub(crate) fn controller(&self, pod: &Pod) -> Option<&Controller> {
        self.controllers.that_made(pod).map(|made_by| &**made_by)
    }
}

/// True if the object has made the pod.
pub(crate) fn is_made_by(pod: &Pod, uid: &Uid) -> bool {
    pod.owner.as_ref().is_some_and(|owner| owner.uid == *uid)
}
