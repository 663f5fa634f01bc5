//! Shapes that are held for different times, where something begins later.
//!
//! A slot needs its units for as long as it is held, and shares them with others only for as long
//! as those are held. The units free on a node over a longer time are never more than over a
//! shorter one. So a pool counts as several: the units free over the shortest time, which all slots
//! take of; those free over the next one, of which those take that are held that long; and so on.
//! Where nothing begins later these are all the same, and one is enough.

use super::order::NodeOrder;
use super::place::place;
use super::request::{Outcome, SlotRequest, Start};
use crate::graph::Graph;
use crate::policy::Policy;
use crate::slot_search::candidates::Usable;
use crate::time::When;

/// As [`super::search()`], where something begins later.
pub(super) fn search_by_holds(
    request: &SlotRequest<'_>,
    graph: &Graph,
    at: i64,
    usable: &Usable,
    policy: Policy,
) -> Outcome {
    let mut holds: Vec<u64> = request.shapes.iter().map(|shape| shape.hold.seconds()).collect();
    holds.sort_unstable();
    holds.dedup();
    let window = |seconds: u64| When::Window { from: at, to: at.saturating_add_unsigned(seconds) };
    let kinds = holds
        .iter()
        .flat_map(|seconds| request.kinds.iter().map(move |(_, id)| (*id, window(*seconds))));
    let free = graph.pools.free(kinds, request.tenancy);
    // Only the units free at the start decide which node is the fuller one.
    let order = NodeOrder::of(&graph.pools, policy, window(holds[0]), request.tenancy);
    place(&with_holds(request, &holds), &graph.pools, Start::At(at), &free, usable, &order)
}

/// The request with the pools of each hold behind those of the shorter ones.
fn with_holds<'a>(request: &SlotRequest<'a>, holds: &[u64]) -> SlotRequest<'a> {
    let kinds = (0..holds.len()).flat_map(|_| request.kinds.iter().copied()).collect();
    let mut shapes = request.shapes.clone();
    for shape in &mut shapes {
        let own = shape.needs.clone();
        let longer = holds.iter().skip(1).take_while(|seconds| **seconds <= shape.hold.seconds());
        for (at, _) in longer.enumerate() {
            shape.needs.extend(
                own.iter().map(|(kind, amount)| (kind + (at + 1) * request.kinds.len(), *amount)),
            );
        }
    }
    SlotRequest {
        shapes,
        kinds,
        caps: request.caps,
        rules: request.rules.clone(),
        tenancy: request.tenancy,
    }
}
