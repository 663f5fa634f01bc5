//! Shapes that ask for a range of slots: as many as there is room for at the start, and at least
//! the minimum.
//!
//! A place for the minimum of each shape is found first. Then the shapes are raised one after the
//! other, in the order of the request, each to the largest number of its range for which all of
//! them have a place. Of one shape this is exact: where there is a place for more slots there is
//! one for fewer. As upstream, a range grows by its operator, and what would be between two of its
//! numbers is not given.

use super::{Request, Search, Start};
use crate::graph::Graph;
use crate::jobspec::{Count, Growth};
use crate::matcher::candidates::Usable;
use crate::policy::Policy;
use crate::pools::COUNT_MAX;

impl Request<'_> {
    /// True if some shape asks for a range.
    pub(crate) fn has_ranges(&self) -> bool {
        self.shapes.iter().any(|shape| shape.range.is_some())
    }

    /// Raises the shapes that ask for a range, from a place for the minimum of each.
    pub(super) fn raise(
        &self,
        graph: &Graph,
        start: Start,
        usable: &Usable,
        policy: Policy,
        least: Search,
    ) -> Search {
        let mut best = least;
        let mut request = self.clone();
        for at in 0..self.shapes.len() {
            let Some(range) = self.shapes[at].range else { continue };
            // Of the numbers of the range the one at `low` has a place, the one at `high` has none.
            let numbers = numbers(range);
            let (mut low, mut high) = (0, numbers.len());
            while high - low > 1 {
                let middle = usize::midpoint(low, high);
                request.shapes[at].count = numbers.at(middle);
                match request.search_exactly(graph, start, usable, policy) {
                    Search::GaveUp if graph.pools.effort.is_spent() => return Search::GaveUp,
                    Search::Found(picks) => {
                        best = Search::Found(picks);
                        low = middle;
                    }
                    Search::Impossible | Search::GaveUp => high = middle,
                }
            }
            request.shapes[at].count = numbers.at(low);
        }
        best
    }
}

/// The numbers of a range, ascending.
enum Numbers {
    Steps { first: u64, step: u64, len: usize },
    Listed(Vec<u64>),
}

fn numbers(range: Count) -> Numbers {
    let max = range.max.min(COUNT_MAX);
    if let Growth::Add(step) = range.growth {
        let more = (max - range.min).checked_div(step).unwrap_or(0);
        let len = usize::try_from(more).unwrap_or(usize::MAX - 1) + 1;
        return Numbers::Steps { first: range.min, step, len };
    }
    let mut listed = vec![range.min];
    // A product or a power grows beyond the largest count in a few steps.
    while let Some(last) = listed.last().copied() {
        let more = Count { min: last, max, ..range };
        let next = match range.growth {
            Growth::Multiply(factor) => last.checked_mul(factor),
            Growth::Power(power) => {
                u32::try_from(power).ok().and_then(|power| last.checked_pow(power))
            }
            Growth::Add(_) => None,
        };
        match next.filter(|next| *next > last && *next <= more.max) {
            Some(next) => listed.push(next),
            None => break,
        }
    }
    Numbers::Listed(listed)
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Numbers::Steps { len, .. } => *len,
            Numbers::Listed(listed) => listed.len(),
        }
    }

    fn at(&self, place: usize) -> u64 {
        match self {
            Numbers::Steps { first, step, .. } => first + step * place as u64,
            Numbers::Listed(listed) => listed[place],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_range_are_those_that_it_can_come_to() {
        for (min, max, growth) in [
            (2, 11, Growth::Add(3)),
            (1, 64, Growth::Multiply(2)),
            (3, 3, Growth::Multiply(2)),
            (2, 1_000, Growth::Power(2)),
            (5, u64::MAX, Growth::Multiply(7)),
            (1, 9, Growth::Add(0)),
            (1, 9, Growth::Multiply(1)),
        ] {
            let range = Count { min, max, growth };
            let numbers = numbers(range);
            let all: Vec<u64> = (0..numbers.len()).map(|place| numbers.at(place)).collect();
            assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
            let capped = Count { max: max.min(COUNT_MAX), ..range };
            assert!(all.iter().all(|number| capped.choose(*number) == *number), "{all:?}");
            assert_eq!(*all.last().unwrap(), capped.choose(u64::MAX), "{all:?}");
        }
        assert_eq!(
            numbers(Count { min: 1, max: u64::MAX, growth: Growth::Add(1) }).len() as u64,
            COUNT_MAX
        );
    }
}
