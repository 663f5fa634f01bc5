//! A budget of steps: with enough of them a call answers as without a budget, with fewer it says
//! that it gave up, and changes nothing but the id of the next job.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod random;

use fluxion_engine::{Engine, Error, Grant, MatchFormat, MatchOp, Reason};
use random::Random;

const NODES: u32 = 24;

/// Racks of eight nodes with two cores and 8 units of memory each.
fn machine(options: &str) -> Engine {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |above: Option<usize>, kind: &str, id: u32, rank: i64, path: &str| {
        let uniq = nodes.len();
        let size = if kind == "memory" { 8 } else { 1 };
        nodes.push(format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},
            "size":{size},"paths":{{"containment":"{path}"}}}}}}"#
        ));
        edges.extend(above.map(|above| format!(r#"{{"source":"{above}","target":"{uniq}"}}"#)));
        uniq
    };
    let root = add(None, "cluster", 0, -1, "/c0");
    for rack in 0..NODES / 8 {
        let above = add(Some(root), "rack", rack, -1, &format!("/c0/rack{rack}"));
        for rank in rack * 8..rack * 8 + 8 {
            let path = format!("/c0/rack{rack}/node{rank}");
            let node = add(Some(above), "node", rank, rank.into(), &path);
            for core in 0..2 {
                add(Some(node), "core", core, rank.into(), &format!("{path}/core{core}"));
            }
            add(Some(node), "memory", 0, rank.into(), &format!("{path}/memory0"));
        }
    }
    let graph =
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","));
    Engine::new(&graph, &format!(r#"{{"load_format":"jgf",{options}}}"#)).unwrap()
}

fn spec(random: &mut Random, pools: bool) -> String {
    let slot = |label: &str, count: usize, kind: &str, units: usize| {
        format!(
            r#"{{"type":"slot","label":"{label}","count":{count},
            "with":[{{"type":"{kind}","count":{units}}}]}}"#
        )
    };
    let duration = 1 + random.below(40);
    let (resources, more) = if pools {
        let mut slots = vec![slot("a", 1 + random.below(30), "memory", 1 + random.below(8))];
        let mut more = "";
        match random.below(4) {
            0 | 1 => slots.push(slot("b", 1 + random.below(20), "memory", 1 + random.below(8))),
            2 => more = r#","fluxion":{"levels":[{"level":"rack","within":"one"}]}"#,
            _ => {}
        }
        (slots.join(","), more)
    } else {
        let inner = slot("a", 1 + random.below(2), "core", 1 + random.below(2));
        let nodes = 1 + random.below(NODES as usize + 1);
        let resources = match random.below(3) {
            0 => format!(r#"{{"type":"node","count":{nodes},"with":[{inner}]}}"#),
            1 => slot("a", nodes, "node", 1),
            _ => slot("a", nodes, "core", 1 + random.below(2)),
        };
        (resources, "")
    };
    format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":[{{"command":["a"],"slot":"a",
        "count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{duration}{more}}}}}}}"#
    )
}

/// What can be seen of an engine, apart from the id of the next job.
fn book(engine: &Engine) -> String {
    let mut copy = engine.fork();
    copy.set_search_budget(None);
    let taken = copy.find("sched-now=allocated or sched-future=reserved", MatchFormat::Jgf, true);
    let usage: Vec<_> = (0..NODES).map(|rank| engine.usage(rank)).collect();
    format!("{:?} {taken:?} {usage:?}", engine.jobs())
}

const OPS: [MatchOp; 6] = [
    MatchOp::Allocate,
    MatchOp::AllocateWithSatisfiability,
    MatchOp::AllocateOrElseReserve,
    MatchOp::Satisfiability,
    MatchOp::WithoutAllocating,
    MatchOp::WithoutAllocatingFuture,
];

fn with_budget(engine: &Engine, steps: u64, op: MatchOp, spec: &str) -> (Engine, Answer) {
    let mut tried = engine.fork();
    tried.set_search_budget(Some(steps));
    let answer = tried.match_job(op, spec, 1_000_000);
    (tried, answer)
}

type Answer = Result<Grant, Error>;

/// Returns how many answers took steps, and how many times a budget was spent.
fn run(seed: u64, options: &str, pools: bool) -> (u32, u32) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (seed + 1));
    let mut engine = machine(options);
    let (mut searched, mut gave_up) = (0, 0);
    for step in 0..40 {
        let (op, spec) = (OPS[random.below(OPS.len())], spec(&mut random, pools));
        let mut free = engine.fork();
        let answer = free.match_job(op, &spec, 1_000_000);
        let needed = free.search_effort().0;
        searched += u32::from(needed > 0);
        let here = format!("seed {seed}, {options}, step {step}, {op:?}, {needed} steps: {spec}");
        for steps in [needed.max(1), needed + 7] {
            let (tried, same) = with_budget(&engine, steps, op, &spec);
            assert_eq!(same, answer, "{here}");
            assert_eq!(tried.search_effort().0, needed, "{here}");
        }
        let before = book(&engine);
        for steps in [1, needed / 3, needed / 2, needed.saturating_sub(1)] {
            if steps == 0 || steps >= needed {
                continue;
            }
            let (mut tried, answer) = with_budget(&engine, steps, op, &spec);
            let error = answer.expect_err(&here);
            assert_eq!(error.reason, Reason::GaveUp, "{steps} of {here}: {error}");
            assert!(error.text.contains("search_budget"), "{error}");
            assert_eq!(book(&tried), before, "{steps} of {here}");
            gave_up += 1;
            // An index that a search has left half made is not used by the next one.
            tried.set_search_budget(None);
            let again = tried.match_job(op, &spec, 1_000_000);
            let mut other = engine.fork();
            let _ = other.match_job(op, "{", 1_000_000);
            assert_eq!(again, other.match_job(op, &spec, 1_000_000), "after {steps} of {here}");
        }
        engine.set_search_budget(None);
        let _ = engine.match_next(op, &spec);
        if random.below(6) == 0 {
            engine.set_time(engine.now() + 5).unwrap();
        }
    }
    (searched, gave_up)
}

#[test]
fn a_spent_budget_is_an_answer_of_its_own() {
    let (mut searched, mut gave_up) = (0, 0);
    for seed in 0..4 {
        for policy in ["first", "lonode", "low", "high", "locality", "lonodex"] {
            let options = format!(r#""matcher_policy":"{policy}","match_format":"rv1_nosched""#);
            let (more, spent) = run(seed, &options, false);
            (searched, gave_up) = (searched + more, gave_up + spent);
        }
        for policy in ["first", "lonode", "hinode", "binpack", "spread"] {
            let options = format!(
                r#""matcher_policy":"{policy}","match_format":"placement","pool_types":["memory"]"#
            );
            let (more, spent) = run(seed, &options, true);
            (searched, gave_up) = (searched + more, gave_up + spent);
        }
    }
    assert!(searched > 500 && gave_up > 500, "{searched} {gave_up}");
}
