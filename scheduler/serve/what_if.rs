//! Answers about submissions that have not been made: which jobs would start when, by a copy of the
//! core, apart from the core's task.
//!
//! The body of a request holds manifests as JSON, in the form that the API server takes. A request
//! costs its client nothing, so these checks come before the work:
//!
//! 1. The API server lets the client `create` the path `/what-if`. That needs the token alone; the
//!    body is not read yet.
//! 2. The body is not too large, according to its head, and one of the two places is free. Then the
//!    body is read, for a limited time.
//! 3. The body holds few values, and few objects. It is decoded on a thread of its own.
//! 4. The API server lets the client create each of the objects.
//!
//! The core stands still only while it is copied, and the core's task bounds how often that
//! happens. The plan is run forward on a thread of its own, for the part of the requested time that
//! is left after the copy; the answer holds the starts that were found by then. It names delayed
//! jobs in namespaces of which the client may list FluxJobs, and counts the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fluxqueue_api::{BlockedBy, JobState, WorkloadKind, manifest};
use fluxqueue_core::{self as core, Event, Preview, WhatIf};
use fluxqueue_workload::{ObjectKey, ObjectRef, ShapeInterner, Time, json};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::access::{self, Deed};
use super::admission::{self, AdditionsError};
use super::facts::Facts;
use super::questions::{Copied, Question, ask};
use crate::submission::{self, Additions, Defaults, KINDS, Submission};

/// The path of these requests.
pub const PATH: &str = "/what-if";

/// The time that an answer may take unless the request says otherwise, from the request for a copy
/// of the core.
pub const WITHIN: Duration = Duration::from_millis(150);
/// The longest time that a request can ask for.
pub const WITHIN_MAX: Duration = Duration::from_secs(10);

/// The plan is run forward for at least the requested time divided by this, however long the copy
/// took.
const LOOKING_SHARE: u32 = 3;

/// The most bytes of a body: as many as the API server takes in one request.
const BODY_BYTES: usize = 3 << 20;
/// The time that a client has to send its body.
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// The most values in a body: decoded, a value can take 300 bytes. The manifest of a Job has a few
/// hundred.
const VALUES_MAX: usize = 100_000;
/// The most objects in a body, and so the most questions to the API server about permissions to
/// create them.
const OBJECTS_MAX: usize = 32;
/// The most namespaces for which we ask the API server whether the client may list FluxJobs there.
const NAMESPACES_ASKED_MAX: usize = 32;
/// The most pods of all objects together.
const PODS_MAX: usize = 20_000;
/// The most delayed jobs that an answer names; it counts all.
const DELAYED_MAX: usize = 1_000;

/// The options of a request.
#[derive(Debug, Deserialize)]
pub(super) struct Options {
    /// The milliseconds that the answer may take.
    within: Option<u64>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The time for which the answer was made.
    pub as_of: MicroTime,
    /// The fate of each submitted object.
    pub submitted: Vec<Submitted>,
    /// Jobs that would start later because of it, the longest delay first: those in namespaces of
    /// which the client may list FluxJobs.
    pub delayed: Vec<Delayed>,
    /// The number of jobs that would start later because of it, in all namespaces.
    pub delayed_count: usize,
    /// Starts after this time were not considered, since the time for the answer was over. Absent
    /// if all planned starts were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_until: Option<MicroTime>,
}

/// The fate of one submitted object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Submitted {
    /// Its kind.
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
    /// Its outcome.
    pub outcome: WhatIfOutcome,
    /// The time at which its first pod would start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<MicroTime>,
    /// The time at which all of its pods would have started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_start: Option<MicroTime>,
    /// The time up to which no start was found; later ones were not considered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_by: Option<MicroTime>,
    /// The state of the job, if it would not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// The reasons for which it would not start at once, the most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<BlockedBy>,
}

/// The outcome for a submitted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhatIfOutcome {
    /// The job would start.
    Starts,
    /// No start was found in the time that was considered.
    NotFound,
    /// Its start has no known date.
    NoDate,
    /// The job would not come to wait in a queue.
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
    /// Its start without the submission.
    pub from: MicroTime,
    /// Its start with the submission; absent if that has no known date, or `notBy` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<MicroTime>,
    /// The time up to which no start was found; later ones were not considered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_by: Option<MicroTime>,
    /// The seconds by which it is delayed, at least; absent if its start has no known date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// True if the start without the submission is promised.
    pub promised: bool,
}

/// The reason why there is no answer.
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

/// Reads the objects of a request, all of which the client may create, and returns the place of the
/// request too.
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
        Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {BODY_BYTES} bytes"))
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
        // If the client is still there to be answered, the size is the only possible fault.
        Ok(Err(_)) => return Err(too_large()),
        Err(_) => {
            return Err(refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"));
        }
    };
    let failed = |_| refuse(StatusCode::INTERNAL_SERVER_ERROR, "reading the body failed");
    let objects = tokio::task::spawn_blocking(move || objects(&body)).await.map_err(failed)?;
    let objects = objects.map_err(Refused::into_box)?;
    // The permission to create does not depend on the name, so one question covers all objects of a
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
            AdditionsError::Unreadable(text) => Refused(StatusCode::UNPROCESSABLE_ENTITY, text),
            AdditionsError::NoAnswer(error) => {
                tracing::warn!(%error, "asking how admission changes pods");
                let text =
                    format!("the API server did not say how admission changes pods: {error}");
                Refused(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        },
    )?;
    let asked = Instant::now();
    let preview = match ask(&leading.questions, Question::Preview).await {
        Some(Copied::Preview(preview)) => preview,
        Some(Copied::TooSoon) => return Err(Refused::busy()),
        Some(Copied::Impossible) => {
            let text = "not all objects have been listed yet, or the resource graph of this \
                        Fluxion library cannot be copied";
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
        // No client waits while the copies are dropped. The number of copies at that stage is
        // bounded by how often they are made.
        drop(copies);
    });
    let failed = |_| Refused(StatusCode::INTERNAL_SERVER_ERROR, "looking ahead failed".to_owned());
    answer.await.map_err(failed)?
}

/// Returns the time until which the plan is run forward for an answer within `within`. The copy,
/// and the wait for it, count towards that, but a third of it always remains.
pub fn looks_until(asked: Instant, copied: Instant, within: Duration) -> Instant {
    (asked + within).max(copied + within / LOOKING_SHARE)
}

/// Prepares the plan with the submission and without it, from the present state.
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

/// Decodes the submitted objects, and names the permission that each needs.
fn objects(body: &Bytes) -> Result<Vec<(Value, Deed)>, Refused> {
    let bad = |text: String| Refused(StatusCode::BAD_REQUEST, text);
    let too_many = |what: String| {
        Err(Refused(StatusCode::UNPROCESSABLE_ENTITY, format!("there are more than {what}")))
    };
    let text = std::str::from_utf8(body).map_err(|error| bad(error.to_string()))?;
    if !text.trim_start().starts_with('{') {
        return Err(bad("the body is not a JSON object".to_owned()));
    }
    if json::values_at_most(body) > VALUES_MAX {
        return too_many(format!("{VALUES_MAX} values"));
    }
    let documents = manifest::documents(text).map_err(bad)?;
    if documents.is_empty() {
        return Err(bad("there are no objects".to_owned()));
    }
    if documents.len() > OBJECTS_MAX {
        return too_many(format!("{OBJECTS_MAX} objects"));
    }
    let with_deed = |document: Value| {
        let of = |path: &str| document.pointer(path).and_then(Value::as_str);
        let kind = KINDS.into_iter().find(|kind| of("/kind") == Some(kind.as_str()));
        let Some(served) = kind.and_then(|kind| kind.facts().served) else {
            let known = KINDS.map(WorkloadKind::as_str).join(", ");
            return Err(bad(format!("{}: is not of kind {known}", submission::name_of(&document))));
        };
        let version = of("/apiVersion").unwrap_or_default();
        if version.rsplit_once('/').map_or("", |(group, _)| group) != served.group() {
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
        let deed = Deed::Create {
            group: served.group(),
            resource: served.plural,
            namespace: namespace.to_owned(),
        };
        Ok((document, deed))
    };
    documents.into_iter().map(with_deed).collect()
}

/// Returns the events by which the core would learn of the objects, and of the pods that they make.
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
            return Err(problem(format!("there are more than {PODS_MAX} pods")));
        }
        submit(submission, count, preview.as_of(), &mut events);
    }
    Ok(events)
}

/// Adds the pods that controllers would make of it at once.
fn submit(submission: Submission, count: usize, now: Time, events: &mut Vec<Event>) {
    let Submission { controllers, pod, is_indexed, group, .. } = submission;
    events.extend(group.map(Event::PodGroup));
    let is_alone = controllers.is_empty();
    for mut made_by in controllers {
        // A Job that is not suspended starts at once, and its deadline counts while it waits.
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
                WhatIfOutcome::Starts
            }
            core::Verdict::NotBy(time) => {
                not_by = Some(instant(time));
                WhatIfOutcome::NotFound
            }
            core::Verdict::NoDate => WhatIfOutcome::NoDate,
            core::Verdict::KeptOut(kept_out) => {
                state = Some(kept_out);
                WhatIfOutcome::KeptOut
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

impl Refused {
    fn busy() -> Self {
        Refused(
            StatusCode::TOO_MANY_REQUESTS,
            "other clients are being answered at the moment; try again".to_owned(),
        )
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
