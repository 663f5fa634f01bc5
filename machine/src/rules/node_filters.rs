//! The node itself: names, labels, taints, cordons and readiness, as kube-scheduler's filters
//! NodeUnschedulable, NodeName, TaintToleration and NodeAffinity read them.

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::{self, Rejection};
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::Pod;

/// Closes nodes for their own properties. It closes the nodes of `Features` as well, which only
/// come last in kube-scheduler's words.
pub(super) struct NodeFilters;

impl Rule for NodeFilters {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, cluster: &Cluster, _: &Applicants<'_>) -> u64 {
        cluster.nodes().version()
    }

    fn narrow(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        horizon: Horizon,
        nodes: &mut RankSet,
    ) {
        let class = site.cluster.class(&pods.pod.shape.constraints);
        nodes.intersect_with(match horizon {
            Horizon::Now | Horizon::SomeDay => &class.now,
            Horizon::Lasting => &class.lasting,
        });
    }

    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        _: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        let class = site.cluster.class(&pods.pod.shape.constraints);
        let closed = class.closed().filter(|(rejection, _)| **rejection != Rejection::Features);
        closed.map(|(rejection, nodes)| (nodes.clone(), rejection.clone())).collect()
    }

    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection> {
        let Some(node) = cluster.node(rank).filter(|_| look == Look::WithNominated) else {
            return Vec::new();
        };
        let constraints = &pod.shape.constraints;
        let first = || filters::admit(node, constraints).err().map(|rejected| rejected.first);
        let rejection = filters::named(node, constraints).or_else(first);
        rejection.filter(|rejection| *rejection != Rejection::Features).into_iter().collect()
    }

    fn may_end(&self, _: &Applicants<'_>) -> bool {
        false
    }

    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool {
        site.cluster.class(&pod.shape.constraints).now.contains(slot.rank)
    }

    fn account(&self) -> Option<&dyn Account> {
        None
    }
}
