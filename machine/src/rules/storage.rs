//! Volumes: a pod comes to nodes where its claims are bound or can be, and which attach that many,
//! as kube-scheduler's filters VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits
//! have it.

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::cluster::volumes;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::Pod;

/// Closes nodes on which the pods cannot have their volumes.
pub(super) struct VolumesThere;

impl Rule for VolumesThere {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, cluster: &Cluster, pods: &Applicants<'_>) -> u64 {
        if pods.have_volumes { cluster.volumes().version() } else { 0 }
    }

    fn narrow(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        horizon: Horizon,
        nodes: &mut RankSet,
    ) {
        if pods.have_volumes {
            match horizon {
                Horizon::Now | Horizon::Lasting => {
                    for (closed, _) in site.cluster.closed_by_volumes(pods.pod) {
                        nodes.subtract(&closed);
                    }
                }
                Horizon::SomeDay => {
                    nodes.subtract(&site.cluster.closed_by_volumes_for_ever(pods.pod));
                }
            }
        }
    }

    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        _: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        if volumes::concern(pods.pod) {
            site.cluster.closed_by_volumes(pods.pod)
        } else {
            Vec::new()
        }
    }

    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection> {
        let Some(node) = cluster.node(rank) else { return Vec::new() };
        match look {
            Look::WithNominated => cluster.volumes().reject(pod, node),
            Look::WithoutNominated => {
                cluster.volumes().reject_alone(pod, node).into_iter().collect()
            }
        }
    }

    fn may_end(&self, pods: &Applicants<'_>) -> bool {
        pods.have_volumes
    }

    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool {
        site.cluster.volumes().suit(pod, site.cluster.node(slot.rank).map(|node| &**node))
    }

    fn account(&self) -> Option<&dyn Account> {
        None
    }
}
