//! Which nodes a request may use at all, and which it prefers.

use crate::bits::Bits;
use crate::constraint::Constraint;
use crate::graph::Graph;
use crate::jobspec::Jobspec;

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

/// The rows in tiers of preference, best first.
pub(crate) fn tiers(graph: &Graph, spec: &Jobspec, mut rows: Bits) -> Vec<Bits> {
    let mut tiers = Vec::with_capacity(spec.extras.prefer.len() + 1);
    for ranges in &spec.extras.prefer {
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
