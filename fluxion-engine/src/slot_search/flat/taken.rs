//! What shapes that were placed before have taken of rows, and what room they leave.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::quotas::Quotas;
use super::request::SlotRequest;
use super::shape::Shape;
use crate::pools::Free;

/// Slots by shape.
pub(super) type Slots = SmallVec<[u64; 4]>;

/// Slots that were placed before, and what parts of levels may still get.
#[derive(Debug, Default)]
pub(super) struct Taken<'a> {
    slots: HashMap<usize, Slots>,
    pub(super) quotas: Quotas<'a>,
}

impl<'a> Taken<'a> {
    /// Nothing, within bounds.
    pub(super) fn within(quotas: Quotas<'a>) -> Self {
        Taken { slots: HashMap::new(), quotas }
    }

    /// Slots on a row, if there are any.
    pub(super) fn on(&self, row: usize) -> Option<&Slots> {
        if self.slots.is_empty() { None } else { self.slots.get(&row) }
    }

    /// Rows with slots, in no particular order.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        self.slots.keys().copied()
    }

    /// Adds slots of one of `shapes` shapes.
    pub(super) fn add(&mut self, shapes: usize, shape: usize, row: usize, count: u64) {
        self.slots.entry(row).or_insert_with(|| smallvec::smallvec![0; shapes])[shape] += count;
    }
}

/// How many of up to `most` slots of a shape, by its position, a row has room for beside those
/// that were placed before.
pub(super) fn room_beside(
    request: &SlotRequest<'_>,
    at: usize,
    free: &Free<'_>,
    row: usize,
    taken: &Taken<'_>,
    most: u64,
) -> u64 {
    let shape = &request.shapes[at];
    let most = if taken.quotas.is_empty() { most } else { most.min(taken.quotas.left(at, row)) };
    let room = if most == 0 { 0 } else { shape.room(free, row, request.cap(shape).min(most)) };
    match taken.on(row) {
        Some(slots) if room > 0 => room_with(request, shape, free, row, slots, room),
        _ => room,
    }
}

/// How many of up to `most` slots of a shape a row has room for beside these, which fit there.
fn room_with(
    request: &SlotRequest<'_>,
    shape: &Shape<'_>,
    free: &Free<'_>,
    row: usize,
    slots: &[u64],
    most: u64,
) -> u64 {
    let there = || request.shapes.iter().zip(slots).filter(|(_, count)| **count > 0);
    let mut room = most;
    for cap in &shape.caps {
        let used: u64 =
            there().filter(|(other, _)| other.caps.contains(cap)).map(|(_, count)| count).sum();
        room = room.min(request.caps[*cap].count.saturating_sub(used));
    }
    for (kind, amount) in &shape.needs {
        let of_kind = |other: &Shape<'_>| {
            other.needs.iter().find(|(known, _)| known == kind).map_or(0, |need| need.1)
        };
        let used: u64 = there().map(|(other, count)| of_kind(other) * count).sum();
        let units = free.units(*kind, row);
        room = room.min(units.saturating_sub(used).checked_div(*amount).unwrap_or(0));
    }
    room
}
