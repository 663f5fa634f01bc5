//! The state that the end of a trial restores, and how far a call has come.

use std::collections::HashMap;
use std::sync::Arc;

use super::agendas::Agendas;
use super::job::{Job, JobInfo};
use super::jobs::Jobs;
use crate::schedule::{Drifts, Term, Touch};
use crate::vertex_search::weights::Weights;

/// The state when a trial began, as far as it has changed.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    jobs: HashMap<u64, Option<Arc<Job>>>,
    /// Jobs that have ended since, with their earlier records.
    ended: Vec<(u64, Option<JobInfo>)>,
    lost: Vec<(u64, Arc<Job>)>,
    /// How many vertices were stranded.
    stranded: usize,
    /// The part of the use of vertices that does not follow from claims.
    drifts: Drifts,
    weights: Option<Box<Weights>>,
    agendas: Option<Agendas>,
    /// How many gains of room there had been.
    gains: u64,
    now: i64,
}

/// The claims that the end of a trial takes back and restores, and the state beside them; `None`:
/// it has not changed.
pub(super) struct Restored {
    /// Jobs, and lost grants, as the trial leaves them.
    pub(super) tried: Vec<Arc<Job>>,
    pub(super) stranded: Vec<(Term, Touch)>,
    /// The same jobs, and lost grants, as they were.
    pub(super) before: Vec<Arc<Job>>,
    pub(super) drifts: Drifts,
    pub(super) weights: Option<Box<Weights>>,
    pub(super) agendas: Option<Agendas>,
}

/// How far the call has come that runs now.
#[derive(Debug, Clone, Default)]
pub(super) enum Stage {
    /// No call runs.
    #[default]
    None,
    /// The call has changed nothing.
    Asks,
    /// The call takes a place for a job, and has changed nothing else.
    Takes(Box<Taking>),
    /// The call has begun to change jobs, vertices or the graph.
    Changes,
}

/// The state before a job takes a place.
#[derive(Debug, Clone)]
pub(super) struct Taking {
    pub(super) job: u64,
    /// An older job of the same id.
    pub(super) older: Option<Arc<Job>>,
    pub(super) lost: Vec<(u64, Arc<Job>)>,
    /// How many vertices were stranded.
    pub(super) stranded: usize,
}

impl Trial {
    /// Nothing has changed yet.
    pub(super) fn new(jobs: &Jobs, drifts: Drifts, gains: u64, now: i64) -> Self {
        Trial {
            jobs: HashMap::new(),
            ended: Vec::new(),
            lost: jobs.lost().to_vec(),
            stranded: jobs.stranded().len(),
            drifts,
            weights: None,
            agendas: None,
            gains,
            now,
        }
    }

    /// How many gains of room there had been, and the present, when it began.
    pub(super) fn began(&self) -> (u64, i64) {
        (self.gains, self.now)
    }

    /// A job is about to change, or to come to be.
    pub(super) fn note_job(&mut self, jobs: &Jobs, id: u64) {
        self.jobs.entry(id).or_insert_with(|| jobs.get(id).cloned());
    }

    /// The weights of vertices are about to change.
    pub(super) fn note_weights(&mut self, weights: &Weights) {
        self.weights.get_or_insert_with(|| Box::new(weights.clone()));
    }

    /// The clock is about to move.
    pub(super) fn note_clock(&mut self, agendas: &Agendas) {
        self.agendas.get_or_insert_with(|| agendas.clone());
    }

    /// A job is about to be remembered as one that has ended.
    pub(super) fn note_end(&mut self, jobs: &Jobs, id: u64) {
        self.ended.push((id, jobs.ended(id)));
    }

    /// Restores the jobs. Returns the claims that the indexes have to follow, and all else that has
    /// changed.
    pub(super) fn restore(self, jobs: &mut Jobs) -> Restored {
        let (mut tried, mut before) = (Vec::new(), Vec::new());
        for (id, was) in self.jobs {
            let now = match was.clone() {
                Some(was) => jobs.insert(id, was),
                None => jobs.remove(id),
            };
            let is_same = match (&now, &was) {
                (Some(now), Some(was)) => Arc::ptr_eq(now, was),
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                tried.extend(now);
                before.extend(was);
            }
        }
        for (id, info) in self.ended.into_iter().rev() {
            jobs.take_back_end(id, info);
        }
        before.extend(self.lost.iter().map(|(_, job)| Arc::clone(job)));
        tried.extend(jobs.set_lost(self.lost).into_iter().map(|(_, job)| job));
        Restored {
            tried,
            stranded: jobs.take_stranded(self.stranded),
            before,
            drifts: self.drifts,
            weights: self.weights,
            agendas: self.agendas,
        }
    }
}
