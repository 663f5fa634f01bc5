//! Who goes first: Bindings, and behind them records and Events.
//!
//! On a busy API server every request takes time from the others. So while Bindings are under way only one worker of each
//! trailing lane works, and that one slowly; once they are done all do. What trails is bounded: when the first in a lane
//! has waited for [`TRAIL_AT_MOST`], the lane gets all of its workers whatever the Bindings do.

use std::time::Duration;

use super::binder::BindRequest;
use super::lane::Lane;

/// How far a trailing lane may fall behind.
const TRAIL_AT_MOST: Duration = Duration::from_secs(30);

/// How often a held-back worker looks at the age of its lane.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The workers of each lane that are never held back for long.
const TRICKLE: usize = 1;

/// How long these pause before each item while Bindings are under way: people see that something happens, and the
/// Bindings lose a few percent at most.
pub(super) const TRICKLE_EVERY: Duration = Duration::from_millis(250);

/// Waits until worker number `worker` of `lane` may take something.
pub(super) async fn turn<T>(worker: usize, lane: &Lane<T>, bindings: &Lane<BindRequest>) {
    if worker < TRICKLE {
        if bindings.outstanding() > 0 && lane.head_age().is_none_or(|age| age < TRAIL_AT_MOST) {
            let _ = tokio::time::timeout(TRICKLE_EVERY, bindings.idle()).await;
        }
        return;
    }
    while bindings.outstanding() > 0 && lane.head_age().is_none_or(|age| age < TRAIL_AT_MOST) {
        // Whichever comes first: the Bindings' end, or the next look.
        let _ = tokio::time::timeout(LOOK_EVERY, bindings.idle()).await;
    }
}
