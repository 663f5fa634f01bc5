//! The better ones among the parts of levels that would do: these are tried first, in questions of
//! their own.
//!
//! The first of several pods that come one by one is to have the part with most room, since the
//! others follow. Pods that would like to be in one part, and fit in none, would still like to be
//! in one part of the next wider level.

use std::sync::Arc;

use crate::plan::group::Group;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::fluxion::{RankSet, Within};
use fluxqueue_machine::ledger::LevelWant;

/// Returns the request within the parts that it would rather have, the best first.
pub(super) fn of(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Vec<Request> {
    if request.groups.iter().all(|group| group.terms.levels.is_none()) {
        return Vec::new();
    }
    leading(room, request, nodes).into_iter().chain(within_wider(room, request)).collect()
}

/// Returns the same request for a leader that others follow, in the part that has most room
/// now: the tightest would soon be full.
fn leading(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Option<Request> {
    let leads = |group: &Group| wants(group).position(|want| want.leads);
    let (at, want) =
        request.groups.iter().enumerate().find_map(|(at, group)| Some((at, leads(group)?)))?;
    let asked = request.groups[at].request(&nodes[at], room.cluster);
    let explanation = room.ledger.explain(&[asked])?;
    let part = explanation.shapes.first()?.now.levels.get(want)?.part.clone()?;
    let of_part = |(other, known): (usize, &LevelWant)| {
        let mut known = known.clone();
        if other == want {
            known.within = Within::Part(part.as_str().into());
        }
        known
    };
    let mut led = request.clone();
    led.groups[at].terms.levels =
        Some(wants(&request.groups[at]).enumerate().map(of_part).collect());
    Some(led)
}

/// Returns the same request for pods that would like to be in one part of a level: within one
/// part of each wider level, the narrowest first.
fn within_wider(room: &Room<'_>, request: &Request) -> Vec<Request> {
    let is_soft = |want: &&LevelWant| want.within == Within::Fewest;
    let Some(soft) = request.groups.iter().find_map(|group| wants(group).find(is_soft)) else {
        return Vec::new();
    };
    let pods: usize =
        request.groups.iter().flat_map(|group| &group.wants).map(|want| want.count).sum();
    let wider = room.ledger.wider_levels(&soft.level).filter(|_| pods > 1);
    let within = |level: &Arc<str>| {
        let mut within = request.clone();
        for group in within.groups.iter_mut().filter(|group| wants(group).any(|want| want == soft))
        {
            let more = LevelWant { level: Arc::clone(level), within: Within::One, ..soft.clone() };
            group.terms.levels = Some(wants(group).cloned().chain([more]).collect());
        }
        within
    };
    wider.map(within).collect()
}

fn wants(group: &Group) -> impl Iterator<Item = &LevelWant> {
    group.terms.level_wants()
}
