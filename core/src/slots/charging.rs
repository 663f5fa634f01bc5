//! Room that a pod takes where Fluxqueue did not plan it.

use std::sync::Arc;

use crate::jobs::stage::Stage;
use crate::parts::Slots;
use crate::sight::PlannedEnd;
use crate::sound::{Lookup, Sound};
use fluxqueue_machine::fluxion::{End, Tenancy};
use fluxqueue_machine::ledger::{Allocation, valid};
use fluxqueue_planner::promises::Promise;
use fluxqueue_workload::{Lifetime, NodeName, Pod, Uid};

impl Slots<'_> {
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
        let member = self.jobs.members.known_mut(uid)?;
        if allocation.is_some() {
            self.occupancy.by_node.send(node, uid);
        }
        member.stage = Stage::on_node(allocation);
        if let (Some(seat), Some(job)) = (seat, self.jobs.all.get_mut(&id)) {
            job.start.seats.follow(seat, node);
        }
        Ok(())
    }

    /// Charges a pod that is on a node, or was nominated to one by others, and frees the allocation
    /// that it had elsewhere. Returns the allocation in its place.
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
}
