//! A slot from the decision until it is given back: given to a waiting pod, moved to the node of a
//! bound pod, booked until the planned end, and retained for the next pod.
//!
//! Stage, allocation and seat of a pod change here, together; `dispatch` moves the pod on between
//! slot and node.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::EventReason;

use crate::action::{EventKind, Subject};
use crate::binding::suspects::REFUSALS_TOLD;
use crate::jobs::grouping;
use crate::jobs::member::{FailedWrites, Member};
use crate::jobs::registry::lifetimes::ended_by;
use crate::jobs::registry::{is_made_by, succeeded_of};
use crate::jobs::retained::RetainedSlot;
use crate::jobs::seats::Seating;
use crate::jobs::stage::{Sending, Slot, Stage};
use crate::parts::Slots;
use crate::sight::PlannedEnd;
use crate::slots::volumes::choose_volumes;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_machine::fluxion::{End, Tenancy};
use fluxqueue_machine::ledger::{Allocation, valid};
use fluxqueue_planner::promises::Promise;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Lifetime, NodeName, OwnerKind, Pod, Uid};

impl Slots<'_> {
    // --- given and taken back ---

    /// Gives a pod a slot, and a seat too if its job is written ahead.
    pub(crate) fn assign(&mut self, uid: &Uid, allocation: Allocation, seating: Seating) -> Sound {
        let member = match self.jobs.members.known_mut(uid) {
            Ok(member) => member,
            Err(found) => {
                self.free_allocations(Some(allocation));
                return Err(found);
            }
        };
        let (id, pod) = (member.job, Arc::clone(&member.pod));
        let node = allocation.node.clone();
        self.occupancy.by_node.send(&node, uid);
        self.planner.ledger.house(&mut self.planner.cluster, &allocation, &member.pod);
        member.stage = Stage::Placed(Slot { allocation, sending: Sending::Due });
        member.failed = FailedWrites::default();
        let index = member.pod.completion_index;
        let job = self.jobs.all.known(&id)?;
        choose_volumes(&mut self.planner.cluster, job, &pod, &node);
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
                (job.start.seats.next_free(pod_set, index, &job.retained_seats()), pod_set)
            }
        };
        let before = job.start.seats.version();
        job.start.seats.take(at, pod_set, &node, uid);
        job.start.seats.note_shape(at, &pod.shape);
        if job.start.seats.version() != before {
            job.start.seats.placed_by(Some(self.records.epoch));
        }
        self.jobs.members.known_mut(uid)?.seat = Some(at);
        Ok(())
    }

    /// Takes a slot back from a pod that is not bound: it waits again.
    pub(crate) fn unassign(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.known_mut(uid)?;
        let (seat, id) = (member.seat.take(), member.job);
        let allocation = self.take_allocation(uid);
        self.free_allocations(allocation);
        self.jobs.members.known_mut(uid)?.stage = Stage::Waiting;
        self.note_volumes(uid);
        if let (Some(seat), Some(job)) = (seat, self.jobs.all.get_mut(&id)) {
            job.start.seats.leave(seat);
        }
        self.withdraw_nomination(uid)?;
        self.agenda.touched.insert(id);
        Ok(())
    }

    /// Notes that the pod is on another node than was planned; the watch will show it there.
    pub(crate) fn move_to(&mut self, uid: &Uid, node: &NodeName) -> Sound {
        let member = self.jobs.members.known_mut(uid)?;
        let (pod, id, seat) = (Arc::clone(&member.pod), member.job, member.seat);
        member.stage.bind();
        let allocation = self.take_allocation(uid);
        self.free_allocations(allocation);
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
            job.start.seats.follow(seat, node);
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
            self.free_allocations(allocation);
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
                self.free_allocations(other);
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
        // A pod on a node that is not known takes no room.
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
                .reach()
                .out_of_reach(&constraints.repels, promise.request.all_pods(), &promise.place.nodes)
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

    /// Gives the room of these allocations back to their nodes.
    pub(crate) fn free_allocations(&mut self, allocations: impl IntoIterator<Item = Allocation>) {
        for allocation in allocations {
            self.planner.ledger.free(&mut self.planner.cluster, allocation);
            self.agenda.queue_changed = true;
        }
    }

    /// Notes that the kubelet of a node has refused a pod: no other pod goes there for a while.
    pub(crate) fn suspect(&mut self, node: &NodeName) {
        let (until, refusals) = self.occupancy.suspects.add(node, self.clock.now);
        self.agenda.timers.wake(Timer::Suspect(node.clone()), until);
        let rank = self.planner.cluster.rank(node);
        if let Some(rank) = rank {
            self.planner.cluster.quarantine_mut().add(rank);
        }
        let uid =
            rank.and_then(|rank| self.planner.cluster.node(rank)).map(|node| node.uid.clone());
        if let Some(uid) = uid.filter(|_| refusals == REFUSALS_TOLD) {
            let text = format!(
                "its kubelet has refused {refusals} pods in a row: Fluxqueue leaves the node \
                 alone for longer after each refusal, until a pod runs there"
            );
            let reporter = self.settings.reporter();
            let subject = Subject::Node { name: node.clone(), uid };
            let reason = EventReason::NodeRefusesPods.as_str();
            self.agenda.note(subject, EventKind::Warning, reason, "Scheduling", text, &reporter);
        }
    }

    // --- retained ---

    /// Gives back slots that no pod will take: they were retained for too long, or there are more
    /// than the controller still wants.
    pub(crate) fn trim_retained(&mut self, id: JobId) -> Sound {
        let now = self.clock.now;
        let job = self.jobs.all.known_mut(&id)?;
        if job.start.retained.is_empty() {
            self.jobs.retaining.remove(&id);
            return Ok(());
        }
        let (expired, retained): (Vec<_>, Vec<_>) =
            std::mem::take(&mut job.start.retained).into_iter().partition(|slot| slot.until <= now);
        job.start.retained = retained;
        self.free_allocations(expired.into_iter().map(|slot| slot.allocation));
        let job = self.jobs.all.known(&id)?;
        let succeeded = job.pods.succeeded;
        let mut room: BTreeMap<Uid, usize> = BTreeMap::new();
        for slot in &job.start.retained {
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
        for slot in std::mem::take(&mut job.start.retained) {
            match room.get_mut(&slot.controller) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    job.start.retained.push(slot);
                }
                _ => surplus.push(slot.allocation),
            }
        }
        self.free_allocations(surplus);
        if let Some(next) = self
            .jobs
            .all
            .get(&id)
            .and_then(|job| job.start.retained.iter().map(|slot| slot.until).min())
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
            job.start.retained.push(slot);
            self.jobs.retaining.insert(id);
        }
        self.agenda.timers.wake(Timer::Job(id), until);
    }

    /// Gives a new pod the slot that was retained for it, without queueing. True if there is one.
    pub(crate) fn take_retained(&mut self, id: JobId, uid: &Uid) -> bool {
        let Some(member) = self.jobs.members.get(uid) else { return false };
        let pod = Arc::clone(&member.pod);
        let Some(job) = self.jobs.all.get(&id) else { return false };
        let found = job.start.retained.iter().position(|slot| {
            slot.is_for(&pod)
                && self.planner.cluster.judge_neighbours(slot.allocation.rank, &pod).is_none()
        });
        let Some(at) = found else { return false };
        let Some(job) = self.jobs.all.get_mut(&id) else { return false };
        let mut slot = job.start.retained.remove(at);
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
