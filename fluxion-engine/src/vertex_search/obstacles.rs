//! The obstacles that a search has met: why nothing was found, and what upstream's errno tells
//! then.

use crate::graph::TypeId;
use crate::schedule::Below;

/// The last obstacle of a search, whether it found something or not: upstream's errno after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// A vertex is taken or too small.
    Busy,
    /// An alternative asks for more than there is below a vertex, another does not.
    Exceeded,
    /// A place that is only free when the window of the graph ends.
    EndOfWindow,
}

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Miss {
    /// It does not fit.
    Busy,
    /// The request contradicts itself.
    Invalid,
    /// Siblings ask for this type twice.
    Siblings(TypeId),
    /// The budget of the call was spent before the search had come to an end.
    Spent,
}

/// The obstacles of one search.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    /// A vertex was refused because it is taken, too small or not admitted.
    refused: bool,
    /// The type that was short for an alternative slot, where another fits, after all that was
    /// refused.
    spared: Option<Below>,
    /// The request contradicted itself somewhere.
    invalid: bool,
    /// Levels that ask twice for one type were met: the type.
    siblings: Option<TypeId>,
}

impl Obstacles {
    /// A vertex cannot serve.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
        self.spared = None;
    }

    /// An alternative slot falls short at a vertex where another fits.
    pub(super) fn spare(&mut self, below: Option<Below>) {
        self.spared = below.or(self.spared);
    }

    /// The request contradicts itself.
    pub(super) fn contradict(&mut self) {
        self.invalid = true;
    }

    /// Siblings ask for a type twice.
    pub(super) fn repeat(&mut self, kind: TypeId) {
        self.siblings = Some(kind);
    }

    /// Vertices were refused, if `refused` is true, that were not visited.
    pub(super) fn pass_over(&mut self, refused: bool) {
        self.refused |= refused;
    }

    /// Whether any vertex was refused since the last question.
    pub(super) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// The obstacle that upstream's errno tells after the search; `None`: none that it sets.
    pub(super) fn left(&self) -> Option<Left> {
        match self.spared {
            Some(Below::Never) => Some(Left::Exceeded),
            None if !self.refused => None,
            _ => Some(Left::Busy),
        }
    }

    /// Why nothing was found.
    pub(super) fn miss(&self) -> Miss {
        match (self.siblings, self.invalid) {
            (Some(kind), _) => Miss::Siblings(kind),
            (None, true) => Miss::Invalid,
            (None, false) => Miss::Busy,
        }
    }
}
