//! The jobs that were submitted, the phase of each, and whether it does as its manifest says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fluxqueue_api::JobState;
use jiff::Timestamp;

use crate::expect::{Expectation, Waits};
use crate::look::{Look, Record, SeenPod, Workload};

/// The longest time between the first and the last pod of a group that starts together. The times
/// of pods are whole seconds.
const TOGETHER_SECONDS: i64 = 2;

/// All jobs that were submitted, in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub jobs: Vec<Job>,
}

/// An object with the annotation that says what must happen to it.
#[derive(Debug)]
pub(crate) struct Job {
    /// The name, unique among the examples of all kinds.
    pub name: String,
    pub expected: Expectation,
    pub phase: Phase,
    /// The end of the job, or the phase in which it stays, in the words of the annotation.
    pub end: Option<String>,
    pub pods: Pods,
    /// The time since the submission at which the job was first seen.
    pub seen_at: Duration,
    pub started_at: Option<Duration>,
    pub ended_at: Option<Duration>,
    /// The reason for which the job waited, as last seen.
    pub waited_for: Option<String>,
    /// True if the manifest demands that a job waits, and none has been seen waiting yet.
    has_to_wait: bool,
    /// The times at which the first and the last pod of the job, or of its group, were scheduled.
    scheduled: Option<(Timestamp, Timestamp)>,
}

/// The phase of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    Unsatisfiable,
    Refused,
    Placed,
    Running,
    Done,
    Failed,
}

/// The pods of a job: their names and phases.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pods {
    pub names: BTreeSet<String>,
    pub bound: usize,
    running: usize,
    ended: usize,
    group: Option<String>,
    stamps: Vec<Timestamp>,
}

impl Board {
    /// Takes a look into account. `now` is the time since the submission.
    pub(crate) fn take(&mut self, look: &Look, now: Duration) {
        for workload in look.workloads.iter().filter(|workload| workload.owner.is_none()) {
            self.remember(&workload.name, workload.expected.as_deref(), now);
        }
        for pod in &look.pods {
            self.remember(&pod.name, pod.expected.as_deref(), now);
        }
        let mut pods = pods_of_jobs(look);
        let groups = stamps_of_groups(pods.values());
        for job in &mut self.jobs {
            job.pods = pods.remove(&job.name).unwrap_or_default();
            let stamps = job
                .pods
                .group
                .as_ref()
                .and_then(|group| groups.get(group))
                .unwrap_or(&job.pods.stamps);
            job.scheduled = stamps.iter().min().copied().zip(stamps.iter().max().copied());
            job.settle(end_of(look, &job.name), record_of(look, job), now);
        }
        let waited: BTreeSet<String> = self
            .jobs
            .iter()
            .filter(|job| job.waited_for.is_some())
            .map(|job| job.name.clone())
            .collect();
        for job in &mut self.jobs {
            job.has_to_wait = match &job.expected.waits {
                None => false,
                Some(Waits::It) => !waited.contains(&job.name),
                Some(Waits::ItOr(other)) => !waited.contains(&job.name) && !waited.contains(other),
            };
        }
    }

    fn remember(&mut self, name: &str, expected: Option<&str>, now: Duration) {
        if let Some(expected) = expected
            && self.jobs.iter().all(|job| job.name != name)
        {
            self.jobs.push(Job::new(name, Expectation::parse(expected), now));
        }
    }

    /// True if every job is as its manifest says, or has ended otherwise.
    pub(crate) fn is_settled(&self) -> bool {
        !self.jobs.is_empty()
            && self.jobs.iter().all(|job| job.phase.is_over() || job.differences().is_empty())
    }
}

impl Job {
    fn new(name: &str, expected: Expectation, now: Duration) -> Self {
        Job {
            name: name.to_owned(),
            expected,
            phase: Phase::Waiting,
            end: None,
            pods: Pods::default(),
            seen_at: now,
            started_at: None,
            ended_at: None,
            waited_for: None,
            has_to_wait: false,
            scheduled: None,
        }
    }

    /// Derives the phase and the times of the job from the parts of a look.
    fn settle(&mut self, end: Option<(Phase, String)>, record: Option<&Record>, now: Duration) {
        if self.pods.bound > 0 {
            self.started_at.get_or_insert(now);
        }
        let state = record.and_then(|record| record.state);
        (self.phase, self.end) = match (end, state) {
            (Some((phase, end)), _) => (phase, Some(end)),
            _ if self.pods.running > 0 => {
                (Phase::Running, Some(format!("Running: {}", self.pods.running)))
            }
            _ if self.pods.ended > 0 => (Phase::Running, None),
            _ if self.pods.bound > 0 => (Phase::Placed, None),
            (None, Some(JobState::Unsatisfiable)) => {
                (Phase::Unsatisfiable, Some("Unsatisfiable".to_owned()))
            }
            (None, Some(JobState::Refused)) => (Phase::Refused, Some("Refused".to_owned())),
            (None, _) => (Phase::Waiting, None),
        };
        if self.phase.is_over() {
            self.ended_at.get_or_insert(now);
        }
        if self.phase.waits()
            && let Some(why) = record.and_then(|record| record.blocked_by.clone())
        {
            self.waited_for = Some(why);
        }
    }

    /// Lists the points in which the job differs from its manifest.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut differences: Vec<String> = self
            .expected
            .unknown
            .iter()
            .map(|part| format!("{part:?} cannot be checked"))
            .collect();
        if self.end.as_deref() != Some(&self.expected.end) {
            differences.push(format!("not {}", self.expected.end));
        }
        if self.has_to_wait {
            differences.push("never waited".to_owned());
        }
        if self.expected.together && !self.is_together() {
            differences.push("not together".to_owned());
        }
        differences
    }

    /// Lists the reporters of the event Scheduled of the job's pods that the manifest does not
    /// name. `events` are pods and reporters.
    pub(crate) fn wrong_reporters(&self, events: &[(String, String)]) -> Vec<String> {
        let Some(by) = &self.expected.by else { return Vec::new() };
        let mut reporters =
            events.iter().filter(|(pod, _)| self.pods.names.contains(pod)).peekable();
        if reporters.peek().is_none() {
            return vec!["by no scheduler".to_owned()];
        }
        let wrong: BTreeSet<&String> =
            reporters.map(|(_, reporter)| reporter).filter(|it| *it != by).collect();
        wrong.into_iter().map(|reporter| format!("by {reporter}")).collect()
    }

    fn is_together(&self) -> bool {
        self.scheduled
            .is_some_and(|(first, last)| last.as_second() - first.as_second() <= TOGETHER_SECONDS)
    }
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Unsatisfiable => "unsatisfiable",
            Phase::Refused => "refused",
            Phase::Placed => "placed",
            Phase::Running => "running",
            Phase::Done => "done",
            Phase::Failed => "failed",
        }
    }

    /// True if the job has none of its nodes yet.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Phase::Waiting | Phase::Unsatisfiable | Phase::Refused)
    }

    fn is_over(self) -> bool {
        matches!(self, Phase::Done | Phase::Failed)
    }
}

/// Sorts the pods by job: the pod itself, its maker, or the Deployment above that.
fn pods_of_jobs(look: &Look) -> BTreeMap<String, Pods> {
    let above = |name: &String| {
        let made = look
            .workloads
            .iter()
            .find(|workload| workload.name == *name && workload.owner.is_some());
        made.and_then(|workload| workload.owner.clone()).unwrap_or_else(|| name.clone())
    };
    let mut jobs: BTreeMap<String, Pods> = BTreeMap::new();
    for pod in &look.pods {
        let job = if pod.expected.is_some() {
            Some(pod.name.clone())
        } else {
            pod.owner.as_ref().map(above)
        };
        if let Some(job) = job {
            jobs.entry(job).or_default().add(pod);
        }
    }
    jobs
}

impl Pods {
    fn add(&mut self, pod: &SeenPod) {
        self.names.insert(pod.name.clone());
        self.bound += usize::from(pod.is_bound);
        match pod.phase.as_str() {
            "Running" => self.running += 1,
            "Succeeded" | "Failed" => self.ended += 1,
            _ => {}
        }
        self.group.clone_from(&pod.group);
        self.stamps.extend(pod.scheduled);
    }
}

fn stamps_of_groups<'a>(pods: impl Iterator<Item = &'a Pods>) -> BTreeMap<String, Vec<Timestamp>> {
    let mut groups: BTreeMap<String, Vec<Timestamp>> = BTreeMap::new();
    for pods in pods {
        if let Some(group) = &pods.group {
            groups.entry(group.clone()).or_default().extend(&pods.stamps);
        }
    }
    groups
}

/// Returns the end of a job: by the conditions of the object, or by the phase of a lone pod.
fn end_of(look: &Look, name: &str) -> Option<(Phase, String)> {
    let of_conditions = |workload: &Workload| {
        if let Some(reason) = workload.conditions.get("Failed") {
            return Some((Phase::Failed, format!("Failed: {reason}")));
        }
        workload.conditions.get("Complete").map(|_| (Phase::Done, "Complete".to_owned()))
    };
    let workload =
        look.workloads.iter().find(|workload| workload.name == name && workload.owner.is_none());
    let pod = look.pods.iter().find(|pod| pod.name == name && pod.expected.is_some());
    match (workload, pod.map(|pod| (pod.phase.as_str(), &pod.reason))) {
        (Some(workload), _) => of_conditions(workload),
        (None, Some(("Failed", reason))) => Some((Phase::Failed, format!("Failed: {reason}"))),
        (None, Some(("Succeeded", _))) => Some((Phase::Done, "Complete".to_owned())),
        _ => None,
    }
}

/// Returns the FluxJob of a job. It has the name of the group, or of the workload if there is no
/// group.
fn record_of<'a>(look: &'a Look, job: &Job) -> Option<&'a Record> {
    let of_group = job.pods.group.as_ref().and_then(|group| look.records.get(group));
    of_group.or_else(|| look.records.get(&job.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(3);

    fn job(name: &str, expected: &str, conditions: &[(&str, &str)]) -> Workload {
        let conditions =
            conditions.iter().map(|(kind, reason)| ((*kind).to_owned(), (*reason).to_owned()));
        Workload {
            name: name.to_owned(),
            owner: None,
            expected: Some(expected.to_owned()),
            conditions: conditions.collect(),
        }
    }

    fn pod(name: &str, owner: &str, phase: &str, second: Option<i64>) -> SeenPod {
        SeenPod {
            name: name.to_owned(),
            owner: Some(owner.to_owned()),
            phase: phase.to_owned(),
            is_bound: second.is_some(),
            scheduled: second.map(|second| Timestamp::from_second(second).expect("a time")),
            ..SeenPod::default()
        }
    }

    fn waits(why: &str) -> Record {
        Record { state: Some(JobState::Pending), blocked_by: Some(why.to_owned()) }
    }

    fn only(look: &Look) -> Job {
        let mut board = Board::default();
        board.take(look, NOW);
        board.jobs.pop().expect("a job")
    }

    #[test]
    fn a_job_that_waited_and_is_complete_is_as_its_manifest_says() {
        let mut board = Board::default();
        let mut look =
            Look { workloads: vec![job("j", "Complete, waits", &[])], ..Look::default() };
        look.records.insert("j".to_owned(), waits("no room"));
        board.take(&look, Duration::ZERO);
        assert_eq!((board.jobs[0].phase, board.is_settled()), (Phase::Waiting, false));
        look.records.clear();
        look.workloads[0].conditions.insert("Complete".to_owned(), "Done".to_owned());
        look.pods = vec![pod("j-0", "j", "Succeeded", Some(5))];
        board.take(&look, NOW);
        assert!(board.is_settled());
        let job = &board.jobs[0];
        assert_eq!((job.differences(), job.waited_for.as_deref()), (Vec::new(), Some("no room")));
        assert_eq!(
            (job.seen_at, job.started_at, job.ended_at),
            (Duration::ZERO, Some(NOW), Some(NOW))
        );
    }

    #[test]
    fn if_one_of_two_jobs_has_to_wait_either_may() {
        for first in ["a", "b"] {
            let workloads = [("a", "b"), ("b", "a")]
                .map(|(name, other)| job(name, &format!("Complete, it or {other} waits"), &[]));
            let mut look = Look { workloads: workloads.to_vec(), ..Look::default() };
            let mut board = Board::default();
            board.take(&look, Duration::ZERO);
            let differences: Vec<Vec<String>> = board.jobs.iter().map(Job::differences).collect();
            assert_eq!(differences, [["not Complete", "never waited"]; 2]);
            look.records.insert(first.to_owned(), waits("no room"));
            for workload in &mut look.workloads {
                workload.conditions.insert("Complete".to_owned(), "Done".to_owned());
            }
            look.workloads
                .iter_mut()
                .filter(|job| job.name == first)
                .for_each(|job| job.conditions.clear());
            board.take(&look, NOW);
            look.workloads.iter_mut().for_each(|job| {
                drop(job.conditions.insert("Complete".to_owned(), "Done".to_owned()));
            });
            board.take(&look, NOW);
            assert!(board.is_settled(), "{first} waits: {:?}", board.jobs);
        }
    }

    #[test]
    fn differences_are_named() {
        let look = Look {
            workloads: vec![job(
                "j",
                "Complete, together, waits, later",
                &[("Failed", "BackoffLimitExceeded")],
            )],
            pods: vec![pod("j-0", "j", "Failed", Some(5)), pod("j-1", "j", "Running", Some(8))],
            ..Look::default()
        };
        let job = only(&look);
        assert_eq!(job.end.as_deref(), Some("Failed: BackoffLimitExceeded"));
        let expected =
            ["\"later\" cannot be checked", "not Complete", "never waited", "not together"];
        assert_eq!(job.differences(), expected);
    }

    #[test]
    fn pods_of_a_deployment_count_through_its_replica_set() {
        let mut set = job("web-1", "Running: 1", &[]);
        set.owner = Some("web".to_owned());
        let workloads = vec![job("web", "Running: 1", &[]), set];
        let look = Look {
            workloads,
            pods: vec![pod("web-1-a", "web-1", "Running", Some(1))],
            ..Look::default()
        };
        let job = only(&look);
        assert_eq!((job.name.as_str(), job.pods.bound, job.differences()), ("web", 1, Vec::new()));
    }

    #[test]
    fn a_group_is_together_only_if_all_of_its_jobs_are() {
        let of_group = |mut pod: SeenPod| {
            pod.group = Some("ring".to_owned());
            pod
        };
        let jobs = ["a", "b"].map(|name| job(name, "Running: 1, together", &[]));
        let mut look = Look { workloads: jobs.to_vec(), ..Look::default() };
        look.pods = vec![
            of_group(pod("a-0", "a", "Running", Some(10))),
            of_group(pod("b-0", "b", "Running", Some(12))),
        ];
        assert_eq!(only(&look).differences(), Vec::<String>::new());
        look.pods[1].scheduled = Some(Timestamp::from_second(13).expect("a time"));
        assert_eq!(only(&look).differences(), ["not together"]);
    }

    #[test]
    fn a_refused_pod_says_so_with_its_reason() {
        let pod = SeenPod {
            name: "p".to_owned(),
            expected: Some("Refused".to_owned()),
            phase: "Pending".to_owned(),
            ..SeenPod::default()
        };
        let record =
            Record { state: Some(JobState::Refused), blocked_by: Some("a claim".to_owned()) };
        let look =
            Look { pods: vec![pod], records: [("p".to_owned(), record)].into(), ..Look::default() };
        let job = only(&look);
        assert_eq!((job.differences(), job.waited_for.as_deref()), (Vec::new(), Some("a claim")));
    }

    #[test]
    fn an_event_of_another_reporter_is_noticed() {
        let look = Look {
            workloads: vec![job("j", "Running: 1, by fluence", &[])],
            pods: vec![pod("j-0", "j", "Running", Some(1))],
            ..Look::default()
        };
        let job = only(&look);
        let event = |by: &str| ("j-0".to_owned(), by.to_owned());
        assert_eq!(job.wrong_reporters(&[]), ["by no scheduler"]);
        assert_eq!(job.wrong_reporters(&[event("fluence")]), Vec::<String>::new());
        assert_eq!(
            job.wrong_reporters(&[event("fluence"), event("default-scheduler")]),
            ["by default-scheduler"]
        );
    }
}
