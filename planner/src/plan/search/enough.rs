//! Which nodes are held for a request that is passed by no more: no more of them than it needs,
//! those with the fewest ends in the way.

use std::sync::Arc;

use super::kept_away::Sieve;
use super::{kept_away, together};
use crate::plan::nodes::union;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::fluxion::{Rank, RankSet, Within};

/// Tries at most to do without some of the nodes that are to be held.
const TRIES_TO_LEAVE_OUT: usize = 64;

/// Returns the nodes held for a request, if they are still enough for it among the nodes that
/// it may use. A part of them may be enough after pods that it was to be near to have left.
pub(crate) fn still_enough_of(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    held: &Arc<RankSet>,
) -> Option<Arc<RankSet>> {
    if request.needs_a_trial() {
        let within: Vec<RankSet> = nodes.iter().map(|nodes| nodes.intersection(held)).collect();
        let enough = together::some_day(room, request, &within)?;
        return Some(if enough == **held { Arc::clone(held) } else { Arc::new(enough) });
    }
    let sieve = Sieve::of(request, nodes, room);
    let ranks = room.fewest_in_the_way_first(request, held);
    kept_away::is_enough(room, request, nodes, sieve.as_ref(), &ranks).then(|| Arc::clone(held))
}

/// True if these nodes are enough for a request once everything with an end has ended, by the
/// rules of the graph or a sieve.
pub(crate) fn are_enough_some_day(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> bool {
    let sieve = Sieve::of(request, nodes, room);
    let ranks: Vec<Rank> = union(nodes).iter().collect();
    kept_away::is_enough(room, request, nodes, sieve.as_ref(), &ranks)
}

/// The fewest of these nodes that are enough for a request once everything with an end has
/// ended, those with the fewest ends in the way.
pub(crate) fn fewest_that_are_enough(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Option<RankSet> {
    if request.needs_a_trial() {
        return together::some_day(room, request, nodes);
    }
    let sieve = Sieve::of(request, nodes, room);
    let sieve = sieve.as_ref();
    let eligible = room.eligible(request, nodes);
    let ranks = room.fewest_in_the_way_first(request, &eligible);
    let (mut low, mut high) = (0, ranks.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if kept_away::is_enough(room, request, nodes, sieve, &ranks[..middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let enough = enough_of(room, request, nodes, sieve, &ranks[..high]);
    let enough = without_needless(room, request, nodes, sieve, enough);
    let are_enough =
        high < ranks.len() || kept_away::is_enough(room, request, nodes, sieve, &enough);
    are_enough.then(|| union(&kept_away::within(room, request, nodes, sieve, &enough)))
}

/// Returns which nodes to hold, of nodes that are enough and would not be without the last of
/// them. Where all pods are to be in one part of a level, the nodes in the part of the last one
/// do, if they are enough: the others need not be held.
fn enough_of(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    sieve: Option<&Sieve>,
    ranks: &[Rank],
) -> Vec<Rank> {
    let wants =
        request.groups.iter().flat_map(|group| group.levels.iter().flat_map(|wants| wants.iter()));
    let levels: Vec<_> =
        wants.filter(|want| want.within == Within::One).map(|want| &want.level).collect();
    let (Some(level), Some(last)) = (levels.first(), ranks.last()) else {
        return ranks.to_vec();
    };
    let part = room.ledger.part_of(room.cluster, level, *last);
    let is_there =
        |rank: &&Rank| part.is_some() && room.ledger.part_of(room.cluster, level, **rank) == part;
    let there: Vec<Rank> = ranks.iter().filter(is_there).copied().collect();
    if kept_away::is_enough(room, request, nodes, sieve, &there) { there } else { ranks.to_vec() }
}

/// The same without nodes that others make needless: pods of several groups need different
/// ones, and those that are to be in parts of levels need few of each. Those with the most ends
/// in the way go first.
fn without_needless(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    sieve: Option<&Sieve>,
    mut ranks: Vec<Rank>,
) -> Vec<Rank> {
    if let [group] = &request.groups[..]
        && group.levels.is_none()
    {
        return ranks;
    }
    let (mut tries, mut size) = (TRIES_TO_LEAVE_OUT, ranks.len() / 2);
    while size > 0 {
        let mut end = ranks.len();
        while end > 0 && tries > 0 {
            let start = end.saturating_sub(size);
            let others = [&ranks[..start], &ranks[end..]].concat();
            if kept_away::is_enough(room, request, nodes, sieve, &others) {
                ranks = others;
            }
            (end, tries) = (start, tries - 1);
        }
        size /= 2;
    }
    ranks
}
