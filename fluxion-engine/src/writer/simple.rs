//! `simple`: a line per vertex, indented by depth.

use std::fmt::Write as _;

use super::emission::Emitted;
use crate::graph::Graph;

pub(super) fn write(graph: &Graph, emitted: &[Emitted]) -> String {
    let mut out = String::new();
    for Emitted { vertex, needs, exclusive, depth } in emitted {
        let name = &graph.vertex(*vertex).name;
        let how = if *exclusive { 'x' } else { 's' };
        // Writing into a String cannot fail.
        let _ = writeln!(out, "      {}{name}[{needs}:{how}]", "---".repeat(*depth));
    }
    out
}
