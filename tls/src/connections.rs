//! The connections of a process: how many there may be, and which one is closed to make room for
//! another.
//!
//! A connection either *waits for its client* (for a handshake, for a request, for the client to
//! take an answer), or it is *being answered*. Waiting costs the client nothing, so a client can
//! hold any number of such connections. Where all places are taken, the connection that has waited
//! longest is closed for the one that arrives: clients that send their requests promptly are
//! served, whatever the others hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Notify;

/// The most connections of one process, without those of probes: each takes up to 100 KiB, and the
/// webhook has 256 MiB for everything.
const CONNECTIONS_MAX: u64 = 512;

/// The fewest connections of a process, however few descriptors it may have.
const CONNECTIONS_MIN: u64 = 16;

/// The most connections of probes: a kubelet has two at a time.
pub const PROBE_CONNECTIONS: usize = 64;

/// Descriptors that are left to everything else: the connections to the API server (up to 128
/// Bindings among them), files, and pipes.
const DESCRIPTORS_LEFT: u64 = 256;

/// The limit of descriptors that a process asks for. Its own bounds are far below; container
/// runtimes start processes with 1,024.
const DESCRIPTORS_WANTED: u64 = 65_536;

/// The connections of all listeners that share a limit. Clones share it.
#[derive(Debug, Clone)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    places: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Connections that have a place, the waiting ones among them.
    count: usize,
    /// The number of the next wait.
    next: u64,
    /// Connections that wait for their clients, the longest wait first.
    waiting: BTreeMap<u64, Arc<Notify>>,
    /// The failures to accept connections, if the last attempt failed.
    deaf: Option<Deaf>,
}

/// A time in which no connection was accepted.
#[derive(Debug)]
struct Deaf {
    /// The first failure since the last connection.
    since: Instant,
    /// The last failure.
    last: Instant,
    why: String,
}

/// Failures that are further apart have nothing to do with each other: while the cause lasts, one
/// comes every 200 ms.
const DEAF_PAUSE: Duration = Duration::from_secs(2);

/// One connection. Its place is free when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    leave: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The connection waits for its client: the number of the wait, and its beginning.
    Waiting(u64, Instant),
    /// The connection is being answered.
    Answered,
    /// Another connection was given its place.
    Left,
}

/// Marks a connection as being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Place>);

// === impl Connections ===

impl Connections {
    /// Raises the limit of descriptors as far as the process may, and leaves room for connections
    /// accordingly.
    ///
    /// All connections, those of probes included, stay below the limit of descriptors minus 256.
    pub fn within_descriptors() -> Self {
        let limit = raise_descriptors();
        let free = limit.saturating_sub(DESCRIPTORS_LEFT).saturating_sub(PROBE_CONNECTIONS as u64);
        let places = free.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        if free < places {
            tracing::warn!(limit, "the limit of open files is low: connections may exhaust it");
        }
        Connections::with_places(usize::try_from(places).unwrap_or(usize::MAX))
    }

    /// Allows at most this many connections.
    pub fn with_places(places: usize) -> Self {
        Connections { shared: Arc::new(Shared { places, table: Mutex::default() }) }
    }

    /// Returns for how long no connection could be accepted, and why; `None` if connections can be
    /// accepted.
    pub fn deaf_for(&self) -> Option<(Duration, String)> {
        let table = self.shared.table();
        let deaf = table.deaf.as_ref().filter(|deaf| deaf.last.elapsed() < DEAF_PAUSE)?;
        Some((deaf.since.elapsed(), deaf.why.clone()))
    }

    /// Gives a place to a connection that has arrived, at the cost of the one that has waited
    /// longest if none is free. `None` if all are being answered.
    pub(crate) fn enter(&self) -> Option<Place> {
        let mut table = self.shared.table();
        if table.count >= self.shared.places {
            let (_, leave) = table.waiting.pop_first()?;
            table.count -= 1;
            leave.notify_one();
        }
        table.count += 1;
        let leave = Arc::new(Notify::new());
        let state = Mutex::new(table.wait(&leave));
        Some(Place { shared: Arc::clone(&self.shared), leave, state })
    }

    /// Notes that a connection was accepted.
    pub(crate) fn heard(&self) {
        self.shared.table().deaf = None;
    }

    /// Notes that no connection could be accepted. True if that is new.
    pub(crate) fn fell_deaf(&self, why: &str) -> bool {
        let mut table = self.shared.table();
        let before = table.deaf.take().filter(|deaf| deaf.last.elapsed() < DEAF_PAUSE);
        let (is_new, last) = (before.is_none(), Instant::now());
        let since = before.map_or(last, |deaf| deaf.since);
        table.deaf = Some(Deaf { since, last, why: why.to_owned() });
        is_new
    }
}

// === impl Shared ===

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Table ===

impl Table {
    /// Begins the wait of a connection.
    fn wait(&mut self, leave: &Arc<Notify>) -> State {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, Arc::clone(leave));
        State::Waiting(number, Instant::now())
    }

    /// Ends a wait. True if the connection still had its place.
    fn end_wait(&mut self, number: u64) -> bool {
        self.waiting.remove(&number).is_some()
    }
}

// === impl Place ===

impl Place {
    /// Resolves when another connection needs this place.
    pub(crate) async fn needed(&self) {
        self.leave.notified().await;
    }

    /// Returns for how long the client has been waited for; `None` while the connection is being
    /// answered.
    pub(crate) fn waits_for(&self) -> Option<Duration> {
        match *self.state() {
            State::Waiting(_, since) => Some(since.elapsed()),
            State::Answered | State::Left => None,
        }
    }

    /// Marks this connection as being answered: until the result is dropped, it is not closed to
    /// make room.
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        let mut state = self.state();
        if let State::Waiting(number, _) = *state {
            *state =
                if self.shared.table().end_wait(number) { State::Answered } else { State::Left };
        }
        drop(state);
        Answering(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let state = *self.state();
        let mut table = self.shared.table();
        let is_taken = match state {
            State::Waiting(number, _) => table.end_wait(number),
            State::Answered => true,
            State::Left => false,
        };
        table.count -= usize::from(is_taken);
    }
}

// === impl Answering ===

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if matches!(*state, State::Answered) {
            *state = self.0.shared.table().wait(&self.0.leave);
        }
    }
}

/// Raises the soft limit of descriptors towards the hard one, and says which limit holds then.
fn raise_descriptors() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let limit = before.current.unwrap_or(u64::MAX);
    let wanted = before.maximum.unwrap_or(u64::MAX).min(DESCRIPTORS_WANTED);
    if wanted <= limit {
        return limit;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: before.maximum }) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, limit, wanted, "raising the limit of open files");
            limit
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_longest_wait_ends_for_the_next_connection_and_no_answer_does() {
        let connections = Connections::with_places(2);
        let first = Arc::new(connections.enter().unwrap());
        let second = Arc::new(connections.enter().unwrap());
        let answering = first.answer();
        assert!(first.waits_for().is_none() && second.waits_for().is_some());
        let third = connections.enter().unwrap();
        second.needed().await;
        drop((second, third));
        // The first waits again, and from now on.
        let fourth = Arc::new(connections.enter().unwrap());
        drop(answering);
        let fifth = Arc::new(connections.enter().unwrap());
        fourth.needed().await;
        drop(fourth);
        let all = [first.answer(), fifth.answer()];
        assert!(connections.enter().is_none(), "all are being answered");
        drop(all);
        assert!(connections.enter().is_some());
    }

    #[test]
    fn places_are_free_again_whatever_a_connection_was_doing() {
        let connections = Connections::with_places(1);
        for _ in 0..3 {
            let place = Arc::new(connections.enter().unwrap());
            let answering = place.answer();
            assert!(connections.enter().is_none());
            drop(place);
            drop(answering);
            drop(connections.enter().unwrap());
        }
        let table = connections.shared.table();
        assert!(table.count == 0 && table.waiting.is_empty(), "{table:?}");
    }

    #[test]
    fn the_limit_of_descriptors_is_as_high_as_it_may_be() {
        let limit = raise_descriptors();
        let held = getrlimit(Resource::Nofile);
        assert_eq!(held.current.unwrap_or(u64::MAX), limit);
        assert!(limit >= held.maximum.unwrap_or(u64::MAX).min(DESCRIPTORS_WANTED));
    }
}
