//! Another graph in place of one that has lost its account, and the comparison of accounts.

use super::{Allocation, Ledger, valid};
use crate::cluster::Cluster;
use crate::fluxion::{Graph, Rank};
use fluxqueue_workload::{Resources, Time};

impl Ledger {
    /// Puts another graph in place of this one, and books all that is taken in it.
    pub fn rebuild<'a>(
        &mut self,
        graph: Graph,
        now: Time,
        cluster: &mut Cluster,
        allocations: impl Iterator<Item = &'a mut Allocation>,
    ) {
        self.graph = graph;
        self.removed = 0;
        self.lost = false;
        self.changes.forget();
        self.now = 0;
        self.set_time(now);
        for (_, rank) in cluster.nodes().iter() {
            if let Some(node) = cluster.node(rank) {
                self.add_node(rank, node);
            }
        }
        let mut before = std::mem::take(&mut self.booked);
        for allocation in allocations.filter(|allocation| valid(cluster, allocation)) {
            allocation.gid = self.new_gid();
            let known = before.remove(allocation.rank, allocation.number);
            let Allocation { rank, gid, ref label, ref shape, end, tenancy, .. } = *allocation;
            allocation.number = self.booked.add(rank, (gid, label), shape, (end, tenancy));
            if let Some(booked) = self.booked.get_mut(rank, allocation.number) {
                booked.occupant = known.and_then(|known| known.occupant);
            }
            let charged = self.graph.charge_beside(gid, rank, label, &shape.requests, end, tenancy);
            self.check("charging a node", charged);
        }
        // The remaining bookings belong to no pod and to no retained slot. The audit counts the
        // used resources, node by node; the rest of such a leak goes with this graph.
        for (rank, leaked) in before.into_each() {
            tracing::error!(rank, "audit: a slot on a node belongs to no pod, and is given back");
            self.forget_end(cluster, rank, &leaked.shape, leaked.end);
            cluster.taken_mut().give_back(rank, &leaked.shape.constraints);
            if let Some(occupant) = leaked.occupant {
                cluster.leave(occupant);
            }
        }
    }

    /// Returns the use of a node by the graph's account, if it differs from `taken`.
    pub fn used_otherwise(&mut self, rank: Rank, taken: &Resources) -> Option<Resources> {
        let usage = self.graph.usage(rank);
        let usage = self.check("reading usage", usage)?;
        let used = || usage.pools.iter().filter(|pool| pool.used > 0);
        let is_same = used().count() == taken.iter().count()
            && used().all(|pool| taken.get(&pool.resource) == pool.used);
        (!is_same).then(|| used().map(|pool| (&*pool.resource, pool.used)).collect())
    }
}
