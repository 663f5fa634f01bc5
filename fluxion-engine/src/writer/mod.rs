//! Grants as text, in the format that was chosen with the options.

mod placement;

use crate::engine::{Found, MatchFormat};
use crate::graph::Graph;
use crate::jobspec::Hold;
use crate::{Error, Reason};

/// What a writer needs to know of the request.
pub(crate) struct About<'a> {
    /// Labels of the slot shapes, in order.
    pub(crate) labels: Vec<&'a str>,
    pub(crate) hold: Hold,
}

/// Writes a grant that starts at `at`.
pub(crate) fn write(
    format: MatchFormat,
    graph: &Graph,
    about: &About<'_>,
    found: &Found,
    _at: i64,
) -> Result<String, Error> {
    match (format, found) {
        (MatchFormat::Placement, Found::Flat(picks)) => Ok(placement::write(graph, about, picks)),
        _ => Err(Error { reason: Reason::NotOffered, text: format!("match_format: {format:?} is not offered yet") }),
    }
}
