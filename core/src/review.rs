//! The review: once nothing has happened for a while, those who wait are looked at once more.
//!
//! An attempt stands until something changes that its outcome rests on, and its words until it is made again. So what is said of a
//! request may go by what is different by now, though that lets nobody start: a number, or which of several reasons comes first. When the
//! queue was left alone for a while after a walk, all attempts are made again, some classes at a time. Then what is on record is what a
//! process would find that begins now.

use super::{Core, Timer};
use crate::queue::ClassId;
use fluxqueue_workload::Time;

/// For so long nothing has to happen.
const CALM_MILLIS: i64 = 30_000;
/// Classes that are looked at in one walk, and the pause until the next.
const AT_ONCE: usize = 64;
const PAUSE_MILLIS: i64 = 100;

/// How far the review has come.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// When the queue was last walked for another reason.
    walked_at: Time,
    /// The last class that was looked at.
    last: Option<ClassId>,
    /// Some are to be looked at in this step.
    is_due: bool,
}

impl Core {
    /// The queue is walked since something has happened: it is looked at again when nothing has for a while.
    pub(super) fn review_later(&mut self) {
        self.review = Review { walked_at: self.now, last: None, is_due: false };
        if !self.queue.is_empty() {
            self.timers.wake(Timer::Review, self.now.plus_millis(CALM_MILLIS));
        }
    }

    /// It is time for a look, perhaps.
    pub(super) fn review(&mut self) {
        let from = self.review.walked_at.plus_millis(CALM_MILLIS);
        if self.now < from {
            self.timers.wake(Timer::Review, from);
        } else {
            self.review.is_due = true;
        }
    }

    /// Whether the queue is to be walked for a review: then what was found out about some classes is in doubt.
    pub(super) fn begin_review(&mut self) -> bool {
        if !std::mem::take(&mut self.review.is_due) {
            return false;
        }
        let classes: Vec<ClassId> = self.queue.classes_after(self.review.last).take(AT_ONCE).collect();
        for class in &classes {
            if let Some(attempt) = self.queue.last_attempt_mut(*class) {
                attempt.is_in_doubt = true;
            }
        }
        self.review.last = classes.last().copied();
        if classes.len() == AT_ONCE {
            self.timers.wake(Timer::Review, self.now.plus_millis(PAUSE_MILLIS));
        }
        !classes.is_empty()
    }
}
