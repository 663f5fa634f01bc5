//! The domains of a label, of which pods that are to be near to each other need one.

use crate::plan::group::Group;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::cluster::{Cluster, KeyId};
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_workload::Shape;

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
pub(super) fn of_near(
    room: &mut Room<'_>,
    request: &Request,
) -> Option<(Vec<usize>, Vec<RankSet>)> {
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
