//! Nodes in quarantine: their kubelets have just refused a pod, and get no other for a moment.

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::Pod;

/// Closes the nodes in quarantine. A pod that has its slot already stays there.
pub(super) struct InQuarantine;

impl Rule for InQuarantine {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, cluster: &Cluster, _: &Applicants<'_>) -> u64 {
        cluster.quarantine().version()
    }

    fn narrow(
        &self,
        site: &mut Site<'_>,
        _: &Applicants<'_>,
        horizon: Horizon,
        nodes: &mut RankSet,
    ) {
        match horizon {
            Horizon::Now | Horizon::SomeDay => nodes.subtract(site.cluster.quarantine().nodes()),
            Horizon::Lasting => {}
        }
    }

    fn closed(
        &self,
        site: &mut Site<'_>,
        _: &Applicants<'_>,
        _: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        vec![(site.cluster.quarantine().nodes().clone(), Rejection::InQuarantine)]
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
