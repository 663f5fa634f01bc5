//! How many slots of one shape the parts of a level get. Each has a bounded room, and no part is
//! in another's way: so this is arithmetic, and exact.

/// Shares out `wanted` slots as evenly as rooms allow: no two of the parts then differ by less.
/// `None`: there is not room.
pub(super) fn evenly(rooms: &[u64], wanted: u64) -> Option<Vec<u64>> {
    let up_to =
        |level: u64| rooms.iter().fold(0_u64, |sum, room| sum.saturating_add(level.min(*room)));
    let (mut level, mut enough) = (0, wanted);
    if up_to(enough) < wanted {
        return None;
    }
    // The lowest level up to which all parts are filled with enough.
    while level < enough {
        let middle = level + (enough - level) / 2;
        if up_to(middle) >= wanted {
            enough = middle;
        } else {
            level = middle + 1;
        }
    }
    let mut over = up_to(level) - wanted;
    let mut shares: Vec<u64> = rooms.iter().map(|room| level.min(*room)).collect();
    for share in shares.iter_mut().rev().filter(|share| **share == level) {
        let less = u64::from(over > 0);
        *share -= less;
        over -= less;
    }
    Some(shares)
}

/// Whether the numbers of slots of these parts differ by no more than a skew.
pub(super) fn is_even(shares: impl Iterator<Item = u64> + Clone, skew: u64) -> bool {
    let (least, most) = (shares.clone().min().unwrap_or(0), shares.max().unwrap_or(0));
    most - least <= skew
}

/// The fewest parts that have room for these slots together, of those that come first among
/// equals: the largest, but for the last one, which is the smallest that will do. `None`: all of
/// them have not.
pub(super) fn fewest(rooms: &[u64], wanted: u64) -> Option<Vec<usize>> {
    let mut by_room: Vec<usize> = (0..rooms.len()).collect();
    by_room.sort_by_key(|part| std::cmp::Reverse(rooms[*part]));
    let mut missing = wanted;
    for (nth, part) in by_room.iter().enumerate() {
        if rooms[*part] >= missing {
            let rest = by_room[nth..].iter().filter(|part| rooms[**part] >= missing);
            let last = rest.min_by_key(|part| (rooms[**part], **part)).copied()?;
            by_room.truncate(nth);
            by_room.push(last);
            return Some(by_room);
        }
        missing -= rooms[*part];
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All ways to share out slots.
    fn ways(rooms: &[u64], wanted: u64) -> Vec<Vec<u64>> {
        let Some((first, rest)) = rooms.split_first() else {
            return if wanted == 0 { vec![Vec::new()] } else { Vec::new() };
        };
        let with = |here: u64| {
            ways(rest, wanted - here).into_iter().map(move |rest| [vec![here], rest].concat())
        };
        (0..=wanted.min(*first)).flat_map(with).collect()
    }

    proptest! {
        #[test]
        fn shares_are_the_best_of_all_ways(rooms in prop::collection::vec(0_u64..5, 1..5), wanted in 1_u64..9) {
            let all = ways(&rooms, wanted);
            let skew = |way: &Vec<u64>| way.iter().max().unwrap() - way.iter().min().unwrap();
            let shares = evenly(&rooms, wanted);
            prop_assert_eq!(shares.as_ref().map(skew), all.iter().map(skew).min());
            prop_assert!(shares.is_none_or(|shares| all.contains(&shares)));
            let used = |way: &Vec<u64>| way.iter().filter(|share| **share > 0).count();
            let chosen = fewest(&rooms, wanted);
            prop_assert_eq!(chosen.as_ref().map(Vec::len), all.iter().map(used).min());
            let room = |parts: Vec<usize>| parts.iter().map(|part| rooms[*part]).sum::<u64>();
            prop_assert!(chosen.is_none_or(|parts| room(parts) >= wanted));
        }
    }
}
