//! The slots that rows take, in a form in which they can flow: bounds for each shape, and for
//! all together.
//!
//! Shapes that are in each other's way on a row are one component of it, and each other shape is a
//! component of its own. So a row with room for all shapes has a component for each shape, and one
//! that takes a single slot has one component of one slot.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::flow::Network;
use super::problem::{Class, Picks, Problem, STEPS_MAX, weigh};
use crate::effort::Effort;
use crate::slot_search::flat::request::Outcome;
use crate::slot_search::flat::shape::Pick;
use crate::slot_search::flat::taken::Slots;

/// Shapes that are in each other's way on a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Component {
    /// By shape, how many slots of it alone; 0 for shapes that are not of this component.
    rooms: Slots,
    /// How many slots together, at most.
    most: u64,
    /// Any slots within these numbers fit.
    exact: bool,
}

/// Rows, with their classes, that have an equal component.
type Members = Vec<(usize, usize)>;

impl Problem {
    /// Slots as a flow. Gives up where it cannot tell whether what flows also fits.
    pub(super) fn by_flow(&self, effort: &Effort) -> Outcome {
        let groups = self.groups();
        let mut network = Network::new(self.counts.iter().map(|count| u128::from(*count)), 0);
        for (component, members) in &groups {
            let times = |slots: u64| u128::from(slots) * members.len() as u128;
            let of_shapes = component.rooms.iter().enumerate().filter(|(_, room)| **room > 0);
            network
                .group(times(component.most), of_shapes.map(|(shape, room)| (shape, times(*room))));
        }
        let saturated = network.saturate(effort.left());
        if !effort.take(network.steps as u64) {
            return Outcome::GaveUp;
        }
        match saturated {
            Some(true) => {}
            Some(false) => return Outcome::Impossible,
            None => return Outcome::GaveUp,
        }
        let mut picks = Picks::new();
        for (at, (component, members)) in groups.iter().enumerate() {
            let mut flow: Slots = smallvec::smallvec![0; self.counts.len()];
            for (shape, slots) in network.to_group(at) {
                flow[shape] = u64::try_from(slots).unwrap_or(u64::MAX);
            }
            if !self.deal_out(component, members, &mut flow, &mut picks) {
                return Outcome::GaveUp;
            }
        }
        Outcome::Found(picks)
    }

    /// Shares out what flows into equal components among their rows; says whether it fits there.
    fn deal_out(
        &self,
        component: &Component,
        members: &Members,
        flow: &mut Slots,
        picks: &mut Picks,
    ) -> bool {
        for (others, (row, class)) in (0..members.len() as u64).rev().zip(members) {
            // As much as possible, and at least the slots that the rows after it could not take.
            let mut here: Slots = flow
                .iter()
                .zip(&component.rooms)
                .map(|(flow, room)| flow.saturating_sub(room.saturating_mul(others)))
                .collect();
            let mut left = component.most - here.iter().sum::<u64>();
            for ((here, flow), room) in here.iter_mut().zip(flow.iter_mut()).zip(&component.rooms) {
                let more = (*room).min(*flow).saturating_sub(*here).min(left);
                *here += more;
                left -= more;
                *flow -= *here;
            }
            if !component.exact && !self.takes(&self.classes[*class], &here) {
                return false;
            }
            let some = here.iter().enumerate().filter(|(_, count)| **count > 0);
            picks.extend(some.map(|(shape, count)| Pick { shape, row: *row, count: *count }));
        }
        true
    }

    /// Whether the units of every constraint can flow to the rows, as far as the steps suffice to
    /// tell. If not, the slots do not fit.
    pub(super) fn units_flow(&self, effort: &Effort) -> bool {
        let mut steps = 0;
        self.weights.iter().enumerate().all(|(constraint, weights)| {
            if steps > STEPS_MAX || weights.iter().filter(|weight| **weight > 0).count() < 2 {
                return true;
            }
            let supplies = weights.iter().zip(&self.counts);
            let mut network = Network::new(
                supplies.map(|(weight, count)| u128::from(*weight) * u128::from(*count)),
                steps,
            );
            for class in &self.classes {
                let used = || {
                    weights
                        .iter()
                        .enumerate()
                        .filter(|(shape, weight)| **weight > 0 && class.rooms[*shape] > 0)
                };
                // No sum of slots leaves a smaller rest.
                let step = used().fold(0, |step, (_, weight)| divisor(step, *weight));
                let most = class.bounds[constraint].checked_div(step).unwrap_or(0) * step;
                let times = |units: u128| units * class.rows.len() as u128;
                let of_shapes = used().map(|(shape, weight)| {
                    (shape, times(u128::from(*weight) * u128::from(class.rooms[shape])))
                });
                network.group(times(u128::from(most)), of_shapes);
            }
            let flows = network.saturate(effort.left()) != Some(false);
            effort.take((network.steps - steps) as u64);
            steps = network.steps;
            flows
        })
    }

    /// All components of all rows, equal ones together.
    fn groups(&self) -> Vec<(Component, Members)> {
        let mut groups: Vec<(Component, Members)> = Vec::new();
        let mut known: HashMap<Component, usize> = HashMap::new();
        for (at, class) in self.classes.iter().enumerate() {
            for component in self.components(class) {
                let group = *known.entry(component).or_insert_with_key(|component| {
                    groups.push((component.clone(), Members::new()));
                    groups.len() - 1
                });
                groups[group].1.extend(class.rows.iter().map(|row| (*row, at)));
            }
        }
        groups
    }

    fn components(&self, class: &Class) -> Vec<Component> {
        let binds = |constraint: &usize| {
            weigh(&self.weights[*constraint], &class.rooms) > u128::from(class.bounds[*constraint])
        };
        let binding: SmallVec<[usize; 8]> = (0..self.weights.len()).filter(binds).collect();
        // The lowest shape of the component that a shape belongs to.
        let mut of: SmallVec<[usize; 8]> = (0..self.counts.len()).collect();
        for constraint in &binding {
            let shapes = || {
                (0..of.len()).filter(|shape| {
                    self.weights[*constraint][*shape] > 0 && class.rooms[*shape] > 0
                })
            };
            let joined: SmallVec<[usize; 8]> = shapes().map(|shape| of[shape]).collect();
            if let Some(first) = joined.iter().min().copied() {
                of.iter_mut()
                    .filter(|component| joined.contains(component))
                    .for_each(|component| *component = first);
            }
        }
        let firsts = (0..of.len()).filter(|shape| of[*shape] == *shape);
        let component = |first: usize| {
            let rooms = class
                .rooms
                .iter()
                .zip(&of)
                .map(|(room, component)| if *component == first { *room } else { 0 });
            self.component(class, rooms.collect(), &binding)
        };
        firsts
            .filter(|first| {
                (0..of.len()).any(|shape| of[shape] == *first && class.rooms[shape] > 0)
            })
            .map(component)
            .collect()
    }

    fn component(&self, class: &Class, rooms: Slots, binding: &[usize]) -> Component {
        let shapes: SmallVec<[usize; 8]> =
            (0..rooms.len()).filter(|shape| rooms[*shape] > 0).collect();
        if let [shape] = shapes[..] {
            return Component { most: rooms[shape], rooms, exact: true };
        }
        let bound = |constraint: usize| u128::from(class.bounds[constraint]);
        let mut most = rooms.iter().fold(0, |sum: u64, room| sum.saturating_add(*room));
        for constraint in binding.iter().copied() {
            let by_weight = sorted(&shapes, |shape| self.weights[constraint][shape]);
            most = most.min(lightest(&by_weight, &rooms, bound(constraint)));
        }
        if most > 1 && self.excludes_pairs(class, &shapes) {
            most = 1;
        }
        let exact = binding.iter().copied().all(|constraint| {
            let by_weight = sorted(&shapes, |shape| self.weights[constraint][shape]);
            heaviest(&by_weight, &rooms, most) <= bound(constraint)
        });
        Component { rooms, most, exact }
    }

    /// No two slots fit on a row of the class.
    fn excludes_pairs(&self, class: &Class, shapes: &[usize]) -> bool {
        shapes.iter().enumerate().all(|(at, first)| {
            shapes[at..].iter().all(|second| {
                let mut pair: Slots = smallvec::smallvec![0; self.counts.len()];
                pair[*first] += 1;
                pair[*second] += 1;
                !self.takes(class, &pair)
            })
        })
    }
}

/// Shapes with their weights, the lightest first.
fn sorted(shapes: &[usize], weight: impl Fn(usize) -> u64) -> SmallVec<[(u64, usize); 8]> {
    let mut sorted: SmallVec<[(u64, usize); 8]> =
        shapes.iter().map(|shape| (weight(*shape), *shape)).collect();
    sorted.sort_unstable();
    sorted
}

/// How many slots weigh no more than `bound`.
fn lightest(by_weight: &[(u64, usize)], rooms: &[u64], bound: u128) -> u64 {
    let (mut slots, mut left) = (0_u64, bound);
    for (weight, shape) in by_weight {
        let most = left
            .checked_div(u128::from(*weight))
            .and_then(|most| u64::try_from(most).ok())
            .unwrap_or(u64::MAX);
        let here = most.min(rooms[*shape]);
        slots = slots.saturating_add(here);
        left -= u128::from(*weight) * u128::from(here);
    }
    slots
}

/// The most that these slots can weigh.
fn heaviest(by_weight: &[(u64, usize)], rooms: &[u64], mut slots: u64) -> u128 {
    let mut sum = 0;
    for (weight, shape) in by_weight.iter().rev() {
        let here = slots.min(rooms[*shape]);
        sum += u128::from(*weight) * u128::from(here);
        slots -= here;
    }
    sum
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
