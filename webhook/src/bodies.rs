//! The memory for questions: taken before a question is read, and given back when it is answered.
//!
//! The memory of one question is bounded, and so is the memory of all at the same time. Where none
//! is left, a question is turned away at once: the API server then follows the `failurePolicy`, as
//! if this replica was not there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;

/// The most bytes of one question: an object and its previous version, each as large as etcd takes
/// at most, and the frame around them.
pub(crate) const REVIEW_BYTES_MAX: usize = 8 << 20;

/// The most bytes of all questions at the same time: two of the largest, and some hundred ordinary
/// ones. The container has 256 MiB.
const BYTES_MAX: usize = 20 << 20;

/// The most bytes of an ordinary question: most have 5 to 20 KiB.
const ORDINARY_BYTES_MAX: usize = 64 << 10;

/// The bytes that larger questions leave to ordinary ones.
const ORDINARY_BYTES: usize = 4 << 20;

/// The time in which a question has to arrive. The API server waits 1 s for its answer.
const ARRIVES_WITHIN: Duration = Duration::from_secs(2);

/// The memory that is left for questions.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    free: Arc<Mutex<usize>>,
}

/// Memory for one question; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    free: Arc<Mutex<usize>>,
    bytes: usize,
}

/// The reason why a question is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRead {
    /// The question is larger than any may be.
    TooLarge,
    /// The free memory is too small for it.
    NoMemory,
    /// The question did not arrive in time, or not as a whole.
    NotArrived,
}

// === impl Bodies ===

impl Default for Bodies {
    fn default() -> Self {
        Bodies { free: Arc::new(Mutex::new(BYTES_MAX)) }
    }
}

impl Bodies {
    /// Reads a body as a whole, if there is memory for it.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, Held), NotRead> {
        let said = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        // A body that does not state its length may be as long as the longest.
        let length: usize = said.unwrap_or(REVIEW_BYTES_MAX);
        if length > REVIEW_BYTES_MAX {
            return Err(NotRead::TooLarge);
        }
        let held = self.hold(length).ok_or(NotRead::NoMemory)?;
        let arrived =
            tokio::time::timeout(ARRIVES_WITHIN, arrive(body, said.unwrap_or_default())).await;
        let body = arrived.map_err(|_| NotRead::NotArrived)??;
        Ok((body, held))
    }

    fn hold(&self, bytes: usize) -> Option<Held> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let left_alone = if bytes > ORDINARY_BYTES_MAX { ORDINARY_BYTES } else { 0 };
        *free = free.checked_sub(bytes + left_alone)? + left_alone;
        Some(Held { free: Arc::clone(&self.free), bytes })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
    }
}

/// Reads all of a body into one buffer from the beginning: joining pieces in the end would take
/// twice the memory.
async fn arrive(mut body: Body, length: usize) -> Result<Bytes, NotRead> {
    let mut bytes = Vec::with_capacity(length);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| NotRead::NotArrived)?;
        // Trailers are of no use.
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > REVIEW_BYTES_MAX {
            return Err(NotRead::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

// === impl NotRead ===

impl NotRead {
    /// Returns the answer to the client.
    pub(crate) fn answer(self) -> (StatusCode, &'static str) {
        match self {
            NotRead::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the question is too large\n"),
            NotRead::NoMemory => {
                (StatusCode::SERVICE_UNAVAILABLE, "too many questions are being answered\n")
            }
            NotRead::NotArrived => (StatusCode::REQUEST_TIMEOUT, "the question did not arrive\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    fn said(length: usize) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_LENGTH, length.into())])
    }

    fn silent() -> Body {
        Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>())
    }

    #[tokio::test]
    async fn memory_is_taken_before_a_question_is_read_and_given_back() {
        let bodies = Bodies::default();
        let unsaid = HeaderMap::new();
        let large = || bodies.read(&unsaid, Body::from("x"));
        let first = [large().await.unwrap(), large().await.unwrap()];
        // A third one would take memory that is reserved for ordinary ones, which can use it.
        assert_eq!(large().await.unwrap_err(), NotRead::NoMemory);
        let length = 10 << 10;
        let ordinary = bodies.read(&said(length), Body::from("x".repeat(length))).await.unwrap();
        assert_eq!(ordinary.0.len(), length);
        drop((first, ordinary));
        assert_eq!(*bodies.free.lock().unwrap(), BYTES_MAX);
        assert!(large().await.is_ok());
        assert_eq!(*bodies.free.lock().unwrap(), BYTES_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_does_not_arrive_gives_its_memory_back() {
        let bodies = Bodies::default();
        assert_eq!(bodies.read(&said(100), silent()).await.unwrap_err(), NotRead::NotArrived);
        assert_eq!(*bodies.free.lock().unwrap(), BYTES_MAX);
    }

    #[tokio::test]
    async fn a_question_that_is_too_large_is_not_read_whether_it_says_so_or_not() {
        let bodies = Bodies::default();
        let said_so = bodies.read(&said(REVIEW_BYTES_MAX + 1), silent()).await.unwrap_err();
        let body =
            stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20])));
        let sent = bodies.read(&HeaderMap::new(), Body::from_stream(body)).await.unwrap_err();
        assert_eq!((said_so, sent), (NotRead::TooLarge, NotRead::TooLarge));
        assert_eq!(*bodies.free.lock().unwrap(), BYTES_MAX);
    }
}
