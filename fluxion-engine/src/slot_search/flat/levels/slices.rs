//! Slices that are to be even over the level of their parts: how many of them each part
//! gets.
//!
//! Where all are alike, this is arithmetic, as for single slots ([`shares`]): no search over which
//! slice is where.

use crate::bits::Bits;
use crate::slot_search::candidates::Usable;
use crate::slot_search::flat::request::{Outcome, SlotRequest};
use crate::slot_search::flat::rule::{Rule, Wanted, part_rows};

use super::moment::Moment;
use super::rooms::{parts_within, rooms_on};
use super::several::share_out;
use super::shares;
use super::tightness::by_tightness;

/// Shares out the slices of this rule and of all after it, if they are alike and are to be
/// even. `None`: they are not, or it is not found out in this way.
pub(super) fn share_out_slices(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    first: usize,
) -> Option<Outcome> {
    let pools = moment.pools;
    let (slices, bound, skew) = even_slices(request, moment, first)?;
    let slice = &request.shapes[slices[0]];
    let level = bound.level?;
    // Where shares differ, the tightest parts get more.
    let counts = parts_within(bound, pools, usable);
    let mut parts = by_tightness(request, moment, usable, &request.rules[first], level);
    parts.retain(|part| counts.contains(part));
    let others: Vec<usize> = counts.into_iter().filter(|part| !parts.contains(part)).collect();
    parts.extend(others);
    let rooms = rooms_together(request, bound, moment, usable)?;
    let in_slices = |part: &usize| rooms[*part].min(bound.most) / slice.count;
    let rooms: Vec<u64> = parts.iter().map(in_slices).collect();
    let shares = shares::evenly(&rooms, slices.len() as u64);
    let Some(shares) =
        shares.filter(|shares| shares::is_even(shares.iter().copied(), skew / slice.count))
    else {
        return Some(Outcome::Impossible);
    };
    let mut rows: Vec<Bits> =
        (0..request.shapes.len()).map(|shape| usable.wide_rows(shape)).collect();
    let mut left = slices.iter();
    for (part, share) in parts.iter().zip(shares).filter(|(_, share)| *share > 0) {
        let of_part = part_rows(pools, level, *part);
        for slice in left.by_ref().take(usize::try_from(share).ok()?) {
            rows[*slice].clone_from(&of_part);
        }
    }
    let found = share_out(
        request,
        moment,
        &usable.limited(&rows).with_width_of(usable, request.shapes.len()),
    );
    matches!(found, Outcome::Found(_)).then_some(found)
}

/// The shapes of slices, if these are all that are left to choose a part, and the rule by which
/// they are even, with its skew.
fn even_slices<'r>(
    request: &'r SlotRequest<'_>,
    moment: Moment<'_>,
    first: usize,
) -> Option<(Vec<usize>, &'r Rule<'r>, u64)> {
    let wants_one = |rule: &&Rule<'_>| {
        rule.within == Wanted::One || moment.is_strict && rule.within == Wanted::Fewest
    };
    let rules: Vec<&Rule<'_>> = request.rules[first..].iter().filter(wants_one).collect();
    let mut slices = Vec::with_capacity(rules.len());
    for rule in &rules {
        let &[slice] = &rule.shapes[..] else { return None };
        slices.push(slice);
    }
    let is_even = |rule: &&Rule<'_>| {
        rule.skew.is_some() && rule.level == rules[0].level && rule.shapes[..] == slices[..]
    };
    let bound = request.rules.iter().find(is_even)?;
    let size = request.shapes[slices[0]].count;
    let are_alike = size > 0 && slices.iter().all(|slice| request.shapes[*slice].count == size);
    let are_slices =
        rules.iter().all(|rule| rule.is_slice && rule.level == rules[0].level && rule.most >= size);
    (are_alike && are_slices).then_some((slices, bound, bound.skew?))
}

/// For how many slots under a rule each part has room, if all are alike, but for how many there
/// are of each shape.
pub(super) fn rooms_together(
    request: &SlotRequest<'_>,
    rule: &Rule<'_>,
    moment: Moment<'_>,
    usable: &Usable,
) -> Option<Vec<u64>> {
    let (first, others) = rule.shapes.split_first()?;
    let rows = usable.rows(*first);
    let is_alike = |other: &usize| {
        request.shapes[*other].is_like(&request.shapes[*first]) && usable.rows(*other) == rows
    };
    if !others.iter().all(is_alike) {
        return None;
    }
    let mut all = request.clone();
    all.shapes[*first].count = rule.wanted(&request.shapes);
    Some(rooms_on(&all, rule, *first, moment.pools, moment.free, &rows))
}
