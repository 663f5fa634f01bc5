//! Estimated starts of waiting requests: the known ones, and those on record.
//!
//! A promise is published as it is, with the reservation in the same record (`Reserved`). Every
//! other estimate comes from the present state (`Projected`, by the plan run forward: `ahead`,
//! `projection`), and changes with it. It is published again when it has moved far enough that a
//! user would plan otherwise, and for all jobs together at a bounded rate. A write that is due for
//! another reason takes it along.

mod ahead;
mod outcome;
pub(crate) mod projection;

pub(crate) use ahead::LookingAhead;
pub(crate) use outcome::on_record;
pub(crate) use projection::{Progress, Projection, Wants};

use std::collections::{BTreeSet, VecDeque};

use fluxqueue_api::{EstimateKind, EstimatedStart};

use crate::jobs::clock::Clock;
use crate::jobs::expected::Expected;
use crate::jobs::job::{Job, Said};
use crate::records::times::{micro_time, time_of};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Time;

/// Most writes in a second that contain nothing but another estimate.
const WRITES_PER_SECOND: usize = 5;
const SECOND_MILLIS: i64 = 1_000;

/// An estimate has moved if it did by more than this time in microseconds, and by more than this
/// part of the time that is left.
const MOVED_MICROS: u64 = 60_000_000;
const MOVED_PART: u64 = 10;

/// The rate at which estimates are written.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    /// The times of the latest writes that contained nothing but another estimate, at most as many
    /// as are allowed in a second.
    writes: VecDeque<Time>,
    /// The jobs that wait for their turn to publish an estimate, each once.
    waiting: VecDeque<JobId>,
    is_waiting: BTreeSet<JobId>,
}

impl Expected {
    /// Makes the result of a search: a start, or none.
    pub(crate) fn found(start: Option<Time>, now: Time) -> Self {
        start.map_or(Expected::NoDate, |start| Expected::At { start: start.max(now), as_of: now })
    }

    /// Returns the expected start, if it is known.
    pub(crate) fn start(self) -> Option<Time> {
        match self {
            Expected::At { start, .. } => Some(start),
            Expected::Unasked | Expected::NoDate => None,
        }
    }

    /// Returns the estimate by the API server's clock. A start that is due may come at any moment:
    /// it is never expected in the past.
    pub(crate) fn projected(self, clock: Clock) -> Option<EstimatedStart> {
        let Expected::At { start, as_of } = self else { return None };
        let (start, as_of) =
            if start < clock.now { (clock.now, clock.now) } else { (start, as_of) };
        Some(estimate(EstimateKind::Projected, clock.wall(start), clock.wall(as_of)))
    }
}

/// Returns the estimate for the record of a waiting job. `said` is its promise, by the API server's
/// clock.
pub(crate) fn to_say(job: &Job, said: Option<&Said>, clock: Clock) -> Option<EstimatedStart> {
    let written = job.status_on_record().and_then(|status| status.estimated_start.as_ref());
    let wanted = match (said.and_then(|said| said.start), job.waiting.expected) {
        (Some(start), _) => Some(estimate(EstimateKind::Reserved, start, clock.wall_now())),
        // A promise that stands no longer must not stay in the record.
        (None, Expected::Unasked) => {
            written.filter(|written| written.kind == EstimateKind::Projected).cloned()
        }
        (None, expected) => expected.projected(clock),
    };
    match (&wanted, written) {
        (Some(wanted), Some(written)) if !has_moved(written, wanted, clock.wall_now()) => {
            Some(written.clone())
        }
        _ => wanted,
    }
}

/// True if an estimate differs enough from the one on record to be written.
pub(crate) fn has_moved(written: &EstimatedStart, now_said: &EstimatedStart, now: Time) -> bool {
    let (before, after) = (time_of(&written.time), time_of(&now_said.time));
    if written.kind != now_said.kind || now_said.kind == EstimateKind::Reserved {
        return written.kind != now_said.kind || before != after;
    }
    let (by, left) = (before.0.abs_diff(after.0), before.max(after).0.saturating_sub(now.0));
    by > MOVED_MICROS && by > u64::try_from(left).unwrap_or(0) / MOVED_PART
}

fn estimate(kind: EstimateKind, start: Time, as_of: Time) -> EstimatedStart {
    EstimatedStart { time: micro_time(start), kind, as_of: micro_time(as_of) }
}

impl Estimates {
    /// Counts a write of an estimate, if one is allowed now.
    pub(crate) fn may_write(&mut self, now: Time) -> bool {
        if self.writes.len() >= WRITES_PER_SECOND && self.next_write() > now {
            return false;
        }
        if self.writes.len() == WRITES_PER_SECOND {
            self.writes.pop_front();
        }
        self.writes.push_back(now);
        true
    }

    /// Returns the time from which another write is allowed.
    pub(crate) fn next_write(&self) -> Time {
        match self.writes.front() {
            Some(first) if self.writes.len() >= WRITES_PER_SECOND => {
                first.plus_millis(SECOND_MILLIS)
            }
            _ => Time(0),
        }
    }

    pub(crate) fn wait(&mut self, job: JobId) {
        if self.is_waiting.insert(job) {
            self.waiting.push_back(job);
        }
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes as many jobs as may write in a second.
    pub(crate) fn take(&mut self) -> Vec<JobId> {
        let count = self.waiting.len().min(WRITES_PER_SECOND);
        let jobs: Vec<JobId> = self.waiting.drain(..count).collect();
        for job in &jobs {
            self.is_waiting.remove(job);
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn projected(seconds: i64) -> EstimatedStart {
        estimate(EstimateKind::Projected, Time::from_seconds(seconds), Time::from_seconds(0))
    }

    #[test]
    fn an_estimate_has_moved_by_a_minute_and_a_tenth_of_what_is_left() {
        // The estimate on record, the new one, and whether that is worth a write at second 1000.
        for (written, found, is_worth) in [
            (1_100, 1_160, false),
            (1_100, 1_161, true),
            (1_161, 1_100, true),
            (4_600, 4_680, false),
            (4_600, 5_000, false),
            (4_600, 5_001, true),
            (5_001, 4_600, true),
            // The job was to start before now, and has not.
            (900, 1_000, true),
            (950, 1_000, false),
        ] {
            let moved =
                has_moved(&projected(written), &projected(found), Time::from_seconds(1_000));
            assert_eq!(moved, is_worth, "{written}, then {found}");
        }
    }

    #[test]
    fn a_promise_moves_with_every_second() {
        let reserved =
            |seconds| EstimatedStart { kind: EstimateKind::Reserved, ..projected(seconds) };
        let now = Time::from_seconds(0);
        assert!(
            has_moved(&reserved(7_200), &reserved(7_201), now)
                && !has_moved(&reserved(7_200), &reserved(7_200), now)
        );
        assert!(
            has_moved(&projected(7_200), &reserved(7_200), now),
            "a promise is more than an estimate"
        );
    }

    #[test]
    fn five_in_any_second() {
        let mut estimates = Estimates::default();
        let granted: Vec<i64> = (0..300)
            .map(|at| at * 10)
            .filter(|at| estimates.may_write(Time(0).plus_millis(*at)))
            .collect();
        assert_eq!(granted.len(), 15);
        assert!(granted.windows(6).all(|six| six[5] - six[0] >= 1_000), "{granted:?}");
    }
}
