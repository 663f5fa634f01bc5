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

    /// Claims of a row that end at a known instant, with the one at which they are gone.
    pub(crate) fn ending(&self, row: usize) -> impl Iterator<Item = (i64, &Claim)> {
        self.claims[row].iter().filter_map(|claim| Some((claim.freed_at(self.now)?, claim)))
    }

    /// Size and use of a pool now.
    pub(crate) fn use_of(&self, row: usize, kind: TypeId) -> (u64, u128) {
        self.column(kind).map_or((0, 0), |column| (column.size[row], column.used[row]))
    }

    /// Whether anything starts later than now.
    pub(crate) fn has_planned(&self) -> bool {
        self.planned_total > 0
    }

    fn free_at(&self, row: usize, kind: TypeId, when: When) -> u64 {
        let Some(column) = self.column(kind) else { return 0 };
        let claims = &self.claims[row];
        let used = match when {
            When::Idle => 0,
            When::Eventually => sum(claims, kind, |claim| claim.end == End::Never),
            // Nothing begins later: what is used now, without what has ended by then.
            When::Window { from, .. } if self.planned[row] == 0 => {
                column.used[row] - sum(claims, kind, |claim| claim.end.over_at(from, self.now))
            }
            When::Window { from, to } => {
                // Use only grows where something starts.
                let starts = claims.iter().map(|claim| claim.start).filter(|start| *start > from && *start < to);
                let used = starts
                    .chain([from])
                    .map(|at| sum(claims, kind, |claim| claim.start <= at && !claim.end.over_at(at, self.now)));
                used.max().unwrap_or(0)
            }
        };
        free(column.size[row], used)
    }
}

impl Claim {
    fn freed_at(&self, now: i64) -> Option<i64> {
        match self.end {
            End::At(end) => Some(end.max(now + 1)),
            End::Eventually | End::Never => None,
        }
    }

    /// Units of a type that it takes.
    pub(crate) fn units(&self, kind: TypeId) -> u128 {
        let needs = self.slot.needs.iter().find(|(needed, _)| *needed == kind);
        needs.map_or(0, |(_, amount)| u128::from(*amount) * u128::from(self.count))
    }
}

/// Units of a type of the claims that count.
pub(super) fn sum(claims: &[Claim], kind: TypeId, counts: impl Fn(&Claim) -> bool) -> u128 {
    claims.iter().filter(|claim| counts(claim)).map(|claim| claim.units(kind)).sum()
}
