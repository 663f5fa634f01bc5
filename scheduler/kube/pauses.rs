//! How long a failed watch waits before it tries again.

use std::time::{Duration, Instant};

use kube::runtime::utils::Backoff;

/// The first pause.
const FIRST: Duration = Duration::from_millis(250);

/// The longest. Seven watches that knock every five seconds are no load, and a scheduler that notices only half a minute
/// later that the API server is back helps nobody.
const LONGEST: Duration = Duration::from_secs(5);

/// After this long without an error the next pause is a first one again.
const FORGET_AFTER: Duration = Duration::from_secs(30);

/// Doubling pauses.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
    last_error: Option<Instant>,
}

// === impl Pauses ===

impl Default for Pauses {
    fn default() -> Self {
        Pauses { next: FIRST, last_error: None }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.last_error.is_some_and(|last| now.duration_since(last) > FORGET_AFTER) {
            self.next = FIRST;
        }
        self.last_error = Some(now);
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        // Called at everything that is not an error, also at the announcement of a list that then fails: with it a watch
        // whose lists fail would knock without growing pauses. Time alone resets.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_whatever_comes_between_errors() {
        let mut pauses = Pauses::default();
        let mut millis = Vec::new();
        for _ in 0..7 {
            millis.extend(pauses.next().map(|pause| pause.as_millis()));
            pauses.reset();
        }
        assert_eq!(millis, [250, 500, 1000, 2000, 4000, 5000, 5000]);
    }

    #[test]
    fn a_quiet_time_starts_over() {
        let mut pauses = Pauses { next: LONGEST, last_error: Instant::now().checked_sub(FORGET_AFTER * 2) };
        assert_eq!(pauses.next(), Some(FIRST));
    }
}
