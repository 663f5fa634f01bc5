//! `rv1_nosched`: RFC 20, version 1, in the spelling of upstream.
//!
//! Units of pools have no place in `R_lite`; a node of which only units are granted has no children there.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::emission::Emitted;
use crate::graph::{Graph, VertexId};
use crate::jobspec::Hold;
use crate::{hostlist, idset};

/// The end of Fluxion's graph window, 100 years: the expiration of what has no end.
const WINDOW_SECONDS: i64 = 3_153_600_000;

/// What a node contributes: ids by type of core and GPU.
#[derive(Default)]
struct Children {
    ids: BTreeMap<&'static str, Vec<u32>>,
    units: bool,
}

pub(super) fn write(graph: &Graph, emitted: &[Emitted], hold: Hold, at: i64) -> String {
    let mut nodes: BTreeMap<u32, (VertexId, Children)> = BTreeMap::new();
    for one in emitted.iter().filter(|one| one.exclusive) {
        let Some((rank, node)) = node_of(graph, one.vertex) else { continue };
        let children = &mut nodes.entry(rank).or_insert_with(|| (node, Children::default())).1;
        let vertex = graph.vertex(one.vertex);
        children.units |= vertex.pool;
        let kind = ["core", "gpu"].into_iter().find(|kind| *kind == graph.types().name(vertex.kind));
        if let (Some(kind), Ok(id)) = (kind, u32::try_from(vertex.id)) {
            children.ids.entry(kind).or_default().push(id);
        }
    }
    nodes.retain(|_, (_, children)| children.units || !children.ids.is_empty());
    if nodes.is_empty() {
        return String::new();
    }
    // Ranks with the same children share an entry; entries are ordered by that text.
    let mut entries: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (rank, (_, children)) in &mut nodes {
        entries.entry(children.write()).or_default().push(*rank);
    }
    let mut out = String::from("{\"version\": 1, \"execution\": {\"R_lite\": [");
    for (at, (children, ranks)) in entries.into_iter().enumerate() {
        out.push_str(if at == 0 { "{\"rank\": \"" } else { ", {\"rank\": \"" });
        idset::write(&mut out, ranks);
        // Writing into a String cannot fail.
        let _ = write!(out, "\", \"children\": {{{children}}}}}");
    }
    let mut names = String::new();
    hostlist::write(&mut names, nodes.values().map(|(node, _)| &*graph.vertex(*node).name));
    let (names, properties) = (serde_json::Value::from(names), properties(graph, &nodes));
    let expiration = match hold {
        Hold::Seconds(seconds) => at.saturating_add_unsigned(seconds),
        Hold::Eventually | Hold::Endless => WINDOW_SECONDS.max(at),
    };
    let _ =
        writeln!(out, "], \"nodelist\": [{names}]{properties}, \"starttime\": {at}, \"expiration\": {expiration}}}}}");
    out
}

/// Which ranks have which property; "" if none has any.
fn properties(graph: &Graph, nodes: &BTreeMap<u32, (VertexId, Children)>) -> String {
    let mut ranks: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (rank, (node, _)) in nodes {
        for (name, value) in &graph.vertex(*node).properties {
            let key = if value.is_empty() { name.to_string() } else { format!("{name}={value}") };
            ranks.entry(key).or_default().push(*rank);
        }
    }
    let mut out = String::new();
    for (property, ranks) in ranks {
        out.push_str(if out.is_empty() { ", \"properties\": {" } else { ", " });
        // Writing into a String cannot fail.
        let _ = write!(out, "{}: \"", serde_json::Value::from(property));
        idset::write(&mut out, ranks);
        out.push('"');
    }
    if !out.is_empty() {
        out.push('}');
    }
    out
}

impl Children {
    fn write(&mut self) -> String {
        let mut out = String::new();
        for (kind, ids) in &mut self.ids {
            ids.sort_unstable();
            out.push_str(if out.is_empty() { "\"" } else { ", \"" });
            out.push_str(kind);
            out.push_str("\": \"");
            idset::write(&mut out, ids.iter().copied());
            out.push('"');
        }
        out
    }
}

/// The node that a vertex belongs to, itself included.
fn node_of(graph: &Graph, id: VertexId) -> Option<(u32, VertexId)> {
    let mut at = Some(id);
    while let Some(id) = at {
        if graph.is_node(id) {
            return graph.vertex(id).rank.map(|rank| (rank, id));
        }
        at = graph.vertex(id).parent;
    }
    None
}
