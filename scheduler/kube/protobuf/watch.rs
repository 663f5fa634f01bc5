//! Follows one kind as protobuf, as `kube::runtime::watcher` does as JSON: the first list is
//! streamed, then come the changes.
//!
//! A watch that ends is continued where it was. If its version has expired, or it ended during the
//! list, it starts over. Pauses between errors are the caller's concern.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use kube::runtime::watcher;
use kube::{Client, Resource};

use super::Decode;
use super::envelope::{self, BadFrame, News};

/// The encoding.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The time after which the server ends a watch, in seconds, as kube-client requests it.
const TIMEOUT_SECS: u64 = 290;

/// The longest silence of a server: after it, nothing more will come.
const SILENT_AT_MOST: Duration = Duration::from_secs(TIMEOUT_SECS + 5);

/// The code of an expired version.
const EXPIRED: u16 = 410;

/// The annotation in the bookmark that ends a streamed list.
const LIST_ENDS: &str = "k8s.io/initial-events-end";

/// Yields the changes of one kind in all namespaces, for ever.
pub fn watch<K>(
    client: Client,
    decode: Decode<K>,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>>
where
    K: Resource + Send + 'static,
    K::DynamicType: Default,
{
    let path = K::url_path(&K::DynamicType::default(), None);
    let watch = Watch { client, path, decode, state: State::Unlisted };
    stream::unfold(watch, async |mut watch| Some((watch.next().await, watch)))
}

struct Watch<K> {
    client: Client,
    path: String,
    decode: Decode<K>,
    state: State,
}

/// The state of a watch.
enum State {
    /// Nothing is known.
    Unlisted,
    /// The list is coming.
    Listing(Frames),
    /// All is known up to this version.
    Listed(String),
    /// All is known up to this version, and changes come.
    Following(String, Frames),
}

/// The frames of one answer.
struct Frames {
    body: BoxStream<'static, Result<Bytes, kube::Error>>,
    arrived: BytesMut,
}

/// The result of a turn, if there is one.
type Said<K> = Option<Result<watcher::Event<K>, watcher::Error>>;

// === impl Watch ===

impl<K: Resource> Watch<K> {
    async fn next(&mut self) -> Result<watcher::Event<K>, watcher::Error> {
        loop {
            let (said, state) = match std::mem::replace(&mut self.state, State::Unlisted) {
                State::Unlisted => self.begin().await,
                State::Listed(version) => self.take_up(version).await,
                State::Listing(frames) => self.turn(None, frames).await,
                State::Following(version, frames) => self.turn(Some(version), frames).await,
            };
            self.state = state;
            if let Some(said) = said {
                return said;
            }
        }
    }

    async fn begin(&mut self) -> (Said<K>, State) {
        // Without a version the list has at least all objects of this moment. The present content
        // of the server's cache may lack the last leader's placements.
        match self.ask("sendInitialEvents=true&resourceVersionMatch=NotOlderThan").await {
            Ok(frames) => (Some(Ok(watcher::Event::Init)), State::Listing(frames)),
            Err(error) => (Some(Err(watcher::Error::WatchStartFailed(error))), State::Unlisted),
        }
    }

    async fn take_up(&mut self, version: String) -> (Said<K>, State) {
        match self.ask(&format!("resourceVersion={version}")).await {
            Ok(frames) => (None, State::Following(version, frames)),
            Err(error) => {
                let state =
                    if has_expired(&error) { State::Unlisted } else { State::Listed(version) };
                (Some(Err(watcher::Error::WatchStartFailed(error))), state)
            }
        }
    }

    async fn ask(&mut self, query: &str) -> Result<Frames, kube::Error> {
        let path = &self.path;
        let request = Request::get(format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={TIMEOUT_SECS}&{query}"
        ))
        .header(header::ACCEPT, HeaderValue::from_static(CONTENT_TYPE))
        .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
        .body(Body::empty())
        .map_err(kube::Error::HttpError)?;
        let response = self.client.send(request).await?;
        let code = response.status();
        let encoding =
            response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_protobuf = encoding.is_some_and(|encoding| encoding.starts_with(CONTENT_TYPE));
        let body = response.into_body();
        match (code.is_success(), is_protobuf) {
            (true, true) => {
                Ok(Frames { body: body.into_data_stream().boxed(), arrived: BytesMut::new() })
            }
            (true, false) => {
                Err(refused(StatusCode::NOT_ACCEPTABLE, "the answer has another encoding"))
            }
            (false, _) => Err(explain(code, body.collect_bytes().await?)),
        }
    }

    /// Takes in the next frame. `version` is the one up to which all is known, `None` while the
    /// list comes.
    async fn turn(&mut self, version: Option<String>, mut frames: Frames) -> (Said<K>, State) {
        let frame = match frames.next().await {
            Some(Ok(frame)) => frame,
            // Nothing more can be read of this answer.
            Some(Err(error)) => {
                return (Some(Err(watcher::Error::WatchFailed(error))), without(version));
            }
            None => return (None, without(version)),
        };
        let read = envelope::read_frame(frame).and_then(|news| news.read(self.decode));
        match read {
            Ok(News::There(object)) => there(object, version, frames),
            Ok(News::Gone(object)) => {
                let Some(known) = version_of(&object) else { return no_version() };
                match version {
                    Some(_) => {
                        (Some(Ok(watcher::Event::Delete(object))), State::Following(known, frames))
                    }
                    None => (None, State::Listing(frames)),
                }
            }
            Ok(News::Bookmark(object)) => {
                let Some(known) = version_of(&object) else { return no_version() };
                let ends = object
                    .meta()
                    .annotations
                    .as_ref()
                    .is_some_and(|all| all.contains_key(LIST_ENDS));
                match version {
                    None if ends => {
                        (Some(Ok(watcher::Event::InitDone)), State::Following(known, frames))
                    }
                    None => (None, State::Listing(frames)),
                    Some(_) => (None, State::Following(known, frames)),
                }
            }
            Ok(News::Error(status)) => {
                let state =
                    if status.code == EXPIRED { State::Unlisted } else { with(version, frames) };
                (Some(Err(watcher::Error::WatchError(status))), state)
            }
            // The next event may be readable.
            Err(error) => {
                (Some(Err(watcher::Error::WatchFailed(unreadable(error)))), with(version, frames))
            }
        }
    }
}

fn there<K: Resource>(object: K, version: Option<String>, frames: Frames) -> (Said<K>, State) {
    if version.is_none() {
        return (Some(Ok(watcher::Event::InitApply(object))), State::Listing(frames));
    }
    let Some(known) = version_of(&object) else { return no_version() };
    (Some(Ok(watcher::Event::Apply(object))), State::Following(known, frames))
}

fn with(version: Option<String>, frames: Frames) -> State {
    match version {
        Some(version) => State::Following(version, frames),
        None => State::Listing(frames),
    }
}

fn without(version: Option<String>) -> State {
    version.map_or(State::Unlisted, State::Listed)
}

fn version_of<K: Resource>(object: &K) -> Option<String> {
    object.meta().resource_version.clone()
}

fn no_version<K>() -> (Said<K>, State) {
    (Some(Err(watcher::Error::NoResourceVersion)), State::Unlisted)
}

/// True if the server has forgotten the changes since the requested version. Most servers report
/// that in the watch.
fn has_expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == EXPIRED)
}

/// Makes an error of an unsuccessful answer: of the Status in either encoding, or of a proxy's
/// text.
fn explain(code: StatusCode, body: Bytes) -> kube::Error {
    let protobuf = envelope::open(body.clone()).and_then(envelope::status).ok();
    let status = protobuf.or_else(|| serde_json::from_slice::<Status>(&body).ok());
    match status {
        Some(status) => kube::Error::Api(status.with_code(code.as_u16()).boxed()),
        None => refused(code, String::from_utf8_lossy(&body).trim()),
    }
}

fn refused(code: StatusCode, message: &str) -> kube::Error {
    let reason = code.canonical_reason().unwrap_or_default();
    kube::Error::Api(Status::failure(message, reason).with_code(code.as_u16()).boxed())
}

fn unreadable(error: BadFrame) -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}

// === impl Frames ===

impl Frames {
    /// Returns the next frame; `None` at the end, and when nothing has come for too long.
    async fn next(&mut self) -> Option<Result<Bytes, kube::Error>> {
        loop {
            match envelope::take_frame(&mut self.arrived) {
                Ok(Some(frame)) => return Some(Ok(frame)),
                Ok(None) => {}
                Err(error) => return Some(Err(unreadable(error))),
            }
            match tokio::time::timeout(SILENT_AT_MOST, self.body.next()).await.ok().flatten()? {
                Ok(bytes) => self.arrived.extend_from_slice(&bytes),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
