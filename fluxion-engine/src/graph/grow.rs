//! Adding and removing parts of the graph.

use std::collections::HashMap;

use super::{Graph, NewVertex, TextId, TypeId, VertexId, flag};
use crate::Error;
use crate::pools::Claim;
use crate::readers::jgf::{self, Document, NodeText};

impl Graph {
    /// Adds the vertices of a JGF document that are not there yet. A vertex is there if one of its path and rank is.
    /// All or nothing.
    pub fn grow(&mut self, text: &str) -> Result<(), Error> {
        let document = jgf::parse(text)?;
        let mut placed: HashMap<usize, VertexId> = HashMap::with_capacity(document.nodes.len());
        for (at, node) in document.nodes.iter().enumerate() {
            if let Some(id) = self.find(&node.path, node.rank) {
                placed.insert(at, id);
            }
        }
        let order = Graph::order(&document, &placed)?;
        self.check(&document, &order, &placed)?;
        for (at, parent) in order {
            if placed.contains_key(&at) {
                continue;
            }
            let id = self.insert(&document.nodes[at], parent.map(|parent| placed[&parent]))?;
            placed.insert(at, id);
        }
        Ok(())
    }

    /// Unlinks a vertex and everything below it. What is held there stays with the jobs; units of pools are lost. Returns
    /// the jobs that lost some, each once for every claim.
    pub fn cut(&mut self, top: VertexId) -> Result<Vec<u64>, Error> {
        let Some(parent) = self.parent(top) else {
            return Err(Error::invalid(format!("vertex {}: the root cannot be removed", self.path(top))));
        };
        let mut losers = Vec::new();
        self.changes.revision += 1;
        // Children first, so that a pool still finds its node's row.
        for id in self.subtree(top).into_iter().rev() {
            if self.is_pool(id) {
                self.drop_pool(id);
            } else if let Some(row) = self.position_of(id) {
                losers.extend(self.pools.remove_row(row).iter().map(|claim: &Claim| claim.job));
            }
            self.unindex_rank(id);
            self.dissociate(id);
            self.hot[id.index()].flags |= flag::GONE;
            self.gone_count += 1;
            self.edge_count -= 1;
        }
        let (from, count) = (self.hot[parent.index()].child_from as usize, self.children(parent).len());
        let list = &mut self.children[from..from + count];
        if let Some(at) = list.iter().position(|child| *child == top) {
            list[at..].rotate_left(1);
            self.hot[parent.index()].child_count -= 1;
        }
        self.hot[top.index()].parent = VertexId::NONE;
        Ok(losers)
    }

    /// Sets the size of a node's pool of a type, which is created if there is none.
    pub fn resize(&mut self, rank: u32, kind: &str, size: u64) -> Result<(), Error> {
        let row = self.row(rank)?;
        let node = self.pools.vertices()[row];
        let type_id = self.types.intern(kind)?;
        let pools: Vec<VertexId> = self.children(node).iter().copied().filter(|id| self.kind(*id) == type_id).collect();
        if let Some(whole) = pools.iter().find(|id| !self.is_pool(**id)) {
            return Err(Error::invalid(format!("vertex {}: is handed out whole, not a pool", self.path(*whole))));
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
                properties: super::PropertySet::NONE,
                up: true,
            };
            let id = self.push(vertex)?;
            self.hot[id.index()].flags |= flag::POOL;
            self.link(node, id);
        } else {
            self.changes.revision += 1;
            // Several pools of a type on one node count as one; the first then stands for all of them.
            for (at, id) in pools.iter().enumerate() {
                self.hot[id.index()].size = if at == 0 { size } else { 0 };
            }
        }
        self.pools.set_size(row, type_id, size);
        Ok(())
    }

    /// The type's number, and a new one if it is not known.
    pub(crate) fn intern(&mut self, kind: &str) -> Result<TypeId, Error> {
        self.types.intern(kind)
    }

    /// The row of a rank, or that there is none.
    pub(crate) fn row(&self, rank: u32) -> Result<usize, Error> {
        self.pools.position(rank).ok_or_else(|| Error::not_found(format!("rank {rank}: there is no such node")))
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
    fn enter_row(&mut self, vertex: VertexId) -> Result<(), Error> {
        let Some(rank) = u32::try_from(self.rank(vertex)).ok().filter(|_| self.is_node(vertex)) else { return Ok(()) };
        if self.pools.position(rank).is_none() {
            let up = self.is_up(vertex);
            self.pools.insert_row(rank, vertex, up);
        } else if self.has_pool_types() {
            return Err(Error::invalid(format!("graph: vertex {}: another node has its rank", self.path(vertex))));
        }
        Ok(())
    }

    /// Gives a pool its place in the column.
    fn enter_pool(&mut self, vertex: VertexId) -> Result<(), Error> {
        let Some(parent) = self.parent(vertex) else { return Ok(()) };
        if !self.is_pool_below(self.kind_name(vertex), self.kind(parent)) {
            return Ok(());
        }
        let wrong = |what: &str| Err(Error::invalid(format!("graph: vertex {}: {what}", self.path(vertex))));
        let Some(row) = self.position_of(parent).filter(|_| self.is_node(parent)) else {
            return wrong("a pool must lie directly below a node that has a rank");
        };
        if !self.children(vertex).is_empty() {
            return wrong("a pool holds no other vertices");
        }
        self.hot[vertex.index()].flags |= flag::POOL;
        let kind = self.kind(vertex);
        let size = self.pools.size(row, kind).saturating_add(self.size(vertex));
        self.pools.set_size(row, kind, size);
        Ok(())
    }

    fn is_pool_below(&self, kind: &str, parent: TypeId) -> bool {
        self.pool_types.names.iter().any(|name| **name == *kind)
            || self.pool_types.all_of_nodes && parent == TypeId::NODE
    }

    /// Document indices with their parents, parents first; every new vertex hangs below what is there.
    fn order(document: &Document<'_>, placed: &HashMap<usize, VertexId>) -> Result<Vec<(usize, Option<usize>)>, Error> {
        let mut parent: Vec<Option<usize>> = vec![None; document.nodes.len()];
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); document.nodes.len()];
        let path = |at: usize| &document.nodes[at].path;
        for (source, target) in &document.edges {
            if parent[*target].replace(*source).is_some() {
                return Err(Error::invalid(format!("graph: vertex {}: has two parents", path(*target))));
            }
            children[*source].push(*target);
        }
        let mut order: Vec<(usize, Option<usize>)> =
            (0..document.nodes.len()).filter(|at| parent[*at].is_none()).map(|at| (at, None)).collect();
        for (at, _) in &order {
            if !placed.contains_key(at) && path(*at).matches('/').count() != 1 {
                return Err(Error::invalid(format!("graph: vertex {}: has no parent", path(*at))));
            }
        }
        let mut at = 0;
        while at < order.len() {
            let from = order[at].0;
            order.extend(children[from].iter().map(|child| (*child, Some(from))));
            at += 1;
        }
        if order.len() < document.nodes.len() {
            return Err(Error::invalid("graph: edges form a circle"));
        }
        Ok(order)
    }

    /// What could fail while inserting is found out before.
    fn check(
        &self,
        document: &Document<'_>,
        order: &[(usize, Option<usize>)],
        placed: &HashMap<usize, VertexId>,
    ) -> Result<(), Error> {
        let mut node_ranks = HashMap::new();
        let mut levels: HashMap<usize, usize> = placed.iter().map(|(at, id)| (*at, self.level(*id))).collect();
        for (at, parent) in order.iter().filter(|(at, _)| !placed.contains_key(at)) {
            let node = &document.nodes[*at];
            let wrong = |what: &str| Error::invalid(format!("graph: vertex {}: {what}", node.path));
            let Some(parent) = parent else {
                return Err(Error::invalid("graph: more than one root"));
            };
            // Parents come first in this order.
            let level = levels.get(parent).map_or(1, |above| above + 1);
            if level > super::LEVELS_MAX {
                return Err(wrong(&format!("lies deeper than {} levels", super::LEVELS_MAX)));
            }
            levels.insert(*at, level);
            if !self.has_pool_types() {
                continue;
            }
            let above = &document.nodes[*parent];
            if let (true, Ok(rank)) = (node.kind == "node", u32::try_from(node.rank))
                && (self.pools.position(rank).is_some() || node_ranks.insert(rank, *at).is_some())
            {
                return Err(wrong("another node has its rank"));
            }
            if self.is_pool_below(&node.kind, self.types.get(&above.kind).unwrap_or(TypeId::SLOT)) {
                if above.kind != "node" || above.rank < 0 {
                    return Err(wrong("a pool must lie directly below a node that has a rank"));
                }
                if document.edges.iter().any(|(source, _)| source == at) {
                    return Err(wrong("a pool holds no other vertices"));
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, node: &NodeText<'_>, parent: Option<VertexId>) -> Result<VertexId, Error> {
        let vertex = NewVertex {
            kind: self.types.intern(&node.kind)?,
            basename: self.texts.intern(&node.basename),
            name: Some(self.texts.intern(&node.name)),
            id: node.id,
            uniq_id: node.uniq_id,
            rank: node.rank,
            size: node.size,
            unit: TextId::EMPTY,
            properties: self.texts.intern_set(node.properties.iter().map(|(name, value)| (&**name, &**value))),
            up: node.up,
        };
        let id = self.push(vertex)?;
        if let Some(parent) = parent {
            self.link(parent, id);
            if *self.path(id) != *node.path {
                self.odd_paths.insert(id, (&*node.path).into());
            }
        }
        self.index_rank(id);
        self.enter_row(id)?;
        if self.has_pool_types() {
            self.enter_pool(id)?;
        }
        Ok(id)
    }

    /// Adds an edge. Where there is no room left beside the other children they all move to the end of the array, with
    /// twice the room, so that adding node after node does not copy the machine each time.
    fn link(&mut self, parent: VertexId, child: VertexId) {
        let above = self.hot[parent.index()];
        let (from, count) = (above.child_from as usize, above.child_count as usize);
        if above.child_count == above.child_room {
            let room = (count * 2).max(4);
            let start = self.children.len();
            self.children.extend_from_within(from..from + count);
            self.children.resize(start + room, VertexId::NONE);
            let above = &mut self.hot[parent.index()];
            above.child_from = u32::try_from(start).expect("no more edges than 32 bits count");
            above.child_room = u32::try_from(room).expect("no more edges than 32 bits count");
        }
        let above = &mut self.hot[parent.index()];
        self.children[(above.child_from + above.child_count) as usize] = child;
        above.child_count += 1;
        self.hot[child.index()].parent = parent;
        self.edge_count += 1;
    }

    fn drop_pool(&mut self, id: VertexId) {
        let Some(row) = self.parent(id).and_then(|parent| self.position_of(parent)) else { return };
        let kind = self.kind(id);
        let size = self.pools.size(row, kind).saturating_sub(self.size(id));
        self.pools.set_size(row, kind, size);
    }
}
