//! Requests for slots, in the words of the graph.

use std::sync::Arc;

use super::rankset::RankSet;
use fluxqueue_workload::levels::Spread;
use fluxqueue_workload::{Lifetime, Resources};

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
