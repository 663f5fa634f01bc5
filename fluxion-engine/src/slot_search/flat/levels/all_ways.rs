//! Several shapes by all ways to share them out over the parts of a level, where they are few.
//!
//! The numbers of slots that each part can take are found; then the parts are put together one by
//! one, and for each sum of slots the way is kept that uses the fewest parts. With a skew that is
//! done for each number of slots that the part with the fewest may have.

use std::collections::HashMap;

use crate::bits::Bits;
use crate::slot_search::candidates::Usable;
use crate::slot_search::flat::plain::place_plain;
use crate::slot_search::flat::request::{Outcome, SlotRequest};
use crate::slot_search::flat::rule::{Rule, Wanted, part_rows};
use crate::slot_search::flat::shape::Pick;

use super::moment::Moment;
use super::rooms::parts_within;

/// The most numbers of slots on parts that are tried.
const ASKED_MAX: usize = 4_096;

/// How many slots of each shape.
type Counts = Vec<u64>;

/// What one place, a part or all that is in none, can take: each number of slots with where they
/// go.
struct Place {
    part: Option<usize>,
    ways: Vec<(Counts, Vec<Pick>)>,
}

/// Tries all numbers of slots on all parts; `None`: they are too many.
pub(super) fn all_ways(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    rules: &[&Rule<'_>],
    level: usize,
) -> Option<Outcome> {
    let mut vectors: Vec<Counts> = vec![Vec::new()];
    let parts = moment.pools.levels.get(level).parts().len();
    for shape in &request.shapes {
        let longer = |short: &Counts, count: u64| [&short[..], &[count]].concat();
        if vectors.len().saturating_mul(usize::try_from(shape.count).ok()?.saturating_add(1))
            * (parts + 1)
            > ASKED_MAX
        {
            return None;
        }
        vectors = vectors
            .iter()
            .flat_map(|short| (0..=shape.count).map(move |count| longer(short, count)))
            .collect();
    }
    let mut outside = Bits::full(moment.pools.len());
    outside.subtract(moment.pools.levels.get(level).rows());
    let mut gave_up = false;
    let mut places = Vec::new();
    for part in (0..parts).map(Some).chain([None]) {
        let rows =
            part.map_or_else(|| outside.clone(), |part| part_rows(moment.pools, level, part));
        let inside = usable.limited(&vec![rows; request.shapes.len()]);
        let mut ways = Vec::new();
        for counts in &vectors {
            if !moment.pools.effort.take(1) {
                return Some(Outcome::GaveUp);
            }
            match place_some(request, moment, &inside, counts) {
                Outcome::Found(picks) => ways.push((counts.clone(), picks)),
                Outcome::GaveUp => gave_up = true,
                Outcome::Impossible => {}
            }
        }
        places.push(Place { part, ways });
    }
    let eligible: Vec<Vec<usize>> =
        rules.iter().map(|rule| parts_within(rule, moment.pools, usable)).collect();
    let found = leasts(request, rules, &eligible)
        .into_iter()
        .filter_map(|leasts| combine(request, &places, rules, &eligible, &leasts));
    let best = found.min_by_key(|(cost, _)| *cost);
    Some(best.map_or(if gave_up { Outcome::GaveUp } else { Outcome::Impossible }, |(_, picks)| {
        Outcome::Found(picks)
    }))
}

/// The numbers that the part with the fewest slots may have, for each rule with a skew.
fn leasts(request: &SlotRequest<'_>, rules: &[&Rule<'_>], eligible: &[Vec<usize>]) -> Vec<Counts> {
    let mut all: Vec<Counts> = vec![Vec::new()];
    for (rule, eligible) in rules.iter().zip(eligible) {
        let most = if rule.skew.is_some() {
            rule.wanted(&request.shapes) / eligible.len().max(1) as u64
        } else {
            0
        };
        all = all
            .iter()
            .flat_map(|short| (0..=most).map(move |least| [&short[..], &[least]].concat()))
            .collect();
    }
    all
}

/// The cheapest way to have all slots on the places, by how many parts are used that are to be
/// few.
fn combine(
    request: &SlotRequest<'_>,
    places: &[Place],
    rules: &[&Rule<'_>],
    eligible: &[Vec<usize>],
    leasts: &[u64],
) -> Option<(usize, Vec<Pick>)> {
    let wanted: Counts = request.shapes.iter().map(|shape| shape.count).collect();
    let mut reached: HashMap<Counts, (usize, Vec<Pick>)> =
        HashMap::from([(vec![0; wanted.len()], (0, Vec::new()))]);
    for place in places {
        let mut next: HashMap<Counts, (usize, Vec<Pick>)> = HashMap::new();
        let ways: Vec<(usize, &(Counts, Vec<Pick>))> = place
            .ways
            .iter()
            .filter_map(|way| Some((cost(place.part, &way.0, rules, eligible, leasts)?, way)))
            .collect();
        for (counts, (cost, picks)) in &reached {
            for (more, (here, new)) in &ways {
                let sum: Counts = counts.iter().zip(here).map(|(a, b)| a + b).collect();
                if sum.iter().zip(&wanted).any(|(sum, wanted)| sum > wanted) {
                    continue;
                }
                let cost = cost + more;
                if next.get(&sum).is_none_or(|(known, _)| cost < *known) {
                    next.insert(sum, (cost, [&picks[..], &new[..]].concat()));
                }
            }
        }
        reached = next;
    }
    reached.remove(&wanted)
}

/// Places some of the slots, without a look at the rules.
fn place_some(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    counts: &Counts,
) -> Outcome {
    let some: Vec<usize> = (0..counts.len()).filter(|shape| counts[*shape] > 0).collect();
    if some.is_empty() {
        return Outcome::Found(Vec::new());
    }
    let mut request = request.clone();
    request.rules.clear();
    request.shapes = some
        .iter()
        .map(|at| {
            let mut shape = request.shapes[*at].clone();
            shape.count = counts[*at];
            shape
        })
        .collect();
    match place_plain(&request, moment.free, &usable.of_shapes(&some), moment.order) {
        Outcome::Found(mut picks) => {
            for pick in &mut picks {
                pick.shape = some[pick.shape];
            }
            Outcome::Found(picks)
        }
        not => not,
    }
}

/// The cost of `counts` slots on a place; `None`: the rules forbid it.
fn cost(
    part: Option<usize>,
    counts: &Counts,
    rules: &[&Rule<'_>],
    eligible: &[Vec<usize>],
    leasts: &[u64],
) -> Option<usize> {
    let mut cost = 0;
    for ((rule, eligible), least) in rules.iter().zip(eligible).zip(leasts) {
        let slots: u64 = rule.shapes.iter().map(|shape| counts[*shape]).sum();
        let is_bound = rule.skew.filter(|_| part.is_some_and(|part| eligible.contains(&part)));
        if slots > rule.most || is_bound.is_some_and(|skew| slots < *least || slots > least + skew)
        {
            return None;
        }
        cost += usize::from(rule.within == Wanted::Fewest && slots > 0);
    }
    Some(cost)
}
