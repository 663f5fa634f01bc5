//! Features that the kubelet of a node declares, as kube-scheduler's filter NodeDeclaredFeatures
//! reads them (KEP-5328).

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::Pod;

/// Names the nodes that lack a feature. `NodeFilters` closes them; the words come last.
pub(super) struct Features;

impl Rule for Features {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, _: &Cluster, _: &Applicants<'_>) -> u64 {
        0
    }

    fn narrow(&self, _: &mut Site<'_>, _: &Applicants<'_>, _: Horizon, _: &mut RankSet) {}

    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        _: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        let class = site.cluster.class(&pods.pod.shape.constraints);
        vec![(class.closed_for(&Rejection::Features), Rejection::Features)]
    }

    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection> {
        let node = cluster.node(rank).filter(|_| look == Look::WithNominated);
        let rejected = node.and_then(|node| filters::admit(node, &pod.shape.constraints).err());
        let first = rejected.map(|rejected| rejected.first);
        first.filter(|rejection| *rejection == Rejection::Features).into_iter().collect()
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
