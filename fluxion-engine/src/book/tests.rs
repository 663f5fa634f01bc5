//! The indexes over the claims, through random histories: those that are kept equal those that are
//! made again from the claims, and the end of a trial restores both.
//!
//! `FLUXION_BOOK_SEEDS=2000 cargo test -p fluxion-engine --lib book` runs as many seeds for each
//! graph; the default is fewer.

#[path = "../../tests/random/mod.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Book;
use super::restoring::rebuild;
use crate::pools::derived;
use crate::{Engine, Error, JobMode, MatchOp, UpdateReader, kept_and_made};
use random::Random;

impl Random {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// A rack of two nodes with two cores, cpu and memory each, storage beside them, and a node of its
/// own.
fn document() -> String {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |above: Option<usize>, kind: &str, id: u32, rank: i64, path: &str| {
        let (at, size) = (nodes.len(), if matches!(kind, "cpu" | "memory") { 8 } else { 1 });
        nodes.push(format!(
            r#"{{"id":"{at}","metadata":{{"type":"{kind}","id":{id},"uniq_id":{at},"rank":{rank},
            "size":{size},"paths":{{"containment":"{path}"}}}}}}"#
        ));
        edges.extend(above.map(|above| format!(r#"{{"source":"{above}","target":"{at}"}}"#)));
        at
    };
    let root = add(None, "cluster", 0, -1, "/c0");
    let rack = add(Some(root), "rack", 0, -1, "/c0/rack0");
    add(Some(rack), "ssd", 0, -1, "/c0/rack0/ssd0");
    for (rank, above, within) in [(0, rack, "/c0/rack0"), (1, rack, "/c0/rack0"), (2, root, "/c0")]
    {
        let node = format!("{within}/node{rank}");
        let at = add(Some(above), "node", rank, i64::from(rank), &node);
        for (kind, id) in [("core", 0), ("core", 1), ("cpu", 0), ("memory", 0)] {
            add(Some(at), kind, id, i64::from(rank), &format!("{node}/{kind}{id}"));
        }
    }
    format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","))
}

/// Slots of these parts.
fn slot(label: &str, count: &str, parts: &[(&str, usize)]) -> String {
    let part = |(kind, count): &(&str, usize)| format!(r#"{{"type":"{kind}","count":{count}}}"#);
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!(r#"{{"type":"slot","label":"{label}","count":{count},"with":[{}]}}"#, parts.join(","))
}

fn resources(random: &mut Random) -> String {
    let (few, many) = (1 + random.below(2), 1 + random.below(5));
    let within =
        |kind: &str, with: String| format!(r#"{{"type":"{kind}","count":1,"with":[{with}]}}"#);
    match random.below(12) {
        0..=2 => slot("s", &few.to_string(), &[("cpu", many)]),
        3 => slot("s", r#"{"min":1,"max":5,"operator":"+","operand":1}"#, &[("cpu", many)]),
        4 => format!(
            "{},{}",
            slot("s", "1", &[("cpu", many), ("memory", 1)]),
            slot("t", &few.to_string(), &[("cpu", few)])
        ),
        5 => slot("s", "1", &[("core", few)]),
        6 => slot("s", &few.to_string(), &[("node", 1)]),
        7 => within("node", slot("s", "1", &[("core", few), ("cpu", many)])),
        8 => within("node", slot("s", &few.to_string(), &[("cpu", many)])),
        9 => within("rack", slot("s", "1", &[("ssd", 1), ("node", 1)])),
        10 => slot("s", "1", &[random.one(&[("ssd", 1), ("memory", many)])]),
        _ => slot("s", "1", &[("rack", 1)]),
    }
}

fn spec(random: &mut Random) -> String {
    let more = random.one(&[
        r#""duration":7"#,
        r#""duration":19"#,
        r#""duration":0"#,
        r#""duration":30,"fluxion":{"tenant":3}"#,
    ]);
    format!(
        r#"{{"version":1,"resources":[{}],"tasks":[{{"command":["a"],"slot":"s",
        "count":{{"per_slot":1}}}}],"attributes":{{"system":{{{more}}}}}}}"#,
        resources(random)
    )
}

fn r_of(random: &mut Random) -> String {
    let rank = random.one(&["0", "1", "2", "0-1", "1-2"]);
    format!(
        r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{"core":"0-1"}}}}],
        "starttime":0,"expiration":0}}}}"#
    )
}

/// A call that changes jobs, right or wrong.
fn call(random: &mut Random, engine: &mut Engine) -> Result<(), Error> {
    let (id, rank) = (random.below(9) as u64, u32::try_from(random.below(4)).unwrap());
    match random.below(12) {
        0..=3 => {
            let op = random.one(&[MatchOp::Allocate, MatchOp::AllocateOrElseReserve]);
            engine.match_job(op, &spec(random), id).map(drop)
        }
        4 => engine.cancel(id),
        5 | 6 => {
            let end = engine.now() + random.one(&[9, 20]);
            engine.charge(
                id,
                &format!(
                    r#"{{"label":"r","rank":{rank},"count":2,"with":{{"cpu":1}},"end":{end}}}"#
                ),
            )
        }
        7 => engine.release(id, rank, "r", 1),
        8 => engine.move_reservation(id).map(drop),
        9 | 10 => engine.partial_cancel(id, &r_of(random)).map(drop),
        _ => engine.set_time(engine.now() + 4),
    }
}

/// A call that changes the graph, right or wrong.
fn change_graph(random: &mut Random, engine: &mut Engine) -> Result<(), Error> {
    let rank = u32::try_from(random.below(4)).unwrap();
    match random.below(4) {
        0 => engine.resize(rank, "cpu", random.below(12) as u64),
        1 => engine.set_rank_status(&rank.to_string(), random.below(2) == 0),
        2 => engine.remove_rank(rank),
        _ => engine.add_subgraph(&document()),
    }
}

/// The indexes as text: the use of each vertex, and of each node.
fn indexes(book: &Book) -> String {
    let mut text = derived(&book.graph().pools);
    write!(text, " {}", book.schedule().put_off).unwrap();
    for vertex in book.graph().vertices() {
        let mut spans: Vec<String> =
            book.schedule().spans(vertex).iter().map(|span| format!("{span:?}")).collect();
        spans.sort_unstable();
        write!(text, "\n{vertex:?} {spans:?} {:?}", book.schedule().planner(vertex)).unwrap();
    }
    text
}

/// The claims as text.
fn claims(book: &Book) -> String {
    let jobs: Vec<_> = book.jobs().iter().collect();
    format!("{jobs:?} {:?} {:?} {}", book.jobs().lost(), book.jobs().stranded(), book.now())
}

/// Returns how many calls succeeded, and after how many of them the use of vertices was not what
/// follows from claims alone.
fn history(options: &str, seed: u64) -> (usize, usize) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (seed + 1));
    let mut engine = Engine::new(&document(), options).unwrap();
    // The column of a type stays when the first charge with it is taken back.
    let charge = r#"{"label":"r","rank":0,"count":1,"with":{"cpu":1},"end":"never"}"#;
    if engine.graph().has_pool_types() {
        engine.charge(9, charge).and_then(|()| engine.release(9, 0, "r", 1)).unwrap();
    }
    let (mut trial, mut done, mut drifted) = (None, 0, 0);
    for step in 0..100 {
        match random.below(14) {
            0 if trial.is_none() => {
                trial = Some((claims(engine.book()), indexes(engine.book())));
                engine.begin_trial().unwrap();
            }
            1 => {
                if let Some(before) = trial.take() {
                    engine.end_trial().unwrap();
                    let after = (claims(engine.book()), indexes(engine.book()));
                    assert_eq!(after, before, "{options}, seed {seed}, step {step}");
                }
            }
            2 => drop(change_graph(&mut random, &mut engine)),
            _ => done += usize::from(call(&mut random, &mut engine).is_ok()),
        }
        let mut again = engine.book().clone();
        rebuild(&mut again);
        assert_eq!(indexes(&again), indexes(engine.book()), "{options}, seed {seed}, step {step}");
        // The reservation of a lost job begins at no time, and is there all the same.
        let is_exact = engine.book().jobs().lost().is_empty();
        if let Some([kept, made]) = kept_and_made(&engine).filter(|_| is_exact) {
            assert_eq!(kept, made, "{options}, seed {seed}, step {step}");
        }
        let book = engine.book();
        drifted += usize::from(!book.schedule().drifts(book.graph()).is_empty());
    }
    (done, drifted)
}

fn seeds() -> u64 {
    let seeds = std::env::var("FLUXION_BOOK_SEEDS").ok();
    seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(60)
}

#[test]
fn rebuilt_equals_kept_and_trials_leave_no_trace() {
    for (pools, last) in [
        (r#""cpu","memory""#, "placement"),
        (r#""cpu","ssd""#, "placement"),
        (r#""*""#, "placement"),
        ("", "jgf"),
    ] {
        for (policy, format) in [("first", "rv1_nosched"), ("lonode", "rv1"), ("first", last)] {
            let options = format!(
                r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"{format}",
                "prune_filters":"ALL:core,ALL:node","pool_types":[{pools}]}}"#
            );
            let (mut done, mut drifted) = (0, 0);
            for seed in 0..seeds() {
                let (more_done, more_drifted) = history(&options, seed);
                (done, drifted) = (done + more_done, drifted + more_drifted);
            }
            assert!(done > 1_000, "{options}: only {done} calls succeeded");
            // Only upstream's graphs have its way to grow and to shrink.
            assert_eq!(drifted > 200, pools.is_empty(), "{options}: {drifted}");
        }
    }
}

/// The mode, the times and the claims of a job, as text.
fn of_job(book: &Book, id: u64) -> String {
    let job = book.jobs().get(id).unwrap();
    format!("{:?} {} {:?} {:?}", job.info.mode, job.info.at, job.term, job.claims)
}

/// Cancels a job, and takes it up again from its R: it has the same claims then, and the same R.
fn come_back(engine: &Engine, id: u64, r: &str, what: &str) {
    let mut engine = engine.fork();
    let (job, all) = (of_job(engine.book(), id), indexes(engine.book()));
    engine.cancel(id).unwrap();
    let grant =
        engine.update_allocate(id, r).unwrap_or_else(|error| panic!("{what}: {error}: {r}"));
    assert_eq!(of_job(engine.book(), id), job, "{what}: {r}");
    assert_eq!(indexes(engine.book()), all, "{what}: {r}");
    assert_eq!(grant.r, r, "{what}");
    if !grant.reserved {
        let mut engine = engine.fork();
        assert!(engine.partial_cancel(id, r).unwrap(), "{what}: {r}");
        assert_eq!(engine.info(id).unwrap().mode, JobMode::Canceled, "{what}: {r}");
    }
    // Others like it come as long as there is room.
    let is_full = (100..140).any(|other| engine.update_allocate(other, r).is_err());
    assert!(is_full, "{what}: {r}");
}

/// Random histories on graphs with pools, and each grant of them: how many came back.
fn grants(options: &str, seed: u64, only_slots: bool) -> usize {
    let mut random = Random(0xD1B5_4A32_D192_ED03 ^ (seed + 1));
    let mut engine = Engine::new(&document(), options).unwrap();
    let mut done = 0;
    for step in 0..60 {
        let (id, what) =
            (1 + random.below(9) as u64, format!("{options}, seed {seed}, step {step}"));
        if random.below(2) == 0 {
            let _ = call(&mut random, &mut engine);
            continue;
        }
        let op = random.one(&[MatchOp::Allocate, MatchOp::AllocateOrElseReserve]);
        let spec = spec(&mut random);
        let Ok(grant) = engine.match_job(op, &spec, id) else { continue };
        let claims = &engine.book().jobs().get(id).unwrap().claims;
        if !only_slots || claims.own_vertices().next().is_none() {
            come_back(&engine, id, &grant.r, &format!("{what}: {spec}"));
            done += 1;
        }
    }
    done
}

/// The vertices that a job has for itself, its units by rank and type, and its times, as text.
fn held(book: &Book, id: u64) -> String {
    let job = book.jobs().get(id).unwrap();
    let own: BTreeSet<_> = job.claims.own_vertices().collect();
    let mut units = BTreeMap::new();
    for slots in job.claims.slots() {
        let pools = &book.graph().pools;
        // Units of a node that the job has whole go with it.
        let is_whole = |rank: u32| own.contains(&pools.vertices()[pools.position(rank).unwrap()]);
        for (rank, count) in slots.on().iter().filter(|(rank, _)| !is_whole(*rank)) {
            for (kind, amount) in &slots.shape.needs {
                let key = (*rank, *kind, slots.times, slots.planned);
                *units.entry(format!("{key:?}")).or_insert(0) += amount * count;
            }
        }
    }
    format!("{:?} {} {:?} {own:?} {units:?}", job.info.mode, job.info.at, job.term)
}

/// Cancels a job, and takes it up again from its vertices alone: it has the same of each, and gives
/// all of it back.
fn come_back_from_vertices(engine: &Engine, id: u64, r: &str, reader: UpdateReader, what: &str) {
    let mut engine = engine.fork();
    let (job, before) = (engine.book().jobs().get(id).unwrap(), held(engine.book(), id));
    let (mode, at, seconds) = (job.info.mode, job.term.from, job.term.to - job.term.from);
    let usage = |engine: &Engine| {
        (0..3).map(|rank| format!("{:?}", engine.usage(rank))).collect::<Vec<_>>()
    };
    let used = usage(&engine);
    engine.cancel(id).unwrap();
    let idle = usage(&engine);
    let taken = engine.update(id, r, reader, at, seconds, mode);
    let grant = taken.unwrap_or_else(|error| panic!("{what}: {error}: {r}")).grant;
    assert_eq!((held(engine.book(), id), grant.r), (before, r.to_owned()), "{what}");
    assert_eq!(usage(&engine), used, "{what}: {r}");
    if !grant.reserved {
        assert!(engine.partial_cancel_with(id, r, reader).unwrap(), "{what}: {r}");
        assert_eq!(engine.info(id).unwrap().mode, JobMode::Canceled, "{what}: {r}");
        assert_eq!(usage(&engine), idle, "{what}: {r}");
    }
}

#[test]
fn a_job_comes_back_from_its_vertices() {
    for (pools, policy, format, reader) in [
        (r#""cpu","memory""#, "first", "jgf", UpdateReader::Jgf),
        (r#""cpu","memory","ssd""#, "lonode", "jgf_shorthand", UpdateReader::JgfShorthand),
        (r#""*""#, "hinode", "jgf", UpdateReader::Jgf),
        (r#""cpu","memory""#, "lonodex", "jgf", UpdateReader::Jgf),
    ] {
        let options = format!(
            r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"{format}",
            "prune_filters":"ALL:core,ALL:node","pool_types":[{pools}]}}"#
        );
        let (mut done, mut with_units) = (0, 0);
        for seed in 0..seeds() {
            let mut random = Random(0x94D0_49BB_1331_11EB ^ (seed + 1));
            let mut engine = Engine::new(&document(), &options).unwrap();
            for step in 0..60 {
                let id = 1 + random.below(9) as u64;
                if random.below(2) == 0 {
                    let _ = call(&mut random, &mut engine);
                    continue;
                }
                let op = random.one(&[MatchOp::Allocate, MatchOp::AllocateOrElseReserve]);
                let spec = spec(&mut random);
                let Ok(grant) = engine.match_job(op, &spec, id) else { continue };
                let claims = &engine.book().jobs().get(id).unwrap().claims;
                // A document of vertices does not say that a tenant has a node alone, and of a
                // shorthand all that lies below its vertices is taken.
                let is_short = reader == UpdateReader::JgfShorthand;
                let is_said = !is_short || claims.own_vertices().next().is_none();
                if is_said && !spec.contains("tenant") {
                    let what = format!("{options}, seed {seed}, step {step}: {spec}");
                    come_back_from_vertices(&engine, id, &grant.r, reader, &what);
                    done += 1;
                    let claims = &engine.book().jobs().get(id).unwrap().claims;
                    with_units += usize::from(claims.has_slots());
                }
            }
        }
        assert!(done > 200 && with_units > 100, "{options}: {with_units} of {done}");
    }
}

#[test]
fn a_job_comes_back_from_its_r() {
    for pools in [r#""cpu","memory""#, r#""cpu","memory","ssd""#, r#""*""#] {
        // R_lite has words for cores and GPUs only.
        for (policy, format, only_slots) in [
            ("first", "rv1", false),
            ("lonode", "rv1_shorthand", false),
            ("hinode", "rv1_nosched", true),
            ("lonodex", "rv1", false),
        ] {
            let options = format!(
                r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"{format}",
                "prune_filters":"ALL:core,ALL:node","pool_types":[{pools}]}}"#
            );
            let done: usize = (0..seeds()).map(|seed| grants(&options, seed, only_slots)).sum();
            assert!(done > 200, "{options}: only {done} grants came back");
        }
    }
}
