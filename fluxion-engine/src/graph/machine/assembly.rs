//! From the parts of a graph to the graph.

use super::{Graph, Parts, Wholes, rows, texts, units_of};
use crate::Error;
use crate::graph::changes::Changes;
use crate::graph::ranks::Ranks;
use crate::limits::UNITS_MAX;
use crate::pools::Pools;

impl Graph {
    /// A graph of these parts, with rows for its nodes, or why it cannot be one.
    pub(crate) fn of(parts: Parts) -> Result<Self, Error> {
        let Parts { types, arena, names, associations, root, pool_types } = parts;
        let ranks = Ranks::of(&arena);
        let mut changes = Changes::default();
        changes.of_vertices();
        let mut graph = Graph {
            types,
            arena,
            names,
            associations,
            ranks,
            root,
            wholes: Wholes::default(),
            text_bytes: 0,
            pool_types,
            pools: Pools::default(),
            changes,
        };
        texts::count(&mut graph)?;
        rows::fill(&mut graph)?;
        let whole = graph.vertices().filter(|vertex| !graph.is_pool(*vertex));
        graph.wholes.units =
            whole.fold(0, |sum, vertex| sum.saturating_add(units_of(&graph, vertex)));
        UNITS_MAX.check(graph.wholes.units, "graph")?;
        Ok(graph)
    }
}
