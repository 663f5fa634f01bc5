//! A call that fails changes nothing: random sequences of calls, many of them wrong, and the whole
//! book before and after each that fails.
//!
//! `FLUXION_FAILING_SEEDS=1000 cargo test -p fluxion-engine --test failing_calls` runs as many
//! seeds; the default is fewer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod random;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fluxion_engine::{Engine, Error, MatchFormat, MatchOp, Reason};
use random::Random;

const RANKS: u32 = 4;

impl Random {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// The text, or, now and then, one that is cut or changed somewhere.
    fn spoilt(&mut self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        if bytes.is_empty() || self.below(2) == 0 {
            return text.to_owned();
        }
        let at = self.below(bytes.len());
        match self.below(4) {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            _ => bytes[at] = self.one(b"0123456789{}[]\",:-ac/"),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Nodes of these ranks, with all that lies below them, as a document with an existing root.
fn document(ranks: std::ops::Range<u32>) -> String {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |uniq: u32, above: Option<u32>, kind: &str, id: u32, rank: i64, path: &str| {
        nodes.push(format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{id},"uniq_id":{uniq},"rank":{rank},"size":{},"paths":{{"containment":"{path}"}}}}}}"#,
            if kind == "memory" { 8 } else { 1 }
        ));
        edges.extend(above.map(|above| format!(r#"{{"source":"{above}","target":"{uniq}"}}"#)));
    };
    add(0, None, "cluster", 0, -1, "/cluster0");
    for rank in ranks {
        let (first, node) = (1 + 4 * rank, format!("/cluster0/node{rank}"));
        add(first, Some(0), "node", rank, rank.into(), &node);
        for core in 0..2 {
            add(
                first + 1 + core,
                Some(first),
                "core",
                core,
                rank.into(),
                &format!("{node}/core{core}"),
            );
        }
        add(first + 3, Some(first), "memory", 0, rank.into(), &format!("{node}/memory0"));
    }
    format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","))
}

fn jobspec(resources: &str, duration: u32) -> String {
    format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":[{{"command":["a"],"slot":"s","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{duration}}}}}}}"#
    )
}

/// All that can be seen of an engine. A copy answers, so that the questions leave no trace.
fn book(engine: &Engine) -> String {
    let mut copy = engine.fork();
    let mut book = format!(
        "{:?} {} {} {}\n",
        engine.jobs(),
        engine.now(),
        engine.graph().len(),
        engine.graph().edges()
    );
    for criteria in
        ["status=up or status=down", "status=down", "sched-now=allocated", "sched-future=reserved"]
    {
        writeln!(book, "{:?}", copy.find(criteria, MatchFormat::Jgf, true)).unwrap();
    }
    for (id, _) in engine.jobs() {
        writeln!(
            book,
            "{:?}",
            copy.find(&format!("jobid-alloc={id} or jobid-reserved={id}"), MatchFormat::Jgf, true)
        )
        .unwrap();
    }
    for rank in 0..RANKS + 2 {
        writeln!(book, "{:?} {:?}", engine.usage(rank), engine.rank_status(&rank.to_string()))
            .unwrap();
        writeln!(book, "{:?}", engine.properties(&format!("/cluster0/node{rank}"))).unwrap();
    }
    writeln!(book, "{:?}", engine.level("rack")).unwrap();
    book
}

struct Run {
    random: Random,
    engine: Engine,
    /// Grants, as R.
    granted: Vec<String>,
    /// How many calls failed, by function.
    failed: BTreeMap<&'static str, u32>,
}

impl Run {
    fn id(&mut self) -> u64 {
        u64::try_from(self.random.below(12)).unwrap()
    }

    fn rank(&mut self) -> u32 {
        u32::try_from(self.random.below(RANKS as usize + 2)).unwrap()
    }

    fn path(&mut self) -> String {
        let node = format!("/cluster0/node{}", self.rank());
        let end = self.random.one(&["", "", "/core0", "/core1", "/memory0", "/core7", "/"]);
        if self.random.below(8) == 0 {
            self.random.one(&["", "/", "/cluster0", "cluster0"]).to_owned()
        } else {
            node + end
        }
    }

    fn spec(&mut self) -> String {
        let part = |kind: &str, count: usize| format!(r#"{{"type":"{kind}","count":{count}}}"#);
        let kind = self.random.one(&["core", "memory", "memory", "node", "gpu"]);
        let count = 1 + self.random.below(3);
        let slots = 1 + self.random.below(5);
        let slot = format!(
            r#"{{"type":"slot","label":"s","count":{slots},"with":[{}]}}"#,
            part(kind, count)
        );
        let slot = match self.random.below(4) {
            0 => format!(r#"{{"type":"node","count":{count},"with":[{slot}]}}"#),
            1 => slot
                .replace(r#""count":1"#, r#""count":{"min":1,"max":3,"operator":"+","operand":1}"#),
            _ => slot,
        };
        let duration = self.random.one(&[0, 5, 20, 60]);
        let spec = jobspec(&slot, duration);
        if self.random.below(4) == 0 { self.random.spoilt(&spec) } else { spec }
    }

    fn r(&mut self) -> String {
        let r =
            if self.granted.is_empty() { "{}".to_owned() } else { self.random.one(&self.granted) };
        self.random.spoilt(&r)
    }

    /// Makes a call: its name, and how it ended.
    fn call(&mut self) -> (&'static str, Result<(), Error>) {
        let which = self.random.below(18);
        let (id, rank) = (self.id(), self.rank());
        match which {
            0..4 => {
                let op = self.random.one(&[
                    MatchOp::Allocate,
                    MatchOp::Allocate,
                    MatchOp::AllocateWithSatisfiability,
                    MatchOp::AllocateOrElseReserve,
                    MatchOp::Satisfiability,
                    MatchOp::WithoutAllocating,
                    MatchOp::WithoutAllocatingFuture,
                ]);
                let spec = self.spec();
                // An id of a job that lives is not noticed without pools: that job is forgotten, as
                // upstream forgets it.
                let id =
                    if self.engine.info(id).is_ok() { self.engine.next_job() + 100 } else { id };
                let answer = self.engine.match_job(op, &spec, id);
                ("match", answer.map(|grant| self.granted.push(grant.r)))
            }
            4 | 5 => ("cancel", self.engine.cancel(id)),
            6 => {
                let r = self.r();
                let answer = self.engine.update_allocate(id, &r);
                ("update_allocate", answer.map(|grant| self.granted.push(grant.r)))
            }
            7 => {
                let r = self.r();
                ("partial_cancel", self.engine.partial_cancel(id, &r).map(drop))
            }
            8 => {
                let text = document(rank..rank + 1 + u32::from(self.random.below(3) == 0));
                let text = self.random.spoilt(&text);
                ("add_subgraph", self.engine.add_subgraph(&text))
            }
            9 => {
                let path = self.path();
                // The machine is to last.
                let rare = self.random.below(3) == 0 || !path.starts_with("/cluster0/");
                if rare {
                    ("remove_subgraph", self.engine.remove_subgraph(&path))
                } else {
                    ("status", Ok(()))
                }
            }
            10 => {
                let (path, up) = (self.path(), self.random.below(3) > 0);
                ("set_status", self.engine.set_status(&path, up))
            }
            11 => {
                let ranks = self.random.one(&["0", "1-2", "0,9", "3,7-8", "x", "", "2-1"]);
                let up = self.random.below(3) > 0;
                ("set_rank_status", self.engine.set_rank_status(ranks, up))
            }
            12 => {
                let kind = self.random.one(&["memory", "memory", "core", "", "gpu"]);
                let size = u64::try_from(self.random.below(12)).unwrap();
                ("resize", self.engine.resize(rank, kind, size))
            }
            13 => {
                let charge = format!(
                    r#"{{"label":"s","rank":{rank},"count":2,"with":{{"memory":2}},"end":40}}"#
                );
                let charge = self.random.spoilt(&charge);
                ("charge", self.engine.charge(id, &charge))
            }
            14 => {
                let count = u64::try_from(self.random.below(4)).unwrap();
                ("release", self.engine.release(id, rank, "s", count))
            }
            15 => {
                let (ranks, part) =
                    (self.random.one(&["0-1", "2", "x", ""]), self.random.one(&["a", "b", ""]));
                let level = self.random.one(&["rack", ""]);
                ("set_part", self.engine.set_part(level, ranks, part))
            }
            16 => match self.random.below(4) {
                0 => ("remove_rank", self.engine.remove_rank(rank + 2)),
                1 => {
                    let ranks = self.random.one(&["3", "9", "x", "4-5"]);
                    ("remove_ranks", self.engine.remove_ranks(ranks))
                }
                2 => ("end_trial", self.engine.end_trial()),
                _ => {
                    let path = self.path();
                    ("set_property", self.engine.set_property(&path, "p", "v"))
                }
            },
            _ => match self.random.below(3) {
                0 => ("move", self.engine.move_reservation(id).map(drop)),
                1 => ("set_time", self.engine.set_time(i64::MAX)),
                _ => ("set_time", self.engine.set_time(self.engine.now() + 7)),
            },
        }
    }
}

fn run(
    seed: u64,
    policy: &str,
    format: &str,
    pools: &str,
    failed: &mut BTreeMap<&'static str, u32>,
) {
    let options = format!(
        r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"{format}","pool_types":[{pools}]}}"#
    );
    let engine = Engine::new(&document(0..RANKS), &options).unwrap();
    let random = Random(0x9E37_79B9_7F4A_7C15 ^ (seed + 1));
    let mut run = Run { random, engine, granted: Vec::new(), failed: BTreeMap::new() };
    let mut before = book(&run.engine);
    for step in 0..120 {
        let (name, answer) = run.call();
        let after = book(&run.engine);
        if let Err(error) = answer {
            *run.failed.entry(name).or_default() += 1;
            // A grant that cannot be written is taken all the same, as upstream takes it: the
            // header says so.
            if error.text.contains("match writer emit") {
                before = after;
                continue;
            }
            assert_eq!(
                before, after,
                "seed {seed}, {policy}, {format}, [{pools}], step {step}: {name}: {error}"
            );
        }
        before = after;
    }
    for (name, count) in run.failed {
        *failed.entry(name).or_default() += count;
    }
}

#[test]
fn a_call_that_fails_changes_nothing() {
    let seeds = std::env::var("FLUXION_FAILING_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(60_u64);
    let mut failed = BTreeMap::new();
    for seed in 0..seeds {
        for (policy, format, pools) in [
            ("lonode", "rv1", ""),
            ("first", "jgf", ""),
            ("low", "rv1_nosched", r#""memory""#),
            ("high", "jgf", r#""memory","core""#),
        ] {
            run(seed, policy, format, pools, &mut failed);
        }
    }
    // Each of them has failed, or it would not be known what becomes of it.
    for name in [
        "match",
        "cancel",
        "update_allocate",
        "partial_cancel",
        "add_subgraph",
        "remove_subgraph",
        "set_status",
        "set_rank_status",
        "resize",
        "charge",
        "release",
        "set_part",
        "remove_rank",
        "remove_ranks",
        "end_trial",
        "set_property",
        "move",
        "set_time",
    ] {
        assert!(failed.contains_key(name), "{name} has never failed: {failed:?}");
    }
}

/// The caller has no memory for the answer, for one.
#[test]
fn a_move_that_the_caller_cannot_use_changes_nothing() {
    for format in ["rv1_nosched", "placement"] {
        let options =
            format!(r#"{{"load_format":"jgf","match_format":"{format}","pool_types":["memory"]}}"#);
        let mut engine = Engine::new(&document(0..RANKS), &options).unwrap();
        let slot = r#"{"type":"slot","label":"s","count":1,"with":[{"type":"memory","count":8}]}"#;
        for job in 0..=u64::from(RANKS) {
            engine.match_job(MatchOp::AllocateOrElseReserve, &jobspec(slot, 20), job).unwrap();
        }
        engine.cancel(1).unwrap();
        let (job, before) = (u64::from(RANKS), book(&engine));
        let refused = Error { reason: Reason::Invalid, text: "no room for the answer".to_owned() };
        let answer = engine.move_reservation_if(job, |moved| {
            assert_eq!((moved.at, moved.reserved, moved.r.is_empty()), (0, false, false));
            Err(refused.clone())
        });
        assert_eq!(answer.unwrap_err().text, refused.text);
        assert_eq!(book(&engine), before);
        let moved = engine.move_reservation(job).unwrap();
        assert_eq!((moved.at, moved.reserved), (0, false));
    }
}
