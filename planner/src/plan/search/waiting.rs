//! The nodes for which a request waits, and those of them that are held for one that is passed by
//! no more: no more than it needs, those with the fewest ends in the way.
//!
//! Pods that end may keep pods of a request off nodes by anti-affinity, of either side, or by a
//! host port, disk or claim that both need, or by the number of volumes that a node attaches. Such
//! a request waits for these ends as others wait for room, so that a stream of small jobs cannot
//! keep it away for ever. A request that is kept away by pods without an end waits for nothing. No
//! such request is promised a start: the nodes for its pods depend on pods that come and go.
//!
//! The graph says whether nodes are enough. Where pods have rules about each other that it does not
//! know, a search on a machine without all that ends says it (`together`).

use std::sync::Arc;

use super::together;
use crate::plan::group::Group;
use crate::plan::outcome::Outcome;
use crate::plan::pods::Pods;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::fluxion::{Forecast, Rank, RankSet, Within};

/// Tries at most to do without some of the nodes that are to be held.
const TRIES_TO_LEAVE_OUT: usize = 64;

/// True if the graph does not know all rules that pods of a request have about each other: it knows
/// that no two pods of a group may share a node.
fn needs_a_trial(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> bool {
    request.needs_a_trial()
        || (0..request.groups.len()).any(|at| keeps_own_away(room, request, at, &nodes[at]))
}

/// True if a group keeps other pods of its request away from more than a node, or from a node those
/// of other groups.
fn keeps_own_away(room: &mut Room<'_>, request: &Request, at: usize, nodes: &RankSet) -> bool {
    let group = &request.groups[at];
    if !group.repels_pods() {
        return false;
    }
    let apart_by = group.apart_by(room.cluster);
    if apart_by.iter().any(|key| !room.cluster.neighbours().tells_apart(*key, nodes)) {
        return true;
    }
    let others = request.groups.iter().enumerate().filter(|(other, _)| *other != at);
    let others = others.flat_map(|(_, other)| other.pods.iter().flat_map(Pods::distinct));
    let terms = &group.sample.shape.constraints.repels;
    !room.cluster.reach().kept_out_of(terms, others).is_empty()
}

/// Returns the nodes on which the request could be once pods with an end have ended, if only these
/// keep it off them, or keep its pods together.
pub(crate) fn nodes_waited_for(
    room: &mut Room<'_>,
    request: &Request,
    open: &[RankSet],
    outcome: &Outcome,
) -> Option<RankSet> {
    let is_not_found = *outcome == Outcome::NotFound;
    let nodes: Vec<RankSet> = request.groups.iter().map(|group| room.some_day(group)).collect();
    let are_others_in_the_way = nodes != open;
    if needs_a_trial(room, request, &nodes) {
        return (is_not_found || are_others_in_the_way)
            .then(|| together::waited_for(room, request, &nodes))?;
    }
    let may_be_apart = is_not_found && request.groups.iter().any(Group::repels_pods);
    if nodes.iter().any(RankSet::is_empty) || !(are_others_in_the_way || may_be_apart) {
        return None;
    }
    match room.forecast(request, &nodes) {
        // There is room for its pods, and still no way was found: the end of other pods does
        // not help.
        Forecast::Now if !are_others_in_the_way => None,
        Forecast::Now | Forecast::At(_) | Forecast::Eventually => {
            Some(room.eligible(request, &nodes))
        }
        Forecast::Blocked | Forecast::Never | Forecast::NotFound => None,
    }
}

/// True if the request could start on these nodes once everything with an end has ended, as far as
/// the graph knows.
fn are_enough(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> bool {
    !nodes.iter().any(RankSet::is_empty) && room.could_start(request, nodes)
}

/// True if the same holds of these of the nodes alone.
fn is_enough(room: &mut Room<'_>, request: &Request, nodes: &[RankSet], ranks: &[Rank]) -> bool {
    are_enough(room, request, &among(nodes, &ranks.iter().copied().collect()))
}

/// Returns which of the nodes of each group are among these.
fn among(nodes: &[RankSet], these: &RankSet) -> Vec<RankSet> {
    nodes.iter().map(|nodes| nodes.intersection(these)).collect()
}

/// Returns the nodes held for a request, if they are still enough for it among the nodes that
/// it may use. A part of them may be enough after pods that it was to be near to have left.
pub(crate) fn still_enough_of(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    held: &Arc<RankSet>,
) -> Option<Arc<RankSet>> {
    let within = among(nodes, held);
    if needs_a_trial(room, request, nodes) {
        let enough = together::some_day(room, request, &within)?;
        return Some(if enough == **held { Arc::clone(held) } else { Arc::new(enough) });
    }
    are_enough(room, request, &within).then(|| Arc::clone(held))
}

/// True if all pods of a request could be on these nodes together once everything with an end has
/// ended.
pub(crate) fn are_enough_some_day(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> bool {
    (!needs_a_trial(room, request, nodes) && are_enough(room, request, nodes))
        || together::some_day(room, request, nodes).is_some()
}

/// The fewest of these nodes that are enough for a request once everything with an end has
/// ended, those with the fewest ends in the way.
pub(crate) fn fewest_that_are_enough(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Option<RankSet> {
    if needs_a_trial(room, request, nodes) {
        return together::some_day(room, request, nodes);
    }
    let eligible = room.eligible(request, nodes);
    let ranks = room.fewest_in_the_way_first(request, &eligible);
    let (mut low, mut high) = (0, ranks.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_enough(room, request, nodes, &ranks[..middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let enough = enough_of(room, request, nodes, &ranks[..high]);
    let enough = without_needless(room, request, nodes, enough);
    let are_enough = high < ranks.len() || is_enough(room, request, nodes, &enough);
    are_enough.then(|| enough.into_iter().collect())
}

/// Returns which nodes to hold, of nodes that are enough and would not be without the last of
/// them. Where all pods are to be in one part of a level, the nodes in the part of the last one
/// do, if they are enough: the others need not be held.
fn enough_of(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    ranks: &[Rank],
) -> Vec<Rank> {
    let wants = request.groups.iter().flat_map(|group| group.terms.level_wants());
    let levels: Vec<_> =
        wants.filter(|want| want.within == Within::One).map(|want| &want.level).collect();
    let (Some(level), Some(last)) = (levels.first(), ranks.last()) else {
        return ranks.to_vec();
    };
    let part = room.ledger.part_of(room.cluster, level, *last);
    let is_there =
        |rank: &&Rank| part.is_some() && room.ledger.part_of(room.cluster, level, **rank) == part;
    let there: Vec<Rank> = ranks.iter().filter(is_there).copied().collect();
    if is_enough(room, request, nodes, &there) { there } else { ranks.to_vec() }
}

/// The same without nodes that others make needless: pods of several groups need different
/// ones, and those that are to be in parts of levels need few of each. Those with the most ends
/// in the way go first.
fn without_needless(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    mut ranks: Vec<Rank>,
) -> Vec<Rank> {
    if let [group] = &request.groups[..]
        && group.terms.levels.is_none()
    {
        return ranks;
    }
    let (mut tries, mut size) = (TRIES_TO_LEAVE_OUT, ranks.len() / 2);
    while size > 0 {
        let mut end = ranks.len();
        while end > 0 && tries > 0 {
            let start = end.saturating_sub(size);
            let others = [&ranks[..start], &ranks[end..]].concat();
            if is_enough(room, request, nodes, &others) {
                ranks = others;
            }
            (end, tries) = (start, tries - 1);
        }
        size /= 2;
    }
    ranks
}
