//! What if: all that is done in a trial is taken back at its end, and a place that a panic left
//! half taken is given back.
//!
//! What changes is remembered as it was: rows of the ledger and jobs one by one, the use of
//! vertices as a whole, when it changes first. So a trial costs as much as the calls in it, and
//! nothing for the size of the machine. The graph stays as it is meanwhile.

use super::Book;
use super::journal::{Restored, Stage, Taking, Trial};
use crate::Error;

impl Book {
    /// Begins a trial. There is one at a time.
    pub(crate) fn begin_trial(&mut self) -> Result<(), Error> {
        if self.trial.is_some() {
            return Err(Error::invalid("a trial has begun already"));
        }
        self.changes_from_now_on();
        self.graph.pools.begin_trial();
        self.trial = Some(Box::new(Trial::new(&self.jobs, self.now)));
        Ok(())
    }

    /// Ends a trial: all is as it was when it began.
    pub(crate) fn end_trial(&mut self) -> Result<(), Error> {
        let trial = self.trial.take().ok_or_else(|| Error::invalid("no trial has begun"))?;
        self.changes_from_now_on();
        self.graph.pools.end_trial();
        let Restored { vertices, agendas, now } = trial.restore(&mut self.jobs);
        if let Some(vertices) = vertices {
            (self.schedule, self.weights) = *vertices;
            self.schedule.forget_touched();
        }
        if let Some(agendas) = agendas {
            self.agendas = agendas;
        }
        self.now = now;
        Ok(())
    }

    /// After a panic that was caught: restores the state from before the call that has panicked, if
    /// that had changed nothing yet, or was taking a place. False if it had changed more.
    pub(crate) fn take_back(&mut self) -> bool {
        match std::mem::take(&mut self.stage) {
            Stage::Asks => {}
            Stage::Takes(taking) => drop_taking(self, *taking),
            Stage::None | Stage::Changes => return false,
        }
        // Each is made again when it is needed.
        self.graph.pools.forget_indexes();
        true
    }
}

/// Drops a job that has taken a part of its place, and counts all others again.
fn drop_taking(book: &mut Book, taking: Taking) {
    let Taking { job, older, lost } = taking;
    book.jobs.remove(job);
    if let Some(older) = older {
        book.jobs.insert(job, older);
    }
    book.jobs.set_lost(lost);
    book.follows_from_jobs = true;
    book.graph.pools.drop_job(job);
    book.schedule.clear(&book.graph);
    for job in book.jobs.holders() {
        for touch in &job.touches {
            book.schedule.add(&book.graph, job.term, touch);
        }
    }
}
