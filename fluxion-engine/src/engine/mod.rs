//! Graph, jobs and time together: the operations that the C ABI offers.
//!
//! Every operation either succeeds as a whole or changes nothing. Time only moves by
//! [`Engine::set_time`]; a job past its end keeps its resources until it is cancelled.

mod asking;
mod clock;
mod elastic;
mod ending;
mod extensions;
mod find;
mod granting;
mod matching;
mod moving;
mod options;
mod partial;
mod report;
mod status;
mod trial;
mod update;
#[cfg(test)]
mod walks;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shared_map::SharedMap;
use smallvec::SmallVec;

use clock::Agenda;
pub use matching::{Grant, MatchOp};
pub use moving::{Later, Moved};
pub use options::Options;
pub use report::{
    EvenSupply, Explanation, LevelReport, LevelSupply, NodeUsage, PartReport, PoolSupply,
    PoolUsage, ShapeReport, Supply, TogetherSupply,
};
pub use update::{UpdateReader, Updated};

use crate::graph::{Graph, TypeId};
use crate::jobspec::{Jobspec, Resource};
use crate::limits::{ALTERNATIVE_RESOURCES_MAX, ALTERNATIVES_MAX};
use crate::policy::Policy;
use crate::pools::{Pools, SlotShape};
use crate::schedule::{Filters, Schedule, Term, Touch};
use crate::time::End;
use crate::traverser::nodes::NodeIndex;
use crate::traverser::weights::Weights;
use crate::traverser::{Left, Request, Traversal, Traverser};
use crate::writer::Writer;
use crate::{Error, Reason, readers};

/// The number of ended jobs that are remembered, the latest ones.
const ENDED_MAX: usize = 65_536;

/// A resource graph in use.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) graph: Graph,
    schedule: Schedule,
    weights: Weights,
    /// What spares walks over all nodes; made when it is needed.
    index: Option<Box<NodeIndex>>,
    /// The revision of the graph that cannot have one.
    unindexed: Option<u64>,
    /// Walk in any case: for tests.
    walks_always: bool,
    writer: Writer,
    options: Options,
    jobs: SharedMap<u64, Arc<Job>>,
    /// Jobs that have ended, and the order in which they did.
    ended: SharedMap<u64, JobInfo>,
    ended_order: VecDeque<u64>,
    /// Jobs of grants that could not be written: their resources stay taken.
    lost: Vec<(u64, Arc<Job>)>,
    /// The id of the next job that comes without one.
    next_job: u64,
    now: i64,
    /// When reservations start.
    starts: Agenda,
    /// When jobs that hold vertices end.
    ends: Agenda,
    /// Nodes that are up, counted as upstream counts them: not again when the graph grows.
    nodes_up: i64,
    /// The use of all vertices follows from the jobs that there are: nothing came, went or was left
    /// behind under jobs.
    follows_from_jobs: bool,
    /// Something was removed from the graph.
    has_shrunk: bool,
    /// Types that are taken with all that lies below them, whatever a request says.
    exclusive_kinds: Vec<TypeId>,
    /// The last obstacle of the last search.
    left: Cell<Left>,
    /// The state that the end of a trial restores.
    trial: Option<Box<trial::Trial>>,
    /// The call that runs now.
    call: asking::Call,
    memo: Memo,
}

/// The last arguments that were read: they often come again at once.
#[derive(Debug, Clone, Default)]
struct Memo {
    /// The shape charged last: pods of one kind often come in a row, and then share it.
    charged: Option<Arc<SlotShape>>,
    /// The text of a jobspec that was read last, and its jobspec: a planner asks several questions
    /// about one in a row.
    read: Option<(Box<str>, Arc<Jobspec>)>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobMode {
    /// It holds resources.
    Allocated,
    /// It will hold resources.
    Reserved,
    /// It has ended.
    Canceled,
}

impl JobMode {
    /// As upstream writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            JobMode::Allocated => "ALLOCATED",
            JobMode::Reserved => "RESERVED",
            JobMode::Canceled => "CANCELED",
        }
    }
}

/// The record of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobInfo {
    /// How it stands.
    pub mode: JobMode,
    /// When it starts, or started.
    pub at: i64,
    /// How long the match took, in seconds.
    pub overhead: f64,
}

/// Few jobs are on more than a handful of nodes.
type Ranks = SmallVec<[u32; 4]>;

#[derive(Debug, Clone)]
struct Job {
    info: JobInfo,
    term: Term,
    /// Ranks on which it has claims on pools, ascending.
    ranks: Ranks,
    /// Vertices that it holds or passes through, children before parents.
    touches: Vec<Touch>,
    /// A vertex was given back, and something below it was not.
    has_gaps: bool,
    /// Its start has come once, and there was no room.
    put_off: bool,
    /// The request of a reservation, on a graph with pools.
    spec: Option<Arc<Jobspec>>,
    /// How many slots it was granted.
    slots: u64,
    /// How many gains of room there had been when its place was looked for last; `None`: it was not
    /// to be as early as possible.
    gains: Option<u64>,
    /// Whether it was cancelled here or in a fork.
    canceled: Arc<AtomicBool>,
}

impl Job {
    fn new(info: JobInfo, term: Term) -> Self {
        Job {
            info,
            term,
            ranks: Ranks::new(),
            touches: Vec::new(),
            has_gaps: false,
            put_off: false,
            spec: None,
            slots: 0,
            gains: None,
            canceled: Arc::default(),
        }
    }

    /// The rows of the nodes on which it has slots, or is to have some; a node that was removed has
    /// none.
    fn rows<'a>(&'a self, pools: &'a Pools) -> impl Iterator<Item = usize> + 'a {
        self.ranks.iter().filter_map(|rank| pools.position(*rank))
    }

    /// How many slots it has, or is to have, on nodes that are there.
    fn slots_left(&self, pools: &Pools) -> u64 {
        self.rows(pools)
            .flat_map(|row| pools.ledger().placed(row, self.term.job))
            .map(|(_, count, _)| count)
            .sum()
    }

    /// As it stands, also by what happened to it in forks.
    fn info(&self) -> JobInfo {
        let canceled = self.canceled.load(Ordering::Relaxed);
        JobInfo { mode: if canceled { JobMode::Canceled } else { self.info.mode }, ..self.info }
    }
}

impl Engine {
    /// A graph from its document.
    pub fn new(document: &str, options: &str) -> Result<Self, Error> {
        let options = Options::read(options)?;
        let allowed = options.allowlist.clone().unwrap_or_default();
        let pool_types = options.pool_types.clone();
        let graph = readers::read(options.load_format, document, pool_types, &allowed)?;
        Engine::with_graph(graph, options)
    }

    /// A graph that was read before.
    pub fn with_graph(mut graph: Graph, options: Options) -> Result<Self, Error> {
        if options.policy.by_fill().is_some() && !graph.has_pool_types() {
            let text = "options: matcher_policy: binpack and spread need pool_types".to_owned();
            return Err(Error { reason: Reason::Setup, text });
        }
        graph.pools.effort.set_budget(options.search_budget);
        let filters = Filters::read(&options.prune_filters, &mut graph)
            .map_err(|error| error.as_reason(Reason::Setup))?;
        let mut schedule = Schedule::new(filters);
        schedule.prime(&graph);
        let mut weights = Weights::default();
        weights.prime(&graph);
        // As upstream: a node that the document has down is counted off twice.
        let nodes = graph.vertices().filter(|vertex| graph.is_node(*vertex));
        let nodes_up = nodes.map(|node| if graph.is_marked_up(node) { 1 } else { -1 }).sum();
        let mut engine = Engine {
            graph,
            schedule,
            weights,
            index: None,
            unindexed: None,
            walks_always: false,
            writer: Writer::default(),
            options,
            jobs: SharedMap::default(),
            ended: SharedMap::default(),
            ended_order: VecDeque::new(),
            lost: Vec::new(),
            next_job: 1,
            now: 0,
            starts: Agenda::new(),
            ends: Agenda::new(),
            nodes_up,
            follows_from_jobs: true,
            has_shrunk: false,
            exclusive_kinds: Vec::new(),
            left: Cell::new(Left::Nothing),
            trial: None,
            call: asking::Call::None,
            memo: Memo::default(),
        };
        // Now, so that the first match does not take longer than others.
        engine.refresh_index();
        Ok(engine)
    }

    /// A copy with the same graph and the same jobs, that goes its own way. As upstream, a job that
    /// both know and one of them cancels shows as cancelled in the other as well, which still holds
    /// its resources until it cancels it too.
    #[must_use]
    pub fn fork(&self) -> Self {
        Engine { call: asking::Call::None, ..self.clone() }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// From the next call on the searches of one call take at most `steps` steps together; `None`:
    /// as many as they need. A call that would need more fails with [`Reason::GaveUp`] and takes
    /// nothing. A step is a look at a node, a vertex or an instant: some tens of nanoseconds.
    pub fn set_search_budget(&mut self, steps: Option<u64>) {
        self.graph.pools.effort.set_budget(steps);
    }

    /// Steps that the searches of the last match, move, explanation or list of eligible ranks took,
    /// and whether the start that they found is proved to be the earliest: not so where the search
    /// gave up at some instant.
    pub fn search_effort(&self) -> (u64, bool) {
        (self.graph.pools.effort.spent(), self.graph.pools.effort.is_exact())
    }

    /// Seconds, as told last.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The id that the next job gets that comes without one.
    pub fn next_job(&self) -> u64 {
        self.next_job
    }

    /// The record of a job, also of one that has ended.
    pub fn info(&self, job: u64) -> Result<JobInfo, Error> {
        let alive = self.jobs.get(&job).map(|job| job.info());
        alive.or_else(|| self.ended.get(&job).copied()).ok_or_else(|| no_job(job))
    }

    /// All jobs, also those that have ended, by id.
    pub fn jobs(&self) -> Vec<(u64, JobInfo)> {
        let mut all: BTreeMap<u64, JobInfo> =
            self.ended.iter().map(|(id, info)| (*id, *info)).collect();
        all.extend(self.jobs.iter().map(|(id, job)| (*id, job.info())));
        all.into_iter().collect()
    }

    /// Number of jobs that hold or will hold resources.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Notes how long the match of a job took.
    pub fn set_overhead(&mut self, job: u64, seconds: f64) {
        self.note_job(job);
        if let Some(job) = self.jobs.get_mut(&job).map(Arc::make_mut) {
            job.info.overhead = seconds;
        }
    }

    /// Gives slots on rows to a job, which must exist, and remembers the ranks in it.
    fn claim(&mut self, rows: &[(usize, u64)], id: u64, slot: &Arc<SlotShape>, times: (i64, End)) {
        if let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) {
            for (row, _) in rows {
                let rank = self.graph.pools.ranks()[*row];
                if job.ranks.last().is_none_or(|last| *last < rank) {
                    job.ranks.push(rank);
                } else if let Err(at) = job.ranks.binary_search(&rank) {
                    job.ranks.insert(at, rank);
                }
            }
        }
        self.graph.pools.claim(rows, id, slot, times);
    }

    fn traversal(&self, policy: Policy) -> Traversal<'_> {
        Traversal {
            graph: &self.graph,
            schedule: &self.schedule,
            weights: &self.weights,
            index: self.index.as_deref().filter(|index| {
                index.is_of(&self.graph) && !self.graph.changes().has_other_properties()
            }),
            index_is_fresh: !self.schedule.is_touched() && !self.graph.changes().is_marked(),
            policy,
            traverser: self.options.traverser,
            now: self.now,
            nodes_up: self.nodes_up,
            exclusive_kinds: &self.exclusive_kinds,
            left: &self.left,
        }
    }

    /// Brings the index up to date, so that a search may use it.
    fn refresh_index(&mut self) {
        if self.walks_always || self.graph.has_pool_types() {
            return;
        }
        let (touched, (properties, marked)) =
            (self.schedule.take_touched(), self.graph.take_changes());
        let (graph, schedule) = (&self.graph, &self.schedule);
        match (self.index.as_deref_mut().filter(|index| index.is_of(graph)), touched) {
            (Some(index), Some(touched)) => {
                index.refresh(graph, schedule, &touched);
                index.refresh(graph, schedule, &marked);
                index.advance(graph, schedule, self.now);
                if properties {
                    index.forget_constraints();
                }
            }
            _ if self.unindexed == Some(graph.changes().revision()) => {}
            _ => {
                self.index = NodeIndex::new(graph, schedule, self.now).map(Box::new);
                self.unindexed = Some(graph.changes().revision()).filter(|_| self.index.is_none());
            }
        }
    }

    /// The requests that a jobspec stands for: one, unless an `xor_slot` leaves a choice.
    fn alternatives(&self, spec: &Jobspec) -> Result<Vec<Request>, Error> {
        let filters = &self.schedule.filters;
        if self.options.traverser == Traverser::Simple {
            return Ok(vec![Request::of(&self.graph, filters, spec, false)?]);
        }
        let mut requests = Vec::new();
        let each = count(&spec.resources).max(1);
        for resources in expand(&spec.resources, most(each))? {
            requests.push(Request::of(
                &self.graph,
                filters,
                &Jobspec { resources, ..spec.clone() },
                true,
            )?);
        }
        Ok(requests)
    }
}

/// How many alternatives there may be that have as many resources each.
fn most(each: usize) -> usize {
    (ALTERNATIVE_RESOURCES_MAX.max / each).clamp(1, ALTERNATIVES_MAX.max)
}

/// How many resources there are in a list, with all that they hold.
fn count(resources: &[Resource]) -> usize {
    resources.iter().map(|resource| 1 + count(&resource.with)).sum()
}

/// Sibling lists with each `xor_slot` decided, in order; `max` at most.
fn expand(siblings: &[Resource], max: usize) -> Result<Vec<Vec<Resource>>, Error> {
    let check = |alternatives: usize| {
        if alternatives <= max {
            return Ok(());
        }
        Err(Error {
            reason: Reason::Overflow,
            text: format!(
                "resources: xor_slot: more than {ALTERNATIVES_MAX}, or {ALTERNATIVE_RESOURCES_MAX}"
            ),
        })
    };
    let mut all: Vec<Vec<Resource>> = vec![Vec::new()];
    let mut choices: Vec<Resource> = Vec::new();
    for resource in siblings {
        let mut insides = expand(&resource.with, max)?;
        if &*resource.kind == "xor_slot" {
            check(choices.len() + insides.len())?;
            choices.extend(insides.into_iter().map(|with| with_inside("slot", resource, with)));
            continue;
        }
        check(all.len() * insides.len())?;
        if insides.len() == 1 {
            let only = with_inside(&resource.kind, resource, insides.swap_remove(0));
            for list in &mut all {
                list.push(only.clone());
            }
            continue;
        }
        let with_each = |before: &Vec<Resource>| {
            let lists = insides.iter().map(|with| {
                let mut list = before.clone();
                list.push(with_inside(&resource.kind, resource, with.clone()));
                list
            });
            lists.collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with_each).collect();
    }
    if choices.is_empty() {
        return Ok(all);
    }
    check(all.len() * choices.len())?;
    let with_each = |choice: &Resource| {
        let lists = all.iter().map(|list| {
            let mut list = list.clone();
            list.push(choice.clone());
            list
        });
        lists.collect::<Vec<_>>()
    };
    Ok(choices.iter().flat_map(with_each).collect())
}

/// A resource of another type that holds something else.
fn with_inside(kind: &str, resource: &Resource, with: Vec<Resource>) -> Resource {
    Resource { kind: kind.into(), with, label: resource.label.clone(), ..*resource }
}

fn no_job(id: u64) -> Error {
    Error::not_found(format!("nonexistent job {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobspec::Count;

    fn resource(kind: &str, with: Vec<Resource>) -> Resource {
        Resource { kind: kind.into(), count: Count::exactly(1), exclusive: None, label: None, with }
    }

    #[test]
    fn alternatives_are_limited_with_all_that_they_hold() {
        let of = |racks: usize, cores: usize| {
            let choice = |kind: &str| resource("xor_slot", vec![resource(kind, Vec::new())]);
            let rack = resource("rack", vec![choice("core"), choice("gpu")]);
            let mut siblings = vec![rack; racks];
            siblings.push(resource("node", vec![resource("core", Vec::new()); cores]));
            siblings
        };
        let expanded = |siblings: &[Resource]| {
            let each = count(siblings);
            expand(siblings, most(each)).map(|all| all.len())
        };
        assert_eq!(expanded(&of(9, 1)).unwrap(), 512);
        for siblings in [
            of(10, 1),
            of(9, 10_000),
            vec![resource("xor_slot", Vec::new()); ALTERNATIVES_MAX.max + 1],
        ] {
            let error = expanded(&siblings).unwrap_err();
            assert_eq!(error.reason, Reason::Overflow, "{error}");
        }
        // Without a choice there is one, however long it is.
        assert_eq!(expanded(&of(0, 200_000)).unwrap(), 1);
        assert_eq!(expanded(&vec![resource("core", Vec::new()); 200_000]).unwrap(), 1);
    }
}
