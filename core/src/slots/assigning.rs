//! A slot that is given to a waiting pod, or taken back.
//!
//! Stage, allocation and seat of a pod change here, together; `dispatch` moves the pod on between
//! slot and node.

use std::sync::Arc;

use crate::jobs::member::FailedWrites;
use crate::jobs::seats::Seating;
use crate::jobs::stage::{Sending, Slot, Stage};
use crate::parts::Slots;
use crate::slots::volumes::choose_volumes;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_workload::Uid;

impl Slots<'_> {
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
        let job = self.jobs.all.known_mut(&id)?;
        if !job.writes_ahead() {
            self.agenda.outbox.add(self.jobs, uid);
            return Ok(());
        }
        let (at, pod_set) = match seating {
            Seating::At(at) => (at, 0),
            Seating::Free { pod_set } => (job.start.seats.next_free(pod_set, index), pod_set),
        };
        let before = job.start.seats.version();
        job.start.seats.take(at, pod_set, &node, uid);
        job.start.seats.note_shape(at, &pod.shape);
        if job.start.seats.version() != before {
            job.start.seats.placed_by(Some(self.records.epoch));
        }
        // Otherwise the acknowledgement of its seat sends it.
        let may_leave = job.start.seats.may_leave(at);
        self.jobs.members.known_mut(uid)?.seat = Some(at);
        if may_leave {
            self.agenda.outbox.add(self.jobs, uid);
        }
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

    /// Takes the allocation from a pod that Fluxqueue schedules: the pod waits then, or is on its
    /// node without an allocation.
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
}
