//! The pools of the graph: rows for its nodes, columns for types ([`Pools`](crate::pools::Pools)).

use super::{Graph, texts};
use crate::Error;
use crate::graph::arena::NewVertex;
use crate::limits::{VERTICES_MAX, beginning};
use crate::pools::Size;
use crate::sound::contradiction;
use crate::vertex::{TypeId, VertexId};

impl Graph {
    /// Sets the size of a node's pool of a type, which is created if there is none. Returns the
    /// size that it was.
    pub fn resize(&mut self, rank: u32, kind: &str, size: u64) -> Result<u64, Error> {
        let row = self.row(rank)?;
        let node = self.pools.vertices()[row];
        let known = self.types.get(kind);
        let is_of_kind = |id: &VertexId| Some(self.kind(*id)) == known;
        let pools: Vec<VertexId> = self.children(node).iter().copied().filter(is_of_kind).collect();
        if let Some(whole) = pools.iter().find(|id| !self.is_pool(**id)) {
            return Err(Error::invalid(format!(
                "vertex {}: is handed out whole, not a pool",
                self.path(*whole)
            )));
        }
        let place = format_args!("type {:?}", beginning(kind));
        self.pools.check_room(self.pools.size_with_types(&self.types, [kind]), place)?;
        if pools.is_empty() && size > 0 {
            VERTICES_MAX.check(self.len() + 1, place)?;
            // Its path, its name, its basename and its type.
            self.check_texts(self.path(node).len() + 4 * kind.len() + 3, place)?;
        }
        let type_id = self.types.intern(kind)?;
        if pools.is_empty() && size > 0 {
            let vertex = NewVertex::new(type_id, self.names.text(kind), 0, -1);
            let vertex = NewVertex { rank: self.rank(node), size, ..vertex };
            let id = self.arena.push(vertex).ok_or_else(too_many_vertices)?;
            self.changes.of_vertices();
            self.arena.make_pool(id);
            self.arena.link(node, id);
            self.text_bytes += texts::bytes_of(self, id);
        } else {
            self.changes.of_vertices();
            // Several pools of a type on one node count as one; the first then stands for all of
            // them.
            for (at, id) in pools.iter().enumerate() {
                self.arena.set_size(*id, if at == 0 { size } else { 0 });
            }
        }
        let before = self.pools.by_node().size(row, type_id);
        // The first stands for all of them also where it is marked as down.
        let is_up = pools.first().is_none_or(|first| self.is_marked_up(*first));
        self.pools.set_size(row, type_id, size, if is_up { size } else { 0 });
        Ok(before)
    }

    /// The row of a rank, or that there is none.
    pub(crate) fn row(&self, rank: u32) -> Result<usize, Error> {
        self.pools
            .position(rank)
            .ok_or_else(|| Error::not_found(format!("rank {rank}: there is no such node")))
    }

    /// True if some vertices of a type are handed out whole though it is one of pools.
    pub(crate) fn has_whole(&self, kind: TypeId) -> bool {
        self.wholes.of_pool_types.get(kind.index()).is_some_and(|count| *count > 0)
    }

    /// The rows of the nodes that a vertex is or holds.
    pub(crate) fn rows_within(&self, vertex: VertexId) -> Vec<usize> {
        if self.is_node(vertex) || self.children(vertex).is_empty() {
            return self.position_of(vertex).into_iter().collect();
        }
        self.subtree(vertex).into_iter().filter_map(|below| self.position_of(below)).collect()
    }

    /// The row of a node in the pools' columns.
    pub(crate) fn position_of(&self, node: VertexId) -> Option<usize> {
        let at = self.pools.position(u32::try_from(self.rank(node)).ok()?)?;
        (self.pools.vertices()[at] == node).then_some(at)
    }
}

pub(super) fn too_many_vertices() -> Error {
    Error::invalid("graph: more than 2^32-2 vertices")
}

/// Rows and columns of the pools, for a graph that was just built.
pub(super) fn fill(graph: &mut Graph) -> Result<(), Error> {
    for vertex in graph.vertices() {
        enter_row(graph, vertex)?;
    }
    if graph.has_pool_types() {
        for vertex in graph.vertices() {
            enter_pool(graph, vertex)?;
        }
    }
    Ok(())
}

/// Gives a vertex its row, if it is a node with a rank.
pub(super) fn enter_row(graph: &mut Graph, vertex: VertexId) -> Result<(), Error> {
    match u32::try_from(graph.rank(vertex)) {
        Ok(rank) if graph.is_node(vertex) => enter_node(graph, vertex, rank),
        _ => Ok(()),
    }
}

fn enter_node(graph: &mut Graph, node: VertexId, rank: u32) -> Result<(), Error> {
    if graph.pools.position(rank).is_none() {
        let up = graph.is_up(node);
        if graph.has_pool_types() {
            check_room(graph, node, Size { rows: 1, ..Size::default() })?;
        }
        let row = graph.pools.insert_row(rank, node, up);
        if graph.has_pool_types() {
            enter_parts(graph, row, node)?;
        }
    } else if graph.has_pool_types() {
        return Err(Error::invalid(format!(
            "graph: vertex {}: another node has its rank",
            graph.path(node)
        )));
    }
    Ok(())
}

/// Puts a node into the parts that the vertices between it and the root stand for.
fn enter_parts(graph: &mut Graph, row: usize, node: VertexId) -> Result<(), Error> {
    let above: Vec<VertexId> =
        graph.way_up(node).skip(1).filter(|above| graph.parent(*above).is_some()).collect();
    for above in above {
        let (level, part) = (graph.kind_name(above).to_owned(), graph.path(above));
        check_room(graph, node, graph.pools.size_with_part(&level, &part))?;
        graph.pools.set_part(row, &level, Some(&part));
    }
    Ok(())
}

/// Refuses a vertex with which the tables of pools would grow too large.
fn check_room(graph: &Graph, vertex: VertexId, more: Size) -> Result<(), Error> {
    let path = std::fmt::from_fn(|f| f.write_str(&graph.path(vertex)));
    graph.pools.check_room(more, format_args!("graph: vertex {path}"))
}

/// The row of the node that a vertex lies directly below.
fn row_above(graph: &Graph, vertex: VertexId) -> Option<usize> {
    let node = graph.parent(vertex).filter(|above| graph.is_node(*above))?;
    graph.position_of(node)
}

/// Gives a pool its place in the column. A vertex of such a type that lies elsewhere is handed out
/// whole, as upstream has it: a licence of the cluster, or storage of a rack.
pub(super) fn enter_pool(graph: &mut Graph, vertex: VertexId) -> Result<(), Error> {
    let (row, kind) = (row_above(graph, vertex), graph.kind(vertex));
    let is_pool = graph.is_pool_type(graph.kind_name(vertex));
    match row.filter(|_| is_pool) {
        Some(_) if !graph.children(vertex).is_empty() => Err(Error::invalid(format!(
            "graph: vertex {}: a pool holds no other vertices",
            graph.path(vertex)
        ))),
        Some(row) => {
            let name = graph.kind_name(vertex);
            check_room(graph, vertex, graph.pools.size_with_types(&graph.types, [name]))?;
            graph.arena.make_pool(vertex);
            let (units, usable) = (graph.size(vertex), usable_size(graph, vertex));
            change_size(
                graph,
                row,
                kind,
                |size| size.saturating_add(units),
                |known| known.saturating_add(usable),
            );
            Ok(())
        }
        None => {
            if is_pool && row.is_none() && graph.parent(vertex).is_some() {
                count_whole(graph, kind);
            }
            Ok(())
        }
    }
}

/// One vertex more of a type of pools is handed out whole.
fn count_whole(graph: &mut Graph, kind: TypeId) {
    let counts = &mut graph.wholes.of_pool_types;
    if counts.len() <= kind.index() {
        counts.resize(kind.index() + 1, 0);
    }
    counts[kind.index()] += 1;
}

/// The units that a pool vertex can hand out: none, where it is marked as down itself.
fn usable_size(graph: &Graph, pool: VertexId) -> u64 {
    if graph.is_marked_up(pool) { graph.size(pool) } else { 0 }
}

/// Changes the units of a pool, and those that it can hand out.
fn change_size(
    graph: &mut Graph,
    row: usize,
    kind: TypeId,
    size: impl FnOnce(u64) -> u64,
    usable: impl FnOnce(u64) -> u64,
) {
    let by_node = graph.pools.by_node();
    let (size, usable) = (size(by_node.size(row, kind)), usable(by_node.usable(row, kind)));
    graph.pools.set_size(row, kind, size, usable);
}

/// A pool vertex was marked up or down, and was not so before.
pub(super) fn mark_pool(graph: &mut Graph, pool: VertexId) {
    let (up, kind, units) = (graph.is_marked_up(pool), graph.kind(pool), graph.size(pool));
    // A pool that was removed has no row.
    if let Some(row) = row_above(graph, pool) {
        change_size(
            graph,
            row,
            kind,
            |size| size,
            |usable| {
                if up { usable.saturating_add(units) } else { usable.saturating_sub(units) }
            },
        );
    }
}

/// A pool is removed, before its node is.
pub(super) fn drop_pool(graph: &mut Graph, pool: VertexId) {
    let (units, usable, kind) = (graph.size(pool), usable_size(graph, pool), graph.kind(pool));
    match row_above(graph, pool) {
        Some(row) => change_size(
            graph,
            row,
            kind,
            |size| size.saturating_sub(units),
            |known| known.saturating_sub(usable),
        ),
        None => contradiction("a pool is removed after its node"),
    }
}

/// A vertex that is handed out whole is removed: it counts no more among those of pool types.
pub(super) fn drop_whole(graph: &mut Graph, vertex: VertexId) {
    let is_counted = graph.parent(vertex).is_some()
        && row_above(graph, vertex).is_none()
        && graph.is_pool_type(graph.kind_name(vertex));
    let at = graph.kind(vertex).index();
    if let Some(count) = graph.wholes.of_pool_types.get_mut(at).filter(|_| is_counted) {
        *count = count.saturating_sub(1);
    }
}

/// Brings the mark of a node's row up to date.
pub(super) fn refresh_up(graph: &mut Graph, node: VertexId) {
    let up = graph.is_up(node);
    if let Some(row) = graph.position_of(node) {
        graph.pools.set_up(row, up);
    }
}
