//! Levels of the machine: a part takes no more pods of a job than the rules of the job let it have.
//!
//! The graph keeps the rules among the pods of a request. This rule is about the pods of a job that
//! have their places already. Before the first Binding of a gang, the core checks all of its pods
//! together.

use std::collections::BTreeSet;

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::Cluster;
use crate::cluster::filters::Rejection;
use crate::fluxion::{Rank, RankSet, Within};
use crate::ledger::{Allocation, LevelWant};
use fluxqueue_workload::Pod;
use fluxqueue_workload::levels::RuleScope;

/// Closes the parts that have as many pods of the job as they may have.
pub(super) struct Levels;

impl Rule for Levels {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, _: &Cluster, _: &Applicants<'_>) -> u64 {
        0
    }

    fn narrow(&self, site: &mut Site<'_>, pods: &Applicants<'_>, _: Horizon, nodes: &mut RankSet) {
        for want in pods.levels.iter().flat_map(|wants| wants.iter()) {
            let full = full_parts(site, pods, want);
            if !full.is_empty() {
                let part = |rank| site.ledger.part_of(site.cluster, &want.level, rank);
                let closed = nodes
                    .iter()
                    .filter(|rank| part(*rank).is_some_and(|part| full.contains(&part)));
                let closed: RankSet = closed.collect();
                nodes.subtract(&closed);
            }
        }
    }

    fn closed(
        &self,
        _: &mut Site<'_>,
        _: &Applicants<'_>,
        _: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        Vec::new()
    }

    fn reject(&self, _: &mut Cluster, _: Rank, _: &Pod, _: Look) -> Vec<Rejection> {
        Vec::new()
    }

    fn may_end(&self, _: &Applicants<'_>) -> bool {
        false
    }

    fn admits(&self, _: &mut Site<'_>, _: &Allocation, _: &Pod) -> bool {
        true
    }

    fn account(&self) -> Option<&dyn Account> {
        None
    }
}

/// Returns the parts that have as many of the job's pods as they may have beside the others that
/// are there.
pub fn full_parts(
    site: &mut Site<'_>,
    pods: &Applicants<'_>,
    want: &LevelWant,
) -> BTreeSet<String> {
    let Within::Beside(spread, standing) = &want.within else { return BTreeSet::new() };
    let least = if spread.max_skew.is_some() { least(site, pods, want, standing) } else { 0 };
    let is_full = |count: u32| {
        spread.max_per_part.is_some_and(|most| count >= most)
            || spread.max_skew.is_some_and(|skew| count.saturating_sub(least) >= skew)
    };
    standing.iter().filter(|(_, count)| is_full(*count)).map(|(part, _)| part.clone()).collect()
}

/// Returns how many of a job's pods are in the part that has the fewest, among parts with a node to
/// which the pods are admitted.
fn least(
    site: &mut Site<'_>,
    pods: &Applicants<'_>,
    want: &LevelWant,
    standing: &[(String, u32)],
) -> u32 {
    let admitted = site.cluster.admitted(&pods.pod.shape.constraints, pods.counted);
    let standing_in = |part: &String| {
        standing.iter().find(|(known, _)| known == part).map_or(0, |(_, count)| *count)
    };
    let part_of = |level: &str, rank: Rank| site.ledger.part_of(site.cluster, level, rank);
    // Where pods are to be in one part of another level, only the parts within it count. Slices do
    // not narrow this: the other slices are elsewhere.
    let is_within = |rank: &Rank| {
        pods.levels.iter().flat_map(|wants| wants.iter()).all(|other| match &other.within {
            _ if matches!(other.of, RuleScope::Slice(_)) => true,
            Within::Part(part) => part_of(&other.level, *rank).as_deref() == Some(&**part),
            _ => true,
        })
    };
    let parts = admitted.iter().filter(is_within).filter_map(|rank| part_of(&want.level, rank));
    let parts: BTreeSet<String> = parts.collect();
    parts.iter().map(standing_in).min().unwrap_or(0)
}
