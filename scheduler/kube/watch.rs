//! Watches: they turn the API server's news into events of the core, in batches.
//!
//! There is one task per kind. The first list comes through the watch itself, object by object:
//! each is converted as it arrives, while the server writes the next, and the large ones are
//! dropped at once. If the server cannot do that, the list comes in pages. Pods and nodes, which
//! are many, come as protobuf where the server has that. Every failure (429, 500, a closed
//! connection, an expired version) is logged and counted, and another try follows with growing
//! pauses; changes that were missed meanwhile show in the next list.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fluxqueue_api::text;
use futures::{Stream, StreamExt};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::convert::Watched;
use super::error_chain::error_chain;
use super::pauses::paced;
use super::protobuf;
use super::seen::Seen;
use crate::serve::Metrics;
use fluxqueue_core::Event;
use fluxqueue_workload::ObjectKey;

/// The most changes that are handed on together: all that have arrived while the last were handled,
/// up to this number.
const BATCH_EVENTS: usize = 512;

/// The most batches on their way to the core, of all kinds together. With the batches' size this
/// bounds the waiting changes to 32,768; when the core falls behind further, the watches stop
/// reading, and the API server keeps the rest.
pub const BATCHES: usize = 64;

/// The state that the tasks of all kinds share.
#[derive(Clone)]
pub struct Watches {
    /// The client of the API server.
    pub client: Client,
    /// The channel to the core's task.
    pub batches: mpsc::Sender<Vec<Event>>,
    /// The counters of changes and errors.
    pub metrics: Arc<Metrics>,
    /// The number of kinds that have not had their first list yet.
    pub unlisted: Arc<AtomicUsize>,
}

/// The core's task has ended, so the watches have no receiver.
#[derive(Debug, thiserror::Error)]
#[error("the core takes no changes of {kind} any more")]
pub struct NoReceiver {
    kind: &'static str,
}

/// The state of the watch of one kind.
pub(super) struct WatchState<K: Watched> {
    seen: Seen<K::Value>,
    /// The state that one conversion leaves for the next.
    pub(super) memory: K::Memory,
    /// True if the first list is complete.
    listed: bool,
}

/// The reaction to a server that cannot list in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfRefused {
    Return,
    TryAgain,
}

// === impl WatchState ===

impl<K: Watched> Default for WatchState<K> {
    fn default() -> Self {
        WatchState { seen: Seen::default(), memory: K::Memory::default(), listed: false }
    }
}

impl<K: Watched> WatchState<K> {
    /// Notes that the core does not wait for the list of this kind.
    pub(super) fn belongs_to_no_first_list(&mut self) {
        self.listed = true;
    }
}

// === impl Watches ===

impl Watches {
    /// Watches one kind in all namespaces, for ever.
    pub async fn watch<K>(self) -> Result<(), NoReceiver>
    where
        K: Watched,
        K::DynamicType: Default,
    {
        let mut state = WatchState::<K>::default();
        if let Some(decode) = K::DECODE {
            self.follow(
                protobuf::watch::watch(self.client.clone(), decode),
                IfRefused::Return,
                &mut state,
            )
            .await?;
            tracing::info!(
                kind = K::KIND,
                "the API server does not stream lists as protobuf, so JSON is tried"
            );
        }
        self.watch_as(&K::DynamicType::default(), &mut state).await
    }

    /// Watches one kind as it is served, in all namespaces, for ever; as JSON.
    pub(super) async fn watch_as<K: Watched>(
        self,
        resource: &K::DynamicType,
        state: &mut WatchState<K>,
    ) -> Result<(), NoReceiver> {
        let api: Api<K> = Api::all_with(self.client.clone(), resource);
        let streamed = watcher(api.clone(), watcher::Config::default().streaming_lists());
        self.follow(streamed, IfRefused::Return, state).await?;
        tracing::info!(
            kind = K::KIND,
            "the API server does not stream lists, so they are read in pages"
        );
        self.follow(watcher(api, watcher::Config::default()), IfRefused::TryAgain, state).await
    }

    /// Passes on that all objects of a kind are gone, which is not served any more.
    pub(super) async fn forget_all<K: Watched>(
        &self,
        state: &mut WatchState<K>,
    ) -> Result<(), NoReceiver> {
        let mut events = Vec::new();
        state.seen.list_begins();
        state.seen.list_ends(&mut events);
        self.hand_on::<K>(events).await?;
        self.note_listed(state).await
    }

    /// Notes that the first list of a kind is complete.
    async fn note_listed<K: Watched>(&self, state: &mut WatchState<K>) -> Result<(), NoReceiver> {
        if std::mem::replace(&mut state.listed, true) {
            return Ok(());
        }
        tracing::debug!(kind = K::KIND, "listed");
        // This comes after the objects themselves: the last kind to get here knows that those of
        // all kinds are in the channel.
        if self.unlisted.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.hand_on::<K>(vec![Event::Synced]).await?;
        }
        Ok(())
    }

    /// Passes on the changes of one kind of watch.
    async fn follow<K: Watched>(
        &self,
        watch: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>>,
        if_refused: IfRefused,
        state: &mut WatchState<K>,
    ) -> Result<(), NoReceiver> {
        let stream = paced(watch).ready_chunks(BATCH_EVENTS);
        let mut stream = std::pin::pin!(stream);
        loop {
            let due = state.seen.next_due();
            let changes = tokio::select! {
                changes = stream.next() => match changes {
                    Some(changes) => changes,
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)),
                    if due.is_some() => Vec::new(),
            };
            let mut events = Vec::new();
            let mut list_ended = false;
            for change in changes {
                match change {
                    Ok(change) => {
                        list_ended |= matches!(change, watcher::Event::InitDone);
                        self.take_in(change, state, &mut events);
                    }
                    Err(error)
                        if if_refused == IfRefused::Return
                            && !state.listed
                            && is_refusal(&error) =>
                    {
                        return Ok(());
                    }
                    Err(error) => self.complain::<K>(&error),
                }
            }
            state.seen.tell_due(Instant::now(), &mut events);
            self.hand_on::<K>(events).await?;
            if list_ended {
                self.note_listed(state).await?;
            }
        }
    }

    fn take_in<K: Watched>(
        &self,
        change: watcher::Event<K>,
        state: &mut WatchState<K>,
        events: &mut Vec<Event>,
    ) {
        let WatchState { seen, memory, .. } = state;
        match change {
            watcher::Event::Init => seen.list_begins(),
            watcher::Event::InitDone => seen.list_ends(events),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                self.metrics.changes.get_or_create(&[("kind", K::KIND)]).inc();
                let key = key_of(&object);
                match object.convert(memory) {
                    Ok(value) => seen.apply(value, Instant::now(), events),
                    Err(error) => {
                        self.metrics.invalid_objects.get_or_create(&[("kind", K::KIND)]).inc();
                        tracing::warn!(
                            kind = K::KIND, object = %key, %error,
                            "object cannot be understood and is left out"
                        );
                        seen.mark(&key);
                    }
                }
            }
            watcher::Event::Delete(object) => {
                self.metrics.changes.get_or_create(&[("kind", K::KIND)]).inc();
                let uid = object.meta().uid.as_deref().unwrap_or_default();
                seen.delete(&key_of(&object), uid, events);
            }
        }
    }

    fn complain<K: Watched>(&self, error: &watcher::Error) {
        self.metrics.watch_errors.get_or_create(&[("kind", K::KIND)]).inc();
        let hint = match error {
            watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause) => {
                hint(cause)
            }
            _ => None,
        };
        tracing::warn!(
            kind = K::KIND,
            error = said(error),
            hint,
            "watch failed and is tried again"
        );
    }

    pub(super) async fn hand_on<K: Watched>(&self, events: Vec<Event>) -> Result<(), NoReceiver> {
        if events.is_empty() {
            return Ok(());
        }
        self.batches.send(events).await.map_err(|_| NoReceiver { kind: K::KIND })
    }
}

/// True if the server cannot list in this way: the gate WatchList is off, or the server older than
/// it, and calls the request invalid; or the server lacks the encoding.
fn is_refusal(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    matches!(status.code, 400 | 406 | 415 | 422)
}

fn hint(error: &kube::Error) -> Option<&'static str> {
    match error {
        kube::Error::Api(status) if status.is_not_found() => Some(
            "the API server does not know this kind: is the custom resource definition installed?",
        ),
        kube::Error::Api(status) if status.is_forbidden() => {
            Some("not allowed: is the cluster role bound?")
        }
        _ => None,
    }
}

fn said(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(cause) => format!("listing: {}", error_chain(cause)),
        watcher::Error::WatchStartFailed(cause) => {
            format!("beginning to watch: {}", error_chain(cause))
        }
        watcher::Error::WatchFailed(cause) => format!("watching: {}", error_chain(cause)),
        watcher::Error::WatchError(status) => text::into_message(format!(
            "watching: {} {}: {}",
            status.code, status.reason, status.message
        )),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

fn key_of<K: Resource>(object: &K) -> ObjectKey {
    let metadata = object.meta();
    ObjectKey::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}
