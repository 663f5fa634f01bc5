//! Taking and giving back units, and whole nodes.

use std::sync::Arc;

use super::{Claim, Part, Pools, SlotShape};
use crate::time::End;

impl Pools {
    /// Adds slots of a job, whether or not they fit.
    pub(crate) fn claim(&mut self, row: usize, job: u64, slot: Arc<SlotShape>, count: u64, (start, end): (i64, End)) {
        self.add(row, Claim { job, part: Part::Slots(slot), count, start, end, planned: start > self.now });
    }

    /// Gives the whole node to a job, whether or not it is free.
    pub(crate) fn claim_node(&mut self, row: usize, job: u64, (start, end): (i64, End), planned: bool) {
        self.add(row, Claim { job, part: Part::Node, count: 1, start, end, planned });
    }

    fn add(&mut self, row: usize, claim: Claim) {
        if claim.planned {
            self.planned[row] += 1;
            self.planned_total += 1;
        } else {
            self.count(row, &claim, claim.count, true);
        }
        self.claims[row].push(claim);
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
        let is_it = |claim: &Claim| claim.job == job && claim.start == start && claim.slot().is_none();
        if let Some(at) = self.claims[row].iter().position(is_it) {
            self.remove(row, at);
        }
    }

    fn remove(&mut self, row: usize, at: usize) {
        let claim = self.claims[row].swap_remove(at);
        self.uncount(row, &claim, claim.count, true);
    }

    /// Whether a job has slots on a node.
    pub(crate) fn has_slots(&self, row: usize, job: u64) -> bool {
        self.claims[row].iter().any(|claim| claim.job == job && claim.slot().is_some())
    }

    /// How many slots of a label a job has on a node.
    pub(crate) fn slots(&self, row: usize, job: u64, label: &str) -> u64 {
        self.claims[row].iter().filter(|claim| claim.is_of(job, label)).map(|claim| claim.count).sum()
    }

    /// Gives back `count` slots of a label, of which the job must have that many on the node. Newest claims go first.
    pub(crate) fn release_slots(&mut self, row: usize, job: u64, label: &str, mut count: u64) {
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
                self.claims[row].remove(at);
            } else {
                self.claims[row][at].count -= part;
            }
        }
    }

    /// Moves the present forward. What is planned is begun or put off by the caller.
    pub(crate) fn advance(&mut self, now: i64) {
        self.now = now;
    }

    /// Whether there is room now for the planned slots of a job on a node that is up.
    pub(crate) fn may_begin(&self, row: usize, job: u64) -> bool {
        if self.exclusive[row] > 0 || !self.up.contains(row) {
            return false;
        }
        let planned = || self.claims[row].iter().filter(move |claim| claim.job == job && claim.planned);
        let kinds = planned().filter_map(Claim::slot).flat_map(|slot| slot.needs.iter().map(|(kind, _)| *kind));
        kinds.into_iter().all(|kind| {
            let more: u128 = planned().map(|claim| claim.units(kind)).sum();
            self.column(kind).is_some_and(|column| column.used[row] + more <= u128::from(column.size[row]))
        })
    }

    /// The planned slots of a job on a node count from now on.
    pub(crate) fn begin(&mut self, row: usize, job: u64) {
        for at in 0..self.claims[row].len() {
            let claim = &mut self.claims[row][at];
            if claim.job == job && claim.planned && claim.slot().is_some() {
                claim.planned = false;
                let claim = claim.clone();
                self.planned[row] -= 1;
                self.planned_total -= 1;
                self.count(row, &claim, claim.count, true);
            }
        }
    }

    /// The planned slots of a job on a node begin, and end, so much later.
    pub(crate) fn put_off(&mut self, row: usize, job: u64, seconds: i64) {
        for claim in &mut self.claims[row] {
            if claim.job == job && claim.planned && claim.slot().is_some() {
                claim.start = claim.start.saturating_add(seconds);
                claim.end = claim.end.later(seconds);
            }
        }
    }

    fn uncount(&mut self, row: usize, claim: &Claim, count: u64, whole: bool) {
        if !claim.planned {
            self.count(row, claim, count, false);
        } else if whole {
            self.planned[row] -= 1;
            self.planned_total -= 1;
        }
    }

    fn count(&mut self, row: usize, claim: &Claim, count: u64, add: bool) {
        self.fills.note(self.ranks[row]);
        let Part::Slots(slot) = &claim.part else {
            let exclusive = &mut self.exclusive[row];
            *exclusive = if add { *exclusive + 1 } else { *exclusive - 1 };
            let shut = *exclusive > 0;
            self.columns.iter_mut().flatten().for_each(|column| column.refresh(row, shut));
            return;
        };
        let shut = self.exclusive[row] > 0;
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
}
