//! Requests with pods that are kept off nodes by pods that end. The cause may be anti-affinity, of
//! either side, or a host port, disk or claim that both need, or the number of volumes that a node
//! attaches.
//!
//! They wait for these ends as others wait for room, so that a stream of small jobs cannot keep one
//! of them away for ever. A request that is kept away by pods without an end waits for nothing. No
//! such request is promised a start: the nodes for its pods depend on pods that come and go.
//!
//! The nodes held for such a request have to be enough by the rules among its own pods, too. The
//! graph keeps the rule that no two may share a node. Where they may share no wider domain, or pods
//! of several groups are to be apart, a [`Sieve`] leaves each group such nodes that the graph
//! cannot break a rule by its choice among them. It may miss a way where labels overlap; then
//! nothing is held.

use std::collections::{BTreeSet, HashSet};

use super::together;
use crate::plan::group::Group;
use crate::plan::nodes::union;
use crate::plan::outcome::Outcome;
use crate::plan::pods::Pods;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::cluster::KeyId;
use fluxqueue_machine::fluxion::{Forecast, Rank, RankSet};

/// Which of the nodes that the groups of a request may use some day are left to them, such that its
/// own pods keep none of them away.
pub(super) struct Sieve {
    /// Groups of which no two pods may be in one domain of a label, by number; twice the same for
    /// pods of one group.
    rivals: Vec<(usize, usize, KeyId)>,
    /// Per group, the nodes where a pod of it could be once everything with an end has ended.
    nodes: Vec<RankSet>,
    /// The groups, those with the fewest nodes first.
    order: Vec<usize>,
}

impl Sieve {
    /// `None` if the graph keeps all that there is to be kept.
    pub(super) fn of(request: &Request, nodes: &[RankSet], room: &mut Room<'_>) -> Option<Self> {
        let rivals = rivals(request, nodes, room);
        if rivals.is_empty() {
            return None;
        }
        let nodes = room.eligible_by_group(request, nodes);
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|group| nodes[*group].len());
        Some(Sieve { rivals, nodes, order })
    }

    /// Per group, those of these nodes that it may use whatever the others of the request use: the
    /// first ones.
    pub(super) fn sift(&self, request: &Request, ranks: &[Rank], room: &Room<'_>) -> Vec<RankSet> {
        let among: RankSet = ranks.iter().copied().collect();
        let mut left: Vec<RankSet> =
            self.nodes.iter().map(|nodes| nodes.intersection(&among)).collect();
        let is_bound = |group: usize| {
            self.rivals.iter().any(|(one, other, _)| [*one, *other].contains(&group))
        };
        let bound: Vec<usize> =
            self.order.iter().copied().filter(|group| is_bound(*group)).collect();
        let mut pods: Vec<u64> = request.groups.iter().map(Group::size).collect();
        let mut taken: HashSet<(usize, KeyId, u32)> = HashSet::new();
        for group in &bound {
            left[*group] = RankSet::new();
        }
        for rank in ranks {
            for &group in &bound {
                if pods[group] == 0 || !self.nodes[group].contains(*rank) {
                    continue;
                }
                let rivals = self.rivals.iter().filter_map(|(one, other, key)| match group {
                    _ if *one == group => Some((*other, *key)),
                    _ if *other == group => Some((*one, *key)),
                    _ => None,
                });
                let domain = |key: KeyId| room.cluster.neighbours().domains(*rank, &[key])[0];
                let domains: Vec<(usize, KeyId, u32)> =
                    rivals.filter_map(|(rival, key)| Some((rival, key, domain(key)?))).collect();
                if domains.iter().any(|of_rival| taken.contains(of_rival)) {
                    continue;
                }
                taken.extend(domains.into_iter().map(|(_, key, domain)| (group, key, domain)));
                left[group].insert(*rank);
                pods[group] = pods[group].saturating_sub(self.room(request, group, *rank, room));
            }
        }
        left
    }

    /// Each node that is left to a group is in another domain, which no two of its pods may share.
    fn leaves_one_per_domain(&self, group: usize) -> bool {
        self.rivals.iter().any(|(one, other, _)| (*one, *other) == (group, group))
    }

    /// Returns how many pods of a group have room on a node, at least one.
    fn room(&self, request: &Request, group: usize, rank: Rank, room: &Room<'_>) -> u64 {
        let of = &request.groups[group];
        if self.leaves_one_per_domain(group) || of.stance.own.apart.contains(&true) {
            return 1;
        }
        let rooms =
            of.wants.iter().map(|want| room.ledger.room_some_day(room.cluster, rank, &want.shape));
        rooms.min().unwrap_or(1).max(1)
    }
}

/// Returns the pairs of groups of which no two pods may be in one domain of a label, except for the
/// rules that the graph keeps.
fn rivals(request: &Request, nodes: &[RankSet], room: &mut Room<'_>) -> Vec<(usize, usize, KeyId)> {
    let mut rivals = BTreeSet::new();
    for (one, group) in request.groups.iter().enumerate().filter(|(_, group)| group.repels_pods()) {
        let wider = group
            .apart_by(room.cluster)
            .into_iter()
            .filter(|key| !room.cluster.neighbours().tells_apart(*key, &nodes[one]));
        rivals.extend(wider.map(|key| (one, one, key)));
        for (other, of) in request.groups.iter().enumerate().filter(|(other, _)| *other != one) {
            let terms = &group.sample.shape.constraints.repels;
            let keys =
                room.cluster.reach().kept_out_of(terms, of.pods.iter().flat_map(Pods::distinct));
            rivals.extend(keys.into_iter().map(|key| (one.min(other), one.max(other), key)));
        }
    }
    rivals.into_iter().collect()
}

/// The nodes on which pods of a request could be, if it has come to nothing for the only reason
/// that pods with an end are in the way of its pods, or have to end first for these to be
/// apart.
pub(crate) fn nodes_waited_for(
    room: &mut Room<'_>,
    request: &Request,
    open: &[RankSet],
    outcome: &Outcome,
) -> Option<RankSet> {
    let is_not_found = *outcome == Outcome::NotFound;
    let nodes: Vec<RankSet> = request.groups.iter().map(|group| room.some_day(group)).collect();
    let are_others_in_the_way = nodes != open;
    if request.needs_a_trial() {
        return (is_not_found || are_others_in_the_way)
            .then(|| together::waited_for(room, request, &nodes))?;
    }
    let may_be_apart = is_not_found && request.groups.iter().any(Group::repels_pods);
    if nodes.iter().any(RankSet::is_empty) || !(are_others_in_the_way || may_be_apart) {
        return None;
    }
    let sieve = Sieve::of(request, &nodes, room);
    let all = union(&nodes);
    match forecast_on(room, request, &nodes, sieve.as_ref(), &all.iter().collect::<Vec<_>>()) {
        // There is room for its pods, and still no way was found: the end of other pods does
        // not help.
        Forecast::Now if !are_others_in_the_way => None,
        Forecast::Now | Forecast::At(_) | Forecast::Eventually => {
            Some(room.eligible(request, &nodes))
        }
        Forecast::Blocked | Forecast::Never | Forecast::NotFound => None,
    }
}

/// Returns when all pods could start on some of these nodes, such that their own rules are
/// kept.
fn forecast_on(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    sieve: Option<&Sieve>,
    ranks: &[Rank],
) -> Forecast {
    let within = within(room, request, nodes, sieve, ranks);
    if within.iter().any(RankSet::is_empty) {
        return Forecast::Never;
    }
    let Some(sieve) = sieve else { return room.forecast(request, &within) };
    let mut groups = room.groups(request, &within);
    groups
        .iter_mut()
        .enumerate()
        .for_each(|(at, group)| group.are_apart |= sieve.leaves_one_per_domain(at));
    room.ledger.forecast(&groups).unwrap_or(Forecast::Blocked)
}

/// Returns the nodes left to each group among these.
pub(super) fn within(
    room: &Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    sieve: Option<&Sieve>,
    ranks: &[Rank],
) -> Vec<RankSet> {
    if let Some(sieve) = sieve {
        return sieve.sift(request, ranks, room);
    }
    let among: RankSet = ranks.iter().copied().collect();
    nodes.iter().map(|nodes| nodes.intersection(&among)).collect()
}

/// The request could start on these nodes alone once everything with an end has ended.
pub(super) fn is_enough(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    sieve: Option<&Sieve>,
    ranks: &[Rank],
) -> bool {
    let forecast = forecast_on(room, request, nodes, sieve, ranks);
    matches!(forecast, Forecast::Now | Forecast::At(_) | Forecast::Eventually)
}
