//! When a request fits first, in one sweep over the instants at which something is given back.
//!
//! How many slots a node has room for from an instant on changes in two ways only. It may grow
//! where something ends there; it may shrink once a claim planned there comes to lie within the
//! time for which the slots are held. The first are kept in the order of time by the account
//! ([`Pools::ends_with_ranks`]), the second are noted when a node is visited. So the room of all
//! nodes together is known at each instant from a look at the few nodes that have changed.
//!
//! For one shape that is when it fits. For several it is when each of them would fit alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::levels::Spread;
use super::order::NodeOrder;
use super::request::SlotRequest;
use super::shape::Shape;
use crate::bits::Bits;
use crate::graph::Graph;
use crate::pools::{Pools, Tenancy};
use crate::slot_search::candidates::Usable;
use crate::time::When;

/// The sweep: it goes on from instant to instant.
pub(crate) struct Sweep<'a> {
    pools: &'a Pools,
    tenancy: Tenancy,
    shapes: Vec<Swept>,
    spread: Spread<'a>,
    now: i64,
    /// When the room of a row shrinks, for a shape.
    shrinks: BinaryHeap<Reverse<(i64, usize, usize)>>,
    /// Something has ended on a row that is of use, since the last attempt. Before that there is
    /// no place where there was none.
    has_more: bool,
}

/// A shape, as far as the sweep has come.
struct Swept {
    /// Units of a slot, by column.
    needs: SmallVec<[(usize, u64); 4]>,
    wanted: u64,
    /// The most slots of one node that are of use.
    cap: u64,
    seconds: u64,
    /// Rows that may be used.
    rows: Bits,
    /// The room of each row, and of all together.
    rooms: Vec<u64>,
    /// There is no room on a row before that.
    not_before: Vec<i64>,
    sum: u64,
}

/// A sweep over the instants after now; `None`: no node has a pool of a requested type.
pub(crate) fn sweep<'g>(
    request: &'g SlotRequest<'_>,
    graph: &'g Graph,
    usable: &Usable,
    now: i64,
) -> Option<Sweep<'g>> {
    let pools = &graph.pools;
    let swept = |(at, shape): (usize, &Shape<'_>)| {
        Some(Swept {
            needs: request.columns_of(graph, at)?,
            wanted: shape.count,
            cap: request.cap(shape).min(shape.count),
            seconds: shape.hold.seconds(),
            rows: usable.rows(at),
            rooms: vec![0; pools.len()],
            not_before: vec![i64::MIN; pools.len()],
            sum: 0,
        })
    };
    let shapes: Option<Vec<Swept>> = request.shapes.iter().enumerate().map(swept).collect();
    let spread = Spread::new(request, pools, usable);
    let mut sweep = Sweep {
        pools,
        tenancy: request.tenancy,
        shapes: shapes?,
        spread,
        now,
        shrinks: BinaryHeap::new(),
        has_more: true,
    };
    for (at, shape) in request.shapes.iter().enumerate() {
        let when = When::Window { from: now, to: shape.hold.until(now) };
        let free = request.free(graph, when);
        let rows = std::mem::take(&mut sweep.shapes[at].rows);
        shape.walk(&free, std::slice::from_ref(&rows), &NodeOrder::Up, |row| {
            // What does not fit now fits no earlier than something ends there.
            if shape.room(&free, row, 1) > 0 {
                sweep.look(at, row, now);
            }
            true
        });
        sweep.shapes[at].rows = rows;
    }
    Some(sweep)
}

impl Sweep<'_> {
    /// Calls `attempt` at each instant from `from` on at which there is room for each shape, and at
    /// which there may be more than at the one before, with the rows that have some, until it
    /// succeeds.
    pub(crate) fn find<T>(
        mut self,
        from: i64,
        mut attempt: impl FnMut(i64, Vec<Bits>) -> Option<T>,
    ) -> Option<T> {
        let pools = self.pools;
        let mut instants = pools.by_node().ends_with_ranks().peekable();
        while let Some((at, ranks)) = instants.next_if(|(at, _)| *at <= from) {
            self.look_at_all(ranks, at);
        }
        if from > self.now {
            self.shrink(from);
            if let Some(found) = self.attempt(from, &mut attempt) {
                return Some(found);
            }
        }
        while let Some((at, ranks)) = instants.next().filter(|_| !self.pools.effort.is_spent()) {
            self.shrink(at);
            self.look_at_all(ranks, at);
            // Work past its end ends at the same instant as work that ends in the next second.
            while let Some((_, ranks)) = instants.next_if(|(next, _)| *next == at) {
                self.look_at_all(ranks, at);
            }
            if let Some(found) = self.attempt(at, &mut attempt) {
                return Some(found);
            }
        }
        None
    }

    /// Calls `attempt` if there is room for each shape at an instant up to which all has been
    /// looked at, and something has ended since the last attempt.
    fn attempt<T>(
        &mut self,
        at: i64,
        attempt: impl FnOnce(i64, Vec<Bits>) -> Option<T>,
    ) -> Option<T> {
        self.pools.effort.take(1);
        if self.shapes.iter().any(|shape| shape.sum < shape.wanted) || !self.spread.may_fit() {
            return None;
        }
        if !std::mem::take(&mut self.has_more) {
            return None;
        }
        let with_room = |shape: &Swept| {
            let mut rows = Bits::empty(shape.rooms.len());
            let has_room = shape.rooms.iter().enumerate().filter(|(_, room)| **room > 0);
            has_room.for_each(|(row, _)| rows.insert(row));
            rows
        };
        attempt(at, self.shapes.iter().map(with_room).collect())
    }

    fn look_at_all(&mut self, ranks: &[u32], at: i64) {
        for row in ranks.iter().filter_map(|rank| self.pools.position(*rank)) {
            for shape in 0..self.shapes.len() {
                if self.shapes[shape].rows.contains(row) {
                    let had_room = self.shapes[shape].rooms[row] > 0;
                    self.look(shape, row, at);
                    self.has_more |= had_room || self.shapes[shape].rooms[row] > 0;
                }
            }
        }
    }

    /// Takes note of the room of a row from an instant on.
    fn look(&mut self, shape: usize, row: usize, at: i64) {
        self.pools.effort.take(1);
        let swept = &mut self.shapes[shape];
        if at < swept.not_before[row] {
            return;
        }
        let timeline = self.pools.timeline_beside(row, self.tenancy);
        let room = timeline.room(&swept.needs, swept.cap, at, swept.seconds, self.now);
        let before = std::mem::replace(&mut swept.rooms[row], room.slots);
        swept.sum = swept.sum - before + room.slots;
        self.spread.change(shape, row, before, room.slots);
        if room.slots == 0 {
            // Most ends give back too little.
            swept.not_before[row] = timeline.next_fit(&swept.needs, at, swept.seconds, self.now);
        }
        if room.until < i64::MAX {
            self.shrinks.push(Reverse((room.until.saturating_add(1), shape, row)));
        }
    }

    /// Brings the rows up to date that have less room by an instant.
    fn shrink(&mut self, at: i64) {
        while let Some(Reverse((_, shape, row))) =
            self.shrinks.peek().copied().filter(|Reverse((when, ..))| *when <= at)
        {
            self.shrinks.pop();
            self.look(shape, row, at);
        }
    }
}
