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
        // Most names of pods of one job differ in their last characters.
        let same = same_start(&self.0, &other.0);
        let (mut one, mut two) = (&self.0[same..], &other.0[same..]);
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

/// Returns the length of the text with which both begin, without digits at its end: the number to
/// which they belong may go on.
fn same_start(one: &str, two: &str) -> usize {
    let mut end = one.bytes().zip(two.bytes()).take_while(|(one, two)| one == two).count();
    while !one.is_char_boundary(end) {
        end -= 1;
    }
    one[..end].trim_end_matches(|letter: char| letter.is_ascii_digit()).len()
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

    /// Compares character by character, and number by number.
    fn slow(one: &str, two: &str) -> Ordering {
        let (Some(first), Some(second)) = (one.chars().next(), two.chars().next()) else {
            return one.len().cmp(&two.len());
        };
        let (digits, others) = (leading_digits(one), leading_digits(two));
        let (read, order) = if digits.is_empty() || others.is_empty() {
            ((first.len_utf8(), second.len_utf8()), first.cmp(&second))
        } else {
            let number = |digits: &str| digits.parse::<u64>().unwrap();
            ((digits.len(), others.len()), number(digits).cmp(&number(others)))
        };
        order.then_with(|| slow(&one[read.0..], &two[read.1..]))
    }

    #[test]
    fn the_same_start_of_two_names_does_not_matter() {
        let mut names = vec![String::new()];
        for first in 0..4_usize.pow(4) {
            let letter = |at: u32| ['a', '0', '1', '\u{e4}'][first / 4_usize.pow(at) % 4];
            names.extend((1..=4).map(|length| (0..length).map(letter).collect()));
        }
        names.sort();
        names.dedup();
        for (one, two) in names.iter().flat_map(|one| names.iter().map(move |two| (one, two))) {
            let order = CountedName(Arc::from(&**one)).cmp(&CountedName(Arc::from(&**two)));
            assert_eq!(order, slow(one, two).then_with(|| one.cmp(two)), "{one} {two}");
        }
    }
}
