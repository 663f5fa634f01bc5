//! The trailing status writes without an outcome yet, by FluxJob.
//!
//! A placement is written by an urgent write, and must not wait until a trailing write of the same
//! FluxJob has had its turn behind Bindings. Before it was sent, the trailing one is taken out of
//! its queue. Once it was sent it is waited for, so that the two do not overtake each other
//! needlessly, but not for long: in the end the version that each names decides.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use fluxqueue_core::ActionId;
use fluxqueue_workload::Uid;

/// The longest time for which an urgent write waits for a trailing one of the same FluxJob that was
/// sent.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(2);

/// The trailing status writes that are queued or sent. The core has at most one per FluxJob.
#[derive(Debug, Default)]
pub struct TrailingStatuses {
    by_job: Mutex<HashMap<Uid, ActionId>>,
    ended: Notify,
}

// === impl TrailingStatuses ===

impl TrailingStatuses {
    /// Notes that this write is about to be queued.
    pub(super) fn begin(&self, job: &Uid, id: ActionId) {
        self.lock().insert(job.clone(), id);
    }

    /// Returns the write of this FluxJob that has no outcome yet.
    pub(super) fn of(&self, job: &Uid) -> Option<ActionId> {
        self.lock().get(job).copied()
    }

    /// Notes that this write has its outcome. Other writes have nothing to end here.
    pub(super) fn end(&self, job: &Uid, id: ActionId) {
        let mut by_job = self.lock();
        if by_job.get(job) == Some(&id) {
            by_job.remove(job);
            drop(by_job);
            self.ended.notify_waiters();
        }
    }

    /// Resolves when this write has its outcome, or after [`WAIT_MAX`].
    pub(super) async fn wait_for(&self, job: &Uid, id: ActionId) {
        let ended = async {
            loop {
                let mut notified = std::pin::pin!(self.ended.notified());
                // Registering comes before the look, so that an end in between is not missed.
                notified.as_mut().enable();
                if self.of(job) != Some(id) {
                    return;
                }
                notified.await;
            }
        };
        let _ = tokio::time::timeout(WAIT_MAX, ended).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uid, ActionId>> {
        // Nothing that can panic runs under the lock.
        self.by_job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
