//! Pods that are seen on a node, and pods that have ended: their slots settle, or go.

use std::sync::Arc;

use fluxqueue_api::EventReason;

use crate::action::{EventKind, Subject};
use crate::jobs::job::Style;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::member::Member;
use crate::jobs::order::PodOrder;
use crate::jobs::retained::RetainedSlot;
use crate::jobs::setbacks::Setback;
use crate::jobs::stage::{Cause, Stage};
use crate::occupancy::suspects::REFUSALS_TOLD;
use crate::parts::Slots;
use crate::sound::{Lookup, Sound};
use crate::telling::lost::NodeLoss;
use crate::timers::Timer;
use fluxqueue_machine::ledger::valid;
use fluxqueue_workload::{NodeName, Uid};

impl Slots<'_> {
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
        self.note_start(id, pod.started.unwrap_or(self.clock.wall_now()))?;
        self.jobs.note_wave(&pod, id);
        let planned = self.member_end(&pod, id);
        let allocation = self.take_allocation(uid);
        let had_nothing = allocation.is_none();
        let tenancy = self.sight().tenancy(&pod, id);
        let allocation = self.allocation_in_place(&pod, allocation, planned, tenancy);
        let node = pod.node.clone();
        let booked = allocation.as_ref().map_or(planned.end, |allocation| allocation.end);
        let member = self.jobs.members.known_mut(uid)?;
        member.stage = Stage::on_node(allocation);
        let seat = member.seat;
        self.agenda.watch_end(uid, booked);
        if let (Some(seat), Some(node), Some(job)) = (seat, node, self.jobs.all.get_mut(&id)) {
            // The record follows the pod's actual node.
            job.start.seats.follow(seat, &node);
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

    // --- the end of a pod ---

    /// Ends a pod that uses nothing any more, or will never be placed: its slot is retained for a
    /// successor, or given back.
    pub(crate) fn end(&mut self, uid: &Uid, cause: Cause) -> Sound {
        let member = self.jobs.members.known_mut(uid)?;
        if member.stage.has_ended() {
            return Ok(());
        }
        let job = self.jobs.all.known_mut(&member.job)?;
        job.pods.live.remove(&PodOrder::of(&member.pod));
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
                    self.agenda.lost.node(rank, node, NodeLoss::RefusedPod);
                }
                self.suspect(node);
            }
        }
        let job = self.jobs.all.known_mut(&id)?;
        match cause {
            Cause::Succeeded => job.pods.succeeded += 1,
            Cause::Failed | Cause::Refused | Cause::Disrupted => job.pods.failed += 1,
            Cause::Deleted => {}
        }
        job.pods.last_end = job.pods.last_end.max(pod.ended);
        if cause != Cause::Deleted
            && pod.node.is_some()
            && matches!(job.life, Lifecycle::Starting { .. })
        {
            job.start.ended_early += 1;
        }
        if pod.deleting && was_bound {
            job.pods.left_at = self.clock.now;
        }
        if let Some(seat) = seat {
            job.start.seats.leave(seat);
        }
        let (is_gang, failed_before, life, writes_ahead) = (
            job.style == Style::Gang,
            job.pods.failed.saturating_sub(1),
            job.life,
            job.writes_ahead(),
        );
        // Pods that are stopped together are followed by a new start.
        let others_run = || {
            self.jobs
                .all
                .get(&id)
                .is_some_and(|job| self.jobs.remaining(job).into_iter().any(Member::is_bound))
        };
        let goes_on = !pod.deleting || others_run();
        let made_by = pod.owner.as_ref().filter(|_| is_gang && goes_on);
        let is_of_unknown_kind = made_by.is_some_and(|owner| !owner.kind.is_read());
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
                )?;
            }
            (allocation, _) => self.free_allocations(allocation),
        }
        if had_slot {
            self.withdraw(id, &format!("pod {} is gone", pod.id), Setback::LostRace)?;
        }
        Ok(())
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
}
