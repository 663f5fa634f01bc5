//! The granted part of the graph in the JSON Graph Format, spelled as upstream spells it
//! (resource/writers/match_writers.cpp).

use std::fmt::Write as _;
use std::sync::Arc;

use shared_map::SharedRows;

use super::emitted::{Emitted, Style};
use crate::graph::{Graph, VertexId};

/// Vertices and edges in JGF. Copies share the text: one that waits for its document may be long,
/// and is copied with the writer by each call.
#[derive(Debug, Clone, Default)]
pub(super) struct Jgf {
    pieces: SharedRows<Arc<Piece>>,
}

/// The vertices and edges of one grant.
#[derive(Debug, Default)]
pub(super) struct Piece {
    vertices: String,
    edges: String,
    /// The text between these and those of earlier grants.
    comma: &'static str,
}

impl Jgf {
    pub(super) fn is_edgeless(&self) -> bool {
        self.pieces.iter().all(|piece| piece.edges.is_empty())
    }

    /// Adds vertices, and the edges to them. `short`: nothing below exclusive vertices. Returns
    /// whether anything was left out.
    pub(super) fn add(
        &mut self,
        graph: &Graph,
        emitted: &[Emitted],
        short: bool,
        style: Style,
    ) -> bool {
        let kept = if short { kept(emitted) } else { Vec::new() };
        let mut left_out = false;
        let mut piece = Piece { comma: style.comma, ..Piece::default() };
        for (at, one) in emitted.iter().enumerate() {
            if short && !kept[at] {
                left_out = true;
                continue;
            }
            if !piece.vertices.is_empty() {
                piece.vertices.push_str(style.comma);
            }
            vertex(&mut piece.vertices, graph, one, style);
            // The edges of its children follow a vertex in no case: each is written when its
            // child's subtree is.
            if one.depth > 1
                && let Some(parent) = graph.parent(one.vertex)
            {
                piece.edge(graph, parent, one.vertex, style);
            }
        }
        if !piece.vertices.is_empty() {
            self.pieces.push(Arc::new(piece));
        }
        left_out
    }

    pub(super) fn write(&self, out: &mut String, style: Style) {
        let Style { comma, colon, .. } = style;
        // Writing into a String cannot fail.
        let _ = write!(out, "{{\"nodes\"{colon}[");
        self.join(out, |piece| &piece.vertices);
        let _ = write!(out, "]{comma}\"edges\"{colon}[");
        self.join(out, |piece| &piece.edges);
        out.push_str("]}");
    }

    /// The texts, grant by grant.
    #[cfg(test)]
    pub(super) fn texts(&self) -> impl Iterator<Item = &Arc<Piece>> {
        self.pieces.iter()
    }

    fn join(&self, out: &mut String, text: impl Fn(&Piece) -> &str) {
        let mut pieces = self.pieces.iter().filter(|piece| !text(piece).is_empty());
        if let Some(first) = pieces.next() {
            out.push_str(text(first));
        }
        for piece in pieces {
            out.push_str(piece.comma);
            out.push_str(text(piece));
        }
    }
}

impl Piece {
    fn edge(&mut self, graph: &Graph, parent: VertexId, child: VertexId, style: Style) {
        if !self.edges.is_empty() {
            self.edges.push_str(style.comma);
        }
        let (source, target, Style { comma, colon, .. }) =
            (graph.uniq_id(parent), graph.uniq_id(child), style);
        // Writing into a String cannot fail.
        let _ = write!(
            self.edges,
            "{{\"source\"{colon}\"{source}\"{comma}\"target\"{colon}\"{target}\"}}"
        );
    }
}

/// Which vertices a shorthand has: those below no exclusive one.
fn kept(emitted: &[Emitted]) -> Vec<bool> {
    let mut kept = vec![true; emitted.len()];
    // From the root down; vertices deeper than an exclusive one, until one is not, lie below it.
    let mut below: Option<usize> = None;
    for (at, one) in emitted.iter().enumerate().rev() {
        match below {
            Some(depth) if one.depth > depth => kept[at] = false,
            _ => below = one.exclusive.then_some(one.depth),
        }
    }
    kept
}

fn vertex(out: &mut String, graph: &Graph, one: &Emitted, style: Style) {
    let Style { comma, colon, .. } = style;
    let (vertex, kind) = (one.vertex, graph.kind_name(one.vertex));
    // Writing into a String cannot fail.
    let _ = write!(
        out,
        "{{\"id\"{colon}\"{}\"{comma}\"metadata\"{colon}{{\"type\"{colon}{}",
        graph.uniq_id(vertex),
        text(kind)
    );
    if *graph.basename(vertex) != *kind {
        let _ = write!(out, "{comma}\"basename\"{colon}{}", text(graph.basename(vertex)));
    }
    if !graph.has_plain_name(vertex) {
        let _ = write!(out, "{comma}\"name\"{colon}{}", text(&graph.name(vertex)));
    }
    let _ = write!(
        out,
        "{comma}\"id\"{colon}{}{comma}\"rank\"{colon}{}",
        graph.id(vertex),
        graph.rank(vertex)
    );
    let properties = graph.properties(vertex);
    if !properties.is_empty() {
        let _ = write!(out, "{comma}\"properties\"{colon}{{");
        for (at, (name, value)) in properties.iter().enumerate() {
            let _ = write!(
                out,
                "{}{}{colon}{}",
                if at == 0 { "" } else { comma },
                text(name),
                text(value)
            );
        }
        out.push('}');
    }
    if !graph.unit(vertex).is_empty() {
        let _ = write!(out, "{comma}\"unit\"{colon}{}", text(graph.unit(vertex)));
    }
    if one.exclusive {
        let _ = write!(out, "{comma}\"exclusive\"{colon}true");
    }
    if one.needs != 1 {
        let _ = write!(out, "{comma}\"size\"{colon}{}", one.needs);
    }
    let _ =
        write!(out, "{comma}\"paths\"{colon}{{\"containment\"{colon}{}", text(&graph.path(vertex)));
    for (subsystem, path) in graph.other_paths(vertex) {
        let _ = write!(out, "{comma}{}{colon}{}", text(subsystem), text(path));
    }
    out.push('}');
    if !one.label.is_empty() {
        let _ = write!(out, "{comma}\"ephemeral\"{colon}{{\"label\"{colon}{}}}", text(&one.label));
    }
    if let Some(filter) = &one.filter {
        let _ = write!(out, "{comma}\"agfilter\"{colon}{{");
        for (at, (kind, used, total)) in filter.iter().enumerate() {
            let comma = if at == 0 { "" } else { comma };
            let _ = write!(out, "{comma}{}{colon}\"used:{used}, total:{total}\"", text(kind));
        }
        out.push('}');
    }
    out.push_str("}}");
}

fn text(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}
