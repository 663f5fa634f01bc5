//! The memory of a backfill walk, from one slice to the next.

use std::collections::{BTreeMap, BTreeSet};

use super::attempt::Attempt;
use super::outcome::Outcome;
use crate::queue::{ClassId, JobId, PendingRequest, Place, QueueId};

/// The cause for which a class of requests waits, as found out in this walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// Work that ends at known times.
    ForADate,
    /// The requests wait for work with an unknown end.
    ForUnknown,
    /// The requests wait for others that are ahead of them.
    Behind,
    /// Nothing that will come by itself: it is passed over.
    InVain,
}

/// The memory of a backfill walk, besides the memory of every walk.
#[derive(Default)]
pub(super) struct Memory {
    /// Per queue, the place from which on no request gets a reservation.
    pub(super) bounds: BTreeMap<QueueId, Option<Place>>,
    /// Classes of which a request could not start in this walk: the requests behind it in the class
    /// ask for the same.
    pub(super) waiting: BTreeMap<ClassId, Waits>,
    /// Requests that start. Some start before their turn, when a request that came in ahead had
    /// taken their room.
    pub(super) started: BTreeSet<PendingRequest>,
    /// Jobs of which one request holds nodes, since others may no longer pass it by: the other
    /// requests of the job come after that one.
    pub(super) holding: BTreeSet<JobId>,
}

impl Memory {
    pub(super) fn has_started(&self, pending: &PendingRequest) -> bool {
        self.started.contains(pending)
    }
}

impl Waits {
    pub(super) fn for_what(attempt: &Attempt) -> Self {
        match &attempt.outcome {
            // It is unknown which pods will be where by then.
            Outcome::Waits { .. } if attempt.request.asks_about_pods() => Waits::ForUnknown,
            Outcome::Waits { at: Some(_), .. } => Waits::ForADate,
            Outcome::Behind { .. } => Waits::Behind,
            Outcome::AtLimit(limit) if limit.never => Waits::InVain,
            Outcome::AtLimit(limit) if limit.at.is_some() => Waits::ForADate,
            Outcome::Waits { at: None, .. }
            | Outcome::KeptAway { .. }
            | Outcome::Scattered { .. }
            | Outcome::AtLimit(_) => Waits::ForUnknown,
            Outcome::PassedOver
            | Outcome::NodesAway
            | Outcome::NoNodes
            | Outcome::Never
            | Outcome::NotFound => Waits::InVain,
        }
    }
}
