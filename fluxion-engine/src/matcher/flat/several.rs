//! Several shapes, all or none: greedily, the scarcest first, in up to four orders; then two shapes exactly, if that is cheap.

use std::borrow::Cow;

use super::ranked::Taken;
use super::{NodeOrder, Pick, Request, Shape, walk};
use crate::bits::Bits;
use crate::pools::Moment;

impl Request<'_> {
    pub(super) fn place_several(
        &self,
        moment: &Moment<'_>,
        tiers: &[Bits],
        order: &NodeOrder<'_>,
    ) -> Option<Vec<Pick>> {
        let free: Vec<Option<&[u64]>> = moment.columns.iter().map(Option::as_deref).collect();
        let mut everywhere = Bits::default();
        for tier in tiers {
            everywhere.unite(tier);
        }
        let rooms: Vec<u64> = self.shapes.iter().map(|shape| self.room_alone(shape, &free, &everywhere)).collect();
        if self.shapes.iter().zip(&rooms).any(|(shape, room)| shape.count > *room) {
            return None;
        }
        let mut scarce: Vec<usize> = (0..self.shapes.len()).collect();
        // The scarcest first: the least room for each slot that is wanted.
        scarce.sort_by(|a, b| {
            let share = |of: usize, other: usize| u128::from(rooms[of]) * u128::from(self.shapes[other].count);
            share(*a, *b).cmp(&share(*b, *a))
        });
        if let Some(picks) = self.greedy(&scarce, moment, tiers, order) {
            return Some(picks);
        }
        // Then each shape keeps off the nodes that others can use too; preferences give way to finding a place at all.
        let rows = everywhere.clone();
        let calm =
            |tiers: &[Bits]| -> Vec<Bits> { tiers.iter().flat_map(|tier| self.by_contention(tier, &free)).collect() };
        let everywhere = calm(std::slice::from_ref(&everywhere));
        let reversed: Vec<usize> = scarce.iter().rev().copied().collect();
        self.greedy(&scarce, moment, &calm(tiers), order)
            .or_else(|| self.greedy(&scarce, moment, &everywhere, order))
            .or_else(|| self.greedy(&reversed, moment, &everywhere, order))
            .or_else(|| self.place_pair(&free, &rows))
    }

    /// Places shape after shape.
    fn greedy(
        &self,
        shapes: &[usize],
        moment: &Moment<'_>,
        tiers: &[Bits],
        order: &NodeOrder<'_>,
    ) -> Option<Vec<Pick>> {
        let mut left: Vec<Option<Cow<'_, [u64]>>> = moment.columns.clone();
        let mut taken = Taken::default();
        let mut picks = Vec::new();
        for at in shapes {
            let shape = &self.shapes[*at];
            let free: Vec<Option<&[u64]>> = left.iter().map(Option::as_deref).collect();
            let new = match order {
                NodeOrder::Ranked(ranked) => self.place_ranked(*at, &free, tiers, ranked, &taken)?,
                _ => self.place_beside(*at, &free, tiers, order, &taken)?,
            };
            for pick in &new {
                for (kind, amount) in &shape.needs {
                    if let Some(column) = &mut left[*kind] {
                        column.to_mut()[pick.row] -= amount * pick.count;
                    }
                    if let (NodeOrder::Ranked(_), Some(kind)) = (order, self.kinds[*kind].1) {
                        taken.add(pick.row, kind, u128::from(*amount) * u128::from(pick.count));
                    }
                }
                for limit in &shape.limits {
                    *taken.slots.entry((*limit, pick.row)).or_default() += pick.count;
                }
            }
            picks.extend(new);
        }
        Some(picks)
    }

    /// How many of up to `most` slots of a shape a row has room for beside those that were placed before.
    pub(super) fn room_beside(
        &self,
        shape: &Shape<'_>,
        free: &[Option<&[u64]>],
        row: usize,
        taken: &Taken,
        most: u64,
    ) -> u64 {
        let caps = shape.limits.iter().map(|limit| {
            self.limits[*limit].count.saturating_sub(taken.slots.get(&(*limit, row)).copied().unwrap_or(0))
        });
        shape.room(free, row, caps.min().unwrap_or(u64::MAX).min(most))
    }

    /// Slots of a shape beside those that were placed before, in the order of ranks.
    fn place_beside(
        &self,
        at: usize,
        free: &[Option<&[u64]>],
        tiers: &[Bits],
        order: &NodeOrder<'_>,
        taken: &Taken,
    ) -> Option<Vec<Pick>> {
        let shape = &self.shapes[at];
        let mut missing = shape.count;
        let mut picks = Vec::new();
        walk(tiers, order, |row| {
            let count = self.room_beside(shape, free, row, taken, missing);
            if count > 0 {
                picks.push(Pick { shape: at, row, count });
                missing -= count;
            }
            missing > 0
        });
        (missing == 0).then_some(picks)
    }

    /// The rows of a tier, those that the fewest shapes can use first.
    fn by_contention(&self, tier: &Bits, free: &[Option<&[u64]>]) -> Vec<Bits> {
        let mut groups: Vec<Bits> = vec![Bits::default(); self.shapes.len() + 1];
        for row in tier.iter() {
            let users = self.shapes.iter().filter(|shape| shape.room(free, row, 1) > 0).count();
            groups[users].insert(row);
        }
        groups
    }
}
