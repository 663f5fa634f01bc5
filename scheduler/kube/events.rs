//! Writes Kubernetes Events (events.k8s.io/v1).
//!
//! Events are for people: they trail, they may be dropped (which is counted), and a note that
//! repeats itself within some minutes becomes a series of one Event instead of a row of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::fenced::{FencedClient, WRITE_TIMEOUT_MAX};
use super::request::Content;
use crate::serve::Metrics;
use fluxqueue_api::text::{self, NAME_BYTES_MAX};
use fluxqueue_core::{EventKind, Note, Subject};
use fluxqueue_workload::ObjectRef;

/// The time for which an equal note counts as a repetition, as in client-go.
const SERIES_FOR: Duration = Duration::from_mins(6);

/// The least time between two writes of a series; in between it is only counted.
const SERIES_EVERY: Duration = Duration::from_mins(1);

/// The most notes that are remembered. Beyond that, all that are older than [`SERIES_FOR`] are
/// forgotten, and if none is, all: the price is that a repetition shows as a new Event. Each has at
/// most [`text::MESSAGE_BYTES_MAX`] bytes, so that all together have 10 MiB.
const REMEMBERED: usize = 10_000;

/// The state that the workers share.
pub struct Announcer {
    client: FencedClient,
    metrics: Arc<Metrics>,
    /// The `reportingInstance`: the process that reports.
    instance: String,
    recent: DashMap<Sighting, Series>,
    sequence: AtomicU64,
}

/// The parts of a note by which two notes are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sighting {
    subject: Subject,
    reason: &'static str,
    note: String,
}

#[derive(Debug)]
struct Series {
    /// The name of the Event object.
    name: String,
    count: u32,
    last_seen: Instant,
    last_written: Instant,
}

/// The way in which a note is written.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Create { name: String },
    Extend { name: String, count: u32 },
    Skip,
}

// === impl Announcer ===

impl Announcer {
    /// Creates an announcer that writes as `instance`.
    pub fn new(client: FencedClient, metrics: Arc<Metrics>, instance: String) -> Self {
        Announcer { client, metrics, instance, recent: DashMap::new(), sequence: AtomicU64::new(0) }
    }

    /// Writes one note, or counts that this failed.
    pub async fn announce(&self, note: &Note) {
        let written = match self.plan(note, Instant::now()) {
            Plan::Skip => {
                self.metrics.notes_repeated.inc();
                return;
            }
            Plan::Extend { name, count } => match self.extend(note, &name, count).await {
                // The API server forgets Events after an hour, or at a restart of its etcd.
                Err(EventRefusal { code: Some(404), .. }) => self.create(note, &name).await,
                other => other,
            },
            Plan::Create { name } => self.create(note, &name).await,
        };
        match written {
            Ok(()) => drop(self.metrics.notes_sent.inc()),
            Err(refusal) => {
                self.metrics.notes_dropped.inc();
                let about = note.subject.key();
                let (reason, error) = (note.reason, &refusal.text);
                tracing::debug!(%about, reason, %error, "event dropped");
            }
        }
    }

    /// Makes the last notes look as if they had been written one [`SERIES_EVERY`] earlier.
    #[cfg(test)]
    pub(super) fn age_by_a_series_interval(&self) {
        for mut series in self.recent.iter_mut() {
            series.last_written = series.last_written.checked_sub(SERIES_EVERY).unwrap();
        }
    }

    fn plan(&self, note: &Note, now: Instant) -> Plan {
        let sighting = Sighting {
            subject: note.subject.clone(),
            reason: note.reason,
            note: text::message(&note.note).into_owned(),
        };
        // Many workers look things up here, and rarely the same: no lock is held across an await,
        // and no two at once.
        if let Some(mut series) = self.recent.get_mut(&sighting)
            && now.duration_since(series.last_seen) < SERIES_FOR
        {
            series.count = series.count.saturating_add(1);
            series.last_seen = now;
            if now.duration_since(series.last_written) < SERIES_EVERY {
                return Plan::Skip;
            }
            series.last_written = now;
            return Plan::Extend { name: series.name.clone(), count: series.count };
        }
        if self.recent.len() >= REMEMBERED {
            self.recent.retain(|_, series| now.duration_since(series.last_seen) < SERIES_FOR);
        }
        if self.recent.len() >= REMEMBERED {
            self.recent.clear();
        }
        let name = self.name(&note.subject);
        self.recent.insert(
            sighting,
            Series { name: name.clone(), count: 1, last_seen: now, last_written: now },
        );
        Plan::Create { name }
    }

    /// Returns `<object>.<hex>`, as client-go names Events; tools look for the object's name in
    /// front.
    fn name(&self, subject: &Subject) -> String {
        let nanos = Timestamp::now().as_nanosecond();
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let suffix = format!(".{:x}", nanos.unsigned_abs() + u128::from(sequence));
        let key = subject.key();
        format!("{}{suffix}", shortened(&key.name, NAME_BYTES_MAX - suffix.len()))
    }

    async fn create(&self, note: &Note, name: &str) -> Result<(), EventRefusal> {
        let body = self.event(note, name, Timestamp::now());
        self.write(Method::POST, events_path(&note.subject), Content::Json, &body).await
    }

    async fn extend(&self, note: &Note, name: &str, count: u32) -> Result<(), EventRefusal> {
        let body = json!({
            "series": { "count": count, "lastObservedTime": micro_time(Timestamp::now()) },
        });
        let path = format!("{}/{name}", events_path(&note.subject));
        self.write(Method::PATCH, path, Content::MergePatch, &body).await
    }

    async fn write(
        &self,
        method: Method,
        path: String,
        content: Content,
        body: &Value,
    ) -> Result<(), EventRefusal> {
        let body = body.to_string().into_bytes();
        match self.client.write(method, &path, content, &body, WRITE_TIMEOUT_MAX).await {
            Ok(reply) if reply.succeeded() => Ok(()),
            Ok(reply) => Err(EventRefusal { code: Some(reply.code), text: reply.explain() }),
            Err(error) => Err(EventRefusal { code: None, text: error.to_string() }),
        }
    }

    fn event(&self, note: &Note, name: &str, now: Timestamp) -> Value {
        let kind = match note.kind {
            EventKind::Normal => "Normal",
            EventKind::Warning => "Warning",
        };
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "name": name, "namespace": namespace(&note.subject) },
            "eventTime": micro_time(now),
            "reportingController": &*note.reporter,
            "reportingInstance": self.instance,
            "action": note.action,
            "reason": note.reason,
            "type": kind,
            "note": text::message(&note.note),
            "regarding": regarding(&note.subject),
        })
    }
}

#[derive(Debug)]
struct EventRefusal {
    code: Option<u16>,
    text: String,
}

fn regarding(subject: &Subject) -> Value {
    let object = |api_version: &str, kind: &str, id: &ObjectRef| {
        json!({
            "apiVersion": api_version, "kind": kind,
            "namespace": &*id.key.namespace, "name": &*id.key.name, "uid": &*id.uid,
        })
    };
    match subject {
        Subject::Pod(id) => object("v1", "Pod", id),
        Subject::FluxJob(id) => {
            object(&format!("{}/v1alpha1", fluxqueue_api::names::GROUP), "FluxJob", id)
        }
        Subject::Job(id) => object("batch/v1", "Job", id),
        Subject::FluxQueue { name, uid } => json!({
            "apiVersion": format!("{}/v1alpha1", fluxqueue_api::names::GROUP), "kind": "FluxQueue",
            "name": &**name, "uid": &**uid,
        }),
        Subject::Node { name, uid } => {
            json!({ "apiVersion": "v1", "kind": "Node", "name": &**name, "uid": &**uid })
        }
    }
}

/// Returns the namespace of an Event: `default` if its object has none.
fn namespace(subject: &Subject) -> &str {
    match subject {
        Subject::Pod(id) | Subject::FluxJob(id) | Subject::Job(id) => &id.key.namespace,
        Subject::FluxQueue { .. } | Subject::Node { .. } => "default",
    }
}

fn events_path(subject: &Subject) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{}/events", namespace(subject))
}

/// Formats a `metav1.MicroTime`, which has exactly six digits.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// Returns the beginning of `text`, at most `bytes` long, cut between characters.
fn shortened(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_workload::ObjectKey;

    fn note(text: &str) -> Note {
        let pod = ObjectRef { key: ObjectKey::new("ns", "pod-1"), uid: "u1".into() };
        Note {
            subject: Subject::Pod(pod),
            kind: EventKind::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: text.to_owned(),
            reporter: "fluence".into(),
        }
    }

    fn announcer() -> Announcer {
        // This client is never used.
        let clients =
            crate::kube::client::plain("http://127.0.0.1:9").expect("a plain URL needs no files");
        let client = FencedClient::new(clients.write, crate::kube::fence::Fence::open());
        Announcer::new(client, Arc::new(Metrics::new("0", "0")), "host-1".to_owned())
    }

    #[tokio::test]
    async fn repetitions_become_a_series() {
        let announcer = announcer();
        let start = Instant::now();
        let Plan::Create { name } = announcer.plan(&note("no room"), start) else {
            panic!("first note")
        };
        assert!(name.starts_with("pod-1."));
        assert_eq!(announcer.plan(&note("no room"), start + Duration::from_secs(5)), Plan::Skip);
        let extended = announcer.plan(&note("no room"), start + Duration::from_secs(61));
        assert_eq!(extended, Plan::Extend { name: name.clone(), count: 3 });
        assert!(matches!(announcer.plan(&note("other"), start), Plan::Create { .. }));
        let later = start + Duration::from_secs(61) + SERIES_FOR;
        let Plan::Create { name: fresh } = announcer.plan(&note("no room"), later) else {
            panic!("a new series")
        };
        assert_ne!(fresh, name);
    }

    #[tokio::test]
    async fn the_memory_of_notes_is_bounded() {
        let announcer = announcer();
        let now = Instant::now();
        for number in 0..=REMEMBERED {
            announcer.plan(&note(&number.to_string()), now);
        }
        assert!(announcer.recent.len() <= REMEMBERED);
        announcer.plan(&note(&"\u{7f}".repeat(200_000)), now);
        let longest = announcer.recent.iter().map(|known| known.key().note.len()).max().unwrap();
        assert!(longest <= text::MESSAGE_BYTES_MAX, "{longest} bytes are remembered of one note");
    }

    #[tokio::test]
    async fn long_notes_are_cut_between_characters() {
        let event = announcer().event(
            &note(&format!("a{}", "ü".repeat(600))),
            "pod-1.1",
            Timestamp::UNIX_EPOCH,
        );
        let cut = event["note"].as_str().unwrap();
        assert!((1000..=text::MESSAGE_BYTES_MAX).contains(&cut.len()), "{}", cut.len());
        assert!(cut.starts_with("aüü") && cut.ends_with(" more bytes)"), "{cut}");
        assert_eq!(event["eventTime"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(event["regarding"]["uid"], "u1");
        assert_eq!(event["reportingController"], "fluence");
    }
}
