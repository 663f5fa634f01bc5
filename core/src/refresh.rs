//! What of a job waits, what it keeps, whether it has ended: computed anew whenever anything about it has changed.
//!
//! Idempotent: it reads the job and its members, and makes the queue, the retained slots and the state agree with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{BlockedBy, BlockedReason, names};

use super::grouping::{self, StartSize};
use super::job::{End, Identity, Job, Lifecycle, Member, RetainedSlot, Seating, Stage, Style};
use super::ledger::Allocation;
use super::seats::PodIndex;
use super::{Core, Timer, jobs};
use crate::queue::{JobId, PendingRequest, Place};
use fluxqueue_workload::{OwnerKind, Pod, Time, Uid};

impl Core {
    pub(super) fn refresh_touched(&mut self) {
        while let Some(id) = self.touched.pop_first() {
            self.gauges.jobs_looked_at += 1;
            self.refresh(id);
        }
    }

    fn refresh(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        if job.is_finished() {
            self.finalize(id);
            return;
        }
        self.warn_of_bad_walltime(id);
        self.trim_retained(id);
        self.obey_hold(id);
        self.outgrow_start(id);
        self.forget_empty_start(id);
        self.seat_externally_bound(id);
        let wanted = self.wanted_requests(id);
        self.set_requests(id, wanted);
        self.notice_completeness(id);
        self.jobs.note_life(id);
        self.notice_stall(id);
        self.notice_end(id);
        self.report_refused(id);
        self.dirty.insert(id);
    }

    /// An annotation of the object that made the pods cannot be read: it counts as absent, and that is said.
    fn warn_of_bad_walltime(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        let Identity::Controller(uid) = &job.identity else { return };
        let bad = self
            .jobs
            .controllers
            .get(uid)
            .and_then(|made_by| Some((made_by, made_by.walltime.as_ref()?.as_ref().err()?)));
        if let Some((made_by, error)) = bad {
            let text = format!("{} {}: {error}", made_by.kind.as_str(), made_by.id);
            self.warn_once(id, "InvalidWalltime", text);
        }
    }

    /// Pods that cannot be placed as they are are told so: more nodes would not help them.
    fn report_refused(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        let refused: Vec<(Uid, String)> = self
            .jobs
            .live_members(job)
            .into_iter()
            .filter(|member| member.stage == Stage::Waiting)
            .filter_map(|member| Some((member.pod.id.uid.clone(), refusal(&[member])?.1)))
            .collect();
        for (uid, text) in refused {
            self.report_unscheduled(&uid, "SchedulerError", &text);
        }
    }

    // --- what waits ---

    /// The requests that the job should have in the queue, with the pods' order among them.
    fn wanted_requests(&mut self, id: JobId) -> Vec<(PendingRequest, Time, u32)> {
        let Some(job) = self.jobs.all.get(&id) else { return Vec::new() };
        let live = self.jobs.live_members(job);
        let ready: Vec<Uid> =
            live.iter().filter(|member| member.is_ready(names::GATE)).map(|member| member.pod.id.uid.clone()).collect();
        if job.record.edits.hold {
            self.block(id, BlockedReason::Held, "spec.hold of its FluxJob is true".to_owned());
            return Vec::new();
        }
        if let Some((reason, message)) = refusal(&live)
            && (job.style != Style::Elastic || ready.is_empty())
            && !job.life.is_placed()
        {
            self.block(id, reason, message);
            return Vec::new();
        }
        match job.style {
            Style::Gang if !job.life.is_placed() => self.wanted_start(id, ready),
            Style::Gang => self.wanted_joiners(id, ready),
            Style::Lone | Style::Elastic => self.wanted_singles(id, &ready),
        }
    }

    fn wanted_start(&mut self, id: JobId, ready: Vec<Uid>) -> Vec<(PendingRequest, Time, u32)> {
        let Some(job) = self.jobs.all.get(&id) else { return Vec::new() };
        let live = self.jobs.live_members(job);
        let gated = live
            .iter()
            .filter(|m| m.stage == Stage::Waiting && m.pod.gates.iter().any(|g| **g != *names::GATE))
            .count();
        let size = grouping::start_size(job, &live, &self.jobs.controllers, self.settings.group_grace_secs, self.now);
        let contradiction = grouping::contradiction(&live);
        let (size, clamped) = match size {
            StartSize::Pods(size) => (size, None),
            StartSize::Clamped { to, asked } => (to, Some(asked)),
            StartSize::Until(at) => {
                self.timers.wake(Timer::Job(id), at);
                let text = format!("{} pods are there; more than their makers can have are asked for", ready.len());
                self.block(id, BlockedReason::Incomplete, text);
                return Vec::new();
            }
            StartSize::None => {
                if let Some(job) = self.jobs.all.get_mut(&id) {
                    job.may_queue();
                }
                return Vec::new();
            }
        };
        if let Some(asked) = clamped {
            let text = format!("size {asked} is asked for, but only {size} pods can appear: {size} start together");
            self.warn_once(id, "SizeClamped", text);
        }
        if let Some(text) = contradiction {
            self.warn_once(id, "SizeContradiction", text);
        }
        let place = self.new_place(&ready);
        let Some(job) = self.jobs.all.get_mut(&id) else { return Vec::new() };
        // Another size is another question.
        self.queue_changed |= job.start_size != size;
        job.start_size = size;
        if ready.len() < size {
            let (reason, held) = if gated > 0 {
                (BlockedReason::Gated, format!(", {gated} held by gates of others"))
            } else {
                (BlockedReason::Incomplete, String::new())
            };
            let text = format!("{} of {size} pods are there{held}", ready.len());
            self.block(id, reason, text);
            return Vec::new();
        }
        let at = *job.queued_at.get_or_insert(place);
        job.may_queue();
        vec![(PendingRequest::Start(id), at, 0)]
    }

    /// Pods of a gang that runs: they take retained slots at once, or queue at the job's place.
    fn wanted_joiners(&mut self, id: JobId, ready: Vec<Uid>) -> Vec<(PendingRequest, Time, u32)> {
        let (mut pending, now) = (Vec::new(), self.wall_now());
        for (index, uid) in ready.into_iter().enumerate() {
            if self.take_retained(id, &uid) {
                continue;
            }
            let Some(job) = self.jobs.all.get_mut(&id) else { return pending };
            let at = *job.queued_at.get_or_insert(now);
            pending.push((PendingRequest::Member(id, uid), at, u32::try_from(index).unwrap_or(u32::MAX)));
        }
        pending
    }

    fn wanted_singles(&mut self, id: JobId, ready: &[Uid]) -> Vec<(PendingRequest, Time, u32)> {
        let mut pending = Vec::new();
        let Some(job) = self.jobs.all.get(&id) else { return pending };
        let lone = job.style == Style::Lone;
        let first = ready.iter().filter_map(|uid| self.jobs.members.get(uid)).map(|member| member.pod.created).min();
        let queued_at = match (job.queued_at, lone) {
            (Some(at), true) => Some(at),
            // A pod that waited behind a gate first could be placed only now.
            (None, true) if !ready.is_empty() => Some(self.new_place(ready)),
            _ => first,
        };
        for (index, uid) in ready.iter().enumerate() {
            let Some(member) = self.jobs.members.get(uid) else { continue };
            let at = if lone { queued_at.unwrap_or(self.wall_now()) } else { member.pod.created };
            pending.push((PendingRequest::Member(id, uid.clone()), at, u32::try_from(index).unwrap_or(u32::MAX)));
        }
        if let Some(job) = self.jobs.all.get_mut(&id) {
            if queued_at.is_some() {
                job.queued_at = queued_at;
            }
            if lone {
                job.start_size = 1;
            }
            if !ready.is_empty() {
                job.may_queue();
            }
        }
        if ready.is_empty() {
            self.block_if_gated(id);
        }
        pending
    }

    fn block_if_gated(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        let gate = self.jobs.live_members(job).into_iter().find_map(|member| {
            let gate = member.pod.gates.iter().find(|gate| ***gate != *names::GATE)?;
            Some(format!("pod {} carries scheduling gate {gate:?}", member.pod.id))
        });
        if let Some(text) = gate {
            self.block(id, BlockedReason::Gated, text);
        }
    }

    fn set_requests(&mut self, id: JobId, wanted: Vec<(PendingRequest, Time, u32)>) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        let priority = job.priority();
        let before = job.pending.clone();
        let after: BTreeSet<PendingRequest> = wanted.iter().map(|(pending, ..)| pending.clone()).collect();
        for gone in before.difference(&after) {
            self.forget_request(gone);
        }
        for (pending, at, index) in wanted {
            let pods: Vec<Uid> =
                self.asking().pods(&pending).into_iter().map(|member| member.pod.id.uid.clone()).collect();
            for uid in pods {
                if let Some(member) = self.jobs.members.get_mut(&uid) {
                    member.repelled_by = self.cluster.repelling(&member.pod).collect();
                }
            }
            let key = self.asking().key(&pending);
            self.queue.put(Place::new(priority, at, index, pending), key);
        }
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.wait_for(after);
        }
    }

    // --- retained slots ---

    /// Gives back slots that are retained for nobody: too long, or more than the controller still wants.
    fn trim_retained(&mut self, id: JobId) {
        let now = self.now;
        let Some(job) = self.jobs.all.get_mut(&id) else { return };
        if job.retained.is_empty() {
            self.retaining.remove(&id);
            return;
        }
        let (expired, retained): (Vec<_>, Vec<_>) =
            std::mem::take(&mut job.retained).into_iter().partition(|slot| slot.until <= now);
        job.retained = retained;
        for slot in expired {
            self.free_allocation(Some(slot.allocation));
        }
        let Some(job) = self.jobs.all.get(&id) else { return };
        let succeeded = job.succeeded;
        let mut room: BTreeMap<Option<Uid>, usize> = BTreeMap::new();
        for slot in &job.retained {
            if room.contains_key(&slot.controller) {
                continue;
            }
            let entry = room.entry(slot.controller.clone()).or_default();
            *entry = slot.controller.as_ref().and_then(|uid| self.jobs.controllers.get(uid)).map_or(0, |made_by| {
                // A pod that waits is the one that may take a retained slot.
                let holds = |m: &&Member| m.stage != Stage::Waiting && is_made_by(&m.pod, &made_by.id.uid);
                let live = self.jobs.live_members(job).iter().filter(|m| holds(m)).count();
                (grouping::wants(made_by, jobs::succeeded_of(job, made_by.kind == OwnerKind::Job, succeeded)) as usize)
                    .saturating_sub(live)
            });
        }
        let Some(job) = self.jobs.all.get_mut(&id) else { return };
        let mut surplus = Vec::new();
        for slot in std::mem::take(&mut job.retained) {
            match room.get_mut(&slot.controller) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    job.retained.push(slot);
                }
                _ => surplus.push(slot.allocation),
            }
        }
        for allocation in surplus {
            self.free_allocation(Some(allocation));
        }
        if let Some(next) = self.jobs.all.get(&id).and_then(|job| job.retained.iter().map(|slot| slot.until).min()) {
            self.timers.wake(Timer::Job(id), next);
        }
    }

    /// Keeps a slot for the pod that the controller makes next.
    pub(super) fn retain_slot(
        &mut self,
        id: JobId,
        allocation: Allocation,
        seat: Option<PodIndex>,
        controller: Option<Uid>,
    ) {
        let until = self.now.plus_secs(self.settings.slot_keep_secs);
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.retained.push(RetainedSlot { allocation, seat, controller, until });
            self.retaining.insert(id);
        }
        self.timers.wake(Timer::Job(id), until);
    }

    /// Gives a new pod the slot that was retained for it, without queueing.
    fn take_retained(&mut self, id: JobId, uid: &Uid) -> bool {
        let Some(member) = self.jobs.members.get(uid) else { return false };
        let pod = Arc::clone(&member.pod);
        let Some(job) = self.jobs.all.get(&id) else { return false };
        let controller = pod.owner.as_ref().map(|owner| &owner.uid);
        let found = job
            .retained
            .iter()
            .position(|slot| slot.controller.as_ref() == controller && *slot.allocation.shape == *pod.shape);
        let Some(at) = found else { return false };
        let Some(job) = self.jobs.all.get_mut(&id) else { return false };
        let slot = job.retained.remove(at);
        self.gauges.slots_passed_on += 1;
        // A slot without a seat is one of a job that has none.
        let seating = slot.seat.map_or(Seating::Free { role: 0 }, Seating::At);
        self.assign(uid, slot.allocation, seating);
        true
    }

    /// Gives a pod a slot; of a job that is written ahead, a rank too.
    pub(super) fn assign(&mut self, uid: &Uid, allocation: Allocation, seating: Seating) {
        let Some(member) = self.jobs.members.get_mut(uid) else {
            self.free_allocation(Some(allocation));
            return;
        };
        let id = member.job;
        let node = allocation.node.clone();
        self.by_node.send(&node, uid);
        member.allocation = Some(allocation);
        member.stage = Stage::Assigned;
        member.attempts = 0;
        let index = member.pod.completion_index;
        // A seat that is not acknowledged is passed over when its turn comes, and comes again with the acknowledgement.
        self.outbox.push_back(uid.clone());
        let Some(job) = self.jobs.all.get_mut(&id).filter(|job| job.writes_ahead()) else { return };
        let (at, role) = match seating {
            Seating::At(at) => (at, 0),
            Seating::Free { role } => (job.seats.next_free(role, index, &job.retained_seats()), role),
        };
        let before = job.seats.version();
        job.seats.take(at, role, &node, uid);
        if job.seats.version() != before {
            job.seats.placed_by(Some(self.epoch));
        }
        if let Some(member) = self.jobs.members.get_mut(uid) {
            member.seat = Some(at);
        }
    }

    /// Takes a slot back from a pod that is not bound: it waits again.
    pub(super) fn unassign(&mut self, uid: &Uid) {
        let Some(member) = self.jobs.members.get_mut(uid) else { return };
        member.stage = Stage::Waiting;
        let (allocation, seat, id) = (member.allocation.take(), member.seat.take(), member.job);
        if let Some(allocation) = &allocation {
            self.by_node.unsend(&allocation.node, uid);
        }
        self.free_allocation(allocation);
        if let (Some(seat), Some(job)) = (seat, self.jobs.all.get_mut(&id)) {
            job.seats.leave(seat);
        }
        self.touched.insert(id);
    }

    /// A held job gives back slots of which nobody has been sent to his yet. A gang of which one has is finished.
    fn obey_hold(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id).filter(|job| job.record.edits.hold) else { return };
        let sent = |m: &&Member| m.maybe_bound || matches!(m.stage, Stage::Binding(_) | Stage::Bound);
        if job.style == Style::Gang && self.jobs.live(job).any(|member| sent(&member)) {
            return;
        }
        let unsent = self.jobs.live(job).filter(|m| !sent(m) && m.stage.is_unsent());
        let unsent: Vec<Uid> = unsent.map(|member| member.pod.id.uid.clone()).collect();
        for uid in unsent {
            self.unassign(&uid);
        }
    }

    // --- state ---

    /// A job has ended when none of its pods is left and nobody will make more.
    fn notice_end(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        if !self.jobs.live_members(job).is_empty() || !self.nobody_makes_more(job) {
            return;
        }
        let failed = match &job.identity {
            // Its record says so since before a restart; some of its pods may be gone by now.
            _ if job.ended_as.is_some() => job.ended_as == Some(End::Failed),
            Identity::Controller(uid) => self.jobs.controllers.get(uid).is_some_and(|made_by| made_by.failed),
            _ => job.failed > 0,
        };
        let retained = self.jobs.all.get_mut(&id).map(|job| std::mem::take(&mut job.retained)).unwrap_or_default();
        for slot in retained {
            self.free_allocation(Some(slot.allocation));
        }
        self.set_requests(id, Vec::new());
        let wall = self.wall_now();
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.life = Lifecycle::Finished(if failed { End::Failed } else { End::Completed });
            // A restart does not change when it ended, nor how long its record is kept.
            job.completed_at = job.completed_at.or(job.last_end.filter(|at| *at <= wall)).or(Some(wall));
            job.blocker = None;
            // Pods of the same group that come later are a new job.
            let identity = job.identity.clone();
            if matches!(identity, Identity::Group(_)) && self.jobs.by_identity.get(&identity) == Some(&id) {
                self.jobs.by_identity.remove(&identity);
            }
        }
        self.finalize(id);
    }

    fn nobody_makes_more(&self, job: &Job) -> bool {
        let done = |uid: &Uid| self.jobs.controllers.get(uid).is_none_or(|made_by| made_by.finished);
        match &job.identity {
            Identity::Pod(_) => true,
            Identity::Controller(uid) => done(uid),
            Identity::Group(_) => job
                .members
                .iter()
                .filter_map(|uid| self.jobs.members.get(uid)?.pod.owner.as_ref())
                .map(|owner| &owner.uid)
                .chain(job.controllers.iter())
                .all(done),
        }
    }

    /// What a person reads about why the job waits.
    pub(super) fn block(&mut self, id: JobId, reason: BlockedReason, message: String) {
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.blocker = Some(BlockedBy::new(reason, message));
        }
    }
}

fn is_made_by(pod: &Pod, uid: &Uid) -> bool {
    pod.owner.as_ref().is_some_and(|owner| owner.uid == *uid)
}

/// The first pod that cannot be placed as it is, and why.
fn refusal(live: &[&Member]) -> Option<(BlockedReason, String)> {
    live.iter().find_map(|member| {
        let pod = &member.pod;
        if let Some(Err(error)) = pod.group.as_ref().map(|group| group.size.as_ref()) {
            return Some((BlockedReason::InvalidRequest, format!("pod {}: {error}", pod.id)));
        }
        let first = pod.unsupported.first()?;
        Some((BlockedReason::UnsupportedConstraint, format!("pod {}: {}: {}", pod.id, first.field, first.message)))
    })
}
