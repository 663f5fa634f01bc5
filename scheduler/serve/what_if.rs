//! What would come of it if this was submitted now: answered on a copy of the core, apart from the
//! core's task.
//!
//! The question is what the API server would be given: manifests, as JSON. It costs nothing to ask
//! one, so a client comes this far only:
//!
//! 1. The API server lets the client `create` the path `/what-if`. That needs the token alone; the
//!    body stays where it is.
//! 2. The body is not too large, by what its head says, and one of the two places is free. Then the
//!    body is read, for a limited time.
//! 3. The body holds few values, and few objects. It is decoded on a thread of its own.
//! 4. The API server lets the client create each of the objects.
//!
//! The core stands still for the copy alone, and how often it is made is bounded where it is made.
//! The plan is run forward on a thread of its own, for what the copy has left of the time that was
//! asked for; then what has been found by then is the answer. It names delayed jobs in namespaces
//! of which the client may list FluxJobs, and counts the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fluxqueue_api::{BlockedBy, JobState, WorkloadKind};
use fluxqueue_core::{self as core, Event, Preview, WhatIf};
use fluxqueue_workload::{ObjectKey, ObjectRef, ShapeInterner, Time, json};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::admission::{self, Unknown};
use super::{Copied, Deed, Facts, Question, access, ask};
use crate::submission::{self, Additions, Defaults, KINDS, Submission};

/// Where it is asked for.
pub const PATH: &str = "/what-if";

/// How long an answer may take if nobody says, and at most, from when the core is asked for a copy.
pub const WITHIN: Duration = Duration::from_millis(150);
/// See [`WITHIN`].
pub const WITHIN_MAX: Duration = Duration::from_secs(10);

/// However long the copy took, a part of that time is for running the plan forward: one of so many.
const LOOKING_SHARE: u32 = 3;

/// Requests that are read and answered at the same time, so that at most this many bodies are in
/// memory. Other clients are told to come again.
const PLACES: usize = 2;

/// The largest body: as much as the API server takes in one request.
const BODY_BYTES: usize = 3 << 20;
/// How long a client may take to send it.
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// Values in it: decoded, a value can take 300 bytes. The manifest of a Job has a few hundred.
const VALUES_MAX: usize = 100_000;
/// Objects in it, and so kinds of objects and namespaces that the API server is asked about.
const OBJECTS_MAX: usize = 32;
/// Namespaces for which the API server is asked whether the client may list FluxJobs there.
const NAMESPACES_ASKED_MAX: usize = 32;
/// Pods that it may have in all.
const PODS_MAX: usize = 20_000;
/// Jobs that are told to be delayed; of the others, how many they are.
const DELAYED_MAX: usize = 1_000;

/// Places for those who ask.
#[derive(Debug)]
pub struct Places(Arc<Semaphore>);

/// How it is asked.
#[derive(Debug, Deserialize)]
pub(super) struct Options {
    /// Milliseconds that the answer may take.
    within: Option<u64>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// As of when.
    pub as_of: MicroTime,
    /// What would come of what was submitted.
    pub submitted: Vec<Submitted>,
    /// Jobs that would start later by it, the longest delay first: those in namespaces of which the
    /// client may list FluxJobs.
    pub delayed: Vec<Delayed>,
    /// How many jobs would start later by it, in all namespaces.
    pub delayed_count: usize,
    /// Starts after this were not looked at, since the time was over. Absent: all that are planned
    /// were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_until: Option<MicroTime>,
}

/// What would come of something that was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Submitted {
    /// What it is.
    pub kind: WorkloadKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The queue in which it would wait.
    pub queue: String,
    /// Its priority there.
    pub priority: i32,
    /// Its place in the queue, from 1, if it would wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// What would come of it.
    pub outcome: Outcome,
    /// When its first pod would start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<MicroTime>,
    /// When all of its pods would have started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_start: Option<MicroTime>,
    /// It would not start by this time, and later ones were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_by: Option<MicroTime>,
    /// The state in which it would be, if it did not come to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Why it would not start at once: what matters most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<BlockedBy>,
}

/// What would come of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It would start.
    Starts,
    /// Not for as long as was looked.
    NotFound,
    /// Nobody can say when.
    NoDate,
    /// It would not come to wait.
    KeptOut,
}

/// A job that would start later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delayed {
    /// Its namespace.
    pub namespace: String,
    /// The name of its FluxJob.
    pub flux_job: String,
    /// When it starts without what was submitted.
    pub from: MicroTime,
    /// When with it; absent if nobody can say any more, or `notBy` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<MicroTime>,
    /// It would not start by this time, and later ones were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_by: Option<MicroTime>,
    /// By how many seconds, at least; absent if nobody can say any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// It is promised to start then.
    pub promised: bool,
}

/// Why there is no answer.
struct Refused(StatusCode, String);

/// Answers one client.
pub(super) async fn answer(
    State(facts): State<Arc<Facts>>,
    Query(options): Query<Options>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let gatekeeper = facts.gatekeeper.as_deref();
    if let Err(refused) = access::admit(gatekeeper, &head.headers, &Deed::Post(PATH)).await {
        return *refused;
    }
    let within = options.within.map_or(WITHIN, Duration::from_millis).min(WITHIN_MAX);
    let asked = async {
        let (documents, place) = documents(&facts, &head.headers, body).await?;
        let mut answer =
            foretell(&facts, documents, place, within).await.map_err(Refused::into_box)?;
        veil(&facts, &head.headers, &mut answer).await;
        Ok::<_, Box<Response>>(answer)
    };
    match asked.await {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(refused) => *refused,
    }
}

/// The objects of a request, all of which the client may create, and the place that the request
/// has.
async fn documents(
    facts: &Facts,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Vec<Value>, OwnedSemaphorePermit), Box<Response>> {
    let refuse = |status, text: &str| Refused(status, text.to_owned()).into_box();
    if facts.leading.get().is_none() {
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "this process does not lead"));
    }
    let too_large = || {
        Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {BODY_BYTES} bytes are not read"))
            .into_box()
    };
    let said = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if said.is_some_and(|length| length > BODY_BYTES) {
        return Err(too_large());
    }
    let place =
        Arc::clone(&facts.places.0).try_acquire_owned().map_err(|_| Refused::busy().into_box())?;
    let body = match tokio::time::timeout(BODY_WITHIN, to_bytes(body, BODY_BYTES)).await {
        Ok(Ok(body)) => body,
        // Nothing else can be wrong about a body whose client is still there to be answered.
        Ok(Err(_)) => return Err(too_large()),
        Err(_) => {
            return Err(refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"));
        }
    };
    let failed = |_| refuse(StatusCode::INTERNAL_SERVER_ERROR, "reading the body failed");
    let objects = tokio::task::spawn_blocking(move || objects(&body)).await.map_err(failed)?;
    let objects = objects.map_err(Refused::into_box)?;
    // What one may create does not depend on its name, so one question goes for all objects of a
    // kind in a namespace.
    let mut allowed = Vec::new();
    for (_, deed) in &objects {
        if !allowed.contains(&deed) {
            access::admit(facts.gatekeeper.as_deref(), headers, deed).await?;
            allowed.push(deed);
        }
    }
    Ok((objects.into_iter().map(|(document, _)| document).collect(), place))
}

/// Takes away the names of jobs in namespaces of which the client may not list FluxJobs.
async fn veil(facts: &Facts, headers: &HeaderMap, answer: &mut Answer) {
    let gatekeeper = facts.gatekeeper.as_deref();
    if !answer.delayed.is_empty()
        && !access::may(gatekeeper, headers, &Deed::ListFluxJobs(None)).await
    {
        let mut namespaces: Vec<&str> = Vec::new();
        for job in &answer.delayed {
            if namespaces.len() < NAMESPACES_ASKED_MAX
                && !namespaces.contains(&job.namespace.as_str())
            {
                namespaces.push(&job.namespace);
            }
        }
        let questions = namespaces.into_iter().map(async |namespace| {
            let deed = Deed::ListFluxJobs(Some(namespace.to_owned()));
            access::may(gatekeeper, headers, &deed).await.then(|| namespace.to_owned())
        });
        let shown: BTreeSet<String> =
            futures::future::join_all(questions).await.into_iter().flatten().collect();
        answer.delayed.retain(|job| shown.contains(&job.namespace));
    }
    answer.delayed.truncate(DELAYED_MAX);
}

async fn foretell(
    facts: &Facts,
    documents: Vec<Value>,
    place: OwnedSemaphorePermit,
    within: Duration,
) -> Result<Answer, Refused> {
    let Some(leading) = facts.leading.get() else {
        return Err(Refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "this process does not lead".to_owned(),
        ));
    };
    let additions = admission::additions(&*facts.admission, &documents).await.map_err(
        |unknown| match unknown {
            Unknown::Unreadable(text) => Refused(StatusCode::UNPROCESSABLE_ENTITY, text),
            Unknown::NoAnswer(error) => {
                tracing::warn!(%error, "asking what admission adds to pods");
                let text =
                    format!("the API server could not be asked what its admission adds: {error}");
                Refused(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        },
    )?;
    let asked = Instant::now();
    let preview = match ask(&leading.questions, Question::Preview).await {
        Some(Copied::Preview(preview)) => preview,
        Some(Copied::TooSoon) => return Err(Refused::busy()),
        Some(Copied::Impossible) => {
            let text = "not everything has been listed yet, or the resource graph of this Fluxion library cannot be copied";
            return Err(Refused(StatusCode::SERVICE_UNAVAILABLE, text.to_owned()));
        }
        None => {
            return Err(Refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "the core did not answer in time".to_owned(),
            ));
        }
    };
    let until = looks_until(asked, Instant::now(), within);
    let (to, answer) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let (answer, copies) = match submitted(*preview, &documents, &additions) {
            Ok(mut what_if) => {
                while Instant::now() < until && what_if.advance() {}
                (Ok(Answer::from(what_if.answer())), Some(what_if))
            }
            Err(refused) => (Err(refused), None),
        };
        // A client that has the answer may ask again.
        drop(place);
        drop(to.send(answer));
        // Nobody waits until the copies are thrown away. How many can be on their way to that is
        // bounded by how often they are made.
        drop(copies);
    });
    let failed = |_| Refused(StatusCode::INTERNAL_SERVER_ERROR, "looking ahead failed".to_owned());
    answer.await.map_err(failed)?
}

/// Until when the plan is run forward for an answer within that time: what the copy took counts,
/// with the wait for it, but a third of the time is left.
pub fn looks_until(asked: Instant, copied: Instant, within: Duration) -> Instant {
    (asked + within).max(copied + within / LOOKING_SHARE)
}

/// The plan with what is asked about and without it, as things are.
fn submitted(
    preview: Preview,
    documents: &[Value],
    additions: &Additions,
) -> Result<WhatIf, Refused> {
    let unreadable = |text| Refused(StatusCode::UNPROCESSABLE_ENTITY, text);
    let events = events(&preview, documents, additions).map_err(unreadable)?;
    let failed = || {
        Refused(StatusCode::INTERNAL_SERVER_ERROR, "the resource graph cannot be copied".to_owned())
    };
    preview.submit(events).ok_or_else(failed)
}

/// The objects that are asked about, and what is to be allowed for each.
fn objects(body: &Bytes) -> Result<Vec<(Value, Deed)>, Refused> {
    let bad = |text: String| Refused(StatusCode::BAD_REQUEST, text);
    let too_many = |what: String| {
        Err(Refused(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("more than {what} are not looked at"),
        ))
    };
    let text = std::str::from_utf8(body).map_err(|error| bad(error.to_string()))?;
    if !text.trim_start().starts_with('{') {
        return Err(bad("the body is no JSON object".to_owned()));
    }
    if json::values_at_most(body) > VALUES_MAX {
        return too_many(format!("{VALUES_MAX} values"));
    }
    let documents = submission::documents(text).map_err(bad)?;
    if documents.is_empty() {
        return Err(bad("nothing is submitted".to_owned()));
    }
    if documents.len() > OBJECTS_MAX {
        return too_many(format!("{OBJECTS_MAX} objects"));
    }
    let with_deed = |document: Value| {
        let of = |path: &str| document.pointer(path).and_then(Value::as_str);
        let kind = KINDS.iter().find(|(kind, ..)| of("/kind") == Some(kind));
        let Some((_, group, resource)) = kind else {
            let known = KINDS.map(|(kind, ..)| kind).join(", ");
            return Err(bad(format!("{}: is not of kind {known}", submission::name_of(&document))));
        };
        let version = of("/apiVersion").unwrap_or_default();
        if version.rsplit_once('/').map_or("", |(group, _)| group) != *group {
            return Err(bad(format!(
                "{}: apiVersion {version:?} is of another group",
                submission::name_of(&document)
            )));
        }
        let Some(namespace) = of("/metadata/namespace").filter(|namespace| !namespace.is_empty())
        else {
            return Err(bad(format!(
                "{}: metadata.namespace is missing",
                submission::name_of(&document)
            )));
        };
        let deed = Deed::Create { group, resource, namespace: namespace.to_owned() };
        Ok((document, deed))
    };
    documents.into_iter().map(with_deed).collect()
}

/// What the core would be told of them, and of the pods that they make.
fn events(
    preview: &Preview,
    documents: &[Value],
    additions: &Additions,
) -> Result<Vec<Event>, String> {
    let (mut shapes, mut events, mut pods) = (ShapeInterner::default(), Vec::new(), 0);
    let names = preview.scheduler_names();
    let priority_of = |class: Option<&str>| match class {
        None => Ok(Some(preview.priority_without_class())),
        Some(class) => match preview.priority_of_class(class) {
            Some(priority) => Ok(Some(priority)),
            None => Err(format!("spec.priorityClassName: there is no PriorityClass {class:?}")),
        },
    };
    let scheduler = names.first().map_or("", |name| name);
    let defaults =
        Defaults { scheduler, namespace: "default", priority_of: &priority_of, additions };
    for document in documents {
        let problem = |text: String| format!("{}: {text}", submission::name_of(document));
        let submission = submission::read(document, &defaults, &mut shapes).map_err(problem)?;
        if !names.contains(&submission.pod.scheduler) {
            return Err(problem(format!(
                "spec.schedulerName {:?} is not served here",
                submission.pod.scheduler
            )));
        }
        let count = submission.controllers.first().map_or(1, |made_by| made_by.wants as usize);
        if count == 0 {
            return Err(problem("asks for no pods: it is suspended, or scaled to none".to_owned()));
        }
        pods += count;
        if pods > PODS_MAX {
            return Err(problem(format!("more than {PODS_MAX} pods are not looked at")));
        }
        submit(submission, count, preview.as_of(), &mut events);
    }
    Ok(events)
}

/// What controllers would make of it at once.
fn submit(submission: Submission, count: usize, now: Time, events: &mut Vec<Event>) {
    let Submission { controllers, pod, is_indexed, .. } = submission;
    let is_alone = controllers.is_empty();
    for mut made_by in controllers {
        // A Job that is not suspended starts at once, and its time runs also while it waits.
        made_by.deadline = made_by.deadline_secs.map(|seconds| now.plus_secs(seconds));
        events.push(Event::Controller(Arc::new(made_by)));
    }
    for at in 0..count {
        let mut pod = pod.clone();
        let key = &pod.id.key;
        let name = if is_alone { key.name.to_string() } else { format!("{}-{at}", key.name) };
        let uid = format!("Pod/{}/{name}", key.namespace);
        pod.id = ObjectRef {
            key: ObjectKey::new(Arc::clone(&key.namespace), name),
            uid: uid.as_str().into(),
        };
        pod.completion_index = is_indexed.then(|| u32::try_from(at).unwrap_or(u32::MAX));
        pod.created = now;
        events.push(Event::Pod(Arc::new(pod)));
    }
}

impl From<core::Answer> for Answer {
    fn from(answer: core::Answer) -> Self {
        let delayed_count = answer.delayed.len();
        Answer {
            as_of: instant(answer.as_of),
            submitted: answer.submitted.into_iter().map(Submitted::from).collect(),
            delayed: answer.delayed.into_iter().map(Delayed::from).collect(),
            delayed_count,
            looked_until: answer.looked_until.map(instant),
        }
    }
}

impl From<core::Submitted> for Submitted {
    fn from(job: core::Submitted) -> Self {
        let (mut start, mut all_start, mut not_by, mut state) = (None, None, None, None);
        let outcome = match job.verdict {
            core::Verdict::Starts { first, all } => {
                (start, all_start) = (Some(instant(first)), all.map(instant));
                Outcome::Starts
            }
            core::Verdict::NotBy(time) => {
                not_by = Some(instant(time));
                Outcome::NotFound
            }
            core::Verdict::NoDate => Outcome::NoDate,
            core::Verdict::KeptOut(kept_out) => {
                state = Some(kept_out);
                Outcome::KeptOut
            }
        };
        Submitted {
            kind: job.kind,
            namespace: job.workload.namespace.to_string(),
            name: job.workload.name.to_string(),
            queue: job.queue,
            priority: job.priority,
            position: job.position,
            outcome,
            start,
            all_start,
            not_by,
            state,
            blocked_by: job.blocked_by,
        }
    }
}

impl From<core::Delayed> for Delayed {
    fn from(delayed: core::Delayed) -> Self {
        let seconds = delayed.by_secs();
        let (to, not_by) = match delayed.to {
            core::Later::At(time) => (Some(instant(time)), None),
            core::Later::NotBy(time) => (None, Some(instant(time))),
            core::Later::NoDate => (None, None),
        };
        Delayed {
            namespace: delayed.job.namespace.to_string(),
            flux_job: delayed.job.name.to_string(),
            from: instant(delayed.from),
            to,
            not_by,
            seconds,
            promised: delayed.is_promised,
        }
    }
}

fn instant(time: Time) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(time.0).unwrap_or(Timestamp::MAX))
}

impl Default for Places {
    fn default() -> Self {
        Places(Arc::new(Semaphore::new(PLACES)))
    }
}

impl Refused {
    fn busy() -> Self {
        Refused(StatusCode::TOO_MANY_REQUESTS, "others ask at the moment".to_owned())
    }

    fn into_box(self) -> Box<Response> {
        Box::new(self.into_response())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(status, text) = self;
        let mut response = (status, text + "\n").into_response();
        if status == StatusCode::TOO_MANY_REQUESTS {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
pub(super) mod tests;
