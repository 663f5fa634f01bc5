//! Holders: the pods that take something of a node.

use crate::jobs::registry::Jobs;
use crate::occupancy::Occupancy;
use crate::taken;
use crate::taken::Taken;
use crate::telling::readers::Named;
use fluxqueue_machine::fluxion::{End, Rank, RankSet};
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{ObjectKey, Pod, Uid};

/// Most nodes that are searched in the order of their names for pods with unknown ends; the others
/// follow in any order. Sorting all nodes would cost too much.
const NODES_IN_ORDER: usize = 64;

/// A pod that takes something of a node.
pub(crate) struct Holder<'a> {
    /// The job; a pod of another scheduler has none.
    pub job: Option<JobId>,
    /// The name of the job, or of the pod if it has no job.
    pub key: &'a ObjectKey,
    pub pod: &'a Pod,
    pub allocation: &'a Allocation,
}

/// The pods of jobs and of other schedulers, by the nodes on which they are.
#[derive(Clone, Copy)]
pub(crate) struct Holders<'a> {
    pub jobs: &'a Jobs,
    pub planner: &'a Planner,
    pub occupancy: &'a Occupancy,
}

impl Holder<'_> {
    /// Returns the name by which people know it.
    pub(crate) fn named(&self) -> Named {
        let key = self.key.clone();
        if self.job.is_some() { Named::Job(key) } else { Named::Pod(key) }
    }
}

impl<'a> Holders<'a> {
    /// Returns the holders on these nodes.
    pub(crate) fn on(self, nodes: &'a RankSet) -> impl Iterator<Item = Holder<'a>> {
        self.on_each(nodes.iter())
    }

    /// Returns the holders with unknown ends on these nodes. The nodes with the first names come
    /// first, since the order of ranks differs in the next process.
    pub(crate) fn of_unknown_end(self, nodes: &RankSet) -> impl Iterator<Item = Holder<'a>> {
        let mut ranks: Vec<Rank> =
            nodes.iter().filter(|rank| self.planner.ledger.unknown_ends(*rank) > 0).collect();
        let name = |rank: &Rank| self.planner.cluster.node(*rank).map(|node| &node.name);
        if ranks.len() > NODES_IN_ORDER {
            ranks.select_nth_unstable_by(NODES_IN_ORDER, |one, other| name(one).cmp(&name(other)));
        }
        let in_order = ranks.len().min(NODES_IN_ORDER);
        ranks[..in_order].sort_unstable_by(|one, other| name(one).cmp(&name(other)));
        self.on_each(ranks.into_iter()).filter(|holder| holder.allocation.end == End::Eventually)
    }

    fn on_each(self, nodes: impl Iterator<Item = Rank> + 'a) -> impl Iterator<Item = Holder<'a>> {
        nodes
            .filter_map(move |rank| self.planner.cluster.node(rank))
            .flat_map(move |node| self.occupancy.by_node.all(&node.name))
            .filter_map(move |uid| self.holder(&uid))
    }

    fn holder(self, uid: &Uid) -> Option<Holder<'a>> {
        let Taken { job, pod, allocation } = taken::by(self.jobs, self.occupancy, uid)?;
        let key = match job {
            Some(job) => &self.jobs.all.get(&job)?.key,
            None => &pod.id.key,
        };
        Some(Holder { job, key, pod, allocation })
    }
}
