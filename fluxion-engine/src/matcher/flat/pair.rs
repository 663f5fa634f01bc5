//! Two shapes of which one has few slots, exactly.
//!
//! Row by row, the best is kept for each number of slots of the small shape: the most slots of the large one beside them.
//! This takes rows times the square of the small shape's slots, so their number is bounded.

use super::{Pick, Request, Shape};
use crate::bits::Bits;

/// The small shape has at most this many slots.
const SMALL_SLOTS_MAX: u64 = 32;

impl Request<'_> {
    /// A place for both of two shapes if there is one, in no particular order of rows. `None` also where the request has
    /// more shapes, or too many slots of both.
    pub(super) fn place_pair(&self, free: &[Option<&[u64]>], rows: &Bits) -> Option<Vec<Pick>> {
        let [first, second] = &self.shapes[..] else { return None };
        let (small, large) = if first.count <= second.count { (0, 1) } else { (1, 0) };
        let wanted = usize::try_from(self.shapes[small].count.min(SMALL_SLOTS_MAX + 1)).ok()?;
        if wanted as u64 > SMALL_SLOTS_MAX {
            return None;
        }
        let rows: Vec<usize> = rows.iter().collect();
        // For each number of small slots on the rows so far: the most large ones beside them.
        let mut best: Vec<Option<u64>> = vec![None; wanted + 1];
        best[0] = Some(0);
        // How many small slots the row took to get there.
        let mut taken: Vec<Vec<u8>> = Vec::with_capacity(rows.len());
        for row in &rows {
            let beside = self.beside(small, large, free, *row);
            let mut next: Vec<Option<u64>> = vec![None; wanted + 1];
            let mut choice = vec![0_u8; wanted + 1];
            for (here, large_slots) in (0_u8..).zip(&beside) {
                let here_slots = usize::from(here);
                for before in 0..=wanted - here_slots {
                    let Some(sum) = best[before].map(|sum| sum.saturating_add(*large_slots)) else { continue };
                    if next[before + here_slots].is_none_or(|known| sum > known) {
                        next[before + here_slots] = Some(sum);
                        choice[before + here_slots] = here;
                    }
                }
            }
            best = next;
            taken.push(choice);
        }
        if best[wanted].is_none_or(|sum| sum < self.shapes[large].count) {
            return None;
        }
        let (mut left_small, mut left_large) = (wanted, self.shapes[large].count);
        let mut picks = Vec::new();
        for (row, choice) in rows.into_iter().zip(taken).rev() {
            let small_slots = usize::from(choice[left_small]);
            let room = self.beside(small, large, free, row).get(small_slots).copied().unwrap_or(0);
            let large_slots = room.min(left_large);
            for (shape, count) in [(small, small_slots as u64), (large, large_slots)] {
                if count > 0 {
                    picks.push(Pick { shape, row, count });
                }
            }
            left_small -= small_slots;
            left_large -= large_slots;
        }
        Some(picks)
    }

    /// By the number of small slots on a row, from none to as many as fit: how many large ones fit beside them.
    fn beside(&self, small: usize, large: usize, free: &[Option<&[u64]>], row: usize) -> Vec<u64> {
        let (small, large) = (&self.shapes[small], &self.shapes[large]);
        let fits = small.room(free, row, self.cap(small).min(small.count));
        (0..=fits)
            .map(|slots| {
                let shared = |limit: &usize| {
                    let used = if small.limits.contains(limit) { slots } else { 0 };
                    self.limits[*limit].count.saturating_sub(used)
                };
                let cap = large.limits.iter().map(shared).min().unwrap_or(u64::MAX).min(large.count);
                large.room_beside(free, row, small, slots, cap)
            })
            .collect()
    }
}

impl Shape<'_> {
    /// How many slots fit on a row beside some of another shape, which fit there alone.
    fn room_beside(&self, free: &[Option<&[u64]>], row: usize, other: &Shape<'_>, slots: u64, most: u64) -> u64 {
        self.needs.iter().fold(most, |room, (kind, amount)| {
            let units = free[*kind].map_or(0, |column| column[row]);
            let theirs = other.needs.iter().find(|(theirs, _)| theirs == kind).map_or(0, |(_, amount)| amount * slots);
            room.min(units.saturating_sub(theirs).checked_div(*amount).unwrap_or(0))
        })
    }
}
