//! Disks that pods name themselves: some can be in use once on a node, as kube-scheduler's filter
//! VolumeRestrictions has it.

use std::sync::Arc;

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::{Pod, Shape};

/// Closes nodes where a disk that the pods want is in use.
pub(super) struct Disks;

impl Rule for Disks {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, cluster: &Cluster, pods: &Applicants<'_>) -> u64 {
        cluster.taken().disks.version(&pods.pod.shape.constraints.disks)
    }

    fn narrow(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        horizon: Horizon,
        nodes: &mut RankSet,
    ) {
        let wanted = &pods.pod.shape.constraints.disks;
        let taken = &site.cluster.taken().disks;
        match horizon {
            Horizon::Now => nodes.subtract(&taken.closed_to(wanted)),
            Horizon::SomeDay => nodes.subtract(&taken.closed_for_ever_to(wanted)),
            Horizon::Lasting => {}
        }
    }

    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        _: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        let closed = site.cluster.taken().disks.closed_to(&pods.pod.shape.constraints.disks);
        vec![(closed, Rejection::DiskConflict)]
    }

    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection> {
        let has_room = look == Look::WithoutNominated || self.has_room(cluster, rank, &pod.shape);
        if has_room { Vec::new() } else { vec![Rejection::DiskConflict] }
    }

    fn may_end(&self, pods: &Applicants<'_>) -> bool {
        !pods.pod.shape.constraints.disks.is_empty()
    }

    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool {
        site.cluster.taken().disks.are_its_own(slot.rank, &pod.shape.constraints.disks)
    }

    fn account(&self) -> Option<&dyn Account> {
        Some(self)
    }
}

impl Account for Disks {
    fn has_room(&self, cluster: &Cluster, rank: Rank, shape: &Shape) -> bool {
        !cluster.taken().disks.is_closed_to(rank, &shape.constraints.disks)
    }

    fn differences(&self, site: &mut Site<'_>, rank: Rank, there: &[Arc<Shape>]) -> Vec<String> {
        let expected = there.iter().flat_map(|shape| shape.constraints.disks.iter());
        site.cluster.taken().disks.differences(rank, expected)
    }

    fn recount(&self, cluster: &mut Cluster, rank: Rank, there: &[Arc<Shape>]) {
        let taken = there.iter().flat_map(|shape| shape.constraints.disks.iter());
        cluster.taken_mut().disks.set(rank, taken.cloned().collect());
    }
}
