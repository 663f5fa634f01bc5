//! What sorting brings to the front of keys that rise within each of many rows.
//!
//! The candidates of a node are such a row where they are slots. A row then is a word with a bit
//! per key, and of the upper part of the first partition only those keys are read that go to
//! the lower one.

use super::introsort::{THRESHOLD, finish, introsort_front, median_of};

/// The first `count` of what [`super::sort`] makes of the keys of all rows, as positions; `None`:
/// the first partition leaves less.
///
/// Each row is a set of at most 64 keys; `starts` says where its keys begin, and has the
/// end as well.
pub(crate) fn front_of_rows(rows: &[u64], starts: &[u32], count: usize) -> Option<Vec<u32>> {
    let less = |a: &(u32, u32), b: &(u32, u32)| a.0 < b.0;
    let depth = starts.last()?.checked_ilog2().map_or(0, |log| 2 * log);
    let mut items = lower_part_of_rows(rows, starts).filter(|lower| lower.len() >= count)?;
    let end = introsort_front(&mut items, depth - 1, count, less);
    finish(&mut items[..end], less);
    Some(items.iter().take(count).map(|(_, position)| *position).collect())
}

/// As [`super::introsort::lower_part`], for rows.
fn lower_part_of_rows(rows: &[u64], starts: &[u32]) -> Option<Vec<(u32, u32)>> {
    let length = *starts.last()?;
    if length as usize <= THRESHOLD {
        return None;
    }
    let key = |at: u32| {
        let row = starts.partition_point(|start| *start <= at) - 1;
        let mut bits = rows[row];
        for _ in starts[row]..at {
            bits &= bits - 1;
        }
        bits.trailing_zeros()
    };
    let places = [1, length / 2, length - 1];
    let three = places.map(key);
    let middle = places[median_of(three[0] < three[1], three[1] < three[2], three[0] < three[2])];
    let (pivot, swapped) = (key(middle), key(0));
    let (mut left, mut right) =
        (Upwards { rows, row: 0, bits: rows[0] }, Downwards::new(rows, starts, pivot));
    // The element of 0 is at the middle now.
    let item = |key: u32, at: u32| if at == middle { (swapped, 0) } else { (key, at) };
    left.next();
    let mut lower = Vec::with_capacity(length as usize / 8);
    lower.push((pivot, middle));
    let (mut first, mut last) = (1, length);
    loop {
        while first < last {
            let item = item(left.next()?, first);
            if item.0 >= pivot {
                break;
            }
            lower.push(item);
            first += 1;
        }
        let hit = loop {
            match right.next() {
                Some((_, at)) if at == middle && swapped > pivot => {}
                hit => break hit,
            }
        };
        let Some((key, at)) = hit.filter(|(_, at)| first < *at) else { return Some(lower) };
        lower.push(item(key, at));
        (first, last) = (first + 1, at);
    }
}

/// The keys of all rows, one after the other.
struct Upwards<'a> {
    rows: &'a [u64],
    row: usize,
    /// The rest of the row.
    bits: u64,
}

impl Upwards<'_> {
    fn next(&mut self) -> Option<u32> {
        while self.bits == 0 {
            self.row += 1;
            self.bits = *self.rows.get(self.row)?;
        }
        let key = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(key)
    }
}

/// The keys up to the pivot, from the last row to the first, with where they stand: in each row
/// they come first.
struct Downwards<'a> {
    rows: &'a [u64],
    starts: &'a [u32],
    to_pivot: u64,
    /// Rows that are left.
    row: usize,
    /// The rest of the row above these.
    bits: u64,
    /// Behind the next key.
    end: u32,
}

impl<'a> Downwards<'a> {
    fn new(rows: &'a [u64], starts: &'a [u32], pivot: u32) -> Self {
        Downwards {
            rows,
            starts,
            to_pivot: u64::MAX >> (63 - pivot),
            row: rows.len(),
            bits: 0,
            end: 0,
        }
    }

    fn next(&mut self) -> Option<(u32, u32)> {
        while self.bits == 0 {
            self.row = self.row.checked_sub(1)?;
            self.bits = self.rows[self.row] & self.to_pivot;
            self.end = self.starts[self.row] + self.bits.count_ones();
        }
        let key = self.bits.ilog2();
        self.bits ^= 1 << key;
        self.end -= 1;
        Some((key, self.end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::introsort::{front, lower_part};
    use super::*;

    proptest! {
        #[test]
        fn the_front_of_rows_is_that_of_their_keys(
            rows in prop_oneof![
                prop::collection::vec(0_u64..64, 1..200),
                (1_usize..60, any::<u64>()).prop_map(|(rows, row)| vec![row; rows]),
                (1_usize..200, prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..10)).prop_map(
                    |(rows, others)| {
                        let mut rows = vec![(1 << 36) - 1; rows];
                        for (at, other) in others {
                            let at = at.index(rows.len());
                            rows[at] &= other;
                        }
                        rows
                    }
                ),
            ],
            count in prop_oneof![4 => Just(1_usize), 1 => 1_usize..60],
        ) {
            let keys: Vec<i32> =
                rows.iter().flat_map(|row| (0..64).filter(move |key| row & (1 << key) != 0)).collect();
            let mut starts = vec![0_u32];
            for row in &rows {
                starts.push(starts[starts.len() - 1] + row.count_ones());
            }
            if let Some(found) = front_of_rows(&rows, &starts, count) {
                prop_assert_eq!(found, front(&keys, count));
            } else {
                let lower = lower_part(&keys).map_or(0, |lower| lower.len());
                prop_assert!(keys.len() <= THRESHOLD || lower < count);
            }
        }
    }
}
