//! Shapes and rows as numbers.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::bits::Bits;
use crate::pools::Free;
use crate::slot_search::flat::request::SlotRequest;
use crate::slot_search::flat::shape::{Pick, Shape};
use crate::slot_search::flat::taken::Slots;

/// The most steps, of a few nanoseconds each, that reading the rows, flow, units and packing may
/// each take.
pub(super) const STEPS_MAX: usize = 16_000_000;

/// Shapes and rows as numbers: which slots a row can take is a matter of weights that must not
/// exceed bounds.
#[derive(Debug, Default)]
pub(super) struct Problem {
    /// How many slots of each shape are wanted.
    pub(super) counts: Vec<u64>,
    /// By constraint, that is pool or cap: the weight of a slot of each shape.
    pub(super) weights: Vec<Vec<u64>>,
    pub(super) classes: Vec<Class>,
}

/// Rows that can take the same slots.
#[derive(Debug)]
pub(super) struct Class {
    /// By constraint, what all slots on a row may weigh.
    pub(super) bounds: SmallVec<[u64; 8]>,
    /// By shape, how many slots of it alone fit on a row; 0 where it may not use these rows.
    pub(super) rooms: Slots,
    pub(super) rows: Vec<usize>,
}

/// Slots on rows.
pub(super) type Picks = Vec<Pick>;

impl Problem {
    pub(super) fn of(request: &SlotRequest<'_>, free: &Free<'_>, rows: &[Bits]) -> Self {
        let counts: Vec<u64> = request.shapes.iter().map(|shape| shape.count).collect();
        let of_kind = |kind: usize| {
            let amount = |shape: &Shape<'_>| {
                shape.needs.iter().find(|need| need.0 == kind).map_or(0, |need| need.1)
            };
            request.shapes.iter().map(amount).collect()
        };
        let of_cap = |cap: usize| {
            request.shapes.iter().map(|shape| u64::from(shape.caps.contains(&cap))).collect()
        };
        let mut weights: Vec<Vec<u64>> = (0..request.kinds.len()).map(of_kind).collect();
        weights.extend((0..request.caps.len()).map(of_cap));
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
            let caps = request.caps.iter().map(|cap| cap.count);
            let bounds: SmallVec<[u64; 8]> =
                units.chain(caps).zip(&enough).map(|(bound, enough)| bound.min(*enough)).collect();
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
    pub(super) fn room(&self, shape: usize, bounds: &[u64]) -> u64 {
        let rooms = self
            .weights
            .iter()
            .zip(bounds)
            .filter_map(|(weights, bound)| bound.checked_div(weights[shape]));
        rooms.min().unwrap_or(u64::MAX).min(self.counts[shape])
    }

    /// Whether a row of a class takes these slots together.
    pub(super) fn takes(&self, class: &Class, slots: &[u64]) -> bool {
        slots.iter().zip(&class.rooms).all(|(slots, room)| slots <= room)
            && self
                .weights
                .iter()
                .zip(&class.bounds)
                .all(|(weights, bound)| weigh(weights, slots) <= u128::from(*bound))
    }
}

/// What slots weigh together.
pub(super) fn weigh(weights: &[u64], slots: &[u64]) -> u128 {
    weights.iter().zip(slots).map(|(weight, slots)| u128::from(*weight) * u128::from(*slots)).sum()
}
