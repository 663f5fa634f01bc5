//! Slots of pool units: each slot takes its units from the pools of one node.
//!
//! Each shape has its own rows, tiers of preference and hold; limits on the slots of a node go
//! across shapes. One shape is placed exactly: if this finds no place, there is none. Several are
//! placed greedily in a few orders ([`several`]), and where that fails by searches that are exact
//! or give up ([`exact`]): then the answer is that nothing is known.

mod earliest;
mod exact;
mod holds;
pub(crate) mod levels;
mod ranges;
mod ranked;
mod several;
mod taken;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::Error;
use crate::bits::Bits;
use crate::graph::{Graph, TypeId};
use crate::jobspec::{Count, Hold, Jobspec, Resource, SlotExtras};
use crate::matcher::candidates::Usable;
use crate::policy::Policy;
use crate::pools::{COUNT_MAX, Free, Pools, Ranked, SlotShape, Tenancy};
use crate::time::When;
use taken::Taken;

/// A request of slots, each of units of pools.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    pub(crate) shapes: Vec<Shape<'a>>,
    /// The types that occur; shapes refer to them by position. `None`: no vertex has this type.
    pub(crate) kinds: Vec<(&'a str, Option<TypeId>)>,
    limits: Vec<Limit>,
    /// In which parts of levels slots may lie.
    rules: Vec<levels::Rule<'a>>,
    /// With which other slots its slots may be on nodes.
    pub(crate) tenancy: Tenancy,
}

/// When a request starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// At this second; each shape needs its units for as long as it is held.
    At(i64),
    /// When everything that has an end has ended.
    Eventually,
    /// On the idle machine.
    Idle,
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Search {
    /// A place for every slot: shape by shape, ranks ascending.
    Found(Vec<Pick>),
    /// There is none.
    Impossible,
    /// None was found, and there may be one.
    GaveUp,
}

/// Slots of one label.
#[derive(Debug, Clone)]
pub(crate) struct Shape<'a> {
    pub(crate) label: &'a str,
    pub(crate) count: u64,
    /// The range that `count` is the minimum of, where more slots are welcome.
    pub(crate) range: Option<Count>,
    /// Position in `kinds`, and units of one slot.
    pub(crate) needs: SmallVec<[(usize, u64); 4]>,
    /// Positions in the request's limits.
    limits: SmallVec<[usize; 2]>,
    /// How long it is held.
    pub(crate) hold: Hold,
    /// Conditions on its nodes, if there are any.
    pub(crate) extras: Option<&'a SlotExtras>,
}

/// At most `count` slots on one node, of all shapes that refer to it.
#[derive(Debug, Clone)]
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
            part.with.is_empty()
                && !part.is_slot()
                && part.exclusive != Some(true)
                && graph.is_pool_type(&part.kind)
        };
        let flat = |level: &Resource| level.is_slot() && level.with.iter().all(unit);
        // Of a type of which some vertices are handed out whole, a walk finds both those and units.
        let has_whole = |part: &Resource| {
            graph.types().get(&part.kind).is_some_and(|kind| graph.has_whole(kind))
        };
        let walks = |level: &Resource| !flat(level) || level.with.iter().any(has_whole);
        if spec.resources.iter().any(walks) {
            return Ok(None);
        }
        let tenancy = spec.extras.tenancy;
        let mut request = Request {
            shapes: Vec::new(),
            kinds: Vec::new(),
            limits: Vec::new(),
            rules: Vec::new(),
            tenancy,
        };
        for slot in &spec.resources {
            let mut shape = request.shape(graph, slot)?;
            shape.hold = spec.hold;
            request.shapes.push(shape);
        }
        for extras in &spec.extras.slots {
            let shape = request.shapes.iter_mut().find(|shape| *shape.label == *extras.label);
            let shape = shape.ok_or_else(|| {
                Error::invalid(format!("slots: no slot is labelled {:?}", extras.label))
            })?;
            shape.hold = extras.hold.unwrap_or(shape.hold);
            shape.extras = Some(extras);
        }
        for limit in &spec.extras.max_per_node {
            let position = request.limits.len();
            request.limits.push(Limit { count: limit.count });
            for label in &limit.labels {
                let shape = request.shapes.iter_mut().find(|shape| *shape.label == **label);
                let shape = shape.ok_or_else(|| {
                    Error::invalid(format!("max_per_node: no slot is labelled {label:?}"))
                })?;
                shape.limits.push(position);
            }
        }
        for rule in &spec.extras.levels {
            let rule = levels::Rule::of(&graph.pools, rule, &request)?;
            request.rules.extend((!rule.is_idle()).then_some(rule));
        }
        Ok(Some(request))
    }

    fn shape(&mut self, graph: &Graph, slot: &'a Resource) -> Result<Shape<'a>, Error> {
        let label = slot.label.as_deref().unwrap_or_default();
        if slot.with.is_empty() {
            return Err(Error::invalid(format!(
                "resources: slot {label:?}: with: a slot holds at least one resource"
            )));
        }
        if self.shapes.iter().any(|shape| shape.label == label) {
            return Err(Error::invalid(format!("slot {label:?}: the label is used twice")));
        }
        let exact = |level: &Resource| {
            let count = level.count;
            if count.min == count.max {
                Ok(count.min)
            } else {
                Err(Error::invalid(format!(
                    "slot {label:?}: {}: a range of units is not possible with pools",
                    level.kind
                )))
            }
        };
        let Count { min: count, max, .. } = slot.count;
        if count > max {
            return Err(Error::invalid(format!("slot {label:?}: count: its max is below its min")));
        }
        // A count of 0 is read, and fits nowhere.
        let range = (count < max && count > 0).then_some(slot.count);
        if count > COUNT_MAX {
            return Err(Error::invalid(format!("slot {label:?}: count: more than {COUNT_MAX}")));
        }
        let mut needs: SmallVec<[(usize, u64); 4]> = SmallVec::new();
        for part in &slot.with {
            let position =
                self.kinds.iter().position(|(kind, _)| *kind == &*part.kind).unwrap_or_else(|| {
                    self.kinds.push((&part.kind, graph.types().get(&part.kind)));
                    self.kinds.len() - 1
                });
            if needs.iter().any(|(other, _)| *other == position) {
                return Err(Error::invalid(format!(
                    "slot {label:?}: {}: is asked for twice",
                    part.kind
                )));
            }
            needs.push((position, exact(part)?));
        }
        Ok(Shape {
            label,
            count,
            range,
            needs,
            limits: SmallVec::new(),
            hold: Hold::Endless,
            extras: None,
        })
    }

    /// The longest time for which a shape is held.
    pub(crate) fn longest(&self) -> Hold {
        self.shapes
            .iter()
            .map(|shape| shape.hold)
            .max_by_key(|hold| hold.seconds())
            .unwrap_or(Hold::Endless)
    }

    /// Free units of the types at a moment.
    pub(crate) fn free<'g>(&self, graph: &'g Graph, when: When) -> Free<'g> {
        graph.pools.free(self.kinds.iter().map(|(_, id)| (*id, when)), self.tenancy)
    }

    /// The shape in the form that claims keep. All its types are known, or it could not have been
    /// placed.
    pub(crate) fn slot(&self, shape: usize) -> Arc<SlotShape> {
        let shape = &self.shapes[shape];
        let mut needs: SmallVec<[(TypeId, u64); 4]> = shape
            .needs
            .iter()
            .filter_map(|(kind, amount)| Some((self.kinds[*kind].1?, *amount)))
            .collect();
        needs.sort_unstable();
        Arc::new(SlotShape { label: shape.label.into(), needs, tenancy: self.tenancy })
    }

    /// Finds a place for every slot, or for none; of ranges, for as many slots as have one.
    pub(crate) fn search(
        &self,
        graph: &Graph,
        start: Start,
        usable: &Usable,
        policy: Policy,
    ) -> Search {
        let least = search_exactly(self, graph, start, usable, policy);
        // Later than at an instant it only matters whether there is a place.
        if matches!((start, &least), (Start::At(_), Search::Found(_))) && has_ranges(self) {
            return self.raise(graph, start, usable, policy, least);
        }
        least
    }

    fn place(
        &self,
        pools: &Pools,
        start: Start,
        free: &Free<'_>,
        usable: &Usable,
        order: &NodeOrder<'_>,
    ) -> Search {
        let found = if self.rules.is_empty() {
            self.place_plain(free, usable, order)
        } else {
            self.place_in_parts(pools, start, free, usable, order)
        };
        if pools.effort.is_spent() {
            return Search::GaveUp;
        }
        match found {
            Search::Found(mut picks) => {
                picks.sort_unstable_by_key(|pick| (pick.shape, pick.row));
                Search::Found(picks)
            }
            not => not,
        }
    }

    /// Finds a place without a look at levels.
    fn place_plain(&self, free: &Free<'_>, usable: &Usable, order: &NodeOrder<'_>) -> Search {
        if self.shapes.iter().any(|shape| shape.count == 0) {
            return Search::Impossible;
        }
        if let [shape] = &self.shapes[..] {
            self.place_one(shape, free, usable.tiers(0), order)
                .map_or(Search::Impossible, Search::Found)
        } else {
            self.place_several(free, usable, order)
        }
    }

    fn place_one(
        &self,
        shape: &Shape<'_>,
        free: &Free<'_>,
        tiers: &[Bits],
        order: &NodeOrder<'_>,
    ) -> Option<Vec<Pick>> {
        if let NodeOrder::Ranked(ranked) = order {
            return self.place_ranked(0, free, tiers, ranked, &Taken::default());
        }
        let cap = self.cap(shape);
        let mut missing = shape.count;
        let mut picks = Vec::new();
        shape.walk(free, tiers, order, |row| {
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
    pub(crate) fn cap(&self, shape: &Shape<'_>) -> u64 {
        shape.limits.iter().map(|limit| self.limits[*limit].count).min().unwrap_or(u64::MAX)
    }

    /// How many slots of a shape there is room for, were it alone; rows are only looked at until
    /// there are `enough`.
    pub(crate) fn room_alone(
        &self,
        shape: &Shape<'_>,
        free: &Free<'_>,
        rows: &[Bits],
        enough: u64,
    ) -> u64 {
        let cap = self.cap(shape);
        let mut sum = 0_u64;
        shape.walk(free, rows, &NodeOrder::Up, |row| {
            sum = sum.saturating_add(shape.room(free, row, cap));
            sum < enough
        });
        sum.min(enough)
    }
}

/// True if some shape asks for a range.
pub(crate) fn has_ranges(request: &Request<'_>) -> bool {
    request.shapes.iter().any(|shape| shape.range.is_some())
}

/// Finds a place for every slot, or for none; of ranges, for the minimum.
fn search_exactly(
    request: &Request<'_>,
    graph: &Graph,
    start: Start,
    usable: &Usable,
    policy: Policy,
) -> Search {
    #[cfg(test)]
    crate::traverser::tests::SEARCHES.set(crate::traverser::tests::SEARCHES.get() + 1);
    let when = match start {
        Start::At(at) if graph.pools.has_planned() && request.has_several_holds() => {
            return request.search_by_holds(graph, at, usable, policy);
        }
        Start::At(from) => When::Window { from, to: request.longest().until(from) },
        Start::Eventually => When::Eventually,
        Start::Idle => When::Idle,
    };
    let (free, order) =
        (request.free(graph, when), NodeOrder::of(&graph.pools, policy, when, request.tenancy));
    request.place(&graph.pools, start, &free, usable, &order)
}

/// The rows of this number of blocks are visited one by one before blocks are tested for being
/// passed over.
const BLOCKS_UNASKED: usize = 2;

impl Shape<'_> {
    /// Visits the rows tier by tier in the order of their ranks until `visit` says that it has
    /// enough. Blocks of 64 rows none of which has room for a slot are passed over.
    fn walk(
        &self,
        free: &Free<'_>,
        tiers: &[Bits],
        order: &NodeOrder<'_>,
        mut visit: impl FnMut(usize) -> bool,
    ) {
        let down = matches!(order, NodeOrder::Down);
        for tier in tiers {
            let blocks = tier.blocks();
            for nth in 0..blocks {
                let block = if down { blocks - 1 - nth } else { nth };
                if tier.is_empty_block(block)
                    || nth >= BLOCKS_UNASKED && !free.block_may(block, &self.needs)
                {
                    continue;
                }
                let visit = |row: usize| free.effort().take(1) && visit(row);
                let mut rows = tier.block(block);
                let done = if down { !rows.rev().all(visit) } else { !rows.all(visit) };
                if done {
                    return;
                }
            }
        }
    }

    /// How many slots fit on a node, up to `most`.
    pub(crate) fn room(&self, free: &Free<'_>, row: usize, most: u64) -> u64 {
        let mut room = most;
        for (kind, amount) in &self.needs {
            let units = free.units(*kind, row);
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
    /// The order of a policy at a moment, for slots of a tenancy.
    pub(crate) fn of(pools: &'a Pools, policy: Policy, when: When, tenancy: Tenancy) -> Self {
        match policy.by_fill() {
            Some(by) => NodeOrder::Ranked(pools.ranked(by, when, tenancy)),
            None if policy.descends() => NodeOrder::Down,
            None => NodeOrder::Up,
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
