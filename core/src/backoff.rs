//! Pauses that double with each failure, up to a bound.

/// The pause after failures in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// The first pause, in milliseconds.
    pub min_millis: i64,
    pub max_millis: i64,
}

impl Backoff {
    /// Returns the pause in milliseconds after this number of doublings.
    pub(crate) fn doubled(self, times: u32) -> i64 {
        self.min_millis.saturating_mul(1 << times.min(16)).min(self.max_millis)
    }
}
