//! Pods in their slots: the pods on nodes learn of them, and judge them.

use super::Ledger;
use super::allocation::{Allocation, valid};
use crate::cluster::filters::Rejection;
use crate::cluster::{Cluster, Presence};
use crate::fluxion::End;
use fluxqueue_workload::Pod;

impl Ledger {
    /// Puts this pod, as it is now, on the node of its allocation.
    pub fn house(&mut self, cluster: &mut Cluster, allocation: &Allocation, pod: &Pod) {
        self.house_as(Presence::There, cluster, allocation, pod);
    }

    /// The same, for a pod that another scheduler means to put there.
    pub fn house_nominated(&mut self, cluster: &mut Cluster, allocation: &Allocation, pod: &Pod) {
        self.house_as(Presence::Nominated, cluster, allocation, pod);
    }

    fn house_as(
        &mut self,
        presence: Presence,
        cluster: &mut Cluster,
        allocation: &Allocation,
        pod: &Pod,
    ) {
        let Allocation { rank, number, .. } = *allocation;
        // The slot may be void: its node was removed.
        let Some(booked) = self.booked.get(rank, number).filter(|_| valid(cluster, allocation))
        else {
            return;
        };
        let never_ends = booked.end == End::Never && presence == Presence::There;
        if booked
            .occupant
            .is_none_or(|occupant| !cluster.neighbours().is_settled(occupant, rank, pod, presence))
        {
            self.turn_out(cluster, allocation);
            let settled = cluster.settle(rank, pod, presence, never_ends);
            if let Some(booked) = self.booked.get_mut(rank, number) {
                booked.occupant = Some(settled);
            }
        }
    }

    /// The pod that an allocation was for is there no more.
    pub fn turn_out(&mut self, cluster: &mut Cluster, allocation: &Allocation) {
        if valid(cluster, allocation)
            && let Some(booked) = self.booked.get_mut(allocation.rank, allocation.number)
            && let Some(occupant) = booked.occupant.take()
        {
            cluster.leave(occupant);
        }
    }

    /// Returns the rule by which all other pods keep the pod of an allocation off its node.
    pub fn judge(
        &mut self,
        cluster: &mut Cluster,
        allocation: &Allocation,
        pod: &Pod,
    ) -> Option<Rejection> {
        let occupant =
            self.booked.get(allocation.rank, allocation.number).and_then(|booked| booked.occupant);
        let is_there = |occupant| {
            cluster.neighbours().is_settled(occupant, allocation.rank, pod, Presence::There)
        };
        if !occupant.is_some_and(is_there) {
            // The pod comes to its node by this, or is another one than was there.
            return self.judge_away(cluster, allocation, pod);
        }
        // The pod is taken out for the question alone. No version may move by that: each Binding
        // would make the next step walk the whole queue.
        cluster.try_without(pod, |cluster| self.judge_away(cluster, allocation, pod))
    }

    fn judge_away(
        &mut self,
        cluster: &mut Cluster,
        allocation: &Allocation,
        pod: &Pod,
    ) -> Option<Rejection> {
        self.turn_out(cluster, allocation);
        let rejection = cluster.judge_neighbours(allocation.rank, pod);
        self.house(cluster, allocation, pod);
        rejection
    }
}
