//! The search for a place: of ranges, for as many slots as have one.

use super::holds::search_by_holds;
use super::order::NodeOrder;
use super::place::place;
use super::ranges::numbers;
use super::request::{Outcome, SlotRequest, Start, has_ranges};
use crate::graph::Graph;
use crate::policy::Policy;
use crate::slot_search::candidates::Usable;
use crate::time::When;

/// Finds a place for every slot, or for none; of ranges, for as many slots as have one.
pub(crate) fn search(
    request: &SlotRequest<'_>,
    graph: &Graph,
    start: Start,
    usable: &Usable,
    policy: Policy,
) -> Outcome {
    let least = search_exactly(request, graph, start, usable, policy);
    // Later than at an instant it only matters whether there is a place.
    if matches!((start, &least), (Start::At(_), Outcome::Found(_))) && has_ranges(request) {
        return raise(request, graph, start, usable, policy, least);
    }
    least
}

/// Raises the shapes that ask for a range, from a place for the minimum of each.
pub(super) fn raise(
    request: &SlotRequest<'_>,
    graph: &Graph,
    start: Start,
    usable: &Usable,
    policy: Policy,
    least: Outcome,
) -> Outcome {
    let mut best = least;
    let mut raised = request.clone();
    let ranged = request.shapes.iter().enumerate();
    for (at, range) in ranged.filter_map(|(at, shape)| Some((at, shape.range?))) {
        // Of the numbers of the range the one at `low` has a place, the one at `high` has none.
        let numbers = numbers(range);
        let (mut low, mut high) = (0, numbers.len());
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            raised.shapes[at].count = numbers.at(middle);
            match search_exactly(&raised, graph, start, usable, policy) {
                Outcome::GaveUp if graph.pools.effort.is_spent() => return Outcome::GaveUp,
                Outcome::Found(picks) => {
                    best = Outcome::Found(picks);
                    low = middle;
                }
                Outcome::Impossible | Outcome::GaveUp => high = middle,
            }
        }
        raised.shapes[at].count = numbers.at(low);
    }
    best
}

/// Finds a place for every slot, or for none; of ranges, for the minimum.
fn search_exactly(
    request: &SlotRequest<'_>,
    graph: &Graph,
    start: Start,
    usable: &Usable,
    policy: Policy,
) -> Outcome {
    #[cfg(test)]
    crate::effort::count_search();
    let when = match start {
        Start::At(at) if graph.pools.by_node().plans() && request.has_several_holds() => {
            return search_by_holds(request, graph, at, usable, policy);
        }
        Start::At(from) => When::Window { from, to: request.longest().until(from) },
        Start::Eventually => When::Eventually,
        Start::Best => When::Best,
        Start::Idle => When::Idle,
    };
    let (free, order) =
        (request.free(graph, when), NodeOrder::of(&graph.pools, policy, when, request.tenancy));
    place(request, &graph.pools, start, &free, usable, &order)
}
