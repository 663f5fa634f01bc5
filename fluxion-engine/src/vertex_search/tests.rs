//! Small machines, of whole vertices and of pools.

use crate::effort::SEARCHES;
use crate::{Engine, JobMode, MatchOp, Reason};

/// Two nodes of two sockets with two cores each, and a GPU; memory is a pool.
fn machine(policy: &str, format: &str) -> Engine {
    let mut nodes = vec![
        r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}}"#
            .to_owned(),
    ];
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
    let graph =
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","));
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
fn nodes_with_nothing_below_come_free_as_others_do() {
    let vertex = |uniq: usize, kind: &str, rank: i64, path: &str| {
        format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{rank},"rank":{rank},"paths":{{"containment":"{path}"}}}}}}"#
        )
    };
    let nodes = (1..=20)
        .zip(0..)
        .map(|(uniq, rank)| vertex(uniq, "node", rank, &format!("/cluster0/node{rank}")));
    let nodes: Vec<String> =
        std::iter::once(vertex(0, "cluster", -1, "/cluster0")).chain(nodes).collect();
    let edges: Vec<String> =
        (1..=20).map(|uniq| format!(r#"{{"source":"0","target":"{uniq}"}}"#)).collect();
    let graph =
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","));
    let options = r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"simple"}"#;
    let mut engine = Engine::new(&graph, options).unwrap();
    engine.match_job(MatchOp::Allocate, &spec(&slot(20, &of("node", 1)), 5), 1).unwrap();
    let reserved = engine
        .match_job(MatchOp::AllocateOrElseReserve, &spec(&slot(1, &of("node", 2)), 5), 2)
        .unwrap();
    assert_eq!((reserved.at, reserved.reserved), (5, true));
    assert!(reserved.r.contains("node0[1:x]"), "{}", reserved.r);
}

#[test]
fn the_order_of_children_follows_a_graph_that_shrinks_and_grows() {
    let mut engine = machine("first", "simple");
    let ask = spec(&slot(1, &of("core", 1)), 0);
    let granted = |engine: &mut Engine, job| {
        engine.match_job(MatchOp::WithoutAllocating, &ask, job).unwrap().r
    };
    let on_the_first = ask.replace(r#""system":{"#, r#""system":{"constraints":{"ranks":["0"]},"#);
    engine.match_job(MatchOp::Allocate, &on_the_first, 1).unwrap();
    engine.remove_subgraph("/cluster0/node0").unwrap();
    assert!(granted(&mut engine, 2).contains("node1"));
    let vertex = |uniq: u32, kind: &str, path: &str| {
        format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":7,"rank":{},"paths":{{"containment":"{path}"}}}}}}"#,
            if kind == "cluster" { -1 } else { 7 }
        )
    };
    let nodes =
        [vertex(0, "cluster", "/cluster0"), vertex(90, "node", "/cluster0/node7")].join(",");
    let nodes = [nodes, vertex(91, "core", "/cluster0/node7/core7")].join(",");
    let edges = r#"{"source":"0","target":"90"},{"source":"90","target":"91"}"#;
    engine
        .add_subgraph(&format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{edges}]}}}}"#))
        .unwrap();
    assert!(granted(&mut engine, 2).contains("node7"));
    engine.remove_subgraph("/cluster0/node7").unwrap();
    assert!(granted(&mut engine, 2).contains("node1"));
}

/// A policy that takes whole nodes takes none on which another job has units.
#[test]
fn a_node_with_units_of_another_is_not_taken_whole() {
    let mut engine = machine("lonodex", "jgf");
    for (id, rank) in [(5, 0), (6, 1)] {
        let charge = format!(
            r#"{{"label":"r","rank":{rank},"count":1,"with":{{"memory":60}},"end":"never"}}"#
        );
        engine.charge(id, &charge).unwrap();
    }
    let cores = spec(&slot(1, &of("core", 1)), 0);
    if engine.match_job(MatchOp::Allocate, &cores, 7).is_ok() {
        let used = [0, 1].map(|rank| engine.usage(rank).unwrap().pools[0].used);
        assert_eq!(used, [60, 60]);
    }
    engine.cancel(5).unwrap();
    engine.match_job(MatchOp::Allocate, &cores, 8).unwrap();
}

#[test]
fn units_of_a_pool_and_whole_vertices_go_together() {
    let mut engine = machine("lonode", "jgf");
    let ask = |slots, memory| {
        spec(&node_of(1, &slot(slots, &format!("{},{}", of("gpu", 1), of("memory", memory)))), 0)
    };
    let granted = engine.match_job(MatchOp::Allocate, &ask(1, 60), 5).unwrap();
    assert!(
        granted
            .r
            .contains(r#""type": "memory", "id": 0, "rank": 0, "exclusive": true, "size": 60"#),
        "{}",
        granted.r
    );
    assert_eq!(engine.usage(0).unwrap().pools[0].used, 60);
    engine.match_job(MatchOp::Allocate, &ask(1, 100), 6).unwrap();
    assert_eq!(
        engine.match_job(MatchOp::Allocate, &ask(1, 1), 7).unwrap_err().reason,
        Reason::Busy
    );
    engine.cancel(5).unwrap();
    assert_eq!(engine.usage(0).unwrap().pools[0].used, 0);
    assert_eq!(
        engine.match_job(MatchOp::Allocate, &ask(1, 101), 7).unwrap_err().reason,
        Reason::Busy
    );
    assert_eq!(
        engine.match_job(MatchOp::AllocateWithSatisfiability, &ask(1, 101), 7).unwrap_err().reason,
        Reason::Unsatisfiable
    );
    engine.match_job(MatchOp::Allocate, &ask(1, 100), 7).unwrap();
}

#[test]
fn slots_of_units_are_as_many_as_a_range_allows() {
    let machine = |size: u64| {
        let vertex = |uniq: u64, kind: &str, rank: u64, size: u64, path: String| {
            format!(
                r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{rank},"rank":{rank},"size":{size},"paths":{{"containment":"{path}"}}}}}}"#
            )
        };
        let mut nodes = vec![vertex(0, "cluster", 0, 1, "/cluster0".to_owned())];
        let mut edges = Vec::new();
        for rank in 0..2 {
            nodes.push(vertex(2 * rank + 1, "node", rank, 1, format!("/cluster0/node{rank}")));
            nodes.push(vertex(
                2 * rank + 2,
                "memory",
                0,
                size,
                format!("/cluster0/node{rank}/memory0"),
            ));
            edges.push(format!(r#"{{"source":"0","target":"{}"}}"#, 2 * rank + 1));
            edges.push(format!(r#"{{"source":"{}","target":"{}"}}"#, 2 * rank + 1, 2 * rank + 2));
        }
        let graph = format!(
            r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
            nodes.join(","),
            edges.join(",")
        );
        let options = r#"{"load_format":"jgf","matcher_policy":"first","match_format":"rv1_nosched","pool_types":["memory"]}"#;
        Engine::new(&graph, options).unwrap()
    };
    let ask = |nodes: u64, count: &str, memory: u64| {
        let slots = format!(
            r#"{{"type":"slot","label":"s","count":{count},"with":[{}]}}"#,
            of("memory", memory)
        );
        spec(&node_of(nodes, &slots), 60)
    };
    let used = |engine: &Engine| {
        let mut used = [0, 1].map(|rank| engine.usage(rank).unwrap().pools[0].used);
        used.sort_unstable_by_key(|used| std::cmp::Reverse(*used));
        used
    };
    let many = u64::from(u32::MAX);
    // Size, nodes, count, units of a slot, and the units used of the nodes then, the most first.
    for (size, nodes, count, memory, expected) in [
        (1_000_000_000, 1, r#"{"min":1}"#, 1, [1_000_000_000, 0]),
        (i64::MAX as u64, 2, r#"{"min":1}"#, 2, [2 * many, 2 * many]),
        (10, 1, r#"{"min":1,"max":3,"operator":"+","operand":1}"#, 2, [6, 0]),
        (10, 2, r#"{"min":2}"#, 3, [9, 9]),
        (10, 1, "3", 2, [6, 0]),
        (10, 1, r#"{"min":1,"max":8,"operator":"*","operand":2}"#, 1, [8, 0]),
        (10, 1, r#"{"min":1,"max":9,"operator":"*","operand":2}"#, 1, [8, 0]),
    ] {
        let mut engine = machine(size);
        engine.match_job(MatchOp::Allocate, &ask(nodes, count, memory), 1).unwrap();
        assert_eq!(used(&engine), expected, "{count} of {memory} on {nodes} nodes with {size}");
        engine.cancel(1).unwrap();
        assert_eq!(used(&engine), [0, 0]);
    }
    let mut engine = machine(10);
    for count in ["6", r#"{"min":6}"#, "4294967295"] {
        let error = engine.match_job(MatchOp::Allocate, &ask(1, count, 2), 1).unwrap_err();
        assert_eq!(error.reason, Reason::Busy, "{count}: {error}");
    }
}

#[test]
fn a_node_whose_units_are_in_use_is_not_had_alone() {
    let mut engine = machine("lonode", "simple");
    let units = spec(&slot(1, &of("memory", 1)), 60);
    let node = spec(&slot(1, &of("node", 1)), 60);
    engine.match_job(MatchOp::Allocate, &units, 1).unwrap();
    let granted = engine.match_job(MatchOp::Allocate, &node, 2).unwrap();
    assert_eq!(granted.r, "      ------node1[1:x]\n      ---cluster0[1:s]\n");
    assert_eq!(engine.match_job(MatchOp::Allocate, &node, 3).unwrap_err().reason, Reason::Busy);
    let later = engine.match_job(MatchOp::AllocateOrElseReserve, &node, 3).unwrap();
    assert_eq!((later.at, later.reserved), (60, true));
}

/// Q1.
#[test]
fn what_a_vertex_chose_far_below_it_is_lost_as_upstream_loses_it() {
    let mut engine = machine("lonode", "simple");
    // The slot is formed at a socket, and chosen by the node: nothing marks the way between them.
    let far = spec(&node_of(1, &slot(1, &of("core", 1))), 60);
    let reason = engine.match_next(MatchOp::Allocate, &far).unwrap_err().reason;
    assert!(matches!(reason, Reason::Nothing | Reason::Busy), "{reason:?}");
    let near = spec(&slot(1, &of("core", 1)), 60);
    let granted = engine.match_next(MatchOp::Allocate, &near).unwrap();
    assert!(
        granted.r.contains("core0[1:x]") && granted.r.contains("socket0[1:s]"),
        "{}",
        granted.r
    );
}

#[test]
fn the_clock_does_not_free_what_is_overdue() {
    let mut engine = machine("lonode", "simple");
    let both = spec(&slot(2, &of("node", 1)), 60);
    engine.match_job(MatchOp::Allocate, &both, 1).unwrap();
    engine.set_time(100).unwrap();
    assert_eq!(engine.match_job(MatchOp::Allocate, &both, 2).unwrap_err().reason, Reason::Busy);
    engine.cancel(1).unwrap();
    assert_eq!(engine.match_job(MatchOp::Allocate, &both, 2).unwrap().at, 100);
}

#[test]
fn the_clock_refuses_what_it_cannot_come_back_from() {
    let mut engine = machine("lonode", "simple");
    let both = spec(&slot(2, &of("node", 1)), 60);
    let (last, held) = (crate::NOW_MAX, 60);
    for beyond in [last + 1, i64::MAX - 1, i64::MAX] {
        let error = engine.set_time(beyond).unwrap_err();
        assert!(error.reason == Reason::Invalid && error.text.contains("time"), "{error}");
        assert_eq!(engine.now(), 0);
    }
    // At the last second that it can be, held vertices are held, and reservations begin and end as
    // they do elsewhere.
    engine.set_time(last).unwrap();
    engine.match_job(MatchOp::Allocate, &both, 1).unwrap();
    assert_eq!(engine.match_job(MatchOp::Allocate, &both, 2).unwrap_err().reason, Reason::Busy);
    let memory = spec(&slot(1, &of("memory", 100)), held);
    let later = engine.match_job(MatchOp::AllocateOrElseReserve, &memory, 2).unwrap();
    assert_eq!((later.at, later.reserved), (last + 60, true));
    engine.set_time(i64::MIN).unwrap();
    assert_eq!(engine.now(), last);
}

#[test]
fn siblings_of_one_type_are_named() {
    let mut engine = machine("lonode", "simple");
    let twice = node_of(1, &format!("{},{}", of("gpu", 1), of("gpu", 1)));
    let error = engine.match_next(MatchOp::Allocate, &spec(&slot(1, &twice), 60)).unwrap_err();
    assert_eq!(error.reason, Reason::Busy);
    assert!(error.text.contains("gpu"), "{error}");
}

#[test]
fn what_ends_early_does_not_visit_what_was_removed() {
    let mut engine = machine("first", "simple");
    let one = spec(&slot(1, &of("core", 1)), 60);
    // The children of the cluster, of a node and of a socket have their weights.
    for job in 1..=8 {
        engine.match_job(MatchOp::Allocate, &one, job).unwrap();
    }
    engine.cancel(8).unwrap();
    for gone in ["/cluster0/node1", "/cluster0/node0/socket1", "/cluster0/node0/socket0/core1"] {
        engine.remove_subgraph(gone).unwrap();
    }
    for job in 1..=7 {
        // The graph has pools, so those that have lost all that they had have ended.
        if engine.info(job).unwrap().mode == JobMode::Allocated {
            engine.cancel(job).unwrap();
        }
    }
    assert!(engine.match_job(MatchOp::Allocate, &one, 9).unwrap().r.contains("core0[1:x]"));
    assert_eq!(engine.match_job(MatchOp::Allocate, &one, 10).unwrap_err().reason, Reason::Busy);
}

/// Two nodes of one core, of which the second has no rank, so that R cannot name it.
fn half_ranked() -> Engine {
    let vertex = |uniq: usize, kind: &str, id: usize, rank: i64, path: &str| {
        format!(
            r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},"paths":{{"containment":"/{path}"}}}}}}"#
        )
    };
    let nodes = [
        vertex(0, "cluster", 0, -1, "cluster0"),
        vertex(1, "node", 0, 0, "cluster0/node0"),
        vertex(2, "core", 0, 0, "cluster0/node0/core0"),
        vertex(3, "node", 1, -1, "cluster0/node1"),
        vertex(4, "core", 0, -1, "cluster0/node1/core0"),
    ];
    let edges = [(0, 1), (1, 2), (0, 3), (3, 4)]
        .map(|(from, to)| format!(r#"{{"source":"{from}","target":"{to}"}}"#));
    let graph =
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","));
    Engine::new(
        &graph,
        r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"rv1_nosched"}"#,
    )
    .unwrap()
}

#[test]
fn a_question_whose_answer_cannot_be_written_loses_no_job() {
    let mut engine = half_ranked();
    let one = spec(&slot(1, &of("core", 1)), 60);
    engine.match_job(MatchOp::Allocate, &one, 8).unwrap();
    for op in [MatchOp::WithoutAllocating, MatchOp::WithoutAllocatingFuture] {
        engine.match_job(op, &one, 8).unwrap_err();
        assert_eq!(engine.info(8).unwrap().mode, JobMode::Allocated, "{op:?}");
    }
    engine.cancel(8).unwrap();
    // Its vertices are free again.
    assert_eq!(engine.find("sched-now=allocated", crate::MatchFormat::Jgf, true).unwrap(), None);
}

/// Nodes of three cores, one of which is held for ever; of the others each node has one that is
/// held until another instant.
fn worn(nodes: usize, policy: &str) -> Engine {
    let (mut vertices, mut edges) = (
        vec![
            r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}"#
                .to_owned(),
        ],
        Vec::new(),
    );
    for rank in 0..nodes {
        for (at, kind) in ["node", "core", "core", "core"].into_iter().enumerate() {
            let (uniq, above) = (1 + 4 * rank + at, if at == 0 { 0 } else { 1 + 4 * rank });
            let (id, path) = if at == 0 {
                (rank, format!("/c0/node{rank}"))
            } else {
                (at - 1, format!("/c0/node{rank}/core{}", at - 1))
            };
            vertices.push(format!(
                r#"{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},
            "paths":{{"containment":"{path}"}}}}}}"#
            ));
            edges.push(format!(r#"{{"source":"{above}","target":"{uniq}"}}"#));
        }
    }
    let graph = format!(
        r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
        vertices.join(","),
        edges.join(",")
    );
    let options =
        format!(r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"simple"}}"#);
    let mut engine = Engine::new(&graph, &options).unwrap();
    let each = spec(&node_of(nodes as u64, &slot(1, &of("core", 1))), 0);
    engine.match_next(MatchOp::Allocate, &each).unwrap();
    for job in 0..nodes as u64 {
        engine.match_next(MatchOp::Allocate, &spec(&slot(1, &of("core", 1)), 100 + job)).unwrap();
    }
    engine
}

/// How many searches a reservation takes, and when it begins.
fn reserve(engine: &mut Engine, resources: &str, duration: u64) -> (usize, Result<i64, Reason>) {
    let before = SEARCHES.get();
    let answer = engine.match_next(MatchOp::AllocateOrElseReserve, &spec(resources, duration));
    (SEARCHES.get() - before, answer.map(|grant| grant.at).map_err(|error| error.reason))
}

#[test]
fn a_refused_reservation_is_searched_for_where_it_may_succeed() {
    for policy in ["first", "low", "high", "lonode", "hinode", "locality"] {
        let mut engine = worn(30, policy);
        // A node has all of its cores when the window ends, which is too late.
        let (searches, answer) = reserve(&mut engine, &slot(1, &of("core", 3)), 50);
        assert_eq!(answer, Err(Reason::Busy), "{policy}");
        assert!(searches <= 6, "{policy}: {searches}");
        // No node has four.
        let (searches, answer) = reserve(&mut engine, &slot(1, &of("core", 4)), 50);
        assert_eq!(answer, Err(Reason::Unsatisfiable), "{policy}");
        assert!(searches <= 6, "{policy}: {searches}");
        // Two cores of twenty nodes: once as many have given some back.
        let twenty = node_of(20, &slot(1, &of("core", 2)));
        let (searches, answer) = reserve(&mut engine, &twenty, 50);
        assert!(answer.is_ok_and(|at| at > 0 && at <= 130), "{policy}: {answer:?}");
        assert!(searches <= 6, "{policy}: {searches}");
    }
}
