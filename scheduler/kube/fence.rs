//! Whether this process may still act as the leader, as far as it can know.
//!
//! A process that was stopped for a while, or cut off, still has requests to send when it wakes up. Before each attempt
//! of a write it asks here: the answer depends only on the local monotonic clock and on the last renewal that the API server
//! confirmed. That clock goes on while a process is stopped, but not while a whole machine sleeps: after that, the versions
//! that writes name are what protects the successor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared between the one who renews the lease and those who act on it.
#[derive(Debug, Clone)]
pub struct Fence(Option<Arc<Term>>);

#[derive(Debug)]
struct Term {
    origin: Instant,
    /// How long a renewal is good for.
    length: Duration,
    /// When the request of the last confirmed renewal was sent, in milliseconds after `origin`.
    renewed_millis: AtomicU64,
    /// Somebody else has the Lease, whatever was confirmed before.
    fallen: AtomicBool,
}

// === impl Fence ===

impl Fence {
    /// Without leader election there is nothing to lose.
    pub fn open() -> Self {
        Fence(None)
    }

    /// Holds for `length` after each renewal, the first being now.
    pub fn with_term(length: Duration) -> Self {
        let term =
            Term { origin: Instant::now(), length, renewed_millis: AtomicU64::new(0), fallen: AtomicBool::new(false) };
        Fence(Some(Arc::new(term)))
    }

    /// A renewal that was sent at `sent` has been confirmed.
    pub fn renewed(&self, sent: Instant) {
        if let Some(term) = &self.0 {
            let millis = sent.saturating_duration_since(term.origin).as_millis();
            term.renewed_millis.fetch_max(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::AcqRel);
        }
    }

    /// The Lease is lost for good.
    pub fn fall(&self) {
        if let Some(term) = &self.0 {
            term.fallen.store(true, Ordering::Release);
        }
    }

    /// This process may act now.
    pub fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|term| {
            let renewed = Duration::from_millis(term.renewed_millis.load(Ordering::Acquire));
            !term.fallen.load(Ordering::Acquire) && term.origin.elapsed() < renewed.saturating_add(term.length)
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
}
