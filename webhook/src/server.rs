//! The API server's questions, and their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use json_patch::Patch;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, SerializePatchError};
use kube::core::response::{Status, StatusCause, StatusDetails};

use crate::admission::{Admission, Gating};
use crate::metrics::{Answer, Metrics, Question};
use crate::validate::{Findings, Problem};

/// The largest question: an object and what it was before, each as large as etcd takes at most, and what is around them.
const REVIEW_BYTES_MAX: usize = 8 << 20;

/// How many problems are named: a message has to be read.
const PROBLEMS_SAID_MAX: usize = 10;

/// Where the API server asks. The configurations in `manifests/webhook` name the same.
#[derive(Debug)]
pub struct Paths;

impl Paths {
    /// Gives pods that name no scheduler to Fluxqueue.
    pub const MUTATE: &str = "/mutate";
    /// The same, and gives our pods the scheduling gate.
    pub const MUTATE_GATED: &str = "/mutate/gated";
    /// Suspends Jobs until they are placed.
    pub const SUSPEND: &str = "/mutate/suspended";
    /// Refuses what Fluxqueue would refuse.
    pub const VALIDATE: &str = "/validate";
}

struct Shared {
    admission: Admission,
    metrics: Metrics,
    stopping: Arc<AtomicBool>,
}

/// The routes, apart from the socket. `/readyz` fails once `stopping` is set, so that nobody is sent here any more; questions are
/// answered until the end.
pub fn router(admission: Admission, metrics: Metrics, stopping: Arc<AtomicBool>) -> Router {
    let shared = Arc::new(Shared { admission, metrics, stopping });
    Router::new()
        .route(Paths::MUTATE, post(async |shared, review| mutate(shared, review, Gating::Ungated)))
        .route(Paths::MUTATE_GATED, post(async |shared, review| mutate(shared, review, Gating::Gated)))
        .route(Paths::SUSPEND, post(suspend))
        .route(Paths::VALIDATE, post(validate))
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(ready))
        .layer(DefaultBodyLimit::max(REVIEW_BYTES_MAX))
        .with_state(shared)
}

/// What was asked, or why it cannot be read.
type Asked = Result<Json<AdmissionReview<DynamicObject>>, JsonRejection>;

async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.stopping.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down");
    }
    (StatusCode::OK, "ok")
}

fn mutate(State(shared): State<Arc<Shared>>, asked: Asked, gating: Gating) -> Response {
    let question = match gating {
        Gating::Ungated => Question::Mutate,
        Gating::Gated => Question::MutateGated,
    };
    shared.answer(question, asked, |request| patched(request, shared.admission.patch(request, gating)))
}

async fn suspend(State(shared): State<Arc<Shared>>, asked: Asked) -> Response {
    shared.answer(Question::Suspend, asked, |request| patched(request, shared.admission.suspension(request)))
}

fn patched(
    request: &AdmissionRequest<DynamicObject>,
    patch: Patch,
) -> Result<(AdmissionResponse, Answer), SerializePatchError> {
    let response = AdmissionResponse::from(request);
    if patch.is_empty() {
        return Ok((response, Answer::Unchanged));
    }
    Ok((response.with_patch(patch)?, Answer::Changed))
}

async fn validate(State(shared): State<Arc<Shared>>, asked: Asked) -> Response {
    shared.answer(Question::Validate, asked, |request| {
        let Findings { problems } = shared.admission.judge(request);
        let response = AdmissionResponse::from(request);
        if problems.is_empty() {
            return Ok((response, Answer::Accepted));
        }
        Ok((refuse(response, request, &problems), Answer::Refused))
    })
}

impl Shared {
    /// Answers a question, and counts it.
    fn answer(
        &self,
        question: Question,
        asked: Asked,
        respond: impl FnOnce(&AdmissionRequest<DynamicObject>) -> Result<(AdmissionResponse, Answer), SerializePatchError>,
    ) -> Response {
        let begun = Instant::now();
        let (response, answer) = match asked {
            Ok(Json(review)) => {
                let (response, answer) = match review.try_into() {
                    Ok(request) => respond(&request).unwrap_or_else(unreadable),
                    Err(error) => unreadable(error),
                };
                (Json(response.into_review()).into_response(), answer)
            }
            Err(rejection) => (rejection.into_response(), Answer::Unreadable),
        };
        self.metrics.count(question, answer, begun.elapsed());
        response
    }
}

fn unreadable(error: impl ToString) -> (AdmissionResponse, Answer) {
    (AdmissionResponse::invalid(error), Answer::Unreadable)
}

/// In the API server's own words for an object that is invalid: kubectl prints each field with what is wrong there.
fn refuse(
    mut response: AdmissionResponse,
    request: &AdmissionRequest<DynamicObject>,
    problems: &[Problem],
) -> AdmissionResponse {
    let said = &problems[..problems.len().min(PROBLEMS_SAID_MAX)];
    let texts: Vec<String> = said.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
    let causes = said.iter().map(|problem| StatusCause {
        reason: "FieldValueNotSupported".to_owned(),
        message: problem.message.clone(),
        field: problem.field.clone(),
    });
    let message = format!("Fluxqueue would refuse this: {}", texts.join("; "));
    let mut result = Status::failure(&message, "Invalid").with_code(StatusCode::UNPROCESSABLE_ENTITY.as_u16());
    result.details = Some(StatusDetails {
        name: request.name.clone(),
        group: request.kind.group.clone(),
        kind: request.kind.kind.clone(),
        uid: String::new(),
        causes: causes.collect(),
        retry_after_seconds: 0,
    });
    (response.allowed, response.result) = (false, result);
    response
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
