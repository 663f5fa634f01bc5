//! When one shape fits first, as others end.
//!
//! Room on a node only grows where nothing begins later, in steps: at the end of each claim there. The steps of all nodes
//! together, in order of time, tell when there is room for every slot, in one pass over the claims.

use super::Request;
use crate::bits::Bits;
use crate::graph::{Graph, TypeId};
use crate::pools::Pools;

impl Request<'_> {
    /// The first instant after now at which the only shape fits on these rows by the ends that are known. Nothing may be
    /// planned for later. `None` also where there are several shapes.
    pub(crate) fn earliest(&self, graph: &Graph, rows: &Bits) -> Option<i64> {
        let [shape] = &self.shapes[..] else { return None };
        let kinds: Option<Vec<(TypeId, u64)>> =
            shape.needs.iter().map(|(kind, amount)| Some((self.kinds[*kind].1?, *amount))).collect();
        let steps = Steps { pools: &graph.pools, kinds: kinds?, cap: self.cap(shape).min(shape.count) };
        let mut room = 0_u64;
        let mut growth: Vec<(i64, u64)> = Vec::new();
        for row in rows.iter() {
            room = room.saturating_add(steps.of_row(row, &mut growth));
        }
        growth.sort_unstable();
        growth.into_iter().find_map(|(at, slots)| {
            room = room.saturating_add(slots);
            (room >= shape.count).then_some(at)
        })
    }
}

struct Steps<'a> {
    pools: &'a Pools,
    kinds: Vec<(TypeId, u64)>,
    cap: u64,
}

impl Steps<'_> {
    /// The room on a row now; what comes later is added to `growth`.
    fn of_row(&self, row: usize, growth: &mut Vec<(i64, u64)>) -> u64 {
        let now = self.room(row, None);
        // A node that has all the room that could be used has no steps.
        if now == self.cap {
            return now;
        }
        let mut room = now;
        for at in self.pools.ends_of(row) {
            let larger = self.room(row, Some(at));
            if larger > room {
                growth.push((at, larger - room));
                room = larger;
            }
        }
        now
    }

    /// The room on a row at an instant.
    fn room(&self, row: usize, at: Option<i64>) -> u64 {
        let rooms = self
            .kinds
            .iter()
            .map(|(kind, amount)| self.pools.free_of(row, *kind, at).checked_div(*amount).unwrap_or(0));
        rooms.min().unwrap_or(0).min(self.cap)
    }
}
