//! Which nodes a request may use at all, and which it prefers.

use smallvec::{SmallVec, smallvec};

use crate::bits::Bits;
use crate::constraint::Constraint;
use crate::graph::Graph;
use crate::jobspec::{Jobspec, SlotExtras};

/// The rows that each shape of a request may use, in tiers of preference, best first.
#[derive(Clone)]
pub(crate) struct Usable {
    /// One per shape, or a single one for all of them.
    sets: SmallVec<[Vec<Bits>; 1]>,
    /// By shape, what may be used whether or not there is room, and what counts like that; `None`:
    /// that is what `sets` has.
    wide: Option<Vec<Bits>>,
}

impl Usable {
    /// The tiers of a shape.
    pub(crate) fn tiers(&self, shape: usize) -> &[Bits] {
        if let [all] = &self.sets[..] { all } else { &self.sets[shape] }
    }

    /// All rows of a shape.
    pub(crate) fn rows(&self, shape: usize) -> Bits {
        Bits::union(self.tiers(shape))
    }

    /// The rows of a shape, also those that were left out because there is no room on them, and
    /// those that only count.
    pub(crate) fn wide_rows(&self, shape: usize) -> Bits {
        self.wide.as_ref().map_or_else(|| self.rows(shape), |wide| wide[shape].clone())
    }

    /// The same as far as there is room for each shape on some rows only.
    pub(crate) fn within(&self, rows: &[Bits]) -> Usable {
        self.limited(rows).with_width_of(self, rows.len())
    }

    /// The same, as if more had been left out for want of room only: the rows that the other has
    /// for `count` shapes.
    pub(crate) fn with_width_of(self, other: &Usable, count: usize) -> Usable {
        Usable { wide: Some((0..count).map(|shape| other.wide_rows(shape)).collect()), ..self }
    }

    /// The same as far as each shape may use only some rows.
    pub(crate) fn limited(&self, rows: &[Bits]) -> Usable {
        let both = |one: &Bits, other: &Bits| {
            let mut both = one.clone();
            both.intersect(other);
            both
        };
        let only = |(shape, rows): (usize, &Bits)| {
            self.tiers(shape).iter().map(|tier| both(tier, rows)).collect()
        };
        let wide = self
            .wide
            .as_ref()
            .map(|wide| wide.iter().zip(rows).map(|(wide, rows)| both(wide, rows)).collect());
        Usable { sets: rows.iter().enumerate().map(only).collect(), wide }
    }

    /// The same as far as these shapes, of `count`, may use only some rows.
    pub(crate) fn limited_for(&self, shapes: &[usize], count: usize, rows: &Bits) -> Usable {
        let of_shape = |shape: usize| {
            if shapes.contains(&shape) { rows.clone() } else { self.wide_rows(shape) }
        };
        self.limited(&(0..count).map(of_shape).collect::<Vec<Bits>>())
    }

    /// What some of the shapes may use.
    pub(crate) fn of_shapes(&self, shapes: &[usize]) -> Usable {
        let sets = shapes.iter().map(|shape| self.tiers(*shape).to_vec()).collect();
        Usable {
            sets,
            wide: self
                .wide
                .as_ref()
                .map(|wide| shapes.iter().map(|shape| wide[*shape].clone()).collect()),
        }
    }
}

/// Whether nodes that are down count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Only nodes that are up.
    Heeded,
    /// All nodes: for what could ever be.
    Ignored,
}

/// Rows of nodes that the request may use.
pub(crate) fn rows(graph: &Graph, spec: &Jobspec, status: Status) -> Bits {
    let mut rows = match status {
        Status::Heeded => graph.pools.by_node().nodes().up().clone(),
        Status::Ignored => Bits::full(graph.pools.len()),
    };
    if let Some(constraint) = &spec.constraint {
        rows.intersect(&admitted(graph, constraint));
    }
    rows
}

/// The rows that slots may use with more conditions than the whole request, which may use
/// `rows`.
pub(crate) fn rows_of_slots(graph: &Graph, rows: &Bits, slots: Option<&SlotExtras>) -> Bits {
    let mut own = rows.clone();
    if let Some(ranges) = slots.and_then(|slots| slots.ranks.as_ref()) {
        own.intersect(&graph.pools.rows_of(ranges));
    }
    own
}

/// The rows that the shapes of a request may use; `slots` are the conditions of each.
pub(crate) fn usable<'a>(
    graph: &Graph,
    spec: &Jobspec,
    slots: impl Iterator<Item = Option<&'a SlotExtras>>,
    status: Status,
) -> Usable {
    let rows = rows(graph, spec, status);
    let slots: SmallVec<[Option<&SlotExtras>; 4]> = slots.collect();
    let counted = |slots: Option<&SlotExtras>| {
        let mut counted = rows_of_slots(graph, &rows, slots);
        counted.unite(&counted_rows(graph, spec, slots));
        counted
    };
    let counts_more = !spec.extras.counted.is_empty()
        || slots.iter().flatten().any(|slots| slots.counted.is_some());
    let wide = counts_more.then(|| slots.iter().copied().map(counted).collect());
    if spec.extras.slots.is_empty() {
        return Usable { sets: smallvec![tiers(graph, &spec.extras.prefer, rows)], wide };
    }
    let of_slots = |slots: Option<&SlotExtras>| {
        let prefer = slots.and_then(|slots| slots.prefer.as_ref()).unwrap_or(&spec.extras.prefer);
        tiers(graph, prefer, rows_of_slots(graph, &rows, slots))
    };
    Usable { sets: slots.iter().copied().map(of_slots).collect(), wide }
}

/// The rows that count for slots, whether they may use them or not.
pub(crate) fn counted_rows(graph: &Graph, spec: &Jobspec, slots: Option<&SlotExtras>) -> Bits {
    let own = slots.and_then(|slots| slots.counted.as_ref());
    graph.pools.rows_of(own.unwrap_or(&spec.extras.counted))
}

/// The rows in tiers of preference, best first.
fn tiers(graph: &Graph, prefer: &[Vec<(u32, u32)>], mut rows: Bits) -> Vec<Bits> {
    let mut tiers = Vec::with_capacity(prefer.len() + 1);
    for ranges in prefer {
        let mut tier = graph.pools.rows_of(ranges);
        tier.intersect(&rows);
        rows.subtract(&tier);
        tiers.push(tier);
    }
    tiers.push(rows);
    tiers
}

fn admitted(graph: &Graph, constraint: &Constraint) -> Bits {
    let count = graph.pools.len();
    match constraint {
        // By far the most frequent: whole words of rows, without a look at any node.
        Constraint::Ranks(ranges) => graph.pools.rows_of(ranges),
        Constraint::And(all) => all.iter().fold(Bits::full(count), |mut rows, one| {
            rows.intersect(&admitted(graph, one));
            rows
        }),
        Constraint::Or(any) => any.iter().fold(Bits::empty(count), |mut rows, one| {
            rows.unite(&admitted(graph, one));
            rows
        }),
        Constraint::Not(all) => {
            let mut rows = Bits::full(count);
            for one in all {
                rows.intersect(&admitted(graph, one));
            }
            let mut others = Bits::full(count);
            others.subtract(&rows);
            others
        }
        Constraint::Properties(_) | Constraint::Hosts(_) => {
            let find = || {
                let mut rows = Bits::empty(count);
                for (row, node) in graph.pools.vertices().iter().enumerate() {
                    if constraint.admits(&graph.subject(*node)) {
                        rows.insert(row);
                    }
                }
                rows
            };
            Bits::clone(&graph.pools.admitted.get(constraint, find))
        }
    }
}
