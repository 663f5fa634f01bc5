//! The fence: it holds while this process may still act as the leader, as far as the process can
//! know.
//!
//! A process that was stopped for a while, or cut off, still has requests to send when it wakes up.
//! Before each attempt of a write it checks the fence, which depends only on the local monotonic
//! clock and on the last renewal that the API server confirmed. That clock goes on while a process
//! is stopped, but not while a whole machine sleeps: after that, the versions that writes name
//! protect the successor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A fence, shared between the task that renews the Lease and those that act as the leader.
#[derive(Debug, Clone)]
pub struct Fence(Option<Arc<FenceState>>);

#[derive(Debug)]
struct FenceState {
    origin: Instant,
    /// The time for which a renewal is valid.
    length: Duration,
    /// The time at which the request of the last confirmed renewal was sent, in milliseconds after
    /// `origin`.
    renewed_millis: AtomicU64,
    /// True if another process has the Lease, whatever was confirmed before.
    fallen: AtomicBool,
    /// The writes without an answer, if the last one had none.
    silence: Mutex<Option<Silence>>,
}

/// A row of writes without an answer.
#[derive(Debug)]
struct Silence {
    /// The time at which the first was given up.
    first: Instant,
    /// The time at which the last was given up.
    last: Instant,
    /// The reason why the last has no answer.
    why: String,
}

/// The longest time between two writes without an answer that belong to one row: a leader may have
/// nothing to write for long.
const SILENCE_PAUSE: Duration = Duration::from_mins(1);

// === impl Fence ===

impl Fence {
    /// Creates a fence that always holds: without leader election there is nothing to lose.
    pub fn open() -> Self {
        Fence(None)
    }

    /// Creates a fence that holds for `length` after each renewal, the first being now.
    pub fn with_term(length: Duration) -> Self {
        let term = FenceState {
            origin: Instant::now(),
            length,
            renewed_millis: AtomicU64::new(0),
            fallen: AtomicBool::new(false),
            silence: Mutex::default(),
        };
        Fence(Some(Arc::new(term)))
    }

    /// Notes that a renewal that was sent at `sent` has been confirmed.
    pub fn renewed(&self, sent: Instant) {
        if let Some(term) = &self.0 {
            let millis = sent.saturating_duration_since(term.origin).as_millis();
            term.renewed_millis
                .fetch_max(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::AcqRel);
        }
    }

    /// Notes that a write was answered, whatever the answer.
    pub fn answered(&self) {
        if let Some(term) = &self.0 {
            *term.silence.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Notes that a write has no answer.
    pub fn unanswered(&self, why: &str) {
        if let Some(term) = &self.0 {
            let mut silence = term.silence.lock().unwrap_or_else(PoisonError::into_inner);
            let last = Instant::now();
            let before =
                silence.take().filter(|before| last.duration_since(before.last) < SILENCE_PAUSE);
            *silence = Some(Silence {
                first: before.map_or(last, |before| before.first),
                last,
                why: why.to_owned(),
            });
        }
    }

    /// Returns for how long no write has had an answer, and the reason for the last one. `None` if
    /// nothing was written, or the last write was answered.
    pub fn unanswered_for(&self) -> Option<(Duration, String)> {
        let silence = self.0.as_ref()?.silence.lock().unwrap_or_else(PoisonError::into_inner);
        silence.as_ref().map(|silence| (silence.last - silence.first, silence.why.clone()))
    }

    /// Notes that the Lease is lost for good.
    pub fn fall(&self) {
        if let Some(term) = &self.0 {
            term.fallen.store(true, Ordering::Release);
        }
    }

    /// True if this process may act now.
    pub fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|term| {
            let renewed = Duration::from_millis(term.renewed_millis.load(Ordering::Acquire));
            !term.fallen.load(Ordering::Acquire)
                && term.origin.elapsed() < renewed.saturating_add(term.length)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Fence;
    use std::time::{Duration, Instant};

    #[test]
    fn a_fence_falls_when_the_lease_is_not_renewed() {
        let fence = Fence::with_term(Duration::from_millis(300));
        assert!(fence.holds());
        std::thread::sleep(Duration::from_millis(350));
        assert!(!fence.holds());
        fence.renewed(Instant::now());
        assert!(fence.holds());
        fence.fall();
        assert!(!fence.holds());
        fence.renewed(Instant::now());
        assert!(!fence.holds(), "a Lease that was lost does not come back");
        assert!(Fence::open().holds());
    }

    #[test]
    fn silence_lasts_from_the_first_unanswered_write_to_the_last() {
        let fence = Fence::with_term(Duration::from_secs(1));
        assert_eq!(fence.unanswered_for(), None);
        fence.unanswered("first");
        std::thread::sleep(Duration::from_millis(20));
        // No write has followed.
        assert_eq!(fence.clone().unanswered_for(), Some((Duration::ZERO, "first".to_owned())));
        fence.unanswered("last");
        let (lasts, why) = fence.unanswered_for().unwrap();
        assert!(lasts >= Duration::from_millis(20) && why == "last", "{lasts:?} {why}");
        fence.answered();
        assert_eq!(fence.unanswered_for(), None);
        Fence::open().unanswered("no matter");
        assert_eq!(Fence::open().unanswered_for(), None);
    }
}
