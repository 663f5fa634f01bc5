//! A backlog: more jobs than there is room for. It shows which start each job was promised, and
//! when the job started.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use flux_lists::hostlist;
use fluxqueue::simulate::{Outcome, Ran};
use fluxqueue_api::{FluxJob, FluxJobStatus, JobState, placement};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Seconds by which a start may be observed after the promised one and still be on time: a kubelet
/// starts pods some moments after the decision, and clocks show whole seconds.
const LATE_SECONDS: i64 = 2;

/// The jobs, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    jobs: BTreeMap<String, Entry>,
}

/// A job of the backlog.
#[derive(Debug, Clone, Default)]
struct Entry {
    walltime: Option<i64>,
    queued: Option<Timestamp>,
    /// The first start that the job was promised, and the last.
    promised: Option<(Timestamp, Timestamp)>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    nodes: Vec<String>,
    failed: bool,
}

impl Backlog {
    /// Reads the news from FluxJobs.
    pub(crate) fn take<'a>(&mut self, jobs: impl IntoIterator<Item = &'a FluxJob>) {
        for (job, status) in jobs.into_iter().filter_map(|job| Some((job, job.status.as_ref()?))) {
            let entry = self.jobs.entry(job.spec.workload_ref.name.clone()).or_default();
            entry.walltime = status.walltime_seconds.or(entry.walltime);
            entry.queued = status.queued_at.as_ref().map(at).or(entry.queued);
            if let Some(start) =
                status.reservation.as_ref().and_then(|reservation| reservation.start.as_ref())
            {
                let first = entry.promised.map_or(at(start), |(first, _)| first);
                entry.promised = Some((first, at(start)));
            }
            entry.started = status.start_time.as_ref().map(at);
            entry.ended = status.completion_time.as_ref().map(at);
            entry.failed = status.state == Some(JobState::Failed);
            entry.nodes = nodes_of(status).unwrap_or_else(|| std::mem::take(&mut entry.nodes));
        }
    }

    /// True if this number of jobs have come, and all of them have ended.
    pub(crate) fn is_over(&self, jobs: usize) -> bool {
        self.jobs.len() == jobs && self.jobs.values().all(|job| job.ended.is_some())
    }

    /// Returns how many jobs are known, wait, run and have ended.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let started = self.jobs.values().filter(|job| job.started.is_some()).count();
        let ended = self.jobs.values().filter(|job| job.ended.is_some()).count();
        [self.jobs.len(), self.jobs.len() - started, started.saturating_sub(ended), ended]
    }

    /// Returns a table of the promised and the observed times, in seconds since the first job came,
    /// X
    pub(crate) fn table(&self) -> (String, usize) {
        let Some(zero) = self.zero() else { return ("No job came.\n".to_owned(), 1) };
        let seconds = |at: Option<Timestamp>| {
            at.map_or("-".to_owned(), |at| format!("{} s", since(zero, at)))
        };
        let mut text = String::new();
        let heads = ["NODES", "WALLTIME", "PROMISED", "AT LAST", "STARTED", "ENDED"];
        let _ = writeln!(text, "{:<12} {}  RESULT", "JOB", columns(heads));
        let mut wrong = 0;
        let mut jobs: Vec<(&String, &Entry)> = self.jobs.iter().collect();
        jobs.sort_by_key(|(_, job)| (job.started.is_none(), job.started));
        for (name, job) in jobs {
            let verdict = job.verdict();
            wrong += usize::from(verdict.is_err());
            let (Ok(verdict) | Err(verdict)) = verdict;
            let fields = [
                &job.nodes.len().to_string(),
                &job.walltime.map_or("-".to_owned(), |walltime| format!("{walltime} s")),
                &seconds(job.promised.map(|(first, _)| first)),
                &seconds(job.promised.map(|(_, last)| last)),
                &seconds(job.started),
                &seconds(job.ended),
            ];
            let _ = writeln!(text, "{name:<12} {}  {verdict}", columns(fields.map(String::as_str)));
        }
        (text, wrong)
    }

    /// Returns which job ran when and where, for the chart.
    pub(crate) fn outcome(&self) -> Outcome {
        let zero = self.zero().unwrap_or_default();
        let mut names: Vec<&String> = self.jobs.values().flat_map(|job| &job.nodes).collect();
        names.sort();
        names.dedup();
        let number =
            |name: &String| names.binary_search(&name).ok().and_then(|at| u32::try_from(at).ok());
        let positive = |at: Timestamp| u64::try_from(since(zero, at)).unwrap_or(0);
        let mut ran = Vec::new();
        for (name, job) in &self.jobs {
            let (Some(start), Some(end)) = (job.started.map(positive), job.ended.map(positive))
            else {
                continue;
            };
            let nodes =
                job.nodes.iter().filter_map(number).map(|node| node..=node).collect::<Vec<_>>();
            let node_seconds =
                seconds_of(end.saturating_sub(start)) * seconds_of(nodes.len() as u64);
            let submit = job.queued.map_or(0, positive).min(start);
            ran.push(Ran {
                job: Arc::from(name.as_str()),
                submit,
                start,
                end: end.max(start),
                nodes,
                node_seconds,
            });
        }
        ran.sort_by_key(|job| (job.start, Arc::clone(&job.job)));
        Outcome {
            title: "The backlog of the demo".to_owned(),
            policy: "easy".to_owned(),
            nodes: u32::try_from(names.len()).unwrap_or(u32::MAX),
            node_names: names.iter().map(|name| name.as_str().into()).collect(),
            ran,
            skipped: Vec::new(),
            remarks: Vec::new(),
        }
    }

    fn zero(&self) -> Option<Timestamp> {
        self.jobs.values().filter_map(|job| job.queued).min()
    }
}

impl Entry {
    /// Says how well the job kept its promise; the error says where it failed to.
    fn verdict(&self) -> Result<&'static str, &'static str> {
        match (self.promised, self.started) {
            _ if self.failed => Err("failed"),
            (_, None) => Err("never started"),
            (None, Some(_)) if self.waited() => Ok("in a gap"),
            (None, Some(_)) => Ok("at once"),
            (Some((_, last)), Some(started)) if since(last, started) > LATE_SECONDS => Err("LATE"),
            (Some((first, last)), Some(_)) if since(first, last) > LATE_SECONDS => {
                Err("promised later than first")
            }
            (Some((_, last)), Some(started)) if since(started, last) > LATE_SECONDS => {
                Ok("earlier than promised")
            }
            (Some(_), Some(_)) => Ok("as promised"),
        }
    }

    fn waited(&self) -> bool {
        self.queued
            .zip(self.started)
            .is_some_and(|(queued, started)| since(queued, started) > LATE_SECONDS)
    }
}

/// Returns the nodes of a job's placement, also those whose pods have ended.
fn nodes_of(status: &FluxJobStatus) -> Option<Vec<String>> {
    if status.placement.is_empty() {
        return hostlist::decode(status.shown_nodes()?).ok();
    }
    let mut status = status.clone();
    placement::spell_out(&mut status).ok()?;
    let seats = placement::expand(&status.placement).ok()?;
    let nodes: BTreeSet<String> = seats.into_iter().map(|(_, _, node)| node.to_string()).collect();
    Some(nodes.into_iter().collect())
}

fn columns([nodes, walltime, promised, last, started, ended]: [&str; 6]) -> String {
    format!("{nodes:>5} {walltime:>9} {promised:>9} {last:>9} {started:>9} {ended:>9}")
}

fn at(time: &MicroTime) -> Timestamp {
    time.0
}

fn since(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second() - from.as_second()
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
fn seconds_of(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_api::{FluxJobSpec, Overrides, Reservation, WorkloadKind, WorkloadRef};

    fn time(second: i64) -> MicroTime {
        MicroTime(Timestamp::from_second(1_000 + second).expect("a time"))
    }

    fn flux_job(name: &str, change: impl FnOnce(&mut FluxJobStatus)) -> FluxJob {
        let workload_ref = WorkloadRef {
            api_version: Some("batch/v1".to_owned()),
            kind: WorkloadKind::Job,
            name: name.to_owned(),
            uid: format!("uid-{name}"),
        };
        let spec =
            FluxJobSpec { workload_ref, scheduler_name: None, overrides: Overrides::default() };
        let mut job = FluxJob::new(name, spec);
        let mut status = FluxJobStatus { queued_at: Some(time(0)), ..FluxJobStatus::default() };
        change(&mut status);
        job.status = Some(status);
        job
    }

    fn promised(start: i64) -> impl FnOnce(&mut FluxJobStatus) {
        move |status| {
            status.reservation = Some(Reservation {
                start: Some(time(start)),
                nodes: "n[1-2]".to_owned(),
                ..Reservation::default()
            });
        }
    }

    fn ran(start: i64, end: i64, nodes: &str) -> impl FnOnce(&mut FluxJobStatus) {
        let nodes = nodes.to_owned();
        move |status| {
            (status.start_time, status.completion_time) = (Some(time(start)), Some(time(end)));
            status.display_nodes = Some(nodes);
        }
    }

    #[test]
    fn a_promise_is_kept_within_the_precision_of_clocks() {
        for (last, start, verdict) in [
            (20, 22, Ok("as promised")),
            (20, 23, Err("LATE")),
            (20, 10, Ok("earlier than promised")),
            (30, 30, Err("promised later than first")),
        ] {
            let mut backlog = Backlog::default();
            backlog.take([&flux_job("j", promised(20))]);
            backlog.take([&flux_job("j", promised(last))]);
            backlog.take([&flux_job("j", ran(start, 40, "n[1-2]"))]);
            assert_eq!(backlog.jobs["j"].verdict(), verdict, "promised {last}, started {start}");
            assert_eq!(backlog.table().1, usize::from(verdict.is_err()));
        }
    }

    #[test]
    fn a_job_without_a_promise_started_at_once_or_in_a_gap() {
        let mut backlog = Backlog::default();
        backlog.take([&flux_job("first", ran(1, 9, "n1")), &flux_job("small", ran(5, 9, "n2"))]);
        assert_eq!(backlog.jobs["first"].verdict(), Ok("at once"));
        assert_eq!(backlog.jobs["small"].verdict(), Ok("in a gap"));
        assert!(backlog.is_over(2) && !backlog.is_over(3));
        backlog.take([&flux_job("waits", |_| {})]);
        assert_eq!((backlog.counts(), backlog.table().1), ([3, 1, 0, 2], 1));
    }

    #[test]
    fn the_chart_has_each_job_on_its_nodes() {
        let mut backlog = Backlog::default();
        backlog.take([&flux_job("b", ran(8, 20, "n[2-3]")), &flux_job("a", ran(1, 9, "n[1,3]"))]);
        let outcome = backlog.outcome();
        let drawn: Vec<_> = outcome
            .ran
            .iter()
            .map(|ran| (&*ran.job, ran.start, ran.end, ran.node_count()))
            .collect();
        assert_eq!((drawn, outcome.nodes), (vec![("a", 1, 9, 2), ("b", 8, 20, 2)], 3));
        assert_eq!(outcome.ran[0].nodes, [0..=0, 2..=2]);
    }
}
