//! The background throttle: records and Events give way to Bindings.
//!
//! On a busy API server every request takes time from the others. While Bindings are under way,
//! only one worker of each background queue works, and that one slowly; once the Bindings are done,
//! all of them do. The delay is bounded: when the first item of a queue has waited for
//! [`DELAY_MAX`], the queue gets all of its workers, whatever the Bindings do.

use std::time::Duration;

use super::binder::BindRequest;
use super::work_queue::WorkQueue;

/// The longest time for which the first item of a background queue may be held back.
const DELAY_MAX: Duration = Duration::from_secs(30);

/// The pause after which a worker that is held back checks the age of its queue.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The number of workers of each queue that are never held back for long.
const TRICKLE: usize = 1;

/// The pause of these workers before each item while Bindings are under way: people see progress,
/// and the Bindings lose a few percent at most.
pub(super) const TRICKLE_EVERY: Duration = Duration::from_millis(250);

/// Waits until worker number `worker` of `queue` may take something.
pub(super) async fn wait_for_turn<T>(
    worker: usize,
    queue: &WorkQueue<T>,
    bindings: &WorkQueue<BindRequest>,
) {
    if worker < TRICKLE {
        if bindings.outstanding() > 0 && queue.head_age().is_none_or(|age| age < DELAY_MAX) {
            let _ = tokio::time::timeout(TRICKLE_EVERY, bindings.idle()).await;
        }
        return;
    }
    while bindings.outstanding() > 0 && queue.head_age().is_none_or(|age| age < DELAY_MAX) {
        // This waits for the end of the Bindings or the next check, whichever comes first.
        let _ = tokio::time::timeout(LOOK_EVERY, bindings.idle()).await;
    }
}
