//! Bytes of the texts of vertices: an answer may have those of all.

use std::fmt::Display;

use super::Graph;
use crate::Error;
use crate::graph::text::PropertySet;
use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, TEXT_BYTES_MAX, beginning};
use crate::vertex::VertexId;

impl Graph {
    /// Refuses texts of this many bytes more than there are. `place`: what asks for it.
    pub(crate) fn check_texts(&self, more: usize, place: impl Display) -> Result<(), Error> {
        TEXT_BYTES_MAX.check(self.text_bytes.saturating_add(more), place)
    }
}

/// Counts the texts of all vertices of a graph that was just made.
pub(super) fn count(graph: &mut Graph) -> Result<(), Error> {
    if let Some(name) = graph.names.too_long() {
        return Err(NAME_BYTES_MAX.exceeded(format_args!("graph: name {:?}", beginning(name))));
    }
    // Bytes of paths, as far as they are known. No path is empty.
    let mut paths = vec![0_usize; graph.len()];
    let mut way = Vec::new();
    for vertex in graph.vertices() {
        let mut next = Some(vertex);
        let above = loop {
            match next {
                Some(at) if paths[at.index()] == 0 => way.push(at),
                known => break known.map_or(0, |at| paths[at.index()]),
            }
            next = next.and_then(|at| graph.parent(at));
        };
        let mut above = above;
        while let Some(at) = way.pop() {
            let own = above + 1 + graph.names.name_bytes(&graph.arena, at);
            above = graph.names.odd_path_bytes(at).unwrap_or(own);
            paths[at.index()] = above;
        }
        let path = paths[vertex.index()];
        if !PATH_BYTES_MAX.allows(path) {
            let name = graph.name(vertex);
            return Err(PATH_BYTES_MAX.exceeded(format_args!("graph: path of vertex {name}")));
        }
        graph.text_bytes = graph.text_bytes.saturating_add(path + bytes_beside_path(graph, vertex));
    }
    graph.check_texts(0, "graph")
}

/// Bytes of the texts of a vertex.
pub(super) fn bytes_of(graph: &Graph, vertex: VertexId) -> usize {
    let mut path = 0;
    for at in graph.way_up(vertex) {
        if let Some(rest) = graph.names.odd_path_bytes(at) {
            path += rest;
            break;
        }
        path += 1 + graph.names.name_bytes(&graph.arena, at);
    }
    path + bytes_beside_path(graph, vertex)
}

fn bytes_beside_path(graph: &Graph, vertex: VertexId) -> usize {
    let set = graph.arena.properties(vertex);
    let properties = if set == PropertySet::NONE { 0 } else { graph.names.set_bytes(set) };
    let others = graph.other_paths(vertex).iter();
    graph.kind_name(vertex).len()
        + graph.basename(vertex).len()
        + graph.names.name_bytes(&graph.arena, vertex)
        + graph.unit(vertex).len()
        + others.map(|(subsystem, path)| subsystem.len() + path.len()).sum::<usize>()
        + properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::limits::tests::with_lower;
    use crate::limits::{Limit, PROPERTIES_MAX, VERTEX_PROPERTIES_MAX};
    use crate::{Engine, Error, MatchOp};

    fn vertex(id: usize, kind: &str, rank: i64, path: &str, more: &str) -> String {
        format!(
            r#"{{"id":"{id}","metadata":{{"type":"{kind}","rank":{rank},{more}
                "paths":{{"containment":"{path}"}}}}}}"#
        )
    }

    /// Nodes from one number to another with a core each, below a cluster.
    fn document(from: usize, to: usize) -> String {
        let (mut nodes, mut edges) =
            (vec![vertex(0, "cluster", -1, "/c0", r#""name":"c0","#)], Vec::new());
        for at in from..to {
            let (id, rank) = (2 * at + 1, i64::try_from(at).unwrap());
            let (node, odd) = (format!("/c0/node{at}"), format!("/odd/core{at}"));
            let plain = format!(r#""id":{at},"properties":{{"arm":"8"}},"#);
            nodes.push(vertex(id, "node", rank, &node, &plain));
            nodes.push(vertex(id + 1, "core", rank, &odd, r#""id":-5,"basename":"cpu","#));
            edges.push(format!(r#"{{"source":"0","target":"{id}"}}"#));
            edges.push(format!(r#"{{"source":"{id}","target":"{}"}}"#, id + 1));
        }
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","))
    }

    fn engine(document: &str, options: &str) -> Result<Engine, Error> {
        Engine::new(document, &format!(r#"{{"load_format":"jgf"{options}}}"#))
    }

    /// The texts of all vertices, put together.
    fn all(graph: &Graph) -> usize {
        let of = |vertex: VertexId| {
            let properties = graph.properties(vertex).iter();
            let properties: usize = properties.map(|(name, value)| name.len() + value.len()).sum();
            let names =
                [graph.kind_name(vertex), graph.basename(vertex), &graph.name(vertex)].concat();
            names.len() + graph.path(vertex).len() + properties
        };
        graph.vertices().filter(|vertex| graph.is_linked(*vertex)).map(of).sum()
    }

    fn says<T>(answer: Result<T, Error>, limit: Limit, place: &str) {
        let error = answer.map(drop).unwrap_err();
        assert!(error.text.starts_with(place), "{error}");
        assert!(error.text.ends_with(&format!("more than {limit}")), "{error}");
    }

    #[test]
    fn texts_are_counted_as_graphs_change() {
        for options in ["", r#","pool_types":["core"]"#] {
            let mut engine = engine(&document(0, 4), options).unwrap();
            let counts = |engine: &Engine| {
                assert_eq!(engine.graph().text_bytes, all(engine.graph()));
                engine.graph().text_bytes
            };
            let before = counts(&engine);
            let grown = before + document_bytes(&document(4, 12), options);
            with_lower(TEXT_BYTES_MAX, grown - 1, || {
                says(engine.add_subgraph(&document(4, 12)), TEXT_BYTES_MAX, "graph: ");
            });
            assert_eq!(counts(&engine), before);
            engine.add_subgraph(&document(4, 12)).unwrap();
            assert_eq!(counts(&engine), grown);
            engine.set_property("/c0/node5", "gpu", "a100").unwrap();
            engine.set_property("/c0/node5", "arm", "").unwrap();
            assert_eq!(counts(&engine), grown + 7 - 1);
            with_lower(TEXT_BYTES_MAX, grown, || {
                says(engine.set_property("/c0", "x", ""), TEXT_BYTES_MAX, "set_property: ");
            });
            if !options.is_empty() {
                engine.resize(3, "core", 7).unwrap();
            }
            // Until they are dropped, vertices that are gone take memory.
            let before = counts(&engine);
            engine.remove_subgraph("/c0/node5").unwrap();
            assert_eq!(engine.graph().text_bytes, before);
        }
        let mut engine = engine(&document(0, 1_000), r#","pool_types":["core"]"#).unwrap();
        engine.remove_ranks("10-999").unwrap();
        assert_eq!((engine.graph().len(), engine.graph().text_bytes), (21, all(engine.graph())));
    }

    /// The texts of a document below its root.
    fn document_bytes(document: &str, options: &str) -> usize {
        let graph = engine(document, options).unwrap();
        all(graph.graph()) - "cluster".len() - "cluster".len() - "c0".len() - "/c0".len()
    }

    #[test]
    fn a_graph_of_more_texts_than_an_answer_may_have_is_refused() {
        let bytes = all(engine(&document(0, 9), "").unwrap().graph());
        with_lower(TEXT_BYTES_MAX, bytes, || assert!(engine(&document(0, 9), "").is_ok()));
        with_lower(TEXT_BYTES_MAX, bytes - 1, || {
            says(engine(&document(0, 9), ""), TEXT_BYTES_MAX, "graph: ");
        });
        // A label stands beside each vertex of its level.
        let spec = r#"{"version":1,"resources":[{"type":"core","count":1,"label":"LABEL"}],"tasks":
            [{"command":["a"],"slot":"s","count":{"per_slot":1}}],"attributes":null}"#;
        let long = spec.replace("LABEL", &"x".repeat(500));
        let mut nine = engine(&document(0, 9), "").unwrap();
        with_lower(TEXT_BYTES_MAX, 19 * 500 - 1, || {
            let answer = nine.match_next(MatchOp::Satisfiability, &long);
            says(answer, TEXT_BYTES_MAX, "resources: label: ");
            nine.match_next(MatchOp::Satisfiability, spec).unwrap();
        });
    }

    #[test]
    fn names_and_paths_are_limited_where_they_stand() {
        let long = "x".repeat(NAME_BYTES_MAX.max + 1);
        let path = format!("/c0/{}", "y/".repeat(PATH_BYTES_MAX.max));
        let one = document(0, 1);
        for (from, to, limit, place) in [
            ("\"core\"", &format!("\"{long}\""), NAME_BYTES_MAX, "type: "),
            ("\"cpu\"", &format!("\"{long}\""), NAME_BYTES_MAX, "basename: "),
            ("\"basename\"", &format!(r#""name":"{long}","basename""#), NAME_BYTES_MAX, "name: "),
            ("/odd/core0", &path, PATH_BYTES_MAX, "paths: containment: "),
        ] {
            let error = engine(&one.replace(from, to), "").unwrap_err();
            let says = format!("vertex \"2\": {place}more than {limit}");
            assert!(error.text.contains(&says), "{error}");
        }
        // Of R the hosts are names.
        let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],
            "nodelist":["LONG"]}}"#;
        let answer = Engine::new(&r.replace("LONG", &long), r#"{"load_format":"rv1exec"}"#);
        says(answer, NAME_BYTES_MAX, "graph: name \"xxx");
        // The paths of a recipe follow from its names.
        let mut recipe = r#"<graphml><key id="t" for="node" attr.name="type"/>
            <key id="r" for="node" attr.name="root"/><graph>"#
            .to_owned();
        let name = "z".repeat(NAME_BYTES_MAX.max);
        for level in 0..20 {
            let root = if level == 0 { r#"<data key="r">1</data>"# } else { "" };
            let node = format!(r#"<node id="{level}"><data key="t">{name}</data>{root}</node>"#);
            recipe.push_str(&node);
        }
        for level in 1..20 {
            let edge = format!(r#"<edge source="{}" target="{level}"/>"#, level - 1);
            recipe.push_str(&edge);
        }
        recipe += "</graph></graphml>";
        let grug = |text: &str| Engine::new(text, r#"{"load_format":"grug"}"#);
        says(grug(&recipe), PATH_BYTES_MAX, "graph: path of vertex zzz");
        // A name of the recipe is written with each vertex.
        let long = recipe.replacen(&name, &"b".repeat(8 << 20), 1);
        says(grug(&long), NAME_BYTES_MAX, "grug: line 2: <node>: type: ");
    }

    #[test]
    fn calls_take_no_longer_names_than_documents() {
        let mut engine = engine(&document(0, 2), r#","pool_types":["*"]"#).unwrap();
        let long = "x".repeat(NAME_BYTES_MAX.max + 1);
        let charge = |label: &str, kind: &str| {
            format!(
                r#"{{"label":"{label}","rank":0,"count":1,"with":{{"{kind}":1}},"end":"never"}}"#
            )
        };
        says(engine.charge(1, &charge(&long, "core")), NAME_BYTES_MAX, "charge of job 1: label: ");
        says(engine.charge(1, &charge("a", &long)), NAME_BYTES_MAX, "type \"xxx");
        says(engine.resize(0, &long, 1), NAME_BYTES_MAX, "type \"xxx");
        says(engine.set_part(&long, "0", "a"), NAME_BYTES_MAX, "set_part: level: ");
        let path = "x".repeat(PATH_BYTES_MAX.max + 1);
        says(engine.set_part("zone", "0", &path), PATH_BYTES_MAX, "set_part: part: ");
        let slot = r#"{"version":1,"resources":[{"type":"slot","count":1,"label":"LABEL","with":
            [{"type":"KIND","count":1}]}],"tasks":[{"command":["a"],"slot":"s","count":
            {"per_slot":1}}],"attributes":{"system":{"queue":"QUEUE"}}}"#;
        for (field, place) in [
            ("LABEL", "resources[0]: label: "),
            ("KIND", "resources[0].with[0]: type: "),
            ("QUEUE", "attributes.system.queue: "),
        ] {
            let spec = slot.replace(field, &long).replace("KIND", "core");
            says(engine.match_next(MatchOp::Allocate, &spec), NAME_BYTES_MAX, place);
        }
    }

    #[test]
    fn properties_of_a_vertex_are_counted() {
        let properties = |count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!(r#""p{at}":"""#)).collect();
            document(0, 1).replace(r#""arm":"8""#, &all.join(","))
        };
        let mut full = engine(&properties(VERTEX_PROPERTIES_MAX.max), "").unwrap();
        says(full.set_property("/c0/node0", "one", ""), VERTEX_PROPERTIES_MAX, "set_property: ");
        full.set_property("/c0/node0", "p0", "more").unwrap();
        let error = engine(&properties(VERTEX_PROPERTIES_MAX.max + 1), "").unwrap_err();
        assert!(
            error.text.contains("4096 properties of a vertex (VERTEX_PROPERTIES_MAX)"),
            "{error}"
        );
        with_lower(PROPERTIES_MAX, 3, || {
            assert!(engine(&document(0, 3), "").is_ok());
            let error = engine(&document(0, 4), "").unwrap_err();
            assert!(error.text.contains("PROPERTIES_MAX"), "{error}");
            let error = full.add_subgraph(&document(0, 4)).unwrap_err();
            assert!(error.text.contains("PROPERTIES_MAX"), "{error}");
        });
    }
}
