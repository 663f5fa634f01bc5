//! `simple` and `pretty_simple`: a line per vertex, indented by depth.

use std::fmt::Write as _;

use super::emitted::Emitted;
use crate::graph::Graph;

/// `indent`: by how much deeper than the root's 1.
pub(super) fn write(graph: &Graph, emitted: &[Emitted], indent: usize) -> String {
    let mut out = String::new();
    for one in emitted {
        line(&mut out, graph, one, indent, if one.exclusive { "x" } else { "s" });
    }
    out
}

/// Parents first.
pub(super) fn pretty(graph: &Graph, emitted: &[Emitted], indent: usize) -> String {
    let mut out = String::new();
    for one in emitted.iter().rev() {
        line(&mut out, graph, one, indent, if one.exclusive { "exclusive" } else { "shared" });
    }
    out
}

fn line(out: &mut String, graph: &Graph, one: &Emitted, indent: usize, how: &str) {
    out.push_str("      ");
    for _ in 0..indent + one.depth {
        out.push_str("---");
    }
    // Writing into a String cannot fail.
    let _ = writeln!(out, "{}[{}:{how}]", graph.name(one.vertex), one.needs);
}
