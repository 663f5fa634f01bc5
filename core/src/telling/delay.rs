//! The facts because of which promised starts are delayed, as values. `words` puts them in words.

use std::sync::Arc;

use crate::telling::lost::{Loss, QueueChange};
use crate::telling::readers::Named;
use fluxqueue_workload::ObjectKey;

/// A fact because of which a promised start is delayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DelayedBy {
    /// A job, or a pod of another scheduler, has outlived its planned end.
    Overdue(Named),
    /// Some job has, and it is not known which.
    OverdueJob,
    /// This pod takes the place of one that failed.
    Retried(ObjectKey),
    /// A claim of a pod of the job cannot be used, for this reason.
    Claim(String),
    /// Room is lost.
    Loss(Loss),
    /// There is less room within the limits of this queue.
    LimitsOf(Arc<str>),
    /// There is less room on these nodes, as a hostlist.
    LessRoom(String),
    /// A job, or a pod of another scheduler, ends later than was planned: its kubelet has taken it
    /// up late.
    EndsLater(Named),
    /// The promised nodes are gone.
    NodesGone,
    /// This job came in with higher priority.
    Priority(ObjectKey),
    /// A person has changed this job.
    Edited(ObjectKey),
    /// A person has changed this queue, in which this job is.
    QueueOf(Arc<str>, QueueChange, ObjectKey),
    /// A person has changed a queue.
    Queue(Arc<str>, QueueChange),
    /// All of Fluxqueue is paused, with these words.
    Paused(String),
    /// The job itself was changed.
    EditedItself,
    /// The job may not start for now, for this reason.
    PutOff(String),
}
