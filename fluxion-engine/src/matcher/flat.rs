//! Slots of pool units: each slot takes its units from the pools of one node.
//!
//! One shape is placed exactly: if this finds no place, there is none. So are two of which one has few slots, such as a
//! launcher and its workers. Other requests of several shapes are placed greedily in a few orders ([`several`]): one that only
//! a cleverer packing could place is refused.

mod earliest;
mod pair;
mod ranked;
mod several;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::Error;
use crate::bits::Bits;
use crate::graph::{Graph, TypeId};
use crate::jobspec::{Jobspec, Resource};
use crate::policy::Policy;
use crate::pools::{COUNT_MAX, Moment, Pools, Ranked, SlotShape};
use crate::time::When;
use ranked::Taken;

/// A request of slots, each of units of pools.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) shapes: Vec<Shape<'a>>,
    /// The types that occur; shapes refer to them by position. `None`: no vertex has this type.
    pub(crate) kinds: Vec<(&'a str, Option<TypeId>)>,
    limits: Vec<Limit>,
}

/// Slots of one label.
#[derive(Debug)]
pub(crate) struct Shape<'a> {
    pub(crate) label: &'a str,
    pub(crate) count: u64,
    /// Position in `kinds`, and units of one slot.
    pub(crate) needs: SmallVec<[(usize, u64); 4]>,
    /// Positions in the request's limits.
    limits: SmallVec<[usize; 2]>,
}

/// At most `count` slots on one node, of all shapes that refer to it.
#[derive(Debug)]
struct Limit {
    count: u64,
}

/// In which order nodes are taken.
pub(crate) enum NodeOrder<'a> {
    /// The lowest ranks first.
    Up,
    /// The highest ranks first.
    Down,
    /// By how full they are.
    Ranked(Ranked<'a>),
}

/// Slots of one shape on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) shape: usize,
    pub(crate) row: usize,
    pub(crate) count: u64,
}

impl<'a> Request<'a> {
    /// The request in this form, or `None` if it asks for more than slots of units.
    pub(crate) fn of(graph: &Graph, spec: &'a Jobspec) -> Result<Option<Self>, Error> {
        let unit = |part: &Resource| {
            part.with.is_empty() && !part.is_slot() && part.exclusive != Some(true) && graph.is_pool_type(&part.kind)
        };
        let flat = |level: &Resource| level.is_slot() && level.with.iter().all(unit);
        if !spec.resources.iter().all(flat) {
            return Ok(None);
        }
        let mut request = Request { shapes: Vec::new(), kinds: Vec::new(), limits: Vec::new() };
        for slot in &spec.resources {
            let shape = request.shape(graph, slot)?;
            request.shapes.push(shape);
        }
        for limit in &spec.extras.max_per_node {
            let position = request.limits.len();
            request.limits.push(Limit { count: limit.count });
            for label in &limit.labels {
                let shape = request.shapes.iter_mut().find(|shape| *shape.label == **label);
                let shape =
                    shape.ok_or_else(|| Error::invalid(format!("max_per_node: no slot is labelled {label:?}")))?;
                shape.limits.push(position);
            }
        }
        Ok(Some(request))
    }

    fn shape(&mut self, graph: &Graph, slot: &'a Resource) -> Result<Shape<'a>, Error> {
        let label = slot.label.as_deref().unwrap_or_default();
        if self.shapes.iter().any(|shape| shape.label == label) {
            return Err(Error::invalid(format!("slot {label:?}: the label is used twice")));
        }
        let exact = |level: &Resource| {
            let count = level.count;
            if count.min == count.max {
                Ok(count.min)
            } else {
                Err(Error::invalid(format!("slot {label:?}: {}: a range is not possible with pools", level.kind)))
            }
        };
        let count = exact(slot)?;
        if count > COUNT_MAX {
            return Err(Error::invalid(format!("slot {label:?}: count: more than {COUNT_MAX}")));
        }
        let mut needs: SmallVec<[(usize, u64); 4]> = SmallVec::new();
        for part in &slot.with {
            let position = self.kinds.iter().position(|(kind, _)| *kind == &*part.kind).unwrap_or_else(|| {
                self.kinds.push((&part.kind, graph.types().get(&part.kind)));
                self.kinds.len() - 1
            });
            if needs.iter().any(|(other, _)| *other == position) {
                return Err(Error::invalid(format!("slot {label:?}: {}: is asked for twice", part.kind)));
            }
            needs.push((position, exact(part)?));
        }
        Ok(Shape { label, count, needs, limits: SmallVec::new() })
    }

    /// The types as the pools know them; an unknown one stands as `None`.
    pub(crate) fn columns<'g>(&self, graph: &'g Graph, when: When) -> Moment<'g> {
        let known: Vec<TypeId> = self.kinds.iter().filter_map(|(_, id)| *id).collect();
        let mut columns = graph.pools.moment(&known, when).columns.into_iter();
        let columns = self.kinds.iter().map(|(_, id)| id.and_then(|_| columns.next().flatten())).collect();
        Moment { columns }
    }

    /// The shape in the form that claims keep. All its types are known, or it could not have been placed.
    pub(crate) fn slot(&self, shape: usize) -> Arc<SlotShape> {
        let shape = &self.shapes[shape];
        let mut needs: SmallVec<[(TypeId, u64); 4]> =
            shape.needs.iter().filter_map(|(kind, amount)| Some((self.kinds[*kind].1?, *amount))).collect();
        needs.sort_unstable();
        Arc::new(SlotShape { label: shape.label.into(), needs })
    }

    /// Finds a place for every slot, or for none. Picks come shape by shape, ranks ascending.
    pub(crate) fn place(&self, moment: &Moment<'_>, tiers: &[Bits], order: &NodeOrder<'_>) -> Option<Vec<Pick>> {
        if self.shapes.iter().any(|shape| shape.count == 0) {
            return None;
        }
        let mut picks = if let [shape] = &self.shapes[..] {
            let free: Vec<Option<&[u64]>> = moment.columns.iter().map(Option::as_deref).collect();
            self.place_one(shape, &free, tiers, order)
        } else {
            self.place_several(moment, tiers, order)
        }?;
        picks.sort_unstable_by_key(|pick| (pick.shape, pick.row));
        Some(picks)
    }

    fn place_one(
        &self,
        shape: &Shape<'_>,
        free: &[Option<&[u64]>],
        tiers: &[Bits],
        order: &NodeOrder<'_>,
    ) -> Option<Vec<Pick>> {
        if let NodeOrder::Ranked(ranked) = order {
            return self.place_ranked(0, free, tiers, ranked, &Taken::default());
        }
        let cap = self.cap(shape);
        let mut missing = shape.count;
        let mut picks = Vec::new();
        walk(tiers, order, |row| {
            let count = shape.room(free, row, missing.min(cap));
            if count > 0 {
                picks.push(Pick { shape: 0, row, count });
                missing -= count;
            }
            missing > 0
        });
        (missing == 0).then_some(picks)
    }

    /// How many slots of a shape may come to one node.
    fn cap(&self, shape: &Shape<'_>) -> u64 {
        shape.limits.iter().map(|limit| self.limits[*limit].count).min().unwrap_or(u64::MAX)
    }

    /// How many slots of a shape there is room for, were it alone.
    pub(crate) fn room_alone(&self, shape: &Shape<'_>, free: &[Option<&[u64]>], rows: &Bits) -> u64 {
        let cap = self.cap(shape);
        rows.iter().fold(0_u64, |sum, row| sum.saturating_add(shape.room(free, row, cap)))
    }
}

impl Shape<'_> {
    /// How many slots fit on a node, up to `most`.
    pub(crate) fn room(&self, free: &[Option<&[u64]>], row: usize, most: u64) -> u64 {
        let mut room = most;
        for (kind, amount) in &self.needs {
            let units = free[*kind].map_or(0, |column| column[row]);
            // Also answers for an amount of 0, which never fits anywhere.
            if units < *amount || *amount == 0 {
                return 0;
            }
            // Where all slots fit there is no need to divide.
            if amount.checked_mul(room).is_none_or(|all| all > units) {
                room = units / amount;
            }
        }
        room
    }
}

impl<'a> NodeOrder<'a> {
    /// The order of a policy at a moment.
    pub(crate) fn of(pools: &'a Pools, policy: Policy, when: When) -> Self {
        match policy.by_fill() {
            Some(by) => NodeOrder::Ranked(pools.ranked(by, when)),
            None if policy.descends() => NodeOrder::Down,
            None => NodeOrder::Up,
        }
    }
}

/// Visits the rows tier by tier in the order of their ranks until `visit` says that it has enough.
fn walk(tiers: &[Bits], order: &NodeOrder<'_>, mut visit: impl FnMut(usize) -> bool) {
    let down = matches!(order, NodeOrder::Down);
    for tier in tiers {
        let done = if down { !tier.iter().rev().all(&mut visit) } else { !tier.iter().all(&mut visit) };
        if done {
            return;
        }
    }
}

/// Orders picks the way they are written: by how many slots, most first, then by row.
pub(crate) fn by_count(picks: &[Pick]) -> Vec<(u64, Vec<usize>)> {
    let mut groups: HashMap<u64, Vec<usize>> = HashMap::new();
    for pick in picks {
        groups.entry(pick.count).or_default().push(pick.row);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(count, _)| Reverse(*count));
    groups
}
