//! Small machines of whole vertices.

use crate::{Engine, MatchOp, Reason};

/// Two nodes of two sockets with two cores each, and a GPU; memory is a pool.
fn machine(policy: &str, format: &str) -> Engine {
    let mut nodes =
        vec![r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}}"#.to_owned()];
    let mut edges = Vec::new();
    let mut add = |parent: usize, kind: &str, id: usize, rank: usize, size: u64, path: &str| {
        let uniq = nodes.len();
        nodes.push(format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},"size":{size},"paths":{{"containment":"{path}"}}}}}}"#
        ));
        edges.push(format!(r#"{{"source":"{parent}","target":"{uniq}"}}"#));
        uniq
    };
    for rank in 0..2 {
        let node_path = format!("/cluster0/node{rank}");
        let node = add(0, "node", rank, rank, 1, &node_path);
        for socket in 0..2 {
            let path = format!("{node_path}/socket{socket}");
            let parent = add(node, "socket", socket, rank, 1, &path);
            for core in 2 * socket..2 * socket + 2 {
                add(parent, "core", core, rank, 1, &format!("{path}/core{core}"));
            }
        }
        add(node, "gpu", 0, rank, 1, &format!("{node_path}/gpu0"));
        add(node, "memory", 0, rank, 100, &format!("{node_path}/memory0"));
    }
    let graph = format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","));
    let options = format!(
        r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"{format}","pool_types":["memory"]}}"#
    );
    Engine::new(&graph, &options).unwrap()
}

fn spec(resources: &str, duration: u64) -> String {
    format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":[{{"command":["a"],"slot":"s","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{duration}}}}}}}"#
    )
}

fn slot(count: u64, with: &str) -> String {
    format!(r#"{{"type":"slot","label":"s","count":{count},"with":[{with}]}}"#)
}

fn of(kind: &str, count: u64) -> String {
    format!(r#"{{"type":"{kind}","count":{count}}}"#)
}

fn node_of(count: u64, inner: &str) -> String {
    format!(r#"{{"type":"node","count":{count},"with":[{inner}]}}"#)
}

#[test]
fn hands_out_cores_until_there_are_none() {
    let mut engine = machine("low", "simple");
    let one = spec(&slot(1, &of("core", 1)), 60);
    for _ in 0..8 {
        engine.match_next(MatchOp::Allocate, &one).unwrap();
    }
    assert_eq!(engine.match_next(MatchOp::Allocate, &one).unwrap_err().reason, Reason::Busy);
    engine.cancel(3).unwrap();
    engine.match_next(MatchOp::Allocate, &one).unwrap();
    assert_eq!(engine.match_next(MatchOp::Allocate, &one).unwrap_err().reason, Reason::Busy);
}

#[test]
fn writes_the_cores_of_the_policy() {
    let ask = spec(&node_of(1, &slot(1, &of("core", 1))), 60);
    for (policy, node, core) in [("low", 0, 0), ("lonode", 0, 0), ("hinode", 1, 3)] {
        let granted = machine(policy, "rv1_nosched").match_next(MatchOp::Allocate, &ask).unwrap();
        let expected = format!(
            "{{\"version\": 1, \"execution\": {{\"R_lite\": [{{\"rank\": \"{node}\", \"children\": {{\"core\": \"{core}\"}}}}], \
             \"nodelist\": [\"node{node}\"], \"starttime\": 0, \"expiration\": 60}}}}\n"
        );
        assert_eq!(granted.r, expected, "{policy}");
    }
}

#[test]
fn nodes_in_slots_are_exclusive() {
    let mut engine = machine("lonode", "simple");
    let core = spec(&slot(1, &of("core", 1)), 60);
    let node = spec(&slot(1, &of("node", 1)), 60);
    engine.match_next(MatchOp::Allocate, &core).unwrap();
    let granted = engine.match_next(MatchOp::Allocate, &node).unwrap();
    assert_eq!(granted.r, "      ------node1[1:x]\n      ---cluster0[1:s]\n");
    // Node 0 has a core in use, node 1 is taken; three cores of node 0 are left.
    assert_eq!(engine.match_next(MatchOp::Allocate, &node).unwrap_err().reason, Reason::Busy);
    for _ in 0..3 {
        engine.match_next(MatchOp::Allocate, &core).unwrap();
    }
    assert_eq!(engine.match_next(MatchOp::Allocate, &core).unwrap_err().reason, Reason::Busy);
}

#[test]
fn cores_and_units_of_memory_go_together() {
    let mut engine = machine("lonode", "jgf");
    let ask = |slots, memory| spec(&node_of(1, &slot(slots, &format!("{},{}", of("gpu", 1), of("memory", memory)))), 0);
    let granted = engine.match_job(MatchOp::Allocate, &ask(1, 60), 5).unwrap();
    assert!(
        granted.r.contains(r#""type": "memory", "id": 0, "rank": 0, "exclusive": true, "size": 60"#),
        "{}",
        granted.r
    );
    assert_eq!(engine.usage(0).unwrap().pools[0].used, 60);
    engine.match_job(MatchOp::Allocate, &ask(1, 100), 6).unwrap();
    assert_eq!(engine.match_job(MatchOp::Allocate, &ask(1, 1), 7).unwrap_err().reason, Reason::Busy);
    engine.cancel(5).unwrap();
    assert_eq!(engine.match_job(MatchOp::Allocate, &ask(1, 101), 7).unwrap_err().reason, Reason::Busy);
    assert_eq!(
        engine.match_job(MatchOp::AllocateWithSatisfiability, &ask(1, 101), 7).unwrap_err().reason,
        Reason::Unsatisfiable
    );
    engine.match_job(MatchOp::Allocate, &ask(1, 100), 7).unwrap();
}

#[test]
fn reserves_when_enough_has_ended() {
    let mut engine = machine("lonode", "simple");
    let nodes = |count, seconds| spec(&slot(count, &of("node", 1)), seconds);
    engine.match_job(MatchOp::Allocate, &nodes(1, 30), 1).unwrap();
    engine.match_job(MatchOp::Allocate, &nodes(1, 50), 2).unwrap();
    let both = engine.match_job(MatchOp::AllocateOrElseReserve, &nodes(2, 20), 3).unwrap();
    assert_eq!((both.at, both.reserved), (50, true));
    // From 30 to 50 a node is free, and not a second longer.
    let gap = engine.match_job(MatchOp::AllocateOrElseReserve, &nodes(1, 20), 4).unwrap();
    assert_eq!((gap.at, gap.reserved), (30, true));
    let after = engine.match_job(MatchOp::AllocateOrElseReserve, &nodes(1, 21), 5).unwrap();
    assert_eq!(after.at, 70);
    assert_eq!(
        engine.match_job(MatchOp::AllocateOrElseReserve, &nodes(3, 1), 6).unwrap_err().reason,
        Reason::Unsatisfiable
    );
}

#[test]
fn ranges_take_what_there_is() {
    let mut engine = machine("low", "rv1_nosched");
    let all = slot(1, r#"{"type":"core","count":{"min":1}}"#);
    let granted = engine.match_next(MatchOp::Allocate, &spec(&node_of(2, &all), 9)).unwrap();
    // A slot is formed at one socket.
    assert!(granted.r.contains(r#"{"rank": "0-1", "children": {"core": "0-1"}}"#), "{}", granted.r);
}

#[test]
fn partial_cancel_gives_back_ranks() {
    let mut engine = machine("lonode", "rv1_nosched");
    let ask = spec(&node_of(2, &slot(2, &of("core", 1))), 60);
    let granted = engine.match_job(MatchOp::Allocate, &ask, 1).unwrap();
    assert!(granted.r.contains(r#"{"rank": "0-1", "children": {"core": "0-1"}}"#), "{}", granted.r);
    let of_rank = |rank| format!(r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{}}}}]}}}}"#);
    assert_eq!(engine.partial_cancel(1, &of_rank(9)).unwrap_err().reason, Reason::Invalid);
    assert!(!engine.partial_cancel(1, &of_rank(0)).unwrap());
    assert!(engine.partial_cancel(1, &of_rank(1)).unwrap());
    assert_eq!(engine.cancel(1).unwrap_err().reason, Reason::NotFound);
}

#[test]
fn what_is_down_is_passed_over() {
    let mut engine = machine("lonode", "rv1_nosched");
    engine.set_status("/cluster0/node0", false).unwrap();
    let ask = spec(&slot(1, &of("core", 1)), 60);
    assert!(engine.match_next(MatchOp::Allocate, &ask).unwrap().r.contains(r#""rank": "1""#));
    let two = spec(&slot(2, &of("node", 1)), 60);
    assert!(engine.match_next(MatchOp::Satisfiability, &two).is_ok());
    assert_eq!(engine.match_next(MatchOp::AllocateWithSatisfiability, &two).unwrap_err().reason, Reason::Busy);
}

#[test]
fn refuses_what_it_cannot_answer() {
    let mut engine = machine("lonode", "simple");
    for (resources, names) in [
        (of("node", 1), "nothing would be taken"),
        (node_of(1, &format!("{},{}", slot(1, &of("core", 1)), slot(1, &of("gpu", 1)))), "same type"),
        (slot(1, &of("mpi", 1)), "mpi"),
        (slot(1, &slot(1, &of("core", 1))), "slot within a slot"),
        (node_of(1, &of("memory", 5)), "neither"),
    ] {
        let error = engine.match_next(MatchOp::Allocate, &spec(&resources, 1)).unwrap_err();
        assert_eq!(error.reason, Reason::Invalid);
        assert!(error.text.contains(names), "{resources}: {error}");
    }
}
