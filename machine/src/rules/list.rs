//! The list of all rules, and the questions that go to each of them.

use std::sync::Arc;

use super::features::Features;
use super::in_quarantine::InQuarantine;
use super::levels::Levels;
use super::node_filters::NodeFilters;
use super::other_pods::OtherPods;
use super::queue_nodes::QueueNodes;
use super::resources::ResourcesFit;
use super::rule::{Account, Applicants, Horizon, Rule, Site};
use super::storage::VolumesThere;
use super::whole_nodes::WholeNodes;
use super::{disks, host_ports};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::{Allocation, valid};
use fluxqueue_workload::{Pod, Shape};

/// Rules about nodes without their pods, in kube-scheduler's order.
pub(super) static ABOUT_NODES: [&dyn Rule; 3] = [&NodeFilters, &QueueNodes, &InQuarantine];

/// Rules about the use of nodes, in the same order.
pub(super) static ABOUT_USE: [&dyn Rule; 8] = [
    &host_ports::RULE,
    &ResourcesFit,
    &disks::RULE,
    &VolumesThere,
    &OtherPods,
    &Features,
    &Levels,
    &WholeNodes,
];

/// Returns all rules, in the order in which kube-scheduler asks its filters; its reasons are those
/// of the first that rejects a node.
pub(super) fn rules() -> impl Iterator<Item = &'static dyn Rule> {
    ABOUT_NODES.into_iter().chain(ABOUT_USE)
}

/// Returns the accounts of all rules that have one.
fn accounts() -> impl Iterator<Item = &'static dyn Account> {
    rules().filter_map(|rule| rule.account())
}

/// Returns as of when answers about these pods are given: it grows with each change after which
/// some rule may close other nodes to them.
pub fn version(cluster: &Cluster, pods: &Applicants<'_>) -> u64 {
    rules().map(|rule| rule.version(cluster, pods)).sum()
}

/// Returns the nodes that no rule closes to these pods, but for those that the graph keeps.
pub fn open(site: &mut Site<'_>, pods: &Applicants<'_>, horizon: Horizon) -> RankSet {
    let mut nodes = site.cluster.nodes().present().clone();
    for rule in rules().filter(|rule| !rule.is_kept_by_graph()) {
        rule.narrow(site, pods, horizon, &mut nodes);
    }
    nodes
}

/// Takes the nodes out that the graph would not give to these pods now, for a trial without it.
/// A trial checks room node by node ([`has_room`]).
pub fn narrow_for_trial(site: &mut Site<'_>, pods: &Applicants<'_>, nodes: &mut RankSet) {
    for rule in rules().filter(|rule| rule.is_kept_by_graph()) {
        rule.narrow(site, pods, Horizon::Now, nodes);
    }
}

/// Returns the nodes that each rule closes to pods of a gang, by reason, in the order of the rules:
/// a node belongs to the first rule that closes it. Left out are those that the graph explains.
pub fn closed(site: &mut Site<'_>, pods: &Applicants<'_>) -> Vec<(RankSet, Rejection)> {
    let mut open = site.cluster.nodes().present().clone();
    let mut all = Vec::new();
    for rule in rules().filter(|rule| !rule.is_kept_by_graph()) {
        all.extend(close(rule, site, pods, &mut open));
    }
    all.retain(|(nodes, _)| !nodes.is_empty());
    all
}

/// Takes the nodes that a rule closes to these pods out of the open ones, and returns them by
/// reason. A node that has several reasons is returned with each.
pub(super) fn close(
    rule: &dyn Rule,
    site: &mut Site<'_>,
    pods: &Applicants<'_>,
    open: &mut RankSet,
) -> Vec<(RankSet, Rejection)> {
    let mut closed = rule.closed(site, pods, open);
    for (nodes, _) in &mut closed {
        *nodes = open.intersection(nodes);
    }
    for (nodes, _) in &closed {
        open.subtract(nodes);
    }
    closed
}

/// True if the node has room for a slot of this shape.
pub fn has_room(cluster: &Cluster, rank: Rank, shape: &Shape) -> bool {
    accounts().all(|account| account.has_room(cluster, rank, shape))
}

/// True if pods with an end may keep these pods off nodes until then, beside those that take room.
pub fn may_end(pods: &Applicants<'_>) -> bool {
    rules().any(|rule| rule.may_end(pods))
}

/// True if a pod that has its slot may be there, by every rule and beside all other pods.
pub fn admit(site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool {
    valid(site.cluster, slot) && rules().all(|rule| rule.admits(site, slot, pod))
}

/// Returns the differences between the counts on a node and the slots of these shapes there, one
/// text for each.
pub fn differences(site: &mut Site<'_>, rank: Rank, there: &[Arc<Shape>]) -> Vec<String> {
    accounts().flat_map(|account| account.differences(site, rank, there)).collect()
}

/// Counts the slots of a node again, by their shapes. The graph has to be rebuilt after that.
pub fn recount(cluster: &mut Cluster, rank: Rank, there: &[Arc<Shape>]) {
    accounts().for_each(|account| account.recount(cluster, rank, there));
}
