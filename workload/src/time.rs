//! Instants.

/// A UTC instant in microseconds since the Unix epoch. The core never reads a clock: its caller
/// passes the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub i64);

impl Time {
    /// Returns the instant as a timestamp; nearly the last second of the year 9999 for later ones,
    /// which cannot be written.
    pub fn timestamp(self) -> jiff::Timestamp {
        let (first, last) =
            (jiff::Timestamp::MIN.as_microsecond(), jiff::Timestamp::MAX.as_microsecond());
        jiff::Timestamp::from_microsecond(self.0.clamp(first, last)).unwrap_or(jiff::Timestamp::MAX)
    }

    /// Returns whole seconds since the epoch, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns the instant `seconds` after the epoch.
    pub fn from_seconds(seconds: i64) -> Self {
        Time(seconds.saturating_mul(1_000_000))
    }

    /// Returns this instant plus `millis` milliseconds.
    #[must_use]
    pub fn plus_millis(self, millis: i64) -> Self {
        Time(self.0.saturating_add(millis.saturating_mul(1000)))
    }

    /// Returns this instant plus `secs` seconds.
    #[must_use]
    pub fn plus_secs(self, secs: u64) -> Self {
        let micros = secs.saturating_mul(1_000_000);
        Time(self.0.saturating_add_unsigned(micros))
    }
}
