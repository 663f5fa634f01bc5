//! Pods on nodes, and the pods that are to be near to them, apart from them, or spread among them,
//! as kube-scheduler's filters PodTopologySpread and InterPodAffinity have it.
//!
//! It is one rule: the two filters read the same counts, and look twice at nodes to which pods are
//! nominated.

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::Pod;

/// Closes nodes by the terms of pods about each other.
pub(super) struct OtherPods;

impl Rule for OtherPods {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, cluster: &Cluster, pods: &Applicants<'_>) -> u64 {
        let of_repellers = match &pods.stance.repelled_by {
            terms if terms.is_empty() => 0,
            _ => cluster.neighbours().repellers_version(),
        };
        of_repellers + cluster.crowd_version(&pods.pod.shape.constraints)
    }

    fn narrow(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        horizon: Horizon,
        nodes: &mut RankSet,
    ) {
        match horizon {
            Horizon::Now => {
                for (closed, _) in site.cluster.closed_by_neighbours(pods.pod, pods.company) {
                    nodes.subtract(&closed);
                }
            }
            Horizon::SomeDay => {
                nodes.subtract(&site.cluster.repelled_for_ever(pods.pod, pods.company));
            }
            Horizon::Lasting => {}
        }
    }

    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        among: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        let mut left = among.clone();
        let mut all = Vec::new();
        for (nodes, rejection) in site.cluster.closed_by_neighbours(pods.pod, pods.company) {
            all.push((left.intersection(&nodes), rejection));
            left.subtract(&nodes);
        }
        all
    }

    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection> {
        let rejection = match look {
            Look::WithNominated => cluster.judge_with_nominated(rank, pod),
            Look::WithoutNominated => cluster.judge_without_nominated(rank, pod),
        };
        rejection.into_iter().collect()
    }

    fn may_end(&self, pods: &Applicants<'_>) -> bool {
        !pods.pod.shape.constraints.repels.is_empty() || !pods.stance.repelled_by.is_empty()
    }

    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool {
        site.ledger.judge(site.cluster, slot, pod).is_none()
    }

    fn account(&self) -> Option<&dyn Account> {
        None
    }
}
