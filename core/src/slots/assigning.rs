//! A slot from the decision until it is given back: given to a waiting pod, moved to the node of a
//! bound pod, booked until the planned end, and retained for the next pod.
//!
//! Stage, allocation and seat of a pod change here, together; `dispatch` moves the pod on between
//! slot and node.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::EventReason;

use crate::binding::mounting;
use crate::binding::suspects::REFUSALS_TOLD;
use crate::jobs::grouping;
use crate::jobs::job::{Lifecycle, Member, PodOrder, RetainedSlot, Seating, Style};
use crate::jobs::lifetimes::ended_by;
use crate::jobs::registry::{is_made_by, succeeded_of};
use crate::jobs::setbacks::Setback;
use crate::jobs::stage::{Cause, Sending, Slot, Stage};
use crate::parts::Slots;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use crate::{EventKind, Subject};
use fluxqueue_machine::fluxion::{End, Tenancy};
use fluxqueue_machine::ledger::{Allocation, valid};
use fluxqueue_planner::promises::Promise;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Lifetime, NodeName, OwnerKind, Phase, Pod, Uid};

/// The planned end of a pod on a node, as far as it is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedEnd {
    pub end: End,
    /// True if the pod was planned to end at a second that has passed.
    pub is_over: bool,
}

impl Slots<'_> {
    // --- given and taken back ---

    /// Gives a pod a slot, and a seat too if its job is written ahead.
    pub(crate) fn assign(&mut self, uid: &Uid, allocation: Allocation, seating: Seating) -> Sound {
        let member = match self.jobs.members.known_mut(uid) {
            Ok(member) => member,
            Err(found) => {
                self.free_allocation(Some(allocation));
                return Err(found);
            }
        };
        let (id, pod) = (member.job, Arc::clone(&member.pod));
        let node = allocation.node.clone();
        self.occupancy.by_node.send(&node, uid);
        self.planner.ledger.house(&mut self.planner.cluster, &allocation, &member.pod);
        member.stage = Stage::Placed(Slot { allocation, sending: Sending::Due });
        member.attempts = 0;
        let index = member.pod.completion_index;
        let job = self.jobs.all.known(&id)?;
        mounting::choose_volumes(&mut self.planner.cluster, job, &pod, &node);
        self.note_volumes(uid);
        // A pod on a seat that is not acknowledged is skipped when its turn comes, and comes again
        // with the acknowledgement.
        self.agenda.outbox.push_back(uid.clone());
        let job = self.jobs.all.known_mut(&id)?;
        if !job.writes_ahead() {
            return Ok(());
        }
        let (at, pod_set) = match seating {
            Seating::At(at) => (at, 0),
            Seating::Free { pod_set } => {
                (job.seats.next_free(pod_set, index, &job.retained_seats()), pod_set)
            }
        };
        let before = job.seats.version();
        job.seats.take(at, pod_set, &node, uid);
        if job.seats.version() != before {
            job.seats.placed_by(Some(self.records.epoch));
        }
        self.jobs.members.known_mut(uid)?.seat = Some(at);
        Ok(())
    }

    /// Takes a slot back from a pod that is not bound: it waits again.
    pub(crate) fn unassign(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.known_mut(uid)?;
        let (seat, id) = (member.seat.take(), member.job);
        let allocation = self.take_allocation(uid);
        self.free_allocation(allocation);
        self.jobs.members.known_mut(uid)?.stage = Stage::Waiting;
        self.note_volumes(uid);
        if let (Some(seat), Some(job)) = (seat, self.jobs.all.get_mut(&id)) {
            job.seats.leave(seat);
        }
        self.withdraw_nomination(uid)?;
        self.agenda.touched.insert(id);
        Ok(())
    }

    // --- the places of pods ---

    /// Makes a pod's allocation agree with its present place.
    pub(crate) fn settle(&mut self, uid: &Uid) -> Sound {
        if let Some(foreign) = self.occupancy.foreign.get_mut(uid) {
            let (pod, allocation) = (Arc::clone(&foreign.pod), foreign.allocation.take());
            let planned = self.sight().pod_end(&pod);
            let tenancy = self.sight().tenancy_of_others(&pod);
            let allocation = self.allocation_in_place(&pod, allocation, planned, tenancy);
            self.agenda.watch_end_of(uid, allocation.as_ref());
            if let Some(foreign) = self.occupancy.foreign.get_mut(uid) {
                foreign.allocation = allocation;
            }
            return Ok(());
        }
        let member = self.jobs.members.known_mut(uid)?;
        if member.stage.has_ended() || member.pod.node.is_none() {
            return Ok(());
        }
        let (pod, id) = (Arc::clone(&member.pod), member.job);
        let (was_bound, was_waiting) = (member.stage.is_bound(), member.stage.is_waiting());
        member.stage.bind();
        self.jobs.note_wave(&pod, id);
        let planned = self.member_end(&pod, id);
        let allocation = self.take_allocation(uid);
        let had_nothing = allocation.is_none();
        let tenancy = self.sight().tenancy(&pod, id);
        let allocation = self.allocation_in_place(&pod, allocation, planned, tenancy);
        let node = pod.node.clone();
        let started = pod.started.unwrap_or(self.clock.wall_now());
        self.note_start(id, started)?;
        let booked = allocation.as_ref().map_or(planned.end, |allocation| allocation.end);
        let member = self.jobs.members.known_mut(uid)?;
        member.stage = Stage::Bound(allocation);
        let seat = member.seat;
        self.agenda.watch_end(uid, booked);
        if let (Some(seat), Some(node), Some(job)) = (seat, node, self.jobs.all.get_mut(&id)) {
            // The record follows the pod's actual node.
            job.seats.follow(seat, &node);
        }
        self.note_volumes(uid);
        if was_waiting || (was_bound && had_nothing) {
            // Another scheduler has bound the pod, which waits no more. Or its node has appeared
            // after it, so that the pod counts in its queue.
            self.agenda.touched.insert(id);
        } else if !was_bound {
            self.agenda.touch_soon(id, self.clock.now);
        }
        Ok(())
    }

    /// Notes that the pod is on another node than was planned; the watch will show it there.
    pub(crate) fn move_to(&mut self, uid: &Uid, node: &NodeName) -> Sound {
        let member = self.jobs.members.known_mut(uid)?;
        let (pod, id, seat) = (Arc::clone(&member.pod), member.job, member.seat);
        member.stage.bind();
        let allocation = self.take_allocation(uid);
        self.free_allocation(allocation);
        let end = match self.walltime(&pod, id) {
            Lifetime::Endless => End::Never,
            _ => End::Eventually,
        };
        let tenancy = self.sight().tenancy(&pod, id);
        let allocation =
            self.planner.ledger.charge(&mut self.planner.cluster, node, &pod.shape, (end, tenancy));
        if let Some(allocation) = &allocation {
            self.planner.ledger.house(&mut self.planner.cluster, allocation, &pod);
        }
        if let Some(member) = self.jobs.members.get_mut(uid) {
            if allocation.is_some() {
                self.occupancy.by_node.send(node, uid);
            }
            member.stage = Stage::Bound(allocation);
        }
        if let (Some(seat), Some(job)) = (seat, self.jobs.all.get_mut(&id)) {
            job.seats.follow(seat, node);
        }
        Ok(())
    }

    /// Returns the allocation of a pod that is on a node, or was nominated to one by others.
    ///
    /// A nominated pod counts with any priority. kube-scheduler gives room that is kept for a pod
    /// of lower priority away, and can, since it decides about that pod again. Here the other
    /// scheduler does not know the decision: it would bind its pod all the same, and the kubelet
    /// would refuse one of the two.
    pub(crate) fn allocation_in_place(
        &mut self,
        pod: &Arc<Pod>,
        allocation: Option<Allocation>,
        planned: PlannedEnd,
        tenancy: Tenancy,
    ) -> Option<Allocation> {
        let place = if pod.phase.is_terminal() {
            None
        } else {
            pod.node.as_ref().or(pod.nominated.as_ref())
        };
        let Some(place) = place else {
            self.free_allocation(allocation);
            return None;
        };
        let allocation = match allocation {
            Some(allocation)
                if allocation.node == *place
                    && *allocation.shape == *pod.shape
                    && valid(&self.planner.cluster, &allocation) =>
            {
                Some(allocation)
            }
            other => {
                self.free_allocation(other);
                let terms = (planned.end, tenancy);
                let mut charged =
                    self.planner.ledger.charge(&mut self.planner.cluster, place, &pod.shape, terms);
                self.note_unplanned(charged.as_ref(), pod);
                if let Some(allocation) = &mut charged {
                    allocation.is_overdue = planned.is_over;
                }
                charged
            }
        };
        match &allocation {
            Some(allocation) if pod.node.is_none() => {
                self.planner.ledger.house_nominated(&mut self.planner.cluster, allocation, pod);
            }
            Some(allocation) => {
                self.planner.ledger.house(&mut self.planner.cluster, allocation, pod);
            }
            None => {}
        }
        allocation
    }

    /// Notes that a pod took room that was not planned for it: the promises there have to be
    /// checked, and those to jobs that the pod keeps away around it.
    fn note_unplanned(&mut self, charged: Option<&Allocation>, pod: &Pod) {
        let Some(allocation) = charged else { return };
        self.agenda.lost.is_any = true;
        // A pod that was there before this process has taken no room that this process promised.
        if self.intake.synced && !self.intake.taking_over {
            self.agenda.lost.took_room(pod, allocation);
        }
        let (rank, constraints, cluster) =
            (allocation.rank, &pod.shape.constraints, &mut self.planner.cluster);
        let mut is_kept_off = |promise: &Promise| {
            cluster
                .out_of_reach(constraints, promise.request.all_pods(), &promise.place.nodes)
                .contains(rank)
        };
        self.agenda.queue_changed = self.agenda.queue_changed
            || self.planner.promises.is_any_on(rank)
            || (!constraints.repels.is_empty()
                && self.planner.promises.reservations().any(|(_, promise)| is_kept_off(promise)));
    }

    /// Takes the allocation from a pod that Fluxqueue schedules.
    pub(crate) fn take_allocation(&mut self, uid: &Uid) -> Option<Allocation> {
        let allocation = self.jobs.members.get_mut(uid)?.stage.take_allocation()?;
        self.occupancy.by_node.unsend(&allocation.node, uid);
        self.agenda.timers.forget(&Timer::Overdue(uid.clone()));
        Some(allocation)
    }

    pub(crate) fn free_allocation(&mut self, allocation: Option<Allocation>) {
        if let Some(allocation) = allocation {
            self.planner.ledger.free(&mut self.planner.cluster, allocation);
            self.agenda.queue_changed = true;
        }
    }

    /// Notes that the kubelet of a node has refused a pod: no other pod goes there for a while.
    fn suspect(&mut self, node: &NodeName) {
        let (until, refusals) = self.occupancy.suspects.add(node, self.clock.now);
        self.agenda.timers.wake(Timer::Suspect(node.clone()), until);
        let uid = self
            .planner
            .cluster
            .rank(node)
            .and_then(|rank| self.planner.cluster.node(rank))
            .map(|node| node.uid.clone());
        if let Some(uid) = uid.filter(|_| refusals == REFUSALS_TOLD) {
            let text = format!(
                "its kubelet has refused {refusals} pods in a row: Fluxqueue leaves the node alone for longer after each refusal, until a \
                 pod runs there"
            );
            let reporter = self
                .settings
                .scheduler_names
                .first()
                .cloned()
                .unwrap_or_else(|| Arc::from("fluxqueue"));
            let subject = Subject::Node { name: node.clone(), uid };
            let reason = EventReason::NodeRefusesPods.as_str();
            self.agenda.note(subject, EventKind::Warning, reason, "Scheduling", text, &reporter);
        }
    }

    // --- planned ends ---

    /// Returns the planned end of a bound member, as far as it is known: its walltime counts from
    /// its own start once it runs.
    fn member_end(&self, pod: &Pod, job: JobId) -> PlannedEnd {
        // If the clock was set back, the start may be in the future. It counts all the same, as it
        // does for a controller that ends pods by their deadlines: the present would give another
        // end in each process.
        let started = pod.started.map_or(self.clock.now, |at| self.clock.core(at));
        let mut planned = End::of(self.occupies(pod, job), started.seconds());
        if let (End::At(own), Some(last)) = (planned, self.jobs.last_wave(pod, job)) {
            planned = End::At(own.max(last));
        }
        self.sight().unless_past(match (self.jobs.deadline(pod, self.clock), planned) {
            (Some(deadline), End::At(at)) => End::At(at.min(deadline.seconds())),
            (Some(deadline), End::Eventually | End::Never) => End::At(deadline.seconds()),
            (None, planned) => planned,
        })
    }

    /// Books a running pod with its present planned end, if that differs from the booked one.
    pub(crate) fn plan_end_anew(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.known(uid)?;
        if !member.stage.is_bound() {
            return Ok(());
        }
        let (pod, id) = (Arc::clone(&member.pod), member.job);
        self.jobs.note_wave(&pod, id);
        let PlannedEnd { end, is_over } = self.member_end(&pod, id);
        let slack = i64::try_from(self.settings.start_slack_secs).unwrap_or(i64::MAX);
        let member = self.jobs.members.known_mut(uid)?;
        // The pod starts a little later than it was bound, which the plan already includes.
        let is_later_by_slack = |booked: End| match (booked, end) {
            (End::At(booked), End::At(end)) => end > booked && end <= booked.saturating_add(slack),
            _ => false,
        };
        let is_planned_for =
            |booked: End| member.pod.phase == Phase::Pending && is_later_by_slack(booked);
        if let Some(allocation) =
            member.allocation().filter(|allocation| is_planned_for(allocation.end))
        {
            let booked = allocation.end;
            self.agenda.watch_end(uid, booked);
            return Ok(());
        }
        if let Some(allocation) =
            member.stage.allocation_mut().filter(|allocation| allocation.end != end)
        {
            self.planner.ledger.set_end(&mut self.planner.cluster, allocation, end);
            allocation.is_overdue = is_over;
            let id = member.job;
            self.queueing().note_other_end(id);
        }
        self.agenda.watch_end(uid, end);
        Ok(())
    }

    /// Does the same for a pod of another scheduler.
    pub(crate) fn plan_foreign_end_anew(&mut self, uid: &Uid) {
        let Some(pod) = self.occupancy.foreign.get(uid).map(|foreign| Arc::clone(&foreign.pod))
        else {
            return;
        };
        let PlannedEnd { end, is_over } = self.sight().pod_end(&pod);
        let allocation =
            self.occupancy.foreign.get_mut(uid).and_then(|foreign| foreign.allocation.as_mut());
        let Some(allocation) = allocation.filter(|allocation| allocation.end != end) else {
            return;
        };
        self.planner.ledger.set_end(&mut self.planner.cluster, allocation, end);
        allocation.is_overdue = is_over;
        self.agenda.watch_end(uid, end);
    }

    // --- the end of a pod ---

    /// Ends a pod that uses nothing any more, or will never be placed: its slot is retained for a
    /// successor, or given back.
    pub(crate) fn end(&mut self, uid: &Uid, cause: Cause) -> Sound {
        let member = self.jobs.members.known_mut(uid)?;
        if member.stage.has_ended() {
            return Ok(());
        }
        if let Some(job) = self.jobs.all.get_mut(&member.job) {
            job.live.remove(&PodOrder::of(&member.pod));
        }
        let was_bound = member.stage.is_bound();
        let had_slot = member.stage.is_unsent();
        let (seat, id, pod) = (member.seat.take(), member.job, Arc::clone(&member.pod));
        let allocation = self.take_allocation(uid);
        self.jobs.members.known_mut(uid)?.stage = Stage::Ended;
        self.jobs.note_wave(&pod, id);
        self.note_volumes(uid);
        self.agenda.touched.insert(id);
        if cause == Cause::Refused {
            self.agenda.gauges.kubelet_refusals += 1;
            if let Some(node) = &pod.node {
                self.agenda.lost.is_any = true;
                if let Some(rank) = self.planner.cluster.rank(node) {
                    self.agenda.lost.node_has_refused(rank, node);
                }
                self.suspect(node);
            }
        }
        let Some(job) = self.jobs.all.get_mut(&id) else {
            self.free_allocation(allocation);
            return Ok(());
        };
        match cause {
            Cause::Succeeded => job.succeeded += 1,
            Cause::Failed | Cause::Refused | Cause::Disrupted => job.failed += 1,
            Cause::Deleted => {}
        }
        job.last_end = job.last_end.max(pod.ended);
        if cause != Cause::Deleted
            && pod.node.is_some()
            && matches!(job.life, Lifecycle::Starting { .. })
        {
            job.ended_early += 1;
        }
        if pod.deleting && was_bound {
            job.left_at = self.clock.now;
        }
        if let Some(seat) = seat {
            job.seats.leave(seat);
        }
        let (is_gang, failed_before, life, writes_ahead) =
            (job.style == Style::Gang, job.failed.saturating_sub(1), job.life, job.writes_ahead());
        // Pods that are stopped together are followed by a new start.
        let others_run = || {
            self.jobs
                .all
                .get(&id)
                .is_some_and(|job| self.jobs.remaining(job).into_iter().any(Member::is_bound))
        };
        let goes_on = !pod.deleting || others_run();
        let made_by = pod.owner.as_ref().filter(|_| is_gang && goes_on);
        let is_of_unknown_kind =
            made_by.is_some_and(|owner| matches!(owner.kind, OwnerKind::Other(_)));
        let has_successor = match cause {
            Cause::Succeeded => !is_of_unknown_kind,
            Cause::Failed => true,
            // An operator may make a pod again that it deleted while the pod ran.
            Cause::Deleted if is_of_unknown_kind => was_bound && others_run(),
            // A gang that was never whole keeps its slots for the member's return.
            Cause::Deleted => was_bound && life != Lifecycle::Whole && writes_ahead,
            Cause::Refused | Cause::Disrupted => false,
        };
        match (allocation, made_by.map(|owner| owner.uid.clone())) {
            (Some(allocation), Some(controller))
                if has_successor && valid(&self.planner.cluster, &allocation) =>
            {
                let keep_secs = match cause {
                    Cause::Failed if !is_of_unknown_kind => {
                        self.settings.slot_keep_secs_after(failed_before)
                    }
                    _ => self.settings.slot_keep_secs,
                };
                let until = self.clock.now.plus_secs(keep_secs);
                self.retain_slot(
                    id,
                    RetainedSlot { allocation, seat, controller, is_of_unknown_kind, until },
                );
            }
            (allocation, _) => self.free_allocation(allocation),
        }
        if had_slot {
            self.withdraw(id, &format!("pod {} is gone", pod.id), Setback::LostRace)?;
        }
        Ok(())
    }

    // --- retained ---

    /// Gives back slots that no pod will take: they were retained for too long, or there are more
    /// than the controller still wants.
    pub(crate) fn trim_retained(&mut self, id: JobId) -> Sound {
        let now = self.clock.now;
        let job = self.jobs.all.known_mut(&id)?;
        if job.retained.is_empty() {
            self.jobs.retaining.remove(&id);
            return Ok(());
        }
        let (expired, retained): (Vec<_>, Vec<_>) =
            std::mem::take(&mut job.retained).into_iter().partition(|slot| slot.until <= now);
        job.retained = retained;
        for slot in expired {
            self.free_allocation(Some(slot.allocation));
        }
        let job = self.jobs.all.known(&id)?;
        let succeeded = job.succeeded;
        let mut room: BTreeMap<Uid, usize> = BTreeMap::new();
        for slot in &job.retained {
            if room.contains_key(&slot.controller) {
                continue;
            }
            let entry = room.entry(slot.controller.clone()).or_default();
            let unknown = if slot.is_of_unknown_kind { usize::MAX } else { 0 };
            let made_by = self.jobs.controllers.get(&job.key.namespace, &slot.controller);
            *entry = made_by.map_or(unknown, |made_by| {
                // A waiting pod is a candidate for a retained slot, so it holds none.
                let holds =
                    |m: &&Member| !m.stage.is_waiting() && is_made_by(&m.pod, &made_by.id.uid);
                let live = self.jobs.remaining(job).iter().filter(|m| holds(m)).count();
                (grouping::wants(
                    made_by,
                    succeeded_of(job, made_by.kind == OwnerKind::Job, succeeded),
                ) as usize)
                    .saturating_sub(live)
            });
        }
        let job = self.jobs.all.known_mut(&id)?;
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
        if let Some(next) =
            self.jobs.all.get(&id).and_then(|job| job.retained.iter().map(|slot| slot.until).min())
        {
            self.agenda.timers.wake(Timer::Job(id), next);
        }
        Ok(())
    }

    /// Keeps a slot for the pod that the controller makes next.
    pub(crate) fn retain_slot(&mut self, id: JobId, slot: RetainedSlot) {
        let until = slot.until;
        self.planner.ledger.turn_out(&mut self.planner.cluster, &slot.allocation);
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.retained.push(slot);
            self.jobs.retaining.insert(id);
        }
        self.agenda.timers.wake(Timer::Job(id), until);
    }

    /// Gives a new pod the slot that was retained for it, without queueing. True if there is one.
    pub(crate) fn take_retained(&mut self, id: JobId, uid: &Uid) -> bool {
        let Some(member) = self.jobs.members.get(uid) else { return false };
        let pod = Arc::clone(&member.pod);
        let Some(job) = self.jobs.all.get(&id) else { return false };
        let found = job.retained.iter().position(|slot| {
            slot.is_for(&pod)
                && self.planner.cluster.judge_neighbours(slot.allocation.rank, &pod).is_none()
        });
        let Some(at) = found else { return false };
        let Some(job) = self.jobs.all.get_mut(&id) else { return false };
        let mut slot = job.retained.remove(at);
        self.agenda.gauges.slots_passed_on += 1;
        // The pod gets its own time, also if it follows one that was to end earlier.
        let own = self.jobs.all.get(&id).map_or(pod.lifetime, |job| {
            ended_by(
                self.jobs.deadline(&pod, self.clock),
                self.jobs.occupies_from_binding(&pod, job),
                self.clock.now,
            )
        });
        let planned = End::of(own, self.clock.now.seconds());
        if planned.is_later_than(slot.allocation.end) {
            self.planner.ledger.set_end(&mut self.planner.cluster, &mut slot.allocation, planned);
            slot.allocation.is_overdue = false;
            self.queueing().note_other_end(id);
        }
        // Only a job without seats has slots without a seat.
        let seating = slot.seat.map_or(Seating::Free { pod_set: 0 }, Seating::At);
        let assigned = self.assign(uid, slot.allocation, seating);
        self.agenda.heed(assigned);
        true
    }
}
