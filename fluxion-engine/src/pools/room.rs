//! The memory that the tables of pools take, estimated before they are made: a column has a cell
//! for each node, also where a single node has such a pool.

use std::ops::Add;

/// Bytes of a type on a node: 56 in its column, and 8 in the sums by parts and in each step of a
/// timeline, of which a node with jobs has some.
const CELL_BYTES: usize = 128;

/// Bytes of a node in a level.
const PLACE_BYTES: usize = 8;

/// Bytes of a level, and of a part, without its names.
const PART_BYTES: usize = 256;

/// Bytes of a type in a part.
const SUM_BYTES: usize = 16;

/// How large the tables of pools are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Nodes.
    pub(crate) rows: usize,
    /// Types.
    pub(crate) columns: usize,
    /// Levels above the nodes.
    pub(crate) levels: usize,
    /// Parts of all levels.
    pub(crate) parts: usize,
    /// Bytes of the names of parts.
    pub(crate) names: usize,
}

impl Size {
    pub(super) fn bytes(self) -> usize {
        let product = |one: usize, other: usize| one.saturating_mul(other);
        let cell =
            product(self.columns, CELL_BYTES).saturating_add(product(self.levels, PLACE_BYTES));
        let part = product(self.columns, SUM_BYTES).saturating_add(PART_BYTES);
        product(self.rows, cell)
            .saturating_add(product(self.parts, part))
            .saturating_add(product(self.levels, PART_BYTES))
            .saturating_add(product(self.names, 2))
    }

    /// One part more.
    pub(crate) fn of_part(name: &str) -> Self {
        Size { parts: 1, names: name.len(), ..Size::default() }
    }
}

impl Add for Size {
    type Output = Size;

    fn add(self, more: Size) -> Size {
        Size {
            rows: self.rows + more.rows,
            columns: self.columns + more.columns,
            levels: self.levels + more.levels,
            parts: self.parts + more.parts,
            names: self.names + more.names,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::POOL_BYTES_MAX;
    use crate::limits::tests::with_lower;
    use crate::{Engine, Error};

    const NODES: usize = 10;

    /// A vertex of JGF.
    fn vertex(id: usize, kind: &str, rank: i64, path: &str) -> String {
        format!(
            r#"{{"id":"{id}","metadata":{{"type":"{kind}","id":0,"rank":{rank},"name":"{}",
                "paths":{{"containment":"{path}"}}}}}}"#,
            path.rsplit('/').next().unwrap_or_default()
        )
    }

    /// Nodes from one number to another with a pool each, of a type of its own or of one for all;
    /// below a rack each, of a type of its own or of one for all.
    fn document((from, to): (usize, usize), own_pools: bool, own_racks: bool) -> String {
        let (mut nodes, mut edges) = (vec![vertex(0, "cluster", -1, "/c0")], Vec::new());
        for at in from..to {
            let own = |kind: &str, own: bool| {
                if own { format!("{kind}{at}") } else { kind.to_owned() }
            };
            let (id, rack) = (3 * at + 1, format!("/c0/r{at}"));
            let node = format!("{rack}/n{at}");
            let rank = i64::try_from(at).unwrap();
            nodes.push(vertex(id, &own("rack", own_racks), -1, &rack));
            nodes.push(vertex(id + 1, "node", rank, &node));
            nodes.push(vertex(id + 2, &own("pool", own_pools), rank, &format!("{node}/p0")));
            for (source, target) in [(0, id), (id, id + 1), (id + 1, id + 2)] {
                edges.push(format!(r#"{{"source":"{source}","target":"{target}"}}"#));
            }
        }
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, nodes.join(","), edges.join(","))
    }

    fn engine(document: &str) -> Result<Engine, Error> {
        Engine::new(document, r#"{"load_format":"jgf","pool_types":["*"]}"#)
    }

    fn bytes(engine: &Engine) -> usize {
        let pools = &engine.graph().pools;
        let own =
            Size { rows: pools.len(), columns: pools.by_node.columns().len(), ..Size::default() };
        (own + pools.levels.size()).bytes()
    }

    fn says<T>(answer: Result<T, Error>, place: &str) {
        let error = answer.map(drop).unwrap_err();
        assert!(error.text.starts_with(place), "{error}");
        assert!(error.text.ends_with("bytes of tables of pools (POOL_BYTES_MAX)"), "{error}");
    }

    #[test]
    fn a_graph_has_room_for_its_nodes_times_its_types() {
        for (own_pools, own_racks) in [(true, false), (false, true), (true, true)] {
            let text = document((0, NODES), own_pools, own_racks);
            let all = bytes(&engine(&text).unwrap());
            assert!(!own_pools || all > NODES * NODES * CELL_BYTES, "{all}");
            with_lower(POOL_BYTES_MAX, all, || assert!(engine(&text).is_ok()));
            with_lower(POOL_BYTES_MAX, all - 1, || says(engine(&text), "graph: vertex /c0/r"));
        }
    }

    #[test]
    fn a_graph_that_grows_has_room_before_anything_is_added() {
        for (own_pools, own_racks) in [(true, false), (false, true), (true, true)] {
            let (first, more) = (
                document((0, NODES), own_pools, own_racks),
                document((NODES, NODES + 3), own_pools, own_racks),
            );
            let mut grown = engine(&first).unwrap();
            grown.add_subgraph(&more).unwrap();
            let all = bytes(&grown);
            let mut engine = engine(&first).unwrap();
            with_lower(POOL_BYTES_MAX, all - 1, || says(engine.add_subgraph(&more), "graph: "));
            assert_eq!((engine.graph().pools.len(), engine.graph().len()), (NODES, 3 * NODES + 1));
            with_lower(POOL_BYTES_MAX, all, || engine.add_subgraph(&more).unwrap());
            assert_eq!(bytes(&engine), all);
            // The same once more needs nothing.
            with_lower(POOL_BYTES_MAX, all, || engine.add_subgraph(&more).unwrap());
        }
    }

    #[test]
    fn calls_have_room_before_they_change_anything() {
        let mut engine = engine(&document((0, NODES), false, false)).unwrap();
        let charge = |types: std::ops::Range<usize>| {
            let with: Vec<String> = types.map(|at| format!(r#""new{at}":1"#)).collect();
            let with = with.join(",");
            format!(r#"{{"label":"a","rank":0,"count":1,"with":{{{with}}},"end":"never"}}"#)
        };
        let (before, kinds) = (bytes(&engine), engine.graph().types().len());
        // A type takes this much on all nodes and in all parts.
        let column = NODES * (CELL_BYTES + SUM_BYTES);
        with_lower(POOL_BYTES_MAX, before + 3 * column, || {
            says(engine.charge(7, &charge(0..4)), "charge of job 7: ");
            assert_eq!((bytes(&engine), engine.graph().types().len()), (before, kinds));
            assert_eq!(engine.job_count(), 0);
            engine.charge(7, &charge(0..3)).unwrap();
            // Those are there.
            engine.charge(7, &charge(1..3)).unwrap();
            says(engine.charge(7, &charge(3..4)), "charge of job 7: ");
            says(engine.resize(0, "new3", 1), "type \"new3\": ");
            engine.resize(0, "new2", 1).unwrap();
            says(engine.set_part("zone", "0-3", "a"), "set_part: ");
            engine.set_part("rack", "0-3", "/c0/r1").unwrap();
            engine.set_part("zone", "0-3", "").unwrap();
        });
        let after = bytes(&engine);
        engine.set_part("zone", "0-3", "a").unwrap();
        assert!(bytes(&engine) > after + PART_BYTES);
        engine.set_part("zone", "0-3", "").unwrap();
        assert_eq!(bytes(&engine), after);
    }
}
