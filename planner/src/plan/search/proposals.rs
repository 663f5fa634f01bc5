//! Pods that have rules about other pods, each other included: near to some, apart from some,
//! spread among some.
//!
//! The graph knows nothing of pods. For one pod, the nodes that are open to it are the whole
//! answer. The pods of a gang are put on nodes in a trial first, one after the other, each where
//! the rule lets it with those before it: the emptiest domains first. The trial yields numbers of
//! slots per cell, which is a set of nodes that are alike to the rule, and these go to the
//! graph. Its answer is always checked pod by pod before it is taken. The trial also keeps the
//! rules of the pods about levels ([`limits`]). Where the trial fails although there would be room,
//! all ways are searched, up to a bound ([`ways`]).
//!
//! A place that is found is a real one, but the search may miss one that exists. A request that
//! misses is reported as such, and holds up no other unless a trial without the pods that have an
//! end finds a place (see [`super::together`]). No such request is promised a start, since its
//! nodes depend on pods that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::domains::{self, Wanted, first_and_widest, within};
use super::{trial, ways};
use crate::plan::group::Group;
use crate::plan::nodes::union;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::cluster::KeyId;
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet, Within};
use fluxqueue_machine::ledger::{Allocations, GroupRequest, LevelWant, LevelWants, SlotRequest};
use fluxqueue_workload::levels::RuleScope;

use super::cells::{Cells, Seats, Share};
use super::limits::LevelLimits;
use super::pieces::pieces;

/// Domains that are tried for pods that are to be in one, the tightest first; then some of the
/// others, the widest first.
const DOMAINS_TRIED_MAX: usize = 8;

/// Shares in one question to the graph at most; it looks for no place for more than 500 shapes.
const SHARES_MAX: usize = 400;

/// Takes slots for all pods on these nodes, in whatever parts of levels, and lets the pods in.
pub(super) fn place(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
    if request.asks_about_pods() {
        return place_crowded(room, request, nodes);
    }
    if let Some(slots) = place_as_preferred(room, request, nodes) {
        return Fit::Placed(slots);
    }
    let groups = room.ordered_groups(request, nodes);
    let mut fit = room.ledger.allocate(room.cluster, &groups);
    if let Fit::Placed(slots) = &mut fit {
        room.house(request, slots);
    }
    fit
}

/// Slots for all pods where they would rather be for each other, if such a place is found.
pub(crate) fn place_as_preferred(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Option<Allocations> {
    if !request.prefers_by_pods() || request.pods() == 1 {
        return None;
    }
    if room.forecast(request, nodes) != Forecast::Now {
        return None;
    }
    place_tried(room, request, nodes).placed()
}

/// Takes slots for all pods, such that each may be where it is.
fn place_crowded(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
    // The nodes that are open to one pod say all.
    if request.pods() == 1 {
        return place_shares(room, request, &whole(request, nodes));
    }
    let fit = if request.is_about_others() {
        place_shares(room, request, &whole(request, nodes))
    } else {
        Fit::NotNow
    };
    let fit = if matches!(fit, Fit::Placed(_)) { fit } else { place_tried(room, request, nodes) };
    if matches!(fit, Fit::Placed(_)) || room.forecast(request, nodes) != Forecast::Now {
        return fit;
    }
    // There is room for the pods, so it is the rule that was in the way.
    place_by_all_ways(room, request, nodes).map_or(Fit::NotFound, Fit::Placed)
}

/// The same where some way is found on which the pods can come one after the other.
fn place_by_all_ways(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Option<Allocations> {
    let nodes = room.open_to(request, nodes);
    let pieces = pieces(request);
    let mut limits = LevelLimits::of(request, &pieces, room.cluster, room.ledger);
    let cells = Cells::of(request, &nodes, union(&nodes).iter(), &mut limits, room);
    let found = ways::find(request, &pieces, &nodes, &cells, &mut limits, room.cluster)?;
    place_shares(room, request, &cells.shares(request, &pieces, &nodes, &found.slots)).placed()
}

/// Takes the slots that a trial gave to the pods.
fn place_tried(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
    let mut fit = Fit::NotNow;
    let nodes = room.open_to(request, nodes);
    for nodes in alternatives(room, request, &nodes) {
        if let Some(shares) = shares(room, request, &nodes) {
            fit = place_shares(room, request, &shares);
            if matches!(fit, Fit::Placed(_)) {
                break;
            }
        }
    }
    fit
}

/// Returns the node sets per group that are to be tried, one after the other. Pods that want to
/// be near to each other, and to no pod that is there, need one domain.
fn alternatives(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Vec<Vec<RankSet>> {
    let Some((near, domains)) = domains::of_near(room, request) else {
        return alternative_parts(room, request, nodes);
    };
    tightest(room, request, nodes, &near, domains)
}

/// The same for pods that are to be in one part of a level.
fn alternative_parts(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Vec<Vec<RankSet>> {
    let wants = |group: &Group| {
        let mut wants = group.levels.iter().flat_map(|wants| wants.iter());
        wants
            .find(|want| want.within == Within::One && !matches!(want.of, RuleScope::Slice(_)))
            .cloned()
    };
    let Some(want) = request.groups.iter().find_map(wants) else { return vec![nodes.to_vec()] };
    let together: Vec<usize> = (0..request.groups.len())
        .filter(|at| wants(&request.groups[*at]).as_ref() == Some(&want))
        .collect();
    let mut shapes =
        together.iter().flat_map(|at| &request.groups[*at].wants).map(|want| &want.shape);
    let is_one = shapes.next().is_none_or(|first| shapes.all(|shape| shape == first));
    if want.of == RuleScope::Role && want.role.is_none() && !is_one {
        // Each is to be in a part of its own choice.
        return vec![nodes.to_vec()];
    }
    let mut parts: BTreeMap<String, RankSet> = BTreeMap::new();
    for rank in together.iter().flat_map(|at| nodes[*at].iter()) {
        if let Some(part) = room.ledger.part_of(room.cluster, &want.level, rank) {
            parts.entry(part).or_default().insert(rank);
        }
    }
    tightest(room, request, nodes, &together, parts.into_values().collect())
}

/// Node sets per group, of which these groups are limited to one domain: those with room for
/// them, the tightest first.
fn tightest(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    near: &[usize],
    domains: Vec<RankSet>,
) -> Vec<Vec<RankSet>> {
    let mut shapes: Vec<(Wanted, u64, RankSet)> = Vec::new();
    let apart: Vec<Vec<KeyId>> =
        near.iter().map(|at| request.groups[*at].apart_by(room.cluster)).collect();
    for (at, apart) in near.iter().zip(&apart) {
        for want in &request.groups[*at].wants {
            match shapes.iter_mut().find(|(known, ..)| *known.shape == *want.shape) {
                Some((_, count, usable)) => {
                    *count += want.count as u64;
                    usable.union_with(&nodes[*at]);
                }
                None => {
                    let wanted = Wanted { shape: &want.shape, apart };
                    shapes.push((wanted, want.count as u64, nodes[*at].clone()));
                }
            }
        }
    }
    let mut by_room: Vec<(u64, usize, RankSet)> = Vec::new();
    for domain in domains {
        // That each shape has room for itself alone is enough to try: the graph knows the rest.
        let has_room = |(wanted, count, usable): &(Wanted, u64, RankSet)| {
            let mut left = *count;
            usable.intersection(&domain).iter().any(|rank| {
                left = left.saturating_sub(wanted.on_node(
                    rank,
                    room.cluster.nodes().room(rank, wanted.shape),
                    room.cluster,
                ));
                left == 0
            })
        };
        if shapes.iter().all(has_room) {
            let (sample, _, usable) = &shapes[0];
            let rooms =
                domain.iter().map(|rank| (rank, room.cluster.nodes().room(rank, sample.shape)));
            let (mut free, mut width) = (0, 0);
            for (rank, room) in rooms {
                free = u64::saturating_add(free, room);
                width += usize::from(room > 0 && usable.contains(rank));
            }
            by_room.push((free, width, domain));
        }
    }
    let tried = first_and_widest(by_room, DOMAINS_TRIED_MAX);
    tried.iter().map(|domain| within(nodes, near, domain)).collect()
}

/// Puts all pods on nodes one after the other, and takes that back. `None` if one finds no
/// node.
fn shares(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Option<Vec<Share>> {
    let pieces = pieces(request);
    let mut limits = LevelLimits::of(request, &pieces, room.cluster, room.ledger);
    let cells = Cells::of(request, nodes, union(nodes).iter(), &mut limits, room);
    room.count_trial(request.pods());
    let found = trial::find(request, &pieces, nodes, &cells, &mut limits, room.cluster)?;
    let shares = cells.shares(request, &pieces, nodes, &found.slots);
    (shares.len() <= SHARES_MAX).then_some(shares)
}

/// Nodes for all pods by a trial alone: the first of these that will do.
pub(super) fn seats_by_trial(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    ranks: &[Rank],
) -> Option<Seats> {
    let pieces = pieces(request);
    alternatives(room, request, nodes).into_iter().find_map(|nodes| {
        room.count_trial(request.pods());
        let mut limits = LevelLimits::of(request, &pieces, room.cluster, room.ledger);
        let usable = union(&nodes);
        let ranks = ranks.iter().copied().filter(|rank| usable.contains(*rank));
        let cells = Cells::of(request, &nodes, ranks, &mut limits, room);
        let (limits, cluster) = (&mut limits, &mut *room.cluster);
        let found = trial::find(request, &pieces, &nodes, &cells, limits, cluster);
        let found = found.or_else(|| ways::find(request, &pieces, &nodes, &cells, limits, cluster));
        found.map(|found| found.seats)
    })
}

fn place_shares(room: &mut Room<'_>, request: &Request, shares: &[Share]) -> Fit<Allocations> {
    let mut groups = Vec::with_capacity(shares.len());
    for share in shares {
        let group = &request.groups[share.group];
        let shape = Arc::clone(&group.wants[share.want].shape);
        let all = group.ordered_request(&share.nodes, room.cluster);
        let wants = vec![SlotRequest {
            slices: share.slices.clone(),
            ..SlotRequest::new(shape, share.count)
        }];
        let max_per_node = [share.max_per_node, all.max_per_node].into_iter().flatten().min();
        let levels = if share.keeps_levels { wishes(&all.levels) } else { all.levels.clone() };
        groups.push(GroupRequest { wants, max_per_node, levels, ..all });
    }
    let placed = match room.ledger.allocate(room.cluster, &groups) {
        Fit::Placed(placed) => placed,
        Fit::NotNow => return Fit::NotNow,
        Fit::NotFound => return Fit::NotFound,
    };
    let mut slots: Allocations = request
        .groups
        .iter()
        .map(|group| group.wants.iter().map(|_| Vec::new()).collect())
        .collect();
    for (share, of_share) in shares.iter().zip(placed) {
        slots[share.group][share.want].extend(of_share.into_iter().flatten());
    }
    if room.house(request, &mut slots) {
        return Fit::Placed(slots);
    }
    for allocation in slots.into_iter().flatten().flatten() {
        room.ledger.free(room.cluster, allocation);
    }
    Fit::NotFound
}

/// The request as it is.
fn whole(request: &Request, nodes: &[RankSet]) -> Vec<Share> {
    let mut shares = Vec::new();
    for (group, (of, nodes)) in request.groups.iter().zip(nodes).enumerate() {
        for (want, slots) in of.wants.iter().enumerate() {
            let (count, slices, nodes) = (slots.count, slots.slices.clone(), nodes.clone());
            shares.push(Share {
                group,
                want,
                count,
                slices,
                nodes,
                max_per_node: None,
                keeps_levels: false,
            });
        }
    }
    shares
}

/// Returns the wants about levels that are wishes, not conditions.
fn wishes(levels: &LevelWants) -> LevelWants {
    let wishes: Arc<[LevelWant]> = levels
        .iter()
        .flat_map(|wants| wants.iter())
        .filter(|want| want.within == Within::Fewest)
        .cloned()
        .collect();
    (!wishes.is_empty()).then_some(wishes)
}
