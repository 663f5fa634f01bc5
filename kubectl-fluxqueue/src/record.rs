//! A FluxJob as the commands read it.
//!
//! Read leniently: a state or reason that is newer than this program is shown as it is, and a field
//! of another form counts as absent, so that one strange object hides no other. The placement,
//! which is most of a large FluxJob, is not decoded.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::value::RawValue;

use fluxqueue_api::{Overrides, names, text};
use fluxqueue_workload::quantity::Quantity;

use crate::when_text::{clock, lenient, off};

/// The parts of any object's metadata that are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// The version that was read.
    pub resource_version: String,
    /// The time at which it was created.
    #[serde(deserialize_with = "lenient")]
    pub creation_timestamp: Option<Timestamp>,
    /// The time at which its deletion began.
    #[serde(deserialize_with = "lenient")]
    pub deletion_timestamp: Option<Timestamp>,
    /// Its labels.
    pub labels: std::collections::BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: std::collections::BTreeMap<String, String>,
    /// Its owners.
    pub owner_references: Vec<Owner>,
}

/// An owner reference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    /// API group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// True if it makes the object.
    pub controller: bool,
}

/// A FluxJob.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// Its metadata.
    pub metadata: Meta,
    /// The workload that it stands for, and the wishes of people.
    pub spec: Spec,
    /// The status that Fluxqueue has written.
    pub status: Status,
    /// The user of the workload, once it was looked up.
    #[serde(skip)]
    pub user: Option<String>,
}

/// The spec of a [`Record`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    /// The workload.
    pub workload_ref: Workload,
    /// The wishes of people.
    pub overrides: Overrides,
}

/// The workload that a FluxJob stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Workload {
    /// Its kind, such as Job.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid; for a group, that of its first pod.
    pub uid: String,
}

/// The status of a [`Record`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    /// Conditions of Fluxqueue and of others.
    pub conditions: Vec<Condition>,
    /// The conditions in one word.
    pub state: String,
    /// The priority that counts.
    pub priority: Option<i64>,
    /// The queue that counts.
    pub queue_name: String,
    /// The walltime that counts, in seconds.
    pub walltime_seconds: Option<i64>,
    /// The time at which the job took its place in the queue.
    #[serde(deserialize_with = "lenient")]
    pub queued_at: Option<Timestamp>,
    /// Its place in the queue.
    pub position: Option<i64>,
    /// Its expected start.
    pub estimated_start: Option<Estimate>,
    /// The estimates while it waited.
    pub start_estimates: Option<Estimates>,
    /// The start that it is promised.
    pub reservation: Option<Promise>,
    /// The time since which others may pass it by.
    #[serde(deserialize_with = "lenient")]
    pub passed_by_since: Option<Timestamp>,
    /// The time at which its first pod was bound.
    #[serde(deserialize_with = "lenient")]
    pub start_time: Option<Timestamp>,
    /// The time at which its last pod ended.
    #[serde(deserialize_with = "lenient")]
    pub completion_time: Option<Timestamp>,
    /// Its nodes, for people.
    pub display_nodes: String,
    /// The observed properties of the workload.
    pub workload: Observed,
    /// How many pods are bound.
    pub bound: i64,
    /// The number of pods that the job wants.
    pub total: i64,
    /// The things in its way.
    pub blocked_by: Vec<Blocker>,
}

/// See `workload` of a status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Observed {
    /// Its pods by what they request.
    pub pod_sets: Vec<PodSet>,
}

/// Pods that are alike.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodSet {
    /// How many they are.
    pub count: i64,
}

/// A condition.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    /// Its type.
    pub r#type: String,
    /// True, False or Unknown.
    pub status: String,
    /// The reason in one word.
    pub reason: String,
    /// The reason for people.
    pub message: String,
    /// The time of the last transition.
    #[serde(deserialize_with = "lenient")]
    pub last_transition_time: Option<Timestamp>,
}

/// An expected start.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Estimate {
    /// The start.
    #[serde(deserialize_with = "lenient")]
    pub time: Option<Timestamp>,
    /// Reserved or Projected.
    pub kind: String,
    /// The time at which the estimate was made.
    #[serde(deserialize_with = "lenient")]
    pub as_of: Option<Timestamp>,
}

/// The `startEstimates` of a FluxJob.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Estimates {
    /// The first estimate.
    pub first: Option<Estimate>,
    /// The start that was promised last.
    #[serde(deserialize_with = "lenient")]
    pub promised: Option<Timestamp>,
    /// The seconds by which it started later than the first estimate.
    pub later_than_first_seconds: Option<i64>,
    /// The seconds by which it started later than the last promise.
    pub later_than_promised_seconds: Option<i64>,
}

/// A promised start; without one, nodes are held.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Promise {
    /// The latest start of the job.
    #[serde(deserialize_with = "lenient")]
    pub start: Option<Timestamp>,
}

/// One thing that is in the way of a job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Blocker {
    /// The reason in one word.
    pub reason: String,
    /// The reason for people.
    pub message: String,
    /// The amount of a resource that the job requests; `None` if the limit counts jobs.
    pub requested: Option<String>,
    /// The limit.
    pub limit: Option<String>,
    /// The job in the way.
    pub behind: Option<String>,
    /// The time from which nodes are kept for that job.
    #[serde(deserialize_with = "lenient")]
    pub reserved_from: Option<Timestamp>,
}

impl Blocker {
    /// True if the job asks for more than the limit, however much of it others use. A limit on some
    /// nodes alone may leave it others all the same.
    pub(crate) fn is_beyond_limit(&self) -> bool {
        let requested = Quantity::parse(self.requested.as_deref().unwrap_or("1")).ok();
        let limit = self.limit.as_deref().and_then(|limit| Quantity::parse(limit).ok());
        requested.zip(limit).is_some_and(|(requested, limit)| requested > limit)
    }

    /// Returns the reason for people in this namespace, with the workload in the way instead of its
    /// FluxJob, and in local time.
    pub(crate) fn told(&self, own: &str, now: Timestamp, zone: &TimeZone) -> String {
        let mut message = self.message.clone();
        if let Some(behind) = &self.behind {
            message = message.replace(behind, &called(behind, own));
        }
        if let Some(from) = self.reserved_from {
            let universal = from.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let local = format!("{} ({})", clock(from, now, zone), off(from, now));
            message = message.replace(&universal, &local);
        }
        text::into_message(message)
    }
}

/// Returns the workload of the FluxJob `NAMESPACE/NAME`, as a user in namespace `own` names it; the
/// FluxJob itself if its name does not have that of the workload.
pub(crate) fn called(flux_job: &str, own: &str) -> String {
    let Some((namespace, name)) = flux_job.split_once('/') else { return flux_job.to_owned() };
    match names::workload_in(name) {
        Some((kind, name)) if namespace == own => format!("{kind}/{name}"),
        Some((kind, name)) => format!("{kind}/{name} of namespace {namespace}"),
        None => flux_job.to_owned(),
    }
}

impl Record {
    /// Reads a FluxJob. A part that cannot be read is absent; the API server guarantees metadata
    /// and workload.
    pub(crate) fn read(raw: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Parts<'a> {
            #[serde(borrow)]
            metadata: Option<&'a RawValue>,
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
            #[serde(borrow)]
            status: Option<&'a RawValue>,
        }
        fn part<T: Default + for<'a> Deserialize<'a>>(raw: Option<&RawValue>) -> T {
            raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
        }
        let Ok(parts) = serde_json::from_str::<Parts<'_>>(raw.get()) else {
            return Record::default();
        };
        Record {
            metadata: part(parts.metadata),
            spec: part(parts.spec),
            status: part(parts.status),
            user: None,
        }
    }

    /// Returns the job as a user names it: `job/solve`.
    pub(crate) fn shown(&self) -> String {
        let Workload { kind, name, .. } = &self.spec.workload_ref;
        if kind.is_empty() {
            return format!("fluxjob/{}", text::name(&self.metadata.name));
        }
        format!("{}/{}", text::name(&kind.to_ascii_lowercase()), text::name(name))
    }

    /// Returns the state in one word; `Pending` until Fluxqueue has written one.
    pub(crate) fn state(&self) -> &str {
        if self.status.state.is_empty() { "Pending" } else { &self.status.state }
    }

    /// True if the job has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state(), "Completed" | "Failed")
    }

    /// True if the job has begun, and not ended.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.state(), "Starting" | "Running")
    }

    /// Returns the reason for which the job waits, in one word.
    pub(crate) fn reason(&self) -> Option<&str> {
        Some(self.status.blocked_by.first()?.reason.as_str())
    }

    /// Returns the condition of this type.
    pub(crate) fn condition(&self, name: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.r#type == name)
    }

    /// How many pods it had or wants, once it has ended too.
    pub(crate) fn pods(&self) -> i64 {
        let observed = self.status.workload.pod_sets.iter().map(|set| set.count).sum();
        self.status.total.max(observed)
    }

    /// Returns `bound/total`; `-` while no pods are on record, as at first for a new job.
    pub(crate) fn size(&self) -> String {
        let Status { bound, total, .. } = self.status;
        if self.has_pods() { format!("{bound}/{total}") } else { "-".to_owned() }
    }

    /// Returns the size in words; `None` while no pods are on record.
    pub(crate) fn told_size(&self) -> Option<String> {
        if self.has_ended() {
            let pods = self.pods();
            return Some(format!("{pods} {}", if pods == 1 { "pod" } else { "pods" }));
        }
        self.has_pods().then(|| self.told_bound())
    }

    /// Returns how many of its pods have nodes: `3 of its 4 pods have nodes`.
    pub(crate) fn told_bound(&self) -> String {
        match (self.status.bound, self.status.total) {
            (0, 0) => "it has no pods".to_owned(),
            (0, 1) => "its pod has no node".to_owned(),
            (1, 1) => "its pod has a node".to_owned(),
            (1, total) => format!("1 of its {total} pods has a node"),
            (bound, total) => format!("{bound} of its {total} pods have nodes"),
        }
    }

    /// False if no pods are on record.
    fn has_pods(&self) -> bool {
        (self.status.bound, self.status.total) != (0, 0)
    }
}

impl Meta {
    /// Returns the owner that makes the object.
    pub(crate) fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(crate) fn record(value: &Value) -> Record {
        Record::read(&serde_json::value::to_raw_value(value).unwrap())
    }

    #[test]
    fn what_is_newer_than_this_program_is_shown_as_it_is() {
        let read = record(&json!({
            "metadata": { "name": "a-job-1" },
            "spec": { "workloadRef": { "kind": "JobSet", "name": "a", "uid": "u" } },
            "status": { "state": "Paused", "blockedBy": [{ "reason": "Eclipse", "message": "m",
                "moon": 1 }], "new": {} },
        }));
        assert_eq!((read.state(), read.reason()), ("Paused", Some("Eclipse")));
        assert_eq!(read.shown(), "jobset/a");
    }

    #[test]
    fn a_reason_names_the_workload_in_the_way() {
        let told = |behind: &str, own: &str| {
            let message = format!("No end is known for {behind}");
            let blocker =
                Blocker { message, behind: Some(behind.to_owned()), ..Blocker::default() };
            blocker.told(own, Timestamp::UNIX_EPOCH, &TimeZone::UTC)
        };
        let other = "lab/train-job-29v6v";
        assert_eq!(told(other, "lab"), "No end is known for job/train");
        assert_eq!(told(other, "x"), "No end is known for job/train of namespace lab");
        assert_eq!(told("lab/train", "lab"), "No end is known for lab/train");
    }

    #[test]
    fn a_part_of_another_form_hides_no_other() {
        let read = record(&json!({
            "metadata": { "name": "a-job-1", "namespace": "lab" },
            "spec": { "workloadRef": { "kind": "Job", "name": "a\u{1b}[2J", "uid": "u" } },
            "status": { "state": ["?"] },
        }));
        assert_eq!(read.shown(), r"job/a\u{1b}[2J");
        assert_eq!((read.state(), &*read.metadata.namespace), ("Pending", "lab"));
        let odd = record(&json!({ "status": { "queuedAt": "soon", "position": 3 } }));
        assert_eq!((odd.status.queued_at, odd.status.position), (None, Some(3)));
    }

    #[test]
    fn a_new_job_has_no_size_yet() {
        let new = record(&json!({ "metadata": { "name": "a-job-1", "namespace": "lab" },
            "spec": { "workloadRef": { "kind": "Job", "name": "a", "uid": "u" } } }));
        assert_eq!((&*new.size(), new.told_size()), ("-", None));
    }

    #[test]
    fn a_real_record_is_read_as_the_api_writes_it() {
        let status: fluxqueue_api::FluxJobStatus = serde_json::from_value(json!({
            "state": "Pending", "priority": 5, "queueName": "gpu", "walltimeSeconds": 60,
            "queuedAt": "2026-01-05T13:00:00.000000Z", "position": 2, "bound": 1, "total": 4,
            "estimatedStart": { "time": "2026-01-05T14:05:00.000000Z", "kind": "Reserved",
                "asOf": "2026-01-05T13:00:00.000000Z" },
            "displayNodes": "n-[0-1]",
            "blockedBy": [{ "reason": "QueuedBehind", "message": "m", "behind": "lab/b" }],
        }))
        .unwrap();
        let read = record(&json!({ "status": status }));
        assert_eq!((read.size(), read.status.position), ("1/4".to_owned(), Some(2)));
        assert_eq!(read.told_size().as_deref(), Some("1 of its 4 pods has a node"));
        assert_eq!(read.status.estimated_start.unwrap().kind, "Reserved");
        assert_eq!(read.status.blocked_by[0].behind.as_deref(), Some("lab/b"));
    }
}
