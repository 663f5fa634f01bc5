//! Claims: the part of a node that a job has, or will have, from when until when.

use std::sync::Arc;

use smallvec::SmallVec;

use super::tenancy::Tenancy;
use crate::time::{End, When};
use crate::vertex::TypeId;

/// Units per type, sorted by type, none zero.
pub type Amounts = SmallVec<[(TypeId, u64); 4]>;

/// What one slot of a label takes of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotShape {
    /// The slot's label.
    pub label: Box<str>,
    /// Units of one slot.
    pub needs: Amounts,
    /// With which other slots it may be on a node.
    pub tenancy: Tenancy,
}

/// The extent of a claim on a node.
#[derive(Debug, Clone)]
pub(crate) enum Extent {
    /// Slots of one shape.
    Slots(Arc<SlotShape>),
    /// All of it.
    Node,
}

/// A part of one node that a job has, or will have.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) job: u64,
    pub(crate) extent: Extent,
    /// How many slots.
    pub(crate) count: u64,
    pub(crate) start: i64,
    pub(crate) end: End,
    /// It has not begun.
    pub(crate) planned: bool,
}

/// The properties that slots of one shape have in common, which a job was granted at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lot<'a> {
    pub(crate) job: u64,
    pub(crate) shape: &'a Arc<SlotShape>,
    pub(crate) times: (i64, End),
    /// They have not begun.
    pub(crate) planned: bool,
}

/// How many slots one claim may hold; keeps sums of units far below 128 bits.
pub(crate) const COUNT_MAX: u64 = u32::MAX as u64;

/// One pool of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// Its type.
    pub kind: TypeId,
    /// Its units.
    pub size: u64,
    /// Units that are claimed now, possibly more than there are.
    pub used: u128,
}

impl Claim {
    /// The shape of its slots; `None`: it is the whole node.
    pub(crate) fn slot(&self) -> Option<&Arc<SlotShape>> {
        if let Extent::Slots(slot) = &self.extent { Some(slot) } else { None }
    }

    /// True if it is one of slots that a job was granted at once.
    pub(super) fn is_of(&self, lot: &Lot<'_>) -> bool {
        self.job == lot.job
            && (self.start, self.end) == lot.times
            && self.planned == lot.planned
            && self.slot().is_some_and(|slot| slot == lot.shape)
    }

    /// Whether it takes its part at an instant, as seen from `now`.
    pub(super) fn counts_at(&self, at: i64, now: i64) -> bool {
        (!self.planned || self.start <= at) && !self.end.over_at(at, now)
    }

    /// Units of a type that its slots take.
    pub(super) fn units(&self, kind: TypeId) -> u128 {
        let needs =
            self.slot().and_then(|slot| slot.needs.iter().find(|(needed, _)| *needed == kind));
        needs.map_or(0, |(_, amount)| u128::from(*amount) * u128::from(self.count))
    }

    /// Whether slots may be on the node beside it.
    pub(super) fn suits(&self, tenancy: Tenancy) -> bool {
        match &self.extent {
            Extent::Slots(slot) => slot.tenancy.suits(tenancy),
            Extent::Node => false,
        }
    }

    /// Whether both may be on a node at once.
    pub(super) fn suits_claim(&self, other: &Claim) -> bool {
        self.slot().is_some_and(|slot| other.suits(slot.tenancy))
    }

    /// Whether it takes its part at any instant of a window, or at the one at which that begins.
    fn counts_within(&self, from: i64, to: i64, now: i64) -> bool {
        (!self.planned || self.start <= from || self.start < to) && !self.end.over_at(from, now)
    }

    /// Whether it takes its part at any instant of a moment, as seen from `now`.
    pub(super) fn counts(&self, when: When, now: i64) -> bool {
        match when {
            When::Idle => false,
            When::Eventually => self.end == End::Never,
            When::Best => !self.planned && !matches!(self.end, End::At(_)),
            When::Window { from, to } => self.counts_within(from, to, now),
        }
    }

    /// When it gives back its units; last, claims without a known end.
    pub(super) fn last(&self) -> i64 {
        if let End::At(end) = self.end { end } else { i64::MAX }
    }
}

/// The units left of a pool.
pub(super) fn free(size: u64, used: u128) -> u64 {
    size.saturating_sub(u64::try_from(used).unwrap_or(u64::MAX))
}
