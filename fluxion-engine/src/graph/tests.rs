//! Finding vertices, and how deep a graph may be.

use super::{Graph, PoolTypes, plan_growth};
use crate::readers::jgf;

fn graph() -> Graph {
    let vertex = |id: usize, kind: &str, name: &str, rank: i64, path: &str| {
        format!(
            r#"{{"id":"{id}","metadata":{{"type":"{kind}","name":"{name}","id":{id},"rank":{rank},"paths":{{"containment":"{path}"}}}}}}"#
        )
    };
    let nodes = [
        vertex(0, "cluster", "cluster0", -1, "/cluster0"),
        vertex(1, "node", "node1", 0, "/cluster0/node1"),
        vertex(12, "node", "node12", 1, "/cluster0/node12"),
        vertex(3, "core", "core3", 0, "/cluster0/node1/core3"),
        vertex(4, "node", "twin", 2, "/cluster0/twin"),
        vertex(5, "node", "twin", 3, "/cluster0/twin"),
    ];
    let edges = [(0, 1), (0, 12), (1, 3), (0, 4), (0, 5)]
        .map(|(source, target)| format!(r#"{{"source":"{source}","target":"{target}"}}"#));
    let text =
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","));
    jgf::read(&text, PoolTypes::default()).unwrap()
}

#[test]
fn finds_by_path_and_by_rank() {
    let graph = graph();
    for vertex in graph.vertices() {
        assert!(graph.at_path(&graph.path(vertex)).contains(&vertex));
        assert_eq!(graph.find(&graph.path(vertex), graph.rank(vertex)), Some(vertex));
    }
    assert_eq!(graph.at_path("/cluster0/twin").len(), 2);
    for path in [
        "",
        "/",
        "cluster0",
        "/cluster0/",
        "/cluster0/node",
        "/cluster0/node01",
        "/cluster0/node1/core",
    ] {
        assert_eq!(graph.at_path(path), [], "{path}");
    }
    assert_eq!(graph.find("/cluster0/node1", 1), None);
    assert_eq!(graph.of_rank(0).len(), 2);
    assert_eq!(graph.top_of_rank(0), graph.find("/cluster0/node1", 0));
    assert_eq!(graph.ranks(), [0, 1, 2, 3]);
}

#[test]
fn a_graph_has_a_bottom() {
    let chain = |length: usize| {
        let (mut nodes, mut edges, mut path) = (Vec::new(), Vec::new(), String::new());
        for at in 0..length {
            path = format!("{path}/group{at}");
            nodes.push(format!(
                r#"{{"id":"{at}","metadata":{{"type":"group","id":{at},"paths":{{"containment":"{path}"}}}}}}"#
            ));
            if at > 0 {
                edges.push(format!(r#"{{"source":"{}","target":"{at}"}}"#, at - 1));
            }
        }
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","))
    };
    let graph = jgf::read(&chain(256), PoolTypes::default()).unwrap();
    assert!(jgf::read(&chain(257), PoolTypes::default()).unwrap_err().text.contains("levels"));
    let deeper = chain(257);
    let deeper = jgf::parse(&deeper).unwrap();
    assert!(
        plan_growth(&graph, &deeper.nodes, &deeper.edges).err().unwrap().text.contains("levels")
    );
    assert_eq!(graph.len(), 256);
}

#[test]
fn vertices_that_are_added_have_paths_of_their_own_wherever_they_are() {
    let graph = graph();
    let vertex = |id: &str, kind: &str, number: u32, uniq_id: u32, rank: i32, path: &str| {
        format!(
            r#"{{"id":"{id}","metadata":{{"type":"{kind}","id":{number},"uniq_id":{uniq_id},
                "rank":{rank},"paths":{{"containment":"{path}"}}}}}}"#
        )
    };
    let document = |second: &str| {
        let nodes = [
            vertex("one", "node", 1, 1, 0, "/cluster0/node1"),
            vertex("other", "node", 12, 12, 1, "/cluster0/node12"),
            vertex("a", "core", 7, 70, 0, "/cluster0/odd"),
            vertex("b", "core", 8, 71, 0, second),
        ];
        let edges = r#"{"source":"one","target":"a"},{"source":"other","target":"b"}"#;
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{edges}]}}}}"#, nodes.join(","))
    };
    let plan = |text: &str| {
        let document = jgf::parse(text).unwrap();
        plan_growth(&graph, &document.nodes, &document.edges).err().map(|error| error.text)
    };
    assert_eq!(plan(&document("/cluster0/even")), None);
    let error = plan(&document("/cluster0/odd")).unwrap();
    assert!(error.contains("vertex /cluster0/odd: another vertex of its rank"), "{error}");
}
