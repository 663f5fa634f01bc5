//! The words of writers: formats, styles, and the vertices that are written.

use crate::graph::VertexId;
use crate::pools::Slots;

/// How a grant is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchFormat {
    /// Indented names, children first.
    Simple,
    /// Indented names, parents first.
    PrettySimple,
    /// The granted part of the graph.
    Jgf,
    /// The same without what lies below exclusive vertices.
    JgfShorthand,
    /// Ids of cores and GPUs by rank.
    Rlite,
    /// RFC 20, with the granted part of the graph.
    Rv1,
    /// RFC 20, without it.
    Rv1Nosched,
    /// RFC 20, with the shorthand.
    Rv1Shorthand,
    /// Ours: slots per rank.
    Placement,
}

impl MatchFormat {
    /// The format of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "simple" => MatchFormat::Simple,
            "pretty_simple" => MatchFormat::PrettySimple,
            "jgf" => MatchFormat::Jgf,
            "jgf_shorthand" => MatchFormat::JgfShorthand,
            "rlite" => MatchFormat::Rlite,
            "rv1" => MatchFormat::Rv1,
            "rv1_nosched" => MatchFormat::Rv1Nosched,
            "rv1_shorthand" => MatchFormat::Rv1Shorthand,
            "placement" => MatchFormat::Placement,
            _ => return None,
        })
    }
}

/// A vertex to be written.
#[derive(Debug, Clone)]
pub(crate) struct Emitted {
    pub(crate) vertex: VertexId,
    /// The root has 1.
    pub(crate) depth: usize,
    pub(crate) exclusive: bool,
    /// Units that are granted of it.
    pub(crate) needs: u64,
    /// The label of the level that it serves; "": none.
    pub(crate) label: Box<str>,
    /// Used and total of each type that it tracks, where that was requested.
    pub(crate) filter: Option<Vec<(Box<str>, i64, u64)>>,
    /// It is not written, and all that comes after it is indented once more, for ever: upstream
    /// loses a step of its way back.
    pub(crate) left_out: bool,
}

/// What R says besides resources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) starttime: i64,
    pub(crate) expiration: i64,
    /// The slots of pool units.
    pub(crate) slots: &'a [Slots],
}

/// What stands between the parts of JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(super) comma: &'static str,
    pub(super) colon: &'static str,
    pub(super) end: &'static str,
}

/// As matches are written.
pub(crate) const WIDE: Style = Style { comma: ", ", colon: ": ", end: "\n" };
/// As the C interface answers to find.
pub(crate) const COMPACT: Style = Style { comma: ",", colon: ":", end: "" };
