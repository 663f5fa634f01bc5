//! The core's clock beside that of the API server.

use fluxqueue_workload::Time;

/// The core's time, and how far the API server's clock is from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub now: Time,
    /// The number of microseconds that turn a time of the core into one by the API server's clock.
    pub offset: i64,
}

impl Clock {
    /// Returns the present by the API server's clock, which is put on record and compared with its
    /// times.
    pub(crate) fn wall_now(self) -> Time {
        self.wall(self.now)
    }

    /// Converts a time of the core to the API server's clock.
    pub(crate) fn wall(self, at: Time) -> Time {
        Time(at.0.saturating_add(self.offset))
    }

    /// Converts a time by the API server's clock to the core's own.
    pub(crate) fn core(self, wall: Time) -> Time {
        Time(wall.0.saturating_sub(self.offset))
    }
}
