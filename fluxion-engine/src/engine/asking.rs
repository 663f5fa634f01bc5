//! Calls: a call that has only asked, also one that was about to change something, leaves the graph
//! as it was where a defect ends it by a panic.
//!
//! A call asks until it begins to change something: until then it parses, checks and searches. The
//! little that this changes is kept beside it: the memory of the writer, the id of the next job,
//! types that are exclusive from then on. All else that is written is an index, which is made again
//! when it is needed.

use super::{Before, Engine};
use crate::Error;

impl Engine {
    /// Begins a call, and ends the one before: a panic until it changes something can be taken back
    /// by [`Engine::take_back_question`].
    pub fn begin_call(&mut self) {
        self.call = Some(self.before());
        self.book.set_called(true);
    }

    /// Runs a question as a call, or as a part of the call that runs already.
    pub fn asking<T>(&mut self, question: impl FnOnce(&mut Engine) -> T) -> T {
        if self.book.is_called() {
            return question(self);
        }
        self.begin_call();
        let answer = question(self);
        self.book.set_called(false);
        self.call = None;
        answer
    }

    /// After a panic that was caught: restores the state from before the call that has panicked, if
    /// that had changed nothing yet, or was taking a place. False if it had changed more: then the
    /// engine cannot be relied on.
    #[must_use]
    pub fn take_back_question(&mut self) -> bool {
        let Some(before) = self.call.take().filter(|_| self.book.take_back()) else {
            return false;
        };
        self.restore(before);
        self.searches.forget();
        self.memo.forget_spec();
        true
    }

    /// Begins a trial: all that is done in it is taken back at its end. There is one at a time.
    pub fn begin_trial(&mut self) -> Result<(), Error> {
        self.book.begin_trial()?;
        self.trial = Some(self.before());
        Ok(())
    }

    /// Ends a trial: all is as it was when it began.
    pub fn end_trial(&mut self) -> Result<(), Error> {
        self.book.end_trial()?;
        if let Some(mut before) = self.trial.take() {
            before.left = self.searches.left();
            self.restore(before);
        }
        self.searches.go_back(self.book.now());
        Ok(())
    }

    /// The values beside the book as they are.
    pub(super) fn before(&self) -> Before {
        Before {
            writer: self.writer.clone(),
            exclusive_kinds: self.searches.exclusive_kinds().to_vec(),
            next_job: self.next_job,
            left: self.searches.left(),
        }
    }

    pub(super) fn restore(&mut self, before: Before) {
        let Before { writer, exclusive_kinds, next_job, left } = before;
        (self.writer, self.next_job) = (writer, next_job);
        self.searches.set_exclusive_kinds(exclusive_kinds);
        self.searches.set_left(left);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::engine::Engine;
    use crate::engine::defects::WANTED;
    use crate::{MatchFormat, MatchOp};

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
        let Engine { book, searches, writer, next_job, .. } = engine;
        let (graph, jobs) = (book.graph(), book.jobs());
        let of_row = |row| format!("{:?}", graph.pools.by_node().uses(row));
        let rows: Vec<String> = (0..graph.pools.len()).map(of_row).collect();
        let held: Vec<String> = jobs.iter().map(|job| format!("{job:?}")).collect();
        let vertices = graph
            .vertices()
            .map(|vertex| (book.schedule().planner(vertex), book.schedule().spans(vertex)));
        let vertices: Vec<String> = vertices.map(|of| format!("{of:?}")).collect();
        format!(
            "{vertices:?} {:?} {writer:?} {:?} {held:?} {:?} {:?} {rows:?} {next_job} {} {}",
            book.weights(),
            searches.exclusive_kinds(),
            jobs.infos(),
            jobs.lost(),
            book.now(),
            searches.nodes_up(),
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
