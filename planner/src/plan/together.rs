//! Gangs of pods that let each other come to nodes, or keep each other off: they are to be near to
//! each other, or spread among each other, or mount volumes of which a node attaches a limited
//! number.
//!
//! The graph knows when there is room for them, and not where they may be together. While no nodes
//! admit them together, though there would be room, they wait for work to end, so that a stream of
//! small jobs cannot keep them away for ever. A trial on a copy of the nodes, without any pod that
//! has an end, finds where they could be then. The pods that they are to be near to, or spread
//! among, count there as now; and if that leads to nothing, only if they never end. Pods that come
//! later and would count stay away from domains where nodes are held.

use super::live::Live;
use super::nodes::union;
use super::{Group, Request};
use crate::plan::Capacity;
use fluxqueue_machine::cluster::{Cluster, KeyId};
use fluxqueue_machine::fluxion::{Forecast, Rank, RankSet};
use fluxqueue_workload::Shape;

/// Domains tried for one request at most, those with the fewest ends in the way first. The bound
/// limits the trials of one question.
const DOMAINS_MAX: usize = 8;

/// Further domains tried besides, those with the most nodes: pods that share few nodes may fit in
/// no other.
const WIDEST_MAX: usize = 4;

/// Pods of one shape.
pub(super) struct Wanted<'a> {
    pub(super) shape: &'a Shape,
    /// Labels of which no two of them may be in one domain.
    pub(super) apart: &'a [KeyId],
}

impl Wanted<'_> {
    /// Returns how many of them may come to a node that has room for `room` of them.
    pub(super) fn on_node(&self, rank: Rank, room: u64, cluster: &Cluster) -> u64 {
        let has_domain = || cluster.domains(rank, self.apart).iter().any(Option::is_some);
        if room > 1 && !self.apart.is_empty() && has_domain() { 1 } else { room }
    }
}

/// The pods that count among those that a request is to be near to, or spread among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    AsNow,
    ThatNeverEnd,
}

impl Request {
    /// True if some of its pods are to be near to each other.
    pub fn is_to_be_near(&self) -> bool {
        self.pods() > 1 && self.groups.iter().any(Group::is_near_its_own)
    }

    /// Returns which of its groups are to be near to each other, by number.
    fn near_their_own(&self) -> Vec<usize> {
        (0..self.groups.len()).filter(|at| self.groups[*at].is_near_its_own()).collect()
    }

    /// True if only a trial can tell whether all its pods may be on some nodes together.
    pub(super) fn needs_a_trial(&self) -> bool {
        self.pods() > 1 && (self.depends_on_order() || self.rests_on_volumes())
    }
}

impl Live<'_> {
    /// The nodes on which such a gang could be some day, if something there has to end before.
    pub(super) fn waited_for_together(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Option<RankSet> {
        let (found, others) = self.together_beside(request, nodes)?;
        let helps = others == Others::ThatNeverEnd || self.is_anybody_in_the_way(request, &found);
        // Otherwise no end helps.
        helps.then(|| self.eligible(request, nodes))
    }

    fn is_anybody_in_the_way(&mut self, request: &Request, nodes: &RankSet) -> bool {
        let ranks: Vec<Rank> = nodes.iter().collect();
        let keeps_away = |group: &Group| {
            self.cluster.passing(&group.sample, &ranks).iter().any(|passing| *passing > 0)
        };
        ranks.iter().any(|rank| self.ledger.has_passing(*rank))
            || request.groups.iter().any(keeps_away)
    }

    /// Returns some of these nodes on which all pods of a gang could be once everything with an end
    /// has ended, those with the fewest ends in the way.
    pub(super) fn together_some_day(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Option<RankSet> {
        self.together_beside(request, nodes).map(|(found, _)| found)
    }

    /// Returns the same, and the other pods on which the answer rests: the pods that they are to be
    /// near to, or spread among, as these are now, or else only those that never end.
    fn together_beside(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Option<(RankSet, Others)> {
        let all = union(nodes);
        let domains = self.domains_to_wait_for(request, nodes);
        let is_near = domains.is_some();
        let mut cluster = self.without_passing(request, &all);
        self.count_copy(all.len());
        let everywhere = vec![nodes.to_vec()];
        let tried = domains.as_ref().unwrap_or(&everywhere);
        if let Some(found) = self.first_domain_that_will_do(request, tried, &mut cluster) {
            return Some((found, Others::AsNow));
        }
        let as_now = is_near.then(|| cluster.clone());
        cluster.count_only_endless(request.groups.iter().map(|group| &*group.sample));
        if let Some(found) = self.first_domain_that_will_do(request, tried, &mut cluster) {
            return Some((found, Others::ThatNeverEnd));
        }
        // Beside others in several domains pods may be in each of these. That comes last: those
        // others may leave one domain before another.
        let mut as_now = as_now?;
        self.count_copy(all.len());
        let found = self.first_domain_that_will_do(request, &everywhere, &mut as_now);
        if let Some(found) = found {
            return Some((found, Others::AsNow));
        }
        let found = self.first_domain_that_will_do(request, &everywhere, &mut cluster)?;
        Some((found, Others::ThatNeverEnd))
    }

    /// Nodes of the first domain in which all pods can be together in that copy of the nodes.
    fn first_domain_that_will_do(
        &mut self,
        request: &Request,
        domains: &[Vec<RankSet>],
        cluster: &mut Cluster,
    ) -> Option<RankSet> {
        domains.iter().find_map(|nodes| {
            let usable = self.eligible_by_group(request, nodes);
            if usable.iter().any(RankSet::is_empty) {
                return None;
            }
            let ranks = self.fewest_in_the_way_first(request, &union(&usable));
            let found = self.on(cluster).nodes_by_trial(request, &usable, &ranks)?;
            let within: Vec<RankSet> =
                usable.iter().map(|usable| usable.intersection(&found)).collect();
            let forecast = self.forecast(request, &within);
            matches!(forecast, Forecast::Now | Forecast::At(_) | Forecast::Eventually)
                .then_some(found)
        })
    }

    /// A copy of the nodes in which nothing of these has an end.
    fn without_passing(&self, request: &Request, nodes: &RankSet) -> Cluster {
        let mut cluster = self.cluster.without_passing();
        if request.rests_on_volumes() {
            cluster.forget_volumes_of_passing();
        }
        for rank in nodes.iter().filter(|rank| self.ledger.has_passing(*rank)) {
            cluster.count_anew(rank, self.ledger.taken_for_ever(rank));
        }
        cluster
    }

    /// The same view of other nodes.
    pub(super) fn on<'a>(&'a mut self, cluster: &'a mut Cluster) -> Live<'a> {
        Live {
            ledger: self.ledger,
            cluster,
            promises: self.promises,
            queues: self.queues,
            accounts: self.accounts,
            suspects: self.suspects,
            suspects_version: self.suspects_version,
            now: self.now,
        }
    }

    /// Returns, for pods that want to be near to each other and to no pod that is there, their
    /// groups by number and the domains of which they need one.
    pub(super) fn domains_of_near(
        &mut self,
        request: &Request,
    ) -> Option<(Vec<usize>, Vec<RankSet>)> {
        let is_first =
            |group: &&Group| group.is_near_its_own() && self.cluster.is_first(&group.sample);
        let first = request.groups.iter().find(is_first).filter(|_| request.pods() > 1)?;
        Some((request.near_their_own(), self.cluster.narrowest_domains(&first.sample)))
    }

    /// Returns, for pods that are to be near to each other, the candidate domains among these
    /// nodes, per group: each may be enough once everything with an end has ended.
    fn domains_to_wait_for(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Option<Vec<Vec<RankSet>>> {
        let first = request.groups.iter().find(|group| group.is_near_its_own())?;
        let (near, domains) =
            (request.near_their_own(), self.cluster.narrowest_domains(&first.sample));
        let wanted: Vec<(usize, Vec<KeyId>)> =
            near.iter().map(|at| (*at, request.groups[*at].apart_by(self.cluster))).collect();
        let mut by_ends = Vec::new();
        for domain in domains {
            let of = |(at, apart): &(usize, Vec<KeyId>)| {
                self.ends_in_the_way(&request.groups[*at], apart, &nodes[*at].intersection(&domain))
            };
            let ends = wanted.iter().map(of);
            if let Some(ends) = ends.sum::<Option<u64>>() {
                by_ends.push((ends, nodes[near[0]].intersection(&domain).len(), domain));
            }
        }
        Some(
            first_and_widest(by_ends, DOMAINS_MAX)
                .iter()
                .map(|domain| within(nodes, &near, domain))
                .collect(),
        )
    }

    /// Returns how many unknown ends are in the way of a group, on as many of these nodes as it
    /// needs, those with the fewest; `None` if there will never be room for it. No two of its pods
    /// may be in one domain of the labels `apart`.
    fn ends_in_the_way(&self, group: &Group, apart: &[KeyId], usable: &RankSet) -> Option<u64> {
        let mut by_ends: Vec<(u32, Rank)> =
            usable.iter().map(|rank| (self.ledger.unknown_ends(rank), rank)).collect();
        by_ends.sort_unstable();
        let mut most = 0;
        for want in &group.wants {
            let wanted = Wanted { shape: &want.shape, apart };
            // That each shape has room for itself alone is enough to try: the graph knows the rest.
            let (mut left, mut ends) = (want.count as u64, 0);
            for (of_node, rank) in &by_ends {
                if left == 0 {
                    break;
                }
                let room = self.ledger.room_some_day(self.cluster, *rank, &want.shape);
                let room = wanted.on_node(*rank, room, self.cluster);
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
}

/// Returns some of these domains, up to both bounds: those that cost least first, and then the
/// widest of the others. Each comes with its cost and its width.
pub(super) fn first_and_widest(
    mut domains: Vec<(u64, usize, RankSet)>,
    first: usize,
) -> Vec<RankSet> {
    domains.sort_by_key(|(cost, ..)| *cost);
    let mut others = domains.split_off(first.min(domains.len()));
    others.sort_by_key(|(_, width, _)| std::cmp::Reverse(*width));
    domains
        .into_iter()
        .chain(others.into_iter().take(WIDEST_MAX))
        .map(|(.., domain)| domain)
        .collect()
}

/// The same nodes per group, but for these groups only those of a domain.
pub(super) fn within(nodes: &[RankSet], groups: &[usize], domain: &RankSet) -> Vec<RankSet> {
    let mut nodes = nodes.to_vec();
    for group in groups {
        nodes[*group].intersect_with(domain);
    }
    nodes
}
