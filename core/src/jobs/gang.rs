//! A gang from its placement until it is whole: all of it begins or nothing, and what has begun is
//! completed, or says why not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fluxqueue_api::{BlockedReason, DegradedReason, names};

use crate::Timer;
use crate::binding::dispatch::is_gated;
use crate::binding::mounting::Mounting;
use crate::jobs::Jobs;
use crate::jobs::grouping::StartSize;
use crate::jobs::job::{Identity, Job, Lifecycle, Stalled, Style};
use crate::jobs::setbacks::{FirstPause, Setback, Setbacks};
use crate::parts::{Binding, Refresh, Sight, Slots};
use crate::sound::{Lookup, Sound};
use fluxqueue_machine::fluxion::Rank;
use fluxqueue_planner::plan::Delay;
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::{NodeName, Resources, Uid};

/// Gangs among which a ring is looked for: each may be compared with each, on all nodes that it
/// holds. In a larger cluster of gangs that have begun and are not whole, some rings show as
/// `StartTimeout`.
const RING_JOBS_MAX: usize = 64;

/// Jobs of a ring that are named.
const RING_NAMED_MAX: usize = 8;

/// Whether a gang of which no Binding has left may begin.
enum Begin {
    /// All of it fits: these are its pods, in the order of their seats.
    Now(Vec<Uid>),
    /// Its placement is not acknowledged yet, a claim is not bound, or gates of ours are still on.
    Later,
    /// It does not fit any more as it was placed.
    Not(String),
}

impl Binding<'_> {
    /// Before the first Binding of a gang leaves, all its members are checked together against
    /// everything received so far. If all fit, the gang begins; if one does not, none is sent.
    /// False if it has to wait.
    pub(crate) fn begin(&mut self, id: JobId) -> Sound<bool> {
        let checked = match self.may_begin(id)? {
            Begin::Now(pods) => pods,
            Begin::Later => return Ok(false),
            Begin::Not(why) => {
                self.slots().withdraw(id, &why, Setback::LostRace)?;
                return Ok(true);
            }
        };
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.life = Lifecycle::Starting { since: self.clock.now };
            job.blocker = None;
            job.promised_before = None;
        }
        self.planner.promises.forget_patience(id);
        self.slots().let_others_come_after(&PendingRequest::Start(id));
        self.jobs.note_life(id);
        for uid in checked.into_iter().rev() {
            self.agenda.outbox.push_front(uid);
        }
        self.agenda.touched.insert(id);
        Ok(true)
    }

    fn may_begin(&mut self, id: JobId) -> Sound<Begin> {
        let job = self.jobs.all.known(&id)?;
        if job.writes_ahead() && !job.seats.may_all_leave() {
            // The acknowledgement brings its pods back.
            return Ok(Begin::Later);
        }
        if job.suspended.is_being_released() {
            return Ok(Begin::Later);
        }
        let leaves_from = job.setbacks.leaves_from();
        if leaves_from > self.clock.now {
            // It has lost a race: it has a place again, and waits before the next attempt.
            self.agenda.timers.wake(Timer::Backoff(id), leaves_from);
            return Ok(Begin::Later);
        }
        let empty = job.seats.empty().count();
        if empty > 0 {
            return Ok(Begin::Not(format!("{empty} of its pods are gone")));
        }
        let (pods, waits_for_pods) = (self.jobs.unsent(job), job.suspended.has_stand_ins());
        if let Some(why) = self.misfit(id, &pods) {
            return Ok(Begin::Not(why));
        }
        if waits_for_pods {
            self.release_job(id)?;
            return Ok(Begin::Later);
        }
        if !self.planner.cluster.volumes().is_idle() {
            let mut are_mounted = true;
            for uid in &pods {
                match self.mount(uid) {
                    Mounting::Done => {}
                    Mounting::Later => are_mounted = false,
                    Mounting::Failed(why) => return Ok(Begin::Not(why)),
                }
            }
            if !are_mounted {
                // Also those without claims wait for the others.
                for uid in &pods {
                    self.nominate(uid)?;
                }
                return Ok(Begin::Later);
            }
        }
        let mut later = false;
        for uid in &pods {
            let member = self.jobs.members.known(uid)?;
            if member.retry_at > self.clock.now {
                let at = member.retry_at;
                self.agenda.timers.wake(Timer::Pod(uid.clone()), at);
                later = true;
            } else if member.stage.is_ungating() {
                later = true;
            } else if is_gated(member) {
                self.slots().ungate(uid)?;
                later = true;
            }
        }
        Ok(if later { Begin::Later } else { Begin::Now(pods) })
    }

    /// Why these pods, which are all of a gang, cannot be where they have their slots, by
    /// everything received so far.
    pub(crate) fn misfit(&mut self, id: JobId, pods: &[Uid]) -> Option<String> {
        if let Some(why) = self.slots().torn_apart(id, pods) {
            return Some(why);
        }
        pods.iter().find_map(|uid| {
            if let Some(why) = self.mounting_trouble(uid) {
                return Some(why);
            }
            if self.still_fits(uid) {
                return None;
            }
            let member = self.jobs.members.get(uid)?;
            let node = member.allocation().map_or("its node", |allocation| &allocation.node);
            Some(format!("pod {} does not fit on {node} any more", member.pod.id))
        })
    }
}

impl Slots<'_> {
    /// Whoever would have made this one uneven, or would have drawn it away, may come now that it
    /// begins.
    pub(crate) fn let_others_come_after(&mut self, pending: &PendingRequest) {
        self.agenda.queue_changed |= self.planner.held_nodes.is_waited_for(pending);
    }

    /// A gang of which nothing is left starts anew, all or none. So does one of which no Binding
    /// had an effect.
    pub(crate) fn forget_empty_start(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang || !job.life.is_placed() || !self.jobs.is_new_start(job) {
            return Ok(());
        }
        let (unsent, life, has_started) =
            (self.jobs.unsent(job), job.life, job.started_at.is_some());
        if !job.retained.is_empty() {
            // They start in the slots that are retained for them, if all have one and all are
            // there; else where there is room for all. Those that have slots do not begin without a
            // pod that is yet to come in the place of one that has ended.
            let is_short = self
                .jobs
                .is_short_of(job, self.settings.group_grace_secs, self.clock.now)
                .is_some();
            let goes_on = if unsent.is_empty() {
                is_short || self.jobs.have_retained_slots(job)
            } else {
                !is_short || life == Lifecycle::Placed
            };
            if goes_on {
                return Ok(());
            }
            self.free_retained(id);
        }
        if unsent.is_empty() {
            self.jobs.forget_start(id)?;
        } else if matches!(life, Lifecycle::Starting { .. }) && !has_started {
            // The pods that were sent are gone: whether the others may begin without them is asked
            // anew.
            if let Some(job) = self.jobs.all.get_mut(&id) {
                job.life = Lifecycle::Placed;
            }
            self.agenda.outbox.extend(unsent);
        } else if life != Lifecycle::Placed {
            // These were to join pods that have gone since: they start with those that are to come.
            for uid in unsent {
                self.unassign(&uid)?;
            }
            self.jobs.forget_start(id)?;
        }
        Ok(())
    }

    /// Frees the slots that are kept for the successors of pods that have ended.
    pub(crate) fn free_retained(&mut self, id: JobId) {
        let retained = self
            .jobs
            .all
            .get_mut(&id)
            .map(|job| std::mem::take(&mut job.retained))
            .unwrap_or_default();
        for slot in retained {
            self.free_allocation(Some(slot.allocation));
        }
    }

    /// A pod of which no Binding has left loses its slot. Of a gang that has not begun, all lose
    /// theirs.
    pub(crate) fn lose_slot(&mut self, uid: &Uid, why: &str) -> Sound {
        let member = self.jobs.members.known(uid)?;
        let id = member.job;
        if self.jobs.all.get(&id).is_some_and(|job| job.life == Lifecycle::Placed) {
            self.withdraw(id, why, Setback::LostRace)?;
        } else {
            self.unassign_one(uid)?;
        }
        Ok(())
    }

    /// A gang of which no Binding has left gives all its slots back and waits at its place in the
    /// queue again: whole or not at all. The setback decides about the pause that follows.
    pub(crate) fn withdraw(&mut self, id: JobId, why: &str, setback: Setback) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.life != Lifecycle::Placed {
            return Ok(());
        }
        for uid in self.jobs.unsent(job) {
            self.unassign(&uid)?;
        }
        self.free_retained(id);
        let now = self.clock.now;
        self.jobs.forget_start(id)?;
        let job = self.jobs.all.known_mut(&id)?;
        let pause = job.setbacks.count(setback, now, FirstPause::OneSecond);
        tracing::info!(job = %job.key, why, pause_millis = pause, "a placement is withdrawn before its first Binding");
        let (reason, text) = match setback {
            Setback::Refused => (BlockedReason::BindFailed, why.to_owned()),
            Setback::LostRace | Setback::Changed => {
                let text = format!("the placement was withdrawn before the first Binding: {why}");
                (BlockedReason::PlacementWithdrawn, text)
            }
        };
        self.jobs.block(id, reason, text);
        self.agenda.timers.wake(Timer::Backoff(id), now.plus_millis(pause));
        self.agenda.touched.insert(id);
        self.agenda.gauges.placements_withdrawn += 1;
        self.promise_keeping().start_is_off(id, Delay::Capacity)?;
        Ok(())
    }
}

impl Refresh<'_> {
    /// Somebody else bound a pod of a gang: it has begun, and the others join. The record follows.
    pub(crate) fn seat_externally_bound(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang {
            return Ok(());
        }
        let bound = self.jobs.remaining(job).into_iter().filter(|member| member.is_bound());
        let externally_bound = bound.filter(|member| {
            !job.life.is_placed() || (job.writes_ahead() && member.seat.is_none())
        });
        let externally_bound: Vec<_> = externally_bound
            .filter_map(|m| {
                Some((m.pod.id.uid.clone(), m.pod.node.clone()?, m.pod.completion_index))
            })
            .collect();
        if externally_bound.is_empty() {
            return Ok(());
        }
        let now = self.clock.now;
        let wanted = self.jobs.all.get(&id).map_or(0, |job| self.jobs.wanted(job));
        let job = self.jobs.all.known_mut(&id)?;
        if !job.life.is_placed() {
            // Nobody has counted yet how many start together.
            job.start_size = job.start_size.max(wanted);
            job.life = Lifecycle::Starting { since: now };
        }
        let before = job.seats.version();
        if job.writes_ahead() {
            for (uid, node, index) in externally_bound {
                self.jobs.seat_bound(id, &uid, &node, index)?;
            }
        }
        if let Some(job) = self.jobs.all.get_mut(&id).filter(|job| job.seats.version() != before) {
            job.seats.placed_by(Some(self.records.epoch));
        }
        Ok(())
    }

    /// A pod that was to start alone waits for the others that are wanted by now, unless it was
    /// sent.
    pub(crate) fn outgrow_start(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang || job.life != Lifecycle::Placed || job.writes_ahead() {
            return Ok(());
        }
        if let Some(size) = self.sight().start_size_now(job).filter(|size| *size > 1) {
            self.slots().withdraw(
                id,
                &format!("{size} pods start together by now"),
                Setback::LostRace,
            )?;
        }
        Ok(())
    }

    pub(crate) fn notice_completeness(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let bound = self.jobs.remaining(job).iter().filter(|member| member.is_bound()).count();
        // A pod that has ended since was bound too. And a Job may want fewer by now.
        let (wanted, is_group) =
            (self.jobs.wanted(job), matches!(job.identity, Identity::Group(_)));
        let start_size = if is_group { job.start_size } else { job.start_size.min(wanted) };
        let reached = bound + job.ended_early;
        let whole = reached >= start_size && bound > 0;
        let now = self.clock.now;
        let job = self.jobs.all.known_mut(&id)?;
        if job.style != Style::Gang {
            return Ok(());
        }
        job.life = match job.life {
            Lifecycle::Placed | Lifecycle::Starting { .. } if whole => Lifecycle::Whole,
            // Somebody else bound one of them.
            Lifecycle::Placed if bound > 0 => Lifecycle::Starting { since: now },
            life => life,
        };
        let most = job.most_bound.max(reached);
        // A Job says how many it wants; a group only has those that are there.
        job.most_bound = if is_group { most } else { most.min(wanted) };
        if job.life == Lifecycle::Whole {
            job.stalled = None;
            job.setbacks = Setbacks::default();
        }
        Ok(())
    }

    /// A gang that has begun and does not become whole in time says so, with what is in its way.
    pub(crate) fn notice_stall(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let Lifecycle::Starting { since } = job.life else { return Ok(()) };
        let due = since.plus_secs(self.settings.gang_start_timeout_secs);
        if self.clock.now < due {
            self.agenda.timers.wake(Timer::Job(id), due);
            return Ok(());
        }
        let live = self.jobs.live_members(job);
        let bound = live.iter().filter(|member| member.is_bound()).count();
        let (size, namespace) = (job.start_size, Arc::clone(&job.key.namespace));
        let in_the_way =
            job.blocker.as_ref().map(|blocker| format!("; {}", blocker.text())).unwrap_or_default();
        let ring = self.ring_of(id);
        let stalled = if ring.is_empty() {
            Stalled::new(
                DegradedReason::StartTimeout,
                format!("{bound} of {size} pods are bound{in_the_way}"),
            )
        } else {
            let others = ring.iter().filter_map(|other| self.jobs.all.get(other));
            let is_told = |job: &Job| {
                job.stalled.as_ref().is_some_and(|it| it.reason == DegradedReason::MutualWait)
            };
            for other in others.clone().filter(|job| !is_told(job)) {
                self.agenda.timers.wake(Timer::Job(other.id), self.clock.now);
            }
            let reader = self.settings.reader(&namespace);
            let keys: Vec<String> = others.map(|job| reader.job(&job.key)).collect();
            let text = format!("{bound} of {size} pods are bound; {}", words_of_ring(&keys));
            Stalled::new(DegradedReason::MutualWait, text)
        };
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.stalled = Some(stalled.after(job.stalled.take()));
        }
        Ok(())
    }

    /// Other gangs that have begun and are not whole, of which each has something of a node where a
    /// missing pod of the one before it would have room, the first before this one, and this one
    /// before the last. The shortest such ring; empty if there is none.
    fn ring_of(&mut self, id: JobId) -> Vec<JobId> {
        let waits = |job: &&Job| job.id != id && !job.pending.is_empty();
        let mut unseen: Vec<JobId> =
            self.jobs.starting().filter(waits).map(|job| job.id).take(RING_JOBS_MAX).collect();
        let mut to_look_at = VecDeque::from([vec![id]]);
        while let Some(chain) = to_look_at.pop_front() {
            let last = chain.last().copied().unwrap_or(id);
            if last != id && self.is_in_the_way_of(id, last) {
                return chain[1..].to_vec();
            }
            let (ahead, rest): (Vec<JobId>, Vec<JobId>) =
                unseen.into_iter().partition(|other| self.is_in_the_way_of(*other, last));
            unseen = rest;
            to_look_at.extend(ahead.into_iter().map(|other| [chain.as_slice(), &[other]].concat()));
        }
        Vec::new()
    }

    /// A pod of `waiting` that has no slot would fit on a node if `holder` had nothing there, and
    /// does not fit there as it is.
    fn is_in_the_way_of(&mut self, holder: JobId, waiting: JobId) -> bool {
        let (Some(holder), Some(waiting)) =
            (self.jobs.all.get(&holder), self.jobs.all.get(&waiting))
        else {
            return false;
        };
        let mut held: BTreeMap<Rank, (Resources, Vec<u64>)> = BTreeMap::new();
        for allocation in
            self.jobs.live_members(holder).into_iter().filter_map(|member| member.allocation())
        {
            let (freed, numbers) = held.entry(allocation.rank).or_default();
            freed.add(&allocation.shape.requests);
            numbers.push(allocation.number);
        }
        let missing =
            self.jobs.live_members(waiting).into_iter().find(|member| member.is_ready(names::GATE));
        let Some((pod, tenancy)) = missing.map(|member| (Arc::clone(&member.pod), member.tenancy))
        else {
            return false;
        };
        held.into_iter().any(|(rank, (freed, numbers))| {
            let (cluster, ledger) = (&mut self.planner.cluster, &self.planner.ledger);
            let fits = |freed: &Resources, gone: &[u64]| {
                cluster.would_hold(rank, &pod.shape.requests, freed)
                    && ledger.is_open_without(rank, tenancy, gone)
            };
            fits(&freed, &numbers)
                && !fits(&Resources::new(), &[])
                && cluster.class(&pod.shape.constraints).now.contains(rank)
        })
    }
}

impl Jobs {
    /// Gives a pod that another scheduler has bound the seat on its node.
    pub(crate) fn seat_bound(
        &mut self,
        id: JobId,
        uid: &Uid,
        node: &NodeName,
        index: Option<u32>,
    ) -> Sound {
        let job = self.all.known_mut(&id)?;
        let at = job.seats.next_free_on(node, index, &job.retained_seats());
        job.seats.take(at, 0, node, uid);
        if let Some(member) = self.members.get_mut(uid) {
            member.seat = Some(at);
        }
        Ok(())
    }
}

impl Sight<'_> {
    /// How many pods of a job start together; `None` if nobody can say yet.
    pub(crate) fn start_size_now(&self, job: &Job) -> Option<usize> {
        match self.jobs.start_size(job, self.settings.group_grace_secs, self.clock.now) {
            StartSize::Pods(size) | StartSize::Clamped { to: size, .. } => Some(size),
            StartSize::Until(_) | StartSize::None => None,
        }
    }
}

/// Which jobs wait for each other, of which these are the others in order; there is at least one.
fn words_of_ring(others: &[String]) -> String {
    let mut text = "the others need nodes that ".to_owned();
    for other in others.iter().take(RING_NAMED_MAX) {
        text.push_str(other);
        text.push_str(" holds, whose missing pods need nodes that ");
    }
    if others.len() > RING_NAMED_MAX {
        text.push_str("more jobs hold, the last of which needs nodes that ");
    }
    let all = if others.len() == 1 { "the two" } else { "them" };
    text + &format!("this job holds: one of {all} has to be deleted")
}
