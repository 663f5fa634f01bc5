//! Shapes that ask for a range of slots: as many as there is room for at the start, and at least
//! the minimum.
//!
//! A place for the minimum of each shape is found first. Then the shapes are raised one after the
//! other, in the order of the request, each to the largest number of its range for which all of
//! them have a place. Of one shape this is exact: where there is a place for more slots there is
//! one for fewer. As upstream, a range grows by its operator, and what would be between two of its
//! numbers is not given.

use crate::jobspec::{Count, Growth};
use crate::pools::COUNT_MAX;

/// The numbers of a range, ascending.
pub(super) enum Ladder {
    Steps { first: u64, step: u64, len: usize },
    Listed(Vec<u64>),
}

/// The numbers of a range.
pub(super) fn numbers(range: Count) -> Ladder {
    let max = range.max.min(COUNT_MAX);
    if let Growth::Add(step) = range.growth {
        let more = (max - range.min).checked_div(step).unwrap_or(0);
        let len = usize::try_from(more).unwrap_or(usize::MAX - 1) + 1;
        return Ladder::Steps { first: range.min, step, len };
    }
    // A product or a power grows beyond the largest count in a few steps.
    Ladder::Listed(Count { max, ..range }.numbers().collect())
}

impl Ladder {
    pub(super) fn len(&self) -> usize {
        match self {
            Ladder::Steps { len, .. } => *len,
            Ladder::Listed(listed) => listed.len(),
        }
    }

    pub(super) fn at(&self, place: usize) -> u64 {
        match self {
            Ladder::Steps { first, step, .. } => first + step * place as u64,
            Ladder::Listed(listed) => listed[place],
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
