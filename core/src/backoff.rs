//! Pauses that double with each failure, up to a bound.

/// The pause after failures in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// The pause after the first failure, in milliseconds.
    pub min_millis: i64,
    pub max_millis: i64,
}

impl Backoff {
    /// Returns the pause in milliseconds after this number of failures in a row, which is at least
    /// one.
    pub(crate) fn after(self, failures: u32) -> i64 {
        let doublings = failures.saturating_sub(1).min(16);
        self.min_millis.saturating_mul(1 << doublings).min(self.max_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pause_is_the_shortest_and_each_further_one_is_twice_as_long() {
        let pauses = Backoff { min_millis: 200, max_millis: 1_000 };
        let after = [1, 2, 3, 4, 5, u32::MAX].map(|failures| pauses.after(failures));
        assert_eq!(after, [200, 400, 800, 1_000, 1_000, 1_000]);
    }
}
