//! Slots within parts of levels: racks, zones, whatever partitions the nodes
//! ([`crate::pools::levels`]).
//!
//! A request may have several rules ([`super::rule::Rule`]), each for some of its shapes on one
//! level: all in one part, or in as few as possible; a bounded number in each; spread, so that no
//! part has many more than another. What they leave is placed as without: preferences, caps per
//! node and policies order nodes within it.
//!
//! - [`choice`] tries the parts for rules that want one, the tightest first, and passes on the rest
//!   of the request's rows. Slices that are alike and are to be even over their level are shared
//!   out by [`slices`] before.
//! - [`shares`] says how many slots of one shape each part gets. This is exact.
//! - [`several`] shares out several shapes: greedily within bounds, and where that fails by all
//!   ways ([`all_ways`]), if they are few.
//!
//! [`super::quotas`] are the bounds that hold while slots are placed; [`Spread`] is the state that
//! a sweep over time reads, before it tries.

mod all_ways;
mod choice;
mod moment;
mod report;
mod rooms;
mod several;
mod shares;
mod slices;
mod tightness;

pub use report::{EvenSupply, LevelSupply, TogetherSupply};
pub(crate) use report::{level_supplies, narrow};
pub(super) use rooms::Spread;

use choice::choose_parts;
use moment::Moment;

use super::order::NodeOrder;
use super::request::{Outcome, SlotRequest, Start};
use super::rule::Wanted;
use crate::pools::{Free, Pools};
use crate::slot_search::candidates::Usable;

/// Finds a place for every slot within the rules.
pub(super) fn place_in_parts(
    request: &SlotRequest<'_>,
    pools: &Pools,
    start: Start,
    free: &Free<'_>,
    usable: &Usable,
    order: &NodeOrder<'_>,
) -> Outcome {
    let mut moment = Moment { pools, start, free, order, is_strict: false };
    if request.rules.iter().any(|rule| rule.within == Wanted::Fewest) {
        // One part is the fewest.
        moment.is_strict = true;
        if let Outcome::Found(picks) = choose_parts(request, moment, usable) {
            return Outcome::Found(picks);
        }
        moment.is_strict = false;
    }
    choose_parts(request, moment, usable)
}
