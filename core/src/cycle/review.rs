//! The review: once nothing has happened for a while, all waiting requests are tried once more.
//!
//! The result of an attempt stands until something changes that it rests on, and its explanation
//! stands until the attempt is repeated. An explanation may therefore be out of date where the
//! change lets no request start: a number in it, or which of several reasons comes first. When the
//! queue was left alone for a while after a walk, all attempts are repeated, some classes at a
//! time. After that the records say the same as those of a process that begins now.
//!
//! The same goes for promises. A job states its start on its record, and that is a promise. The
//! promises to pods that wait one by one are not on record, and no process knows those of the
//! process before it: the review makes them again, around everything else.

use std::collections::BTreeSet;

use crate::cycle::Core;
use crate::cycle::walks::Review;
use crate::timers::Timer;
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest};

/// The quiet time in milliseconds after which a review begins.
const CALM_MILLIS: i64 = 30_000;
/// The number of classes that one walk reviews, and the pause in milliseconds until the next.
const AT_ONCE: usize = 64;
const PAUSE_MILLIS: i64 = 100;

impl Core {
    /// Puts the review off, since the queue is walked for another reason: something has happened,
    /// or the last walk has moved reservations. The review begins when nothing has happened for a
    /// while.
    pub(crate) fn review_later(&mut self, has_happened: bool) {
        let on_record = self.walks.review.on_record.take().filter(|_| !has_happened);
        self.walks.review = Review {
            walked_at: self.clock.now,
            last: None,
            is_due: false,
            is_begin: false,
            on_record,
        };
        if !self.planner.queue.is_empty() {
            self.agenda.timers.wake(Timer::Review, self.clock.now.plus_millis(CALM_MILLIS));
        }
    }

    /// Marks a review as due, or waits longer if the queue was walked too recently.
    pub(crate) fn review(&mut self) {
        let from = self.walks.review.walked_at.plus_millis(CALM_MILLIS);
        if self.clock.now < from {
            self.agenda.timers.wake(Timer::Review, from);
        } else {
            self.walks.review.is_due = true;
        }
    }

    /// Puts the attempts of some classes in doubt if a review is due. Returns whether the queue is
    /// to be walked for that.
    pub(crate) fn begin_review(&mut self) -> bool {
        if !std::mem::take(&mut self.walks.review.is_due) {
            return false;
        }
        let classes: Vec<ClassId> =
            self.planner.queue.classes_after(self.walks.review.last).take(AT_ONCE).collect();
        for class in &classes {
            // A search that gave up is repeated after a change alone.
            if let Some(attempt) =
                self.planner.queue.last_attempt_mut(*class).filter(|known| known.steps_in_vain == 0)
            {
                attempt.is_in_doubt = true;
            }
        }
        let is_begin = self.walks.review.last.is_none();
        self.walks.review.last = classes.last().copied();
        if classes.len() == AT_ONCE {
            self.agenda.timers.wake(Timer::Review, self.clock.now.plus_millis(PAUSE_MILLIS));
        }
        self.walks.review.is_begin = is_begin && !classes.is_empty();
        !classes.is_empty()
    }

    /// Gives up the promises to pods that wait one by one, at the beginning of a review, so that
    /// the walk that follows makes them again. Gives up nothing if the promises on record are the
    /// same as last time, since the result would be the same. Returns whether any promise was given
    /// up.
    pub(crate) fn give_up_what_is_not_on_record(&mut self) -> bool {
        if !std::mem::take(&mut self.walks.review.is_begin) {
            return false;
        }
        let (on_record, others) = self.sight().promised_by_records();
        if others.is_empty() || self.walks.review.on_record.as_ref() == Some(&on_record) {
            return false;
        }
        let jobs: BTreeSet<JobId> = others.iter().map(PendingRequest::job).collect();
        for pending in others {
            if let Some(promise) = self.planner.promises.take(&pending) {
                self.planner.ledger.give_up(&promise.place);
            }
        }
        for id in jobs {
            if let Some(job) = self.jobs.all.get(&id) {
                let (since, nodes) = (
                    self.sight().passed_by_since(job),
                    self.sight().held_for(job).cloned().unwrap_or_default(),
                );
                self.planner.promises.leave_patience(id, since, nodes);
            }
        }
        self.walks.review.on_record = Some(on_record);
        true
    }
}
