//! What kube-scheduler's filters would say, all of them, in its order.
//!
//! The planner asks per class of pods and lets the graph look after room, because that is fast.
//! This asks again, slowly and plainly: where a text has to be exact for each node, and where what
//! the planner found is compared with kube-scheduler.

use std::collections::BTreeMap;

use super::list::{ABOUT_NODES, ABOUT_USE, close, rules};
use super::rule::{Applicants, Look, Site};
use crate::cluster::filters::{self, Rejection};
use crate::cluster::{Cluster, summary};
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::NamedNodes;

/// Returns why a pod that is not there yet may not use this node: all that the first filter that
/// rejects it says, which may be several things. Empty if it may.
pub fn judge(cluster: &mut Cluster, rank: Rank, pod: &Pod) -> Vec<Rejection> {
    let Some(node) = cluster.node(rank) else { return Vec::new() };
    // Errors of the pod itself are found before any node is visited.
    if let Err(unready) = cluster.volumes().needs(pod)
        && filters::named(node, &pod.shape.constraints) != Some(Rejection::ConflictingNames)
    {
        return vec![Rejection::Claim(unready.said.into())];
    }
    for look in [Look::WithNominated, Look::WithoutNominated] {
        let mut rejected = rules().map(|rule| rule.reject(cluster, rank, pod, look));
        if let Some(rejected) = rejected.find(|rejections| !rejections.is_empty()) {
            return rejected;
        }
    }
    Vec::new()
}

/// Returns what kube-scheduler says of a pod that no node takes.
pub fn unavailable(site: &mut Site<'_>, pod: &Pod) -> String {
    let nodes = site.cluster.nodes().len();
    if let Err(unready) = site.cluster.volumes().needs(pod)
        && pod.shape.constraints.named_nodes() != NamedNodes::None
    {
        return summary::unplaceable(nodes, &unready.said);
    }
    let stance = site.cluster.neighbours().stance(pod);
    let alone = Applicants::alone(pod, &stance);
    summary::unavailable(nodes, &refusals(site, &alone, &RankSet::new()))
}

/// Counts the nodes that refuse a pod, by kube-scheduler's text for the reason. The result is that
/// of [`judge`] over all nodes, without a visit to each node that is closed to pods of its class.
/// The nodes in `elsewhere` count only if they are closed for what they are without pods.
pub fn refusals(
    site: &mut Site<'_>,
    pods: &Applicants<'_>,
    elsewhere: &RankSet,
) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<Rejection, usize> = BTreeMap::new();
    let mut open = site.cluster.nodes().present().clone();
    let mut count = |closed: Vec<(RankSet, Rejection)>| {
        for (nodes, rejection) in closed {
            *counts.entry(rejection).or_default() += nodes.len();
        }
    };
    for rule in ABOUT_NODES {
        count(close(rule, site, pods, &mut open));
    }
    open.subtract(elsewhere);
    // There it matters which of kube-scheduler's two looks finds something first. There are few of
    // these.
    for rank in site.cluster.nominated_among(&open) {
        let node: RankSet = [rank].into_iter().collect();
        let of_node = judge(site.cluster, rank, pods.pod).into_iter();
        count(of_node.map(|rejection| (node.clone(), rejection)).collect());
        open.remove(rank);
    }
    for rule in ABOUT_USE {
        count(close(rule, site, pods, &mut open));
    }
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    for (rejection, nodes) in counts.into_iter().filter(|(_, nodes)| *nodes > 0) {
        *texts.entry(rejection.reason().into_owned()).or_default() += nodes;
    }
    texts
}
