//! Which part rules get that want one.
//!
//! The tightest comes first: the one whose free units, added up, hold what the rule's shapes take together the fewest times, by the
//! pool that is scarcest there. Parts in which the units do not suffice at all are passed over, and so are those that would have more
//! slots than another rule lets them have, beside what other rules have chosen.

use crate::graph::TypeId;
use crate::matcher::candidates::Usable;
use crate::matcher::flat::{NodeOrder, Request, Search, Start};
use crate::pools::{Pools, Tenancy};
use crate::time::When;

use super::rooms::rooms_of;
use super::{Moment, Rule, Wanted, part_rows};

/// More combinations of parts are not tried.
const TRIES_MAX: usize = 4_096;
/// How often a part holds what is wanted is counted in billionths.
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
        let rule = &self.rules[at];
        let Some(level) = rule.level.filter(|_| rule.wanted(self) <= rule.most) else { return Search::Impossible };
        let mut parts = self.by_tightness(moment, usable, rule, level);
        let mut answer = Search::Impossible;
        let mut nth = 0;
        while let Some(part) = parts.get(nth).copied() {
            let choice = Choice { rule: at, part };
            if self.is_too_much(moment.pools, chosen, choice) {
                parts.remove(nth);
                continue;
            }
            if *tries == 0 {
                return Search::GaveUp;
            }
            *tries -= 1;
            let rows = part_rows(moment.pools, level, part);
            let limited = usable.limited_for(&rule.shapes, self.shapes.len(), &rows);
            // Who may be in other parts as well is to be spread over them.
            let limited =
                if rule.within == Wanted::One { limited } else { limited.with_width_of(usable, self.shapes.len()) };
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

    /// A part would have more slots than some rule lets it have, by what has been chosen and this choice.
    fn is_too_much(&self, pools: &Pools, chosen: &[Choice], choice: Choice) -> bool {
        self.rules.iter().filter(|bound| bound.most < u64::MAX).any(|bound| {
            let Some(part) = self.lies_in(pools, bound, choice) else { return false };
            let with_it = chosen.iter().filter(|known| self.lies_in(pools, bound, **known) == Some(part));
            let rules = with_it.chain([&choice]).map(|choice| &self.rules[choice.rule]);
            let mut shapes: Vec<usize> = rules.flat_map(|rule| rule.shapes.iter().copied()).collect();
            shapes.sort_unstable();
            shapes.dedup();
            let counted = shapes.iter().filter(|shape| bound.shapes.contains(shape));
            counted.map(|shape| self.shapes[*shape].count).fold(0, u64::saturating_add) > bound.most
        })
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
    fn by_tightness(&self, moment: Moment<'_>, usable: &Usable, rule: &Rule<'_>, level: usize) -> Vec<usize> {
        let pools = moment.pools;
        let Some(demand) = self.demand(rule) else { return Vec::new() };
        let is_counted = moment.start == Start::At(pools.now()) && self.tenancy == Tenancy::Shared;
        let mut parts: Vec<(u128, usize)> = if is_counted {
            let places: Option<Vec<usize>> = demand.iter().map(|(kind, _)| pools.column_of(*kind)).collect();
            let Some(places) = places else { return Vec::new() };
            let free = pools.free_of_parts(level);
            let times = |sums: &[u128]| times(places.iter().map(|place| sums[*place]), &demand);
            free.iter().enumerate().map(|(part, sums)| (times(sums), part)).collect()
        } else {
            // Only parts with room are looked at: to add up what is free later takes a look at each node.
            let rooms = rooms_of(self, rule, moment, usable);
            let parts = (0..rule.parts(pools)).filter(|part| rule.has_room(self, &rooms, *part));
            parts.map(|part| (times_later(moment, level, part, &demand, self.tenancy), part)).collect()
        };
        parts.retain(|(times, _)| *times >= ONCE);
        let parts_of = pools.levels.get(level).parts();
        if matches!(moment.order, NodeOrder::Down) {
            parts.sort_unstable_by_key(|(times, part)| (*times, std::cmp::Reverse(parts_of[*part].ranks.last())));
        } else {
            parts.sort_unstable_by_key(|(times, part)| (*times, parts_of[*part].ranks.first()));
        }
        parts.into_iter().map(|(_, part)| part).collect()
    }

    /// What the shapes of a rule take together; `None`: of a type that no node has.
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

/// How often a part holds what is wanted at a moment for which that is not kept.
fn times_later(moment: Moment<'_>, level: usize, part: usize, demand: &[(TypeId, u128)], tenancy: Tenancy) -> u128 {
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

/// How often units hold what is wanted.
fn times(free: impl Iterator<Item = u128>, demand: &[(TypeId, u128)]) -> u128 {
    let each = free.zip(demand).map(|(free, (_, units))| (free * ONCE).checked_div(*units).unwrap_or(0));
    each.min().unwrap_or(0)
}
