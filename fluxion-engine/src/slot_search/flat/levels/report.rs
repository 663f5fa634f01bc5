//! What rules leave of the machine, for people.

use std::cmp::Reverse;

use serde::Serialize;

use crate::bits::Bits;
use crate::pools::{Free, Pools};
use crate::slot_search::flat::quotas::Quotas;
use crate::slot_search::flat::request::SlotRequest;
use crate::slot_search::flat::rule::{Rule, Wanted, part_rows};
use crate::slot_search::flat::taken::{Taken, room_beside};

use super::rooms::rooms_on;

/// The room for one shape in the parts of a level.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct LevelSupply {
    /// The level.
    pub level: String,
    /// Parts with a node that the shape may use.
    pub parts: u64,
    /// How many of its slots fit in the part that has most room.
    pub largest: u64,
    /// That part; of several the first by name. `None` where no slot fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// For rules that bound the difference between parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub even: Option<EvenSupply>,
    /// Where slots of several shapes are to be in one part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherSupply>,
}

/// The room for all shapes that are to be in one part together.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct TogetherSupply {
    /// How many slots are wanted.
    pub wanted: u64,
    /// How many of them fit in the part that has most room.
    pub largest: u64,
    /// That part; of several the first by name. `None` where no slot fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

/// The room that a skew leaves: no part can have many more slots than the one that has least room.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct EvenSupply {
    /// How many slots fit in all parts together.
    pub room: u64,
    /// How many fit in the part that has least room.
    pub least: u64,
    /// That part; of several the first by name.
    pub part: String,
}

/// The room for a shape on the rows of each shape, rule by rule; more rows than these
/// count where the difference between parts is bounded: `None` if there is no such rule.
pub(crate) fn level_supplies(
    request: &SlotRequest<'_>,
    pools: &Pools,
    free: &Free<'_>,
    shape: usize,
    of_shapes: &[Bits],
    counted: Option<&Bits>,
) -> Vec<LevelSupply> {
    let rows = &of_shapes[shape];
    let of_shape = request.rules.iter().filter(|rule| rule.shapes.contains(&shape));
    let mut alone = request.clone();
    // Also of parts that have more room than is wanted.
    alone.shapes[shape].count = u64::from(u32::MAX);
    let supply = |rule: &Rule<'_>| {
        let is_there = parts_of(rule, pools, rows);
        let rooms = rooms_on(&alone, rule, shape, pools, free, rows);
        let name = |part: usize| rule.level(pools).map_or("", |level| &level.parts()[part].name);
        let even = rule.skew.zip(counted).and_then(|(skew, counted)| {
            let counts = parts_of(rule, pools, counted);
            let of_parts = || {
                (0..counts.len())
                    .filter(|part| counts[*part])
                    .map(|part| (part, rooms[part].min(rule.most)))
            };
            let (part, least) = of_parts().min_by_key(|(part, room)| (*room, name(*part)))?;
            let most = least.saturating_add(skew);
            let room = of_parts().fold(0_u64, |sum, (_, room)| sum.saturating_add(room.min(most)));
            Some(EvenSupply { room, least, part: name(part).to_owned() })
        });
        let rooms = rooms.into_iter().enumerate().filter(|(_, room)| *room > 0);
        let largest = rooms.max_by_key(|(part, room)| (*room, Reverse(name(*part))));
        LevelSupply {
            level: rule.name.to_owned(),
            parts: is_there.iter().filter(|is_there| **is_there).count() as u64,
            largest: largest.map_or(0, |(_, room)| room).min(rule.most),
            part: largest.map(|(part, _)| name(part).to_owned()),
            even,
            together: together(request, rule, pools, free, of_shapes),
        }
    };
    of_shape.map(supply).collect()
}

/// The room for all shapes of a rule that wants them in one part. The shape for which
/// there is least room comes first.
fn together(
    request: &SlotRequest<'_>,
    rule: &Rule<'_>,
    pools: &Pools,
    free: &Free<'_>,
    of_shapes: &[Bits],
) -> Option<TogetherSupply> {
    if rule.within != Wanted::One || rule.shapes.len() < 2 {
        return None;
    }
    let mut in_order: Vec<(u64, usize)> = rule
        .shapes
        .iter()
        .map(|shape| {
            let rooms = rooms_on(request, rule, *shape, pools, free, &of_shapes[*shape]);
            (rooms.into_iter().fold(0, u64::saturating_add), *shape)
        })
        .collect();
    in_order.sort_unstable();
    let mut taken = Taken::within(Quotas::default());
    let mut fits = vec![0_u64; rule.parts(pools)];
    for (_, shape) in in_order {
        let mut missing = vec![request.shapes[shape].count; fits.len()];
        for row in of_shapes[shape].iter() {
            // A row in no part counts for none, and a part with all of its slots needs no other
            // row.
            let Some(part) = rule.part_of(pools, row).filter(|part| missing[*part] > 0) else {
                continue;
            };
            let room =
                room_beside(request, shape, free, row, &taken, missing[part]).min(missing[part]);
            if room > 0 {
                taken.add(request.shapes.len(), shape, row, room);
                missing[part] -= room;
                fits[part] += room;
            }
        }
    }
    let name = |part: usize| rule.level(pools).map_or("", |level| &level.parts()[part].name);
    let fits = fits.into_iter().enumerate().filter(|(_, fits)| *fits > 0);
    let largest = fits.max_by_key(|(part, fits)| (*fits, Reverse(name(*part))));
    Some(TogetherSupply {
        wanted: rule.wanted(&request.shapes),
        largest: largest.map_or(0, |(_, fits)| fits).min(rule.most),
        part: largest.map(|(part, _)| name(part).to_owned()),
    })
}

/// Leaves of the rows of each shape those in parts that have room for all slots that are to be
/// together.
pub(crate) fn narrow(request: &SlotRequest<'_>, pools: &Pools, free: &Free<'_>, rows: &mut [Bits]) {
    for rule in request.rules.iter().filter(|rule| rule.within == Wanted::One) {
        // A level that no node is in has no parts.
        let Some(level) = rule.level else { continue };
        let of_shape = |shape: &usize| rooms_on(request, rule, *shape, pools, free, &rows[*shape]);
        let rooms = rule.shapes.iter().map(of_shape).collect();
        for part in
            (0..rule.parts(pools)).filter(|part| !rule.has_room(&request.shapes, &rooms, *part))
        {
            let gone = part_rows(pools, level, part);
            rule.shapes.iter().for_each(|shape| rows[*shape].subtract(&gone));
        }
    }
}

/// Which parts have one of these rows.
fn parts_of(rule: &Rule<'_>, pools: &Pools, rows: &Bits) -> Vec<bool> {
    let mut is_there = vec![false; rule.parts(pools)];
    for part in rows.iter().filter_map(|row| rule.part_of(pools, row)) {
        is_there[part] = true;
    }
    is_there
}
