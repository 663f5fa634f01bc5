//! Pauses that double with each failure, up to a bound.

/// How long to wait after failures in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// Before it is doubled for the first time.
    pub min_millis: i64,
    pub max_millis: i64,
}

impl Backoff {
    /// The pause in milliseconds after it was doubled so often.
    pub(crate) fn doubled(self, times: u32) -> i64 {
        self.min_millis.saturating_mul(1 << times.min(16)).min(self.max_millis)
    }
}
