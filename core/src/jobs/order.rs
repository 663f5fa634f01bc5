//! The order in which pods of a job get seats.

use std::cmp::Ordering;
use std::sync::Arc;

use fluxqueue_workload::{Pod, Time};

/// The order in which pods of a job get seats: completion index, age, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodOrder(u32, Time, CountedName);

impl PodOrder {
    pub(crate) fn of(pod: &Pod) -> Self {
        PodOrder(
            pod.completion_index.unwrap_or(u32::MAX),
            pod.created,
            CountedName(Arc::clone(&pod.id.key.name)),
        )
    }
}

/// A name in which numbers count as numbers: `w-2` is before `w-10`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CountedName(Arc<str>);

impl Ord for CountedName {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut one, mut two) = (&*self.0, &*other.0);
        while let (Some(first), Some(second)) = (one.chars().next(), two.chars().next()) {
            let (digits, others) = (leading_digits(one), leading_digits(two));
            let order = if digits.is_empty() || others.is_empty() {
                (one, two) = (&one[first.len_utf8()..], &two[second.len_utf8()..]);
                first.cmp(&second)
            } else {
                (one, two) = (&one[digits.len()..], &two[others.len()..]);
                let (digits, others) =
                    (digits.trim_start_matches('0'), others.trim_start_matches('0'));
                digits.len().cmp(&others.len()).then_with(|| digits.cmp(others))
            };
            if order.is_ne() {
                return order;
            }
        }
        one.len().cmp(&two.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for CountedName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the digits with which a text begins.
fn leading_digits(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let in_order = [
            "a", "a-1", "a-1-b", "a-2", "a-10", "a-10-2", "a-010-3", "a-10-10", "a-b", "b0", "b00",
            "b1", "\u{e4}1", "\u{e4}2",
        ];
        let mut names: Vec<CountedName> =
            in_order.iter().rev().map(|name| CountedName(Arc::from(*name))).collect();
        names.sort();
        assert_eq!(names.iter().map(|name| &*name.0).collect::<Vec<_>>(), in_order);
    }
}
