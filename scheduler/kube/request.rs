//! One request to the API server, with a time limit that covers everything. Writes are repeated in
//! [`super::fenced`].
//!
//! `kube::Api` parses every answer into a typed object. Most of our writes need only the status
//! code, and one of them is sent thousands of times in a row, so they are built and read here.

use std::time::Duration;

use fluxqueue_api::text;
use http::{Method, Request, header};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

use super::error_chain::error_chain;

/// An answer of the API server.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    /// The time for which the server asks to wait before the next attempt.
    pub(super) retry_after: Option<Duration>,
    body: Vec<u8>,
}

/// The reason why there is no answer: the request may have taken effect or not.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoReply {
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("{}", error_chain(.0))]
    Transport(#[source] kube::Error),
}

/// The object of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// This content: it is invalid or too large, or a policy denies it as invalid.
    Content,
    /// The request itself, from this process at this time.
    Request,
}

/// The content types of requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// Server-side apply: JSON is YAML.
    Apply,
    Json,
    MergePatch,
    StrategicMergePatch,
}

/// Sends one request and reads the whole answer, so that its connection can be used again.
pub(super) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content: Content,
    body: Vec<u8>,
    within: Duration,
) -> Result<Reply, NoReply> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content.as_str())
        .header(header::ACCEPT, "application/json")
        .body(Body::from(body))
        .map_err(|error| NoReply::Transport(kube::Error::HttpError(error)))?;
    let exchange = async {
        let response = client.send(request).await?;
        let code = response.status().as_u16();
        let retry_after =
            response.headers().get(header::RETRY_AFTER).and_then(|seconds| seconds.to_str().ok());
        let retry_after =
            retry_after.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        let body = response.into_body().collect_bytes().await?;
        Ok(Reply { code, retry_after, body: body.into() })
    };
    match tokio::time::timeout(within, exchange).await {
        Ok(answer) => answer.map_err(NoReply::Transport),
        Err(_) => Err(NoReply::Timeout(within)),
    }
}

/// Reads an object.
pub(super) async fn get<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    within: Duration,
) -> Result<Result<T, Reply>, String> {
    let reply = send(client, Method::GET, path, Content::Json, Vec::new(), within).await;
    let reply = reply.map_err(|error| error.to_string())?;
    if reply.code != 200 {
        return Ok(Err(reply));
    }
    reply.parse().map(Ok).map_err(|error| format!("reading the answer of GET {path}: {error}"))
}

// === impl Content ===

impl Content {
    fn as_str(self) -> &'static str {
        match self {
            Content::Apply => "application/apply-patch+yaml",
            Content::Json => "application/json",
            Content::MergePatch => "application/merge-patch+json",
            Content::StrategicMergePatch => "application/strategic-merge-patch+json",
        }
    }
}

// === impl Reply ===

impl Reply {
    /// True if the status is 2xx.
    pub(super) fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The body as an object.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// True if the body is a `Status` with the reason AlreadyExists.
    pub(super) fn is_already_exists(&self) -> bool {
        self.parse::<Status>().is_ok_and(|status| status.is_already_exists())
    }

    /// Returns the reason for which the server refuses a write, if nothing was written: no
    /// permission, a quota, a policy, admission, or content that it does not accept. An answer that
    /// leaves open whether something was written is no refusal.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        /// An admission webhook did not answer, and counts as one that denies. Admission comes
        /// before anything is stored.
        const UNANSWERED_ADMISSION: &str = "failed calling webhook";
        /// etcd's error about an object beyond its limit.
        const TOO_LARGE: &str = "request is too large";
        match self.code {
            400 | 413 | 422 => Some(Refusal::Content),
            403 => Some(Refusal::Request),
            500 if self.explain().contains(UNANSWERED_ADMISSION) => Some(Refusal::Request),
            500 if self.explain().contains(TOO_LARGE) => Some(Refusal::Content),
            _ => None,
        }
    }

    /// True if the server does not let this process do it, or does not have it.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.code, 403 | 404)
    }

    /// Returns the server's explanation, for people.
    pub(super) fn explain(&self) -> String {
        /// Bodies that are no Status come from proxies: their beginning tells enough.
        const SHOWN_BYTES: usize = 200;
        let text = match self.parse::<Status>() {
            Ok(status) if !status.message.is_empty() => status.message,
            _ => {
                String::from_utf8_lossy(&self.body[..self.body.len().min(SHOWN_BYTES)]).into_owned()
            }
        };
        // The text of a policy or a webhook can be of any length.
        format!("{}: {}", self.code, text::bounded(text.trim(), text::VALUE_BYTES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, message: &str) -> Reply {
        let body = serde_json::json!({
            "kind": "Status", "status": "Failure", "code": code, "message": message,
        });
        Reply { code, retry_after: None, body: body.to_string().into_bytes() }
    }

    #[test]
    fn a_refusal_is_an_answer_by_which_nothing_was_written() {
        let unanswered =
            "Internal error occurred: failed calling webhook \"a.b\": context deadline exceeded";
        let cases = [
            (reply(403, "exceeded quota"), Some(Refusal::Request)),
            (reply(422, "Too many: 1025"), Some(Refusal::Content)),
            (reply(400, "admission webhook \"a.b\" denied the request"), Some(Refusal::Content)),
            (reply(500, unanswered), Some(Refusal::Request)),
            (reply(500, "etcdserver: request is too large"), Some(Refusal::Content)),
            (reply(500, "etcdserver: leader changed"), None),
            (reply(401, "Unauthorized"), None),
            (reply(409, "the object has been modified"), None),
            (reply(504, "timeout"), None),
        ];
        for (reply, expected) in cases {
            assert_eq!(reply.refusal(), expected, "{}", reply.explain());
        }
    }

    #[test]
    fn the_words_of_a_server_are_cut_and_escaped() {
        let words = reply(403, &"\u{1b}[2Jdenied\n".repeat(10_000)).explain();
        assert!(words.len() < 300 && !words.contains(char::is_control), "{words}");
    }
}
