//! The state that the end of a trial restores, and how far a call has come.

use std::collections::HashMap;
use std::sync::Arc;

use super::agendas::Agendas;
use super::job::{Job, JobInfo};
use super::jobs::Jobs;
use crate::schedule::Schedule;
use crate::traverser::weights::Weights;

/// The state when a trial began, as far as it has changed.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    jobs: HashMap<u64, Option<Arc<Job>>>,
    /// Jobs that have ended since, with their earlier records.
    ended: Vec<(u64, Option<JobInfo>)>,
    vertices: Option<Box<(Schedule, Weights)>>,
    agendas: Option<Agendas>,
    lost: Vec<(u64, Arc<Job>)>,
    now: i64,
}

/// The state beside the jobs when a trial began; `None`: it has not changed.
pub(super) struct Restored {
    pub(super) vertices: Option<Box<(Schedule, Weights)>>,
    pub(super) agendas: Option<Agendas>,
    pub(super) now: i64,
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
}

impl Trial {
    /// Nothing has changed yet.
    pub(super) fn new(jobs: &Jobs, now: i64) -> Self {
        Trial {
            jobs: HashMap::new(),
            ended: Vec::new(),
            vertices: None,
            agendas: None,
            lost: jobs.lost().to_vec(),
            now,
        }
    }

    /// A job is about to change, or to come to be.
    pub(super) fn note_job(&mut self, jobs: &Jobs, id: u64) {
        self.jobs.entry(id).or_insert_with(|| jobs.get(id).cloned());
    }

    /// The use of vertices is about to change.
    pub(super) fn note_vertices(&mut self, schedule: &Schedule, weights: &Weights) {
        self.vertices.get_or_insert_with(|| Box::new((schedule.clone(), weights.clone())));
    }

    /// The clock is about to move.
    pub(super) fn note_clock(&mut self, agendas: &Agendas) {
        self.agendas.get_or_insert_with(|| agendas.clone());
    }

    /// A job is about to be remembered as one that has ended.
    pub(super) fn note_end(&mut self, jobs: &Jobs, id: u64) {
        self.ended.push((id, jobs.ended(id)));
    }

    /// Restores the jobs. Returns all else that has changed.
    pub(super) fn restore(self, jobs: &mut Jobs) -> Restored {
        for (id, job) in self.jobs {
            match job {
                Some(job) => jobs.insert(id, job),
                None => jobs.remove(id),
            };
        }
        for (id, before) in self.ended.into_iter().rev() {
            jobs.take_back_end(id, before);
        }
        jobs.set_lost(self.lost);
        Restored { vertices: self.vertices, agendas: self.agendas, now: self.now }
    }
}
