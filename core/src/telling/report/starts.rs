//! Waiting times of jobs, and the errors of the starts that their records had promised or
//! estimated.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_planner::queues::QueueLoad;

/// Bounds of the buckets, in seconds: a second to a week.
const BOUNDS: [u64; 12] = [1, 5, 15, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 259_200, 604_800];

const MICROS: u64 = 1_000_000;

/// A histogram of waiting times: a second to a week.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hours {
    /// The count per bucket; the last has no bound.
    counts: [u64; BOUNDS.len() + 1],
    /// The sum in microseconds, exact, so that equal runs give equal reports.
    sum_micros: u64,
}

/// The waiting times of jobs, by queue, and the contents of the queues now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Waits {
    started: BTreeMap<Arc<str>, Hours>,
    /// The contents of each FluxQueue, and of the default queue.
    pub now: Vec<QueueLoad>,
}

/// The kind of statement about a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EstimateSaid {
    /// The first estimate, which was a promise.
    FirstReserved,
    /// The first estimate, which was no promise.
    FirstProjected,
    /// The start that was promised last.
    LastPromised,
}

/// The times by which jobs started later or earlier than stated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartErrors {
    later: BTreeMap<EstimateSaid, Hours>,
    earlier: BTreeMap<EstimateSaid, Hours>,
}

impl EstimateSaid {
    /// Returns the labels of the metrics: which statement it was, and of what kind.
    pub fn labels(self) -> (&'static str, &'static str) {
        match self {
            EstimateSaid::FirstReserved => ("first", "Reserved"),
            EstimateSaid::FirstProjected => ("first", "Projected"),
            EstimateSaid::LastPromised => ("last", "Reserved"),
        }
    }
}

impl Hours {
    fn observe(&mut self, micros: u64) {
        let bucket =
            BOUNDS.iter().position(|bound| micros <= bound * MICROS).unwrap_or(BOUNDS.len());
        self.counts[bucket] += 1;
        self.sum_micros = self.sum_micros.saturating_add(micros);
    }

    /// Returns the bucket bounds in seconds (the last is infinite), each with the number of times
    /// in its bucket, not accumulated.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS.iter().map(|bound| seconds(bound * MICROS)).chain([f64::INFINITY]);
        bounds.zip(self.counts)
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns their sum, in seconds.
    pub fn sum_seconds(&self) -> f64 {
        seconds(self.sum_micros)
    }
}

impl Waits {
    /// Counts the waiting time of a job of this queue; a negative one (clocks differ) counts as 0.
    pub(crate) fn observe(&mut self, queue: &str, micros: i64) {
        if !self.started.contains_key(queue) {
            self.started.insert(Arc::from(queue), Hours::default());
        }
        if let Some(hours) = self.started.get_mut(queue) {
            hours.observe(u64::try_from(micros).unwrap_or(0));
        }
    }

    /// Returns the waiting times of jobs that have started, by queue.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Hours)> {
        self.started.iter().map(|(queue, hours)| (&**queue, hours))
    }
}

impl StartErrors {
    /// Counts a start that came later than stated by this time; a negative time means earlier.
    pub(crate) fn observe(&mut self, said: EstimateSaid, later_micros: i64) {
        let side = if later_micros < 0 { &mut self.earlier } else { &mut self.later };
        side.entry(said).or_default().observe(later_micros.unsigned_abs());
    }

    /// Returns the kinds of statements, each with "later" or "earlier" and the histogram.
    pub fn iter(&self) -> impl Iterator<Item = (EstimateSaid, &'static str, &Hours)> {
        let later = self.later.iter().map(|(said, hours)| (*said, "later", hours));
        later.chain(self.earlier.iter().map(|(said, hours)| (*said, "earlier", hours)))
    }
}

/// Returns a number of microseconds in seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "sums of durations stay far below 2^53 microseconds"
)]
pub(super) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_and_earlier_are_counted_apart() {
        let mut errors = StartErrors::default();
        for seconds in [0, 60, 61, -61, -3_600, 700_000] {
            errors.observe(EstimateSaid::LastPromised, seconds * 1_000_000);
        }
        let sums: Vec<_> =
            errors.iter().map(|(_, side, hours)| (side, hours.count(), hours.sum_micros)).collect();
        assert_eq!(sums, [("later", 4, 700_121 * MICROS), ("earlier", 2, 3_661 * MICROS)]);
        let (_, _, later) = errors.iter().next().unwrap();
        let buckets: Vec<(f64, u64)> = later.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(buckets, [(1.0, 1), (60.0, 1), (300.0, 1), (f64::INFINITY, 1)]);
    }

    #[test]
    fn each_queue_has_its_own() {
        let mut waits = Waits::default();
        for (queue, micros) in [("default", 1_500_000), ("default", -1), ("big", 3_600_000_000)] {
            waits.observe(queue, micros);
        }
        let found: Vec<_> =
            waits.iter().map(|(queue, hours)| (queue, hours.count(), hours.sum_micros)).collect();
        assert_eq!(found, [("big", 1, 3_600 * MICROS), ("default", 2, 1_500_000)]);
    }
}
