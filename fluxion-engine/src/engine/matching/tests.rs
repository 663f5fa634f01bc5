//! Reservations that are refused, and how many searches that takes.

use super::*;
use crate::effort::SEARCHES;

/// Nodes of 10 units of cpu, of which one is charged until another instant on each.
fn engine(nodes: usize) -> Engine {
    charged(&vec![10; nodes], |rank| (100 + rank).to_string())
}

/// Nodes of these units of cpu, of which one is charged until an end on each.
fn charged(sizes: &[u64], end: impl Fn(usize) -> String) -> Engine {
    let vertex = |uniq: usize, kind: &str, rank: usize, size: u64, path: &str| {
        format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{rank},"rank":{rank},"size":{size},
            "paths":{{"containment":"{path}"}}}}}}"#
        )
    };
    let root = r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}"#;
    let (mut vertices, mut edges) = (vec![root.to_owned()], Vec::new());
    for (rank, size) in sizes.iter().enumerate() {
        let (uniq, path) = (1 + 2 * rank, format!("/c0/node{rank}"));
        vertices.push(vertex(uniq, "node", rank, 1, &path));
        vertices.push(vertex(uniq + 1, "cpu", rank, *size, &format!("{path}/cpu{rank}")));
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
    for rank in 0..sizes.len() {
        let end = end(rank);
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

/// The answer of a call, its steps and its searches.
fn effort_of(engine: &mut Engine, op: MatchOp, spec: &str) -> (Result<Grant, Error>, u64, usize) {
    let before = SEARCHES.get();
    let answer = engine.match_job(op, spec, 2);
    (answer, engine.search_effort().0, SEARCHES.get() - before)
}

/// Asserts that a request is refused for one reason, now and as a reservation; that this takes at
/// most `searches`; and that a refused reservation takes at most four times the steps of a refused
/// match.
fn assert_refused(engine: &mut Engine, spec: &str, reason: Reason, searches: usize) {
    let (now, once, _) = effort_of(engine, MatchOp::AllocateWithSatisfiability, spec);
    assert_eq!(now.unwrap_err().reason, reason);
    for op in [MatchOp::AllocateOrElseReserve, MatchOp::WithoutAllocatingFuture] {
        // What may fit after unknown ends is an answer to the second.
        if reason == Reason::Busy && op == MatchOp::WithoutAllocatingFuture {
            continue;
        }
        let (later, steps, searched) = effort_of(engine, op, spec);
        assert_eq!(later.unwrap_err().reason, reason, "{op:?}");
        assert!(steps <= 4 * once, "{op:?}: {steps} steps, a refused match {once}");
        assert!(searched <= searches, "{op:?}: {searched} searches");
    }
}

#[test]
fn several_shapes_that_never_fit_are_refused_after_few_searches() {
    for nodes in [20, 200] {
        let mut engine = engine(nodes);
        // Each shape has room of its own, and one slot is too many for both.
        let refused = spec(&[(nodes / 2, 7), (nodes + 1, 4)], 10);
        assert_refused(&mut engine, &refused, Reason::Unsatisfiable, 5);
        let all = spec(&[(nodes, 10)], 10);
        engine.match_job(MatchOp::AllocateOrElseReserve, &all, 1).unwrap();
        assert_refused(&mut engine, &refused, Reason::Unsatisfiable, 5);
    }
}

/// Slots with an unknown end are there at every instant that is tried.
#[test]
fn several_shapes_beside_unknown_ends_are_refused_after_few_searches() {
    let nodes = 100;
    let unknown = |rank: usize| {
        if rank.is_multiple_of(4) { (100 + rank).to_string() } else { r#""eventually""#.to_owned() }
    };
    for plans in [false, true] {
        let mut engine = charged(&vec![8; nodes], unknown);
        if plans {
            let some = spec(&[(nodes / 4, 8)], 10);
            engine.match_job(MatchOp::AllocateOrElseReserve, &some, 1).unwrap();
        }
        let refused = spec(&[(60, 5), (70, 4)], 10);
        assert_refused(&mut engine, &refused, Reason::Busy, 5);
    }
}

/// Many shapes on nodes of many sizes: the search gives up, and so does a reservation, after few
/// of them.
#[test]
fn a_reservation_gives_up_after_few_searches() {
    let sizes: Vec<u64> = (0..40).map(|row| 501 + row * 7 % 83).collect();
    let shapes: Vec<(usize, u64)> = (0..8).map(|shape| (23, 70 + 13 * shape)).collect();
    let given_up = spec(&shapes, 10);
    for plans in [false, true] {
        let mut engine = charged(&sizes, |rank| (100 + rank).to_string());
        if plans {
            let all = spec(&[(40, 501)], 10);
            engine.match_job(MatchOp::AllocateOrElseReserve, &all, 1).unwrap();
        }
        assert_refused(&mut engine, &given_up, Reason::GaveUp, 7);
    }
}

/// Ends on nodes that are of no use to the request are no instants to try.
#[test]
fn instants_at_which_nothing_changes_are_not_tried() {
    let mut engine = charged(&[10; 60], |rank| (100 + rank).to_string());
    for rank in [58, 59] {
        let more =
            format!(r#"{{"label":"m","rank":{rank},"count":1,"with":{{"cpu":3}},"end":1000}}"#);
        engine.charge(3_000 + rank, &more).unwrap();
    }
    let all = spec(&[(60, 10)], 10)
        .replace(r#""duration":10"#, r#""duration":10,"fluxion":{"not_before":5000}"#);
    engine.match_job(MatchOp::AllocateOrElseReserve, &all, 1).unwrap();
    let ranks = r#""duration":10,"fluxion":{"slots":[
        {"label":"s0","ranks":"57-59"},{"label":"s1","ranks":"57-59"}]}"#;
    let both = spec(&[(1, 7), (5, 3)], 10).replace(r#""duration":10"#, ranks);
    let (grant, _, searches) = effort_of(&mut engine, MatchOp::AllocateOrElseReserve, &both);
    assert_eq!(grant.unwrap().at, 157);
    assert!(searches <= 4, "{searches}");
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
