//! The review: once nothing has happened for a while, those who wait are looked at once more.
//!
//! An attempt stands until something changes that its outcome rests on, and its words until it is
//! made again. So what is said of a request may go by what is different by now, though that lets
//! nobody start: a number, or which of several reasons comes first. When the queue was left alone
//! for a while after a walk, all attempts are made again, some classes at a time. Then what is on
//! record is what a process would find that begins now.
//!
//! So it is with what is promised. A job says on its record when it starts, and that is a promise.
//! What pods of one job are promised that wait one by one is not on record, and no process knows
//! what the last one has kept for them: it is made anew, around all that is.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Core, Timer};
use fluxqueue_planner::plan::Kept;
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest};
use fluxqueue_workload::Time;

/// For so long nothing has to happen.
const CALM_MILLIS: i64 = 30_000;
/// Classes that are looked at in one walk, and the pause until the next.
const AT_ONCE: usize = 64;
const PAUSE_MILLIS: i64 = 100;

/// How far the review has come.
#[derive(Debug, Default)]
pub(crate) struct Review {
    /// When the queue was last walked for another reason.
    walked_at: Time,
    /// The last class that was looked at.
    last: Option<ClassId>,
    /// Some are to be looked at in this step.
    is_due: bool,
    /// The walk that follows is the first of the review.
    is_begin: bool,
    /// What was promised by records when all else was last promised anew, if nothing has happened
    /// since but what follows from that.
    on_record: Option<BTreeMap<PendingRequest, Kept>>,
}

impl Core {
    /// The queue is walked since something has happened, or the last walk has moved reservations:
    /// it is looked at again when nothing has for a while.
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

    /// It is time for a look, perhaps.
    pub(crate) fn review(&mut self) {
        let from = self.walks.review.walked_at.plus_millis(CALM_MILLIS);
        if self.clock.now < from {
            self.agenda.timers.wake(Timer::Review, from);
        } else {
            self.walks.review.is_due = true;
        }
    }

    /// Whether the queue is to be walked for a review: then what was found out about some classes
    /// is in doubt.
    pub(crate) fn begin_review(&mut self) -> bool {
        if !std::mem::take(&mut self.walks.review.is_due) {
            return false;
        }
        let classes: Vec<ClassId> =
            self.planner.queue.classes_after(self.walks.review.last).take(AT_ONCE).collect();
        for class in &classes {
            if let Some(attempt) = self.planner.queue.last_attempt_mut(*class) {
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

    /// What is promised to pods that wait one by one is given up at the beginning of a review, for
    /// the walk that follows to promise it anew. Where what is on record stands as it did when that
    /// was done last, it would come to the same. Returns whether anything was.
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
            let Some(job) = self.jobs.all.get(&id) else { continue };
            let (since, nodes) = (
                self.sight().passed_by_since(job),
                self.sight().held_for(job).cloned().unwrap_or_default(),
            );
            self.planner.promises.leave_patience(id, since, nodes);
        }
        self.walks.review.on_record = Some(on_record);
        true
    }
}
