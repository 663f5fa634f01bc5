//! Where a pod would rather be for the pods that are there, and where these would rather have it:
//! what kube-scheduler's plugins InterPodAffinity and PodTopologySpread find before they are
//! scaled.

use super::crowd::Crowd;
use super::tally::Tally;
use super::topology::DomainTable;
use crate::fluxion::Rank;

/// The label by which each node is a domain.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The ratings of some nodes for one pod, by the pods that are there.
#[derive(Debug, Default)]
pub(crate) struct Ratings {
    /// Per node, weights of its own terms and of others' that are met there; empty if there are
    /// none.
    pub(crate) near: Vec<i64>,
    /// Per node, how crowded its domains are; `None` where it lacks a label. Empty without
    /// constraints.
    pub(crate) crowded: Vec<Option<i64>>,
}

/// Returns the opinions of these nodes of a pod: the terms of pods that are there, and those of its
/// own class.
pub(super) fn rate(
    opinions: Vec<(bool, &Tally)>,
    crowd: Option<&Crowd>,
    topology: &DomainTable,
    ranks: &[Rank],
) -> Ratings {
    let mut terms: Vec<(i64, &Tally)> =
        opinions.into_iter().map(|(shuns, tally)| (if shuns { -1 } else { 1 }, tally)).collect();
    terms.extend(crowd.iter().flat_map(|crowd| crowd.preferred()));
    let weigh = |rank: &Rank| {
        let of_term = |(weight, tally): &(i64, &Tally)| {
            topology
                .domain(tally.key, *rank)
                .map_or(0, |domain| weight * i64::from(tally.of(domain)))
        };
        terms.iter().map(of_term).sum()
    };
    let near = if terms.is_empty() { Vec::new() } else { ranks.iter().map(weigh).collect() };
    let crowded = crowd.map_or_else(Vec::new, |crowd| crowded(crowd, ranks, topology));
    Ratings { near, crowded }
}

/// Returns how crowded the domains of each node are, by all constraints that may be broken.
fn crowded(crowd: &Crowd, ranks: &[Rank], topology: &DomainTable) -> Vec<Option<i64>> {
    let constraints = &crowd.says.preferred_spreads;
    if constraints.is_empty() {
        return Vec::new();
    }
    let tallies = crowd.preferred_spreads();
    let mut sums: Vec<Option<f64>> = ranks.iter().map(|_| Some(0.0)).collect();
    for tally in tallies {
        for (sum, rank) in sums.iter_mut().zip(ranks) {
            if topology.domain(tally.key(), *rank).is_none() {
                *sum = None;
            }
        }
    }
    for (says, tally) in constraints.iter().zip(tallies) {
        let counting = ranks.iter().zip(&sums).filter(|(_, sum)| sum.is_some());
        let domains = if &*says.topology_key == HOSTNAME {
            counting.count()
        } else {
            let mut seen: Vec<bool> = Vec::new();
            for domain in counting.filter_map(|(rank, _)| topology.domain(tally.key(), *rank)) {
                let domain = domain as usize;
                if seen.len() <= domain {
                    seen.resize(domain + 1, false);
                }
                seen[domain] = true;
            }
            seen.into_iter().filter(|seen| *seen).count()
        };
        // A pod more or less in one of many domains matters more than in one of few.
        #[expect(clippy::cast_precision_loss, reason = "there are fewer nodes than that")]
        let weight = ((domains + 2) as f64).ln();
        let tolerance = f64::from(says.max_skew - 1);
        for (sum, rank) in sums.iter_mut().zip(ranks) {
            if let (Some(sum), Some(domain)) = (sum, topology.domain(tally.key(), *rank)) {
                *sum += f64::from(tally.of(domain)) * weight + tolerance;
            }
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^63")]
    sums.into_iter().map(|sum| sum.map(|sum| sum.round() as i64)).collect()
}
