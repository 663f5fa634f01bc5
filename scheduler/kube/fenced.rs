//! Writes that are sent only while this process leads.
//!
//! Every write of the shell but those of the Lease itself goes through here. The fence is checked
//! before each attempt, so a process that was stopped between an attempt and its repetition repeats
//! nothing. No check of our own can exclude that the process is stopped after the check and before
//! the first byte has left: then the API server decides, by the uid and the resourceVersion that
//! each write names.

use std::time::{Duration, Instant};

use http::Method;
use kube::Client;
use serde::de::DeserializeOwned;

use super::fence::Fence;
use super::request::{Content, NoReply, Reply, get, send};

/// The longest time that a write takes, all its attempts included; a successor that takes over
/// without a goodbye waits for it.
pub const WRITE_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// The most attempts of one write. The time limit ends most of them sooner.
const ATTEMPTS_MAX: u32 = 16;

/// The pause before the second attempt, if the server names none. It doubles with each attempt.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest pause, unless the server names one.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Sends writes while the fence holds, and reads at any time.
#[derive(Clone)]
pub struct FencedClient {
    /// The client, which must not repeat requests by itself: it does not know the fence.
    client: Client,
    fence: Fence,
}

/// The reason why a write has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotWritten {
    /// Nothing was sent, or nothing more after an attempt that the server refused.
    #[error("not the leader any more")]
    NotLeading,
    /// The write may have taken effect or not.
    #[error(transparent)]
    NoReply(#[from] NoReply),
}

// === impl FencedClient ===

impl FencedClient {
    /// Creates a client that writes while `fence` holds.
    pub fn new(client: Client, fence: Fence) -> Self {
        FencedClient { client, fence }
    }

    /// Sends one write, again while the server says that it is too busy, until `within` is over.
    pub(super) async fn write(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: &[u8],
        within: Duration,
    ) -> Result<Reply, NotWritten> {
        let within = within.min(WRITE_TIMEOUT_MAX);
        let begun = Instant::now();
        let attempts = async {
            let (mut attempts, mut pause) = (0, PAUSE_MIN);
            loop {
                if !self.fence.holds() {
                    return Err(NotWritten::NotLeading);
                }
                let reply =
                    send(&self.client, method.clone(), path, content, body.to_vec(), within)
                        .await?;
                attempts += 1;
                let wait = reply.retry_after.unwrap_or(pause);
                if !is_busy(&reply)
                    || attempts == ATTEMPTS_MAX
                    || begun.elapsed().saturating_add(wait) >= within
                {
                    return Ok(reply);
                }
                tokio::time::sleep(wait).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        };
        let written = match tokio::time::timeout(within, attempts).await {
            Ok(written) => written,
            Err(_) => Err(NotWritten::NoReply(NoReply::Timeout(within))),
        };
        match &written {
            Ok(_) => self.fence.answered(),
            Err(NotWritten::NoReply(why)) => self.fence.unanswered(&why.to_string()),
            Err(NotWritten::NotLeading) => {}
        }
        written
    }

    /// Reads an object. Reading does no harm, also in a process that does not lead.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        within: Duration,
    ) -> Result<Result<T, Reply>, String> {
        get(&self.client, path, within).await
    }
}

impl std::fmt::Debug for FencedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FencedClient").field("fence", &self.fence).finish_non_exhaustive()
    }
}

/// True if the server is throttled or unavailable, or a gateway gave up waiting: the same request
/// may succeed in a moment.
fn is_busy(reply: &Reply) -> bool {
    matches!(reply.code, 429 | 503 | 504)
}
