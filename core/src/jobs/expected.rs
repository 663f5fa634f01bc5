//! The expected start of a job.

use fluxqueue_workload::Time;

/// The expected start of a job, besides the start that it is promised. In the core's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Expected {
    /// The start has not been estimated yet: the estimate of an earlier process still holds.
    #[default]
    Unasked,
    /// The start cannot be estimated.
    NoDate,
    /// The job is expected to start at this time.
    At {
        /// The expected start.
        start: Time,
        /// The time of the estimate.
        as_of: Time,
    },
}
