//! What if: all that is done in a trial is taken back at its end, and a place that a panic left
//! half taken is given back.
//!
//! Claims are remembered as they were, job by job, when they change first, and the indexes over
//! them follow. So a trial costs as much as the calls in it, and nothing for the size of the
//! machine. The graph stays as it is meanwhile.

use super::Book;
use super::holding::{enter_all, leave_all};
use super::journal::{Restored, Stage, Taking, Trial};
use crate::Error;

impl Book {
    /// Begins a trial. There is one at a time.
    pub(crate) fn begin_trial(&mut self) -> Result<(), Error> {
        if self.trial.is_some() {
            return Err(Error::invalid("a trial has begun already"));
        }
        self.changes_from_now_on();
        let gains = self.graph.pools.gains.count();
        let drifts = self.schedule.drifts(&self.graph);
        self.trial = Some(Box::new(Trial::new(&self.jobs, drifts, gains, self.now)));
        Ok(())
    }

    /// Ends a trial: all is as it was when it began.
    pub(crate) fn end_trial(&mut self) -> Result<(), Error> {
        let trial = self.trial.take().ok_or_else(|| Error::invalid("no trial has begun"))?;
        self.changes_from_now_on();
        let (gains, now) = trial.began();
        let restored = trial.restore(&mut self.jobs);
        let Restored { tried, stranded, before, drifts, weights, agendas } = restored;
        for job in &tried {
            leave_all(self, job);
        }
        for (term, touch) in &stranded {
            self.leave(*term, touch);
        }
        self.now = now;
        self.graph.pools.advance(now);
        for job in &before {
            enter_all(self, job);
        }
        self.graph.pools.gains.take_back(gains);
        self.schedule.set_drifts(&drifts);
        if let Some(weights) = weights {
            self.weights = *weights;
        }
        if let Some(agendas) = agendas {
            self.agendas = agendas;
        }
        Ok(())
    }

    /// After a panic that was caught: restores the state from before the call that has panicked, if
    /// that had changed nothing yet, or was taking a place. False if it had changed more.
    pub(crate) fn take_back(&mut self) -> bool {
        match std::mem::take(&mut self.stage) {
            // Each is made again when it is needed.
            Stage::Asks => self.graph.pools.forget_indexes(),
            Stage::Takes(taking) => drop_taking(self, *taking),
            Stage::None | Stage::Changes => return false,
        }
        true
    }
}

/// Drops a job that has taken a part of its place, and makes again what follows from all others.
fn drop_taking(book: &mut Book, taking: Taking) {
    let Taking { job, older, lost, stranded } = taking;
    book.jobs.remove(job);
    if let Some(older) = older {
        book.jobs.insert(job, older);
    }
    book.jobs.set_lost(lost);
    book.jobs.take_stranded(stranded);
    rebuild(book);
}

/// Makes the indexes over the claims again: the use of vertices, and of the units of nodes.
pub(super) fn rebuild(book: &mut Book) {
    let drifts = book.schedule.drifts(&book.graph);
    book.schedule.clear(&book.graph);
    book.schedule.put_off = 0;
    book.graph.pools.clear();
    let holders: Vec<_> = book.jobs.holders().cloned().collect();
    for job in &holders {
        enter_all(book, job);
    }
    for (term, touch) in book.jobs.stranded().to_vec() {
        book.enter(term, &touch);
    }
    book.schedule.set_drifts(&drifts);
}
