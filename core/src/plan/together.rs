//! Gangs whose pods are to be near to each other, in one domain of a label, while no domain has room for all of them.
//!
//! They wait for work in one domain to end, so that a stream of small jobs cannot keep them away for ever; and what is held for one
//! lies in one domain. Of pods that want to be near to others nothing is said here: these say where.

use super::kept_away::Sieve;
use super::live::Live;
use super::{Group, Request};
use crate::fluxion::{Forecast, Rank, RankSet};
use crate::plan::Capacity;

/// Domains that are looked at for one request, those with the fewest ends in the way first.
const DOMAINS_MAX: usize = 8;

impl Request {
    /// Some of its pods are to be near to each other.
    pub(super) fn is_to_be_near(&self) -> bool {
        self.pods() > 1 && self.groups.iter().any(|group| group.stance.own.near)
    }
}

impl Live<'_> {
    /// Of pods that want to be near to each other, and to nobody who is there: their groups, by number, and the domains of which they
    /// need one.
    pub(super) fn domains_of_near(&mut self, request: &Request) -> Option<(Vec<usize>, Vec<RankSet>)> {
        let is_first = |group: &&Group| group.stance.own.near && self.cluster.is_first(&group.sample);
        let first = request.groups.iter().find(is_first).filter(|_| request.pods() > 1)?;
        let near = (0..request.groups.len()).filter(|at| request.groups[*at].stance.own.near).collect();
        Some((near, self.cluster.narrowest_domains(&first.sample)))
    }

    /// What is asked of other pods is no more than that all are near to each other.
    pub(super) fn are_only_to_be_near(&mut self, request: &Request) -> bool {
        let says_more = |group: &Group| {
            let constraints = &group.sample.shape.constraints;
            !constraints.spreads.is_empty() || (!constraints.near.is_empty() && !group.stance.own.near)
        };
        !request.groups.iter().any(says_more) && self.domains_of_near(request).is_some()
    }

    /// Node sets per group, each of which may be enough once everything with an end has ended: these nodes, or for pods that are to be
    /// near to each other those of one domain.
    pub(super) fn domains_to_wait_for(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<Vec<RankSet>> {
        let Some((near, domains)) = self.domains_of_near(request) else { return vec![nodes.to_vec()] };
        let mut by_ends: Vec<(u64, RankSet)> = domains
            .into_iter()
            .filter_map(|domain| {
                let ends = near.iter().map(|at| self.ends_in_the_way(&request.groups[*at], &nodes[*at], &domain));
                Some((ends.sum::<Option<u64>>()?, domain))
            })
            .collect();
        by_ends.sort_by_key(|(ends, _)| *ends);
        by_ends.iter().take(DOMAINS_MAX).map(|(_, domain)| within(nodes, &near, domain)).collect()
    }

    /// How many ends that nobody knows are in the way of a group on as many nodes of a domain as it needs, those with the fewest;
    /// `None` if there will never be room for it.
    fn ends_in_the_way(&self, group: &Group, nodes: &RankSet, domain: &RankSet) -> Option<u64> {
        let usable = nodes.intersection(domain);
        let mut by_ends: Vec<(u32, Rank)> = usable.iter().map(|rank| (self.ledger.unknown_ends(rank), rank)).collect();
        by_ends.sort_unstable();
        let mut most = 0;
        for want in &group.wants {
            // That each shape has room for itself alone is enough to try: the graph knows the rest.
            let (mut left, mut ends) = (want.count as u64, 0);
            for (of_node, rank) in &by_ends {
                if left == 0 {
                    break;
                }
                let room = self.ledger.room_some_day(self.cluster, *rank, &want.shape);
                if room > 0 {
                    ends += u64::from(*of_node);
                    left = left.saturating_sub(room);
                }
            }
            if left > 0 {
                return None;
            }
            most = most.max(ends);
        }
        Some(most)
    }

    /// The nodes of all domains in which pods that are to be near to each other could start when work there has ended; `None` if there
    /// is none, or if one has room now, so that something else is in the way.
    pub(super) fn waited_for_together(&mut self, request: &Request, nodes: &[RankSet]) -> Option<RankSet> {
        let mut all = RankSet::new();
        for nodes in self.domains_to_wait_for(request, nodes) {
            let sieve = Sieve::of(request, &nodes, self);
            let ranks: Vec<Rank> = super::kept_away::union(&nodes).iter().collect();
            match self.forecast_on(request, &nodes, sieve.as_ref(), &ranks) {
                Forecast::Now => return None,
                Forecast::At(_) | Forecast::Eventually => all.union_with(&self.eligible(request, &nodes)),
                Forecast::Blocked | Forecast::Never | Forecast::NotFound => {}
            }
        }
        (!all.is_empty()).then_some(all)
    }
}

/// The same nodes per group, but for these groups only those of a domain.
pub(super) fn within(nodes: &[RankSet], groups: &[usize], domain: &RankSet) -> Vec<RankSet> {
    let mut nodes = nodes.to_vec();
    for group in groups {
        nodes[*group].intersect_with(domain);
    }
    nodes
}
