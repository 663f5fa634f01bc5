//! Nodes alone: pods of other jobs keep off the nodes of jobs that ask for them alone.

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::Pod;

/// Keeps pods off nodes with others that they must not join. The graph keeps it, now and later.
pub(super) struct WholeNodes;

impl Rule for WholeNodes {
    fn is_kept_by_graph(&self) -> bool {
        true
    }

    fn version(&self, _: &Cluster, _: &Applicants<'_>) -> u64 {
        0
    }

    fn narrow(&self, site: &mut Site<'_>, pods: &Applicants<'_>, _: Horizon, nodes: &mut RankSet) {
        *nodes = site.ledger.open_to(pods.tenancy, nodes);
    }

    fn closed(
        &self,
        _: &mut Site<'_>,
        _: &Applicants<'_>,
        _: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        Vec::new()
    }

    fn reject(&self, _: &mut Cluster, _: Rank, _: &Pod, _: Look) -> Vec<Rejection> {
        Vec::new()
    }

    fn may_end(&self, _: &Applicants<'_>) -> bool {
        false
    }

    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, _: &Pod) -> bool {
        site.ledger.is_in_company(slot)
    }

    fn account(&self) -> Option<&dyn Account> {
        None
    }
}
