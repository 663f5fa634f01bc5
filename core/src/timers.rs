//! Timers: things to be checked again, and when.

use std::cmp::Reverse;
use std::sync::Arc;

use priority_queue::PriorityQueue;

use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{NodeName, ObjectKey, Time, Uid};

/// Pause in milliseconds before the next step if more is to be done than one step may do.
pub(crate) const AGAIN_MILLIS: i64 = 10;

/// A thing to be checked again at some time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Timer {
    Job(JobId),
    Pod(Uid),
    /// The controller of a pod has not been seen, and is not waited for any longer.
    AwaitingPod(Uid),
    /// A pod is to learn why it waits: its condition could not be written, or it had got another
    /// text just before.
    Untold(Uid),
    /// The nomination of a pod could not be written, or taken away.
    Nomination(Uid),
    Suspect(NodeName),
    /// The planned end of a pod has passed.
    Overdue(Uid),
    /// A reservation is due, or a request has been passed by for long enough.
    Promises,
    /// The plan is run forward a little.
    LookAhead,
    /// Estimates may be written again.
    Estimates,
    /// A walk is due because moved reservations have left nodes behind.
    Unsettled,
    /// The positions in the queue are updated.
    Positions,
    /// The condition of a PodGroup may be written.
    PodGroup(ObjectKey),
    /// The status of queues is brought up to date.
    Queues,
    /// The pause after a withdrawn placement is over, or a lost answer to a Binding of the job
    /// counts as none.
    Backoff(JobId),
    /// The pause of a namespace, after searches for places of its gangs that gave up, is over.
    Searches(Arc<str>),
    /// A FluxJob that belongs to no job is removed.
    Stray(ObjectKey),
    Audit,
    /// The waiting requests are tried once more.
    Review,
    /// There was more to decide than one step takes on.
    Again,
}

/// The things to be checked again: each once, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: PriorityQueue<Timer, Reverse<Time>, foldhash::fast::RandomState>,
}

impl Timers {
    /// Sets a timer to this time, unless it is set to an earlier one. A caller that needs a later
    /// time sets it again when the earlier one has come.
    pub(crate) fn wake(&mut self, timer: Timer, at: Time) {
        self.due.push_increase(timer, Reverse(at));
    }

    /// Forgets a timer, if it is set.
    pub(crate) fn forget(&mut self, timer: &Timer) {
        self.due.remove(timer);
    }

    /// Forgets everything about a pod that is gone.
    pub(crate) fn forget_pod(&mut self, uid: &Uid) {
        let about =
            [Timer::Pod, Timer::AwaitingPod, Timer::Untold, Timer::Nomination, Timer::Overdue];
        for timer in about {
            self.forget(&timer(uid.clone()));
        }
    }

    /// Forgets everything about a job that is forgotten.
    pub(crate) fn forget_job(&mut self, id: JobId) {
        self.forget(&Timer::Job(id));
        self.forget(&Timer::Backoff(id));
    }

    /// Returns the number of timers.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Returns the time at which the next timer is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.peek().map(|(_, Reverse(at))| *at)
    }

    /// Takes a timer that is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.due.pop().map(|(timer, _)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_time_that_was_asked_for_counts() {
        let mut timers = Timers::default();
        timers.wake(Timer::Audit, Time(5));
        timers.wake(Timer::Again, Time(4));
        timers.wake(Timer::Audit, Time(3));
        timers.wake(Timer::Audit, Time(9));
        assert_eq!(timers.next(), Some(Time(3)));
        assert_eq!(timers.pop_due(Time(2)), None);
        assert_eq!(timers.pop_due(Time(4)), Some(Timer::Audit));
        assert_eq!(timers.pop_due(Time(4)), Some(Timer::Again));
        assert_eq!((timers.pop_due(Time(4)), timers.next()), (None, None));
    }

    #[test]
    fn what_was_about_a_pod_goes_with_it() {
        let mut timers = Timers::default();
        let (gone, stays) = (Uid::from("gone"), Uid::from("stays"));
        for uid in [&gone, &stays] {
            let about =
                [Timer::Pod, Timer::AwaitingPod, Timer::Untold, Timer::Nomination, Timer::Overdue];
            for timer in about {
                timers.wake(timer(uid.clone()), Time(1));
            }
        }
        timers.forget_pod(&gone);
        assert_eq!(timers.len(), 5);
        while let Some(timer) = timers.pop_due(Time(1)) {
            assert!(format!("{timer:?}").contains("stays"), "{timer:?}");
        }
    }
}
