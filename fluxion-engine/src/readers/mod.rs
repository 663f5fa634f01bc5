//! Documents to graphs: one module per format.

mod allowlist;
mod grug;
mod host;
mod hwloc;
pub(crate) mod jgf;
pub(crate) mod r;
mod rv1exec;
pub(crate) mod slots;
mod xml;

pub use allowlist::Allowlist;

use crate::Error;
use crate::graph::{Graph, PoolTypes};

/// A format of graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Recipes in GraphML.
    #[default]
    Grug,
    /// The JSON Graph Format.
    Jgf,
    /// The JSON Graph Format without what follows from an exclusive vertex.
    JgfShorthand,
    /// R (RFC 20) without the scheduler's own part.
    Rv1exec,
    /// Topologies of hwloc, in XML.
    Hwloc,
}

impl Format {
    /// The format of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "grug" => Format::Grug,
            "jgf" => Format::Jgf,
            "jgf_shorthand" => Format::JgfShorthand,
            "rv1exec" | "rv1exec_force" => Format::Rv1exec,
            "hwloc" => Format::Hwloc,
            _ => return None,
        })
    }
}

/// Reads a document.
pub fn read(
    format: Format,
    text: &str,
    pool_types: PoolTypes,
    allowed: &Allowlist,
) -> Result<Graph, Error> {
    match format {
        // A shorthand leaves out what follows from a graph that is there already: the first graph
        // is whole.
        Format::Jgf | Format::JgfShorthand => jgf::read(text, pool_types),
        Format::Grug => grug::read(text, pool_types),
        Format::Rv1exec => rv1exec::read(text, pool_types),
        Format::Hwloc => hwloc::read(text, pool_types, allowed),
    }
}
