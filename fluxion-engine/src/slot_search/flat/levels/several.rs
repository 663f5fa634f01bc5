//! Sharing slots out over parts within the bounds of rules, once each rule that wants one part has
//! it.

use std::cmp::Reverse;

use crate::bits::Bits;
use crate::pools::Pools;
use crate::slot_search::candidates::Usable;
use crate::slot_search::flat::order::NodeOrder;
use crate::slot_search::flat::plain::place_plain;
use crate::slot_search::flat::quotas::Quotas;
use crate::slot_search::flat::request::{Outcome, SlotRequest};
use crate::slot_search::flat::rule::{Rule, Wanted, part_rows};
use crate::slot_search::flat::several::greedy;
use crate::slot_search::flat::shape::Pick;
use crate::slot_search::flat::taken::Taken;

use super::all_ways::all_ways;
use super::moment::Moment;
use super::rooms::{parts_within, rooms_of};
use super::shares;

/// By how many parts the fewest are looked for, where all ways are too many.
const PREFIX_MAX: usize = 64;

pub(super) fn share_out(request: &SlotRequest<'_>, moment: Moment<'_>, usable: &Usable) -> Outcome {
    let is_bound =
        |rule: &&Rule<'_>| rule.has_bounds() || rule.within == Wanted::Fewest && !moment.is_strict;
    let rules: Vec<&Rule<'_>> = request.rules.iter().filter(is_bound).collect();
    let Some(first) = rules.first() else {
        return place_plain(request, moment.free, usable, moment.order);
    };
    let level = first.level.filter(|level| rules.iter().all(|rule| rule.level == Some(*level)));
    match (&request.shapes[..], level) {
        ([_], Some(_)) => share_out_one(request, moment, usable, &rules),
        _ => share_out_several(request, moment, usable, &rules, level),
    }
}

/// One shape on one level: exact.
fn share_out_one(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    rules: &[&Rule<'_>],
) -> Outcome {
    let pools = moment.pools;
    let wanted = request.shapes[0].count;
    let most = rules.iter().map(|rule| rule.most).min().unwrap_or(u64::MAX);
    let skew = rules.iter().filter_map(|rule| rule.skew).min();
    let rule = rules[0];
    let mut left = vec![most; rule.parts(pools)];
    let has_fewest = !moment.is_strict && rules.iter().any(|rule| rule.within == Wanted::Fewest);
    if skew.is_some() || has_fewest {
        let rooms = &rooms_of(request, rule, moment, usable)[0];
        let parts = in_order(rule, moment, parts_within(rule, pools, usable));
        let of_parts: Vec<u64> = parts.iter().map(|part| rooms[*part].min(most)).collect();
        left.fill(0);
        if let Some(skew) = skew {
            let shares = shares::evenly(&of_parts, wanted);
            let Some(shares) =
                shares.filter(|shares| shares::is_even(shares.iter().copied(), skew))
            else {
                return Outcome::Impossible;
            };
            parts.iter().zip(shares).for_each(|(part, share)| left[*part] = share);
        } else {
            let Some(fewest) = shares::fewest(&of_parts, wanted) else {
                return Outcome::Impossible;
            };
            for at in fewest {
                left[parts[at]] = of_parts[at];
            }
        }
    }
    let mut quotas = Quotas::default();
    quotas.add(pools, rule, left);
    let placed = greedy(
        request,
        &[0],
        moment.free,
        |_| usable.tiers(0),
        moment.order,
        Taken::within(quotas),
    );
    placed.map_or(Outcome::Impossible, Outcome::Found)
}

fn share_out_several(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    rules: &[&Rule<'_>],
    level: Option<usize>,
) -> Outcome {
    let may_fit = |rule: &&Rule<'_>| {
        let rooms = rooms_of(request, rule, moment, usable);
        rule.may_fit(&request.shapes, &rooms, &parts_within(rule, moment.pools, usable))
    };
    if !rules.iter().all(may_fit)
        || place_plain(request, moment.free, usable, moment.order) == Outcome::Impossible
    {
        return Outcome::Impossible;
    }
    let has_fewest = !moment.is_strict && rules.iter().any(|rule| rule.within == Wanted::Fewest);
    if !has_fewest && let Some(picks) = place_bounded(request, moment, usable, rules) {
        return Outcome::Found(picks);
    }
    if let Some(level) = level
        && let Some(answer) = all_ways(request, moment, usable, rules, level)
    {
        return answer;
    }
    let by_prefix = if has_fewest { place_on_few(request, moment, usable, rules) } else { None };
    by_prefix.map_or(Outcome::GaveUp, Outcome::Found)
}

/// Greedily within the bounds.
fn place_bounded(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    rules: &[&Rule<'_>],
) -> Option<Vec<Pick>> {
    let pools = moment.pools;
    let eligible: Vec<Vec<usize>> =
        rules.iter().map(|rule| parts_within(rule, pools, usable)).collect();
    // With a skew, parts are filled up to where all slots would be shared out evenly, and then
    // somewhat further.
    let skew = rules.iter().filter_map(|rule| rule.skew).max().unwrap_or(0);
    let rows: Vec<Bits> = (0..request.shapes.len()).map(|shape| usable.rows(shape)).collect();
    let forth: Vec<usize> = (0..request.shapes.len()).collect();
    let back: Vec<usize> = forth.iter().rev().copied().collect();
    // Slots in large slices are uneven at once.
    for more in (0..=skew.min(8)).chain((skew > 8).then_some(skew)) {
        let taken = || {
            let mut quotas = Quotas::default();
            for (rule, eligible) in rules.iter().zip(&eligible) {
                let even =
                    rule.wanted(&request.shapes).div_ceil(eligible.len().max(1) as u64) + more;
                let most = if rule.skew.is_some() { rule.most.min(even) } else { rule.most };
                quotas.add(pools, rule, vec![most; rule.parts(pools)]);
            }
            Taken::within(quotas)
        };
        let (free, order) = (moment.free, moment.order);
        let found = [&forth, &back].into_iter().find_map(|shapes| {
            let preferred =
                greedy(request, shapes, free, |shape| usable.tiers(shape), order, taken());
            let on_any = || {
                greedy(request, shapes, free, |at| std::slice::from_ref(&rows[at]), order, taken())
            };
            preferred.or_else(on_any).filter(|picks| is_even(pools, rules, &eligible, picks))
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

/// On the parts with most room for the first rule that wants few, as few as suffice.
fn place_on_few(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    rules: &[&Rule<'_>],
) -> Option<Vec<Pick>> {
    let rule = rules.iter().find(|rule| rule.within == Wanted::Fewest)?;
    let rooms = rooms_of(request, rule, moment, usable);
    // How much of each shape there is room for, in thousandths.
    let share = |part: usize| -> u64 {
        let of_shape = |(shape, rooms): (&usize, &Vec<u64>)| {
            let count = request.shapes[*shape].count;
            (rooms[part].min(count) * 1_000).checked_div(count).unwrap_or(0)
        };
        rule.shapes.iter().zip(&rooms).map(of_shape).sum()
    };
    let mut parts = in_order(rule, moment, (0..rule.parts(moment.pools)).collect());
    parts.sort_by_key(|part| Reverse(share(*part)));
    let (mut rows, mut used) = (Bits::default(), 0);
    for part in parts.iter().take(PREFIX_MAX) {
        rows.unite(&part_rows(moment.pools, rule.level?, *part));
        used += 1;
        if used < 2 {
            continue;
        }
        let shapes = request.shapes.len();
        let limited = usable.limited_for(&rule.shapes, shapes, &rows).with_width_of(usable, shapes);
        if let Some(picks) = place_bounded(request, moment, &limited, rules) {
            return Some(picks);
        }
    }
    place_bounded(request, moment, usable, rules)
}

/// Parts in the order in which their nodes are taken.
fn in_order(rule: &Rule<'_>, moment: Moment<'_>, mut parts: Vec<usize>) -> Vec<usize> {
    let Some(level) = rule.level(moment.pools) else { return parts };
    parts.sort_unstable_by_key(|part| level.parts()[*part].ranks.first());
    if matches!(moment.order, NodeOrder::Down) {
        parts.sort_unstable_by_key(|part| Reverse(level.parts()[*part].ranks.last()));
    }
    parts
}

/// Whether picks keep the skews.
fn is_even(pools: &Pools, rules: &[&Rule<'_>], eligible: &[Vec<usize>], picks: &[Pick]) -> bool {
    rules.iter().zip(eligible).all(|(rule, eligible)| {
        let Some(skew) = rule.skew else { return true };
        let mut slots = vec![0; rule.parts(pools)];
        for pick in picks.iter().filter(|pick| rule.shapes.contains(&pick.shape)) {
            if let Some(part) = rule.part_of(pools, pick.row) {
                slots[part] += pick.count;
            }
        }
        shares::is_even(eligible.iter().map(|part| slots[*part]), skew)
    })
}
