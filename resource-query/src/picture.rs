//! The graph as a picture: Graphviz's dot, or GraphML.

use std::io::{self, Write};

use fluxion_engine::graph::Graph;

use crate::options::GraphFormat;

pub(crate) fn draw(graph: &Graph, format: GraphFormat, out: &mut impl Write) -> io::Result<()> {
    match format {
        GraphFormat::Dot => dot(graph, out),
        GraphFormat::GraphMl => graphml(graph, out),
    }
}

fn dot(graph: &Graph, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "digraph G {{")?;
    for vertex in graph.vertices() {
        writeln!(out, "{} [label={:?}];", graph.uniq_id(vertex), graph.name(vertex))?;
    }
    for vertex in graph.vertices() {
        for child in graph.children(vertex) {
            writeln!(out, "{}->{};", graph.uniq_id(vertex), graph.uniq_id(*child))?;
        }
    }
    writeln!(out, "}}")
}

fn graphml(graph: &Graph, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(out, r#"<graphml xmlns="http://graphml.graphdrawing.org/xmlns">"#)?;
    for key in ["name", "type", "path"] {
        writeln!(out, r#"  <key id="{key}" for="node" attr.name="{key}" attr.type="string"/>"#)?;
    }
    writeln!(out, r#"  <graph id="G" edgedefault="directed">"#)?;
    for vertex in graph.vertices() {
        let (id, name, path) = (graph.uniq_id(vertex), graph.name(vertex), graph.path(vertex));
        write!(out, r#"    <node id="n{id}">"#)?;
        for (key, value) in [("name", &*name), ("type", graph.kind_name(vertex)), ("path", &*path)]
        {
            write!(out, r#"<data key="{key}">{}</data>"#, escaped(value))?;
        }
        writeln!(out, "</node>")?;
    }
    for vertex in graph.vertices() {
        for child in graph.children(vertex) {
            let (source, target) = (graph.uniq_id(vertex), graph.uniq_id(*child));
            writeln!(out, r#"    <edge source="n{source}" target="n{target}"/>"#)?;
        }
    }
    writeln!(out, "  </graph>\n</graphml>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
