//! The outlook: how much of each node is used, promised and held, and until when.

use std::collections::BTreeMap;

use crate::Core;
use crate::queueing::{CountsAs, counts_as};
use crate::telling::outlook::{NodeOutlook, Outlook};
use fluxqueue_machine::cluster::Readiness;
use fluxqueue_machine::fluxion::{Rank, Tenancy};
use fluxqueue_workload::{NodeName, Time};

impl Core {
    /// Returns the outlook of each node, and the work that waits in each queue.
    pub fn outlook(&self) -> Outlook {
        let planner = &self.planner;
        let machine = planner.cluster.nodes();
        let wall = |seconds| self.clock.wall(Time::from_seconds(seconds));
        let mut promised: BTreeMap<Rank, i64> = BTreeMap::new();
        for (_, promise) in planner.promises.reservations() {
            for rank in promise.nodes_to_say().iter() {
                let from = promised.entry(rank).or_insert(promise.place.start);
                *from = (*from).min(promise.place.start);
            }
        }
        let mut ends: BTreeMap<Rank, i64> = BTreeMap::new();
        for (end, booking) in planner.ledger.planned_ends(0, usize::MAX).0 {
            let last = ends.entry(booking.rank).or_insert(end);
            *last = (*last).max(end);
        }
        let held = planner.claims.nodes();
        let shared = planner.ledger.open_to(Tenancy::Shared, machine.present());
        let of_node = |(name, rank): (&NodeName, Rank)| {
            let node = machine.node(rank)?;
            Some(NodeOutlook {
                name: name.clone(),
                is_ready: node.readiness == Readiness::Ready,
                is_schedulable: !node.unschedulable,
                allocatable: node.allocatable.clone(),
                used: machine.used(rank)?.clone(),
                is_alone: !shared.contains(rank),
                promised_from: promised.get(&rank).map(|start| wall(*start)),
                is_held: held.contains(rank),
                last_end: ends.get(&rank).map(|end| wall(*end)),
            })
        };
        let mut nodes: Vec<NodeOutlook> = machine.iter().filter_map(of_node).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let queued_at = |id| self.jobs.all.get(&id).and_then(|job| job.waiting.since);
        let mut queues = self.queues.now(self.clock.wall_now(), queued_at);
        if !self.queues.is_any_object() {
            // No job is counted while the one queue has neither an object nor limits.
            let count = |wanted| {
                let all = self.jobs.all.values().map(|job| counts_as(&self.jobs, job));
                all.filter(|counts_as| *counts_as == Some(wanted)).count() as u64
            };
            let (waiting, running) = (count(CountsAs::Waiting), count(CountsAs::Running));
            for load in &mut queues {
                (load.waiting, load.running) = (waiting, running);
            }
        }
        Outlook { as_of: Some(self.clock.wall_now()), nodes, queues }
    }
}
