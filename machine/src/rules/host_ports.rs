//! Host ports: two pods on a node cannot have the same, as kube-scheduler's filter NodePorts has
//! it.

use std::sync::Arc;

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::{Pod, Shape};

/// Closes nodes where a host port that the pods want is taken.
pub(super) struct HostPorts;

impl Rule for HostPorts {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, cluster: &Cluster, pods: &Applicants<'_>) -> u64 {
        cluster.taken().ports.version(&pods.pod.shape.constraints.host_ports)
    }

    fn narrow(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        horizon: Horizon,
        nodes: &mut RankSet,
    ) {
        let wanted = &pods.pod.shape.constraints.host_ports;
        let taken = &site.cluster.taken().ports;
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
        let closed = site.cluster.taken().ports.closed_to(&pods.pod.shape.constraints.host_ports);
        vec![(closed, Rejection::HostPorts)]
    }

    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection> {
        let has_room = look == Look::WithoutNominated || self.has_room(cluster, rank, &pod.shape);
        if has_room { Vec::new() } else { vec![Rejection::HostPorts] }
    }

    fn may_end(&self, pods: &Applicants<'_>) -> bool {
        !pods.pod.shape.constraints.host_ports.is_empty()
    }

    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool {
        site.cluster.taken().ports.are_its_own(slot.rank, &pod.shape.constraints.host_ports)
    }

    fn account(&self) -> Option<&dyn Account> {
        Some(self)
    }
}

impl Account for HostPorts {
    fn has_room(&self, cluster: &Cluster, rank: Rank, shape: &Shape) -> bool {
        !cluster.taken().ports.is_closed_to(rank, &shape.constraints.host_ports)
    }

    fn differences(&self, site: &mut Site<'_>, rank: Rank, there: &[Arc<Shape>]) -> Vec<String> {
        let expected = there.iter().flat_map(|shape| shape.constraints.host_ports.iter());
        site.cluster.taken().ports.differences(rank, expected)
    }

    fn recount(&self, cluster: &mut Cluster, rank: Rank, there: &[Arc<Shape>]) {
        let taken = there.iter().flat_map(|shape| shape.constraints.host_ports.iter());
        cluster.taken_mut().ports.set(rank, taken.cloned().collect());
    }
}
