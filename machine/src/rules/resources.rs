//! Resources: a node has a limited amount of each, as kube-scheduler's filter NodeResourcesFit has
//! it.

use std::sync::Arc;

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::{Pod, Resources, Shape};

/// Compares the requests of pods with the free amounts. The graph keeps it, by an account of its
/// own.
pub(super) struct ResourcesFit;

impl Rule for ResourcesFit {
    fn is_kept_by_graph(&self) -> bool {
        true
    }

    fn version(&self, _: &Cluster, _: &Applicants<'_>) -> u64 {
        0
    }

    fn narrow(&self, _: &mut Site<'_>, _: &Applicants<'_>, _: Horizon, _: &mut RankSet) {
        // Pods of one group may differ in shape, so trials check room node by node.
    }

    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        among: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        site.cluster.nodes().without_room(among, pods.pod)
    }

    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection> {
        match look {
            Look::WithNominated => cluster.nodes().short_of(rank, pod),
            Look::WithoutNominated => Vec::new(),
        }
    }

    fn may_end(&self, _: &Applicants<'_>) -> bool {
        false
    }

    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool {
        site.cluster.nodes().holds(slot.rank, &pod.shape.requests)
    }

    fn account(&self) -> Option<&dyn Account> {
        Some(self)
    }
}

impl Account for ResourcesFit {
    fn has_room(&self, cluster: &Cluster, rank: Rank, shape: &Shape) -> bool {
        cluster.nodes().room(rank, shape) > 0
    }

    fn differences(&self, site: &mut Site<'_>, rank: Rank, there: &[Arc<Shape>]) -> Vec<String> {
        let taken = sum(there);
        let mut differences = Vec::new();
        let mut compare = |account: &str, says: &Resources| {
            let mut both = taken.clone();
            both.add(says);
            for (resource, _) in both.iter().filter(|(name, _)| taken.get(name) != says.get(name)) {
                let (expected, found) = (taken.get(resource), says.get(resource));
                differences.push(format!("{resource}: {expected} by pods, {found} in {account}"));
            }
        };
        if let Some(used) = site.cluster.nodes().used(rank).filter(|used| **used != taken) {
            compare("what Bindings are checked against", used);
        }
        if let Some(used) = site.ledger.used_otherwise(rank, &taken) {
            compare("the resource graph", &used);
        }
        differences
    }

    fn recount(&self, cluster: &mut Cluster, rank: Rank, there: &[Arc<Shape>]) {
        cluster.set_use(rank, sum(there));
    }
}

fn sum(there: &[Arc<Shape>]) -> Resources {
    let mut taken = Resources::new();
    for shape in there {
        taken.add(&shape.requests);
    }
    taken
}
