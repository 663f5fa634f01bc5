//! Documents to graphs: one module per format.

mod allowlist;
mod grug;
mod hwloc;
pub(crate) mod jgf;
pub(crate) mod r;
mod rv1exec;
pub(crate) mod slots;

pub use allowlist::Allowlist;

use crate::Error;
use crate::graph::{Graph, PoolTypes};
use crate::hostlist::stem_and_digits;

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

/// The basename and the id of a node by the name of its host; the id of a name without a number
/// is -1. `None`: the number is beyond 63 bits.
fn basename_and_id(host: &str) -> Option<(&str, i64)> {
    let (stem, digits) = stem_and_digits(host);
    let id = if digits.is_empty() { -1 } else { digits.parse().ok()? };
    Some((if stem.is_empty() { host } else { stem }, id))
}

#[cfg(test)]
mod tests {
    use super::basename_and_id;

    #[test]
    fn a_host_gives_its_node_a_basename_and_an_id() {
        for (host, basename, id) in [
            ("node07", "node", 7),
            ("login", "login", -1),
            ("12", "12", 12),
            ("n1a", "n1a", -1),
            ("", "", -1),
        ] {
            assert_eq!(basename_and_id(host), Some((basename, id)), "{host}");
        }
        assert_eq!(basename_and_id("n9223372036854775807"), Some(("n", i64::MAX)));
        assert_eq!(basename_and_id("n9223372036854775808"), None);
    }
}
