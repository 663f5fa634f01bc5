//! The outcome of a simulation, as numbers.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers for people, far below 2^53"
)]

use serde::Serialize;

use super::Outcome;

/// The least run time, in seconds, with which a wait is compared in the bounded slowdown: otherwise
/// jobs of a second decide the mean.
pub const SLOWDOWN_BOUND: u64 = 10;

/// The numbers. Times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The number of jobs that ran.
    pub jobs: usize,
    /// The number of jobs that did not run.
    pub skipped: usize,
    /// The time from submit to start.
    pub wait: Spread,
    /// (wait + run) / run, where run is at least [`SLOWDOWN_BOUND`]; at least 1.
    pub bounded_slowdown: Spread,
    /// The node seconds that jobs had, as a share of all from the first submit time to the last
    /// end.
    pub utilisation: f64,
    /// The time from the first submit time to the last end.
    pub makespan: u64,
    /// A bound below which no order of these jobs could end: the longest of the time that each
    /// needs from its submit time on, and of the time that the machine needs for all jobs from some
    /// instant on.
    pub makespan_lower_bound: u64,
    /// The number of waiting jobs, over the makespan.
    pub queue_length: QueueLength,
}

/// The spread of a number over the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The arithmetic mean.
    pub mean: f64,
    /// Half of the jobs have no more.
    pub median: f64,
    /// 95 of 100 have no more.
    pub p95: f64,
    /// None has more.
    pub max: f64,
}

/// The number of waiting jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueLength {
    /// The average over time.
    pub mean: f64,
    /// The maximum.
    pub max: usize,
}

impl Report {
    /// Computes the numbers of an outcome.
    pub fn of(outcome: &Outcome) -> Self {
        let ran = &outcome.ran;
        let first = ran.iter().map(|job| job.submit).min().unwrap_or(0);
        let last = ran.iter().map(|job| job.end).max().unwrap_or(0);
        let makespan = last - first;
        let area: f64 = ran.iter().map(|job| job.node_seconds).sum();
        let capacity = f64::from(outcome.nodes) * makespan as f64;
        let slowdown = |job: &super::Ran| {
            let run = job.run().max(SLOWDOWN_BOUND) as f64;
            ((job.wait() + job.run()) as f64 / run).max(1.0)
        };
        Report {
            jobs: ran.len(),
            skipped: outcome.skipped.len(),
            wait: Spread::of(ran.iter().map(|job| job.wait() as f64).collect()),
            bounded_slowdown: Spread::of(ran.iter().map(slowdown).collect()),
            utilisation: if capacity > 0.0 { area / capacity } else { 0.0 },
            makespan,
            makespan_lower_bound: lower_bound(outcome, first),
            queue_length: QueueLength::of(&queue(outcome), makespan),
        }
    }
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            return Spread::default();
        }
        values.sort_by(f64::total_cmp);
        // The nearest rank, which is one of the values.
        let at = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        Spread {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            median: at(50),
            p95: at(95),
            max: values[values.len() - 1],
        }
    }
}

impl QueueLength {
    fn of(steps: &[(u64, usize)], makespan: u64) -> Self {
        let area: f64 =
            steps.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 * pair[0].1 as f64).sum();
        let max = steps.iter().map(|(_, waiting)| *waiting).max().unwrap_or(0);
        QueueLength { mean: if makespan > 0 { area / makespan as f64 } else { 0.0 }, max }
    }
}

/// Returns the number of waiting jobs from each instant at which it changes. A job that starts at
/// once does not count.
pub(super) fn queue(outcome: &Outcome) -> Vec<(u64, usize)> {
    let came = outcome.ran.iter().map(|job| (job.submit, 1_i64));
    let started = outcome.ran.iter().map(|job| (job.start, -1_i64));
    let mut changes: Vec<(u64, i64)> = came.chain(started).collect();
    changes.sort_unstable_by_key(|(at, _)| *at);
    let mut steps: Vec<(u64, usize)> = Vec::new();
    let mut waiting = 0;
    for same in changes.chunk_by(|a, b| a.0 == b.0) {
        waiting += same.iter().map(|(_, change)| change).sum::<i64>();
        steps.push((same[0].0, usize::try_from(waiting).unwrap_or(0)));
    }
    steps
}

/// Returns a makespan that no order of the jobs could beat.
fn lower_bound(outcome: &Outcome, first: u64) -> u64 {
    let longest = outcome.ran.iter().map(|job| job.submit + job.run() - first).max().unwrap_or(0);
    let mut latest_first: Vec<&super::Ran> = outcome.ran.iter().collect();
    latest_first.sort_unstable_by_key(|job| std::cmp::Reverse(job.submit));
    let (mut area, mut bound) = (0.0, longest);
    for job in latest_first {
        area += job.node_seconds;
        let needs = (area / f64::from(outcome.nodes.max(1))).ceil();
        bound = bound.max(job.submit - first + needs as u64);
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::super::Ran;
    use super::*;

    fn ran(submit: u64, start: u64, end: u64, nodes: u32) -> Ran {
        let name = format!("{submit}-{start}");
        Ran {
            job: name.into(),
            submit,
            start,
            end,
            nodes: vec![0..=nodes - 1],
            node_seconds: ((end - start) * u64::from(nodes)) as f64,
        }
    }

    fn report(nodes: u32, ran: Vec<Ran>) -> Report {
        let (title, policy) = (String::new(), String::new());
        Report::of(&Outcome {
            title,
            policy,
            nodes,
            node_names: Vec::new(),
            ran,
            skipped: Vec::new(),
            remarks: Vec::new(),
        })
    }

    #[test]
    fn numbers_of_three_jobs_that_can_be_counted_by_hand() {
        // Two nodes; the second job wants both, the third comes when the second has begun.
        let report = report(2, vec![ran(10, 10, 20, 1), ran(10, 20, 40, 2), ran(25, 40, 41, 1)]);
        assert_eq!(report.makespan, 31);
        // (10 + 40 + 1) / (2 * 31)
        assert!((report.utilisation - 51.0 / 62.0).abs() < 1e-9);
        // This counts all: 51 node seconds on two nodes from 10 on.
        assert_eq!(report.makespan_lower_bound, 26);
        assert_eq!(report.wait, Spread { mean: 25.0 / 3.0, median: 10.0, p95: 15.0, max: 15.0 });
        // 1, 30 / 20, and (15 + 1) / 10 for the last.
        assert_eq!((report.bounded_slowdown.median, report.bounded_slowdown.max), (1.5, 1.6));
        // One waits from 10 to 20 and one from 25 to 40.
        assert_eq!(report.queue_length, QueueLength { mean: 25.0 / 31.0, max: 1 });
    }

    #[test]
    fn a_late_job_bounds_the_makespan() {
        let report = report(4, vec![ran(0, 0, 5, 1), ran(100, 100, 130, 1)]);
        assert_eq!((report.makespan, report.makespan_lower_bound), (130, 130));
    }

    #[test]
    fn nothing_has_numbers_too() {
        let report = report(4, Vec::new());
        assert_eq!((report.makespan, report.makespan_lower_bound, report.jobs), (0, 0, 0));
        assert!(report.utilisation.abs() < 1e-9);
    }
}
