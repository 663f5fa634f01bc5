//! For how many slots there is room in each part.

use crate::bits::Bits;
use crate::pools::levels::Level;
use crate::pools::{Free, Pools};
use crate::slot_search::candidates::Usable;
use crate::slot_search::flat::order::NodeOrder;
use crate::slot_search::flat::request::SlotRequest;
use crate::slot_search::flat::rule::{Rule, Wanted};
use crate::slot_search::flat::shape::Shape;

use super::moment::Moment;
use super::shares;

/// By position in a rule's shapes and by part: for how many slots of the shape alone there is room.
pub(super) type Rooms = Vec<Vec<u64>>;

pub(super) fn rooms_of(
    request: &SlotRequest<'_>,
    rule: &Rule<'_>,
    moment: Moment<'_>,
    usable: &Usable,
) -> Rooms {
    let of_shape = |shape: &usize| {
        rooms_on(request, rule, *shape, moment.pools, moment.free, &usable.rows(*shape))
    };
    rule.shapes.iter().map(of_shape).collect()
}

/// The rooms for one shape on some rows.
pub(super) fn rooms_on(
    request: &SlotRequest<'_>,
    rule: &Rule<'_>,
    shape: usize,
    pools: &Pools,
    free: &Free<'_>,
    rows: &Bits,
) -> Vec<u64> {
    let mut rooms = vec![0_u64; rule.parts(pools)];
    let shape = &request.shapes[shape];
    let most = request.cap(shape).min(shape.count);
    shape.walk(free, std::slice::from_ref(rows), &NodeOrder::Up, |row| {
        if let Some(part) = rule.part_of(pools, row) {
            rooms[part] += shape.room(free, row, most);
        }
        true
    });
    rooms
}

/// The parts that have a row of some shape of a rule.
pub(super) fn parts_within(rule: &Rule<'_>, pools: &Pools, usable: &Usable) -> Vec<usize> {
    let rows = Bits::union(
        rule.shapes.iter().map(|shape| usable.wide_rows(*shape)).collect::<Vec<_>>().iter(),
    );
    let mut is_there = vec![false; rule.parts(pools)];
    for part in rows.iter().filter_map(|row| rule.part_of(pools, row)) {
        is_there[part] = true;
    }
    (0..is_there.len()).filter(|part| is_there[*part]).collect()
}

impl Rule<'_> {
    /// Whether a part has room for each shape, were it alone.
    pub(super) fn has_room(&self, of: &[Shape<'_>], rooms: &Rooms, part: usize) -> bool {
        self.shapes.iter().zip(rooms).all(|(shape, rooms)| rooms[part] >= of[*shape].count)
    }

    /// Whether there may be a place for all slots: there is none where this says so.
    pub(super) fn may_fit(&self, of: &[Shape<'_>], rooms: &Rooms, eligible: &[usize]) -> bool {
        let wanted = self.wanted(of);
        if matches!(self.within, Wanted::One | Wanted::Part(_)) && wanted > self.most {
            return false;
        }
        let parts = rooms.first().map_or(0, Vec::len);
        if self.within == Wanted::One && !(0..parts).any(|part| self.has_room(of, rooms, part)) {
            return false;
        }
        if !self.has_bounds() {
            return true;
        }
        let room = |part: usize| {
            rooms.iter().fold(0, |sum: u64, of| sum.saturating_add(of[part])).min(self.most)
        };
        let Some(skew) = self.skew else {
            return (0..parts).fold(0, |sum: u64, part| sum.saturating_add(room(part))) >= wanted;
        };
        let rooms: Vec<u64> = eligible.iter().map(|part| room(*part)).collect();
        shares::evenly(&rooms, wanted)
            .is_some_and(|shares| shares::is_even(shares.into_iter(), skew))
    }
}

/// The rooms of parts while a sweep goes from instant to instant.
pub(crate) struct Spread<'a> {
    request: &'a SlotRequest<'a>,
    rules: Vec<Watched<'a>>,
}

struct Watched<'a> {
    rule: Rule<'a>,
    level: &'a Level,
    rooms: Rooms,
    eligible: Vec<usize>,
}

impl<'a> Spread<'a> {
    /// Nothing has room yet.
    pub(crate) fn new(request: &'a SlotRequest<'a>, pools: &'a Pools, usable: &Usable) -> Self {
        let wants_one =
            request.rules.iter().any(|rule| rule.within == Wanted::One && !rule.is_slice);
        let watched = |rule: &Rule<'a>| {
            // Which parts are to be even is known only when others are chosen.
            let rule = Rule { skew: rule.skew.filter(|_| !wants_one), ..rule.clone() };
            let level = rule.level(pools)?;
            let eligible =
                if rule.skew.is_some() { parts_within(&rule, pools, usable) } else { Vec::new() };
            let rooms = vec![vec![0; level.parts().len()]; rule.shapes.len()];
            (rule.within == Wanted::One || rule.has_bounds()).then_some(Watched {
                rule,
                level,
                rooms,
                eligible,
            })
        };
        Spread { request, rules: request.rules.iter().filter_map(watched).collect() }
    }

    /// A row has other room for a shape than before.
    pub(crate) fn change(&mut self, shape: usize, row: usize, before: u64, after: u64) {
        for watched in &mut self.rules {
            if let Some(at) = watched.rule.shapes.iter().position(|of| *of == shape)
                && let Some(part) = watched.level.part_of(row)
            {
                let room = &mut watched.rooms[at][part];
                *room = *room - before + after;
            }
        }
    }

    /// Whether there may be a place.
    pub(crate) fn may_fit(&self) -> bool {
        self.rules.iter().all(|watched| {
            watched.rule.may_fit(&self.request.shapes, &watched.rooms, &watched.eligible)
        })
    }
}
