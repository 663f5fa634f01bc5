//! Jobs that come back from their R: sequences of calls on graphs with pools, racks, licences and
//! cores. Each grant is written, cancelled and taken up again, and the whole book is as before; a
//! call that fails changes nothing; R that is changed somewhere is taken or refused, no more.
#![no_main]

use std::fmt::Write as _;

use fluxion_engine::{Engine, JobMode, MatchFormat, MatchOp};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

/// Calls of one sequence; more say nothing new.
const CALLS_MAX: usize = 24;
/// Ids that jobs may have.
const IDS: u64 = 5;

fuzz_target!(|data: &[u8]| {
    let _ = play(&mut Unstructured::new(data));
});

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let format = *input.choose(&["rv1", "rv1_shorthand", "rv1_nosched"])?;
    let policy = *input.choose(&["first", "lonode", "lonodex", "high", "binpack"])?;
    let pools = *input.choose(&[r#""cpu""#, r#""cpu","memory","ssd""#, r#""*""#])?;
    let mut engine = fluxion_fuzz::racks_of_pools(policy, format, pools);
    let mut granted: Vec<String> = Vec::new();
    let mut known = None;
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        call(input, &mut engine, (&mut granted, &mut known), format != "rv1_nosched")?;
    }
    Ok(())
}

/// Makes one call. `known` is the book of the engine, if it was written since the last change.
fn call(
    input: &mut Unstructured<'_>,
    engine: &mut Engine,
    (granted, known): (&mut Vec<String>, &mut Option<String>),
    has_vertices: bool,
) -> Result<()> {
    let id = input.int_in_range(1..=IDS)?;
    let before = known.take().unwrap_or_else(|| book(engine));
    let failed = match input.int_in_range(0_u8..=9)? {
        0..=3 => {
            let op = *input.choose(&[MatchOp::Allocate, MatchOp::AllocateOrElseReserve])?;
            let answer = engine.match_job(op, &spec(input)?, id);
            if let Ok(grant) = &answer {
                come_back(engine, id, &grant.r, has_vertices);
                granted.push(grant.r.clone());
            }
            answer.is_err()
        }
        4 => {
            let rank = input.int_in_range(0..=3)?;
            let end = engine.now().saturating_add(input.int_in_range(1..=40)?);
            let charge = format!(
                r#"{{"label":"s","rank":{rank},"count":2,"with":{{"cpu":1}},"end":{end}}}"#
            );
            engine.charge(id, &charge).is_err()
        }
        5 => engine.cancel(id).is_err(),
        6 => engine.set_time(engine.now() + input.int_in_range(0..=30)?).is_err(),
        7 if !granted.is_empty() => {
            let r = changed(input, granted)?;
            engine.update_allocate(id, &r).is_err()
        }
        8 if !granted.is_empty() => {
            let r = changed(input, granted)?;
            engine.partial_cancel(id, &r).is_err()
        }
        _ => engine.move_reservation(id).is_err(),
    };
    if failed {
        assert_eq!(book(engine), before, "a call that failed has changed something");
        *known = Some(before);
    }
    Ok(())
}

/// A grant that was written, often with a byte that is another one.
fn changed(input: &mut Unstructured<'_>, granted: &[String]) -> Result<String> {
    let mut bytes = input.choose(granted)?.clone().into_bytes();
    for _ in 0..input.int_in_range(0_u8..=2)? {
        if !bytes.is_empty() {
            let at = input.choose_index(bytes.len())?;
            bytes[at] = *input.choose(b"0123456789{}[]\",:-ens")?;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Cancels a job, and takes it up again from its R.
fn come_back(engine: &Engine, id: u64, r: &str, has_vertices: bool) {
    let mut engine = engine.fork();
    let found = engine.find(&format!("jobid-tag={id}"), MatchFormat::Jgf, true);
    let vertices = found.expect("it is an expression").unwrap_or_default();
    // R without a graph has words for slots, and on racks for nothing else.
    if !has_vertices && !r.contains(r#""slots""#) || !has_vertices && is_whole(&vertices) {
        return;
    }
    let before = book(&engine);
    engine.cancel(id).expect("it is there");
    let answer = engine.update_allocate(id, r);
    assert!(answer.is_ok(), "{:?}: {r}", answer.err());
    assert_eq!(book(&engine), before, "{r}");
    if engine.info(id).is_ok_and(|info| info.mode == JobMode::Allocated) {
        assert_eq!(engine.partial_cancel(id, r), Ok(true), "{r}");
    }
}

/// Whether a job has vertices beside units: it passes through the root then.
fn is_whole(vertices: &str) -> bool {
    ["core", "node", "ssd", "license", "rack"]
        .iter()
        .any(|kind| vertices.contains(&format!(r#""type":"{kind}""#)))
}

/// All that can be seen of an engine. A copy answers, so that the questions leave no trace.
fn book(engine: &Engine) -> String {
    let mut copy = engine.fork();
    let mut book = format!("{}\n", engine.now());
    for (id, info) in engine.jobs() {
        let _ = writeln!(book, "{id} {:?} {}", info.mode, info.at);
        let own = format!("jobid-alloc={id} or jobid-reserved={id}");
        for criteria in [format!("jobid-tag={id}"), own] {
            let _ = writeln!(book, "{:?}", copy.find(&criteria, MatchFormat::Jgf, true));
        }
    }
    for criteria in ["sched-now=allocated", "sched-future=reserved"] {
        let _ = writeln!(book, "{:?}", copy.find(criteria, MatchFormat::Jgf, true));
    }
    for rank in 0..3 {
        let _ = writeln!(book, "{:?}", engine.usage(rank));
    }
    book
}

fn spec(input: &mut Unstructured<'_>) -> Result<String> {
    let (few, many) = (input.int_in_range(1_u8..=3)?, input.int_in_range(1_u8..=8)?);
    let slot = |count: &str, with: &str| {
        format!(r#"{{"type":"slot","label":"s","count":{count},"with":[{with}]}}"#)
    };
    let of = |kind: &str, count: u8| format!(r#"{{"type":"{kind}","count":{count}}}"#);
    let within =
        |kind: &str, with: &str| format!(r#"{{"type":"{kind}","count":1,"with":[{with}]}}"#);
    let range = format!(r#"{{"min":1,"max":{many},"operator":"+","operand":1}}"#);
    let resources = match input.int_in_range(0_u8..=9)? {
        0 | 1 => slot(&few.to_string(), &of("cpu", many)),
        2 => slot(&range, &of("cpu", few)),
        3 => slot("1", &format!("{},{}", of("cpu", many), of("memory", few))),
        4 => slot("1", &of("core", few)),
        5 => slot(&few.to_string(), &of("node", 1)),
        6 => within("node", &slot("1", &format!("{},{}", of("core", 1), of("cpu", many)))),
        7 => within("rack", &slot("1", &format!("{},{}", of("ssd", 1), of("node", 1)))),
        8 => slot("1", &of("license", few)),
        _ => within("node", &slot(&few.to_string(), &of("cpu", many))),
    };
    let duration = *input.choose(&[0, 7, 19, 60])?;
    Ok(format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":[{{"command":["a"],"slot":"s",
        "count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{duration}}}}}}}"#
    ))
}
