//! The operations of a match, and their answer.

/// The operations of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOp {
    /// Now, or not at all.
    Allocate,
    /// Now; if not, tell whether ever.
    AllocateWithSatisfiability,
    /// Now, or as early as possible.
    AllocateOrElseReserve,
    /// Only tell whether ever.
    Satisfiability,
    /// As [`MatchOp::Allocate`], but take nothing.
    WithoutAllocating,
    /// As [`MatchOp::AllocateOrElseReserve`], but take nothing; also answers `EVENTUALLY`.
    WithoutAllocatingFuture,
}

impl MatchOp {
    pub(super) fn takes(self) -> bool {
        matches!(
            self,
            MatchOp::Allocate
                | MatchOp::AllocateWithSatisfiability
                | MatchOp::AllocateOrElseReserve
        )
    }
}

/// The answer to a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its id: of the job where something was taken, and of a satisfiability check that was given
    /// one.
    pub job: Option<u64>,
    /// When it starts.
    pub at: i64,
    /// It starts later than now, and its place is kept.
    pub reserved: bool,
    /// The granted resources, in the engine's format; empty where there is nothing to say.
    pub r: String,
    /// True if it is proved that it cannot start earlier, by the ends that are known. False if at
    /// some earlier instant the search for a place gave up.
    pub is_earliest: bool,
}
