//! What is to be looked at again, and when.

use std::cmp::Reverse;

use priority_queue::PriorityQueue;

use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{NodeName, ObjectKey, Time, Uid};

/// What is to be looked at again at some time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Timer {
    Job(JobId),
    Pod(Uid),
    /// A pod whose controller has not been seen is not waited for any longer.
    AwaitingPod(Uid),
    /// A pod is told why it waits: its condition could not be written, or it had been told
    /// something else just before.
    Untold(Uid),
    /// For which node a pod is meant could not be written, or taken away.
    Nomination(Uid),
    Suspect(NodeName),
    /// The planned end of a pod has passed.
    Overdue(Uid),
    /// A reservation is due, or somebody has been passed by for long enough.
    Promises,
    /// The plan is run forward a little.
    LookAhead,
    /// Estimates may be written again.
    Estimates,
    /// What moved reservations have left behind is looked at.
    Unsettled,
    /// Places in the queue are noted.
    Positions,
    /// What is on record of queues is brought up to date.
    Queues,
    /// The pause after a withdrawn placement is over, or a lost answer to a Binding of the job
    /// counts as none.
    Backoff(JobId),
    /// A FluxJob that belongs to no job is removed.
    Stray(ObjectKey),
    Audit,
    /// Those who wait are looked at once more.
    Review,
    /// There was more to decide than one step takes on.
    Again,
}

/// What is to be looked at again: each thing once, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: PriorityQueue<Timer, Reverse<Time>, foldhash::fast::RandomState>,
}

impl Timers {
    /// Looks at something again then, or earlier if that was asked for: whoever needs a later time
    /// asks again when the earlier one has come.
    pub(crate) fn wake(&mut self, timer: Timer, at: Time) {
        self.due.push_increase(timer, Reverse(at));
    }

    /// Forgets what was to be looked at, if it was.
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

    /// The number of things that are to be looked at again.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// When the next is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.peek().map(|(_, Reverse(at))| *at)
    }

    /// Takes one that is due.
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
