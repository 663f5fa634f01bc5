//! What there is: vertices in an arena, each below one parent (containment), found by path and by rank.
//!
//! Vertices are named by index; the index of a removed vertex is used again. What is held of a vertex is kept beside it:
//! whole vertices carry their holds, pools are columns of [`Pools`]. Who holds it is the business of [`crate::Engine`].

mod grow;
pub(crate) mod jgf;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

pub use types::{TypeId, Types};

use crate::Error;
use crate::constraint::Subject;
use crate::pools::Pools;
use crate::time::End;

/// Index of a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexId(u32);

/// A thing that is there, or a pool of things.
#[derive(Debug, Clone)]
pub struct Vertex {
    /// Its type.
    pub kind: TypeId,
    /// What holds it; only the root has none.
    pub parent: Option<VertexId>,
    /// What it holds, in the order of the document.
    pub children: Vec<VertexId>,
    /// The name without number.
    pub basename: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// Names from the root, unique together with the rank.
    pub path: Arc<str>,
    /// The number of its kind; -1 if it has none.
    pub id: i64,
    /// The number in the document.
    pub uniq_id: i64,
    /// The broker rank.
    pub rank: Option<u32>,
    /// How many units it stands for.
    pub size: u64,
    /// What the units are; decoration.
    pub unit: Box<str>,
    /// Properties, sorted by name.
    pub properties: Vec<(Box<str>, Box<str>)>,
    /// Not marked as down (its parents may be).
    pub up: bool,
    /// It hands out parts.
    pub pool: bool,
    /// Who holds it as a whole.
    pub(crate) holds: Vec<Hold>,
    /// Holds in the subtree, itself and whole vertices only.
    pub(crate) held_below: u32,
}

/// A job that has, or will have, a vertex for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) job: u64,
    pub(crate) start: i64,
    pub(crate) end: End,
}

/// Which vertex types are pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolTypes {
    /// These.
    pub names: Vec<Box<str>>,
    /// Everything that lies directly below a node.
    pub all_of_nodes: bool,
}

/// The graph.
#[derive(Debug, Clone)]
pub struct Graph {
    types: Types,
    vertices: Vec<Vertex>,
    vacant: Vec<VertexId>,
    by_path: HashMap<Arc<str>, SmallVec<[VertexId; 1]>>,
    by_rank: HashMap<u32, Vec<VertexId>>,
    root: VertexId,
    node_type: TypeId,
    pool_types: PoolTypes,
    pub(crate) pools: Pools,
}

impl Graph {
    /// Reads a JGF document.
    pub fn read(text: &str, pool_types: PoolTypes) -> Result<Self, Error> {
        let mut types = Types::default();
        // Built-in types come first, as upstream has them; a request may name them on any graph.
        for name in ["cluster", "core", "socket", "gpu", "node", "rack", "slot", "ssd", "storage_node"] {
            types.intern(name)?;
        }
        let node_type = types.intern("node")?;
        let mut graph = Graph {
            types,
            vertices: Vec::new(),
            vacant: Vec::new(),
            by_path: HashMap::new(),
            by_rank: HashMap::new(),
            root: VertexId(0),
            node_type,
            pool_types,
            pools: Pools::default(),
        };
        graph.grow(text)?;
        if graph.vertices.is_empty() {
            return Err(Error::invalid("graph: no vertices"));
        }
        Ok(graph)
    }

    /// The vertex that holds all others.
    pub fn root(&self) -> VertexId {
        self.root
    }

    /// The vertex types.
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// A vertex of this graph.
    pub fn vertex(&self, id: VertexId) -> &Vertex {
        &self.vertices[id.0 as usize]
    }

    pub(crate) fn vertex_mut(&mut self, id: VertexId) -> &mut Vertex {
        &mut self.vertices[id.0 as usize]
    }

    /// Vertices at a path; more than one if several ranks share it.
    pub fn at_path(&self, path: &str) -> &[VertexId] {
        self.by_path.get(path).map_or(&[], |ids| ids)
    }

    /// Vertices of a rank.
    pub fn of_rank(&self, rank: u32) -> &[VertexId] {
        self.by_rank.get(&rank).map_or(&[], |ids| ids)
    }

    /// The vertex that stands for a rank: its node, else the topmost of its vertices.
    pub fn top_of_rank(&self, rank: u32) -> Option<VertexId> {
        self.of_rank(rank).iter().copied().min_by_key(|id| self.vertex(*id).path.len())
    }

    /// All ranks, in no order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_rank.keys().copied()
    }

    /// Whether it is a node.
    pub fn is_node(&self, id: VertexId) -> bool {
        self.vertex(id).kind == self.node_type
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.vertices.len() - self.vacant.len()
    }

    /// There always is a root.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of edges: every vertex but the root has one parent.
    pub fn edges(&self) -> usize {
        self.len() - 1
    }

    /// The type's number, and a new one if it is not known.
    pub(crate) fn intern(&mut self, kind: &str) -> Result<TypeId, Error> {
        self.types.intern(kind)
    }

    /// Whether vertices of this type, directly below a node, are pools.
    pub fn is_pool_type(&self, kind: &str) -> bool {
        self.pool_types.all_of_nodes || self.pool_types.names.iter().any(|name| **name == *kind)
    }

    /// Whether the vertex and all that hold it are up.
    pub fn is_up(&self, id: VertexId) -> bool {
        let mut at = Some(id);
        while let Some(id) = at {
            if !self.vertex(id).up {
                return false;
            }
            at = self.vertex(id).parent;
        }
        true
    }

    /// Marks a vertex up or down.
    pub fn set_up(&mut self, id: VertexId, up: bool) {
        self.vertex_mut(id).up = up;
        if self.is_node(id) {
            self.refresh_up(id);
        } else if self.vertex(id).children.is_empty() {
            // Nothing below it depends on it.
        } else {
            for node in self.pools.vertices().to_vec() {
                self.refresh_up(node);
            }
        }
    }

    /// What a constraint looks at.
    pub(crate) fn subject(&self, id: VertexId) -> Subject<'_> {
        let vertex = self.vertex(id);
        Subject { name: &vertex.name, rank: vertex.rank, properties: &vertex.properties }
    }

    /// The vertex and everything below it, parents first.
    pub(crate) fn subtree(&self, id: VertexId) -> Vec<VertexId> {
        let mut all = vec![id];
        let mut at = 0;
        while at < all.len() {
            all.extend_from_slice(&self.vertex(all[at]).children);
            at += 1;
        }
        all
    }

    /// Adds a hold, and counts it on the way up.
    pub(crate) fn hold(&mut self, id: VertexId, hold: Hold) {
        self.vertex_mut(id).holds.push(hold);
        self.count_held(id, 1);
    }

    /// Ends the hold of a job on a vertex, if it has one.
    pub(crate) fn unhold(&mut self, id: VertexId, job: u64) {
        let holds = &mut self.vertex_mut(id).holds;
        if let Some(at) = holds.iter().position(|hold| hold.job == job) {
            holds.swap_remove(at);
            self.count_held(id, -1);
        }
    }

    fn count_held(&mut self, id: VertexId, change: i32) {
        let mut at = Some(id);
        while let Some(id) = at {
            let vertex = self.vertex_mut(id);
            vertex.held_below = vertex.held_below.saturating_add_signed(change);
            at = vertex.parent;
        }
    }

    fn refresh_up(&mut self, node: VertexId) {
        let up = self.is_up(node);
        if let Some(at) = self.position_of(node) {
            self.pools.set_up(at, up);
        }
    }

    /// The row of a node in the pools' columns.
    pub(crate) fn position_of(&self, node: VertexId) -> Option<usize> {
        let at = self.pools.position(self.vertex(node).rank?)?;
        (self.pools.vertices()[at] == node).then_some(at)
    }
}
