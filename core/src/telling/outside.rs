//! Obstacles that the plan does not know: a job has no request in the queue for them, or has lost
//! its place. `words` puts them in words.

use std::sync::Arc;

use fluxqueue_api::{BlockedReason, WorkloadKind};

use fluxqueue_workload::{Lifetime, NodeName, ObjectKey, ObjectRef, ResourceName, Time, Uid};

/// A thing in the way of a job that the plan does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outside {
    /// Users hold the job, for these reasons of theirs.
    Held(String),
    /// All of Fluxqueue is paused, with these words.
    Paused(String),
    /// Its queue keeps it out, or does not let it start.
    Queue(QueueObstacle),
    /// Pods of Jobs that were released in its namespace did not all come: the next release is not
    /// before an instant of the wall clock.
    ReleasePaused {
        /// The number of these Jobs.
        times: u32,
        until: Time,
    },
    /// A quota leaves too little for the pods that its Job will have.
    Quota(QuotaShortage),
    /// The workload asks for something that it cannot have: the words are those of its reader.
    Refused(BlockedReason, String),
    /// Not all pods are there that start together.
    Incomplete {
        there: usize,
        size: usize,
        /// The pods that gates of others hold.
        gated: usize,
    },
    /// The PodGroup that the pods name is not there, or has another uid than the one that they
    /// name; and why no group is to be read, if that is so.
    NoGroup(ObjectKey, Option<Uid>, Option<Arc<str>>),
    /// The pods of a group that asks for more than can appear.
    TooFew(usize),
    /// A pod carries the scheduling gate of another program.
    Gated(ObjectRef, Arc<str>),
    /// Searches for places of gangs of its namespace gave up: the next one is not before an instant
    /// of the wall clock.
    SearchesPause(Time),
    /// Its placement was withdrawn before its first Binding, for this reason.
    Withdrawn(String),
    /// A pod does not fit any more where it was placed.
    Misfit(ObjectRef, NodeName),
    /// The API server refuses a write that the start needs, or does not answer: its words.
    WriteFailed(String),
    /// Its Job cannot be released, for this reason of the API server.
    NotReleased(String),
    /// The volumes of a pod could not be bound where it was placed, for this reason.
    VolumesUnbound(String),
}

/// A queue that keeps a job out, or does not let it start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueObstacle {
    pub queue: Arc<str>,
    pub why: QueueTrouble,
}

/// Why a queue keeps a job out, or does not let it start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QueueTrouble {
    /// There is no such queue.
    Missing,
    /// The queue was deleted while the job waited.
    Deleted,
    /// No job starts from the queue.
    Stopped,
    /// Its spec cannot be read, for this reason.
    Invalid(String),
    /// The queue is not for this namespace.
    Closed(Arc<str>),
    /// The queue takes no workloads of this kind.
    OtherKind(WorkloadKind),
    /// The job lasts longer than the queue allows, in seconds.
    TooLong { asked: Lifetime, most: u64 },
    /// As many jobs wait as may, by this field of the queue.
    Full { most: u64, path: &'static str },
}

/// A quota that leaves too little for the pods of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuotaShortage {
    pub quota: Arc<str>,
    /// The name in the quota.
    pub name: Arc<str>,
    /// The resource that it counts the requests of.
    pub resource: ResourceName,
    pub left: u64,
    pub asked: u128,
    /// True if the amount would do without the pods of Jobs that were just released.
    pub is_beside_others: bool,
}

impl Outside {
    /// Returns the reason, in one word.
    pub(crate) fn reason(&self) -> BlockedReason {
        match self {
            Outside::Held(_) => BlockedReason::Held,
            Outside::Paused(_) => BlockedReason::Paused,
            Outside::Queue(QueueObstacle { why, .. }) => match why {
                QueueTrouble::Missing | QueueTrouble::Closed(_) | QueueTrouble::OtherKind(_) => {
                    BlockedReason::QueueNotUsable
                }
                QueueTrouble::Deleted | QueueTrouble::Stopped => BlockedReason::Held,
                QueueTrouble::Invalid(_) => BlockedReason::QueueInvalid,
                QueueTrouble::TooLong { .. } => BlockedReason::WalltimeTooLong,
                QueueTrouble::Full { .. } => BlockedReason::QueueFull,
            },
            Outside::ReleasePaused { .. } => BlockedReason::ReleasePaused,
            Outside::Quota(_) => BlockedReason::QuotaExceeded,
            Outside::Refused(reason, _) => *reason,
            Outside::Incomplete { gated: 0, .. } | Outside::NoGroup(..) | Outside::TooFew(_) => {
                BlockedReason::Incomplete
            }
            Outside::Incomplete { .. } | Outside::Gated(..) => BlockedReason::Gated,
            Outside::SearchesPause(_) => BlockedReason::InsufficientResources,
            Outside::Withdrawn(_) | Outside::Misfit(..) => BlockedReason::PlacementWithdrawn,
            Outside::WriteFailed(_) | Outside::NotReleased(_) => BlockedReason::BindFailed,
            Outside::VolumesUnbound(_) => BlockedReason::VolumeBindingFailed,
        }
    }

    /// True if the job comes back to its queue later than its place there says, as one that was not
    /// there before.
    pub(crate) fn costs_the_place(&self) -> bool {
        matches!(
            self.reason(),
            BlockedReason::QueueNotUsable
                | BlockedReason::QueueInvalid
                | BlockedReason::WalltimeTooLong
                | BlockedReason::QueueFull
                | BlockedReason::Held
                | BlockedReason::Paused
                | BlockedReason::Gated
                | BlockedReason::QuotaExceeded
                | BlockedReason::ReleasePaused
        )
    }
}
