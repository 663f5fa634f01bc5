//! Which part rules get that want one.
//!
//! The tightest comes first: the one with free units that, added up, hold the needs of the rule's
//! shapes together the fewest times, by the pool that is scarcest there. Parts in which the units
//! do not suffice at all are passed over, and so are those that would have more slots than another
//! rule lets them have, beside what other rules have chosen, or have no room beside slots like
//! these. Where slots are to be even, parts with the fewest of them come first.

use crate::pools::Pools;
use crate::slot_search::candidates::Usable;
use crate::slot_search::flat::request::{Outcome, SlotRequest};
use crate::slot_search::flat::rule::{Rule, Wanted, part_rows};

use super::moment::Moment;
use super::rooms::{parts_within, rooms_of};
use super::several::share_out;
use super::slices::{rooms_together, share_out_slices};
use super::tightness::by_tightness;

/// More combinations of parts are not tried.
const TRIES_MAX: usize = 4_096;

/// A part that a rule gets.
#[derive(Clone, Copy)]
struct Choice {
    rule: usize,
    part: usize,
}

/// Tries the parts for all rules that want one.
pub(super) fn choose_parts(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
) -> Outcome {
    choose_from(request, moment, usable, 0, &mut Vec::new(), &mut TRIES_MAX.clone())
}

fn choose_from(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    from: usize,
    chosen: &mut Vec<Choice>,
    tries: &mut usize,
) -> Outcome {
    let wants_one = |at: &usize| match request.rules[*at].within {
        Wanted::One => true,
        Wanted::Fewest => moment.is_strict,
        _ => false,
    };
    let Some(at) = (from..request.rules.len()).find(wants_one) else {
        return share_out(request, moment, usable);
    };
    if let Some(answer) = share_out_slices(request, moment, usable, at) {
        return answer;
    }
    let rule = &request.rules[at];
    let Some(level) = rule.level.filter(|_| rule.wanted(&request.shapes) <= rule.most) else {
        return Outcome::Impossible;
    };
    let is_first_slice =
        rule.is_slice && !chosen.iter().any(|choice| request.rules[choice.rule].is_slice);
    if is_first_slice && !may_be_even(request, moment, usable, at) {
        return Outcome::Impossible;
    }
    let mut parts = by_tightness(request, moment, usable, rule, level);
    let bounds = bounds(request, moment.pools, usable, at);
    for (bound, _) in bounds.iter().filter(|(bound, _)| rule.is_slice && bound.skew.is_some()) {
        let slots = |part: &usize| {
            slots_with(request, moment.pools, bound, chosen, Choice { rule: at, part: *part })
        };
        parts.sort_by_cached_key(|part| {
            slots(part).map_or(0, |slots| slots - slots_under(request, bound, [at]))
        });
    }
    let mut answer = Outcome::Impossible;
    let mut nth = 0;
    while let Some(part) = parts.get(nth).copied() {
        let choice = Choice { rule: at, part };
        let is_too_much = |(bound, most): &(&Rule<'_>, u64)| {
            slots_with(request, moment.pools, bound, chosen, choice)
                .is_some_and(|slots| slots > *most)
        };
        if bounds.iter().any(is_too_much)
            || !has_room_beside(request, moment, usable, chosen, choice)
        {
            parts.remove(nth);
            continue;
        }
        if *tries == 0 || moment.pools.effort.is_spent() {
            return Outcome::GaveUp;
        }
        *tries -= 1;
        let rows = part_rows(moment.pools, level, part);
        let limited = usable.limited_for(&rule.shapes, request.shapes.len(), &rows);
        // Slots that may be in other parts as well are to be spread over them, and so are
        // slices over those of others.
        let is_bound_to_it = rule.within == Wanted::One && !rule.is_slice;
        let limited = if is_bound_to_it {
            limited
        } else {
            limited.with_width_of(usable, request.shapes.len())
        };
        chosen.push(choice);
        let further = choose_from(request, moment, &limited, at + 1, chosen, tries);
        chosen.pop();
        match further {
            Outcome::Found(picks) => return Outcome::Found(picks),
            Outcome::GaveUp => answer = Outcome::GaveUp,
            Outcome::Impossible => {}
        }
        nth += 1;
        if nth == 1 {
            // Units that suffice together may be in pieces.
            let rooms = rooms_of(request, rule, moment, usable);
            let (done, rest) = parts.split_at(1);
            let has_room = |part: &usize| rule.has_room(&request.shapes, &rooms, *part);
            parts = done.iter().copied().chain(rest.iter().copied().filter(has_room)).collect();
        }
    }
    answer
}

/// Which parts count for a skew is known if none but slices are to choose one from this rule
/// on.
fn knows_what_counts(request: &SlotRequest<'_>, from: usize) -> bool {
    request.rules[from..].iter().all(|rule| rule.within != Wanted::One || rule.is_slice)
}

/// Whether slots can be even by the room of parts, were they not in slices: there is no need to
/// try all parts for slices otherwise.
fn may_be_even(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    from: usize,
) -> bool {
    let mut even =
        request.rules.iter().filter(|rule| rule.skew.is_some() && knows_what_counts(request, from));
    even.all(|rule| {
        let rooms = rooms_together(request, rule, moment, usable);
        rooms.is_none_or(|rooms| {
            rule.may_fit(&request.shapes, &vec![rooms], &parts_within(rule, moment.pools, usable))
        })
    })
}

/// The rules that bound the slots of a part, with the largest number of them, once the
/// rules before this one have their parts.
fn bounds<'r>(
    request: &'r SlotRequest<'_>,
    pools: &Pools,
    usable: &Usable,
    from: usize,
) -> Vec<(&'r Rule<'r>, u64)> {
    let is_known = knows_what_counts(request, from);
    let most = |bound: &Rule<'_>| {
        let Some(skew) = bound.skew.filter(|_| is_known) else { return bound.most };
        let parts = parts_within(bound, pools, usable).len() as u64;
        // With this number in one part, all others have too few at least.
        let others = parts.saturating_sub(1).saturating_mul(skew);
        bound
            .wanted(&request.shapes)
            .saturating_add(others)
            .checked_div(parts)
            .map_or(bound.most, |even| even.min(bound.most))
    };
    request
        .rules
        .iter()
        .map(|bound| (bound, most(bound)))
        .filter(|(_, most)| *most < u64::MAX)
        .collect()
}

/// How many slots under a rule a part would have, by all earlier choices and this one;
/// `None`: that does not say.
fn slots_with(
    request: &SlotRequest<'_>,
    pools: &Pools,
    bound: &Rule<'_>,
    chosen: &[Choice],
    choice: Choice,
) -> Option<u64> {
    let part = lies_in(request, pools, bound, choice)?;
    let with_it =
        chosen.iter().filter(|known| lies_in(request, pools, bound, **known) == Some(part));
    Some(slots_under(request, bound, with_it.chain([&choice]).map(|choice| choice.rule)))
}

/// How many slots of some rules are under another one, too.
fn slots_under(
    request: &SlotRequest<'_>,
    bound: &Rule<'_>,
    rules: impl IntoIterator<Item = usize>,
) -> u64 {
    let shapes = rules.into_iter().flat_map(|rule| request.rules[rule].shapes.iter().copied());
    let mut shapes: Vec<usize> = shapes.filter(|shape| bound.shapes.contains(shape)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    shapes.iter().map(|shape| request.shapes[*shape].count).fold(0, u64::saturating_add)
}

/// The part has room beside those that have chosen it before, as far as slots are like these.
fn has_room_beside(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    chosen: &[Choice],
    choice: Choice,
) -> bool {
    let rule = &request.rules[choice.rule];
    let (&[shape], Some(level)) = (&rule.shapes[..], rule.level) else { return true };
    let is_there = |known: &&Choice| {
        request.rules[known.rule].level == rule.level && known.part == choice.part
    };
    let there = chosen
        .iter()
        .filter(is_there)
        .flat_map(|known| request.rules[known.rule].shapes.iter().copied());
    let mut there: Vec<usize> = there.collect();
    if there.is_empty() {
        return true;
    }
    // A shape under two of these rules is there once.
    there.sort_unstable();
    there.dedup();
    let mut rows = usable.rows(shape);
    rows.intersect(&part_rows(moment.pools, level, choice.part));
    let alike: u64 = there
        .into_iter()
        .filter(|other| *other != shape && request.shapes[*other].is_like(&request.shapes[shape]))
        .filter(|other| usable.rows(*other) == rows)
        .map(|other| request.shapes[other].count)
        .sum();
    let wanted = request.shapes[shape].count.saturating_add(alike);
    request.room_alone(&request.shapes[shape], moment.free, std::slice::from_ref(&rows), wanted)
        >= wanted
}

/// The part of a rule's level in which all of a chosen one lies.
fn lies_in(
    request: &SlotRequest<'_>,
    pools: &Pools,
    bound: &Rule<'_>,
    choice: Choice,
) -> Option<usize> {
    let level = request.rules[choice.rule].level?;
    if bound.level == Some(level) {
        return Some(choice.part);
    }
    let mut rows = pools.rows_of_part(level, choice.part);
    let part = bound.part_of(pools, rows.next()?)?;
    rows.all(|row| bound.part_of(pools, row) == Some(part)).then_some(part)
}
