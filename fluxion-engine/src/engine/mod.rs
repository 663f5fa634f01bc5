//! Graph, jobs and time together: the operations that the C ABI offers.
//!
//! Every operation either succeeds as a whole or changes nothing. Time only moves by
//! [`Engine::set_time`]; a job past its end keeps its resources until it is cancelled.

mod alternatives;
mod ask;
mod asking;
mod defects;
mod elastic;
mod extensions;
mod find;
mod granting;
mod job_id;
mod matching;
mod memo;
pub(crate) mod moving;
pub(crate) mod op;
pub(crate) mod options;
mod partial;
pub(crate) mod report;
mod searches;
mod sight;
mod status;
mod units;
pub(crate) mod update;
#[cfg(test)]
mod walks;

use memo::Memo;
use options::Options;
use searches::Searches;
#[cfg(test)]
pub(crate) use searches::kept_and_made;
use sight::Sight;

use crate::book::Book;
use crate::book::job::JobInfo;
use crate::graph::{Graph, TypeId};
use crate::schedule::Filters;
use crate::time::NOW_MAX;
use crate::vertex_search::Left;
use crate::writer::Writer;
use crate::{Error, Reason, readers};

/// A resource graph in use.
#[derive(Debug, Clone)]
pub struct Engine {
    book: Book,
    searches: Searches,
    writer: Writer,
    options: Options,
    /// The id of the next job that comes without one.
    next_job: u64,
    memo: Memo,
    /// The values that a question may have changed, when the call began that runs now.
    call: Option<Before>,
    /// The same when the trial began.
    trial: Option<Before>,
}

/// Values beside the book that a question may change, as they were.
#[derive(Debug, Clone)]
struct Before {
    writer: Writer,
    exclusive_kinds: Vec<TypeId>,
    next_job: u64,
    left: Left,
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
        let searches = Searches::new(&graph);
        let mut engine = Engine {
            book: Book::new(graph, filters),
            searches,
            writer: Writer::default(),
            options,
            next_job: 1,
            memo: Memo::default(),
            call: None,
            trial: None,
        };
        // Now, so that the first match does not take longer than others. On a graph with pools most
        // matches do not need it.
        if !engine.graph().has_pool_types() {
            engine.searches.refresh(&mut engine.book);
        }
        Ok(engine)
    }

    /// A copy with the same graph and the same jobs, that goes its own way. As upstream (Q17), a
    /// job that both know and one of them cancels shows as cancelled in the other as well, which
    /// still holds its resources until it cancels it too.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut copy = Engine { call: None, ..self.clone() };
        copy.book.set_called(false);
        copy
    }

    /// The book.
    #[cfg(test)]
    pub(crate) fn book(&self) -> &Book {
        &self.book
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        self.book.graph()
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// From the next call on the searches of one call take at most `steps` steps together; `None`:
    /// as many as they need. A call that would need more fails with [`Reason::GaveUp`] and takes
    /// nothing. A step is a look at a node, a vertex or an instant: some tens of nanoseconds.
    pub fn set_search_budget(&mut self, steps: Option<u64>) {
        self.book.set_budget(steps);
    }

    /// Steps that the searches of the last match, move, explanation or list of eligible ranks took,
    /// and whether the start that they found is proved to be the earliest: not so where the search
    /// gave up at some instant.
    pub fn search_effort(&self) -> (u64, bool) {
        let effort = &self.graph().pools.effort;
        (effort.spent(), effort.is_exact())
    }

    /// Seconds, as told last.
    pub fn now(&self) -> i64 {
        self.book.now()
    }

    /// Moves the present to `now`, in seconds. It never goes back: an earlier instant changes
    /// nothing, and one beyond [`NOW_MAX`] is refused.
    ///
    /// A reservation that is due becomes an allocation if there is room where it has its
    /// place, in the order of starts and ids; else it stays a reservation, and begins in the next
    /// second at the earliest.
    pub fn set_time(&mut self, now: i64) -> Result<(), Error> {
        if now > NOW_MAX {
            return Err(Error::invalid(format!(
                "time: {now} is beyond {NOW_MAX}, the last second that the present can be"
            )));
        }
        if now > self.now() {
            self.book.advance(now);
        }
        Ok(())
    }

    /// The id that the next job gets that comes without one.
    pub fn next_job(&self) -> u64 {
        self.next_job
    }

    /// The record of a job, also of one that has ended.
    pub fn info(&self, job: u64) -> Result<JobInfo, Error> {
        self.book.jobs().info(job)
    }

    /// All jobs, also those that have ended, by id.
    pub fn jobs(&self) -> Vec<(u64, JobInfo)> {
        self.book.jobs().infos()
    }

    /// Number of jobs that hold or will hold resources.
    pub fn job_count(&self) -> usize {
        self.book.jobs().len()
    }

    /// Notes how long the match of a job took.
    pub fn set_overhead(&mut self, job: u64, seconds: f64) {
        self.book.set_overhead(job, seconds);
    }

    /// Gives back everything of a job.
    pub fn cancel(&mut self, job: u64) -> Result<(), Error> {
        self.book.cancel(job)
    }

    /// The state that questions are about.
    fn sight(&self) -> Sight<'_> {
        Sight { book: &self.book, searches: &self.searches, options: &self.options }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Engine, JobMode, MatchOp};

    const CLUSTER: &str = r#"{"graph":{"nodes":[
        {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
        {"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/node0"}}},
        {"id":"2","metadata":{"type":"core","id":0,"rank":0,"paths":{"containment":"/c0/node0/core0"}}}],
        "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}"#;
    const OPTIONS: &str =
        r#"{"load_format":"jgf","matcher_policy":"first","match_format":"rlite"}"#;
    const JOBSPEC: &str = r#"{"version":1,"resources":[{"type":"slot","count":1,"label":"s","with":[{"type":"core","count":1}]}],
        "tasks":[{"command":["a"],"slot":"s","count":{"per_slot":1}}],"attributes":{"system":{"duration":1000}}}"#;

    #[test]
    fn jobs_that_are_cancelled_long_before_their_time_leave_nothing_on_the_agendas() {
        let mut engine = Engine::new(CLUSTER, OPTIONS).expect("a graph");
        for _ in 0..1_000 {
            let ends =
                engine.match_next(MatchOp::Allocate, JOBSPEC).expect("it fits").job.expect("an id");
            let starts = engine
                .match_next(MatchOp::AllocateOrElseReserve, JOBSPEC)
                .expect("later")
                .job
                .expect("an id");
            for job in [starts, ends] {
                engine.cancel(job).expect("it is there");
            }
        }
        let longest = engine.book.longest_agenda();
        assert!(longest <= 69, "{longest} entries");
        // Entries of living jobs are handled when their time comes.
        let runs =
            engine.match_next(MatchOp::Allocate, JOBSPEC).expect("it fits").job.expect("an id");
        let next = engine
            .match_next(MatchOp::AllocateOrElseReserve, JOBSPEC)
            .expect("later")
            .job
            .expect("an id");
        for _ in 0..200 {
            let other = engine
                .match_next(MatchOp::AllocateOrElseReserve, JOBSPEC)
                .expect("later")
                .job
                .expect("an id");
            engine.cancel(other).expect("it is there");
        }
        engine.cancel(runs).expect("it is there");
        engine.set_time(1_000).expect("it is later");
        assert_eq!(engine.info(next).expect("it is there").mode, JobMode::Allocated);
    }
}
