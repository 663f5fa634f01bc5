//! Units free of one node from now on: a step function, made from the claims when it is read,
//! and kept until they change.

use std::borrow::Cow;
use std::cell::OnceCell;

use smallvec::{SmallVec, smallvec};

use super::by_node::ByNode;
use super::claim::{Claim, free};
use super::tenancy::Tenancy;
use crate::sound::contradiction;
use crate::time::End;
use crate::vertex::TypeId;

/// Steps of free units. Work past its end ends in the next second, whichever that is when
/// the steps are read.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    width: usize,
    /// When something is given back or begins, ascending, as the claims have it.
    times: Vec<i64>,
    /// `width` numbers for now, and as many from each of these instants on.
    free: Vec<u64>,
    /// The least of each, ever.
    least: SmallVec<[u64; 4]>,
    /// From this step on nothing begins any more.
    settled: usize,
}

/// How many slots there is room for over a time, and until when that much is sure if the time moves
/// on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) slots: u64,
    /// The last instant from which there is as much room, if nothing more is claimed.
    pub(crate) until: i64,
}

/// Timelines of all nodes.
#[derive(Debug, Default)]
pub(super) struct Timelines(Vec<OnceCell<Box<Timeline>>>);

impl Clone for Timelines {
    /// A copy begins without: they are made when they are needed.
    fn clone(&self) -> Self {
        let mut cells = Vec::new();
        cells.resize_with(self.0.len(), OnceCell::new);
        Timelines(cells)
    }
}

impl Timelines {
    pub(super) fn insert(&mut self, row: usize) {
        self.0.insert(row, OnceCell::new());
    }

    pub(super) fn remove(&mut self, row: usize) {
        self.0.remove(row);
    }

    pub(super) fn forget(&mut self, row: usize) {
        self.0[row].take();
    }

    pub(super) fn forget_all(&mut self) {
        for cell in &mut self.0 {
            cell.take();
        }
    }

    /// Units free of a node from now on for slots that share.
    pub(super) fn get(&self, by_node: &ByNode, row: usize) -> &Timeline {
        self.0[row].get_or_init(|| Box::new(Timeline::of(by_node, row, Tenancy::Shared)))
    }

    /// Units free of a node from now on for slots of a tenancy.
    pub(super) fn beside(
        &self,
        by_node: &ByNode,
        row: usize,
        tenancy: Tenancy,
    ) -> Cow<'_, Timeline> {
        match tenancy {
            Tenancy::Shared => Cow::Borrowed(self.get(by_node, row)),
            Tenancy::Alone(_) | Tenancy::Guest => Cow::Owned(Timeline::of(by_node, row, tenancy)),
        }
    }

    /// The units of a column that stay free; `now` are free now.
    #[inline]
    pub(super) fn lasting(&self, by_node: &ByNode, row: usize, now: u64, column: usize) -> u64 {
        if by_node.has_planned(row) { self.get(by_node, row).least(column) } else { now }
    }
}

impl Timeline {
    fn of(by_node: &ByNode, row: usize, tenancy: Tenancy) -> Self {
        let columns: SmallVec<[(TypeId, u64, u128); 4]> = (by_node.columns().by_kind())
            .map(|(kind, column)| (kind, column.usable()[row], column.used()[row]))
            .collect();
        // Ends come before starts of the same instant: there is no second at which both count.
        let mut events: Vec<(i64, bool, &Claim)> = Vec::new();
        for claim in by_node.claims(row) {
            if claim.planned {
                events.push((claim.start, true, claim));
            }
            if let End::At(end) = claim.end {
                events.push((end, false, claim));
            }
        }
        events.sort_unstable_by_key(|(at, begins, _)| (*at, *begins));
        let width = columns.len();
        let mut used: SmallVec<[u128; 4]> = columns.iter().map(|(_, _, used)| *used).collect();
        let mut in_the_way = by_node
            .claims(row)
            .iter()
            .filter(|claim| !claim.planned && !claim.suits(tenancy))
            .count();
        let mut timeline = Timeline {
            width,
            times: Vec::with_capacity(events.len()),
            free: Vec::with_capacity((events.len() + 1) * width),
            least: smallvec![u64::MAX; width],
            settled: 0,
        };
        timeline.push(&columns, &used, in_the_way > 0);
        for same in events.chunk_by(|a, b| a.0 == b.0) {
            for (_, begins, claim) in same {
                if !claim.suits(tenancy) {
                    in_the_way = if *begins { in_the_way + 1 } else { in_the_way - 1 };
                }
                let needs = claim.slot().into_iter().flat_map(|slot| &slot.needs);
                for (kind, amount) in needs {
                    let units = u128::from(*amount) * u128::from(claim.count);
                    match columns.iter().position(|(known, ..)| known == kind) {
                        Some(at) if *begins => used[at] += units,
                        Some(at) => used[at] -= units,
                        None => contradiction("a claim takes units of a type without a column"),
                    }
                }
            }
            timeline.times.push(same[0].0);
            if same.iter().any(|(_, begins, _)| *begins) {
                timeline.settled = timeline.times.len();
            }
            timeline.push(&columns, &used, in_the_way > 0);
        }
        timeline
    }

    fn push(&mut self, columns: &[(TypeId, u64, u128)], used: &[u128], shut: bool) {
        for (at, ((_, size, _), used)) in columns.iter().zip(used).enumerate() {
            let free = if shut { 0 } else { free(*size, *used) };
            self.least[at] = self.least[at].min(free);
            self.free.push(free);
        }
    }

    /// The least that is ever free of a column.
    pub(crate) fn least(&self, column: usize) -> u64 {
        self.least[column]
    }

    /// How many steps lie behind at an instant, as seen from `now`.
    fn steps(&self, at: i64, now: i64) -> usize {
        if at <= now { 0 } else { self.times.partition_point(|time| *time <= at) }
    }

    /// The least that is free of a column at any instant of `[from, to)`.
    pub(crate) fn during(&self, column: usize, from: i64, to: i64, now: i64) -> u64 {
        let first = self.steps(from, now);
        let mut least = self.free[first * self.width + column];
        for step in first..self.times.len() {
            if self.times[step] >= to {
                break;
            }
            least = least.min(self.free[(step + 1) * self.width + column]);
        }
        least
    }

    /// Whether a slot fits at any instant from now to another, for `seconds`.
    pub(crate) fn fits_by(
        &self,
        needs: &[(usize, u64)],
        (now, last): (i64, i64),
        seconds: u64,
    ) -> bool {
        let instants =
            std::iter::once(now).chain(self.times.iter().map(|time| (*time).max(now + 1)));
        instants
            .take_while(|at| *at <= last)
            .any(|at| self.room(needs, 1, at, seconds, now).slots > 0)
    }

    /// The next instant after another from which a slot fits for `seconds`; `needs` as in
    /// [`Timeline::room`].
    pub(crate) fn next_fit(
        &self,
        needs: &[(usize, u64)],
        after: i64,
        seconds: u64,
        now: i64,
    ) -> i64 {
        let mut start = None;
        for step in self.steps(after, now)..self.times.len() {
            let at = self.times[step].max(now + 1);
            if let Some(start) =
                start.filter(|start: &i64| start.saturating_add_unsigned(seconds) <= at)
            {
                return start;
            }
            let free = &self.free[(step + 1) * self.width..][..self.width];
            let is_enough = needs.iter().all(|(column, amount)| free[*column] >= *amount);
            start = if is_enough { start.or(Some(at)) } else { None };
            if start.is_some() && step >= self.settled {
                break;
            }
        }
        start.unwrap_or(i64::MAX)
    }

    /// How many slots there is room for from an instant on, for `seconds`. `needs` are units by
    /// column, none of them 0.
    pub(crate) fn room(
        &self,
        needs: &[(usize, u64)],
        most: u64,
        from: i64,
        seconds: u64,
        now: i64,
    ) -> Room {
        let first = self.steps(from, now);
        let to = from.saturating_add_unsigned(seconds);
        let mut slots = most;
        // Mostly there is not even room for one when it begins.
        for (column, amount) in needs {
            if self.free[first * self.width + column] < *amount {
                return Room { slots: 0, until: i64::MAX };
            }
        }
        let mut last = first;
        while last < self.times.len() && self.times[last] < to {
            last += 1;
        }
        for (column, amount) in needs {
            let free =
                (first..=last).map(|step| self.free[step * self.width + column]).min().unwrap_or(0);
            if amount.checked_mul(slots).is_none_or(|all| all > free) {
                slots = free / amount;
            }
        }
        if slots == 0 {
            return Room { slots, until: i64::MAX };
        }
        let is_less = |step: &usize| {
            needs.iter().any(|(column, amount)| {
                self.free[(step + 1) * self.width + column] < amount * slots
            })
        };
        let shrinks = (last..self.times.len()).find(is_less);
        let until =
            shrinks.map_or(i64::MAX, |step| self.times[step].saturating_sub_unsigned(seconds));
        Room { slots, until }
    }
}
