//! Free units at a moment other than the present.

use std::borrow::Cow;

use super::{Claim, Pools, free};
use crate::time::{End, When};
use crate::vertex::TypeId;

/// The free units of some types at one moment, row by row. A column is `None` where no node ever had such a pool.
pub(crate) struct Moment<'a> {
    pub(crate) columns: Vec<Option<Cow<'a, [u64]>>>,
}

impl Pools {
    /// Free units of `kinds` at a moment.
    pub(crate) fn moment(&self, kinds: &[TypeId], when: When) -> Moment<'_> {
        let present = matches!(when, When::Window { from, .. } if from == self.now) && self.planned_total == 0;
        let columns = kinds.iter().map(|kind| {
            let column = self.column(*kind)?;
            Some(match when {
                When::Idle => Cow::Borrowed(&column.size[..]),
                When::Window { .. } if present => Cow::Borrowed(&column.free[..]),
                When::Window { .. } | When::Eventually => {
                    Cow::Owned((0..self.len()).map(|row| self.free_at(row, *kind, when)).collect())
                }
            })
        });
        Moment { columns: columns.collect() }
    }

    /// Instants at which something that is claimed now is given back, ascending, after now.
    pub(crate) fn ends(&self) -> Vec<i64> {
        let mut ends: Vec<i64> = self.claims.iter().flatten().filter_map(|claim| claim.freed_at(self.now)).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// Instants after now at which something of a row is given back, ascending.
    pub(crate) fn ends_of(&self, row: usize) -> Vec<i64> {
        let mut ends: Vec<i64> = self.claims[row].iter().filter_map(|claim| claim.freed_at(self.now)).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// What is free of a pool at an instant; `None`: now.
    pub(crate) fn free_of(&self, row: usize, kind: TypeId, at: Option<i64>) -> u64 {
        match at {
            None => self.column(kind).map_or(0, |column| column.free[row]),
            Some(at) => self.free_at(row, kind, When::Window { from: at, to: at }),
        }
    }

    /// Whether anything starts later than now.
    pub(crate) fn has_planned(&self) -> bool {
        self.planned_total > 0
    }

    fn free_at(&self, row: usize, kind: TypeId, when: When) -> u64 {
        let size = self.size(row, kind);
        match when {
            When::Idle => size,
            When::Eventually => free(size, self.used_by(row, kind, |claim| claim.end == End::Never)),
            When::Window { from, to } => {
                // Use only grows where something starts.
                let starts = self.claims[row].iter().filter(|claim| claim.planned).map(|claim| claim.start);
                let instants = starts.filter(|start| *start > from && *start < to).chain([from]);
                let used = instants.map(|at| self.used_by(row, kind, |claim| claim.counts_at(at, self.now)));
                free(size, used.max().unwrap_or(0))
            }
        }
    }

    /// What the claims that count use of a pool: all of it, where one of them is the whole node.
    pub(super) fn used_by(&self, row: usize, kind: TypeId, counts: impl Fn(&Claim) -> bool) -> u128 {
        let size = u128::from(self.size(row, kind));
        let of = |claim: &Claim| if claim.slot().is_some() { claim.units(kind) } else { size };
        self.claims[row].iter().filter(|claim| counts(claim)).map(of).sum()
    }
}

impl Claim {
    /// Whether it takes its part at an instant, as seen from `now`.
    pub(super) fn counts_at(&self, at: i64, now: i64) -> bool {
        (!self.planned || self.start <= at) && !self.end.over_at(at, now)
    }

    fn freed_at(&self, now: i64) -> Option<i64> {
        match self.end {
            End::At(end) => Some(end.max(now + 1)),
            End::Eventually | End::Never => None,
        }
    }

    /// Units of a type that its slots take.
    pub(crate) fn units(&self, kind: TypeId) -> u128 {
        let needs = self.slot().and_then(|slot| slot.needs.iter().find(|(needed, _)| *needed == kind));
        needs.map_or(0, |(_, amount)| u128::from(*amount) * u128::from(self.count))
    }
}
