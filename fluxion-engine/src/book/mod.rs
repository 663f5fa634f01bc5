//! The book: the jobs with the vertices and units that they hold, on the graph that has them.
//!
//! The claims of each job ([`claims`]) are the account. Each is made and taken back here, and the
//! indexes follow in the same step: the schedule counts a vertex that a job has or passes through,
//! and the pools count units, and nodes that a job has whole. What changes is noted before, so that
//! the end of a trial, or a panic of a call that was to take a place, can restore it.

mod agendas;
pub(crate) mod claims;
mod elastic;
mod holding;
pub(crate) mod job;
pub(crate) mod jobs;
mod journal;
pub(crate) mod questions;
mod releasing;
mod restoring;
#[cfg(test)]
mod tests;
mod time;

use agendas::Agendas;
use job::Job;
use jobs::Jobs;
use journal::{Stage, Taking, Trial};

use crate::graph::{Graph, VertexId};
use crate::schedule::{Filters, Schedule};
use crate::vertex_search::weights::Weights;
use crate::{Error, Reason};

/// The graph, and the jobs on it.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    graph: Graph,
    schedule: Schedule,
    weights: Weights,
    jobs: Jobs,
    agendas: Agendas,
    now: i64,
    /// Something was removed from the graph.
    has_shrunk: bool,
    /// The state that the end of a trial restores.
    trial: Option<Box<Trial>>,
    /// How far the call has come that runs now.
    stage: Stage,
}

impl Book {
    /// A graph without jobs.
    pub(crate) fn new(graph: Graph, filters: Filters) -> Self {
        let mut schedule = Schedule::new(filters);
        schedule.prime(&graph);
        let mut weights = Weights::default();
        weights.prime(&graph);
        Book {
            graph,
            schedule,
            weights,
            jobs: Jobs::default(),
            agendas: Agendas::default(),
            now: 0,
            has_shrunk: false,
            trial: None,
            stage: Stage::None,
        }
    }

    /// The graph.
    #[inline]
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Which job holds which vertex, and when.
    #[inline]
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The order in which walks that end early visit vertices.
    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The jobs.
    #[inline]
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// The present.
    #[inline]
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// From the next call on the searches of a call take at most `budget` steps; `None`: no limit.
    pub(crate) fn set_budget(&mut self, budget: Option<u64>) {
        self.graph.pools.effort.set_budget(budget);
    }

    /// Changes since an index over nodes asked last: vertices that were taken or given back, and
    /// nodes of which units were (`None`: any), whether properties are others, and vertices that
    /// were marked.
    pub(crate) fn take_changes(&mut self) -> (Option<Vec<VertexId>>, bool, Vec<VertexId>) {
        let (properties, marked) = self.graph.take_changes();
        let ranks = self.graph.pools.touched.take();
        let touched = self.schedule.take_touched().zip(ranks).map(|(mut vertices, ranks)| {
            let pools = &self.graph.pools;
            let rows = ranks.into_iter().filter_map(|rank| pools.position(rank));
            vertices.extend(rows.map(|row| pools.vertices()[row]));
            vertices
        });
        (touched, properties, marked)
    }

    /// Where the only reservation there is could start: [`crate::pools::Pools::outlook`].
    pub(crate) fn outlook(
        &mut self,
        sought: crate::pools::Sought,
        planned: (i64, usize),
        how: (u64, bool),
    ) -> Option<(i64, Vec<(usize, u64)>)> {
        self.graph.pools.outlook(sought, planned, how)
    }

    /// Takes back notes about more room since there were `count`: all is as it was.
    pub(crate) fn take_back_gains(&mut self, count: u64) {
        self.graph.pools.gains.take_back(count);
    }

    /// True if a vertex is up, and no job has it, anything below it, or a vertex that holds it, at
    /// any instant of a window; `is_idle` tells it of the pools of a row.
    pub(crate) fn is_to_be_had(
        &self,
        vertex: VertexId,
        (from, to): (i64, i64),
        is_idle: impl Fn(usize) -> bool,
    ) -> bool {
        let (graph, schedule) = (&self.graph, &self.schedule);
        graph.is_up(vertex)
            && graph.way_up(vertex).all(|vertex| schedule.is_free(vertex, from, to))
            && schedule.is_untouched(vertex, from, to)
            && (!graph.has_pool_types() || graph.rows_within(vertex).into_iter().all(is_idle))
    }

    /// Begins a call, and ends the one before; or, if it is false, ends the call that runs.
    pub(crate) fn set_called(&mut self, called: bool) {
        self.stage = if called { Stage::Asks } else { Stage::None };
    }

    /// True if a call runs.
    pub(crate) fn is_called(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }

    /// Has to be called before a call changes anything: a panic after this cannot be taken back.
    #[inline]
    pub(crate) fn changes_from_now_on(&mut self) {
        if let Stage::Asks = self.stage {
            self.stage = Stage::Changes;
        }
    }

    /// Has to be called before a job takes a place that was found: until the call changes anything
    /// else, the job can be dropped again.
    pub(crate) fn takes_from_now_on(&mut self, job: u64) {
        if let Stage::Asks = self.stage {
            let older = self.jobs.get(job).cloned();
            let lost = self.jobs.lost().to_vec();
            let stranded = self.jobs.stranded().len();
            let taking = Taking { job, older, lost, stranded };
            self.stage = Stage::Takes(Box::new(taking));
        }
    }

    /// True while a job takes a place under the id of another one.
    pub(crate) fn is_taking_over(&self) -> bool {
        matches!(&self.stage, Stage::Takes(taking) if taking.older.is_some())
    }

    /// The job has its place: a later panic of the call cannot be taken back.
    pub(crate) fn has_taken(&mut self) {
        if let Stage::Takes(_) = self.stage {
            self.stage = Stage::Changes;
        }
    }

    /// Refuses operations that a trial cannot take back.
    pub(crate) fn not_in_a_trial(&self, what: &str) -> Result<(), Error> {
        if self.trial.is_none() {
            return Ok(());
        }
        Err(Error {
            reason: Reason::NotSupported,
            text: format!("{what}: not possible in a trial"),
        })
    }

    /// Has to be called before a job changes, or comes to be.
    fn note_job(&mut self, id: u64) {
        self.changes_from_now_on();
        if let Some(trial) = &mut self.trial {
            trial.note_job(&self.jobs, id);
        }
    }

    /// A job that is about to change.
    fn change(&mut self, id: u64) -> Option<&mut Job> {
        self.note_job(id);
        self.jobs.change(id)
    }

    /// Entries of the longer agenda.
    #[cfg(test)]
    pub(crate) fn longest_agenda(&self) -> usize {
        self.agendas.longest()
    }
}
