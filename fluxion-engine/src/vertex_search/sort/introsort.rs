//! The algorithm.

/// Ranges up to this length are left to the final insertion sort.
pub(super) const THRESHOLD: usize = 16;

/// Sorts by `less`, with equal elements in the order in which `std::sort` would leave them.
pub(crate) fn sort<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool + Copy) {
    let length = items.len();
    if length < 2 {
        return;
    }
    introsort(items, 2 * length.ilog2(), less);
    finish(items, less);
}

/// The insertion sort at the end.
pub(super) fn finish<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool + Copy) {
    let length = items.len();
    if length > THRESHOLD {
        let (front, _) = items.split_at_mut(THRESHOLD);
        insertion_sort(front, less);
        for at in THRESHOLD..length {
            insert_unguarded(items, at, less);
        }
    } else {
        insertion_sort(items, less);
    }
}

/// The first `count` of what [`sort`] makes of positions `0..keys.len()`, lower keys first.
///
/// Only what comes to the front is followed: the first partition reads the keys and writes nothing
/// but the lower part, and of the parts only those are sorted that reach into the front.
pub(crate) fn front(keys: &[i32], count: usize) -> Vec<u32> {
    let less = |a: &(i32, u32), b: &(i32, u32)| a.0 < b.0;
    let count = count.min(keys.len());
    let depth = keys.len().checked_ilog2().map_or(0, |log| 2 * log);
    let (mut items, depth) = match lower_part(keys).filter(|lower| lower.len() >= count) {
        Some(lower) => (lower, depth - 1),
        None => (keys.iter().copied().zip(0..).collect(), depth),
    };
    let end = introsort_front(&mut items, depth, count, less);
    finish(&mut items[..end], less);
    items.iter().take(count).map(|(_, position)| *position).collect()
}

/// The same where all keys are equal.
pub(crate) fn front_of_equals(length: usize, count: usize) -> Vec<u32> {
    let mut sizes = Vec::new();
    let mut size = length;
    while size > THRESHOLD {
        sizes.push(size);
        size = size.div_ceil(2);
    }
    let count = count.min(length);
    if count > size {
        return front(&vec![0; length], count);
    }
    // Where it came from, partition by partition: elements equal to the pivot change sides, and the
    // median goes first.
    let origin = |at: usize| {
        let at = sizes.iter().rev().fold(at, |at, size| match (at, size / 2) {
            (0, middle) => middle,
            (at, middle) if size - at == middle => 0,
            (at, _) => size - at,
        });
        u32::try_from(at).expect("a walk meets fewer than 2^32 candidates")
    };
    (0..count).map(origin).collect()
}

/// The lower part after the first partition, with positions; `None` where there is none.
pub(super) fn lower_part(keys: &[i32]) -> Option<Vec<(i32, u32)>> {
    let length = keys.len();
    if length <= THRESHOLD {
        return None;
    }
    let middle = median(keys, |a, b| a < b);
    let pivot = keys[middle];
    let origin = |at: usize| if at == middle { 0 } else { at };
    let item = |at: usize| (keys[at], u32::try_from(at).unwrap_or(u32::MAX));
    let mut lower = Vec::with_capacity(length / 2 + 1);
    lower.push(item(middle));
    let (mut first, mut last) = (1, length);
    loop {
        // Elements swapped before are on their right side.
        while first < last && keys[origin(first)] < pivot {
            lower.push(item(origin(first)));
            first += 1;
        }
        last = skip_above(keys, first, last, middle, pivot) - 1;
        while last >= first && pivot < keys[origin(last)] {
            last -= 1;
        }
        if first >= last {
            return Some(lower);
        }
        lower.push(item(origin(last)));
        first += 1;
    }
}

/// Goes down from `last`, some keys at a time, as long as all of them are above the pivot. Does not
/// come to `middle`, of which the key was swapped.
fn skip_above(keys: &[i32], first: usize, mut last: usize, middle: usize, pivot: i32) -> usize {
    const STEP: usize = 8;
    let floor = if last > middle { first.max(middle + 1) } else { first };
    while last >= floor + STEP
        && keys[last - STEP..last].iter().map(|key| i32::from(*key <= pivot)).sum::<i32>() == 0
    {
        last -= STEP;
    }
    last
}

/// Does of [`introsort`] what matters for the first `count`. Returns up to where it was done.
pub(super) fn introsort_front<T: Copy>(
    items: &mut [T],
    mut depth: u32,
    count: usize,
    less: impl Fn(&T, &T) -> bool + Copy,
) -> usize {
    let mut end = items.len();
    while end > THRESHOLD {
        if depth == 0 {
            heap_sort(&mut items[..end], less);
            return end;
        }
        depth -= 1;
        let cut = partition(&mut items[..end], less);
        if count > cut {
            introsort(&mut items[..cut], depth, less);
            return cut + introsort_front(&mut items[cut..end], depth, count - cut, less);
        }
        end = cut;
    }
    end
}

fn introsort<T: Copy>(mut items: &mut [T], mut depth: u32, less: impl Fn(&T, &T) -> bool + Copy) {
    while items.len() > THRESHOLD {
        if depth == 0 {
            heap_sort(items, less);
            return;
        }
        depth -= 1;
        let cut = partition(items, less);
        let (front, back) = items.split_at_mut(cut);
        introsort(back, depth, less);
        items = front;
    }
}

/// The place of the median of three.
fn median<T: Copy>(items: &[T], less: impl Fn(&T, &T) -> bool) -> usize {
    let places = [1, items.len() / 2, items.len() - 1];
    let [a, b, c] = places.map(|at| &items[at]);
    places[median_of(less(a, b), less(b, c), less(a, c))]
}

/// Which of three is the median, given which is less than which: the first than the second, the
/// second than the third, the first than the third.
pub(super) fn median_of(first_second: bool, second_third: bool, first_third: bool) -> usize {
    match (first_second, second_third, first_third) {
        (true, true, _) | (false, false, false) => 1,
        (true, false, true) | (false, true, false) => 2,
        (true, false, false) | (false, _, true) => 0,
    }
}

/// Moves the median of three to the front and parts the rest around it. Returns where the upper
/// part begins.
fn partition<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool + Copy) -> usize {
    items.swap(0, median(items, less));
    let pivot = items[0];
    let (mut first, mut last) = (1, items.len());
    loop {
        while less(&items[first], &pivot) {
            first += 1;
        }
        last -= 1;
        while less(&pivot, &items[last]) {
            last -= 1;
        }
        if first >= last {
            return first;
        }
        items.swap(first, last);
        first += 1;
    }
}

fn insertion_sort<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool + Copy) {
    for at in 1..items.len() {
        if less(&items[at], &items[0]) {
            items[..=at].rotate_right(1);
        } else {
            insert_unguarded(items, at, less);
        }
    }
}

fn insert_unguarded<T: Copy>(items: &mut [T], mut at: usize, less: impl Fn(&T, &T) -> bool) {
    let item = items[at];
    while at > 0 && less(&item, &items[at - 1]) {
        items[at] = items[at - 1];
        at -= 1;
    }
    items[at] = item;
}

fn heap_sort<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool + Copy) {
    let length = items.len();
    for parent in (0..length / 2).rev() {
        let item = items[parent];
        adjust(items, parent, length, item, less);
    }
    for last in (1..length).rev() {
        let item = items[last];
        items[last] = items[0];
        adjust(items, 0, last, item, less);
    }
}

/// Sinks the hole to a leaf along the larger children, then lets the item rise from there.
fn adjust<T: Copy>(
    items: &mut [T],
    top: usize,
    length: usize,
    item: T,
    less: impl Fn(&T, &T) -> bool,
) {
    let mut hole = top;
    let mut child = hole;
    while child < (length - 1) / 2 {
        child = 2 * (child + 1);
        if less(&items[child], &items[child - 1]) {
            child -= 1;
        }
        items[hole] = items[child];
        hole = child;
    }
    if length.is_multiple_of(2) && child == (length - 2) / 2 {
        child = 2 * (child + 1);
        items[hole] = items[child - 1];
        hole = child - 1;
    }
    while hole > top && less(&items[(hole - 1) / 2], &item) {
        items[hole] = items[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    items[hole] = item;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorts(mut items in prop::collection::vec(0_i32..50, 0..300)) {
            let mut expected = items.clone();
            expected.sort_unstable();
            sort(&mut items, |a, b| a < b);
            prop_assert_eq!(items, expected);
        }

        #[test]
        fn the_front_is_that_of_all(
            keys in prop_oneof![
                prop::collection::vec(0_i32..50, 0..400),
                prop::collection::vec(0_i32..3, 0..400),
                (1_usize..40, 1_i32..30).prop_map(|(runs, length)| (0..runs).flat_map(|_| 0..length).collect()),
            ],
            count in 0_usize..60,
        ) {
            let mut all: Vec<(i32, u32)> = keys.iter().copied().zip(0..).collect();
            sort(&mut all, |a, b| a.0 < b.0);
            let expected: Vec<u32> = all.iter().take(count).map(|item| item.1).collect();
            prop_assert_eq!(front(&keys, count), expected);
            let equals = vec![0; keys.len()];
            prop_assert_eq!(front_of_equals(keys.len(), count), front(&equals, count));
        }

        #[test]
        fn heap_sort_sorts(mut items in prop::collection::vec(0_i32..50, 0..100)) {
            let mut expected = items.clone();
            expected.sort_unstable();
            heap_sort(&mut items, |a, b| a < b);
            prop_assert_eq!(items, expected);
        }
    }
}
