//! The resource graph, safely: the questions of the core to Fluxion, through the C functions of
//! fluxion-sys.
//!
//! [`Graph`] owns a context of whatever library the table leads to; every call crosses the C
//! boundary. The caller decides which pods belong together, and which nodes suit them: here there
//! are only ranks, shapes and amounts.
//!
//! ```
//! use fluxion_sys::FunctionTable;
//! use fluxqueue_workload::Resources;
//! use fluxqueue_machine::fluxion::{Fit, Graph, Policy, Request, SlotShape};
//!
//! let mut graph = Graph::new(FunctionTable::builtin(), Policy::Lonode)?;
//! graph.add_node(0, "node-a", &Resources::from_iter([("cpu", 4000), ("pods", 110)]))?;
//!
//! let pod = Resources::from_iter([("cpu", 1500), ("pods", 1)]);
//! let shapes = [SlotShape::of("worker", 2, &pod)];
//! let placement = graph.allocate(7, &Request::of(&shapes))?.placed().expect("two of them fit");
//! assert_eq!((placement.slots[0].rank, placement.slots[0].count), (0, 2));
//! assert_eq!(graph.allocate(8, &Request::of(&shapes))?, Fit::NotNow);
//! graph.cancel(7)?;
//! # Ok::<(), fluxqueue_machine::fluxion::GraphError>(())
//! ```

mod answer;
mod context;
mod graph;
#[cfg(test)]
mod graph_tests;
mod json;
mod pools;
mod rankset;
mod vertices;

pub use answer::{
    EvenSupply, Explanation, LevelSupply, NodeUsage, PoolSupply, PoolUsage, ShapeReport, Supply,
    TogetherSupply,
};
pub use graph::Graph;
pub use rankset::{ParseRankSetError, RankSet};
pub use vertices::NOT_A_VERTEX;

use std::ffi::c_int;
use std::sync::Arc;

use fluxion_sys::errno;

use fluxqueue_workload::levels::Spread;
use fluxqueue_workload::{Lifetime, Resources};

/// What stands for a node in the graph. Never reused for another node while the graph knows the
/// first.
pub type Rank = u32;

/// In which order nodes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// Whatever is cheapest.
    #[default]
    First,
    /// The lowest ranks first.
    Lonode,
    /// The highest ranks first.
    Hinode,
    /// The fullest nodes first, slot after slot; the lowest ranks among equals.
    Binpack,
    /// The emptiest nodes first, slot after slot; the lowest ranks among equals.
    Spread,
}

/// When slots are given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// At this second of the epoch at the latest.
    At(i64),
    /// Some day, at an unknown time.
    Eventually,
    /// Never by itself.
    Never,
}

impl End {
    /// Returns when slots are given back that are taken from this second of the epoch on.
    pub fn of(lifetime: Lifetime, from: i64) -> Self {
        match lifetime {
            Lifetime::Seconds(seconds) => {
                End::At(from.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX)))
            }
            Lifetime::Eventually => End::Eventually,
            Lifetime::Endless => End::Never,
        }
    }

    /// True if a pod that waits for this end waits longer than for the other, or for an unknown
    /// time.
    pub fn is_later_than(self, other: Self) -> bool {
        match (self, other) {
            (End::At(at), End::At(other)) => at > other,
            (End::Eventually, End::At(_)) | (End::Never, End::At(_) | End::Eventually) => true,
            (End::At(_) | End::Eventually | End::Never, _) => false,
        }
    }
}

/// The other slots with which slots share a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tenancy {
    /// With all others that share.
    #[default]
    Shared,
    /// With slots of the same tenant, and no others but guests.
    Alone(u64),
    /// With any others: they are in the way only by the amounts that they take.
    Guest,
}

/// Slots that take the same.
#[derive(Debug, Clone, Copy)]
pub struct SlotShape<'a> {
    /// Its name, unique in a request.
    pub label: &'a str,
    /// The number of wanted slots; at least one, at most 2^32 - 1.
    pub count: u64,
    /// What each takes of one node; at least one resource.
    pub requests: &'a Resources,
    /// The time for which they are held.
    pub end: Lifetime,
    /// Ranks that may be used; `None`: all.
    pub ranks: Option<&'a RankSet>,
    /// Tiers of ranks, best first; the others come last.
    pub prefer: &'a [RankSet],
    /// Ranks with parts of levels that count besides those that may be used, where the parts may
    /// differ only up to a limit.
    pub counted: Option<&'a RankSet>,
}

/// Slots that are wanted together: all or none.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The wanted slots; at least one shape.
    pub shapes: &'a [SlotShape<'a>],
    /// Bounds on the number of slots of these labels together on one node.
    pub max_per_node: &'a [(Vec<String>, u64)],
    /// The order of nodes, if not the graph's own.
    pub policy: Option<Policy>,
    /// A reservation of it starts at this second at the earliest, until it is moved.
    pub not_before: Option<i64>,
    /// The rules for the parts of levels in which slots may lie. Their slots lie on no nodes that
    /// are in no part.
    pub levels: &'a [LevelRule],
    /// The tenancy of the slots on their nodes.
    pub tenancy: Tenancy,
}

/// In which parts of a level slots may lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelRule {
    /// The level, as nodes were put into parts of it.
    pub level: Arc<str>,
    /// The slots that it is for.
    pub labels: Vec<String>,
    /// The rule for its parts.
    pub within: Within,
    /// True if they are one of several slices: their part then does not decide which parts count
    /// for a skew.
    pub is_slice: bool,
}

/// Over which parts of a level slots may be spread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Within {
    /// All in one, the tightest in which there is a place.
    One,
    /// So if possible, else in as few as possible.
    Fewest,
    /// In this one.
    Part(Arc<str>),
    /// Spread over several.
    Spread(Spread),
    /// Spread likewise, counting the given number of others that are in these parts already. This
    /// rule never goes to a library; nodes of parts that may have no more are left out instead.
    Beside(Spread, Arc<[(String, u32)]>),
}

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

/// What came of asking for a place now or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Booking<P = Placement, R = (i64, P)> {
    /// There is one now, and it is taken.
    Now(P),
    /// It is reserved from this second on.
    At(R),
    /// By the ends that are known there is none at any second.
    Never,
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

/// A call of the graph failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: errno {errno}: {text}")]
pub struct GraphError {
    /// The failed operation.
    pub operation: &'static str,
    /// The errno that was left.
    pub errno: c_int,
    /// The text of the library.
    pub text: String,
}

impl GraphError {
    /// True if there is no such rank, job or slot.
    pub fn is_not_found(&self) -> bool {
        self.errno == errno::ENOENT
    }

    /// The library caught a defect, or an exception, and answers no more: another graph is needed.
    pub fn is_lost(&self) -> bool {
        self.errno == errno::EFAULT
    }

    /// True if there already is a job of this id, or a node of this rank.
    pub fn is_duplicate(&self) -> bool {
        self.errno == errno::EEXIST
    }
}

impl Tenancy {
    /// True if slots of both may be on a node at once.
    pub fn suits(self, other: Tenancy) -> bool {
        match (self, other) {
            (Tenancy::Guest, _) | (_, Tenancy::Guest) | (Tenancy::Shared, Tenancy::Shared) => true,
            (Tenancy::Alone(one), Tenancy::Alone(other)) => one == other,
            (Tenancy::Shared, Tenancy::Alone(_)) | (Tenancy::Alone(_), Tenancy::Shared) => false,
        }
    }
}

impl<'a> SlotShape<'a> {
    /// Slots anywhere, for ever.
    pub fn of(label: &'a str, count: u64, requests: &'a Resources) -> Self {
        SlotShape {
            label,
            count,
            requests,
            end: Lifetime::Endless,
            ranks: None,
            prefer: &[],
            counted: None,
        }
    }

    /// True if the slots of both may use the same nodes in the same order, and for as long.
    pub(crate) fn goes_with(&self, other: &Self) -> bool {
        (self.end, self.ranks, self.prefer, self.counted)
            == (other.end, other.ranks, other.prefer, other.counted)
    }
}

impl<'a> Request<'a> {
    /// Makes a request for these shapes, in the graph's own order.
    pub fn of(shapes: &'a [SlotShape<'a>]) -> Self {
        Request {
            shapes,
            max_per_node: &[],
            policy: None,
            not_before: None,
            levels: &[],
            tenancy: Tenancy::Shared,
        }
    }
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

impl Policy {
    /// Returns the policy's name in Fluxion, or, for the last two, in our own graph.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::First => "first",
            Policy::Lonode => "lonode",
            Policy::Hinode => "hinode",
            Policy::Binpack => "binpack",
            Policy::Spread => "spread",
        }
    }
}
