//! The score of a vertex: match policies sort by it.

use crate::graph::{Graph, TypeId, VertexId};
use crate::policy::{Order, Policy};

/// The part that a node adds to the scores below it, times its number.
const NODE_FACTOR: i64 = 10_000;
/// Performance classes end here.
const PERF_CLASS_MAX: i64 = 9_999;

impl Policy {
    /// The part that a vertex adds to the scores of all below it; `None` where that cannot be
    /// counted.
    pub(crate) fn factor(self, graph: &Graph, vertex: VertexId) -> Option<i64> {
        if !self.is_node_centric() || graph.kind(vertex) != TypeId::NODE {
            return Some(0);
        }
        let id = graph.id(vertex);
        if id < -1 {
            return None;
        }
        let number = id.checked_add(2)?.checked_mul(NODE_FACTOR)?;
        number.checked_add((graph.uniq_id(vertex) % NODE_FACTOR - 1).abs())
    }

    /// The score of a vertex that meets its requirements, given the factors above it. 0 or less:
    /// not qualified.
    pub(crate) fn score(self, graph: &Graph, vertex: VertexId, prefix: i64) -> i64 {
        if self.order() == Order::Variation {
            let class =
                graph.property(vertex, "perf_class").and_then(|value| value.parse::<i64>().ok());
            return 1 + class
                .filter(|class| (0..=PERF_CLASS_MAX).contains(class))
                .unwrap_or(PERF_CLASS_MAX);
        }
        prefix.saturating_add(graph.id(vertex)).saturating_add(2)
    }
}
