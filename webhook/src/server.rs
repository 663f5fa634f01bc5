//! The API server's questions, and their answers.
//!
//! Each question is decoded on a thread of its own, and few at the same time: meanwhile a question
//! takes more memory than its text.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, extract};
use fluxqueue_tls::Serving;
use json_patch::Patch;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionResponse, AdmissionReview, SerializePatchError};
use kube::core::response::{Status, StatusCause, StatusDetails};
use tokio::sync::Semaphore;

use crate::admission::{Admission, Gating};
use crate::bodies::{Bodies, NotRead};
use crate::metrics::{Answer, Metrics, Question};
use crate::review::Request;
use crate::validate::{Findings, Problem};

/// The most questions that are decoded at the same time: as many as there are cores for them.
const DECODED_MAX: usize = 2;

/// The most problems that an answer names: people have to read it.
const PROBLEMS_SAID_MAX: usize = 10;

/// The paths at which the API server asks. The configurations in `manifests/webhook` name the same.
#[derive(Debug)]
pub struct Paths;

impl Paths {
    /// Gives pods that name no scheduler to Fluxqueue.
    pub const MUTATE: &str = "/mutate";
    /// Does the same, and gives our pods the scheduling gate.
    pub const MUTATE_GATED: &str = "/mutate/gated";
    /// Notes the user that creates an object.
    pub const USER: &str = "/mutate/user";
    /// Suspends Jobs until they are placed.
    pub const SUSPEND: &str = "/mutate/suspended";
    /// Refuses what Fluxqueue would refuse.
    pub const VALIDATE: &str = "/validate";
}

/// Says if questions may be sent here.
#[derive(Debug)]
pub struct Readiness {
    stopping: AtomicBool,
    certificate: Arc<Serving>,
}

struct Shared {
    admission: Admission,
    metrics: Metrics,
    readiness: Arc<Readiness>,
    bodies: Bodies,
    turns: Arc<Semaphore>,
}

/// Returns the routes, apart from the socket. Questions are answered until the end.
pub fn router(admission: Admission, metrics: Metrics, readiness: Arc<Readiness>) -> Router {
    let turns = Arc::new(Semaphore::new(DECODED_MAX));
    let shared =
        Arc::new(Shared { admission, metrics, readiness, bodies: Bodies::default(), turns });
    let asked = |question| {
        post(async move |State(shared), request| Shared::answer(shared, question, request).await)
    };
    Router::new()
        .route(Paths::MUTATE, asked(Question::Mutate))
        .route(Paths::MUTATE_GATED, asked(Question::MutateGated))
        .route(Paths::USER, asked(Question::User))
        .route(Paths::SUSPEND, asked(Question::Suspend))
        .route(Paths::VALIDATE, asked(Question::Validate))
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(async |State(shared): State<Arc<Shared>>| shared.readiness.answer()))
        .with_state(shared)
}

// === impl Readiness ===

impl Readiness {
    /// Creates a state that is ready once there is a certificate.
    pub fn new(certificate: Arc<Serving>) -> Self {
        Readiness { stopping: AtomicBool::new(false), certificate }
    }

    /// Notes that no more questions may be sent here.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns the answer to a probe.
    pub fn answer(&self) -> (StatusCode, &'static str) {
        if self.stopping.load(Ordering::Relaxed) {
            return (StatusCode::SERVICE_UNAVAILABLE, "shutting down");
        }
        if !self.certificate.is_set() {
            return (StatusCode::SERVICE_UNAVAILABLE, "there is no certificate yet");
        }
        (StatusCode::OK, "ok")
    }
}

// === impl Shared ===

impl Shared {
    /// Answers a question, and counts it.
    async fn answer(
        shared: Arc<Shared>,
        question: Question,
        request: extract::Request,
    ) -> Response {
        let begun = Instant::now();
        let (head, body) = request.into_parts();
        let (body, held) = match shared.bodies.read(&head.headers, body).await {
            Ok(read) => read,
            Err(not_read) => {
                let answer = if not_read == NotRead::NoMemory {
                    Answer::TurnedAway
                } else {
                    Answer::Unreadable
                };
                shared.metrics.count(question, answer, begun.elapsed());
                return not_read.answer().into_response();
            }
        };
        let turn = Arc::clone(&shared.turns).acquire_owned().await;
        let decided = tokio::task::spawn_blocking(move || {
            let _until_answered = (held, turn);
            let (response, answer) = shared.respond(question, &body);
            shared.metrics.count(question, answer, begun.elapsed());
            response
        });
        decided.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
    }

    fn respond(&self, question: Question, review: &[u8]) -> (Response, Answer) {
        let request = match Request::read(review) {
            Ok(request) => request,
            Err(error) => {
                return (
                    (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
                    Answer::Unreadable,
                );
            }
        };
        let decided = match question {
            Question::Mutate => patched(&request, self.admission.patch(&request, Gating::Ungated)),
            Question::MutateGated => {
                patched(&request, self.admission.patch(&request, Gating::Gated))
            }
            Question::User => patched(&request, self.admission.user(&request)),
            Question::Suspend => patched(&request, self.admission.suspension(&request)),
            Question::Validate => Ok(self.validated(&request)),
        };
        let unreadable = |error| (AdmissionResponse::invalid(error), Answer::Unreadable);
        let (response, answer) = decided.unwrap_or_else(unreadable);
        let review: AdmissionReview<DynamicObject> = response.into_review();
        (Json(review).into_response(), answer)
    }

    fn validated(&self, request: &Request<'_>) -> (AdmissionResponse, Answer) {
        let Findings { problems } = self.admission.judge(request);
        if problems.is_empty() {
            return (allowed(request), Answer::Accepted);
        }
        (refuse(request, &problems), Answer::Refused)
    }
}

/// Returns an answer to this question that lets the object pass as it is.
fn allowed(request: &Request<'_>) -> AdmissionResponse {
    let mut response = AdmissionResponse::invalid("");
    (response.uid, response.allowed, response.result) =
        (request.uid.clone(), true, Status::default());
    response
}

fn patched(
    request: &Request<'_>,
    patch: Patch,
) -> Result<(AdmissionResponse, Answer), SerializePatchError> {
    if patch.is_empty() {
        return Ok((allowed(request), Answer::Unchanged));
    }
    Ok((allowed(request).with_patch(patch)?, Answer::Changed))
}

/// Refuses an object in the API server's own form for invalid objects: kubectl prints each field
/// with its fault.
fn refuse(request: &Request<'_>, problems: &[Problem]) -> AdmissionResponse {
    let said = &problems[..problems.len().min(PROBLEMS_SAID_MAX)];
    let texts: Vec<String> =
        said.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
    let causes = said.iter().map(|problem| StatusCause {
        reason: "FieldValueNotSupported".to_owned(),
        message: problem.message.clone(),
        field: problem.field.clone(),
    });
    let message = format!("Fluxqueue would refuse this: {}", texts.join("; "));
    let mut result =
        Status::failure(&message, "Invalid").with_code(StatusCode::UNPROCESSABLE_ENTITY.as_u16());
    result.details = Some(StatusDetails {
        name: request.name.clone(),
        group: request.kind.group.clone(),
        kind: request.kind.kind.clone(),
        uid: String::new(),
        causes: causes.collect(),
        retry_after_seconds: 0,
    });
    let mut response = allowed(request);
    (response.allowed, response.result) = (false, result);
    response
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
