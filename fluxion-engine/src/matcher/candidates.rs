//! Which nodes a request may use at all, and which it prefers.

use smallvec::{SmallVec, smallvec};

use crate::bits::Bits;
use crate::constraint::Constraint;
use crate::graph::Graph;
use crate::jobspec::{Jobspec, SlotExtras};

/// The rows that each shape of a request may use, in tiers of preference, best first.
pub(crate) struct Usable {
    /// One per shape, or a single one for all of them.
    sets: SmallVec<[Vec<Bits>; 1]>,
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

    /// The same as far as each shape may use only some rows.
    pub(crate) fn within(&self, rows: &[Bits]) -> Usable {
        let only = |(shape, rows): (usize, &Bits)| {
            let tier = |tier: &Bits| {
                let mut tier = tier.clone();
                tier.intersect(rows);
                tier
            };
            self.tiers(shape).iter().map(tier).collect()
        };
        Usable { sets: rows.iter().enumerate().map(only).collect() }
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
        Status::Heeded => graph.pools.up().clone(),
        Status::Ignored => Bits::full(graph.pools.len()),
    };
    if let Some(constraint) = &spec.constraint {
        rows.intersect(&admitted(graph, constraint));
    }
    rows
}

/// The rows that slots may use for which more is said than for the whole request, which may use `rows`.
pub(crate) fn rows_of_slots(graph: &Graph, rows: &Bits, slots: Option<&SlotExtras>) -> Bits {
    let mut own = rows.clone();
    if let Some(ranges) = slots.and_then(|slots| slots.ranks.as_ref()) {
        own.intersect(&graph.pools.rows_of(ranges));
    }
    own
}

/// What the shapes of a request may use; `slots` are what is said of each.
pub(crate) fn usable<'a>(
    graph: &Graph,
    spec: &Jobspec,
    slots: impl Iterator<Item = Option<&'a SlotExtras>>,
    status: Status,
) -> Usable {
    let rows = rows(graph, spec, status);
    if spec.extras.slots.is_empty() {
        return Usable { sets: smallvec![tiers(graph, &spec.extras.prefer, rows)] };
    }
    let of_slots = |slots: Option<&SlotExtras>| {
        let prefer = slots.and_then(|slots| slots.prefer.as_ref()).unwrap_or(&spec.extras.prefer);
        tiers(graph, prefer, rows_of_slots(graph, &rows, slots))
    };
    Usable { sets: slots.map(of_slots).collect() }
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
