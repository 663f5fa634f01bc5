//! One pod and one node: what kube-scheduler's filters would say, all of them, in its order.
//!
//! The planner asks per class of pods and lets the graph look after room, because that is fast.
//! This asks again, slowly and plainly: where a text has to be exact for each node, and where what
//! the planner found is compared with kube-scheduler.

use std::collections::BTreeMap;

use super::Cluster;
use crate::cluster::filters::{self, Rejection};
use crate::cluster::neighbours::Company;
use crate::cluster::{summary, volumes};
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::NamedNodes;

impl Cluster {
    /// Why a pod that is not there yet may not use this node: all that the first filter that
    /// rejects it says, which may be several things. Empty if it may.
    pub fn judge(&mut self, rank: Rank, pod: &Pod) -> Vec<Rejection> {
        let Some(node) = self.nodes.node(rank).cloned() else { return Vec::new() };
        let constraints = &pod.shape.constraints;
        let named = filters::named(&node, constraints);
        // Errors of the pod itself are found before any node is visited.
        if let Err(unready) = self.volumes().needs(pod)
            && named != Some(Rejection::ConflictingNames)
        {
            return vec![Rejection::Claim(unready.said.into())];
        }
        if let Some(rejection) = named {
            return vec![rejection];
        }
        let rejected = filters::admit(&node, constraints).err().map(|rejected| rejected.first);
        // Features are checked last; everything else of this filter comes before the pods on the
        // node.
        let lacks_features = rejected == Some(Rejection::Features);
        if let Some(rejection) = rejected.filter(|_| !lacks_features) {
            return vec![rejection];
        }
        if self.taken.has_port_conflict(rank, constraints) {
            return vec![Rejection::HostPorts];
        }
        let short = self.nodes.short_of(rank, pod);
        if !short.is_empty() {
            return short;
        }
        if self.taken.has_disk_conflict(rank, constraints) {
            return vec![Rejection::DiskConflict];
        }
        let volumes = self.volumes().reject(pod, &node);
        if !volumes.is_empty() {
            return volumes;
        }
        let crowd = self.crowd(pod);
        if let Some(rejection) = self.neighbours.judge_with_nominated(rank, pod, crowd) {
            return vec![rejection];
        }
        if lacks_features {
            return vec![Rejection::Features];
        }
        let second = self
            .volumes()
            .reject_alone(pod, &node)
            .or_else(|| self.neighbours.judge_without_nominated(rank, pod, crowd));
        second.into_iter().collect()
    }

    /// What kube-scheduler says of a pod that no node takes.
    pub fn unavailable(&mut self, pod: &Pod) -> String {
        if let Err(unready) = self.volumes().needs(pod)
            && pod.shape.constraints.named_nodes() != NamedNodes::None
        {
            return summary::unplaceable(self.nodes.len(), &unready.said);
        }
        summary::unavailable(self.nodes.len(), &self.closed_to(pod, &RankSet::new()))
    }

    /// Counts the nodes closed to a pod with ready claims, by kube-scheduler's text for the reason.
    /// The result is that of [`Cluster::judge`] over all nodes, without a visit to each node that
    /// is closed to pods of its class. The nodes in `elsewhere` count only if they are closed to
    /// the class.
    pub fn closed_to(&mut self, pod: &Pod, elsewhere: &RankSet) -> BTreeMap<String, usize> {
        let constraints = &pod.shape.constraints;
        let class = self.class(constraints);
        let mut counts: BTreeMap<Rejection, usize> =
            class.closed().map(|(reason, nodes)| (reason.clone(), nodes)).collect();
        // Features are checked last.
        let featureless = class.closed_for(&Rejection::Features);
        counts.remove(&Rejection::Features);
        let mut open = class.now.clone();
        open.union_with(&featureless);
        open.subtract(elsewhere);
        // There it matters which of kube-scheduler's two looks finds something first. There are few
        // of these.
        for rank in self.neighbours.nominated_among(&open) {
            for rejection in self.judge(rank, pod) {
                *counts.entry(rejection).or_default() += 1;
            }
            open.remove(rank);
        }
        let mut close = |open: &mut RankSet, (closed, rejection): (RankSet, Rejection)| {
            *counts.entry(rejection).or_default() += open.intersection(&closed).len();
            open.subtract(&closed);
        };
        close(&mut open, (self.taken.closed_by_ports(constraints), Rejection::HostPorts));
        let (full, short) = self.nodes.without_room(&open, pod);
        open.subtract(&full);
        close(&mut open, (self.taken.closed_by_disks(constraints), Rejection::DiskConflict));
        // A node may be closed for several of these: VolumeBinding says all that it finds.
        let by_volumes =
            if volumes::concern(pod) { self.closed_by_volumes(pod) } else { Vec::new() };
        for (closed, rejection) in &by_volumes {
            close(&mut open.clone(), (closed.clone(), rejection.clone()));
        }
        for (closed, _) in &by_volumes {
            open.subtract(closed);
        }
        for closed in self.closed_by_neighbours(pod, Company::Alone) {
            close(&mut open, closed);
        }
        close(&mut open, (featureless, Rejection::Features));
        let mut texts: BTreeMap<String, usize> = BTreeMap::new();
        for (rejection, nodes) in counts.into_iter().chain(short).filter(|(_, nodes)| *nodes > 0) {
            *texts.entry(rejection.reason().into_owned()).or_default() += nodes;
        }
        texts
    }
}
