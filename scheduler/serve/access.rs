//! Access control: the API server has to know a client, and allow it the same request there. For
//! metrics and state that is to get the same path; for what if it is to create that path and the
//! submitted objects, and to list the FluxJobs that the answer names.

use std::fmt::{self, Debug};

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;

/// The header for the token of a client that comes through the API server's proxy, which keeps
/// `Authorization` for itself.
pub const TOKEN_HEADER: &str = "x-fluxqueue-token";

/// Decides if a bearer token allows a deed.
pub trait Gatekeeper: Debug + Send + Sync {
    /// Returns the verdict on a deed of the client with this token.
    fn judge<'a>(&'a self, token: &'a str, deed: &'a Deed) -> BoxFuture<'a, Verdict>;
}

/// A request of a client, in the API server's terms.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Deed {
    /// Get this path.
    Get(&'static str),
    /// Send something to this path, which is the verb create.
    Post(&'static str),
    /// Create objects of this resource, under any name.
    Create {
        /// Their API group.
        group: &'static str,
        /// The resource.
        resource: &'static str,
        /// Their namespace.
        namespace: String,
    },
    /// List FluxJobs, in this namespace or in all.
    ListFluxJobs(Option<String>),
}

/// The verdict on a deed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The client may.
    Allowed,
    /// The API server does not know the token.
    Unknown,
    /// The client is this user, who may not.
    Forbidden(String),
    /// The API server could not be asked.
    NoAnswer(String),
    /// Too many clients with unknown tokens ask at the same time.
    TooMany,
}

/// Refuses a request unless its token allows the deed. Without a gatekeeper every client may.
pub(super) async fn admit(
    gatekeeper: Option<&dyn Gatekeeper>,
    headers: &HeaderMap,
    deed: &Deed,
) -> Result<(), Box<Response>> {
    // A server may be open: on the loopback address, or since the operator wants it.
    let Some(gatekeeper) = gatekeeper else { return Ok(()) };
    let refuse = |status: StatusCode, text: String| Err(Box::new((status, text).into_response()));
    let Some(token) = token_of(headers) else {
        return refuse(StatusCode::UNAUTHORIZED, "a bearer token is needed\n".to_owned());
    };
    match gatekeeper.judge(token, deed).await {
        Verdict::Allowed => Ok(()),
        Verdict::Unknown => {
            refuse(StatusCode::UNAUTHORIZED, "the API server does not know this token\n".to_owned())
        }
        Verdict::Forbidden(user) => {
            refuse(StatusCode::FORBIDDEN, format!("{user:?} may not {deed}\n"))
        }
        Verdict::NoAnswer(error) => {
            tracing::warn!(%deed, %error, "asking the API server about a client");
            refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "the API server could not be asked\n".to_owned(),
            )
        }
        Verdict::TooMany => {
            let text = "too many clients ask with tokens that are not known here yet\n";
            let retry = [(header::RETRY_AFTER, "1")];
            Err(Box::new((StatusCode::TOO_MANY_REQUESTS, retry, text).into_response()))
        }
    }
}

/// True if the client may do this. Without a gatekeeper every client may; where the API server
/// cannot be asked, none may.
pub(super) async fn may(
    gatekeeper: Option<&dyn Gatekeeper>,
    headers: &HeaderMap,
    deed: &Deed,
) -> bool {
    match (gatekeeper, token_of(headers)) {
        (None, _) => true,
        (Some(gatekeeper), Some(token)) => gatekeeper.judge(token, deed).await == Verdict::Allowed,
        (Some(_), None) => false,
    }
}

fn token_of(headers: &HeaderMap) -> Option<&str> {
    bearer_token(headers).or_else(|| headers.get(TOKEN_HEADER)?.to_str().ok())
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deed::Get(path) => write!(f, "get {path}"),
            Deed::Post(path) => write!(f, "create {path}"),
            Deed::Create { group, resource, namespace } => {
                let dot = if group.is_empty() { "" } else { "." };
                write!(f, "create {resource}{dot}{group} in namespace {namespace}")
            }
            Deed::ListFluxJobs(Some(namespace)) => {
                write!(f, "list fluxjobs in namespace {namespace}")
            }
            Deed::ListFluxJobs(None) => write!(f, "list fluxjobs in all namespaces"),
        }
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}
