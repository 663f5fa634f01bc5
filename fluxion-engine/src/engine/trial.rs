//! What if: all that is done in a trial is taken back at its end.
//!
//! What changes is remembered as it was: rows of the account and jobs one by one, what only walks
//! use as a whole, when it changes first. So a trial costs as much as the calls in it, and nothing
//! for the size of the machine. The graph stays as it is meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Agenda, Engine, Job, JobInfo};
use crate::graph::TypeId;
use crate::schedule::Schedule;
use crate::traverser::weights::Weights;
use crate::writer::Writer;
use crate::{Error, Reason};

/// How things stood when the trial began, as far as they have changed.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    jobs: HashMap<u64, Option<Arc<Job>>>,
    /// Jobs that have ended since, with their earlier records.
    ended: Vec<(u64, Option<JobInfo>)>,
    vertices: Option<Box<(Schedule, Weights)>>,
    clock: Option<(Agenda, Agenda)>,
    lost: Vec<(u64, Arc<Job>)>,
    writer: Writer,
    exclusive_kinds: Vec<TypeId>,
    next_job: u64,
    now: i64,
}

impl Engine {
    /// Begins a trial. There is one at a time.
    pub fn begin_trial(&mut self) -> Result<(), Error> {
        if self.trial.is_some() {
            return Err(Error::invalid("a trial has begun already"));
        }
        self.changes_from_now_on();
        self.graph.pools.begin_trial();
        self.trial = Some(Box::new(Trial {
            jobs: HashMap::new(),
            ended: Vec::new(),
            vertices: None,
            clock: None,
            lost: self.lost.clone(),
            writer: self.writer.clone(),
            exclusive_kinds: self.exclusive_kinds.clone(),
            next_job: self.next_job,
            now: self.now,
        }));
        Ok(())
    }

    /// Ends a trial: all is as it was when it began.
    pub fn end_trial(&mut self) -> Result<(), Error> {
        let trial = self.trial.take().ok_or_else(|| Error::invalid("no trial has begun"))?;
        self.changes_from_now_on();
        self.graph.pools.end_trial();
        for (id, job) in trial.jobs {
            match job {
                Some(job) => self.jobs.insert(id, job),
                None => self.jobs.remove(&id),
            };
        }
        for (id, before) in trial.ended.into_iter().rev() {
            if let Some(before) = before {
                self.ended.insert(id, before);
            } else {
                self.ended.remove(&id);
                self.ended_order.pop_back();
            }
        }
        if let Some(vertices) = trial.vertices {
            (self.schedule, self.weights) = *vertices;
            self.schedule.forget_touched();
        }
        if let Some(clock) = trial.clock {
            (self.starts, self.ends) = clock;
        }
        self.lost = trial.lost;
        self.writer = trial.writer;
        self.exclusive_kinds = trial.exclusive_kinds;
        (self.next_job, self.now) = (trial.next_job, trial.now);
        self.index = self.index.take().filter(|index| index.now() <= self.now);
        Ok(())
    }

    /// Refuses operations that a trial cannot take back.
    pub(super) fn not_in_a_trial(&self, what: &str) -> Result<(), Error> {
        if self.trial.is_none() {
            return Ok(());
        }
        Err(Error {
            reason: Reason::NotSupported,
            text: format!("{what}: not possible in a trial"),
        })
    }

    /// Has to be called before a job changes, or comes to be.
    pub(super) fn note_job(&mut self, id: u64) {
        self.changes_from_now_on();
        if let Some(trial) = &mut self.trial {
            trial.jobs.entry(id).or_insert_with(|| self.jobs.get(&id).cloned());
        }
    }

    /// Has to be called before anything changes that only walks use.
    #[inline]
    pub(super) fn note_vertices(&mut self) {
        self.changes_from_now_on();
        if let Some(trial) = &mut self.trial {
            trial
                .vertices
                .get_or_insert_with(|| Box::new((self.schedule.clone(), self.weights.clone())));
        }
    }

    /// Has to be called before the clock moves.
    pub(super) fn note_clock(&mut self) {
        self.changes_from_now_on();
        if let Some(trial) = &mut self.trial {
            trial.clock.get_or_insert_with(|| (self.starts.clone(), self.ends.clone()));
        }
    }

    /// Has to be called before a job is remembered as one that has ended. Returns whether that is
    /// for good.
    pub(super) fn note_end(&mut self, id: u64) -> bool {
        if let Some(trial) = &mut self.trial {
            trial.ended.push((id, self.ended.get(&id).copied()));
        }
        self.trial.is_none()
    }
}
