//! The pools of the graph: rows for its nodes, columns for types ([`Pools`](crate::pools::Pools)).

use super::{Graph, NewVertex, PropertySet, TextId, TypeId, VertexId, flag};
use crate::Error;

impl Graph {
    /// Sets the size of a node's pool of a type, which is created if there is none. Returns the
    /// size that it was.
    pub fn resize(&mut self, rank: u32, kind: &str, size: u64) -> Result<u64, Error> {
        let row = self.row(rank)?;
        let node = self.pools.vertices()[row];
        let type_id = self.types.intern(kind)?;
        let pools: Vec<VertexId> =
            self.children(node).iter().copied().filter(|id| self.kind(*id) == type_id).collect();
        if let Some(whole) = pools.iter().find(|id| !self.is_pool(**id)) {
            return Err(Error::invalid(format!(
                "vertex {}: is handed out whole, not a pool",
                self.path(*whole)
            )));
        }
        if pools.is_empty() && size > 0 {
            let vertex = NewVertex {
                kind: type_id,
                basename: self.texts.intern(kind),
                name: None,
                id: 0,
                uniq_id: -1,
                rank: self.rank(node),
                size,
                unit: TextId::EMPTY,
                properties: PropertySet::NONE,
                up: true,
            };
            let id = self.push(vertex)?;
            self.hot[id.index()].flags |= flag::POOL;
            self.link(node, id);
        } else {
            self.changes.revision += 1;
            // Several pools of a type on one node count as one; the first then stands for all of
            // them.
            for (at, id) in pools.iter().enumerate() {
                self.hot[id.index()].size = if at == 0 { size } else { 0 };
            }
        }
        let before = self.pools.ledger().size(row, type_id);
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

    /// Rows and columns of the pools, for a graph that was just built.
    pub(super) fn fill_pools(&mut self) -> Result<(), Error> {
        for vertex in self.vertices() {
            self.enter_row(vertex)?;
        }
        if self.has_pool_types() {
            for vertex in self.vertices() {
                self.enter_pool(vertex)?;
            }
        }
        Ok(())
    }

    /// Gives a node its row.
    pub(super) fn enter_row(&mut self, vertex: VertexId) -> Result<(), Error> {
        let Some(rank) = u32::try_from(self.rank(vertex)).ok().filter(|_| self.is_node(vertex))
        else {
            return Ok(());
        };
        if self.pools.position(rank).is_none() {
            let up = self.is_up(vertex);
            self.pools.insert_row(rank, vertex, up);
            self.enter_parts(rank, vertex);
        } else if self.has_pool_types() {
            return Err(Error::invalid(format!(
                "graph: vertex {}: another node has its rank",
                self.path(vertex)
            )));
        }
        Ok(())
    }

    /// Puts a node into the parts that the vertices between it and the root stand for.
    fn enter_parts(&mut self, rank: u32, node: VertexId) {
        let Some(row) = self.pools.position(rank).filter(|_| self.has_pool_types()) else { return };
        let above: Vec<VertexId> =
            self.way_up(node).skip(1).filter(|above| self.parent(*above).is_some()).collect();
        for above in above {
            let (level, part) = (self.kind_name(above).to_owned(), self.path(above));
            self.pools.set_part(row, &level, Some(&part));
        }
    }

    /// Gives a pool its place in the column.
    pub(super) fn enter_pool(&mut self, vertex: VertexId) -> Result<(), Error> {
        let Some(parent) = self.parent(vertex) else { return Ok(()) };
        let row = self.position_of(parent).filter(|_| self.is_node(parent));
        let Some(row) = row else {
            // A licence of the cluster, or storage of a rack: handed out whole, as upstream has it.
            if self.is_pool_type(self.kind_name(vertex)) {
                let at = self.kind(vertex).index();
                if self.counts.whole.len() <= at {
                    self.counts.whole.resize(at + 1, 0);
                }
                self.counts.whole[at] += 1;
            }
            return Ok(());
        };
        if !self.is_pool_below(self.kind_name(vertex), self.kind(parent)) {
            return Ok(());
        }
        if !self.children(vertex).is_empty() {
            return Err(Error::invalid(format!(
                "graph: vertex {}: a pool holds no other vertices",
                self.path(vertex)
            )));
        }
        self.hot[vertex.index()].flags |= flag::POOL;
        let kind = self.kind(vertex);
        let size = self.pools.ledger().size(row, kind).saturating_add(self.size(vertex));
        let usable = self.pools.ledger().usable(row, kind).saturating_add(self.usable_size(vertex));
        self.pools.set_size(row, kind, size, usable);
        Ok(())
    }

    pub(super) fn is_pool_below(&self, kind: &str, parent: TypeId) -> bool {
        self.pool_types.names.iter().any(|name| **name == *kind)
            || self.pool_types.all_of_nodes && parent == TypeId::NODE
    }

    /// The units that a pool vertex can hand out: none, where it is marked as down itself.
    fn usable_size(&self, pool: VertexId) -> u64 {
        if self.is_marked_up(pool) { self.size(pool) } else { 0 }
    }

    /// A pool vertex was marked up or down, if it was not so before.
    pub(super) fn mark_pool(&mut self, pool: VertexId, was_up: bool) {
        let up = self.is_marked_up(pool);
        let Some(row) =
            self.parent(pool).and_then(|parent| self.position_of(parent)).filter(|_| up != was_up)
        else {
            return;
        };
        let (kind, units) = (self.kind(pool), self.size(pool));
        let (size, usable) =
            (self.pools.ledger().size(row, kind), self.pools.ledger().usable(row, kind));
        let usable = if up { usable.saturating_add(units) } else { usable.saturating_sub(units) };
        self.pools.set_size(row, kind, size, usable);
    }

    /// True if some vertices of a type are handed out whole though it is one of pools.
    pub(crate) fn has_whole(&self, kind: TypeId) -> bool {
        self.counts.whole.get(kind.index()).is_some_and(|count| *count > 0)
    }

    pub(super) fn drop_pool(&mut self, id: VertexId) {
        let Some(row) = self.parent(id).and_then(|parent| self.position_of(parent)) else { return };
        let kind = self.kind(id);
        let size = self.pools.ledger().size(row, kind).saturating_sub(self.size(id));
        let usable = self.pools.ledger().usable(row, kind).saturating_sub(self.usable_size(id));
        self.pools.set_size(row, kind, size, usable);
    }

    pub(super) fn refresh_up(&mut self, node: VertexId) {
        let up = self.is_up(node);
        if let Some(at) = self.position_of(node) {
            self.pools.set_up(at, up);
        }
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
