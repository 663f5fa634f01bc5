//! The earliest instant at which a request has a place, by the ends that are known.
//!
//! For one shape the sweep over the instants ([`super::earliest`]) knows it. Of several shapes it
//! knows when each would have room alone; whether they have it together takes a search at an
//! instant. A request without a place when most is free ([`Start::Best`]) has none at any instant,
//! so a refusal takes a search at the first instant, and that one. If that one gives up, nothing
//! says that there is a place at all: then instants are tried for no more steps than it took. If
//! it finds a place, there will be one, and only the question when takes more searches: one
//! instant after another up to a bound ([`STEPS_MAX`]), from there on by bisection.

use super::earliest::sweep;
use super::request::{Outcome, SlotRequest, Start};
use super::search::search;
use super::shape::Pick;
use crate::graph::Graph;
use crate::policy::Policy;
use crate::slot_search::candidates::Usable;

/// Instants are tried one after another until that took 16 million steps: as many as the search at
/// one instant may take for each of its parts.
const STEPS_MAX: u64 = 16_000_000;

/// A place, and when.
type Place = (Vec<Pick>, i64);

/// Why no instant was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotSoon {
    /// There is no place at any instant.
    Impossible,
    /// After now there is no instant at which each shape has room.
    NoInstant,
    /// It is not known whether there is a place.
    GaveUp,
}

/// Why the sweep stops at an instant.
enum Stop {
    Found(Place),
    Not(NotSoon),
    /// The instants after this one are bisected.
    Bisect(i64),
}

/// Whether there is a place at some instant.
enum Ever {
    Found,
    Impossible,
    /// Instants are tried until that many steps were taken.
    Unknown(u64),
}

/// A request and where it may run.
struct PlaceSearch<'a> {
    request: &'a SlotRequest<'a>,
    graph: &'a Graph,
    usable: &'a Usable,
    policy: Policy,
}

/// The earliest instant after `now`, from `from` on, at which a place is found.
pub(crate) fn soonest(
    request: &SlotRequest<'_>,
    graph: &Graph,
    usable: &Usable,
    policy: Policy,
    (from, now): (i64, i64),
) -> Result<Place, NotSoon> {
    let sweep = sweep(request, graph, usable, now).ok_or(NotSoon::NoInstant)?;
    let places = PlaceSearch { request, graph, usable, policy };
    let effort = &graph.pools.effort;
    let begun = effort.spent();
    // Where nothing begins later, resources only come free.
    let may_bisect = request.shapes.len() > 1 && !graph.pools.by_node().plans();
    let mut ever = None;
    let stop = sweep.find(from, |at, rows| {
        if let Some(found) = places.at(at, &usable.within(&rows)) {
            return Some(Stop::Found(found));
        }
        match ever.get_or_insert_with(|| places.ever()) {
            Ever::Impossible => Some(Stop::Not(NotSoon::Impossible)),
            Ever::Unknown(until) if effort.spent() >= *until => Some(Stop::Not(NotSoon::GaveUp)),
            Ever::Found if may_bisect => Some(Stop::Bisect(at)),
            Ever::Found if effort.spent() - begun > STEPS_MAX => {
                // An instant that is left out might do.
                effort.passes_over();
                Some(Stop::Bisect(at))
            }
            Ever::Unknown(_) | Ever::Found => None,
        }
    });
    let found = match stop {
        Some(Stop::Found(found)) => Ok(found),
        Some(Stop::Not(why)) => Err(why),
        Some(Stop::Bisect(after)) => {
            let ends = graph.pools.by_node().ends();
            let instants = &ends[ends.partition_point(|end| *end <= after)..];
            first_that_fits(instants, |at| places.at(at, usable)).ok_or(NotSoon::NoInstant)
        }
        None => Err(NotSoon::NoInstant),
    };
    match found {
        _ if effort.is_spent() => Err(NotSoon::GaveUp),
        Err(NotSoon::NoInstant) if !effort.is_exact() => Err(NotSoon::GaveUp),
        found => found,
    }
}

impl PlaceSearch<'_> {
    fn search(&self, start: Start, usable: &Usable) -> Outcome {
        search(self.request, self.graph, start, usable, self.policy)
    }

    /// A place at an instant.
    fn at(&self, at: i64, usable: &Usable) -> Option<Place> {
        match self.search(Start::At(at), usable) {
            Outcome::Found(picks) => Some((picks, at)),
            Outcome::Impossible => None,
            Outcome::GaveUp => {
                self.graph.pools.effort.passes_over();
                None
            }
        }
    }

    fn ever(&self) -> Ever {
        let effort = &self.graph.pools.effort;
        let before = effort.spent();
        match self.search(Start::Best, self.usable) {
            Outcome::Found(_) => Ever::Found,
            Outcome::Impossible => Ever::Impossible,
            Outcome::GaveUp => {
                let after = effort.spent();
                Ever::Unknown(after.saturating_add(after - before))
            }
        }
    }
}

/// The first of these instants at which it fits, if it fits ever after once it fits: resources only
/// come free.
fn first_that_fits<T>(ends: &[i64], attempt: impl Fn(i64) -> Option<T>) -> Option<T> {
    let mut best = attempt(*ends.last()?)?;
    let (mut low, mut high) = (0, ends.len() - 1);
    while low < high {
        let middle = usize::midpoint(low, high);
        match attempt(ends[middle]) {
            Some(found) => {
                best = found;
                high = middle;
            }
            None => low = middle + 1,
        }
    }
    Some(best)
}
