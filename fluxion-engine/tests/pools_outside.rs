//! Vertices of a pool type outside of nodes: licences and storage of racks, handed out whole.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fluxion_engine::{Engine, MatchFormat, MatchOp, Reason};

/// A vertex: number, type, rank, size, path.
type Vertex<'a> = (u32, &'a str, i64, u64, &'a str);

fn document(vertices: &[Vertex<'_>], edges: &[(u32, u32)]) -> String {
    let nodes = vertices.iter().map(|(uniq, kind, rank, size, path)| {
        format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":0,"rank":{rank},"size":{size},
            "name":"{}","paths":{{"containment":"{path}"}}}}}}"#,
            path.rsplit('/').next().unwrap()
        )
    });
    let edges = edges.iter().map(|(from, to)| format!(r#"{{"source":"{from}","target":"{to}"}}"#));
    format!(
        r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
        nodes.collect::<Vec<_>>().join(","),
        edges.collect::<Vec<_>>().join(",")
    )
}

const VERTICES: [Vertex<'_>; 10] = [
    (0, "cluster", -1, 1, "/c0"),
    (1, "license", -1, 10, "/c0/license0"),
    (2, "rack", -1, 1, "/c0/rack0"),
    (3, "ssd", -1, 100, "/c0/rack0/ssd0"),
    (4, "node", 0, 1, "/c0/rack0/node0"),
    (5, "cpu", 0, 8, "/c0/rack0/node0/cpu0"),
    (6, "node", 1, 1, "/c0/rack0/node1"),
    (7, "cpu", 1, 8, "/c0/rack0/node1/cpu0"),
    (8, "ssd", 1, 4, "/c0/rack0/node1/ssd0"),
    (9, "license", -1, 2, "/c0/license1"),
];
const EDGES: [(u32, u32); 9] =
    [(0, 1), (0, 2), (2, 3), (2, 4), (4, 5), (2, 6), (6, 7), (6, 8), (0, 9)];

fn engine(pool_types: &str) -> Engine {
    Engine::new(
        &document(&VERTICES, &EDGES),
        &format!(r#"{{"load_format":"jgf","match_format":"jgf","pool_types":{pool_types}}}"#),
    )
    .unwrap()
}

fn spec(resources: &str) -> String {
    format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":[{{"command":["a"],"slot":"s",
        "count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":60}}}}}}"#
    )
}

fn slot(count: u32, parts: &[(&str, u32)]) -> String {
    let parts = parts.iter().map(|(kind, count)| format!(r#"{{"type":"{kind}","count":{count}}}"#));
    let parts: Vec<String> = parts.collect();
    format!(r#"{{"type":"slot","label":"s","count":{count},"with":[{}]}}"#, parts.join(","))
}

const NAMED: &str = r#"["license","ssd","cpu"]"#;

#[test]
fn a_licence_is_handed_out_whole() {
    for pools in [NAMED, r#"["*"]"#] {
        let mut engine = engine(pools);
        // Of 10 and 2, the first that suffices for three is taken with all of it.
        let three = spec(&slot(1, &[("license", 3)]));
        let grant = engine.match_next(MatchOp::Allocate, &three).unwrap();
        assert!(grant.r.contains("license0") && grant.r.contains(r#""size": 10"#), "{}", grant.r);
        let error = engine.match_next(MatchOp::Allocate, &three).unwrap_err();
        assert_eq!(error.reason, Reason::Busy);
        let later = engine.match_next(MatchOp::AllocateOrElseReserve, &three).unwrap();
        assert_eq!(later.at, 60);
        engine.match_next(MatchOp::Allocate, &spec(&slot(1, &[("license", 2)]))).unwrap_err();
        // Units of nodes are another matter.
        engine.match_next(MatchOp::Allocate, &spec(&slot(4, &[("cpu", 3)]))).unwrap();
        engine.cancel(later.job.unwrap()).unwrap();
        engine.cancel(grant.job.unwrap()).unwrap();
        engine.match_next(MatchOp::Allocate, &three).unwrap();
        let many = spec(&slot(1, &[("license", 13)]));
        let error = engine.match_next(MatchOp::AllocateWithSatisfiability, &many).unwrap_err();
        assert_eq!(error.reason, Reason::Unsatisfiable);
    }
}

#[test]
fn a_type_may_be_units_of_nodes_and_whole_elsewhere() {
    let mut engine = engine(NAMED);
    let of_rack = spec(&format!(
        r#"{{"type":"rack","count":1,"with":[{}]}}"#,
        slot(1, &[("ssd", 1), ("node", 1)])
    ));
    let rack = engine.match_next(MatchOp::Allocate, &of_rack).unwrap();
    assert!(rack.r.contains("/c0/rack0/ssd0"), "{}", rack.r);
    let of_node =
        spec(&format!(r#"{{"type":"node","count":1,"with":[{}]}}"#, slot(2, &[("ssd", 2)])));
    let answer = engine.match_next(MatchOp::Allocate, &of_node);
    // The node of the first grant may be the one that has the units.
    if rack.r.contains("node1") {
        answer.unwrap_err();
        engine.cancel(rack.job.unwrap()).unwrap();
        engine.match_next(MatchOp::Allocate, &of_node).unwrap();
    } else {
        answer.unwrap();
    }
    let usage = engine.usage(1).unwrap().to_json();
    assert!(usage.contains(r#""type":"ssd","size":4,"used":4"#), "{usage}");
}

#[test]
fn what_is_whole_comes_and_goes() {
    let mut engine = engine(NAMED);
    let one = spec(&slot(1, &[("license", 1)]));
    engine.remove_subgraph("/c0/license0").unwrap();
    engine.remove_subgraph("/c0/license1").unwrap();
    let error = engine.match_next(MatchOp::AllocateWithSatisfiability, &one).unwrap_err();
    assert_eq!(error.reason, Reason::Unsatisfiable);
    let more = document(&[VERTICES[0], (20, "license", -1, 1, "/c0/license7")], &[(0, 20)]);
    engine.add_subgraph(&more).unwrap();
    let grant = engine.match_next(MatchOp::Allocate, &one).unwrap();
    assert!(grant.r.contains("license7"), "{}", grant.r);
    let found = engine.find("sched-now=allocated", MatchFormat::Jgf, true).unwrap().unwrap();
    assert!(found.contains("license7"), "{found}");
    // On a removed vertex nothing is held any more.
    engine.remove_subgraph("/c0/license7").unwrap();
    assert_eq!(engine.job_count(), 0);
}
