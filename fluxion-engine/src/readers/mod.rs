//! Documents to graphs: one module per format.

mod grug;
mod hwloc;
pub(crate) mod jgf;
pub(crate) mod rv1exec;

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

/// Types of vertices that a reader may make; of none given, all. Only that of hwloc heeds it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowlist(Vec<Box<str>>);

impl Allowlist {
    /// Reads types with commas between them.
    pub fn read(text: &str) -> Self {
        Allowlist(text.split(',').filter(|kind| !kind.is_empty()).map(Into::into).collect())
    }

    fn has(&self, kind: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|allowed| **allowed == *kind)
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
