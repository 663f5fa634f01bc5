//! The expected start of a job.

use fluxqueue_workload::Time;

/// What is known of when a job starts, besides what it is promised. In the core's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Expected {
    /// Nobody has looked yet: what an earlier process said still goes.
    #[default]
    Unasked,
    /// Nobody can say.
    NoDate,
    /// Then, by what was known at that time.
    At {
        /// When it starts.
        start: Time,
        /// When that was found out.
        as_of: Time,
    },
}
