//! Who may ask for what: whoever the API server knows, and allows the same there. For metrics and state that is to get the same path,
//! and for what would come of an object to create it.

use std::fmt::{self, Debug};

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;

/// A header for the token of who asks through the API server's proxy, which keeps `Authorization` for itself.
pub const TOKEN_HEADER: &str = "x-fluxqueue-token";

/// Asks somebody else about a bearer token and a deed.
pub trait Gatekeeper: Debug + Send + Sync {
    /// Whether who has this token may do this.
    fn judge<'a>(&'a self, token: &'a str, deed: &'a Deed) -> BoxFuture<'a, Verdict>;
}

/// What somebody wants to do, in the API server's terms.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Deed {
    /// Get this path.
    Get(&'static str),
    /// Create an object.
    Create {
        /// Its API group.
        group: &'static str,
        /// Its resource.
        resource: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
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

/// Refuses a request unless its token is one of somebody who may do this. Without a gatekeeper everybody may.
pub(super) async fn admit(
    gatekeeper: Option<&dyn Gatekeeper>,
    headers: &HeaderMap,
    deed: &Deed,
) -> Result<(), Box<Response>> {
    let Some(gatekeeper) = gatekeeper else { return Ok(()) };
    let refuse = |status: StatusCode, text: String| Err(Box::new((status, text).into_response()));
    let Some(token) = bearer_token(headers).or_else(|| headers.get(TOKEN_HEADER)?.to_str().ok()) else {
        return refuse(StatusCode::UNAUTHORIZED, "a bearer token is needed\n".to_owned());
    };
    match gatekeeper.judge(token, deed).await {
        Verdict::Allowed => Ok(()),
        Verdict::Unknown => refuse(StatusCode::UNAUTHORIZED, "the API server does not know this token\n".to_owned()),
        Verdict::Forbidden(user) => refuse(StatusCode::FORBIDDEN, format!("{user:?} may not {deed}\n")),
        Verdict::NoAnswer(error) => {
            tracing::warn!(%deed, %error, "asking who may do this");
            refuse(StatusCode::SERVICE_UNAVAILABLE, "the API server could not be asked\n".to_owned())
        }
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deed::Get(path) => write!(f, "get {path}"),
            Deed::Create { group, resource, namespace, .. } => {
                let dot = if group.is_empty() { "" } else { "." };
                write!(f, "create {resource}{dot}{group} in namespace {namespace}")
            }
        }
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}
