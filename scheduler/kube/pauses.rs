//! The pauses of a failed watch before it tries again.

use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use kube::runtime::watcher;

/// The first pause.
const FIRST: Duration = Duration::from_millis(250);

/// The longest pause. Seven watches that try every five seconds are no load, and a scheduler should
/// not notice half a minute late that the API server is back.
const LONGEST: Duration = Duration::from_secs(5);

/// The time without an error after which the next pause is a first one again.
const FORGET_AFTER: Duration = Duration::from_secs(30);

/// Adds a pause after each error of a watch. The error itself comes after the pause.
///
/// Only time makes pauses short again. A watch yields other items between any two errors (such as
/// the beginning of a list), so if these did, a watch with failing lists would try as fast as it
/// can.
pub(super) fn paced<K>(
    changes: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>>,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> {
    changes.scan(Pauses::default(), |pauses, change| {
        let pause = change.as_ref().err().map(|error| pauses.after(error, Instant::now()));
        async move {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            Some(change)
        }
    })
}

/// Pauses, each twice as long as the one before.
#[derive(Debug)]
struct Pauses {
    next: Duration,
    last_error: Option<Instant>,
    last_was_expiry: bool,
}

// === impl Pauses ===

impl Default for Pauses {
    fn default() -> Self {
        Pauses { next: FIRST, last_error: None, last_was_expiry: false }
    }
}

impl Pauses {
    fn after(&mut self, error: &watcher::Error, now: Instant) -> Duration {
        // The server answers and asks for a new list: there is no reason to wait, unless it does so
        // again and again.
        let expired = matches!(error, watcher::Error::WatchError(status) if status.code == 410);
        if expired && !std::mem::replace(&mut self.last_was_expiry, true) {
            return Duration::ZERO;
        }
        self.last_was_expiry = expired;
        if self.last_error.is_some_and(|last| now.duration_since(last) > FORGET_AFTER) {
            self.next = FIRST;
        }
        self.last_error = Some(now);
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: u16) -> watcher::Error {
        watcher::Error::WatchError(kube::core::Status::failure("no", "No").with_code(code).boxed())
    }

    #[test]
    fn pauses_grow_to_a_bound_and_a_quiet_time_starts_over() {
        let mut pauses = Pauses::default();
        let now = Instant::now();
        let millis: Vec<u128> =
            (0..7).map(|_| pauses.after(&failure(500), now).as_millis()).collect();
        assert_eq!(millis, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(pauses.after(&failure(500), now + FORGET_AFTER), LONGEST);
        assert_eq!(pauses.after(&failure(500), now + FORGET_AFTER * 3), FIRST);
    }

    #[test]
    fn an_expired_version_is_listed_again_at_once_but_not_for_ever() {
        let mut pauses = Pauses::default();
        let now = Instant::now();
        assert_eq!(pauses.after(&failure(410), now), Duration::ZERO);
        assert_eq!(pauses.after(&failure(410), now), FIRST);
        assert_eq!(pauses.after(&failure(500), now), FIRST * 2);
        assert_eq!(pauses.after(&failure(410), now), Duration::ZERO);
    }
}
