//! Nodes that come and go: removed ones are forgotten, and answers stay what they would be.
//!
//! `FLUXION_CHURN_CYCLES=1000000 cargo test --release -p fluxion-engine --test churn` runs a
//! million cycles; the default is fewer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fluxion_engine::{Engine, MatchFormat, MatchOp};

const ROOT: &str =
    r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}}"#;

fn engine(format: &str) -> Engine {
    let options = format!(
        r#"{{"load_format":"jgf","matcher_policy":"lonode","match_format":"{format}","pool_types":["*"]}}"#
    );
    Engine::new(&format!(r#"{{"graph":{{"nodes":[{ROOT}],"edges":[]}}}}"#), &options).unwrap()
}

fn add(engine: &mut Engine, rank: u32) {
    let node = format!(
        r#"{{"id":"1","metadata":{{"type":"node","name":"host-{rank}","id":{rank},"uniq_id":{rank},"rank":{rank},"properties":{{"zone-{rank}":""}},"paths":{{"containment":"/cluster0/host-{rank}"}}}}}}"#
    );
    let pools = ["cpu", "memory", "pods"].map(|kind| {
        format!(
            r#"{{"id":"{kind}","metadata":{{"type":"{kind}","id":0,"uniq_id":{rank},"rank":{rank},"size":8,"paths":{{"containment":"/cluster0/host-{rank}/{kind}0"}}}}}}"#
        )
    });
    let edges =
        ["cpu", "memory", "pods"].map(|kind| format!(r#"{{"source":"1","target":"{kind}"}}"#));
    let text = format!(
        r#"{{"graph":{{"nodes":[{ROOT},{node},{}],"edges":[{{"source":"0","target":"1"}},{}]}}}}"#,
        pools.join(","),
        edges.join(",")
    );
    engine.add_subgraph(&text).unwrap();
}

fn jobspec(policy: &str, count: u32) -> String {
    format!(
        r#"{{"version":1,"resources":[{{"type":"slot","count":{count},"label":"a","with":[{{"type":"cpu","count":3}},{{"type":"pods","count":1}}]}}],"tasks":[{{"command":["a"],"slot":"a","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":3600,"fluxion":{{"policy":"{policy}"}}}}}}}}"#
    )
}

/// Memory of this process, in bytes.
fn memory() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()?
        .split(' ')
        .nth(1)?
        .parse::<usize>()
        .ok()?;
    Some(pages * 4_096)
}

#[test]
fn nodes_that_come_and_go_leave_nothing_behind() {
    let cycles = std::env::var("FLUXION_CHURN_CYCLES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(60_000_u32);
    let mut engine = engine("placement");
    for rank in 0..100 {
        add(&mut engine, rank);
    }
    let mut before = None;
    for cycle in 0..cycles {
        add(&mut engine, cycle + 100);
        engine.match_job(MatchOp::Allocate, &jobspec("spread", 1), u64::from(cycle) + 1).unwrap();
        engine.remove_rank(cycle).unwrap();
        let _ = engine.cancel(u64::from(cycle) + 1);
        assert!(engine.graph().len() < 2_048 + 2 * 404, "{} vertices", engine.graph().len());
        if cycle == cycles / 4 {
            before = memory();
        }
    }
    assert_eq!(engine.graph().edges(), 400);
    if let (Some(before), Some(after)) = (before, memory()) {
        // Of jobs that have ended some thousands are remembered: they may take a few megabytes
        // more.
        assert!(after < before + (12 << 20), "{before} bytes became {after}");
    }
}

/// One machine on which nodes came and went, and one on which only those were ever added that are
/// left.
#[test]
fn answers_do_not_show_what_was_there() {
    let formats = ["placement", "jgf", "rv1", "rv1_nosched", "simple"];
    for format in formats {
        let (mut old, mut new) = (engine(format), engine(format));
        for rank in 0..2_000 {
            add(&mut old, rank);
        }
        for rank in (0..2_000).filter(|rank| rank % 7 != 3) {
            old.remove_rank(rank).unwrap();
        }
        assert!(old.graph().len() < 4_000, "nothing was dropped");
        for rank in (0..2_000).filter(|rank| rank % 7 == 3).chain(3_000..3_005) {
            add(&mut new, rank);
        }
        for rank in 3_000..3_005 {
            add(&mut old, rank);
        }
        for (job, policy) in (1..).zip(["lonode", "hinode", "binpack", "spread", "first"]) {
            let ask = |engine: &mut Engine| {
                engine.match_job(MatchOp::Allocate, &jobspec(policy, 40), job).unwrap().r
            };
            assert_eq!(ask(&mut old), ask(&mut new), "{format} {policy}");
        }
        let find =
            |engine: &mut Engine| engine.find("property=zone-10", MatchFormat::Jgf, true).unwrap();
        assert_eq!(find(&mut old), find(&mut new));
        for engine in [&mut old, &mut new] {
            engine.set_status("/cluster0/host-10", false).unwrap();
            engine.remove_subgraph("/cluster0/host-17").unwrap();
            engine.cancel(1).unwrap();
        }
        for (job, policy) in (11..).zip(["lonode", "spread"]) {
            let ask = |engine: &mut Engine| {
                engine.match_job(MatchOp::Allocate, &jobspec(policy, 9), job).unwrap().r
            };
            assert_eq!(ask(&mut old), ask(&mut new), "{format} {policy}");
        }
    }
}
