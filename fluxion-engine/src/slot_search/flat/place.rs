//! A place for all slots at a moment, within the rules about levels.

use super::levels::place_in_parts;
use super::order::NodeOrder;
use super::plain::place_plain;
use super::request::{Outcome, SlotRequest, Start};
use crate::pools::{Free, Pools};
use crate::slot_search::candidates::Usable;

pub(super) fn place(
    request: &SlotRequest<'_>,
    pools: &Pools,
    start: Start,
    free: &Free<'_>,
    usable: &Usable,
    order: &NodeOrder<'_>,
) -> Outcome {
    let found = if request.rules.is_empty() {
        place_plain(request, free, usable, order)
    } else {
        place_in_parts(request, pools, start, free, usable, order)
    };
    if pools.effort.is_spent() {
        return Outcome::GaveUp;
    }
    match found {
        Outcome::Found(mut picks) => {
            picks.sort_unstable_by_key(|pick| (pick.shape, pick.row));
            Outcome::Found(picks)
        }
        not => not,
    }
}
