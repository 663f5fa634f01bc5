//! Places for slots, now or later.

use super::rankset::Rank;

/// Where slots go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// The slots by shape in the order of the request; a shape's ranks in no particular order, each
    /// once.
    pub slots: Vec<SlotsAt>,
}

/// Slots of one shape on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotsAt {
    /// Index into the request's shapes.
    pub shape: usize,
    /// The node.
    pub rank: Rank,
    /// The number of slots.
    pub count: u64,
}

/// The outcome of a request to place slots; `P` is the form in which the answer names the places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit<P = Placement> {
    /// All have a place, which is taken.
    Placed(P),
    /// They do not fit now.
    NotNow,
    /// No place was found, and it is not proved that there is none.
    NotFound,
}

impl<P> Fit<P> {
    /// The place, if there is one.
    pub fn placed(self) -> Option<P> {
        match self {
            Fit::Placed(placement) => Some(placement),
            Fit::NotNow | Fit::NotFound => None,
        }
    }
}

/// What came of asking for a place now or later; `R` is a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Booking<P = Placement, R = Reserved> {
    /// There is one now, and it is taken.
    Now(P),
    /// It is reserved.
    At(R),
    /// None was found at any second. By the ends that are known there is none, unless the search
    /// gave up.
    Never,
}

/// A place that is kept for later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The second from which it is kept.
    pub at: i64,
    /// True if it is proved that there is no place before that second, by the ends that are known.
    /// False if the search gave up at some earlier second, or passed one over.
    pub is_earliest: bool,
    /// The place.
    pub placement: Placement,
}

/// The place of a reservation after it was made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The second at which it starts; by now it may have.
    pub at: i64,
    /// True if it is an allocation now.
    pub has_begun: bool,
    /// Its new place; `None`: it has not moved.
    pub placement: Option<Placement>,
    /// Why it starts later than it was to, if it does.
    pub later: Option<Later>,
}

/// Why a reservation starts later than it was to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// Work past its planned end has its room.
    Overdue,
    /// A node is gone, smaller, fuller than was planned, or may not be used any more.
    Capacity,
}

/// When a request could start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forecast {
    /// Now.
    Now,
    /// At this second, by the ends that are known.
    At(i64),
    /// Once everything that has an end has ended.
    Eventually,
    /// It would fit on the idle machine, but what never ends, or nodes that are down, stand in the
    /// way.
    Blocked,
    /// Not even on the idle machine.
    Never,
    /// No place was found for any moment, and it is not proved that there is none.
    NotFound,
}

/// Most steps for the searches of one question, where a setting says nothing else: about a
/// second. A request that needs more counts as one without a known place, and has to wait.
pub const SEARCH_STEPS_MAX: u64 = 32_000_000;

/// Steps of searches: each is a look at a node, a vertex, an instant or an edge of a flow. It takes
/// some tens of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    /// The steps of all searches.
    pub all: u64,
    /// The steps of those that gave up.
    pub in_vain: u64,
}
