//! Several shapes, by searches that are exact as far as they go, and otherwise say that they gave
//! up.
//!
//! 1. *Flow* ([`parts`]): slots flow from shapes to rows. This is exact if every row, taken by
//!    itself, takes slots in one simple way: a bounded number of each shape and a bounded number
//!    together. A row of which at most one slot can be used is such a row, and so is one on which
//!    the shapes are not in each other's way, or all take the same. For other rows it is a
//!    relaxation: what does not flow does not fit, and what flows fits if it happens to on each
//!    row.
//! 2. *Units* ([`parts`]): for each pool and each limit, the units that slots take flow from shapes
//!    to rows. What does not flow does not fit.
//! 3. *Packing* ([`packing`]): row by row, all numbers of slots of the smaller shapes, with the
//!    most of the largest one beside them. Exact, and done only where it takes few steps.

mod flow;
mod packing;
mod parts;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use smallvec::SmallVec;

use super::taken::Slots;
use super::{NodeOrder, Pick, Request, Search};
use crate::bits::Bits;
use crate::effort::Effort;
use crate::pools::Free;

/// The most steps, of a few nanoseconds each, that reading the rows, flow, units and packing may
/// each take.
const STEPS_MAX: usize = 16_000_000;
/// More shapes are not searched for: a path along which slots flow may lead through all of them.
const SHAPES_MAX: usize = 500;

/// Shapes and rows as numbers: which slots a row can take is a matter of weights that must not
/// exceed bounds.
#[derive(Debug, Default)]
struct Problem {
    /// How many slots of each shape are wanted.
    counts: Vec<u64>,
    /// By constraint, that is pool or limit: the weight of a slot of each shape.
    weights: Vec<Vec<u64>>,
    classes: Vec<Class>,
}

/// Rows that can take the same slots.
#[derive(Debug)]
struct Class {
    /// By constraint, what all slots on a row may weigh.
    bounds: SmallVec<[u64; 8]>,
    /// By shape, how many slots of it alone fit on a row; 0 where it may not use these rows.
    rooms: Slots,
    rows: Vec<usize>,
}

/// Slots on rows.
type Picks = Vec<Pick>;

/// Looks for a place for all shapes of a request on the rows of each.
pub(super) fn search(
    request: &Request<'_>,
    free: &Free<'_>,
    rows: &[Bits],
    order: &NodeOrder<'_>,
) -> Search {
    let shapes = request.shapes.len();
    let of_row = shapes.saturating_mul(request.kinds.len() + request.limits.len());
    let reading = Bits::union(rows).count().saturating_mul(of_row);
    if shapes > SHAPES_MAX || reading > STEPS_MAX || !free.effort().take(reading as u64) {
        return Search::GaveUp;
    }
    let mut problem = Problem::of(request, free, rows);
    if matches!(order, NodeOrder::Down) {
        for class in &mut problem.classes {
            class.rows.reverse();
        }
        problem.classes.reverse();
    }
    problem.solve(free.effort())
}

impl Problem {
    fn of(request: &Request<'_>, free: &Free<'_>, rows: &[Bits]) -> Self {
        let counts: Vec<u64> = request.shapes.iter().map(|shape| shape.count).collect();
        let of_kind = |kind: usize| {
            let amount = |shape: &super::Shape<'_>| {
                shape.needs.iter().find(|need| need.0 == kind).map_or(0, |need| need.1)
            };
            request.shapes.iter().map(amount).collect()
        };
        let of_limit = |limit: usize| {
            request.shapes.iter().map(|shape| u64::from(shape.limits.contains(&limit))).collect()
        };
        let mut weights: Vec<Vec<u64>> = (0..request.kinds.len()).map(of_kind).collect();
        weights.extend((0..request.limits.len()).map(of_limit));
        // More than all slots together weigh is as good as that.
        let enough: Vec<u64> = weights
            .iter()
            .map(|weights| {
                let sum: u128 = weights
                    .iter()
                    .zip(&counts)
                    .map(|(weight, count)| u128::from(*weight) * u128::from(*count))
                    .sum();
                u64::try_from(sum).unwrap_or(u64::MAX)
            })
            .collect();
        let mut problem = Problem { counts, weights, classes: Vec::new() };
        let mut known: HashMap<(SmallVec<[u64; 8]>, Slots), usize> = HashMap::new();
        for row in Bits::union(rows).iter() {
            let units = (0..request.kinds.len()).map(|kind| free.units(kind, row));
            let limits = request.limits.iter().map(|limit| limit.count);
            let bounds: SmallVec<[u64; 8]> = units
                .chain(limits)
                .zip(&enough)
                .map(|(bound, enough)| bound.min(*enough))
                .collect();
            let rooms: Slots = (0..rows.len())
                .map(
                    |shape| {
                        if rows[shape].contains(row) { problem.room(shape, &bounds) } else { 0 }
                    },
                )
                .collect();
            if rooms.iter().all(|room| *room == 0) {
                continue;
            }
            let classes = &mut problem.classes;
            let at = *known.entry((bounds, rooms)).or_insert_with_key(|(bounds, rooms)| {
                classes.push(Class {
                    bounds: bounds.clone(),
                    rooms: rooms.clone(),
                    rows: Vec::new(),
                });
                classes.len() - 1
            });
            classes[at].rows.push(row);
        }
        problem
    }

    /// How many slots of a shape alone fit within these bounds.
    fn room(&self, shape: usize, bounds: &[u64]) -> u64 {
        let rooms = self
            .weights
            .iter()
            .zip(bounds)
            .filter_map(|(weights, bound)| bound.checked_div(weights[shape]));
        rooms.min().unwrap_or(u64::MAX).min(self.counts[shape])
    }

    /// Whether a row of a class takes these slots together.
    fn takes(&self, class: &Class, slots: &[u64]) -> bool {
        slots.iter().zip(&class.rooms).all(|(slots, room)| slots <= room)
            && self
                .weights
                .iter()
                .zip(&class.bounds)
                .all(|(weights, bound)| weigh(weights, slots) <= u128::from(*bound))
    }

    fn solve(&self, effort: &Effort) -> Search {
        let by_flow = self.by_flow(effort);
        if by_flow != Search::GaveUp {
            return by_flow;
        }
        if !self.units_flow(effort) {
            return Search::Impossible;
        }
        self.pack(effort)
    }
}

/// What slots weigh together.
fn weigh(weights: &[u64], slots: &[u64]) -> u128 {
    weights.iter().zip(slots).map(|(weight, slots)| u128::from(*weight) * u128::from(*slots)).sum()
}
