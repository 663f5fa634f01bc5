//! The nodes of a queue: jobs use those that the nodeSelector of their FluxQueue selects.

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::Pod;

/// Closes the nodes that the queue of the pods does not select. The owner of the queues knows when
/// their rules change.
pub(super) struct QueueNodes;

impl Rule for QueueNodes {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, _: &Cluster, _: &Applicants<'_>) -> u64 {
        0
    }

    fn narrow(&self, site: &mut Site<'_>, pods: &Applicants<'_>, _: Horizon, nodes: &mut RankSet) {
        if let Some(queue) = pods.queue {
            nodes.intersect_with(&site.cluster.class(queue).lasting);
        }
    }

    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        among: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        let Some(queue) = pods.queue else { return Vec::new() };
        let mut closed = among.clone();
        closed.subtract(&site.cluster.class(queue).lasting);
        vec![(closed, Rejection::QueueNodes)]
    }

    fn reject(&self, _: &mut Cluster, _: Rank, _: &Pod, _: Look) -> Vec<Rejection> {
        Vec::new()
    }

    fn may_end(&self, _: &Applicants<'_>) -> bool {
        false
    }

    fn admits(&self, _: &mut Site<'_>, _: &Allocation, _: &Pod) -> bool {
        true
    }

    fn account(&self) -> Option<&dyn Account> {
        None
    }
}
