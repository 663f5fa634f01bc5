//! Reservations that are refused, and how many searches that takes.

use super::*;
use crate::effort::SEARCHES;

/// Nodes of 10 units of cpu, of which one is charged until another instant on each.
fn engine(nodes: usize) -> Engine {
    let vertex = |uniq: usize, kind: &str, rank: usize, size: u64, path: &str| {
        format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{rank},"rank":{rank},"size":{size},
            "paths":{{"containment":"{path}"}}}}}}"#
        )
    };
    let root = r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}"#;
    let (mut vertices, mut edges) = (vec![root.to_owned()], Vec::new());
    for rank in 0..nodes {
        let (uniq, path) = (1 + 2 * rank, format!("/c0/node{rank}"));
        vertices.push(vertex(uniq, "node", rank, 1, &path));
        vertices.push(vertex(uniq + 1, "cpu", rank, 10, &format!("{path}/cpu{rank}")));
        edges.push(format!(r#"{{"source":"0","target":"{uniq}"}}"#));
        edges.push(format!(r#"{{"source":"{uniq}","target":"{}"}}"#, uniq + 1));
    }
    let graph = format!(
        r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
        vertices.join(","),
        edges.join(",")
    );
    let options = r#"{"load_format":"jgf","match_format":"placement","pool_types":["cpu"]}"#;
    let mut engine = Engine::new(&graph, options).unwrap();
    for rank in 0..nodes {
        let end = 100 + rank;
        let charge =
            format!(r#"{{"label":"r","rank":{rank},"count":1,"with":{{"cpu":1}},"end":{end}}}"#);
        engine.charge(1_000 + rank as u64, &charge).unwrap();
    }
    engine
}

fn spec(shapes: &[(usize, u64)], duration: u64) -> String {
    let slot = |(at, (count, cpu)): (usize, &(usize, u64))| {
        format!(
            r#"{{"type":"slot","count":{count},"label":"s{at}","with":[{{"type":"cpu",
            "count":{cpu}}}]}}"#
        )
    };
    let slots: Vec<String> = shapes.iter().enumerate().map(slot).collect();
    format!(
        r#"{{"version":1,"resources":[{}],"tasks":[{{"command":["a"],"slot":"s0",
            "count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{duration}}}}}}}"#,
        slots.join(",")
    )
}

#[test]
fn several_shapes_that_never_fit_are_refused_after_few_searches() {
    let nodes = 20;
    let mut engine = engine(nodes);
    let all = spec(&[(nodes, 10)], 10);
    engine.match_job(MatchOp::AllocateOrElseReserve, &all, 1).unwrap();
    // Each shape has room of its own, and one slot is too many for both.
    let refused = spec(&[(nodes / 2, 7), (nodes + 1, 4)], 10);
    let before = SEARCHES.get();
    let error = engine.match_job(MatchOp::AllocateOrElseReserve, &refused, 2).unwrap_err();
    assert_eq!(error.reason, Reason::Unsatisfiable);
    let searches = SEARCHES.get() - before;
    assert!(searches <= 6, "{searches}");
}

#[test]
fn what_begins_later_and_never_ends_stands_in_the_way_from_then_on() {
    let nodes = 20;
    let mut engine = engine(nodes);
    let endless = spec(&[(nodes, 10)], 0)
        .replace(r#""duration":0"#, r#""duration":0,"fluxion":{"not_before":1000}"#);
    engine.match_job(MatchOp::AllocateOrElseReserve, &endless, 1).unwrap();
    // Each half has room long before both have it together.
    let halves = spec(&[(nodes / 2, 10), (nodes / 2, 10)], 10);
    let grant = engine.match_job(MatchOp::AllocateOrElseReserve, &halves, 2).unwrap();
    assert_eq!(grant.at, 119);
}
