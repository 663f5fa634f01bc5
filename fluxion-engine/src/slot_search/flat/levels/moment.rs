//! A search at some moment.

use crate::pools::{Free, Pools};
use crate::slot_search::flat::order::NodeOrder;
use crate::slot_search::flat::request::Start;

/// A search at some moment.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) pools: &'a Pools,
    pub(super) start: Start,
    pub(super) free: &'a Free<'a>,
    pub(super) order: &'a NodeOrder<'a>,
    /// True if slots that are to be in as few parts as possible are to be in one.
    pub(super) is_strict: bool,
}
