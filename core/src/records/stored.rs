//! The state of a FluxJob's writes, and the changes that users have made in it.
//!
//! At most one write per FluxJob is under way, and one urgent one that overtakes it. Changes in the
//! meantime go into the next write, so the backlog is bounded by the number of jobs.

use std::sync::Arc;

use fluxqueue_api::{ConditionType, FluxJob, FluxJobStatus, Overrides, PlacementRange};

use crate::action::{ActionId, Urgency};
use crate::backoff::Backoff;
use crate::event::WriteOutcome;
use crate::jobs::lifecycle::End;
use crate::jobs::setbacks::pause_of_refused_writes;
use crate::records::times::time_of;
use fluxqueue_workload::{Time, Uid};

/// The pause after a failed write of a FluxJob.
pub(crate) const RETRY: Backoff = Backoff { min_millis: 250, max_millis: 30_000 };

/// The number of writes in a row without an answer, or with a conflict, after which a record counts
/// as one that cannot be written: about 8 s, and the time for which the API server was silent.
const UNWRITTEN_MAX: u32 = 6;

/// The number of conflicts in a row after which a write is repeated at once, if the newer version
/// is known: a user edits now and then.
const CONFLICTS_AT_ONCE: u32 = 2;

/// How long, in milliseconds, an object that exists by the API server's answer may take to show up
/// in the watch.
pub(crate) const UNSEEN_MILLIS: i64 = 5_000;

/// The pause before a deleted FluxJob is made again.
const REMAKE: Backoff = Backoff { min_millis: 1_000, max_millis: 300_000 };

/// The FluxJob of a job: its last known state, and the writes into it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub stored: Stored,
    /// The wishes of users, as the API server has them.
    pub overrides: Overrides,
    /// The value of the PriorityClass that they wish for, if there is one.
    pub wished_priority: Option<i32>,
    pub seen: LastSeen,
    /// True if this process has written the status: no write of an earlier leader can take effect
    /// any more.
    pub is_own: bool,
    /// A trailing write that an urgent one has overtaken, and that has no outcome yet.
    pub overtaken: Option<ActionId>,
    /// True if the job was marked while a write is under way: the outcome marks it again.
    pub is_marked_again: bool,
    pub setbacks: WriteSetbacks,
}

/// The FluxJob as the API server last had it, as far as the core knows.
#[derive(Debug, Default)]
pub(crate) struct LastSeen {
    /// The status, without the conditions of other writers.
    pub status: Option<Arc<FluxJobStatus>>,
    /// The placement in the version that the next write is based on, and the epoch of its leader.
    /// It is known also after a write with an unknown outcome.
    pub placed: Option<(Vec<PlacementRange>, Option<i64>)>,
    pub generation: Option<i64>,
    /// The newest known version of the object, on which the next write is based.
    pub resource_version: Option<Arc<str>>,
    /// The uid of a FluxJob that is gone: late news of it are ignored.
    pub gone: Option<Uid>,
    /// How the job ended, by its record as found after a restart.
    pub end: Option<End>,
}

/// The writes that failed and the deletions that undid writes, and what follows from them.
#[derive(Debug, Default)]
pub(crate) struct WriteSetbacks {
    /// The number of writes that failed in a row.
    pub attempts: u32,
    /// The time of the next write after a failure.
    pub retry_at: Time,
    /// Why the record cannot be written, by the last attempt: the API server refuses it, or has not
    /// answered several times, or it changes all the time.
    pub refused: Option<String>,
    /// Whether the status is reduced to a few fields, since the API server does not accept all of
    /// it.
    pub reduction: Reduction,
    /// How often in a row the FluxJob of a job that goes on was deleted, and the time of the last
    /// deletion.
    pub deletions: (u32, Time),
}

/// The state of the small status, which follows one that the API server does not accept, and states
/// why.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// The whole status is written.
    #[default]
    None,
    /// The small status is to be written next.
    Next,
    /// The small status is on record.
    Written,
}

/// The state of the FluxJob.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) enum Stored {
    /// The object does not exist.
    #[default]
    Absent,
    /// The object is being created.
    Creating(ActionId, Urgency),
    /// An object of the name exists, which has not been seen yet: it comes with the watch.
    Unseen,
    /// The object exists.
    Present { uid: Uid },
    /// The object exists, and a status is being written.
    Writing { uid: Uid, write: StatusWrite },
    /// The object is being deleted, as of this version of it.
    Deleting { uid: Uid, action: ActionId, based_on: Option<Arc<str>> },
    /// The object was deleted on purpose: it is not made again.
    Deleted,
}

impl Stored {
    /// Returns the write with the outcome that counts.
    pub(crate) fn action(&self) -> Option<ActionId> {
        match self {
            Stored::Creating(action, _) | Stored::Deleting { action, .. } => Some(*action),
            Stored::Writing { write, .. } => Some(write.action),
            Stored::Absent | Stored::Unseen | Stored::Present { .. } | Stored::Deleted => None,
        }
    }
}

/// A write of a status that is under way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatusWrite {
    pub action: ActionId,
    pub urgency: Urgency,
    /// The version of the placement in it.
    pub version: u64,
    /// The version of the object on which the write is based.
    pub based_on: Option<Arc<str>>,
    pub status: Arc<FluxJobStatus>,
    /// True for the small status.
    pub is_reduced: bool,
}

impl Record {
    /// Takes up an object as the API server has it, from the watch or the answer to a write. An old
    /// version changes nothing.
    pub(crate) fn observe(&mut self, object: &FluxJob) {
        let version = object.metadata.resource_version.as_deref();
        if is_older(version, self.seen.resource_version.as_deref()) {
            return;
        }
        self.seen.resource_version = version.map(Arc::from);
        self.seen.generation = object.metadata.generation;
        self.seen.status = object.status.as_ref().map(|status| self.own_part(status));
        self.seen.placed =
            object.status.as_ref().map(|status| (status.placement.clone(), status.epoch));
    }

    /// Returns a status without the conditions of other writers. Mostly it equals the one that was
    /// sent, which is not copied again.
    fn own_part(&self, status: &FluxJobStatus) -> Arc<FluxJobStatus> {
        let sent = match &self.stored {
            Stored::Writing { write, .. } => Some(&write.status),
            _ => None,
        };
        if let Some(known) =
            sent.into_iter().chain(&self.seen.status).find(|known| ***known == *status)
        {
            return Arc::clone(known);
        }
        let mut own = status.clone();
        own.conditions.retain(|condition| ConditionType::from_name(&condition.type_).is_some());
        Arc::new(own)
    }

    /// True if this very version of the object has been taken up.
    pub(crate) fn knows(&self, object: &FluxJob) -> bool {
        let (of, version) =
            (object.metadata.uid.as_deref(), object.metadata.resource_version.as_deref());
        version.is_some()
            && version == self.seen.resource_version.as_deref()
            && of == self.uid().map(|uid| &**uid)
            && self.overrides == object.spec.overrides
    }

    /// True if a newer version is known than the one that this write or deletion is based on.
    pub(crate) fn has_changed_since(&self, write: &Stored) -> bool {
        let based_on = match write {
            Stored::Writing { write, .. } => &write.based_on,
            Stored::Deleting { based_on, .. } => based_on,
            _ => return false,
        };
        self.seen.resource_version.is_some() && self.seen.resource_version != *based_on
    }

    /// Forgets the object: from now on it is another one, or none.
    pub(crate) fn forget_object(&mut self) {
        self.seen.resource_version = None;
        self.seen.placed = None;
        self.seen.status = None;
        self.is_own = false;
    }

    /// Takes up the outcome of the write that counts. True if the record can be written again after
    /// it could not.
    pub(crate) fn note_outcome(&mut self, outcome: &WriteOutcome, now: Time) -> bool {
        let (is_status, is_reduced) = match &self.stored {
            Stored::Writing { write, .. } => (true, write.is_reduced),
            _ => (false, false),
        };
        if let WriteOutcome::Failed(text)
        | WriteOutcome::Invalid(text)
        | WriteOutcome::Refused(text) = outcome
        {
            self.setbacks.attempts += 1;
            let is_refused = outcome.refusal().is_some();
            if is_refused || self.setbacks.attempts >= UNWRITTEN_MAX {
                self.setbacks.refused = Some(text.clone());
            }
            let is_followed =
                is_status && matches!(outcome, WriteOutcome::Invalid(_)) && !is_reduced;
            self.setbacks.reduction = match self.setbacks.reduction {
                Reduction::None if is_followed => Reduction::Next,
                Reduction::Written => Reduction::Written,
                Reduction::None | Reduction::Next => Reduction::None,
            };
            let pause = match self.setbacks.reduction {
                Reduction::Next => 0,
                _ if is_refused => pause_of_refused_writes(self.setbacks.attempts),
                _ => RETRY.after(self.setbacks.attempts),
            };
            self.setbacks.retry_at = now.plus_millis(pause);
            return false;
        }
        match outcome {
            WriteOutcome::Conflict => {
                self.setbacks.attempts += 1;
                if self.setbacks.attempts >= UNWRITTEN_MAX {
                    self.setbacks
                        .refused
                        .get_or_insert_with(|| "it changes before each write".to_owned());
                }
                // The newer version comes with the watch, if it is not known by now.
                let is_known = self.has_changed_since(&self.stored);
                let pause = if is_known && self.setbacks.attempts <= CONFLICTS_AT_ONCE {
                    0
                } else {
                    RETRY.after(self.setbacks.attempts)
                };
                self.setbacks.retry_at = now.plus_millis(pause);
                false
            }
            WriteOutcome::Written(_) if is_reduced => {
                self.setbacks.reduction = Reduction::Written;
                self.setbacks.retry_at =
                    now.plus_millis(pause_of_refused_writes(self.setbacks.attempts));
                false
            }
            WriteOutcome::Written(_) | WriteOutcome::Exists => {
                (self.setbacks.attempts, self.setbacks.reduction) = (0, Reduction::None);
                self.setbacks.refused.take().is_some()
            }
            _ => {
                self.setbacks.attempts = 0;
                false
            }
        }
    }

    /// Counts a deletion of the FluxJob of a job that goes on. The FluxJob is made again, but not
    /// in a loop with the client that deletes it: after 1 s, and after twice as long each time, up
    /// to 5 min. A FluxJob that existed for 5 min after the pause begins with 1 s again.
    pub(crate) fn note_deletion(&mut self, now: Time) {
        let (times, last) = self.setbacks.deletions;
        let was_there_from = last.plus_millis(REMAKE.after(times));
        let is_in_a_row = times > 0 && now < was_there_from.plus_millis(REMAKE.max_millis);
        let times = if is_in_a_row { times.saturating_add(1) } else { 1 };
        self.setbacks.deletions = (times, now);
        let pause = REMAKE.after(times);
        self.setbacks.retry_at = self.setbacks.retry_at.max(now.plus_millis(pause));
    }

    /// True if a trailing write is under way, and no other: an urgent one may overtake it.
    pub(crate) fn may_be_overtaken(&self) -> bool {
        let trailing = match &self.stored {
            Stored::Creating(_, urgency) => *urgency == Urgency::Trailing,
            Stored::Writing { write, .. } => write.urgency == Urgency::Trailing,
            _ => false,
        };
        trailing && self.overtaken.is_none()
    }

    pub(crate) fn uid(&self) -> Option<&Uid> {
        match &self.stored {
            Stored::Present { uid }
            | Stored::Writing { uid, .. }
            | Stored::Deleting { uid, .. } => Some(uid),
            _ => None,
        }
    }
}

/// True if an object is older than the known version of it.
pub(crate) fn is_old_news(object: &FluxJob, known: &FluxJob) -> bool {
    let (new, old) = (&object.metadata, &known.metadata);
    new.uid == old.uid && is_older(new.resource_version.as_deref(), old.resource_version.as_deref())
}

/// True if a version is older than the known one. Versions are compared as numbers, which they are
/// in every API server (KEP-5504). A version that is no number is never old.
fn is_older(version: Option<&str>, known: Option<&str>) -> bool {
    let number = |version: Option<&str>| version?.parse::<u64>().ok();
    match (number(version), number(known)) {
        (Some(version), Some(known)) => version < known,
        _ => false,
    }
}

/// Returns the version of this FluxJob.
pub(crate) fn version_of(object: &FluxJob) -> Option<Arc<str>> {
    object.metadata.resource_version.as_deref().map(Arc::from)
}

/// Returns when the job of this FluxJob ended, by the API server's clock.
pub(crate) fn completion_of(object: &FluxJob) -> Option<Time> {
    object.status.as_ref()?.completion_time.as_ref().map(time_of)
}
