//! Which parts hold the needs of a rule the fewest times.

use std::cmp::Reverse;

use crate::amounts::amount_of;
use crate::graph::TypeId;
use crate::pools::Tenancy;
use crate::slot_search::candidates::Usable;
use crate::slot_search::flat::order::NodeOrder;
use crate::slot_search::flat::request::{SlotRequest, Start};
use crate::slot_search::flat::rule::Rule;
use crate::time::When;

use super::moment::Moment;
use super::rooms::rooms_of;

/// Units of tightness: how often a part holds the wanted units, in billionths.
const ONCE: u128 = 1_000_000_000;

/// The parts in which the units suffice, the tightest first.
pub(super) fn by_tightness(
    request: &SlotRequest<'_>,
    moment: Moment<'_>,
    usable: &Usable,
    rule: &Rule<'_>,
    level: usize,
) -> Vec<usize> {
    let pools = moment.pools;
    let Some(demand) = demand(request, rule) else { return Vec::new() };
    let is_counted =
        moment.start == Start::At(pools.by_node().now()) && request.tenancy == Tenancy::Shared;
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
        let rooms = rooms_of(request, rule, moment, usable);
        let parts =
            (0..rule.parts(pools)).filter(|part| rule.has_room(&request.shapes, &rooms, *part));
        parts
            .map(|part| (times_later(moment, level, part, &demand, request.tenancy), part))
            .collect()
    };
    parts.retain(|(times, _)| *times >= ONCE);
    let parts_of = pools.levels.get(level).parts();
    if matches!(moment.order, NodeOrder::Down) {
        parts.sort_unstable_by_key(|(times, part)| (*times, Reverse(parts_of[*part].ranks.last())));
    } else {
        parts.sort_unstable_by_key(|(times, part)| (*times, parts_of[*part].ranks.first()));
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// The units that the shapes of a rule take together; `None`: of a type that no node has.
fn demand(request: &SlotRequest<'_>, rule: &Rule<'_>) -> Option<Vec<(TypeId, u128)>> {
    let mut demand: Vec<(TypeId, u128)> = Vec::new();
    for shape in rule.shapes.iter().map(|shape| &request.shapes[*shape]) {
        for (kind, amount) in request.units_of(shape)? {
            let units = u128::from(amount) * u128::from(shape.count);
            *amount_of(&mut demand, kind) += units;
        }
    }
    Some(demand)
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
        Start::Best => When::Best,
        Start::Idle => When::Idle,
    };
    let free = pools.free(demand.iter().map(|(kind, _)| (Some(*kind), when)), tenancy);
    let counts =
        |row: &usize| moment.start == Start::Idle || pools.by_node().nodes().up().contains(*row);
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
