//! The domains of a label, and the parts of a level, of which pods that are to be near to each
//! other need one: the tightest are tried first.

use std::collections::BTreeMap;

use crate::plan::group::Group;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::cluster::{Cluster, KeyId};
use fluxqueue_machine::fluxion::{Rank, RankSet, Within};
use fluxqueue_workload::Shape;
use fluxqueue_workload::levels::RuleScope;

/// Domains that are tried for pods that are to be in one, the tightest first; then some of the
/// others, the widest first.
const DOMAINS_TRIED_MAX: usize = 8;

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
        let has_domain =
            || cluster.neighbours().domains(rank, self.apart).iter().any(Option::is_some);
        if room > 1 && !self.apart.is_empty() && has_domain() { 1 } else { room }
    }
}

/// Returns, for pods that want to be near to each other and to no pod that is there, their
/// groups by number and the domains of which they need one.
fn of_near(room: &mut Room<'_>, request: &Request) -> Option<(Vec<usize>, Vec<RankSet>)> {
    let is_first = |group: &&Group| group.is_near_its_own() && room.cluster.is_first(&group.sample);
    let first = request.groups.iter().find(is_first).filter(|_| request.pods() > 1)?;
    Some((request.near_their_own(), room.cluster.narrowest_domains(&first.sample)))
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

/// Returns the node sets per group that are to be tried, one after the other. Pods that want to
/// be near to each other, and to no pod that is there, need one domain.
pub(super) fn alternatives(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Vec<Vec<RankSet>> {
    let Some((near, domains)) = of_near(room, request) else {
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
        group
            .terms
            .level_wants()
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
