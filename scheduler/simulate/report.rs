//! What came of a simulation, as numbers.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers for people, far below 2^53"
)]

use serde::Serialize;

use super::Outcome;

/// A job that ran for less is taken to have run for so long where its wait is compared with that,
/// in seconds: otherwise jobs of a second decide the mean.
pub const SLOWDOWN_BOUND: u64 = 10;

/// The numbers. Times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Jobs that ran.
    pub jobs: usize,
    /// Jobs that did not.
    pub skipped: usize,
    /// From the submit time to the start.
    pub wait: Spread,
    /// (wait + run) / run, where run is at least [`SLOWDOWN_BOUND`]; at least 1.
    pub bounded_slowdown: Spread,
    /// Node seconds that jobs had, of those that there were from the first submit time to the last
    /// end.
    pub utilisation: f64,
    /// From the first submit time to the last end.
    pub makespan: u64,
    /// No order of these jobs could end earlier: the longest of what each needs from its submit
    /// time on, and of what all that come from some instant on need of the machine.
    pub makespan_lower_bound: u64,
    /// Jobs that wait, over the makespan.
    pub queue_length: QueueLength,
}

/// How a number is spread over the jobs.
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

/// How many jobs waited.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueLength {
    /// On the average over time.
    pub mean: f64,
    /// At most.
    pub max: usize,
}

impl Report {
    /// The numbers of an outcome.
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
        // The nearest rank: a value that there is.
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

/// How many jobs wait, from each instant on at which that changes. Whoever starts at once does not
/// count.
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

/// What no order of the jobs could be better than.
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
        // All of it, 51 node seconds on two nodes from 10 on.
        assert_eq!(report.makespan_lower_bound, 26);
        assert_eq!(report.wait, Spread { mean: 25.0 / 3.0, median: 10.0, p95: 15.0, max: 15.0 });
        // 1, 30 / 20, and of the last (15 + 1) / 10.
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
