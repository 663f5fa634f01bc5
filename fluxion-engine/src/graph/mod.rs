//! The machine: vertices in an arena, each below one parent (containment), found by path and by
//! rank.
//!
//! # The layout, and why it is fast
//!
//! A machine of 16,384 nodes has 1.65 million vertices, almost all of them cores that differ in two
//! numbers. So:
//!
//! - A vertex is a 32-bit index. The fields that a walk reads (`Hot`, 40 bytes) lie apart from
//!   those that only a writer needs (`Cold`, 32 bytes); a walk over the cores of a node reads
//!   consecutive cache lines.
//! - The children of a vertex lie side by side in one array, in the order of its out-edges.
//! - Strings and property sets are kept once, and a name that is basename and id is not kept at
//!   all. Paths are put together from names when one is read; only those that do not
//!   follow from names are kept.
//! - A rank is found by the topmost of its vertices; the others lie below it.
//! - Nothing here tells which job holds a vertex. That is in `crate::schedule`, which has an entry
//!   only for vertices that a job holds, or will hold; an idle machine costs nothing but its
//!   vertices.
//!
//! A vertex that is removed stays behind, unlinked, as upstream leaves it, so that what jobs still
//! hold of it can be given back. A graph with pools, where no job holds vertices, drops such
//! vertices when they are the most (`compact`).

mod alike;
mod associations;
mod builder;
mod by_vertex;
mod columns;
mod compact;
mod grow;
mod index;
mod spanning;
mod text;

use std::borrow::Cow;
use std::collections::HashMap;

pub(crate) use by_vertex::ByVertex;

pub use builder::{Builder, NewVertex};
pub(crate) use grow::{NodeText, check_edges};
pub use text::{Properties, PropertySet, TextId};

pub use crate::vertex::{TypeId, Types, VertexId};

use crate::constraint::Subject;
use crate::pools::Pools;
use index::Index;
use text::Texts;

/// The fields that a walk reads.
#[derive(Debug, Clone, Copy)]
struct Hot {
    id: i64,
    size: u64,
    parent: VertexId,
    /// Where its children begin in `Graph::children`.
    child_from: u32,
    child_count: u32,
    /// How many children there is room for before they have to move.
    child_room: u32,
    kind: TypeId,
    /// See [`flag`].
    flags: u8,
}

/// What writers and readers look at.
#[derive(Debug, Clone, Copy)]
struct Cold {
    uniq_id: i64,
    basename: TextId,
    name: Option<TextId>,
    unit: TextId,
    properties: PropertySet,
    rank: i32,
}

const _: () = assert!(size_of::<Hot>() == 40 && size_of::<Cold>() == 32);

/// Bits of [`Hot`].
mod flag {
    /// Marked as down.
    pub(super) const DOWN: u8 = 1;
    /// Hands out parts.
    pub(super) const POOL: u8 = 2;
    /// Was removed.
    pub(super) const GONE: u8 = 4;
    /// An edge leads back to what holds it.
    pub(super) const BACK: u8 = 8;
}

/// Which vertex types are pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolTypes {
    /// These.
    pub names: Vec<Box<str>>,
    /// Everything that lies directly below a node.
    pub all_of_nodes: bool,
}

/// A subsystem besides containment, and the path of a vertex in it.
pub type OtherPath = (Box<str>, Box<str>);

/// The graph.
#[derive(Debug, Clone)]
pub struct Graph {
    types: Types,
    texts: Texts,
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    children: Vec<VertexId>,
    /// Paths that are not the parent's path and the name.
    odd_paths: HashMap<VertexId, Box<str>>,
    /// Paths in other subsystems than containment.
    other_paths: HashMap<VertexId, Vec<OtherPath>>,
    associations: associations::Associations,
    index: Index,
    root: VertexId,
    /// Children are in the order in which they were added, everywhere.
    ascending: bool,
    counts: Tallies,
    pool_types: PoolTypes,
    pub(crate) pools: Pools,
    changes: Changes,
}

/// Numbers that are kept up to date.
#[derive(Debug, Clone, Default)]
struct Tallies {
    edges: usize,
    /// Vertices that were removed, and are still in the arena.
    gone: usize,
    /// By type, vertices that are handed out whole though their type is one of pools: those that do
    /// not lie directly below a node with a rank.
    whole: Vec<u32>,
    /// Units of all vertices that are handed out whole.
    units: usize,
}

/// The size of a vertex, as far as it can be counted.
fn units_of(graph: &Graph, vertex: VertexId) -> usize {
    usize::try_from(graph.size(vertex)).unwrap_or(usize::MAX)
}

/// The number of marks that are remembered one by one.
const MARKED_MAX: usize = 65_536;

/// Changes, for indexes that follow from the graph.
#[derive(Debug, Clone, Default)]
struct Changes {
    /// Goes up whenever there are other vertices than before.
    revision: u64,
    /// True if properties have changed since the last question.
    properties: bool,
    /// Vertices that were marked up or down since the last question.
    marked: Vec<VertexId>,
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
        self.hot.len()
    }

    /// There always is a root.
    pub fn is_empty(&self) -> bool {
        self.hot.is_empty()
    }

    /// Number of containment edges.
    pub fn edges(&self) -> usize {
        self.counts.edges
    }

    /// All vertices, also removed ones, in the order in which they were added.
    pub fn vertices(&self) -> impl Iterator<Item = VertexId> + use<> {
        (0..self.hot.len()).map(VertexId::at)
    }

    /// A vertex's type.
    #[inline]
    pub fn kind(&self, vertex: VertexId) -> TypeId {
        self.hot[vertex.index()].kind
    }

    /// The name of a vertex's type.
    pub fn kind_name(&self, vertex: VertexId) -> &str {
        self.types.name(self.kind(vertex))
    }

    /// The number of its kind; -1 if it has none.
    #[inline]
    pub fn id(&self, vertex: VertexId) -> i64 {
        self.hot[vertex.index()].id
    }

    /// How many units it stands for.
    #[inline]
    pub fn size(&self, vertex: VertexId) -> u64 {
        self.hot[vertex.index()].size
    }

    /// What holds it; neither the root nor a removed vertex has a parent.
    #[inline]
    pub fn parent(&self, vertex: VertexId) -> Option<VertexId> {
        let parent = self.hot[vertex.index()].parent;
        (parent != VertexId::NONE).then_some(parent)
    }

    /// The vertices that it holds, in the order of its out-edges.
    #[inline]
    pub fn children(&self, vertex: VertexId) -> &[VertexId] {
        let hot = &self.hot[vertex.index()];
        &self.children[hot.child_from as usize..][..hot.child_count as usize]
    }

    /// Whether an edge leads back from a vertex to what holds it. It is never walked, but seen:
    /// upstream counts on no vertex with such an edge being a leaf, and takes the type of the
    /// vertex that it leads to for that of a child.
    #[inline]
    pub fn leads_back(&self, vertex: VertexId) -> bool {
        self.hot[vertex.index()].flags & flag::BACK != 0
    }

    /// Not marked as down itself (what holds it may be).
    #[inline]
    pub fn is_marked_up(&self, vertex: VertexId) -> bool {
        self.hot[vertex.index()].flags & flag::DOWN == 0
    }

    /// Whether it hands out parts.
    #[inline]
    pub fn is_pool(&self, vertex: VertexId) -> bool {
        self.hot[vertex.index()].flags & flag::POOL != 0
    }

    /// Whether it is still part of the machine.
    pub fn is_linked(&self, vertex: VertexId) -> bool {
        self.hot[vertex.index()].flags & flag::GONE == 0
    }

    /// The number in the document.
    pub fn uniq_id(&self, vertex: VertexId) -> i64 {
        self.cold[vertex.index()].uniq_id
    }

    /// The broker rank; -1 if it has none.
    #[inline]
    pub fn rank(&self, vertex: VertexId) -> i32 {
        self.cold[vertex.index()].rank
    }

    /// The unit of its size, as the document names it. Matches ignore it.
    pub fn unit(&self, vertex: VertexId) -> &str {
        self.texts.get(self.cold[vertex.index()].unit)
    }

    /// The name without number.
    pub fn basename(&self, vertex: VertexId) -> &str {
        self.texts.get(self.cold[vertex.index()].basename)
    }

    /// Properties, sorted by name.
    pub fn properties(&self, vertex: VertexId) -> &Properties {
        self.texts.set(self.cold[vertex.index()].properties)
    }

    /// The value of a property.
    pub fn property(&self, vertex: VertexId, name: &str) -> Option<&str> {
        let properties = self.properties(vertex);
        let at = properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&properties[at].1)
    }

    /// Gives a vertex a property, or the property another value.
    pub fn set_property(&mut self, vertex: VertexId, name: &str, value: &str) {
        self.changes.properties = true;
        self.pools.admitted.forget();
        self.pools.gains.note_all();
        let mut all = self.properties(vertex).clone();
        all.push((name.into(), value.into()));
        let set = self.texts.intern_set(all.iter().map(|(name, value)| (&**name, &**value)));
        self.cold[vertex.index()].properties = set;
    }

    /// The name.
    pub fn name(&self, vertex: VertexId) -> Cow<'_, str> {
        match (self.cold[vertex.index()].name, self.id(vertex)) {
            (Some(name), _) => Cow::Borrowed(self.texts.get(name)),
            (None, -1) => Cow::Borrowed(self.basename(vertex)),
            (None, id) => Cow::Owned(format!("{}{id}", self.basename(vertex))),
        }
    }

    /// Whether the name is basename and id.
    pub(crate) fn has_plain_name(&self, vertex: VertexId) -> bool {
        match self.cold[vertex.index()].name {
            None => self.id(vertex) != -1,
            Some(name) => {
                *self.texts.get(name) == *format!("{}{}", self.basename(vertex), self.id(vertex))
            }
        }
    }

    /// Names from the root, joined.
    pub fn path(&self, vertex: VertexId) -> String {
        let mut path = String::new();
        self.write_path(vertex, &mut path);
        path
    }

    /// Subsystem and path, where a vertex has a path in other subsystems than containment.
    pub fn other_paths(&self, vertex: VertexId) -> &[OtherPath] {
        if self.other_paths.is_empty() {
            &[]
        } else {
            self.other_paths.get(&vertex).map_or(&[], Vec::as_slice)
        }
    }

    /// Appends the path of a vertex.
    pub(crate) fn write_path(&self, vertex: VertexId, out: &mut String) {
        if !self.odd_paths.is_empty()
            && let Some(path) = self.odd_paths.get(&vertex)
        {
            out.push_str(path);
            return;
        }
        if let Some(parent) = self.parent(vertex) {
            self.write_path(parent, out);
        }
        out.push('/');
        out.push_str(&self.name(vertex));
    }

    /// Goes up whenever there are other vertices than before.
    pub(crate) fn revision(&self) -> u64 {
        self.changes.revision
    }

    /// Whether vertices were marked since the last call of [`Graph::take_changes`].
    pub(crate) fn is_marked(&self) -> bool {
        !self.changes.marked.is_empty()
    }

    /// Whether properties have changed since the last call of [`Graph::take_changes`].
    pub(crate) fn has_other_properties(&self) -> bool {
        self.changes.properties
    }

    /// Whether properties have changed since the last call, and which vertices were marked up or
    /// down.
    pub(crate) fn take_changes(&mut self) -> (bool, Vec<VertexId>) {
        (std::mem::take(&mut self.changes.properties), std::mem::take(&mut self.changes.marked))
    }

    /// Whether it is a node.
    pub fn is_node(&self, vertex: VertexId) -> bool {
        self.kind(vertex) == TypeId::NODE
    }

    /// Whether vertices of this type, directly below a node, are pools.
    pub fn is_pool_type(&self, kind: &str) -> bool {
        self.pool_types.all_of_nodes || self.pool_types.names.iter().any(|name| **name == *kind)
    }

    /// Whether any type is a pool.
    pub(crate) fn has_pool_types(&self) -> bool {
        self.pool_types.all_of_nodes || !self.pool_types.names.is_empty()
    }

    /// Whether the vertex and all that hold it are up.
    pub fn is_up(&self, vertex: VertexId) -> bool {
        let mut at = Some(vertex);
        while let Some(vertex) = at {
            if !self.is_marked_up(vertex) {
                return false;
            }
            at = self.parent(vertex);
        }
        true
    }

    /// Marks a vertex up or down.
    pub fn set_up(&mut self, vertex: VertexId, up: bool) {
        if self.changes.marked.len() == MARKED_MAX {
            // No index asks. Should one later: all may be different.
            self.changes.marked.clear();
            self.changes.revision += 1;
        }
        self.changes.marked.push(vertex);
        let was_up = self.is_marked_up(vertex);
        let flags = &mut self.hot[vertex.index()].flags;
        *flags = if up { *flags & !flag::DOWN } else { *flags | flag::DOWN };
        if self.is_pool(vertex) {
            self.mark_pool(vertex, was_up);
        } else if self.is_node(vertex) {
            self.refresh_up(vertex);
        } else if !self.children(vertex).is_empty() {
            for node in self.subtree(vertex) {
                if self.is_node(node) {
                    self.refresh_up(node);
                }
            }
        }
    }

    /// Whether the children of every vertex are in the order of their indices.
    pub(crate) fn has_ascending_children(&self) -> bool {
        self.ascending
    }

    /// The facts about a vertex that a constraint depends on.
    pub(crate) fn subject(&self, vertex: VertexId) -> Subject<'_> {
        let rank = u32::try_from(self.rank(vertex)).ok();
        Subject { name: self.name(vertex), rank, properties: self.properties(vertex) }
    }

    /// The vertex and everything below it, each before those that it holds, level by level.
    pub(crate) fn subtree(&self, vertex: VertexId) -> Vec<VertexId> {
        let mut all = vec![vertex];
        let mut at = 0;
        while at < all.len() {
            all.extend_from_slice(self.children(all[at]));
            at += 1;
        }
        all
    }

    /// How many levels there are below the root and with it (no more than one too many).
    fn levels(&self) -> usize {
        let (mut open, mut levels) = (vec![self.root], 0);
        while !open.is_empty() && levels <= crate::limits::LEVELS_MAX.max {
            levels += 1;
            open = open.iter().flat_map(|vertex| self.children(*vertex)).copied().collect();
        }
        levels
    }

    /// A vertex and all that it lies in, up to the root.
    pub(crate) fn way_up(&self, vertex: VertexId) -> impl Iterator<Item = VertexId> + '_ {
        std::iter::successors(Some(vertex), |at| self.parent(*at))
    }

    /// How many levels down a vertex lies; the root has 1.
    fn level(&self, vertex: VertexId) -> usize {
        self.way_up(vertex).count()
    }
}
