//! Sorting as the C++ standard library of GNU does it.
//!
//! Upstream sorts candidates by score alone with `std::sort`, which is not stable: which of two equal candidates comes first
//! depends on the algorithm. So this is the same one: introspective sort with the median of three as pivot, ranges of up to
//! 16 left to one insertion sort at the end, heap sort where the recursion gets too deep.

/// Ranges up to this length are left to the final insertion sort.
const THRESHOLD: usize = 16;

/// Sorts by `less`, with equal elements in the order in which `std::sort` would leave them.
pub(crate) fn sort<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool + Copy) {
    let length = items.len();
    if length < 2 {
        return;
    }
    introsort(items, 2 * length.ilog2(), less);
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

/// Moves the median of three to the front and parts the rest around it. Returns where the upper part begins.
fn partition<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool) -> usize {
    let (a, b, c) = (1, items.len() / 2, items.len() - 1);
    let median = if less(&items[a], &items[b]) {
        if less(&items[b], &items[c]) {
            b
        } else if less(&items[a], &items[c]) {
            c
        } else {
            a
        }
    } else if less(&items[a], &items[c]) {
        a
    } else if less(&items[b], &items[c]) {
        c
    } else {
        b
    };
    items.swap(0, median);
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
fn adjust<T: Copy>(items: &mut [T], top: usize, length: usize, item: T, less: impl Fn(&T, &T) -> bool) {
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
        fn heap_sort_sorts(mut items in prop::collection::vec(0_i32..50, 0..100)) {
            let mut expected = items.clone();
            expected.sort_unstable();
            heap_sort(&mut items, |a, b| a < b);
            prop_assert_eq!(items, expected);
        }
    }
}
