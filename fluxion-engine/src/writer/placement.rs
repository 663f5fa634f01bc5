//! Our own compact format: `{"slots":[{"label":"0","ranks":"0-3,7","per_rank":2}]}`.

use std::fmt::Write as _;

use flux_lists::idset;

use crate::graph::Graph;
use crate::slot_search::flat::{Pick, SlotRequest, by_count};

/// Slots per rank, shape by shape in the order of the request; within a shape the ranks with most
/// slots first.
pub(crate) fn write(graph: &Graph, request: &SlotRequest<'_>, picks: &[Pick]) -> String {
    let mut out = String::from("{\"slots\":[");
    let mut separator = "";
    for of_shape in picks.chunk_by(|a, b| a.shape == b.shape) {
        let label = serde_json::Value::from(request.shapes[of_shape[0].shape].label);
        for (count, rows) in by_count(of_shape) {
            // Writing into a String cannot fail.
            let _ = write!(out, "{separator}{{\"label\":{label},\"ranks\":\"");
            idset::write(&mut out, rows.into_iter().map(|row| graph.pools.ranks()[row]));
            let _ = write!(out, "\",\"per_rank\":{count}}}");
            separator = ",";
        }
    }
    out.push_str("]}");
    out
}
