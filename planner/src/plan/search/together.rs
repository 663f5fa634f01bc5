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

use super::domains::{Wanted, first_and_widest, within};
use super::places;
use crate::plan::group::Group;

use crate::plan::nodes::union;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::cluster::{Cluster, KeyId};
use fluxqueue_machine::fluxion::{Rank, RankSet};

/// Domains tried for one request at most, those with the fewest ends in the way first. The bound
/// limits the trials of one question.
const DOMAINS_MAX: usize = 8;

/// The pods that count among those that a request is to be near to, or spread among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    AsNow,
    ThatNeverEnd,
}

/// The nodes on which such a gang could be some day, if something there has to end before.
pub(super) fn waited_for(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Option<RankSet> {
    let (found, others) = beside(room, request, nodes)?;
    let helps = others == Others::ThatNeverEnd || are_others_in_the_way(room, request, &found);
    // Otherwise no end helps.
    helps.then(|| room.eligible(request, nodes))
}

fn are_others_in_the_way(room: &mut Room<'_>, request: &Request, nodes: &RankSet) -> bool {
    let ranks: Vec<Rank> = nodes.iter().collect();
    let keeps_away = |group: &Group| {
        room.cluster.passing(&group.sample, &ranks).iter().any(|passing| *passing > 0)
    };
    ranks.iter().any(|rank| room.ledger.has_passing(*rank)) || request.groups.iter().any(keeps_away)
}

/// Returns some of these nodes on which all pods of a gang could be once everything with an end
/// has ended, those with the fewest ends in the way.
pub(super) fn some_day(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Option<RankSet> {
    beside(room, request, nodes).map(|(found, _)| found)
}

/// Returns the same, and the other pods on which the answer rests: the pods that they are to be
/// near to, or spread among, as these are now, or else only those that never end.
fn beside(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Option<(RankSet, Others)> {
    let all = union(nodes);
    let domains = domains_to_wait_for(room, request, nodes);
    let is_near = domains.is_some();
    let mut cluster = without_passing(room, request, &all);
    room.count_copy(all.len());
    let everywhere = vec![nodes.to_vec()];
    let tried = domains.as_ref().unwrap_or(&everywhere);
    if let Some(found) = first_domain_that_will_do(room, request, tried, &mut cluster) {
        return Some((found, Others::AsNow));
    }
    let as_now = is_near.then(|| cluster.clone());
    cluster.count_only_endless(request.groups.iter().map(|group| &*group.sample));
    if let Some(found) = first_domain_that_will_do(room, request, tried, &mut cluster) {
        return Some((found, Others::ThatNeverEnd));
    }
    // Beside others in several domains pods may be in each of these. That comes last: those
    // others may leave one domain before another.
    let mut as_now = as_now?;
    room.count_copy(all.len());
    let found = first_domain_that_will_do(room, request, &everywhere, &mut as_now);
    if let Some(found) = found {
        return Some((found, Others::AsNow));
    }
    let found = first_domain_that_will_do(room, request, &everywhere, &mut cluster)?;
    Some((found, Others::ThatNeverEnd))
}

/// Nodes of the first domain in which all pods can be together in that copy of the nodes.
fn first_domain_that_will_do(
    room: &mut Room<'_>,
    request: &Request,
    domains: &[Vec<RankSet>],
    cluster: &mut Cluster,
) -> Option<RankSet> {
    domains.iter().find_map(|nodes| {
        let usable = room.eligible_by_group(request, nodes);
        if usable.iter().any(RankSet::is_empty) {
            return None;
        }
        let ranks = room.fewest_in_the_way_first(request, &union(&usable));
        let found = places::nodes_for_all(&mut room.on(cluster), request, &usable, &ranks)?;
        let within: Vec<RankSet> =
            usable.iter().map(|usable| usable.intersection(&found)).collect();
        room.could_start(request, &within).then_some(found)
    })
}

/// Returns a copy of the nodes without the pods on these that have an end.
fn without_passing(room: &Room<'_>, request: &Request, nodes: &RankSet) -> Cluster {
    let mut cluster = room.cluster.without_passing();
    if request.rests_on_volumes() {
        cluster.forget_volumes_of_passing();
    }
    for rank in nodes.iter().filter(|rank| room.ledger.has_passing(*rank)) {
        cluster.set_use(rank, room.ledger.taken_for_ever(rank));
    }
    cluster
}

/// Returns, for pods that are to be near to each other, the candidate domains among these
/// nodes, per group: each may be enough once everything with an end has ended.
fn domains_to_wait_for(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Option<Vec<Vec<RankSet>>> {
    let first = request.groups.iter().find(|group| group.is_near_its_own())?;
    let (near, domains) = (request.near_their_own(), room.cluster.narrowest_domains(&first.sample));
    let wanted: Vec<(usize, Vec<KeyId>)> =
        near.iter().map(|at| (*at, request.groups[*at].apart_by(room.cluster))).collect();
    let mut by_ends = Vec::new();
    for domain in domains {
        let of = |(at, apart): &(usize, Vec<KeyId>)| {
            ends_in_the_way(room, &request.groups[*at], apart, &nodes[*at].intersection(&domain))
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
fn ends_in_the_way(
    room: &Room<'_>,
    group: &Group,
    apart: &[KeyId],
    usable: &RankSet,
) -> Option<u64> {
    let mut by_ends: Vec<(u32, Rank)> =
        usable.iter().map(|rank| (room.ledger.unknown_ends(rank), rank)).collect();
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
            let fitting = room.ledger.room_some_day(room.cluster, *rank, &want.shape);
            let fitting = wanted.on_node(*rank, fitting, room.cluster);
            if fitting > 0 {
                ends += u64::from(*of_node);
                left = left.saturating_sub(fitting);
            }
        }
        if left > 0 {
            return None;
        }
        most = most.max(ends);
    }
    Some(most)
}
