//! The use of a vertex's subtree over time: a step function with a column per tracked type.
//!
//! Column 0 counts the jobs that pass through the vertex; the others count units of the types that
//! its pruning filter tracks. A point exists where a span begins or ends, also if nothing changes
//! there: reservations are tried at points. Points are sorted and their rows dense, so that a
//! window is read front to back; before the first point nothing is used.
//!
//! Answers as upstream's `planner_multi` (resource/planner) does, in terms of use instead of room.

use smallvec::SmallVec;

/// One amount per tracked type.
pub(crate) type Row = SmallVec<[i64; 4]>;

/// A step function over `[0, ∞)`.
#[derive(Debug, Clone)]
pub(crate) struct Planner {
    width: usize,
    points: Vec<Point>,
    /// `width` numbers per point: the units used from there to the next point.
    used: Vec<i64>,
    /// The part of each of these numbers that does not follow from spans; empty: there is none.
    drift: Vec<i64>,
}

/// The part of a planner's numbers that does not follow from spans, by point.
pub(crate) type Drift = Vec<(i64, Row)>;

#[derive(Debug, Clone, Copy)]
struct Point {
    at: i64,
    /// How many spans begin or end here.
    spans: u32,
    /// How many of them use something besides passing through.
    using: u32,
}

impl Planner {
    /// Nothing used, ever.
    pub(crate) fn new(width: usize) -> Self {
        Planner { width, points: Vec::new(), used: Vec::new(), drift: Vec::new() }
    }

    /// Nothing begins or ends any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.points.is_empty()
    }

    /// One job passes through in `[from, to)`, and uses `below` of the tracked types. Follows
    /// upstream's `add_span`.
    pub(crate) fn add(&mut self, from: i64, to: i64, below: &[i64]) {
        let using = u32::from(uses(below));
        self.touch(from, using);
        let last = self.touch(to, using);
        let first = self.find(from).unwrap_or(last);
        self.change(first, last, |row| {
            row[0] += 1;
            add(&mut row[1..], below);
        });
    }

    /// Takes back a span that was added with the same ends. A vertex that had no children when a
    /// job came has not counted its span: then there is nothing to take back. Follows upstream's
    /// `rem_span`.
    pub(crate) fn remove(&mut self, from: i64, to: i64, below: &[i64]) {
        if let (Ok(first), Ok(last)) = (self.find(from), self.find(to)) {
            self.change(first, last, |row| {
                row[0] -= 1;
                subtract(&mut row[1..], below);
            });
            // The later one first, so that the other keeps its place.
            let using = u32::from(uses(below));
            self.release(last, using);
            self.release(first, using);
        }
    }

    /// Uses less of the tracked types in `[from, to)`, of a span that stays. Follows upstream's
    /// `reduce_span`.
    pub(crate) fn reduce(&mut self, from: i64, to: i64, below: &[i64]) {
        if let (Ok(first), Ok(last)) = (self.find(from), self.find(to)) {
            self.change(first, last, |row| {
                subtract(&mut row[1..], below);
            });
        }
    }

    /// Has a column show what `shown` makes of each point and its number; the difference is drift.
    pub(super) fn correct(&mut self, column: usize, shown: impl Fn(i64, i64) -> i64) {
        self.drift.resize(self.used.len(), 0);
        for (place, point) in self.points.iter().enumerate() {
            let at = place * self.width + column;
            let (before, after) = (self.used[at], shown(point.at, self.used[at]));
            self.drift[at] = self.drift[at].wrapping_add(after.wrapping_sub(before));
            self.used[at] = after;
        }
        self.drop_idle_drift();
    }

    /// The part of the numbers that does not follow from spans.
    pub(super) fn drift(&self) -> Drift {
        let rows = self.drift.chunks_exact(self.width).zip(&self.points);
        let rows = rows.filter(|(row, _)| uses(row));
        rows.map(|(row, point)| (point.at, Row::from_slice(row))).collect()
    }

    /// Replaces it. Instants that are no points are passed over.
    pub(super) fn set_drift(&mut self, drift: &[(i64, Row)]) {
        subtract(&mut self.used, &self.drift);
        self.drift.clear();
        self.drift.resize(self.used.len(), 0);
        for (at, row) in drift {
            if let Ok(place) = self.find(*at) {
                let start = place * self.width;
                add(&mut self.used[start..start + self.width], row);
                self.drift[start..start + self.width].copy_from_slice(row);
            }
        }
        self.drop_idle_drift();
    }

    fn drop_idle_drift(&mut self) {
        if !uses(&self.drift) {
            self.drift = Vec::new();
        }
    }

    /// The most that is used of a column at any instant of `[from, to)`: what upstream's
    /// `avail_resources_during` leaves of the total.
    pub(crate) fn peak(&self, from: i64, to: i64, column: usize) -> i64 {
        let start = self.points.partition_point(|point| point.at <= from);
        let mut peak = if start == 0 { 0 } else { self.used[(start - 1) * self.width + column] };
        for (at, point) in self.points.iter().enumerate().skip(start) {
            if point.at >= to {
                break;
            }
            peak = peak.max(self.used[at * self.width + column]);
        }
        peak
    }

    /// The first instant after `at` at which no job passes through; `None`: never.
    pub(crate) fn next_gap(&self, at: i64) -> Option<i64> {
        let start = self.points.partition_point(|point| point.at <= at);
        (start..self.points.len())
            .find(|point| self.used[point * self.width] == 0)
            .map(|point| self.points[point].at)
    }

    /// Adds the times from one point to the next at which more than `most` is used of a column.
    pub(super) fn times_above(&self, column: usize, most: i64, times: &mut Vec<(i64, i64)>) {
        for (at, point) in self.points.iter().enumerate() {
            if self.used[at * self.width + column] > most {
                let end = self.points.get(at + 1).map_or(i64::MAX, |next| next.at);
                times.push((point.at, end));
            }
        }
    }

    /// The first instant from `at` on at which no more than `most` is used of a column; `None`:
    /// never.
    pub(super) fn first_with_at_most(&self, at: i64, column: usize, most: i64) -> Option<i64> {
        let start = self.points.partition_point(|point| point.at <= at);
        let used = |point: usize| self.used[point * self.width + column];
        if start.checked_sub(1).map_or(0, used) <= most {
            return Some(at);
        }
        (start..self.points.len()).find(|point| used(*point) <= most).map(|at| self.points[at].at)
    }

    /// Whether more is used at any instant after `at` than just before it.
    pub(crate) fn grows_after(&self, at: i64) -> bool {
        let start = self.points.partition_point(|point| point.at <= at);
        (start..self.points.len()).any(|point| {
            let (before, here) = self.used[..(point + 1) * self.width].split_at(point * self.width);
            let before = before.rchunks_exact(self.width).next();
            here.iter()
                .enumerate()
                .any(|(column, used)| before.map_or(0, |before| before[column]) < *used)
        })
    }

    /// The first point after an instant at which a job begins or ends that uses more than the way
    /// through.
    pub(crate) fn point_after(&self, at: i64) -> Option<i64> {
        let start = self.points.partition_point(|point| point.at <= at);
        self.points[start..].iter().find(|point| point.using > 0).map(|point| point.at)
    }

    /// The last such point before an instant.
    pub(crate) fn point_before(&self, at: i64) -> Option<i64> {
        let end = self.points.partition_point(|point| point.at < at);
        self.points[..end].iter().rev().find(|point| point.using > 0).map(|point| point.at)
    }

    /// All points after an instant, ascending.
    pub(crate) fn instants_after(&self, at: i64) -> impl Iterator<Item = i64> + '_ {
        let start = self.points.partition_point(|point| point.at <= at);
        self.points[start..].iter().map(|point| point.at)
    }

    fn find(&self, at: i64) -> Result<usize, usize> {
        self.points.binary_search_by_key(&at, |point| point.at)
    }

    /// The place of a point, which is made if there is none; one more span begins or ends there.
    fn touch(&mut self, at: i64, using: u32) -> usize {
        match self.find(at) {
            Ok(place) => {
                self.points[place].spans += 1;
                self.points[place].using += using;
                place
            }
            Err(place) => {
                self.points.insert(place, Point { at, spans: 1, using });
                insert_row(&mut self.used, place, self.width);
                if !self.drift.is_empty() {
                    insert_row(&mut self.drift, place, self.width);
                }
                place
            }
        }
    }

    fn release(&mut self, place: usize, using: u32) {
        self.points[place].using -= using;
        self.points[place].spans -= 1;
        if self.points[place].spans == 0 {
            self.points.remove(place);
            let start = place * self.width;
            self.used.drain(start..start + self.width);
            if !self.drift.is_empty() {
                self.drift.drain(start..start + self.width);
                self.drop_idle_drift();
            }
        }
    }

    fn change(&mut self, first: usize, last: usize, change: impl FnMut(&mut [i64])) {
        self.used[first * self.width..last * self.width]
            .chunks_exact_mut(self.width)
            .for_each(change);
    }
}

/// Adds a point's row, which is that of the point before it; of the first it is 0.
#[inline]
fn insert_row(rows: &mut Vec<i64>, place: usize, width: usize) {
    let (start, end) = (place * width, rows.len());
    rows.resize(end + width, 0);
    rows.copy_within(start..end, start + width);
    match start.checked_sub(width) {
        Some(before) => rows.copy_within(before..start, start),
        None => rows[..width].fill(0),
    }
}

// Vertices may have more units together than 63 bits count. Sums that wrap come back to what
// they were once all is given back; until then they spare no walk, and vertices are held all the
// same.
#[inline]
fn add(used: &mut [i64], amounts: &[i64]) {
    used.iter_mut().zip(amounts).for_each(|(used, amount)| *used = used.wrapping_add(*amount));
}

#[inline]
fn subtract(used: &mut [i64], amounts: &[i64]) {
    used.iter_mut().zip(amounts).for_each(|(used, amount)| *used = used.wrapping_sub(*amount));
}

/// Whether a span uses something besides passing through.
fn uses(below: &[i64]) -> bool {
    below.iter().any(|amount| *amount != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a function that looks at every second.
        #[test]
        fn peaks_are_those_of_the_spans(
            spans in prop::collection::vec((0_i64..20, 1_i64..10, 1_i64..5, any::<bool>()), 0..12),
            windows in prop::collection::vec((0_i64..25, 1_i64..10), 1..6),
        ) {
            let mut planner = Planner::new(2);
            let mut kept = Vec::new();
            for (from, length, amount, keep) in &spans {
                planner.add(*from, from + length, &[*amount]);
                if *keep {
                    kept.push((*from, from + length, *amount));
                }
            }
            for (from, length, amount, _) in spans.iter().filter(|(_, _, _, keep)| !keep) {
                planner.remove(*from, from + length, &[*amount]);
            }
            for (from, length) in windows {
                let used = |at: i64| kept.iter().filter(|(from, to, _)| (*from..*to).contains(&at)).map(|span| span.2).sum::<i64>();
                let peak = (from..from + length).map(used).max().unwrap_or(0);
                prop_assert_eq!(planner.peak(from, from + length, 1), peak);
                for most in 0..4 {
                    let mut times = Vec::new();
                    planner.times_above(1, most, &mut times);
                    let to = from + length;
                    let is_above = times.iter().any(|(start, end)| *start < to && from < *end);
                    prop_assert_eq!(is_above, peak > most);
                    let first = planner.first_with_at_most(from, 1, most);
                    prop_assert_eq!(first, (from..50).find(|at| used(*at) <= most));
                }
            }
            let mut ends: Vec<i64> = kept.iter().flat_map(|span| [span.0, span.1]).filter(|at| *at > 3).collect();
            ends.sort_unstable();
            ends.dedup();
            let after = std::iter::successors(planner.point_after(3), |at| planner.point_after(*at));
            prop_assert_eq!(after.collect::<Vec<_>>(), ends.clone());
            let before = |at: &i64| planner.point_before(*at).filter(|at| *at > 3);
            ends.reverse();
            prop_assert_eq!(std::iter::successors(planner.point_before(99), before).filter(|at| *at > 3).collect::<Vec<_>>(), ends);
            prop_assert_eq!(planner.is_idle(), kept.is_empty());
        }
    }
}
