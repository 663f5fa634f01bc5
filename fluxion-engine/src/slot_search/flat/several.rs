//! Several shapes, all or none: greedily, the scarcest first, in up to four orders; then by the
//! searches of [`super::exact`].

use super::exact;
use super::order::NodeOrder;
use super::ranked::place_ranked;
use super::request::{Outcome, SlotRequest};
use super::shape::Pick;
use super::taken::{Taken, room_beside};
use crate::bits::Bits;
use crate::pools::Free;
use crate::slot_search::candidates::Usable;

/// Room for this number of slots for each wanted one is plenty: whether a shape is scarcer than
/// another is counted no further.
const PLENTY: u64 = 16;

/// Tiers of a shape.
type Tiers = Vec<Bits>;

pub(super) fn place_several(
    request: &SlotRequest<'_>,
    free: &Free<'_>,
    usable: &Usable,
    order: &NodeOrder<'_>,
) -> Outcome {
    let rooms: Vec<u64> = request
        .shapes
        .iter()
        .enumerate()
        .map(|(at, shape)| {
            request.room_alone(shape, free, usable.tiers(at), shape.count.saturating_mul(PLENTY))
        })
        .collect();
    if request.shapes.iter().zip(&rooms).any(|(shape, room)| shape.count > *room) {
        return Outcome::Impossible;
    }
    let mut scarce: Vec<usize> = (0..request.shapes.len()).collect();
    // The scarcest first: the least room for each slot that is wanted.
    scarce.sort_by(|a, b| {
        let share = |of: usize, other: usize| {
            u128::from(rooms[of]) * u128::from(request.shapes[other].count)
        };
        share(*a, *b).cmp(&share(*b, *a))
    });
    if let Some(picks) =
        greedy(request, &scarce, free, |shape| usable.tiers(shape), order, Taken::default())
    {
        return Outcome::Found(picks);
    }
    // Then each shape keeps off the nodes that others can use too; preferences give way to
    // finding a place at all.
    let rows: Vec<Bits> = (0..request.shapes.len()).map(|shape| usable.rows(shape)).collect();
    let groups = by_contention(request, &rows, free);
    let calm = |tiers: &[Bits]| -> Tiers {
        let within = |tier: &Bits, group: &Bits| {
            let mut rows = tier.clone();
            rows.intersect(group);
            rows
        };
        tiers.iter().flat_map(|tier| groups.iter().map(move |group| within(tier, group))).collect()
    };
    let preferred: Vec<Tiers> =
        (0..request.shapes.len()).map(|shape| calm(usable.tiers(shape))).collect();
    let everywhere: Vec<Tiers> = rows.iter().map(|rows| calm(std::slice::from_ref(rows))).collect();
    let reversed: Vec<usize> = scarce.iter().rev().copied().collect();
    greedy(request, &scarce, free, |shape| &preferred[shape], order, Taken::default())
        .or_else(|| {
            greedy(request, &scarce, free, |shape| &everywhere[shape], order, Taken::default())
        })
        .or_else(|| {
            greedy(request, &reversed, free, |shape| &everywhere[shape], order, Taken::default())
        })
        .map_or_else(|| exact::search(request, free, &rows, order), Outcome::Found)
}

/// Places shape after shape.
pub(super) fn greedy<'t>(
    request: &SlotRequest<'_>,
    shapes: &[usize],
    free: &Free<'_>,
    tiers: impl Fn(usize) -> &'t [Bits],
    order: &NodeOrder<'_>,
    mut taken: Taken<'_>,
) -> Option<Vec<Pick>> {
    let mut picks: Vec<Pick> = Vec::new();
    for (done, at) in shapes.iter().enumerate() {
        let new = match order {
            NodeOrder::Ranked(ranked) => {
                place_ranked(request, *at, free, tiers(*at), ranked, &taken)?
            }
            _ => place_beside(request, *at, free, tiers(*at), order, &taken)?,
        };
        if done + 1 < shapes.len() {
            for pick in &new {
                taken.add(request.shapes.len(), pick.shape, pick.row, pick.count);
            }
        }
        picks.extend(new);
    }
    Some(picks)
}

/// Slots of a shape beside those that were placed before, in the order of ranks.
fn place_beside(
    request: &SlotRequest<'_>,
    at: usize,
    free: &Free<'_>,
    tiers: &[Bits],
    order: &NodeOrder<'_>,
    taken: &Taken<'_>,
) -> Option<Vec<Pick>> {
    let shape = &request.shapes[at];
    let mut missing = shape.count;
    let mut picks = Vec::new();
    shape.walk(free, tiers, order, |row| {
        let count = room_beside(request, at, free, row, taken, missing);
        if count > 0 {
            taken.quotas.take(at, row, count);
            picks.push(Pick { shape: at, row, count });
            missing -= count;
        }
        missing > 0
    });
    (missing == 0).then_some(picks)
}

/// The rows by how many shapes can use them, fewest first.
fn by_contention(request: &SlotRequest<'_>, rows: &[Bits], free: &Free<'_>) -> Vec<Bits> {
    let mut groups: Vec<Bits> = vec![Bits::default(); request.shapes.len() + 1];
    for row in Bits::union(rows).iter() {
        let users = request.shapes.iter().zip(rows);
        let users =
            users.filter(|(shape, rows)| rows.contains(row) && shape.room(free, row, 1) > 0);
        groups[users.count()].insert(row);
    }
    groups
}
