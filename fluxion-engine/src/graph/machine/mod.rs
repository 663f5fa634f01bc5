//! The graph: vertices and their names, with the pools of its nodes.

mod assembly;
mod compact;
mod finding;
pub(super) mod growth;
mod marks;
mod rows;
mod texts;

use std::borrow::Cow;

use super::arena::Arena;
use super::associations::Associations;
use super::changes::Changes;
use super::names::{Names, OtherPath};
use super::pool_types::PoolTypes;
use super::ranks::Ranks;
use super::text::Properties;
use crate::Error;
use crate::constraint::Subject;
use crate::pools::Pools;
use crate::vertex::{TypeId, Types, VertexId};

/// The graph.
#[derive(Debug, Clone)]
pub struct Graph {
    types: Types,
    arena: Arena,
    names: Names,
    associations: Associations,
    ranks: Ranks,
    root: VertexId,
    wholes: Wholes,
    /// Bytes of the texts of all vertices. Those that were removed still take memory.
    text_bytes: usize,
    pool_types: PoolTypes,
    pub(crate) pools: Pools,
    changes: Changes,
}

/// Counts of vertices that are handed out whole.
#[derive(Debug, Clone, Default)]
struct Wholes {
    /// By type, vertices that are handed out whole though their type is one of pools: those that do
    /// not lie directly below a node with a rank.
    of_pool_types: Vec<u32>,
    /// Units of all vertices that are handed out whole.
    units: usize,
}

/// The parts of which a graph is made.
pub(crate) struct Parts {
    pub(super) types: Types,
    pub(super) arena: Arena,
    pub(super) names: Names,
    pub(super) associations: Associations,
    pub(super) root: VertexId,
    pub(super) pool_types: PoolTypes,
}

/// The size of a vertex, as far as it can be counted.
fn units_of(graph: &Graph, vertex: VertexId) -> usize {
    usize::try_from(graph.size(vertex)).unwrap_or(usize::MAX)
}

impl Graph {
    /// The vertex that holds all others.
    pub fn root(&self) -> VertexId {
        self.root
    }

    /// The vertex types.
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// Number of vertices, removed ones included, as upstream counts them.
    pub fn len(&self) -> usize {
        self.arena.len()
    }

    /// There always is a root.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of containment edges.
    pub fn edges(&self) -> usize {
        self.arena.edges()
    }

    /// All vertices, also removed ones, in the order in which they were added.
    pub fn vertices(&self) -> impl Iterator<Item = VertexId> + use<> {
        self.arena.vertices()
    }

    /// A vertex's type.
    #[inline]
    pub fn kind(&self, vertex: VertexId) -> TypeId {
        self.arena.kind(vertex)
    }

    /// The name of a vertex's type.
    pub fn kind_name(&self, vertex: VertexId) -> &str {
        self.types.name(self.kind(vertex))
    }

    /// The number of its kind; -1 if it has none.
    #[inline]
    pub fn id(&self, vertex: VertexId) -> i64 {
        self.arena.id(vertex)
    }

    /// How many units it stands for.
    #[inline]
    pub fn size(&self, vertex: VertexId) -> u64 {
        self.arena.size(vertex)
    }

    /// The vertex that holds it; neither the root nor a removed vertex has a parent.
    #[inline]
    pub fn parent(&self, vertex: VertexId) -> Option<VertexId> {
        self.arena.parent(vertex)
    }

    /// The vertices that it holds, in the order of its out-edges.
    #[inline]
    pub fn children(&self, vertex: VertexId) -> &[VertexId] {
        self.arena.children(vertex)
    }

    /// Vertices that a vertex leads to although others hold them, in the order of its edges.
    #[inline]
    pub fn associates(&self, vertex: VertexId) -> &[VertexId] {
        self.associations.of(vertex)
    }

    /// Whether any vertex is led to by more than its parent.
    pub(crate) fn has_associations(&self) -> bool {
        !self.associations.is_empty()
    }

    /// Whether an edge leads back from a vertex to the one that holds it. It is never walked, but
    /// seen: upstream counts on no vertex with such an edge being a leaf, and takes the type of the
    /// vertex that it leads to for that of a child.
    #[inline]
    pub fn leads_back(&self, vertex: VertexId) -> bool {
        self.arena.leads_back(vertex)
    }

    /// Not marked as down itself (the vertices that hold it may be).
    #[inline]
    pub fn is_marked_up(&self, vertex: VertexId) -> bool {
        self.arena.is_marked_up(vertex)
    }

    /// Whether it hands out parts.
    #[inline]
    pub fn is_pool(&self, vertex: VertexId) -> bool {
        self.arena.is_pool(vertex)
    }

    /// Whether it is still part of the machine.
    pub fn is_linked(&self, vertex: VertexId) -> bool {
        self.arena.is_linked(vertex)
    }

    /// The number in the document.
    pub fn uniq_id(&self, vertex: VertexId) -> i64 {
        self.arena.uniq_id(vertex)
    }

    /// The broker rank; -1 if it has none.
    #[inline]
    pub fn rank(&self, vertex: VertexId) -> i32 {
        self.arena.rank(vertex)
    }

    /// The unit of its size, as the document names it. Matches ignore it.
    pub fn unit(&self, vertex: VertexId) -> &str {
        self.names.get(self.arena.unit(vertex))
    }

    /// The name without number.
    pub fn basename(&self, vertex: VertexId) -> &str {
        self.names.get(self.arena.basename(vertex))
    }

    /// Properties, sorted by name.
    pub fn properties(&self, vertex: VertexId) -> &Properties {
        self.names.set(self.arena.properties(vertex))
    }

    /// The value of a property.
    pub fn property(&self, vertex: VertexId, name: &str) -> Option<&str> {
        let properties = self.properties(vertex);
        let at = properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&properties[at].1)
    }

    /// The name.
    pub fn name(&self, vertex: VertexId) -> Cow<'_, str> {
        self.names.name(&self.arena, vertex)
    }

    /// Whether the name is basename and id.
    pub(crate) fn has_plain_name(&self, vertex: VertexId) -> bool {
        self.names.is_plain(&self.arena, vertex)
    }

    /// Names from the root, joined.
    pub fn path(&self, vertex: VertexId) -> String {
        self.names.path(&self.arena, vertex)
    }

    /// Subsystem and path, where a vertex has a path in other subsystems than containment.
    pub fn other_paths(&self, vertex: VertexId) -> &[OtherPath] {
        self.names.other_paths(vertex)
    }

    /// Changes since an index asked for them.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Whether it is a node.
    #[inline]
    pub fn is_node(&self, vertex: VertexId) -> bool {
        self.arena.is_node(vertex)
    }

    /// Whether vertices of this type, directly below a node, are pools.
    pub fn is_pool_type(&self, kind: &str) -> bool {
        self.pool_types.have(kind)
    }

    /// Whether any type is a pool.
    pub(crate) fn has_pool_types(&self) -> bool {
        self.pool_types.are_any()
    }

    /// Whether the vertex and all that hold it are up.
    pub fn is_up(&self, vertex: VertexId) -> bool {
        self.arena.is_up(vertex)
    }

    /// Whether the children of every vertex are in the order of their indices.
    pub(crate) fn has_ascending_children(&self) -> bool {
        self.arena.is_ascending()
    }

    /// Whether the same lies below two vertices: as many vertices in the same order, of the same
    /// types, ids, sizes, marks and properties.
    pub(crate) fn are_alike_below(&self, one: VertexId, other: VertexId) -> bool {
        self.arena.are_alike_below(one, other)
    }

    /// The facts about a vertex that a constraint depends on.
    pub(crate) fn subject(&self, vertex: VertexId) -> Subject<'_> {
        let rank = u32::try_from(self.rank(vertex)).ok();
        Subject { name: self.name(vertex), rank, properties: self.properties(vertex) }
    }

    /// The vertex and everything below it, each before those that it holds, level by level.
    pub(crate) fn subtree(&self, vertex: VertexId) -> Vec<VertexId> {
        self.arena.subtree(vertex)
    }

    /// A vertex and all that it lies in, up to the root.
    pub(crate) fn way_up(&self, vertex: VertexId) -> impl Iterator<Item = VertexId> + '_ {
        self.arena.way_up(vertex)
    }

    /// The type's number, and a new one if it is not known.
    pub(crate) fn intern(&mut self, kind: &str) -> Result<TypeId, Error> {
        self.types.intern(kind)
    }
}
