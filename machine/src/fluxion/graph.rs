//! The graph as the core uses it, whatever the library can do.

use fluxion_sys::FunctionTable;

use super::answer::{Explanation, NodeUsage};
use super::error::GraphError;
use super::placement::{Booking, Fit, Forecast, Moved, SEARCH_STEPS_MAX, Steps};
use super::pools::PoolGraph;
use super::rankset::{Rank, RankSet};
use super::request::{End, Policy, Request, Tenancy};
use super::vertices::VertexGraph;
use fluxqueue_workload::Resources;

/// A resource graph of nodes. Calls that fail change nothing.
///
/// In a library with the extensions of fluxion-sys a node is pools of units, and the library keeps
/// all of it. In any other a node is whole vertices: the library chooses them, and everything it
/// cannot express (ends, charges, reasons for a refusal) is kept here.
#[derive(Debug)]
pub struct Graph(Kind);

#[derive(Debug)]
enum Kind {
    Pools(Box<PoolGraph>),
    Vertices(Box<VertexGraph>),
}

/// Calls a method of whichever graph it is.
macro_rules! either {
    ($graph:expr, $inner:ident => $call:expr) => {
        match $graph {
            Kind::Pools($inner) => $call,
            Kind::Vertices($inner) => $call,
        }
    };
}

impl Graph {
    /// A graph without nodes, in the library behind the table. The searches of one question take
    /// at most [`SEARCH_STEPS_MAX`] steps.
    ///
    /// The errors are those of [`Graph::limited`].
    pub fn new(table: FunctionTable, policy: Policy) -> Result<Self, GraphError> {
        Graph::limited(table, policy, SEARCH_STEPS_MAX)
    }

    /// A graph without nodes, in the library behind the table. The searches of one question take
    /// at most this number of steps; a library without the extensions has no such limit.
    ///
    /// ENOSYS: it lacks a function that is needed. ENOTSUP: without the extensions it does not know
    /// this policy.
    pub fn limited(
        table: FunctionTable,
        policy: Policy,
        search_steps: u64,
    ) -> Result<Self, GraphError> {
        Ok(Graph(match table.extensions {
            Some(extensions) => {
                Kind::Pools(Box::new(PoolGraph::new(table, extensions, policy, search_steps)?))
            }
            None => Kind::Vertices(Box::new(VertexGraph::new(table, policy)?)),
        }))
    }

    /// Returns one of these resources that no graph of this kind has: pods that want it cannot be
    /// placed.
    pub fn refuses<'a>(&self, requests: &'a Resources) -> Option<&'a str> {
        match &self.0 {
            Kind::Pools(_) => None,
            Kind::Vertices(_) => VertexGraph::refuses(requests),
        }
    }

    /// Returns the features of the scheduler that are off with this library, for operators.
    pub fn features_off(&self) -> Vec<&'static str> {
        [
            (self.has_reservations(), "queue policies other than fcfs (reservations)"),
            (self.has_levels(), "levels of the machine, such as racks"),
            (self.has_tenants(), "nodes for one job alone (fluxqueue/exclusive)"),
            (self.can_be_copied(), "estimated starts, and what-if questions (copies)"),
            (matches!(self.0, Kind::Pools(_)), "parts of cores and of GiB, named resources"),
        ]
        .into_iter()
        .filter_map(|(is_on, feature)| (!is_on).then_some(feature))
        .collect()
    }

    /// True if it can be copied.
    pub fn can_be_copied(&self) -> bool {
        match &self.0 {
            Kind::Pools(graph) => graph.can_be_copied(),
            Kind::Vertices(_) => false,
        }
    }

    /// A copy with all that is taken, to try things on. No node of it may be added, changed or
    /// removed.
    ///
    /// ENOSYS: the library makes none.
    pub fn copy(&mut self) -> Result<Self, GraphError> {
        match &mut self.0 {
            Kind::Pools(graph) => Ok(Graph(Kind::Pools(Box::new(graph.copy()?)))),
            Kind::Vertices(_) => Err(super::context::lacks("copy", "copies")),
        }
    }

    /// Returns the steps that the searches of all questions took; a library without the extensions
    /// does not count them.
    pub fn steps(&self) -> Steps {
        match &self.0 {
            Kind::Pools(graph) => graph.steps(),
            Kind::Vertices(_) => Steps::default(),
        }
    }

    /// Moves the present, in seconds of the epoch. It never goes back.
    pub fn set_time(&mut self, now_seconds: i64) -> Result<(), GraphError> {
        match &mut self.0 {
            Kind::Pools(graph) => graph.set_time(now_seconds),
            Kind::Vertices(graph) => {
                graph.set_time(now_seconds);
                Ok(())
            }
        }
    }

    /// Adds a node that is up; its rank must be new. Amounts beyond 2^63 - 1 count as that.
    pub fn add_node(
        &mut self,
        rank: Rank,
        name: &str,
        pools: &Resources,
    ) -> Result<(), GraphError> {
        either!(&mut self.0, graph => graph.add_node(rank, name, pools))
    }

    /// True if nodes can be put into parts of levels, and requests ask for these.
    pub fn has_levels(&self) -> bool {
        matches!(self.0, Kind::Pools(_))
    }

    /// True if slots can have their nodes alone.
    pub fn has_tenants(&self) -> bool {
        matches!(self.0, Kind::Pools(_))
    }

    /// Puts a node into a part of a level, and out of the one that it is in; `None`: into none.
    /// Jobs keep what they have.
    ///
    /// ENOSYS: the library has no levels.
    pub fn set_part(
        &mut self,
        level: &str,
        rank: Rank,
        part: Option<&str>,
    ) -> Result<(), GraphError> {
        match &mut self.0 {
            Kind::Pools(graph) => graph.set_part(level, rank, part),
            Kind::Vertices(_) => Err(super::context::lacks("set_part", "levels")),
        }
    }

    /// Sets how much a node has of a resource; 0 takes it away. Taken amounts stay.
    pub fn resize(&mut self, rank: Rank, resource: &str, size: u64) -> Result<(), GraphError> {
        either!(&mut self.0, graph => graph.resize(rank, resource, size))
    }

    /// Removes a node; slots on it vanish from their jobs, and a job that has none left ends.
    pub fn remove_node(&mut self, rank: Rank) -> Result<(), GraphError> {
        either!(&mut self.0, graph => graph.remove_node(rank))
    }

    /// Marks a node up or down. A node that is down keeps its jobs and gets no new ones.
    pub fn set_up(&mut self, rank: Rank, up: bool) -> Result<(), GraphError> {
        either!(&mut self.0, graph => graph.set_up(rank, up))
    }

    /// Takes a place for all slots of a request, or for none. The job must be new.
    pub fn allocate(&mut self, job: u64, request: &Request<'_>) -> Result<Fit, GraphError> {
        either!(&mut self.0, graph => graph.allocate(job, request))
    }

    /// True if it can keep places for later. Without that only `allocate` places anything.
    pub fn has_reservations(&self) -> bool {
        matches!(self.0, Kind::Pools(_))
    }

    /// Takes a place for all slots of a request, now or at the earliest second at which there is
    /// one. The job must be new.
    ///
    /// ENOSYS: the library has no reservations that last.
    pub fn reserve(&mut self, job: u64, request: &Request<'_>) -> Result<Booking, GraphError> {
        match &mut self.0 {
            Kind::Pools(graph) => graph.reserve(job, request),
            Kind::Vertices(_) => Err(super::context::lacks("reserve", "reservations")),
        }
    }

    /// Withdraws a reservation and makes it again at the earliest second around all others, for the
    /// same `request` as before.
    pub fn remake(&mut self, job: u64, request: &Request<'_>) -> Result<Option<Moved>, GraphError> {
        match &mut self.0 {
            Kind::Pools(graph) => graph.remake(job, request),
            Kind::Vertices(_) => Err(super::context::lacks("remake", "reservations")),
        }
    }

    /// A reservation has begun: its start has come, and its room was free.
    pub fn has_begun(&mut self, job: u64) -> Result<bool, GraphError> {
        match &mut self.0 {
            Kind::Pools(graph) => graph.has_begun(job),
            Kind::Vertices(_) => Err(super::context::lacks("has_begun", "reservations")),
        }
    }

    /// Returns when a request could start. Takes nothing.
    pub fn forecast(&mut self, request: &Request<'_>) -> Result<Forecast, GraphError> {
        either!(&mut self.0, graph => graph.forecast(request))
    }

    /// The ranks on which at least one slot of some shape fits once everything that has an end has
    /// ended.
    pub fn eligible(&mut self, request: &Request<'_>) -> Result<RankSet, GraphError> {
        either!(&mut self.0, graph => graph.eligible(request))
    }

    /// Explains the supply for each shape of a request, now and on the idle machine.
    pub fn explain(&mut self, request: &Request<'_>) -> Result<Explanation, GraphError> {
        either!(&mut self.0, graph => graph.explain(request))
    }

    /// Puts slots of a job on a node, whether or not they fit; the job is made if it is new.
    pub fn charge(
        &mut self,
        job: u64,
        rank: Rank,
        label: &str,
        requests: &Resources,
        count: u64,
        end: End,
    ) -> Result<(), GraphError> {
        match &mut self.0 {
            Kind::Pools(graph) => {
                graph.charge(job, rank, label, requests, count, (end, Tenancy::Shared))
            }
            Kind::Vertices(graph) => graph.charge(job, rank, label, requests, count, end),
        }
    }

    /// Does the same for one slot, which is there under its tenancy. In a library without tenants
    /// all slots share.
    pub fn charge_beside(
        &mut self,
        job: u64,
        rank: Rank,
        label: &str,
        requests: &Resources,
        end: End,
        tenancy: Tenancy,
    ) -> Result<(), GraphError> {
        match &mut self.0 {
            Kind::Pools(graph) => graph.charge(job, rank, label, requests, 1, (end, tenancy)),
            Kind::Vertices(graph) => graph.charge(job, rank, label, requests, 1, end),
        }
    }

    /// Gives back `count` slots of a label that a job has on a node. With its last slot the job
    /// ends.
    pub fn release(
        &mut self,
        job: u64,
        rank: Rank,
        label: &str,
        count: u64,
    ) -> Result<(), GraphError> {
        either!(&mut self.0, graph => graph.release(job, rank, label, count))
    }

    /// Gives back everything of a job. One that has ended already is none the worse.
    pub fn cancel(&mut self, job: u64) -> Result<(), GraphError> {
        either!(&mut self.0, graph => graph.cancel(job))
    }

    /// Returns the amounts of a node, and the part taken now.
    pub fn usage(&mut self, rank: Rank) -> Result<NodeUsage, GraphError> {
        either!(&mut self.0, graph => graph.usage(rank))
    }
}
