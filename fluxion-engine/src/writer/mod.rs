//! Grants as text, in the format that was chosen with the options.

mod emission;
mod jgf;
mod placement;
mod rv1;
mod simple;

use crate::Error;
use crate::engine::{Found, MatchFormat};
use crate::graph::Graph;
use crate::jobspec::Hold;
use crate::matcher::flat;

/// What a writer needs to know of the request.
pub(crate) struct About<'a> {
    /// The request, if it is one for slots of pool units.
    pub(crate) flat: Option<&'a flat::Request<'a>>,
    /// How long it is held.
    pub(crate) hold: Hold,
}

/// Writes a grant that starts at `at`.
pub(crate) fn write(
    format: MatchFormat,
    graph: &Graph,
    about: &About<'_>,
    found: &Found,
    at: i64,
) -> Result<String, Error> {
    if format == MatchFormat::Placement {
        return placement::write(graph, about, found);
    }
    let emitted = emission::of(graph, about, found);
    Ok(match format {
        MatchFormat::Rv1Nosched => rv1::write(graph, &emitted, about.hold, at),
        MatchFormat::Simple => simple::write(graph, &emitted),
        MatchFormat::Jgf | MatchFormat::Placement => jgf::write(graph, &emitted),
    })
}
