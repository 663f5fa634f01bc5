//! What follows from what the plan promises: on record, told, and looked at again when it is due.

use super::plan::Delay;
use super::{Core, Timer};
use crate::queue::PendingRequest;
use fluxqueue_workload::Time;

impl Core {
    /// A request is promised a start, or another one than before; later for this cause.
    pub(super) fn promised(&mut self, pending: &PendingRequest, start: i64, later: Option<Delay>) {
        if let Some(cause) = later {
            self.count_delay(pending, cause);
        }
        let id = pending.job();
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.estimate = Some(Time::from_seconds(start));
        }
        self.dirty.insert(id);
    }

    /// A request has no reservation any more.
    pub(super) fn broken(&mut self, pending: &PendingRequest, cause: Option<Delay>) {
        if let Some(cause) = cause {
            self.count_delay(pending, cause);
        }
        let id = pending.job();
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.estimate = None;
        }
        self.dirty.insert(id);
    }

    fn count_delay(&mut self, _pending: &PendingRequest, cause: Delay) {
        *self.gauges.reservations_delayed.entry(cause.as_str()).or_default() += 1;
    }

    /// A request that was the first to wait is passed by from now on, for as long as the settings allow.
    pub(super) fn pass_by(&mut self, pending: &PendingRequest) {
        if self.promises.pass_by(pending, self.now) {
            self.dirty.insert(pending.job());
        }
    }

    /// A request waits no more, or another one waits in its place.
    pub(super) fn forget_promise(&mut self, pending: &PendingRequest) {
        if let Some(promise) = self.promises.forget(pending) {
            self.ledger.give_up(&promise.place);
        }
    }

    /// The next promise to come due is looked at then.
    pub(super) fn wake_for_promises(&mut self) {
        let start = self.promises.next_start().map(Time::from_seconds);
        let patience = self.promises.next_patience().map(|since| since.plus_secs(self.settings.bypass_secs));
        if let Some(at) = start.into_iter().chain(patience).min() {
            self.timers.wake(Timer::Promises, at.max(self.now.plus_millis(1)));
        }
    }

    /// What has come due leads to a walk: a reservation may start, or somebody is passed by no more.
    pub(super) fn keep_promises(&mut self) {
        let is_due = |start: i64| Time::from_seconds(start) <= self.now;
        let is_over = |since: Time| since.plus_secs(self.settings.bypass_secs) <= self.now;
        if self.promises.next_start().is_some_and(is_due) || self.promises.next_patience().is_some_and(is_over) {
            self.queue_changed = true;
        } else {
            self.wake_for_promises();
        }
    }
}
