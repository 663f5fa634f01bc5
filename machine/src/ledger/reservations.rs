//! Makes reservations, and makes them again.

use super::Ledger;
use super::allocation::Allocations;
use super::changes::Change;
use super::requests::GroupRequest;
use super::reservation::{Remade, Reservation};
use crate::cluster::Cluster;
use crate::fluxion::{Booking, Fit, Placement, RankSet, Reserved};
use fluxqueue_workload::Lifetime;

impl Ledger {
    /// Places all pods of the groups now, or keeps a place for all from the earliest second on at
    /// which there is one, but not before `not_before`.
    pub fn reserve(
        &mut self,
        cluster: &mut Cluster,
        mut groups: Vec<GroupRequest>,
        not_before: Option<i64>,
    ) -> Booking<Allocations, Reservation> {
        // A reservation moves to the earliest second on its nodes, whenever there is a walk. "Every
        // node" would include nodes that have come since and were never judged.
        for group in &mut groups {
            group.ranks.get_or_insert_with(|| cluster.nodes().present().clone());
        }
        let gid = self.new_gid();
        match self.query(&groups, not_before, |graph, request| graph.reserve(gid, request)) {
            Some(Booking::Now(placement)) => {
                Booking::Now(self.allocations(cluster, gid, &groups, placement))
            }
            // The plan treats each start alike, proved to be the earliest or not: the reservation
            // is made again once something has come free.
            Some(Booking::At(Reserved { at: start, placement, .. })) => {
                Booking::At(Reservation { gid, start, nodes: nodes_of(&placement), groups })
            }
            Some(Booking::Never) | None => Booking::Never,
        }
    }

    /// Withdraws a reservation and makes it again at the earliest second around all others.
    pub fn remake(&mut self, cluster: &mut Cluster, mut kept: Reservation) -> Remade {
        let gid = kept.gid;
        if kept.start <= self.now && self.has_begun(&kept) {
            // It takes the same slots as a new request would get.
            self.withdraw(kept.gid, &kept.nodes, &kept.groups);
            return match self.allocate(cluster, &kept.groups) {
                Fit::Placed(slots) => Remade::Starts(slots),
                Fit::NotNow | Fit::NotFound => Remade::Lost,
            };
        }
        let groups = std::mem::take(&mut kept.groups);
        let moved =
            self.query(&groups, None, |graph, request| graph.remake(gid, request)).flatten();
        let Some(moved) = moved else {
            self.withdraw(gid, &kept.nodes, &groups);
            return Remade::Lost;
        };
        let Some(placement) = moved.placement else {
            return Remade::Kept(Reservation { start: moved.at, groups, ..kept }, moved.later);
        };
        self.freed(&kept.nodes, &groups);
        if moved.has_begun {
            return Remade::Starts(self.allocations(cluster, gid, &groups, placement));
        }
        let nodes = nodes_of(&placement);
        Remade::Kept(Reservation { gid, start: moved.at, nodes, groups }, moved.later)
    }

    /// True if a reservation is an allocation by now: its start has come, and its room was free.
    pub(crate) fn has_begun(&mut self, kept: &Reservation) -> bool {
        let begun = self.graph.has_begun(kept.gid);
        self.check("asking after a reservation", begun).unwrap_or(false)
    }

    /// Gives up a place that was kept.
    pub fn give_up(&mut self, kept: &Reservation) {
        self.withdraw(kept.gid, &kept.nodes, &kept.groups);
    }

    fn withdraw(&mut self, gid: u64, nodes: &RankSet, groups: &[GroupRequest]) {
        let canceled = self.graph.cancel(gid);
        self.check("withdrawing a reservation", canceled);
        self.freed(nodes, groups);
    }

    /// Notes that there may be room on these nodes for requests that wait; and some day, for those
    /// that could not wait for a service.
    fn freed(&mut self, nodes: &RankSet, groups: &[GroupRequest]) {
        let change = match groups.iter().map(|group| group.lifetime).max() {
            Some(Lifetime::Endless) => Change::FreedForGood,
            Some(Lifetime::Eventually) => Change::FreedUnknown,
            Some(Lifetime::Seconds(_)) | None => Change::Freed,
        };
        for rank in nodes.iter() {
            self.changes.push(change(rank));
        }
    }
}

fn nodes_of(placement: &Placement) -> RankSet {
    placement.slots.iter().map(|slots| slots.rank).collect()
}
