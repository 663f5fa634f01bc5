//! The claims of all jobs by node, and the sums that follow from them.
//!
//! An index over the claims of each job, which the book adds to and takes from as these change.

mod reading;

use std::sync::Arc;

use super::calendar::Calendar;
use super::claim::{Claim, Extent, Lot};
use super::columns::Columns;
use super::nodes::Nodes;
use super::tenancy::Tenancy;
use crate::time::End;
use crate::vertex::{TypeId, VertexId};

/// The claims of all nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByNode {
    nodes: Nodes,
    /// Copies share those of the rows that have not changed since.
    claims: Vec<Arc<Vec<Claim>>>,
    /// Per row, how many claims have not begun.
    planned: Vec<u32>,
    /// Per row, how many claims take the whole node now.
    exclusive: Vec<u32>,
    /// Per row, claims that shut it to others.
    shut: Vec<Shut>,
    columns: Columns,
    calendar: Calendar,
    now: i64,
}

/// Claims of a row that shut it to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shut {
    /// How many slots there are now of a tenant that has the node alone.
    alone: u64,
    /// How many claims that never end take the whole node, and slots of a tenant that has it alone.
    for_good: u64,
}

impl ByNode {
    /// The nodes, by row.
    #[inline]
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Units by type and row.
    #[inline]
    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// When claims begin and end.
    pub(super) fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// The claims of a row.
    #[inline]
    pub(super) fn claims(&self, row: usize) -> &[Claim] {
        &self.claims[row]
    }

    /// True if some claim of a row has not begun.
    #[inline]
    pub(crate) fn has_planned(&self, row: usize) -> bool {
        self.planned[row] > 0
    }

    /// True if a claim takes the whole node now.
    pub(super) fn is_taken_whole(&self, row: usize) -> bool {
        self.exclusive[row] > 0
    }

    /// True if the node now has slots that do not suit slots that share.
    pub(super) fn is_shut(&self, row: usize) -> bool {
        self.exclusive[row] > 0 || self.shut[row].alone > 0
    }

    /// True if a tenant has the node alone now.
    pub(super) fn is_alone(&self, row: usize) -> bool {
        self.shut[row].alone > 0
    }

    /// True if claims that never end shut the node.
    pub(super) fn is_shut_for_good(&self, row: usize) -> bool {
        self.shut[row].for_good > 0
    }

    /// The present.
    #[inline]
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Moves the present forward. The caller begins planned claims, or puts them off.
    pub(super) fn advance(&mut self, now: i64) {
        self.now = now;
    }

    /// Adds a node that no job has anything of. Returns its row.
    pub(super) fn insert_row(&mut self, rank: u32, vertex: VertexId, up: bool) -> usize {
        let row = self.nodes.insert(rank, vertex, up);
        self.claims.insert(row, Arc::default());
        self.planned.insert(row, 0);
        self.exclusive.insert(row, 0);
        self.shut.insert(row, Shut::default());
        self.columns.insert_row(row);
        row
    }

    /// Removes a node, and returns the claims there, which hold nothing any more.
    pub(super) fn remove_row(&mut self, row: usize) -> Arc<Vec<Claim>> {
        let claims = std::mem::take(&mut self.claims[row]);
        for claim in &*claims {
            self.unlist(claim);
        }
        self.nodes.remove(row);
        self.claims.remove(row);
        self.planned.remove(row);
        self.exclusive.remove(row);
        self.shut.remove(row);
        self.columns.remove_row(row);
        claims
    }

    /// The vertices of nodes have other numbers.
    pub(super) fn renumber(&mut self, to: impl Fn(VertexId) -> VertexId) {
        self.nodes.renumber(to);
    }

    /// Marks a node up or down.
    pub(super) fn set_up(&mut self, row: usize, up: bool) {
        self.nodes.set_up(row, up);
    }

    /// `usable` of the units are on vertices that are not marked as down themselves.
    pub(super) fn set_size(&mut self, row: usize, kind: TypeId, size: u64, usable: u64) {
        let shut = self.is_shut(row);
        self.columns.set_size((row, self.nodes.len()), kind, (size, usable), shut);
    }

    /// Adds a claim, whether or not there is room. It has to be listed as well.
    pub(super) fn add(&mut self, row: usize, claim: Claim) {
        self.count_endless(row, &claim, claim.count, true);
        if claim.planned {
            self.planned[row] += 1;
        } else {
            self.count(row, &claim, claim.count, true);
        }
        Arc::make_mut(&mut self.claims[row]).push(claim);
    }

    /// Notes when claims on these rows begin and end.
    pub(super) fn list(
        &mut self,
        rows: impl ExactSizeIterator<Item = usize>,
        times: (i64, End),
        planned: bool,
    ) {
        let ranks = self.nodes.ranks();
        self.calendar.list(rows.map(|row| ranks[row]), times, planned);
    }

    /// A claim that was on a row, and is not among its claims any more, does not begin or end.
    fn unlist(&mut self, claim: &Claim) {
        let (nodes, claims) = (&self.nodes, &self.claims);
        self.calendar.unlist(claim, |rank| {
            let row = nodes.position(rank);
            row.is_some_and(|row| claims[row].iter().any(|other| other.end == claim.end))
        });
    }

    /// Takes a claim away.
    pub(super) fn remove(&mut self, row: usize, at: usize) {
        let claim = Arc::make_mut(&mut self.claims[row]).swap_remove(at);
        self.uncount(row, &claim, claim.count, true);
        self.unlist(&claim);
    }

    /// Takes some slots of a claim away, and the claim with the last of them.
    pub(super) fn reduce(&mut self, row: usize, at: usize, slots: u64) {
        let claim = self.claims[row][at].clone();
        let emptied = slots == claim.count;
        self.uncount(row, &claim, slots, emptied);
        if emptied {
            Arc::make_mut(&mut self.claims[row]).remove(at);
            self.unlist(&claim);
        } else {
            Arc::make_mut(&mut self.claims[row])[at].count -= slots;
        }
    }

    /// These planned slots count on a node from now on. Returns whether there are any.
    pub(super) fn begin(&mut self, row: usize, lot: &Lot<'_>) -> bool {
        let mut begins = false;
        for at in 0..self.claims[row].len() {
            let claim = &mut Arc::make_mut(&mut self.claims[row])[at];
            if claim.is_of(lot) {
                claim.planned = false;
                let claim = claim.clone();
                self.planned[row] -= 1;
                self.calendar.unlist_start(claim.start);
                self.count(row, &claim, claim.count, true);
                begins = true;
            }
        }
        begins
    }

    /// These planned slots begin on a node, and end, later by `seconds`. Returns whether there are
    /// any.
    pub(super) fn put_off(&mut self, row: usize, lot: &Lot<'_>, seconds: i64) -> bool {
        let mut changes = false;
        for at in 0..self.claims[row].len() {
            let claim = &mut Arc::make_mut(&mut self.claims[row])[at];
            if claim.is_of(lot) {
                let before = claim.clone();
                claim.start = claim.start.saturating_add(seconds);
                claim.end = claim.end.later(seconds);
                let times = (claim.start, claim.end);
                self.unlist(&before);
                self.list(std::iter::once(row), times, true);
                changes = true;
            }
        }
        changes
    }

    fn uncount(&mut self, row: usize, claim: &Claim, count: u64, whole: bool) {
        self.count_endless(row, claim, count, false);
        if !claim.planned {
            self.count(row, claim, count, false);
        } else if whole {
            self.planned[row] -= 1;
        }
    }

    /// Takes note of claims that never end.
    fn count_endless(&mut self, row: usize, claim: &Claim, count: u64, add: bool) {
        if claim.end != End::Never {
            return;
        }
        let for_good = &mut self.shut[row].for_good;
        let Extent::Slots(slot) = &claim.extent else {
            *for_good = if add { *for_good + 1 } else { *for_good - 1 };
            return;
        };
        if let Tenancy::Alone(_) = slot.tenancy {
            *for_good = if add { *for_good + count } else { *for_good - count };
        }
        for (kind, amount) in &slot.needs {
            let units = u128::from(*amount) * u128::from(count);
            self.columns.count_endless((row, self.nodes.len()), *kind, (units, add));
        }
    }

    fn count(&mut self, row: usize, claim: &Claim, count: u64, add: bool) {
        let Extent::Slots(slot) = &claim.extent else {
            let exclusive = &mut self.exclusive[row];
            *exclusive = if add { *exclusive + 1 } else { *exclusive - 1 };
            self.columns.refresh(row, self.is_shut(row));
            return;
        };
        if let Tenancy::Alone(_) = slot.tenancy {
            let alone = &mut self.shut[row].alone;
            *alone = if add { *alone + count } else { *alone - count };
            self.columns.refresh(row, self.is_shut(row));
        }
        let shut = self.is_shut(row);
        for (kind, amount) in &slot.needs {
            let units = u128::from(*amount) * u128::from(count);
            self.columns.count((row, self.nodes.len()), *kind, (units, add), shut);
        }
    }

    /// Forgets all claims, to be added again.
    pub(super) fn clear(&mut self) {
        self.calendar = Calendar::default();
        self.planned.fill(0);
        self.exclusive.fill(0);
        self.shut.fill(Shut::default());
        self.columns.clear();
        for row in 0..self.nodes.len() {
            self.claims[row] = Arc::default();
            self.columns.refresh(row, false);
        }
    }
}

/// Everything that follows from claims, as text.
#[cfg(test)]
pub(super) fn derived(by_node: &ByNode) -> String {
    let calendar = by_node.calendar();
    let mut ends: Vec<(i64, Vec<u32>)> = calendar
        .ends()
        .map(|(end, ranks)| {
            let ends_then = |rank: &u32| {
                by_node.nodes.position(*rank).is_some_and(|row| {
                    by_node.claims(row).iter().any(|claim| claim.end.instant() == end)
                })
            };
            let mut ranks: Vec<u32> = ranks.iter().copied().filter(ends_then).collect();
            ranks.sort_unstable();
            ranks.dedup();
            (end, ranks)
        })
        .collect();
    ends.sort_unstable();
    let columns: Vec<_> = by_node
        .columns
        .iter()
        .map(|column| (column.used(), column.free(), column.endless()))
        .collect();
    let starts = calendar.starts();
    format!(
        "{:?} {:?} {:?} {starts:?} {ends:?} {columns:?}",
        by_node.planned, by_node.exclusive, by_node.shut
    )
}
