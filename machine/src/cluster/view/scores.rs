//! Where a pod would rather be: kube-scheduler's scores of the nodes that take it, with its default
//! weights.
//!
//! Preferred node affinity, PreferNoSchedule taints, preferred affinity and anti-affinity to pods
//! (its own and that of pods on nodes) and spread constraints with ScheduleAnyway count as in its
//! plugins; images on nodes are not known here. Pods for which nothing of this differs are not
//! scored: for these the node policy decides alone.

use std::collections::{BTreeMap, HashMap};

use super::Cluster;
use crate::cluster::fills::{Fill, Fills, Wanted};
use crate::cluster::filters::Liking;
use crate::cluster::neighbours::Ratings;
use crate::cluster::nodes::Nodes;
use crate::cluster::score::{FillScore, Score};
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::{Pod, Shape};

/// The best score that a plugin of kube-scheduler gives before it is weighted.
const BEST: i64 = 100;

/// Tiers of nodes told apart at most; all nodes that would come after them are in the last one.
const TIERS_MAX: usize = 128;

impl Cluster {
    /// Returns the nodes among these with room for such a pod, in tiers of falling score, as far as
    /// they differ; others come last. `is_alone`: it is the only pod, so that no other pods will
    /// come beside those on the nodes. Then the node that it is nominated to comes first, whatever
    /// the scores, as in kube-scheduler.
    pub fn tiers(&mut self, pod: &Pod, nodes: &RankSet, is_alone: bool) -> Vec<RankSet> {
        let nominated =
            pod.nominated.as_ref().filter(|_| is_alone).and_then(|name| self.nodes.rank(name));
        let fill_score = if is_alone { self.fill_score } else { FillScore::None };
        let mut tiers = tiers_by_score(&self.scored(pod, nodes, fill_score));
        if let Some(nominated) = nominated.filter(|rank| nodes.contains(*rank)) {
            for tier in &mut tiers {
                tier.remove(nominated);
            }
            tiers.retain(|tier| !tier.is_empty());
            tiers.insert(0, std::iter::once(nominated).collect());
        }
        tiers.truncate(TIERS_MAX);
        tiers
    }

    /// The score of each of these nodes that has room for the pod; empty if nothing is to be said
    /// of any.
    pub fn scores(&mut self, pod: &Pod, nodes: &RankSet) -> Vec<(Rank, Score)> {
        self.scored(pod, nodes, self.fill_score)
    }

    fn scored(&mut self, pod: &Pod, nodes: &RankSet, fill_score: FillScore) -> Vec<(Rank, Score)> {
        let constraints = &pod.shape.constraints;
        let class = self.class(constraints);
        let (is_indifferent, crowd) = (class.liking.is_empty(), class.crowd);
        let crowd = crowd.filter(|_| constraints.prefers_by_pods());
        if is_indifferent && crowd.is_none() && !self.neighbours.has_opinions_of(pod) {
            return Vec::new();
        }
        let wanted = Wanted::of(&pod.shape.requests);
        let ranks: Vec<Rank> = nodes
            .iter()
            .filter(|rank| has_room_for_one(&self.fills, &self.nodes, *rank, &wanted, &pod.shape))
            .collect();
        let ratings = self.neighbours.rate(pod, crowd, &ranks);
        let mut scores: Vec<(Rank, Score)> =
            ranks.into_iter().map(|rank| (rank, Score::default())).collect();
        score_likings(&self.class(constraints).liking, &mut scores);
        score_ratings(&ratings, &mut scores);
        if fill_score == FillScore::LeastAllocated {
            for (rank, score) in &mut scores {
                let fill = self.fills.of(*rank);
                (score.fit, score.balance) =
                    (least_allocated(&fill, &wanted), balanced(&fill, &wanted));
            }
        }
        scores
    }

    /// What these nodes have for what they are themselves; empty if that is the same of all.
    pub fn liked(&mut self, pod: &Pod, nodes: &RankSet) -> HashMap<Rank, i64> {
        if self.class(&pod.shape.constraints).liking.is_empty() {
            return HashMap::new();
        }
        let mut scores: Vec<(Rank, Score)> =
            nodes.iter().map(|rank| (rank, Score::default())).collect();
        score_likings(&self.class(&pod.shape.constraints).liking, &mut scores);
        scores.into_iter().map(|(rank, score)| (rank, score.taints + score.node_affinity)).collect()
    }
}

/// Returns these nodes in tiers of falling score; nothing if all are equal.
fn tiers_by_score(scores: &[(Rank, Score)]) -> Vec<RankSet> {
    let totals = || scores.iter().map(|(_, score)| score.total());
    let (Some(worst), Some(best)) = (totals().min(), totals().max()) else { return Vec::new() };
    if worst == best {
        return Vec::new();
    }
    // There are a few hundred different scores.
    let at = |total: i64| usize::try_from(best - total).unwrap_or(0);
    let mut tiers: Vec<RankSet> = vec![RankSet::new(); at(worst) + 1];
    for (rank, score) in scores {
        tiers[at(score.total())].insert(*rank);
    }
    tiers.retain(|tier| !tier.is_empty());
    tiers
}

fn has_room_for_one(
    fills: &Fills,
    nodes: &Nodes,
    rank: Rank,
    wanted: &Wanted,
    shape: &Shape,
) -> bool {
    fills.of(rank).has_room(wanted) && (!wanted.has_others || nodes.room(rank, shape) > 0)
}

/// Scores the nodes by their own properties.
fn score_likings(liking: &BTreeMap<Rank, Liking>, scores: &mut [(Rank, Score)]) {
    let found = || scores.iter().filter_map(|(rank, _)| liking.get(rank));
    let most = Liking {
        weight: found().map(|liking| liking.weight).max().unwrap_or(0),
        taints: found().map(|liking| liking.taints).max().unwrap_or(0),
    };
    for (rank, score) in scores {
        let Liking { weight, taints } = liking.get(rank).copied().unwrap_or_default();
        score.node_affinity = 2 * (BEST * weight).checked_div(most.weight).unwrap_or(0);
        score.taints = 3 * (BEST - (BEST * taints).checked_div(most.taints).unwrap_or(0));
    }
}

/// Scores the nodes by the pods that are there.
fn score_ratings(ratings: &Ratings, scores: &mut [(Rank, Score)]) {
    if let (Some(least), Some(most)) = (ratings.near.iter().min(), ratings.near.iter().max()) {
        for ((_, score), near) in scores.iter_mut().zip(&ratings.near).filter(|_| most > least) {
            score.pod_affinity = 2 * share(near - least, most - least);
        }
    }
    let crowded = || ratings.crowded.iter().flatten();
    let (least, most) =
        (crowded().min().copied().unwrap_or(0), crowded().max().copied().unwrap_or(0));
    for ((_, score), crowded) in scores.iter_mut().zip(&ratings.crowded) {
        let scaled =
            |crowded: &i64| (BEST * (most + least - crowded)).checked_div(most).unwrap_or(BEST);
        score.spread = 2 * crowded.as_ref().map_or(0, scaled);
    }
}

/// Returns this part of the best score; rounded down as kube-scheduler does it, in floating point.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "what kube-scheduler does, to the digit"
)]
fn share(part: i64, all: i64) -> i64 {
    (BEST as f64 * (part as f64 / all as f64)) as i64
}

/// The mean of what would be left of CPU and memory.
fn least_allocated(fill: &Fill, wanted: &Wanted) -> i64 {
    let (mut sum, mut resources) = (0, 0);
    for (part, used) in fill.with(wanted).iter().filter(|(part, _)| part.size > 0) {
        let left = part.size.saturating_sub(*used);
        sum += left.saturating_mul(BEST.unsigned_abs()) / part.size;
        resources += 1;
    }
    i64::try_from(sum.checked_div(resources).unwrap_or(0)).unwrap_or(0)
}

/// Scores whether the pod makes the use of CPU and memory more even, or less.
fn balanced(fill: &Fill, wanted: &Wanted) -> i64 {
    if wanted.cpu == 0 && wanted.memory == 0 {
        return 0;
    }
    let evenness = |cpu: u64, memory: u64| {
        if fill.cpu.size == 0 || fill.memory.size == 0 {
            return BEST;
        }
        evenness(
            (fill.cpu.used + cpu, fill.cpu.size),
            (fill.memory.used + memory, fill.memory.size),
        )
    };
    let (with, without) = (evenness(wanted.cpu, wanted.memory), evenness(0, 0));
    BEST / 2 + (BEST / 2 + with - without) / 2
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "what kube-scheduler does, to the digit"
)]
fn evenness(cpu: (u64, u64), memory: (u64, u64)) -> i64 {
    let fraction = |(used, size): (u64, u64)| (used as f64 / size as f64).min(1.0);
    let deviation = ((fraction(cpu) - fraction(memory)) / 2.0).abs();
    ((1.0 - deviation) * BEST as f64) as i64
}
