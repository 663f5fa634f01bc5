//! `binpack` and `spread`: what they refuse, and what they mean for later instants. Where slots go
//! is compared in `against_naive`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;

use fluxion_engine::{Engine, MatchOp, Reason};

/// Two nodes with eight cpus and a core each.
fn document() -> String {
    let mut nodes =
        r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}}"#
            .to_owned();
    let mut edges = Vec::new();
    for rank in 0..2 {
        let path = format!("/cluster0/node{rank}");
        for (id, kind, size, path) in [
            (format!("n{rank}"), "node", 1, path.clone()),
            (format!("p{rank}"), "cpu", 8, format!("{path}/cpu0")),
            (format!("c{rank}"), "core", 1, format!("{path}/core0")),
        ] {
            let number = if kind == "node" { rank } else { 0 };
            let _ = write!(
                nodes,
                r#",{{"id":"{id}","metadata":{{"type":"{kind}","id":{number},"rank":{rank},"size":{size},"uniq_id":{rank},"paths":{{"containment":"{path}"}}}}}}"#
            );
        }
        edges.push(format!(r#"{{"source":"0","target":"n{rank}"}}"#));
        edges.extend(
            ["p", "c"].map(|part| format!(r#"{{"source":"n{rank}","target":"{part}{rank}"}}"#)),
        );
    }
    format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{}]}}}}"#, edges.join(","))
}

fn options(policy: &str, more: &str) -> String {
    format!(
        r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"placement"{more}}}"#
    )
}

fn spec(kind: &str, count: u32, seconds: u32, policy: &str) -> String {
    format!(
        r#"{{"version":1,"resources":[{{"type":"slot","count":1,"label":"a","with":[{{"type":"{kind}","count":{count}}}]}}],"tasks":[{{"command":["a"],"slot":"a","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{seconds},"fluxion":{{"policy":"{policy}"}}}}}}}}"#
    )
}

#[test]
fn whole_vertices_do_not_go_by_fill() {
    for policy in ["binpack", "spread"] {
        let error = Engine::new(&document(), &options(policy, "")).unwrap_err();
        assert_eq!(error.reason, Reason::Setup, "{error}");
        let mut whole = Engine::new(&document(), &options("lonode", "")).unwrap();
        let mut pools =
            Engine::new(&document(), &options(policy, r#","pool_types":["cpu"]"#)).unwrap();
        for (engine, kind) in [(&mut whole, "core"), (&mut pools, "core")] {
            for op in [MatchOp::Allocate, MatchOp::AllocateOrElseReserve, MatchOp::Satisfiability] {
                let error = engine.match_next(op, &spec(kind, 1, 60, policy)).unwrap_err();
                assert_eq!(error.reason, Reason::Invalid, "{error}");
            }
            assert_eq!(engine.job_count(), 0);
        }
        pools.match_next(MatchOp::Allocate, &spec("cpu", 1, 60, policy)).unwrap();
    }
}

#[test]
fn a_later_instant_is_seen_as_it_will_be() {
    let mut engine =
        Engine::new(&document(), &options("lonode", r#","pool_types":["cpu"]"#)).unwrap();
    // Until 10 node 0 is the fuller one, from then on node 1.
    for (rank, cpus, end) in [(0, 7, 10), (1, 4, 10), (1, 2, 99)] {
        let text = format!(
            r#"{{"label":"c","rank":{rank},"count":1,"with":{{"cpu":{cpus}}},"end":{end}}}"#
        );
        engine.charge(1, &text).unwrap();
    }
    let mut reserve = |policy: &str, job| {
        let grant = engine
            .match_job(MatchOp::AllocateOrElseReserve, &spec("cpu", 6, 5, policy), job)
            .unwrap();
        assert_eq!(grant.at, 10);
        engine.cancel(job).unwrap();
        grant.r
    };
    assert!(reserve("binpack", 2).contains(r#""ranks":"1""#));
    assert!(reserve("spread", 3).contains(r#""ranks":"0""#));
}
