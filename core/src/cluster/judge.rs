//! One pod and one node: what kube-scheduler's filters would say, all of them, in its order.
//!
//! The planner asks per class of pods and lets the graph look after room, because that is fast. This asks again, slowly and
//! plainly: where a text has to be exact for each node, and where what the planner found is compared with kube-scheduler.

use std::collections::BTreeMap;

use super::filters::{self, Rejection};
use super::{Cluster, Node, summary};
use crate::fluxion::Rank;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::NamedNodes;

impl Cluster {
    /// Why a pod that is not there yet may not use this node: all that the first filter that rejects it says, which may be
    /// several things. Empty if it may.
    pub fn judge(&mut self, rank: Rank, pod: &Pod) -> Vec<Rejection> {
        let Some(node) = self.node(rank).cloned() else { return Vec::new() };
        let constraints = &pod.shape.constraints;
        let named = filters::named(&node, constraints);
        // What is wrong with the pod itself is found before any node is looked at.
        if let Err(unready) = self.volumes().needs(pod)
            && named != Some(Rejection::ConflictingNames)
        {
            return vec![Rejection::Claim(unready.said.into())];
        }
        if let Some(rejection) = named {
            return vec![rejection];
        }
        let rejected = filters::admit(&node, constraints).err().map(|rejected| rejected.first);
        // Features are asked last; everything else of this filter comes before what is on the node.
        let lacks_features = rejected == Some(Rejection::Features);
        if let Some(rejection) = rejected.filter(|_| !lacks_features) {
            return vec![rejection];
        }
        if self.has_port_conflict(rank, &constraints.host_ports) {
            return vec![Rejection::HostPorts];
        }
        let short = self.short_of(rank, &node, pod);
        if !short.is_empty() {
            return short;
        }
        if self.has_disk_conflict(rank, &constraints.disks) {
            return vec![Rejection::DiskConflict];
        }
        let volumes = self.volumes().reject(pod, &node);
        if !volumes.is_empty() {
            return volumes;
        }
        if let Some(rejection) = self.judge_neighbours(rank, pod) {
            return vec![rejection];
        }
        if lacks_features { vec![Rejection::Features] } else { Vec::new() }
    }

    /// What kube-scheduler says of a pod that no node takes.
    pub fn unavailable(&mut self, pod: &Pod) -> String {
        if let Err(unready) = self.volumes().needs(pod)
            && pod.shape.constraints.named_nodes() != NamedNodes::None
        {
            return summary::unplaceable(self.len(), &unready.said);
        }
        let mut reasons: BTreeMap<Rejection, usize> = BTreeMap::new();
        for rank in self.present().clone().iter() {
            for rejection in self.judge(rank, pod) {
                *reasons.entry(rejection).or_default() += 1;
            }
        }
        let mut texts: BTreeMap<String, usize> = BTreeMap::new();
        for (rejection, nodes) in reasons {
            *texts.entry(rejection.reason().into_owned()).or_default() += nodes;
        }
        summary::unavailable(self.len(), &texts)
    }

    /// The resources of which too little is left for the pod.
    fn short_of(&self, rank: Rank, node: &Node, pod: &Pod) -> Vec<Rejection> {
        let Some(used) = self.used(rank) else { return Vec::new() };
        let short = pod.shape.requests.iter().filter(|(name, amount)| {
            *amount > 0 && used.get(name).saturating_add(*amount) > node.allocatable.get(name)
        });
        short.map(|(name, _)| Rejection::insufficient(name)).collect()
    }
}
