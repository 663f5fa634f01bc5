//! A place for all slots without a look at levels.

use super::order::NodeOrder;
use super::request::{Outcome, SlotRequest};
use super::several::{greedy, place_several};
use super::taken::Taken;
use crate::pools::Free;
use crate::slot_search::candidates::Usable;

/// Finds a place without a look at levels.
pub(super) fn place_plain(
    request: &SlotRequest<'_>,
    free: &Free<'_>,
    usable: &Usable,
    order: &NodeOrder<'_>,
) -> Outcome {
    if request.shapes.iter().any(|shape| shape.count == 0) {
        return Outcome::Impossible;
    }
    if request.shapes.len() != 1 {
        return place_several(request, free, usable, order);
    }
    let placed = greedy(request, &[0], free, |_| usable.tiers(0), order, Taken::default());
    placed.map_or(Outcome::Impossible, Outcome::Found)
}
