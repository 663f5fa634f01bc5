//! Which part rules get that want one.
//!
//! The tightest comes first: the one with free units that, added up, hold the needs of the rule's
//! shapes together the fewest times, by the pool that is scarcest there. Parts in which the units
//! do not suffice at all are passed over, and so are those that would have more slots than another
//! rule lets them have, beside what other rules have chosen, or have no room beside slots like
//! these. Where slots are to be even, parts with the fewest of them come first.

use crate::graph::TypeId;
use crate::matcher::candidates::Usable;
use crate::matcher::flat::{NodeOrder, Request, Search, Start};
use crate::pools::{Pools, Tenancy};
use crate::time::When;

use super::rooms::{parts_within, rooms_of};
use super::{Moment, Rule, Wanted, part_rows};

/// More combinations of parts are not tried.
const TRIES_MAX: usize = 4_096;
/// Units of tightness: how often a part holds the wanted units, in billionths.
const ONCE: u128 = 1_000_000_000;

/// A part that a rule gets.
#[derive(Clone, Copy)]
struct Choice {
    rule: usize,
    part: usize,
}

impl Request<'_> {
    /// Tries the parts for all rules that want one.
    pub(super) fn choose_parts(&self, moment: Moment<'_>, usable: &Usable) -> Search {
        self.choose_from(moment, usable, 0, &mut Vec::new(), &mut TRIES_MAX.clone())
    }

    fn choose_from(
        &self,
        moment: Moment<'_>,
        usable: &Usable,
        from: usize,
        chosen: &mut Vec<Choice>,
        tries: &mut usize,
    ) -> Search {
        let wants_one = |at: &usize| match self.rules[*at].within {
            Wanted::One => true,
            Wanted::Fewest => moment.is_strict,
            _ => false,
        };
        let Some(at) = (from..self.rules.len()).find(wants_one) else {
            return self.share_out(moment, usable);
        };
        if let Some(answer) = self.share_out_slices(moment, usable, at) {
            return answer;
        }
        let rule = &self.rules[at];
        let Some(level) = rule.level.filter(|_| rule.wanted(self) <= rule.most) else {
            return Search::Impossible;
        };
        let is_first_slice =
            rule.is_slice && !chosen.iter().any(|choice| self.rules[choice.rule].is_slice);
        if is_first_slice && !self.may_be_even(moment, usable, at) {
            return Search::Impossible;
        }
        let mut parts = self.by_tightness(moment, usable, rule, level);
        let bounds = self.bounds(moment.pools, usable, at);
        for (bound, _) in bounds.iter().filter(|(bound, _)| rule.is_slice && bound.skew.is_some()) {
            let slots = |part: &usize| {
                self.slots_with(moment.pools, bound, chosen, Choice { rule: at, part: *part })
            };
            parts.sort_by_cached_key(|part| {
                slots(part).map_or(0, |slots| slots - self.slots_under(bound, [at]))
            });
        }
        let mut answer = Search::Impossible;
        let mut nth = 0;
        while let Some(part) = parts.get(nth).copied() {
            let choice = Choice { rule: at, part };
            let is_too_much = |(bound, most): &(&Rule<'_>, u64)| {
                self.slots_with(moment.pools, bound, chosen, choice)
                    .is_some_and(|slots| slots > *most)
            };
            if bounds.iter().any(is_too_much)
                || !self.has_room_beside(moment, usable, chosen, choice)
            {
                parts.remove(nth);
                continue;
            }
            if *tries == 0 || moment.pools.effort.is_spent() {
                return Search::GaveUp;
            }
            *tries -= 1;
            let rows = part_rows(moment.pools, level, part);
            let limited = usable.limited_for(&rule.shapes, self.shapes.len(), &rows);
            // Slots that may be in other parts as well are to be spread over them, and so are
            // slices over those of others.
            let is_bound_to_it = rule.within == Wanted::One && !rule.is_slice;
            let limited = if is_bound_to_it {
                limited
            } else {
                limited.with_width_of(usable, self.shapes.len())
            };
            chosen.push(choice);
            let further = self.choose_from(moment, &limited, at + 1, chosen, tries);
            chosen.pop();
            match further {
                Search::Found(picks) => return Search::Found(picks),
                Search::GaveUp => answer = Search::GaveUp,
                Search::Impossible => {}
            }
            nth += 1;
            if nth == 1 {
                // Units that suffice together may be in pieces.
                let rooms = rooms_of(self, rule, moment, usable);
                let (done, rest) = parts.split_at(1);
                let has_room = |part: &usize| rule.has_room(self, &rooms, *part);
                parts = done.iter().copied().chain(rest.iter().copied().filter(has_room)).collect();
            }
        }
        answer
    }

    /// Which parts count for a skew is known if none but slices are to choose one from this rule
    /// on.
    fn knows_what_counts(&self, from: usize) -> bool {
        self.rules[from..].iter().all(|rule| rule.within != Wanted::One || rule.is_slice)
    }

    /// Whether slots can be even by the room of parts, were they not in slices: there is no need to
    /// try all parts for slices otherwise.
    fn may_be_even(&self, moment: Moment<'_>, usable: &Usable, from: usize) -> bool {
        let mut even =
            self.rules.iter().filter(|rule| rule.skew.is_some() && self.knows_what_counts(from));
        even.all(|rule| {
            let rooms = self.rooms_together(rule, moment, usable);
            rooms.is_none_or(|rooms| {
                rule.may_fit(self, &vec![rooms], &parts_within(rule, moment.pools, usable))
            })
        })
    }

    /// The rules that bound the slots of a part, with the largest number of them, once the
    /// rules before this one have their parts.
    fn bounds(&self, pools: &Pools, usable: &Usable, from: usize) -> Vec<(&Rule<'_>, u64)> {
        let is_known = self.knows_what_counts(from);
        let most = |bound: &Rule<'_>| {
            let Some(skew) = bound.skew.filter(|_| is_known) else { return bound.most };
            let parts = parts_within(bound, pools, usable).len() as u64;
            // With this number in one part, all others have too few at least.
            let others = parts.saturating_sub(1).saturating_mul(skew);
            bound
                .wanted(self)
                .saturating_add(others)
                .checked_div(parts)
                .map_or(bound.most, |even| even.min(bound.most))
        };
        self.rules
            .iter()
            .map(|bound| (bound, most(bound)))
            .filter(|(_, most)| *most < u64::MAX)
            .collect()
    }

    /// How many slots under a rule a part would have, by all earlier choices and this one;
    /// `None`: that does not say.
    fn slots_with(
        &self,
        pools: &Pools,
        bound: &Rule<'_>,
        chosen: &[Choice],
        choice: Choice,
    ) -> Option<u64> {
        let part = self.lies_in(pools, bound, choice)?;
        let with_it =
            chosen.iter().filter(|known| self.lies_in(pools, bound, **known) == Some(part));
        Some(self.slots_under(bound, with_it.chain([&choice]).map(|choice| choice.rule)))
    }

    /// How many slots of some rules are under another one, too.
    fn slots_under(&self, bound: &Rule<'_>, rules: impl IntoIterator<Item = usize>) -> u64 {
        let shapes = rules.into_iter().flat_map(|rule| self.rules[rule].shapes.iter().copied());
        let mut shapes: Vec<usize> = shapes.filter(|shape| bound.shapes.contains(shape)).collect();
        shapes.sort_unstable();
        shapes.dedup();
        shapes.iter().map(|shape| self.shapes[*shape].count).fold(0, u64::saturating_add)
    }

    /// The part has room beside those that have chosen it before, as far as slots are like these.
    fn has_room_beside(
        &self,
        moment: Moment<'_>,
        usable: &Usable,
        chosen: &[Choice],
        choice: Choice,
    ) -> bool {
        let rule = &self.rules[choice.rule];
        let (&[shape], Some(level)) = (&rule.shapes[..], rule.level) else { return true };
        let is_there = |known: &&Choice| {
            self.rules[known.rule].level == rule.level && known.part == choice.part
        };
        let there = chosen
            .iter()
            .filter(is_there)
            .flat_map(|known| self.rules[known.rule].shapes.iter().copied());
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
            .filter(|other| *other != shape && self.shapes[*other].is_like(&self.shapes[shape]))
            .filter(|other| usable.rows(*other) == rows)
            .map(|other| self.shapes[other].count)
            .sum();
        let wanted = self.shapes[shape].count.saturating_add(alike);
        self.room_alone(&self.shapes[shape], moment.free, std::slice::from_ref(&rows), wanted)
            >= wanted
    }

    /// The part of a rule's level in which all of a chosen one lies.
    fn lies_in(&self, pools: &Pools, bound: &Rule<'_>, choice: Choice) -> Option<usize> {
        let level = self.rules[choice.rule].level?;
        if bound.level == Some(level) {
            return Some(choice.part);
        }
        let mut rows = pools.rows_of_part(level, choice.part);
        let part = bound.part_of(pools, rows.next()?)?;
        rows.all(|row| bound.part_of(pools, row) == Some(part)).then_some(part)
    }

    /// The parts in which the units suffice, the tightest first.
    pub(super) fn by_tightness(
        &self,
        moment: Moment<'_>,
        usable: &Usable,
        rule: &Rule<'_>,
        level: usize,
    ) -> Vec<usize> {
        let pools = moment.pools;
        let Some(demand) = self.demand(rule) else { return Vec::new() };
        let is_counted = moment.start == Start::At(pools.now()) && self.tenancy == Tenancy::Shared;
        let mut parts: Vec<(u128, usize)> = if is_counted {
            let places: Option<Vec<usize>> =
                demand.iter().map(|(kind, _)| pools.column_of(*kind)).collect();
            let Some(places) = places else { return Vec::new() };
            let free = pools.free_of_parts(level);
            let times = |sums: &[u128]| times(places.iter().map(|place| sums[*place]), &demand);
            free.iter().enumerate().map(|(part, sums)| (times(sums), part)).collect()
        } else {
            // Only parts with room are compared: to add up the units free later takes a look at
            // each node.
            let rooms = rooms_of(self, rule, moment, usable);
            let parts = (0..rule.parts(pools)).filter(|part| rule.has_room(self, &rooms, *part));
            parts
                .map(|part| (times_later(moment, level, part, &demand, self.tenancy), part))
                .collect()
        };
        parts.retain(|(times, _)| *times >= ONCE);
        let parts_of = pools.levels.get(level).parts();
        if matches!(moment.order, NodeOrder::Down) {
            parts.sort_unstable_by_key(|(times, part)| {
                (*times, std::cmp::Reverse(parts_of[*part].ranks.last()))
            });
        } else {
            parts.sort_unstable_by_key(|(times, part)| (*times, parts_of[*part].ranks.first()));
        }
        parts.into_iter().map(|(_, part)| part).collect()
    }

    /// The units that the shapes of a rule take together; `None`: of a type that no node has.
    fn demand(&self, rule: &Rule<'_>) -> Option<Vec<(TypeId, u128)>> {
        let mut demand: Vec<(TypeId, u128)> = Vec::new();
        for shape in rule.shapes.iter().map(|shape| &self.shapes[*shape]) {
            for (kind, amount) in self.units_of(shape)? {
                let units = u128::from(amount) * u128::from(shape.count);
                match demand.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, sum)) => *sum += units,
                    None => demand.push((kind, units)),
                }
            }
        }
        Some(demand)
    }
}

/// How often a part holds the wanted units at a moment for which that is not kept.
fn times_later(
    moment: Moment<'_>,
    level: usize,
    part: usize,
    demand: &[(TypeId, u128)],
    tenancy: Tenancy,
) -> u128 {
    let pools = moment.pools;
    let when = match moment.start {
        Start::At(at) => When::Window { from: at, to: at.saturating_add(1) },
        Start::Eventually => When::Eventually,
        Start::Idle => When::Idle,
    };
    let free = pools.free(demand.iter().map(|(kind, _)| (Some(*kind), when)), tenancy);
    let counts = |row: &usize| moment.start == Start::Idle || pools.up().contains(*row);
    let rows: Vec<usize> = pools.rows_of_part(level, part).filter(counts).collect();
    let sum = |kind: usize| rows.iter().map(|row| u128::from(free.units(kind, *row))).sum();
    times((0..demand.len()).map(sum), demand)
}

/// How often units hold the wanted ones.
fn times(free: impl Iterator<Item = u128>, demand: &[(TypeId, u128)]) -> u128 {
    let each =
        free.zip(demand).map(|(free, (_, units))| (free * ONCE).checked_div(*units).unwrap_or(0));
    each.min().unwrap_or(0)
}
