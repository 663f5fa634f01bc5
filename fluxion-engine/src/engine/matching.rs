//! The match operations: whether, when and where a request fits. A place that is found is
//! taken by [`super::granting`].

use super::Engine;
use super::defects::defect;
use super::op::{Grant, MatchOp};
use crate::jobspec::{Hold, Jobspec};
use crate::time::{EVENTUALLY, WINDOW_SECONDS};
use crate::vertex_search::Left;
use crate::{Error, Reason};

impl Engine {
    /// Matches under an id that the engine chooses.
    pub fn match_next(&mut self, op: MatchOp, jobspec: &str) -> Result<Grant, Error> {
        self.asking(|engine| {
            engine.searches.set_left(Left::Nothing);
            let spec = engine.memo.spec(jobspec)?;
            engine.match_spec_next(op, &spec)
        })
    }

    /// Matches under an id that must be new.
    pub fn match_job(&mut self, op: MatchOp, jobspec: &str, job: u64) -> Result<Grant, Error> {
        self.asking(|engine| {
            engine.searches.set_left(Left::Nothing);
            let spec = engine.memo.spec(jobspec)?;
            engine.match_spec(op, &spec, job)
        })
    }

    /// Matches a jobspec that was read before, under an id that the engine chooses.
    pub fn match_spec_next(&mut self, op: MatchOp, spec: &Jobspec) -> Result<Grant, Error> {
        self.asking(|engine| {
            // Upstream does not look whether the caller has given this id to a job (Q12).
            while engine.graph().has_pool_types() && engine.book.jobs().contains(engine.next_job) {
                engine.next_job += 1;
            }
            let id = engine.next_job;
            let mut answer = engine.match_spec(op, spec, id);
            if let (MatchOp::Satisfiability, Ok(grant)) = (op, &mut answer) {
                // As upstream: it gets an id, though there is no job.
                grant.job = Some(id);
            }
            answer
        })
    }

    /// The instant at which a match that found no place would have started, had it not been the end
    /// of the window: upstream tells that. Else 0.
    pub fn refused_at(&self) -> i64 {
        if self.searches.left() == Left::EndOfWindow { WINDOW_SECONDS } else { 0 }
    }

    /// Whether it fits on the idle machine with all nodes up: Ok, or [`Reason::Unsatisfiable`].
    pub fn satisfy(&mut self, jobspec: &str) -> Result<(), Error> {
        self.asking(|engine| {
            let spec = engine.memo.spec(jobspec)?;
            engine.match_spec(MatchOp::Satisfiability, &spec, 0).map(|_| ())
        })
    }

    /// Matches a jobspec that was read before, under an id that must be new.
    pub fn match_spec(&mut self, op: MatchOp, spec: &Jobspec, job: u64) -> Result<Grant, Error> {
        self.asking(|engine| engine.match_once(op, spec, job))
    }

    fn match_once(&mut self, op: MatchOp, spec: &Jobspec, job: u64) -> Result<Grant, Error> {
        self.graph().pools.effort.begin();
        let answer = self.try_match(op, spec, job);
        let empty = match &answer {
            Ok(_) => op == MatchOp::Satisfiability,
            Err(error) => error.is_answer(),
        };
        if empty {
            // As upstream: where nothing cannot be written, that is what goes wrong, and no id is
            // used up.
            let written = self.writer.nothing(self.options.format, self.book.graph());
            defect("nothing written");
            written?;
        }
        // As upstream (Q12), matches use up an id if they find no place, and also where the caller
        // has chosen theirs; malformed ones do not.
        if op.takes() && answer.as_ref().map_or_else(Error::is_answer, |grant| grant.job.is_some())
        {
            self.next_job = self.next_job.wrapping_add(1);
        }
        answer
    }

    fn try_match(&mut self, op: MatchOp, spec: &Jobspec, job: u64) -> Result<Grant, Error> {
        if op.takes() && self.book.jobs().contains(job) && self.graph().has_pool_types() {
            return Err(Error {
                reason: Reason::Exists,
                text: format!("job {job}: exists already"),
            });
        }
        if !self.graph().has_pool_types() {
            spec.ensure_narrow()?;
        }
        let ask = self.sight().ask(spec)?;
        self.searches.refresh_for(&mut self.book, &ask);
        defect("index refreshed");
        if spec.hold == Hold::Refused {
            self.searches.leak_exclusive(&ask);
            defect("types exclusive");
            return Err(Error::invalid(
                "attributes.system.duration: not a number of seconds from 0 to 100 years",
            ));
        }
        if op == MatchOp::Satisfiability {
            return self.sight().ever(&ask).map(|()| Grant {
                job: None,
                at: 0,
                reserved: false,
                r: String::new(),
                is_earliest: true,
            });
        }
        self.searches.set_left(Left::Nothing);
        let sight = self.sight();
        sight.precheck(op, &ask)?;
        let (found, at) = match op {
            MatchOp::Allocate | MatchOp::WithoutAllocating => (sight.now_for(&ask)?, sight.now()),
            MatchOp::AllocateWithSatisfiability => match sight.now_for(&ask) {
                Ok(found) => (found, sight.now()),
                Err(error) => return Err(sight.refusal(&ask, error)),
            },
            _ => match sight.soonest(&ask, spec.extras.not_before.unwrap_or(sight.now())) {
                Ok(place) => place,
                Err(_) if op == MatchOp::WithoutAllocatingFuture && sight.fits_eventually(&ask) => {
                    return Ok(Grant {
                        job: None,
                        at: EVENTUALLY,
                        reserved: false,
                        r: String::new(),
                        is_earliest: self.graph().pools.effort.is_exact(),
                    });
                }
                Err(error) => return Err(sight.refusal(&ask, error)),
            },
        };
        self.grant(op, job, &ask, &found, at)
    }
}

#[cfg(test)]
mod tests;
