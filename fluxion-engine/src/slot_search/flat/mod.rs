//! Slots of pool units: each slot takes its units from the pools of one node.
//!
//! Each shape has its own rows, tiers of preference and hold; caps on the slots of a node go
//! across shapes. One shape is placed exactly: if this finds no place, there is none. Several are
//! placed greedily in a few orders ([`several`]), and where that fails by searches that are exact
//! or give up ([`exact`]): then the answer is that nothing is known.

mod earliest;
mod exact;
mod holds;
pub(crate) mod levels;
mod order;
mod place;
mod plain;
mod quotas;
mod ranges;
mod ranked;
mod request;
mod rule;
mod search;
mod several;
mod shape;
mod soonest;
mod taken;

pub(crate) use request::{Outcome, SlotRequest, Start, has_ranges};
pub(crate) use search::search;
pub(crate) use shape::{Pick, Shape, by_count};
pub(crate) use soonest::{NotSoon, soonest};
