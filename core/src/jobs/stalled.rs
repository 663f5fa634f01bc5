//! Gangs that have begun and do not become whole.

use fluxqueue_api::DegradedReason;

use crate::telling::blockers::Blockers;

/// Why a gang that has begun does not become whole in time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stalled {
    /// A finding of this process.
    Found(Stall),
    /// The finding of an earlier process, by the record. It counts until this process finds another
    /// reason, or something else than it found first.
    OnRecord { reason: DegradedReason, message: String, found_first: Option<Stall> },
}

/// The state of a gang that does not become whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stall {
    /// The pods that are bound, of those that the job wants.
    pub bound: usize,
    pub size: usize,
    pub why: StallCause,
}

/// Why the other pods of a gang are not bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StallCause {
    /// The obstacles to the next pod, if they are known.
    Obstacles(Option<Box<Blockers>>),
    /// Each of these jobs, in order, holds nodes that the one before it needs; this gang comes
    /// before the first and after the last.
    Ring(Vec<String>),
}

impl Stall {
    /// Returns the reason, in one word.
    pub(crate) fn reason(&self) -> DegradedReason {
        match self.why {
            StallCause::Obstacles(_) => DegradedReason::StartTimeout,
            StallCause::Ring(_) => DegradedReason::MutualWait,
        }
    }
}

impl Stalled {
    /// Returns the reason, in one word.
    pub(crate) fn reason(&self) -> DegradedReason {
        match self {
            Stalled::Found(stall) => stall.reason(),
            Stalled::OnRecord { reason, .. } => *reason,
        }
    }

    /// Returns the finding that counts, if this process has found `stall` now.
    pub(crate) fn after(known: Option<Stalled>, stall: Stall) -> Stalled {
        match known {
            Some(Stalled::OnRecord { reason, message, found_first })
                if reason == stall.reason()
                    && found_first.as_ref().is_none_or(|first| *first == stall) =>
            {
                Stalled::OnRecord { reason, message, found_first: Some(stall) }
            }
            _ => Stalled::Found(stall),
        }
    }
}
