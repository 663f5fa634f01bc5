//! Adding and removing parts of the graph.

use std::collections::HashMap;
use std::sync::Arc;

use super::jgf::{self, Document, NodeText};
use super::{Graph, Vertex, VertexId};
use crate::Error;
use crate::pools::Claim;

impl Graph {
    /// Adds the vertices of a JGF document that are not there yet. A vertex is there if one of its path and rank is.
    /// All or nothing.
    pub fn grow(&mut self, text: &str) -> Result<(), Error> {
        let document = jgf::parse(text)?;
        let order = self.order(&document)?;
        let mut placed: HashMap<usize, VertexId> = HashMap::with_capacity(document.nodes.len());
        for (at, node) in document.nodes.iter().enumerate() {
            if let Some(id) = self.find(&node.path, node.rank) {
                placed.insert(at, id);
            }
        }
        self.check(&document, &order, &placed)?;
        for (at, parent) in order {
            if placed.contains_key(&at) {
                continue;
            }
            let node = &document.nodes[at];
            let id = self.insert(node, parent.map(|parent| placed[&parent]))?;
            placed.insert(at, id);
        }
        Ok(())
    }

    /// Removes a vertex and everything below it, with what is held of it. Returns the jobs that lost something, each once
    /// for every hold.
    pub fn cut(&mut self, top: VertexId) -> Result<Vec<u64>, Error> {
        let Some(parent) = self.vertex(top).parent else {
            return Err(Error::invalid(format!("vertex {}: the root cannot be removed", self.vertex(top).path)));
        };
        let mut losers = Vec::new();
        self.vertex_mut(parent).children.retain(|child| *child != top);
        let lost = self.vertex(top).held_below;
        let mut at = Some(parent);
        while let Some(id) = at {
            self.vertex_mut(id).held_below -= lost;
            at = self.vertex(id).parent;
        }
        // Children first, so that a pool still finds its node's row.
        for id in self.subtree(top).into_iter().rev() {
            losers.extend(self.vertex(id).holds.iter().map(|hold| hold.job));
            if self.vertex(id).pool {
                self.drop_pool(id);
            } else if let Some(row) = self.position_of(id) {
                losers.extend(self.pools.remove_row(row).iter().map(|claim: &Claim| claim.job));
            }
            self.forget(id);
        }
        Ok(losers)
    }

    /// Sets the size of a node's pool of a type, which is created if there is none.
    pub fn resize(&mut self, rank: u32, kind: &str, size: u64) -> Result<(), Error> {
        let row = self.row(rank)?;
        let node = self.pools.vertices()[row];
        let type_id = self.types.intern(kind)?;
        let pools = self.vertex(node).children.iter().copied();
        let pools: Vec<VertexId> = pools.filter(|id| self.vertex(*id).kind == type_id).collect();
        if let Some(whole) = pools.iter().find(|id| !self.vertex(**id).pool) {
            return Err(Error::invalid(format!(
                "vertex {}: is handed out whole, not a pool",
                self.vertex(*whole).path
            )));
        }
        if pools.is_empty() && size > 0 {
            let name = format!("{kind}0");
            let text = NodeText {
                kind: kind.into(),
                basename: kind.into(),
                path: format!("{}/{name}", self.vertex(node).path).into(),
                name: name.into(),
                id: 0,
                uniq_id: -1,
                rank: Some(rank),
                size: 0,
                unit: "".into(),
                properties: Vec::new(),
                up: true,
            };
            let id = self.insert_vertex(&text, Some(node), true)?;
            self.vertex_mut(id).size = size;
        } else {
            // Several pools of a type on one node count as one; the first then stands for all of them.
            for (at, id) in pools.iter().enumerate() {
                self.vertex_mut(*id).size = if at == 0 { size } else { 0 };
            }
        }
        self.pools.set_size(row, type_id, size);
        Ok(())
    }

    /// The row of a rank, or that there is none.
    pub(crate) fn row(&self, rank: u32) -> Result<usize, Error> {
        self.pools.position(rank).ok_or_else(|| Error::not_found(format!("rank {rank}: there is no such node")))
    }

    fn find(&self, path: &str, rank: Option<u32>) -> Option<VertexId> {
        self.at_path(path).iter().copied().find(|id| self.vertex(*id).rank == rank)
    }

    /// Document indices with their parents, parents first; every vertex hangs below one root.
    fn order(&self, document: &Document<'_>) -> Result<Vec<(usize, Option<usize>)>, Error> {
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
            let known = self.find(path(*at), document.nodes[*at].rank).is_some();
            if !known && path(*at).matches('/').count() != 1 {
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
        let mut roots = usize::from(!self.is_blank());
        let mut node_ranks = HashMap::new();
        for (at, parent) in order.iter().filter(|(at, _)| !placed.contains_key(at)) {
            let node = &document.nodes[*at];
            let wrong = |what: &str| Error::invalid(format!("graph: vertex {}: {what}", node.path));
            let Some(parent) = parent else {
                roots += 1;
                continue;
            };
            let above = &document.nodes[*parent];
            if let (true, Some(rank)) = (node.kind == "node", node.rank)
                && (self.pools.position(rank).is_some() || node_ranks.insert(rank, *at).is_some())
            {
                return Err(wrong("another node has its rank"));
            }
            if self.is_pool(&node.kind, &above.kind) {
                if above.kind != "node" || above.rank.is_none() {
                    return Err(wrong("a pool must lie directly below a node that has a rank"));
                }
                if document.edges.iter().any(|(source, _)| source == at) {
                    return Err(wrong("a pool holds no other vertices"));
                }
            }
        }
        if roots > 1 {
            return Err(Error::invalid("graph: more than one root"));
        }
        Ok(())
    }

    fn is_blank(&self) -> bool {
        self.vertices.is_empty()
    }

    fn is_pool(&self, kind: &str, parent_kind: &str) -> bool {
        self.pool_types.names.iter().any(|name| **name == *kind)
            || self.pool_types.all_of_nodes && parent_kind == "node"
    }

    fn insert(&mut self, node: &NodeText<'_>, parent: Option<VertexId>) -> Result<VertexId, Error> {
        let pool = parent.is_some_and(|parent| {
            let parent_kind = self.types.name(self.vertex(parent).kind);
            self.is_pool(&node.kind, parent_kind)
        });
        let id = self.insert_vertex(node, parent, pool)?;
        if pool && let Some(row) = parent.and_then(|parent| self.position_of(parent)) {
            let kind = self.vertex(id).kind;
            let size = self.pools.size(row, kind).saturating_add(node.size);
            self.pools.set_size(row, kind, size);
        }
        Ok(id)
    }

    fn insert_vertex(&mut self, node: &NodeText<'_>, parent: Option<VertexId>, pool: bool) -> Result<VertexId, Error> {
        let path: Arc<str> = Arc::from(&*node.path);
        let vertex = Vertex {
            kind: self.types.intern(&node.kind)?,
            parent,
            children: Vec::new(),
            basename: (&*node.basename).into(),
            name: (&*node.name).into(),
            path: Arc::clone(&path),
            id: node.id,
            uniq_id: node.uniq_id,
            rank: node.rank,
            size: node.size,
            unit: (&*node.unit).into(),
            properties: node.properties.clone(),
            up: node.up,
            pool,
            holds: Vec::new(),
            held_below: 0,
        };
        let id = self.store(vertex)?;
        self.by_path.entry(path).or_default().push(id);
        if let Some(rank) = node.rank {
            self.by_rank.entry(rank).or_default().push(id);
        }
        match parent {
            Some(parent) => self.vertex_mut(parent).children.push(id),
            None => self.root = id,
        }
        if let (true, Some(rank)) = (self.is_node(id), node.rank) {
            let up = self.is_up(id);
            self.pools.insert_row(rank, id, up);
        }
        Ok(id)
    }

    fn store(&mut self, vertex: Vertex) -> Result<VertexId, Error> {
        if let Some(id) = self.vacant.pop() {
            *self.vertex_mut(id) = vertex;
            return Ok(id);
        }
        let id = u32::try_from(self.vertices.len()).map_err(|_| Error::invalid("graph: more than 2^32 vertices"))?;
        self.vertices.push(vertex);
        Ok(VertexId(id))
    }

    fn drop_pool(&mut self, id: VertexId) {
        let Some(row) = self.vertex(id).parent.and_then(|parent| self.position_of(parent)) else { return };
        let kind = self.vertex(id).kind;
        let size = self.pools.size(row, kind).saturating_sub(self.vertex(id).size);
        self.pools.set_size(row, kind, size);
    }

    /// Takes a vertex out of the indices; its place is used again.
    fn forget(&mut self, id: VertexId) {
        let path = Arc::clone(&self.vertex(id).path);
        if let Some(same_path) = self.by_path.get_mut(&path) {
            same_path.retain(|other| *other != id);
            if same_path.is_empty() {
                self.by_path.remove(&path);
            }
        }
        if let Some(rank) = self.vertex(id).rank
            && let Some(same_rank) = self.by_rank.get_mut(&rank)
        {
            same_rank.retain(|other| *other != id);
            if same_rank.is_empty() {
                self.by_rank.remove(&rank);
            }
        }
        let vertex = self.vertex_mut(id);
        vertex.children = Vec::new();
        vertex.holds = Vec::new();
        vertex.held_below = 0;
        vertex.parent = None;
        self.vacant.push(id);
    }
}
