//! `jgf`: the granted part of the graph, in the spelling of upstream (", " and ": " between things).

use std::fmt::{self, Write as _};

use super::emission::Emitted;
use crate::graph::Graph;

pub(super) fn write(graph: &Graph, emitted: &[Emitted]) -> String {
    let mut out = String::from("{\"graph\": {\"nodes\": [");
    let (mut edges, mut separator, mut edge_separator) = (String::new(), "", "");
    for one in emitted {
        out.push_str(separator);
        separator = ", ";
        // Writing into a String cannot fail.
        let _ = vertex(&mut out, graph, *one);
        if let Some(parent) = graph.vertex(one.vertex).parent {
            let (source, target) = (graph.vertex(parent).uniq_id, graph.vertex(one.vertex).uniq_id);
            let _ = write!(edges, "{edge_separator}{{\"source\": \"{source}\", \"target\": \"{target}\"}}");
            edge_separator = ", ";
        }
    }
    let _ = writeln!(out, "], \"edges\": [{edges}]}}}}");
    out
}

fn vertex(out: &mut String, graph: &Graph, one: Emitted) -> fmt::Result {
    let vertex = graph.vertex(one.vertex);
    let kind = graph.types().name(vertex.kind);
    write!(out, "{{\"id\": \"{}\", \"metadata\": {{\"type\": {}", vertex.uniq_id, text(kind))?;
    if *vertex.basename != *kind {
        write!(out, ", \"basename\": {}", text(&vertex.basename))?;
    }
    if *vertex.name != format!("{}{}", vertex.basename, vertex.id) {
        write!(out, ", \"name\": {}", text(&vertex.name))?;
    }
    let rank = vertex.rank.map_or(-1, i64::from);
    write!(out, ", \"id\": {}, \"rank\": {rank}", vertex.id)?;
    if !vertex.properties.is_empty() {
        let all: Vec<String> =
            vertex.properties.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect();
        write!(out, ", \"properties\": {{{}}}", all.join(", "))?;
    }
    if one.exclusive {
        out.push_str(", \"exclusive\": true");
    }
    if one.needs != 1 {
        write!(out, ", \"size\": {}", one.needs)?;
    }
    write!(out, ", \"paths\": {{\"containment\": {}}}}}}}", text(&vertex.path))
}

fn text(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}
