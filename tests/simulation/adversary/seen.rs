//! The view that the tenants of a namespace have of the scheduler, at the end of a second: the
//! places of their pods, their conditions, their FluxJobs, and their Events.
//!
//! The view leaves out everything that says nothing about the order of starts, or that is shared by
//! all for good reasons:
//!
//! - versions and uids of objects;
//! - estimates of starts: five of their writes are sent in a second, for all jobs together, and
//!   looking ahead takes its turns between steps. They are forecasts, not promises;
//! - the place in the queue, which counts all waiting jobs, including those that cannot start;
//! - the words that say why a job waits. They date from the last time that the plan looked at the
//!   job, and it looks again after any tenant's action, so they are newer in one world than in the
//!   other. The same is true of whether a pod has been told yet that it waits. Whether a job waits,
//!   is held, or can never start does count.
//!
//! A better promise is on record within five seconds, or at once if another job depends on it.
//! Where the adversary has promises, too, the records of the two worlds may therefore differ for
//! some seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use fluxqueue_api::{BlockedReason, EventReason, FluxJob, FluxJobSpec, FluxJobStatus, Reservation};
use fluxqueue_workload::{NodeName, ObjectKey, Phase, Pod, SuspensionPhase, Time};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

use super::side::Side;
use crate::server::flux_job_key;

/// The part of a pod that others decide.
#[derive(Debug, Clone, PartialEq)]
struct SeenPod {
    node: Option<NodeName>,
    nominated: Option<NodeName>,
    phase: Phase,
    started: Option<Time>,
    gates: usize,
    is_scheduled: bool,
}

/// The spec of a FluxJob, which users write, and its status.
type Record = (FluxJobSpec, Option<FluxJobStatus>);

/// The promise to a job.
type Promise = (Option<Reservation>, Option<MicroTime>);

/// The view in one second.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Seen {
    pods: BTreeMap<ObjectKey, SeenPod>,
    suspended: BTreeMap<ObjectKey, bool>,
    records: BTreeMap<ObjectKey, Record>,
    promises: BTreeMap<ObjectKey, Promise>,
    events: Vec<String>,
}

impl Seen {
    /// Returns the view of the tenants of these namespaces.
    pub(super) fn by(namespaces: &[&str], side: &Side) -> Self {
        let is_theirs = |key: &ObjectKey| namespaces.contains(&&*key.namespace);
        let server = &side.world.server;
        let pods = server.pods.values().filter(|pod| is_theirs(&pod.id.key));
        let jobs = server.controllers.values().filter(|job| is_theirs(&job.id.key));
        let records = || {
            server
                .flux_jobs
                .values()
                .map(|job| (flux_job_key(job), job))
                .filter(|(key, _)| is_theirs(key))
        };
        let events = side
            .events
            .iter()
            .filter(|note| is_theirs(&note.subject.key()) && !is_why(note.reason));
        let mut events: Vec<String> = events
            .map(|note| format!("{} {}: {}", note.subject.key(), note.reason, note.note))
            .collect();
        events.sort();
        Seen {
            pods: pods.map(|pod| (pod.id.key.clone(), SeenPod::of(pod))).collect(),
            suspended: jobs
                .filter_map(|job| {
                    let is_marked =
                        matches!(job.suspension.as_ref()?.phase, SuspensionPhase::Marked { .. });
                    Some((job.id.key.clone(), is_marked))
                })
                .collect(),
            records: records().map(|(key, job)| (key, record(job))).collect(),
            promises: records()
                .filter_map(|(key, job)| Some((key, promise(job.status.as_ref()?))))
                .collect(),
            events,
        }
    }

    /// Returns how many pods started at this instant.
    pub(super) fn started_at(&self, now: Time) -> u64 {
        let started =
            self.pods.values().filter(|pod| pod.node.is_some() && pod.started == Some(now)).count();
        u64::try_from(started).expect("a few")
    }

    /// Returns the difference from the view in the other world, without promises; `None` if there
    /// is none.
    pub(super) fn difference(&self, twin: &Seen) -> Option<String> {
        let mut text = String::new();
        differ(&mut text, "pod", &self.pods, &twin.pods, |pod, _| format!("{pod:?}"));
        differ(&mut text, "suspension", &self.suspended, &twin.suspended, |is_marked, _| {
            is_marked.to_string()
        });
        differ(&mut text, "FluxJob", &self.records, &twin.records, news);
        if self.events != twin.events {
            let _ = write!(text, "events {:?}, in the twin {:?}; ", self.events, twin.events);
        }
        (!text.is_empty()).then_some(text)
    }

    /// Returns the jobs with other promises in the other world, and their promises in each.
    pub(super) fn promised_otherwise(&self, twin: &Seen) -> BTreeMap<ObjectKey, String> {
        let promises =
            self.promises.iter().filter(|(key, promise)| twin.promises.get(*key) != Some(*promise));
        let say = |key: &ObjectKey, promise| {
            format!("{promise:?}, in the twin {:?}", twin.promises.get(key))
        };
        promises.map(|(key, promise)| (key.clone(), say(key, promise))).collect()
    }
}

impl SeenPod {
    fn of(pod: &Pod) -> Self {
        SeenPod {
            node: pod.node.clone(),
            nominated: pod.nominated.clone(),
            phase: pod.phase.clone(),
            started: pod.started,
            gates: pod.gates.len(),
            is_scheduled: pod
                .scheduled_condition
                .as_ref()
                .is_some_and(|condition| condition.scheduled),
        }
    }
}

fn record(job: &FluxJob) -> Record {
    let status = job.status.clone().map(|mut status| {
        for condition in status.conditions.iter_mut().filter(|condition| is_why(&condition.reason))
        {
            (condition.reason, condition.message) = (String::new(), String::new());
            condition.last_transition_time.0 = Timestamp::UNIX_EPOCH;
        }
        FluxJobStatus {
            estimated_start: None,
            start_estimates: None,
            position: None,
            blocked_by: Vec::new(),
            reservation: None,
            passed_by_since: None,
            ..status
        }
    });
    (job.spec.clone(), status)
}

fn promise(status: &FluxJobStatus) -> Promise {
    (status.reservation.clone(), status.passed_by_since.clone())
}

/// True if the reason is one for which a job waits.
fn is_why(reason: &str) -> bool {
    reason == EventReason::FailedScheduling.as_str()
        || BlockedReason::ALL.iter().any(|it| it.as_str() == reason)
}

/// Returns the entries in which two maps differ. `say` renders an entry of one map that the other
/// lacks.
fn differ<T: PartialEq>(
    text: &mut String,
    what: &str,
    here: &BTreeMap<ObjectKey, T>,
    twin: &BTreeMap<ObjectKey, T>,
    say: impl Fn(&T, Option<&T>) -> String,
) {
    let names: BTreeSet<&ObjectKey> = here.keys().chain(twin.keys()).collect();
    for name in names {
        let (ours, theirs) = (here.get(name), twin.get(name));
        if ours != theirs {
            let said =
                |it: Option<&T>, other| it.map_or_else(|| "none".to_owned(), |it| say(it, other));
            let _ = write!(
                text,
                "{what} {name} {}, in the twin {}; ",
                said(ours, theirs),
                said(theirs, ours)
            );
        }
    }
}

/// Returns the fields in which a FluxJob differs from another.
fn news(job: &Record, other: Option<&Record>) -> String {
    let fields = |job: &Record| serde_json::to_value(job).unwrap_or_default();
    let (job, other) = (fields(job), other.map(fields).unwrap_or_default());
    let parts = job.as_array().into_iter().flatten().enumerate().flat_map(|(at, part)| {
        let other = other[at].clone();
        part.as_object().into_iter().flatten().filter(move |(name, value)| other[name] != **value)
    });
    let parts: Vec<String> = parts.map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{{{}}}", parts.join(", "))
}
