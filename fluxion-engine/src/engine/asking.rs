//! Calls: a call that has only asked, also one that was about to change something, leaves the graph
//! as it was where a defect ends it by a panic.
//!
//! A call asks until it begins to change something: until then it parses, checks and searches. The
//! little that this changes is kept beside it: the memory of the writer, the id of the next job,
//! types that are exclusive from then on. All else that is written is an index, which is made again
//! when it is needed.

use std::sync::Arc;

use super::{Engine, Job};
use crate::graph::TypeId;
use crate::traverser::Left;
use crate::writer::Writer;

/// A defect, where a test asks for one. Elsewhere nothing.
#[cfg(test)]
pub(super) fn defect(place: &'static str) {
    assert!(tests::WANTED.get() != Some(place), "{place}: a defect, as wanted");
}

#[cfg(not(test))]
#[inline]
pub(super) fn defect(_: &'static str) {}

/// How far the call has come that runs now.
#[derive(Debug, Clone, Default)]
pub(super) enum Call {
    /// No call runs.
    #[default]
    None,
    /// The call has changed nothing but this.
    Asks(Before),
    /// The call takes a place for a job, and has changed nothing else.
    Takes(Box<Taking>),
    /// The call has begun to change jobs, vertices or the graph.
    Changes,
}

/// The state before a job takes a place.
#[derive(Debug, Clone)]
pub(super) struct Taking {
    before: Before,
    job: u64,
    /// An older job of the same id.
    older: Option<Arc<Job>>,
    lost: Vec<(u64, Arc<Job>)>,
}

/// Values that a question may have changed when it panics, as they were before.
#[derive(Debug, Clone)]
pub(super) struct Before {
    writer: Writer,
    exclusive_kinds: Vec<TypeId>,
    next_job: u64,
    left: Left,
}

impl Call {
    /// The job has its place: a later panic of the call cannot be taken back.
    pub(super) fn has_taken(&mut self) {
        if let Call::Takes(_) = self {
            *self = Call::Changes;
        }
    }
}

impl Engine {
    /// Begins a call, and ends the one before: a panic until it changes something can be taken back
    /// by [`Engine::take_back_question`].
    pub fn begin_call(&mut self) {
        self.call = Call::Asks(Before {
            writer: self.writer.clone(),
            exclusive_kinds: self.exclusive_kinds.clone(),
            next_job: self.next_job,
            left: self.left.get(),
        });
    }

    /// Runs a question as a call, or as a part of the call that runs already.
    pub fn asking<T>(&mut self, question: impl FnOnce(&mut Engine) -> T) -> T {
        if !matches!(self.call, Call::None) {
            return question(self);
        }
        self.begin_call();
        let answer = question(self);
        self.call = Call::None;
        answer
    }

    /// Has to be called before a call changes anything: a panic after this cannot be taken back.
    #[inline]
    pub(super) fn changes_from_now_on(&mut self) {
        if let Call::Asks(_) = self.call {
            self.call = Call::Changes;
        }
    }

    /// Has to be called before a job takes a place that was found: until the call changes anything
    /// else, the job can be dropped again.
    pub(super) fn takes_from_now_on(&mut self, job: u64) {
        // Where a graph has grown or shrunk under jobs, what planners make of it does not follow
        // from the jobs that there are, and neither does the use that a job with gaps leaves behind.
        if !self.follows_from_jobs {
            return self.changes_from_now_on();
        }
        self.call = match std::mem::take(&mut self.call) {
            Call::Asks(before) => Call::Takes(Box::new(Taking {
                before,
                job,
                older: self.jobs.get(&job).cloned(),
                lost: self.lost.clone(),
            })),
            other => other,
        };
    }

    /// After a panic that was caught: restores the state from before the call that has panicked, if
    /// that had changed nothing yet, or was taking a place. False if it had changed more: then the
    /// engine cannot be relied on.
    #[must_use]
    pub fn take_back_question(&mut self) -> bool {
        let before = match std::mem::take(&mut self.call) {
            Call::Asks(before) => before,
            Call::Takes(taking) => take_back(self, *taking),
            Call::None | Call::Changes => return false,
        };
        let Before { writer, exclusive_kinds, next_job, left } = before;
        (self.writer, self.exclusive_kinds, self.next_job) = (writer, exclusive_kinds, next_job);
        self.left.set(left);
        (self.index, self.unindexed, self.memo.read) = (None, None, None);
        self.graph.pools.forget_indexes();
        true
    }
}

/// Drops a job that has taken a part of its place, and counts all others again.
fn take_back(engine: &mut Engine, taking: Taking) -> Before {
    let Taking { before, job, older, lost } = taking;
    engine.jobs.remove(&job);
    if let Some(older) = older {
        engine.jobs.insert(job, older);
    }
    engine.lost = lost;
    engine.follows_from_jobs = true;
    engine.graph.pools.drop_job(job);
    engine.schedule.clear(&engine.graph);
    let lost = engine.lost.iter().map(|(_, job)| job);
    for job in engine.jobs.values().chain(lost) {
        for touch in &job.touches {
            engine.schedule.add(&engine.graph, job.term, touch);
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::{MatchFormat, MatchOp};

    thread_local! {
        /// Where there is to be a defect.
        pub(super) static WANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Two nodes with two cores and, where that is a pool, memory.
    fn machine(policy: &str, format: &str, pools: &str) -> Engine {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let mut add = |uniq: usize,
                       above: Option<usize>,
                       kind: &str,
                       id: usize,
                       rank: i64,
                       path: &str| {
            nodes.push(format!(
                r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},"size":4,"paths":{{"containment":"{path}"}}}}}}"#
            ));
            edges.extend(above.map(|above| format!(r#"{{"source":"{above}","target":"{uniq}"}}"#)));
        };
        add(0, None, "cluster", 0, -1, "/cluster0");
        for (rank, first) in [(0, 1), (1, 5)] {
            let node = format!("/cluster0/node{rank}");
            add(first, Some(0), "node", first, rank, &node);
            add(first + 1, Some(first), "core", 0, rank, &format!("{node}/core0"));
            add(first + 2, Some(first), "core", 1, rank, &format!("{node}/core1"));
            add(first + 3, Some(first), "memory", 0, rank, &format!("{node}/memory0"));
        }
        let graph = format!(
            r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
            nodes.join(","),
            edges.join(",")
        );
        let options = format!(
            r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"{format}","pool_types":[{pools}]}}"#
        );
        Engine::new(&graph, &options).unwrap()
    }

    fn spec(kind: &str, count: u64, system: &str) -> String {
        format!(
            r#"{{"version":1,"resources":[{{"type":"slot","label":"s","count":1,"with":[{{"type":"{kind}","count":{count}}}]}}],"tasks":[{{"command":["a"],"slot":"s","count":{{"per_slot":1}}}}],"attributes":{{"system":{{{system}}}}}}}"#
        )
    }

    /// All of the book, and of what else answers follow from.
    fn state(engine: &Engine) -> String {
        let Engine {
            schedule,
            weights,
            writer,
            exclusive_kinds,
            jobs,
            ended,
            lost,
            next_job,
            now,
            nodes_up,
            ..
        } = engine;
        let pools = &engine.graph.pools;
        let of_row = |row| {
            let placed =
                jobs.iter().map(|(id, _)| pools.ledger().placed(row, *id).collect::<Vec<_>>());
            format!("{:?} {:?}", pools.ledger().uses(row), placed.collect::<Vec<_>>())
        };
        let rows: Vec<String> = (0..pools.len()).map(of_row).collect();
        let held: Vec<String> = jobs.iter().map(|job| format!("{job:?}")).collect();
        let ended: Vec<String> = ended.iter().map(|job| format!("{job:?}")).collect();
        let vertices = engine
            .graph
            .vertices()
            .map(|vertex| (schedule.planner(vertex), schedule.holds(vertex)));
        let vertices: Vec<String> = vertices.map(|of| format!("{of:?}")).collect();
        format!(
            "{vertices:?} {weights:?} {writer:?} {exclusive_kinds:?} {held:?} {ended:?} {lost:?} {rows:?} {next_job} {now} {nodes_up}"
        )
    }

    const OPS: [MatchOp; 6] = [
        MatchOp::Allocate,
        MatchOp::AllocateWithSatisfiability,
        MatchOp::AllocateOrElseReserve,
        MatchOp::Satisfiability,
        MatchOp::WithoutAllocating,
        MatchOp::WithoutAllocatingFuture,
    ];

    /// Every question, and every match.
    fn ask(engine: &mut Engine, which: usize, text: &str) {
        let _ = match which {
            0..6 => engine.match_next(OPS[which], text).map(drop),
            6..12 => engine.match_job(OPS[which - 6], text, 77).map(drop),
            12 => engine.satisfy(text),
            13 => engine.eligible(text).map(drop),
            14 => engine.explain(text).map(drop),
            _ => engine.find("status=up", MatchFormat::Rv1, true).map(drop),
        };
    }

    #[test]
    fn a_defect_in_a_question_or_a_match_leaves_all_as_it_was() {
        let places = [
            "jobspec read",
            "index refreshed",
            "types exclusive",
            "nothing written",
            "grant written",
            "weights read",
            "vertices written",
            "taking",
        ];
        let specs = [
            spec("core", 1, r#""duration":60"#),
            spec("core", 2, r#""duration":60,"queue":"night""#),
            spec("node", 1, r#""duration":60"#),
            spec("node", 3, r#""duration":60"#),
            spec("memory", 3, r#""duration":60"#),
            spec("core", 1, r#""duration":-1"#),
        ];
        let mut seen = [0; 8];
        for (policy, format, pools) in [
            ("first", "rv1", ""),
            ("low", "rv1_shorthand", ""),
            ("first", "rv1_nosched", r#""memory""#),
            ("high", "placement", r#""memory","core""#),
        ] {
            let mut engine = machine(policy, format, pools);
            engine.match_job(MatchOp::Allocate, &specs[0], 1).map(drop).unwrap_or_default();
            engine
                .match_job(MatchOp::AllocateOrElseReserve, &specs[2], 3)
                .map(drop)
                .unwrap_or_default();
            for (nth, place) in places.into_iter().enumerate() {
                for (which, text) in
                    (0..16).flat_map(|which| specs.iter().map(move |text| (which, text)))
                {
                    let (mut tried, mut other) = (engine.fork(), engine.fork());
                    let before = state(&tried);
                    WANTED.set(Some(place));
                    let run = catch_unwind(AssertUnwindSafe(|| ask(&mut tried, which, text)));
                    WANTED.set(None);
                    if run.is_ok() {
                        continue;
                    }
                    assert!(tried.take_back_question(), "{place}: {which} {text}");
                    seen[nth] += 1;
                    assert_eq!(state(&tried), before, "{place}: {which} {text}");
                    // It answers on as one to which nothing happened.
                    for (which, text) in [1, 2, 8, 10, 15]
                        .into_iter()
                        .flat_map(|at| specs.iter().map(move |text| (at, text)))
                    {
                        ask(&mut tried, which, text);
                        ask(&mut other, which, text);
                        assert_eq!(state(&tried), state(&other), "after {place}");
                    }
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }

    #[test]
    fn nothing_is_taken_back_where_nothing_was_asked() {
        let mut engine = machine("first", "rv1", "");
        assert!(!engine.take_back_question());
        engine
            .match_next(MatchOp::WithoutAllocating, &spec("core", 1, r#""duration":60"#))
            .unwrap();
        assert!(!engine.take_back_question());
    }
}
