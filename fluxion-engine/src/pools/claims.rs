//! Taking and giving back units, and whole nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Claim, Part, Pools, SlotShape, Tenancy};
use crate::time::End;
use crate::vertex::TypeId;

impl Pools {
    /// Adds slots of a job on these rows, whether or not they fit.
    pub(crate) fn claim(
        &mut self,
        rows: &[(usize, u64)],
        job: u64,
        slot: &Arc<SlotShape>,
        (start, end): (i64, End),
    ) {
        let planned = start > self.now;
        for (row, count) in rows {
            let part = Part::Slots(Arc::clone(slot));
            self.add(*row, Claim { job, part, count: *count, start, end, planned });
        }
        self.list(rows.iter().map(|(row, _)| *row), (start, end), planned);
    }

    /// Gives the whole node to a job, whether or not it is free.
    pub(crate) fn claim_node(
        &mut self,
        row: usize,
        job: u64,
        (start, end): (i64, End),
        planned: bool,
    ) {
        self.add(row, Claim { job, part: Part::Node, count: 1, start, end, planned });
        self.list(std::iter::once(row), (start, end), planned);
    }

    fn add(&mut self, row: usize, claim: Claim) {
        self.remember(row);
        self.last(row, &claim, claim.count, true);
        if claim.planned {
            self.planned[row] += 1;
        } else {
            self.count(row, &claim, claim.count, true);
        }
        Arc::make_mut(&mut self.claims[row]).push(claim);
        self.changed(row);
    }

    /// Notes when claims on these rows begin and end.
    pub(super) fn list(
        &mut self,
        rows: impl ExactSizeIterator<Item = usize>,
        (start, end): (i64, End),
        planned: bool,
    ) {
        if rows.len() == 0 {
            return;
        }
        if planned {
            *self.starts.entry(start).or_default() += u32::try_from(rows.len()).unwrap_or(u32::MAX);
        }
        if let End::At(end) = end {
            let ranks = &self.ranks;
            self.ends.add(end, rows.map(|row| ranks[row]));
        }
    }

    /// A claim that was on a row, and is not among its claims any more, does not begin or end.
    pub(super) fn unlist(&mut self, claim: &Claim) {
        if claim.planned {
            unlist_start(&mut self.starts, claim.start);
        }
        if let End::At(end) = claim.end {
            let (ranks, claims) = (&self.ranks, &self.claims);
            let ends_then = |claim: &Claim| claim.end == End::At(end);
            let row_of = |rank: u32| ranks.binary_search(&rank).ok();
            self.ends.remove(end, |rank| {
                row_of(rank).is_some_and(|row| claims[row].iter().any(ends_then))
            });
        }
    }

    /// Gives back all slots of a job on a node. Returns whether there were any.
    pub(crate) fn release_job(&mut self, row: usize, job: u64) -> bool {
        let before = self.claims[row].len();
        let mut at = 0;
        while at < self.claims[row].len() {
            let claim = &self.claims[row][at];
            if claim.job == job && claim.slot().is_some() {
                self.remove(row, at);
            } else {
                at += 1;
            }
        }
        self.claims[row].len() < before
    }

    /// Gives back a whole node that a job has from `start` on.
    pub(crate) fn release_node(&mut self, row: usize, job: u64, start: i64) {
        let is_it =
            |claim: &Claim| claim.job == job && claim.start == start && claim.slot().is_none();
        if let Some(at) = self.claims[row].iter().position(is_it) {
            self.remove(row, at);
        }
    }

    fn remove(&mut self, row: usize, at: usize) {
        self.remember(row);
        self.gains.note(self.ranks[row]);
        let claim = Arc::make_mut(&mut self.claims[row]).swap_remove(at);
        self.uncount(row, &claim, claim.count, true);
        self.unlist(&claim);
        self.changed(row);
    }

    /// Whether a job has slots on a node.
    pub(crate) fn has_slots(&self, row: usize, job: u64) -> bool {
        self.claims[row].iter().any(|claim| claim.job == job && claim.slot().is_some())
    }

    /// How many slots of a label a job has on a node.
    pub(crate) fn slots(&self, row: usize, job: u64, label: &str) -> u64 {
        self.claims[row]
            .iter()
            .filter(|claim| claim.is_of(job, label))
            .map(|claim| claim.count)
            .sum()
    }

    /// Gives back `count` slots of a label, of which the job must have that many on the node.
    /// Newest claims go first.
    pub(crate) fn release_slots(&mut self, row: usize, job: u64, label: &str, mut count: u64) {
        self.remember(row);
        self.gains.note(self.ranks[row]);
        let mut at = self.claims[row].len();
        while at > 0 && count > 0 {
            at -= 1;
            let claim = &self.claims[row][at];
            if !claim.is_of(job, label) {
                continue;
            }
            let part = claim.count.min(count);
            count -= part;
            let claim = claim.clone();
            let emptied = part == claim.count;
            self.uncount(row, &claim, part, emptied);
            if emptied {
                Arc::make_mut(&mut self.claims[row]).remove(at);
                self.unlist(&claim);
            } else {
                Arc::make_mut(&mut self.claims[row])[at].count -= part;
            }
            self.changed(row);
        }
    }

    /// The slots that a job has or is to have on a node: shape, number, start and end.
    pub(crate) fn placed(
        &self,
        row: usize,
        job: u64,
    ) -> impl Iterator<Item = (Arc<SlotShape>, u64, (i64, End))> + '_ {
        let own = self.claims[row].iter().filter(move |claim| claim.job == job);
        own.filter_map(|claim| {
            Some((Arc::clone(claim.slot()?), claim.count, (claim.start, claim.end)))
        })
    }

    /// Whether the planned slots of a job on a node fit there beside all others, whenever they are
    /// to be held.
    pub(crate) fn is_planned_well(&self, row: usize, job: u64) -> bool {
        let claims = &self.claims[row];
        let own = || claims.iter().filter(move |claim| claim.job == job && claim.planned);
        own().all(|claim| {
            let (from, to) = (claim.start, claim.end.instant());
            let starts = claims.iter().filter(|other| other.planned).map(|other| other.start);
            let mut instants = starts.filter(|start| *start > from && *start < to).chain([from]);
            instants.all(|at| {
                let counted = || claims.iter().filter(move |claim| claim.counts_at(at, self.now));
                let kinds = claim
                    .slot()
                    .into_iter()
                    .flat_map(|slot| slot.needs.iter().map(|(kind, _)| *kind));
                let fits = |kind| {
                    let used: u128 = counted().map(|claim| claim.units(kind)).sum();
                    used <= u128::from(self.usable(row, kind))
                };
                counted().all(|other| other.job == job || claim.suits_claim(other))
                    && kinds.into_iter().all(fits)
            })
        })
    }

    /// Whether there is work past its end on a node.
    pub(crate) fn has_overdue(&self, row: usize) -> bool {
        self.claims[row].iter().any(|claim| !claim.planned && claim.end.instant() <= self.now)
    }

    /// Moves the present forward. The caller begins planned claims, or puts them off.
    pub(crate) fn advance(&mut self, now: i64) {
        self.now = now;
    }

    /// Whether there is room now for the planned slots of a job on a node that is up.
    pub(crate) fn may_begin(&self, row: usize, job: u64) -> bool {
        let planned =
            || self.claims[row].iter().filter(move |claim| claim.job == job && claim.planned);
        let mut others = self.claims[row].iter().filter(|claim| claim.job != job && !claim.planned);
        let is_alone = others.all(|other| planned().all(|claim| claim.suits_claim(other)));
        if self.exclusive[row] > 0 || !is_alone || !self.up.contains(row) {
            return false;
        }
        let kinds = planned()
            .filter_map(Claim::slot)
            .flat_map(|slot| slot.needs.iter().map(|(kind, _)| *kind));
        kinds.into_iter().all(|kind| {
            let more: u128 = planned().map(|claim| claim.units(kind)).sum();
            self.column(kind)
                .is_some_and(|column| column.used[row] + more <= u128::from(column.usable[row]))
        })
    }

    /// The planned slots of a job on a node count from now on.
    pub(crate) fn begin(&mut self, row: usize, job: u64) {
        self.remember(row);
        for at in 0..self.claims[row].len() {
            let claim = &mut Arc::make_mut(&mut self.claims[row])[at];
            if claim.job == job && claim.planned && claim.slot().is_some() {
                claim.planned = false;
                let claim = claim.clone();
                self.planned[row] -= 1;
                unlist_start(&mut self.starts, claim.start);
                self.count(row, &claim, claim.count, true);
                self.changed(row);
            }
        }
    }

    /// The planned slots of a job on a node begin, and end, later by `seconds`.
    pub(crate) fn put_off(&mut self, row: usize, job: u64, seconds: i64) {
        self.remember(row);
        self.gains.note(self.ranks[row]);
        for at in 0..self.claims[row].len() {
            let claim = &mut Arc::make_mut(&mut self.claims[row])[at];
            if claim.job == job && claim.planned && claim.slot().is_some() {
                let before = claim.clone();
                claim.start = claim.start.saturating_add(seconds);
                claim.end = claim.end.later(seconds);
                let times = (claim.start, claim.end);
                self.unlist(&before);
                self.list(std::iter::once(row), times, true);
                self.changed(row);
            }
        }
    }

    fn uncount(&mut self, row: usize, claim: &Claim, count: u64, whole: bool) {
        self.last(row, claim, count, false);
        if !claim.planned {
            self.count(row, claim, count, false);
        } else if whole {
            self.planned[row] -= 1;
        }
    }

    /// Takes note of what never ends.
    pub(super) fn last(&mut self, row: usize, claim: &Claim, count: u64, add: bool) {
        if claim.end != End::Never {
            return;
        }
        let Part::Slots(slot) = &claim.part else {
            let shut = &mut self.shut[row].for_good;
            *shut = if add { *shut + 1 } else { *shut - 1 };
            return;
        };
        if let Tenancy::Alone(_) = slot.tenancy {
            let shut = &mut self.shut[row].for_good;
            *shut = if add { *shut + count } else { *shut - count };
        }
        for (kind, amount) in &slot.needs {
            let units = u128::from(*amount) * u128::from(count);
            let endless = &mut self.column_mut(*kind).endless[row];
            *endless = if add { *endless + units } else { *endless - units };
        }
    }

    pub(super) fn count(&mut self, row: usize, claim: &Claim, count: u64, add: bool) {
        let Part::Slots(slot) = &claim.part else {
            let exclusive = &mut self.exclusive[row];
            *exclusive = if add { *exclusive + 1 } else { *exclusive - 1 };
            self.refresh(row);
            return;
        };
        if let Tenancy::Alone(_) = slot.tenancy {
            let alone = &mut self.shut[row].alone;
            *alone = if add { *alone + count } else { *alone - count };
            self.refresh(row);
        }
        let shut = self.is_shut(row);
        for (kind, amount) in &slot.needs {
            let units = u128::from(*amount) * u128::from(count);
            let column = self.column_mut(*kind);
            if add {
                column.used[row] += units;
            } else {
                column.used[row] -= units;
            }
            column.refresh(row, shut);
        }
    }

    /// Brings the free units of all pools of a row up to date.
    pub(super) fn refresh(&mut self, row: usize) {
        let shut = self.is_shut(row);
        self.columns.iter_mut().flatten().for_each(|column| column.refresh(row, shut));
    }
}

impl Claim {
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
}

/// One claim fewer begins at an instant.
fn unlist_start(starts: &mut BTreeMap<i64, u32>, start: i64) {
    if let Some(count) = starts.get_mut(&start) {
        *count -= 1;
        if *count == 0 {
            starts.remove(&start);
        }
    }
}
