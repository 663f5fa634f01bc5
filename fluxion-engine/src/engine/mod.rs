//! Graph, jobs and time together: the operations that the C ABI offers.
//!
//! Every operation either does all of what it says or nothing. Time only moves when it is told to; a job past its end keeps
//! what it holds until it is cancelled.

mod extensions;
mod matching;
mod options;
mod partial;
mod report;
mod status;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use matching::Found;
pub use matching::{Grant, MatchOp};
pub use options::{MatchFormat, Options};
pub use report::{Explanation, NodeUsage, PoolSupply, PoolUsage, ShapeReport, Supply};

use crate::Error;
use crate::graph::{Graph, VertexId};
use crate::pools::{Claim, SlotShape};
use crate::time::End;

/// A resource graph in use.
#[derive(Debug, Clone)]
pub struct Engine {
    graph: Graph,
    options: Options,
    jobs: HashMap<u64, Job>,
    /// The id of the next job that comes without one.
    next_job: u64,
    now: i64,
    /// The shape charged last: pods of one kind often come in a row, and then share it.
    charged: Option<Arc<SlotShape>>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobMode {
    /// It holds resources.
    Allocated,
    /// It will hold resources.
    Reserved,
}

/// What is recorded of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobInfo {
    /// How it stands.
    pub mode: JobMode,
    /// When it starts, or started.
    pub at: i64,
    /// How long the match took, in seconds.
    pub overhead: f64,
}

#[derive(Debug, Clone)]
struct Job {
    info: JobInfo,
    /// Ranks on which it has claims on pools, ascending.
    ranks: Vec<u32>,
    /// Whole vertices that it holds.
    vertices: Vec<VertexId>,
}

impl Engine {
    /// A graph from its document.
    pub fn new(graph: &str, options: &str) -> Result<Self, Error> {
        let options = Options::read(options)?;
        let graph = Graph::read(graph, options.pool_types.clone())?;
        Ok(Engine { graph, options, jobs: HashMap::new(), next_job: 1, now: 0, charged: None })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Seconds, as told last.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Moves the present to `now`. It never goes back: an earlier instant changes nothing.
    pub fn set_time(&mut self, now: i64) {
        if now > self.now {
            self.now = now;
            self.graph.pools.advance(now);
        }
    }

    /// What is recorded of a job.
    pub fn info(&self, job: u64) -> Result<JobInfo, Error> {
        self.jobs.get(&job).map(|job| job.info).ok_or_else(|| no_job(job))
    }

    /// Number of jobs that hold or will hold resources.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Notes how long the match of a job took.
    pub fn set_overhead(&mut self, job: u64, seconds: f64) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.info.overhead = seconds;
        }
    }

    /// Gives back everything of a job.
    pub fn cancel(&mut self, id: u64) -> Result<(), Error> {
        let job = self.jobs.remove(&id).ok_or_else(|| no_job(id))?;
        for rank in job.ranks {
            if let Some(row) = self.graph.pools.position(rank) {
                self.graph.pools.release_job(row, id);
            }
        }
        for vertex in job.vertices {
            self.graph.unhold(vertex, id);
        }
        Ok(())
    }

    /// Adds the vertices of a JGF document that are not there yet.
    pub fn add_subgraph(&mut self, text: &str) -> Result<(), Error> {
        self.graph.grow(text)
    }

    /// Removes what lies at a path, and everything below. What jobs held there vanishes from them.
    pub fn remove_subgraph(&mut self, path: &str) -> Result<(), Error> {
        let found = self.graph.at_path(path).to_vec();
        if found.is_empty() {
            return Err(Error::not_found(format!("path {path:?}: there is no such vertex")));
        }
        for vertex in found {
            self.cut(vertex)?;
        }
        Ok(())
    }

    /// Removes a subtree, and corrects the jobs that had something there.
    fn cut(&mut self, top: VertexId) -> Result<(), Error> {
        // Vertex ids are used again, so jobs must forget those of the subtree before they could mean something else.
        let gone = self.graph.subtree(top);
        let mut losers = self.graph.cut(top)?;
        losers.sort_unstable();
        losers.dedup();
        let gone: std::collections::HashSet<VertexId> = gone.into_iter().collect();
        for id in losers {
            if let Some(job) = self.jobs.get_mut(&id) {
                let pools = &self.graph.pools;
                job.ranks.retain(|rank| pools.position(*rank).is_some());
                job.vertices.retain(|vertex| !gone.contains(vertex));
            }
            self.drop_if_empty(id);
        }
        Ok(())
    }

    /// A job that has nothing left has ended.
    fn drop_if_empty(&mut self, id: u64) -> bool {
        let empty = self.jobs.get(&id).is_some_and(|job| job.ranks.is_empty() && job.vertices.is_empty());
        if empty {
            self.jobs.remove(&id);
        }
        empty
    }

    /// Adds a claim to the pools of a row, and remembers the rank in the job, which must exist.
    fn claim(&mut self, row: usize, claim: Claim) {
        let rank = self.graph.pools.ranks()[row];
        if let Some(job) = self.jobs.get_mut(&claim.job)
            && let Err(at) = job.ranks.binary_search(&rank)
        {
            job.ranks.insert(at, rank);
        }
        self.graph.pools.claim(row, claim);
    }

    /// When a job that starts at `at` gives its resources back.
    fn end_of(hold: crate::jobspec::Hold, at: i64) -> End {
        match hold {
            crate::jobspec::Hold::Seconds(seconds) => End::At(at.saturating_add_unsigned(seconds)),
            crate::jobspec::Hold::Eventually => End::Eventually,
            crate::jobspec::Hold::Endless => End::Never,
        }
    }
}

fn no_job(id: u64) -> Error {
    Error::not_found(format!("job {id}: there is no such job"))
}
