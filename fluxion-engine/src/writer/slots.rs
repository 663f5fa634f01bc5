//! Slots of pool units, in the attributes of R: `[{"label":"s","with":{"cpu":2},"end":60,
//! "on":[{"ranks":"0-3","per_rank":2}]}]`, in the words of a charge.

use std::fmt::Write as _;

use flux_lists::idset;

use crate::graph::Graph;
use crate::pools::{Slots, Tenancy};
use crate::time::End;

/// Writes slots, shape by shape.
pub(super) fn write(out: &mut String, graph: &Graph, all: &[Slots]) {
    out.push('[');
    for (at, slots) in all.iter().enumerate() {
        out.push_str(if at == 0 { "{\"label\":" } else { ",{\"label\":" });
        let shape = &slots.shape;
        // Writing into a String cannot fail.
        let _ = write!(out, "{},\"with\":{{", serde_json::Value::from(&*shape.label));
        for (at, (kind, amount)) in shape.needs.iter().enumerate() {
            let kind = serde_json::Value::from(graph.types().name(*kind));
            let _ = write!(out, "{}{kind}:{amount}", if at == 0 { "" } else { "," });
        }
        out.push_str("},\"end\":");
        match slots.times.1 {
            End::At(end) => drop(write!(out, "{end}")),
            End::Eventually => out.push_str("\"eventually\""),
            End::Never => out.push_str("\"never\""),
        }
        match shape.tenancy {
            Tenancy::Shared => {}
            Tenancy::Alone(tenant) => drop(write!(out, ",\"tenant\":{tenant}")),
            Tenancy::Guest => out.push_str(",\"guest\":true"),
        }
        out.push_str(",\"on\":[");
        places(out, slots);
        out.push_str("]}");
    }
    out.push(']');
}

/// Ranks with as many slots share an entry.
fn places(out: &mut String, slots: &Slots) {
    let mut on = slots.on().to_vec();
    on.sort_by_key(|(_, count)| *count);
    for (at, same) in on.chunk_by(|(_, one), (_, other)| one == other).enumerate() {
        out.push_str(if at == 0 { "{\"ranks\":\"" } else { ",{\"ranks\":\"" });
        idset::write(out, same.iter().map(|(rank, _)| *rank));
        let _ = write!(out, "\",\"per_rank\":{}}}", same[0].1);
    }
}
