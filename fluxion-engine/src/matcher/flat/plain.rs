//! A place for all slots without a look at levels.

use super::order::NodeOrder;
use super::ranked::place_ranked;
use super::request::{Outcome, SlotRequest};
use super::several::place_several;
use super::shape::{Pick, Shape};
use super::taken::Taken;
use crate::bits::Bits;
use crate::matcher::candidates::Usable;
use crate::pools::Free;

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
    if let [shape] = &request.shapes[..] {
        place_one(request, shape, free, usable.tiers(0), order)
            .map_or(Outcome::Impossible, Outcome::Found)
    } else {
        place_several(request, free, usable, order)
    }
}

fn place_one(
    request: &SlotRequest<'_>,
    shape: &Shape<'_>,
    free: &Free<'_>,
    tiers: &[Bits],
    order: &NodeOrder<'_>,
) -> Option<Vec<Pick>> {
    if let NodeOrder::Ranked(ranked) = order {
        return place_ranked(request, 0, free, tiers, ranked, &Taken::default());
    }
    let cap = request.cap(shape);
    let mut missing = shape.count;
    let mut picks = Vec::new();
    shape.walk(free, tiers, order, |row| {
        let count = shape.room(free, row, missing.min(cap));
        if count > 0 {
            picks.push(Pick { shape: 0, row, count });
            missing -= count;
        }
        missing > 0
    });
    (missing == 0).then_some(picks)
}
