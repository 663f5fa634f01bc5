use std::fmt::Write as _;

use super::read;
use crate::Reason;
use crate::graph::{Graph, PoolTypes};
use crate::limits::OTHER_PATHS_BYTES_MAX;
use crate::limits::tests::with_lower;

const KEYS: &str = r#"
    <key id="root" for="node" attr.name="root" attr.type="int"><default>0</default></key>
    <key id="d0" for="node" attr.name="type" attr.type="string"/>
    <key id="basename" for="node" attr.name="basename" attr.type="string"/>
    <key id="size" for="node" attr.name="size" attr.type="long"><default>1</default></key>
    <key id="subsystem" for="node" attr.name="subsystem" attr.type="string"/>
    <key id="e_subsystem" for="edge" attr.name="e_subsystem" attr.type="string"/>
    <key id="scope" for="edge" attr.name="id_scope" attr.type="int"><default>0</default></key>
    <key id="start" for="edge" attr.name="id_start" attr.type="int"/>
    <key id="stride" for="edge" attr.name="id_stride" attr.type="int"/>
    <key id="method" for="edge" attr.name="gen_method" attr.type="string"/>
    <key id="scale" for="edge" attr.name="multi_scale" attr.type="int"><default>1</default></key>"#;

fn recipe(body: &str) -> String {
    format!(
        r#"<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{KEYS}<graph id="g">{body}</graph></graphml>"#
    )
}

fn vertex(id: &str, data: &str) -> String {
    let kind = if data.contains("\"d0\"") {
        String::new()
    } else {
        format!(r#"<data key="d0">{id}</data>"#)
    };
    format!(r#"<node id="{id}">{kind}{data}</node>"#)
}

fn edge(source: &str, target: &str, data: &[(&str, i64)]) -> String {
    let mut all = String::new();
    for (key, value) in data {
        write!(all, r#"<data key="{key}"> {value} </data>"#).expect("a String takes everything");
    }
    let data = all;
    format!(r#"<edge source="{source}" target="{target}">{data}</edge>"#)
}

fn paths(graph: &Graph) -> Vec<String> {
    graph.vertices().map(|vertex| graph.path(vertex)).collect()
}

#[test]
fn generates_level_by_level_with_shared_and_own_numbers() {
    let body = [
        vertex("cluster", r#"<data key="root">1</data><data key="basename">tiny</data>"#),
        vertex("rack", ""),
        vertex("node", ""),
        vertex("core", r#"<data key="size">4</data>"#),
        edge("cluster", "rack", &[("scale", 2)]),
        edge("rack", "node", &[("scale", 2), ("scope", 1)]),
        edge("node", "core", &[("scale", 2), ("start", 5)]),
    ]
    .concat();
    let graph = read(&recipe(&body), PoolTypes::default()).unwrap();
    assert_eq!(
        paths(&graph)[..8],
        [
            "/tiny0",
            "/tiny0/rack0",
            "/tiny0/rack1",
            "/tiny0/rack0/node0",
            "/tiny0/rack0/node1",
            "/tiny0/rack1/node2",
            "/tiny0/rack1/node3",
            "/tiny0/rack0/node0/core5",
        ]
    );
    let ranks: Vec<i32> = graph.vertices().map(|vertex| graph.rank(vertex)).collect();
    assert_eq!(ranks[..8], [-1, -1, -1, 0, 1, 2, 3, -1]);
    let last = graph.vertices().last().unwrap();
    assert_eq!((graph.uniq_id(last), graph.size(last)), (14, 4));
}

#[test]
fn strides_spread_shared_numbers_and_no_number_leaves_the_name_alone() {
    let body = [
        vertex("cluster", r#"<data key="root">1</data>"#),
        vertex("node", ""),
        vertex("core", ""),
        vertex("disk", ""),
        edge("cluster", "node", &[("scale", 2)]),
        edge("node", "core", &[("scale", 2), ("scope", 1), ("stride", 10), ("start", 1)]),
        edge("cluster", "disk", &[("start", -1)]),
    ]
    .concat();
    let graph = read(&recipe(&body), PoolTypes::default()).unwrap();
    let names: Vec<_> = graph.vertices().map(|vertex| graph.name(vertex).into_owned()).collect();
    assert_eq!(
        names,
        ["cluster0", "node0", "node1", "core1", "core11", "core21", "core31", "disk"]
    );
}

#[test]
fn other_subsystems_only_give_paths() {
    let power = r#"<data key="subsystem">power</data><data key="root">1</data>"#;
    let of_power = |source, target, method: &str| {
        let data = format!(
            r#"<data key="e_subsystem">power</data><data key="method">{method}</data></edge>"#
        );
        edge(source, target, &[("scale", 2)]).replace("</edge>", &data)
    };
    let body = [
        vertex("cluster", r#"<data key="root">1</data>"#),
        vertex("rack", ""),
        vertex("pdu", ""),
        vertex("node", ""),
        vertex("panel", power),
        edge("cluster", "rack", &[("scale", 2)]),
        edge("rack", "pdu", &[]),
        edge("rack", "node", &[("scope", 1), ("scale", 2)]),
        vertex("of_pdu", r#"<data key="d0">pdu</data>"#),
        vertex("of_node", r#"<data key="d0">node</data>"#),
        vertex("watts", ""),
        of_power("panel", "of_pdu", "ASSOCIATE_IN"),
        of_power("of_pdu", "of_node", "ASSOCIATE_BY_PATH_IN"),
        of_power("of_node", "watts", "MULTIPLY"),
    ]
    .concat();
    let graph = read(&recipe(&body), PoolTypes::default()).unwrap();
    assert_eq!(graph.len(), 9, "nothing of the power subsystem is generated");
    let node = *graph.at_path("/cluster0/rack1/node3").first().unwrap();
    assert_eq!(graph.other_paths(node), [("power".into(), "/panel0/pdu0/node3".into())]);
    assert_eq!(graph.other_paths(graph.parent(node).unwrap()), []);
}

#[test]
fn keys_may_be_for_all_and_of_an_editor() {
    let body = [
        vertex(
            "cluster",
            r#"<data key="root">1</data><data key="look"><shape kind="box"/></data>"#,
        ),
        vertex("node", ""),
        edge("cluster", "node", &[("scale", 2), ("look", 1)]),
    ]
    .concat();
    let look = r#"<key id="look" for="all" yfiles.type="nodegraphics"/><key id="more" for="port" attr.name="x"/>"#;
    let plain = recipe(&body);
    let (before, after) = plain.split_at(plain.find("<graph id").unwrap());
    for kind in [r#" for="all""#, ""] {
        let before = before.replace(r#" for="node""#, kind).replace(r#" for="edge""#, kind);
        let graph = read(&format!("{before}{look}{after}"), PoolTypes::default()).unwrap();
        assert_eq!(paths(&graph), ["/cluster0", "/cluster0/node0", "/cluster0/node1"]);
    }
}

/// As upstream: an attribute that no recipe knows may be declared, and may not be used.
#[test]
fn attributes_that_no_recipe_knows_are_refused_where_they_are_used() {
    let read_with = |key: &str, data: &str| {
        let body = [
            vertex("cluster", r#"<data key="root">1</data>"#),
            vertex("node", data),
            edge("cluster", "node", &[("scale", 2)]),
        ]
        .concat();
        let plain = recipe(&body);
        let (before, after) = plain.split_at(plain.find("<graph id").unwrap());
        read(&format!("{before}{key}\n{after}"), PoolTypes::default())
    };
    let key = r#"<key id="k" for="node" attr.name="url"/>"#;
    assert_eq!(read_with(key, "").unwrap().len(), 3);
    let says = |key: &str, data: &str| read_with(key, data).unwrap_err().text;
    let used = says(key, r#"<data key="k">x</data>"#);
    assert!(used.contains("<data>: key: \"k\": unknown attr.name \"url\""), "{used}");
    assert!(used.starts_with("grug: line 13:"), "{used}");
    let edges = r#"<key id="k" for="edge" attr.name="url"/>"#;
    assert!(says(edges, r#"<data key="k">x</data>"#).contains("key: unknown \"k\""));
    // A default is a use by every element.
    let default = r#"<key id="k" for="all" attr.name="url"><default>x</default></key>"#;
    let text = says(default, "");
    assert!(text.contains("line 12: <key>: attr.name: unknown \"url\""), "{text}");
}

#[test]
fn refuses_and_says_where() {
    let cluster = vertex("cluster", r#"<data key="root">1</data>"#);
    let node = vertex("node", "");
    for (body, says) in [
        (format!("{cluster}{}", edge("cluster", "gone", &[])), "target: there is no node \"gone\""),
        (format!("{cluster}{cluster}"), "line 12: <node>: id: \"cluster\" is used twice"),
        (
            format!("{cluster}{node}{}", edge("cluster", "node", &[("colour", 1)])),
            "key: unknown \"colour\"",
        ),
        (
            format!("{cluster}{node}{}", edge("cluster", "node", &[("scale", -1)])),
            "multi_scale: \"-1\" is no number",
        ),
        (
            format!("{cluster}{node}{}", edge("cluster", "node", &[("method", 1)])),
            "gen_method: unknown \"1\"",
        ),
        (
            format!("{cluster}{node}{}", edge("cluster", "node", &[("scale", i64::MAX)])),
            "<edge>: more than 16777216 vertices (VERTICES_MAX)",
        ),
        (
            format!("{cluster}{node}{}", edge("node", "node", &[])),
            "line 12: <edge>: source and target are the same node",
        ),
        (
            format!("{cluster}{node}{0}{0}", edge("cluster", "node", &[])),
            "an edge from this source to this target is there",
        ),
        (
            [&cluster, &node, &edge("cluster", "node", &[]), "\n", &edge("node", "cluster", &[])]
                .concat(),
            "line 13: <edge>: closes a circle",
        ),
        (
            [
                &cluster,
                &vertex("a", r#"<data key="d0">core</data><data key="basename">core</data>"#),
                &vertex("b", r#"<data key="d0">core</data><data key="basename">core</data>"#),
                &edge("cluster", "a", &[("scale", 2)]),
                &edge("cluster", "b", &[("start", 1)]),
            ]
            .map(String::as_str)
            .concat(),
            "path /cluster0/core1: another vertex of its rank has it",
        ),
        (vertex("cluster", r#"<data key="size">many</data>"#), "size: \"many\""),
        (node, "no vertices"),
    ] {
        let error = read(&recipe(&body), PoolTypes::default()).unwrap_err();
        assert_eq!(error.reason, Reason::Invalid);
        assert!(error.text.contains(says), "{error}");
    }
    let plain = recipe(&vertex("cluster", r#"<data key="root">1</data>"#));
    assert_eq!(read(&format!("\u{feff}{plain}"), PoolTypes::default()).unwrap().len(), 1);
    let long = plain.replace(
        "<graph id",
        &format!("{}<graph id", " ".repeat(crate::limits::RECIPE_BYTES_MAX.max)),
    );
    assert!(
        read(&long, PoolTypes::default()).unwrap_err().text.contains("more than 16777216 bytes")
    );
    for text in ["", "<", "{}", "<a/>", "<graphml/>"] {
        assert!(read(text, PoolTypes::default()).is_err(), "{text}");
    }
}

#[test]
fn a_recipe_of_more_vertices_than_fit_into_memory_is_refused() {
    let too_many =
        [vertex("cluster", r#"<data key="root">1</data>"#), vertex("node", ""), vertex("core", "")]
            .concat()
            + &edge("cluster", "node", &[("scale", 200_000)])
            + &edge("node", "core", &[("scale", 1_000)]);
    let error = read(&recipe(&too_many), PoolTypes::default()).unwrap_err();
    assert!(error.text.contains("more than 16777216 vertices (VERTICES_MAX)"), "{error}");
}

/// The keys of edges to vertices that are there.
const ASSOCIATIONS: &str = r#"
    <key id="target_up" for="edge" attr.name="as_tgt_uplvl" attr.type="int"/>
    <key id="source_up" for="edge" attr.name="as_src_uplvl" attr.type="int"/>
    <graph id"#;

fn associating(source: &str, target: &str, method: &str, data: &[(&str, i64)]) -> String {
    let method = format!(r#"<data key="method">{method}</data></edge>"#);
    edge(source, target, data).replace("</edge>", &method)
}

#[test]
fn edges_to_vertices_that_are_there_are_counted_over_the_whole_recipe() {
    let mut body = [
        vertex("cluster", r#"<data key="root">1</data>"#),
        vertex("a", ""),
        vertex("b", ""),
        edge("cluster", "b", &[("scale", 4_000)]),
        edge("cluster", "a", &[("scale", 4_000)]),
    ]
    .concat();
    // Each of these alone leads from each a to each b.
    for at in 0..100 {
        let id = format!("b{at}");
        body += &vertex(&id, r#"<data key="d0">b</data>"#);
        body += &associating("a", &id, "ASSOCIATE_IN", &[]);
    }
    let error = read(&recipe(&body), PoolTypes::default()).map(drop).unwrap_err();
    assert!(error.text.contains("<edge>: more than 4096 vertices with several"), "{error}");
    assert!(error.text.contains("ASSOCIATIONS_MAX"), "{error}");
}

#[test]
fn sources_are_not_compared_with_each_target() {
    let with = |ups: &[(&str, i64)], scale: i64| {
        let body = [
            vertex("cluster", r#"<data key="root">1</data>"#),
            vertex("a", ""),
            vertex("b", ""),
            vertex("of_b", r#"<data key="d0">b</data>"#),
            edge("cluster", "b", &[("scale", scale)]),
            edge("cluster", "a", &[("scale", scale)]),
            associating("a", "of_b", "ASSOCIATE_BY_PATH_IN", ups),
        ];
        read(&recipe(&body.concat()).replace("<graph id", ASSOCIATIONS), PoolTypes::default())
    };
    // None fits: four times 10^10 comparisons would find that.
    let graph = with(&[("source_up", 0), ("target_up", 1)], 200_000).unwrap();
    assert_eq!((graph.len(), graph.has_associations()), (400_001, false));
    assert_eq!(with(&[("source_up", 1), ("target_up", 1)], 60).unwrap().edges(), 120 + 3_600);
    // Above the root there is nothing, of either.
    assert_eq!(with(&[("source_up", 9), ("target_up", i64::MAX)], 2).unwrap().edges(), 8);
}

#[test]
fn paths_of_other_subsystems_are_counted_over_the_whole_recipe() {
    let power = r#"<data key="subsystem">power</data><data key="root">1</data>"#;
    let of_power = |source: &str, target: &str, scale: i64| {
        let data = r#"<data key="e_subsystem">power</data></edge>"#;
        edge(source, target, &[("scale", scale)]).replace("</edge>", data)
    };
    let mut body = [
        vertex("cluster", r#"<data key="root">1</data>"#),
        vertex("p0", power),
        vertex("p1", ""),
        of_power("p0", "p1", 1_000),
    ]
    .concat();
    for level in 2..100 {
        body += &vertex(&format!("p{level}"), "");
        body += &of_power(&format!("p{}", level - 1), &format!("p{level}"), 1);
    }
    let text = recipe(&body);
    assert_eq!(read(&text, PoolTypes::default()).unwrap().len(), 1);
    // Each edge would do; each level is longer than the one before.
    with_lower(OTHER_PATHS_BYTES_MAX, 10_000_000, || {
        let error = read(&text, PoolTypes::default()).unwrap_err();
        assert!(error.text.contains("<edge>: more than 1073741824 bytes of paths"), "{error}");
        assert!(error.text.contains("OTHER_PATHS_BYTES_MAX"), "{error}");
    });
}

#[test]
fn elements_are_counted_before_they_are_read() {
    // To tell where each of these stands would take hours.
    let text = recipe(&(vertex("a", "") + &"<edge source='a' target='b'/>".repeat(400_000)));
    let error = read(&text, PoolTypes::default()).unwrap_err();
    assert!(error.text.contains("more than 1024 nodes and edges of a recipe"), "{error}");
}
