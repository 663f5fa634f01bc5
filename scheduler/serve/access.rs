//! Who may look at metrics and state: whoever the API server knows, and allows to get the same path there.

use std::fmt::Debug;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;

/// Asks somebody else about a bearer token and a path.
pub trait Gatekeeper: Debug + Send + Sync {
    /// Whether who has this token may get this path.
    fn judge<'a>(&'a self, token: &'a str, path: &'a str) -> BoxFuture<'a, Verdict>;
}

/// What is known of who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// He may.
    Allowed,
    /// Nobody knows the token.
    Unknown,
    /// This user may not.
    Forbidden(String),
    /// Nobody could be asked.
    NoAnswer(String),
}

/// Refuses a request unless its token is one of somebody who may get this path. Without a gatekeeper everybody may.
pub(super) async fn admit(
    gatekeeper: Option<&dyn Gatekeeper>,
    headers: &HeaderMap,
    path: &str,
) -> Result<(), Box<Response>> {
    let Some(gatekeeper) = gatekeeper else { return Ok(()) };
    let refuse = |status: StatusCode, text: String| Err(Box::new((status, text).into_response()));
    let Some(token) = bearer_token(headers) else {
        return refuse(StatusCode::UNAUTHORIZED, "a bearer token is needed\n".to_owned());
    };
    match gatekeeper.judge(token, path).await {
        Verdict::Allowed => Ok(()),
        Verdict::Unknown => refuse(StatusCode::UNAUTHORIZED, "the API server does not know this token\n".to_owned()),
        Verdict::Forbidden(user) => refuse(StatusCode::FORBIDDEN, format!("{user:?} may not get {path}\n")),
        Verdict::NoAnswer(error) => {
            tracing::warn!(path, %error, "asking who may look at this process");
            refuse(StatusCode::SERVICE_UNAVAILABLE, "the API server could not be asked\n".to_owned())
        }
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}
