//! The vertices of a machine in an arena, each below one parent.

use super::text::{PropertySet, TextId};
use crate::limits::LEVELS_MAX;
use crate::sound::contradiction;
use crate::vertex::{TypeId, VertexId};

/// The fields that a walk reads.
#[derive(Debug, Clone, Copy)]
struct Hot {
    id: i64,
    size: u64,
    parent: VertexId,
    /// Where its children begin in `Arena::children`.
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

/// A vertex to be added. Strings are interned before (`Builder::kind`, `Builder::text`), so
/// that adding a million of them copies none.
#[derive(Debug, Clone, Copy)]
pub struct NewVertex {
    /// Its type.
    pub kind: TypeId,
    /// The name without number.
    pub basename: TextId,
    /// The name; `None`: basename and id, or the basename alone if the id is -1.
    pub name: Option<TextId>,
    /// The number of its kind; -1 if it has none.
    pub id: i64,
    /// The number in the document.
    pub uniq_id: i64,
    /// The broker rank; -1 if it has none.
    pub rank: i32,
    /// How many units it stands for.
    pub size: u64,
    /// The unit of its size, as the document names it. Matches ignore it.
    pub unit: TextId,
    /// Its properties.
    pub properties: PropertySet,
    /// Not marked as down.
    pub up: bool,
}

impl NewVertex {
    /// A vertex of size 1 that is up, without a name of its own, a rank, a unit or properties.
    pub fn new(kind: TypeId, basename: TextId, id: i64, uniq_id: i64) -> Self {
        NewVertex {
            kind,
            basename,
            name: None,
            id,
            uniq_id,
            rank: -1,
            size: 1,
            unit: TextId::EMPTY,
            properties: PropertySet::NONE,
            up: true,
        }
    }
}

/// The vertices, and the tree that they form.
#[derive(Debug, Clone)]
pub(super) struct Arena {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    children: Vec<VertexId>,
    /// Children are in the order in which they were added, everywhere.
    ascending: bool,
    edges: usize,
    /// Vertices that were removed, and are still here.
    gone: usize,
}

impl Arena {
    /// An empty arena with room for this number of vertices.
    pub(super) fn with_capacity(vertices: usize) -> Self {
        Arena {
            hot: Vec::with_capacity(vertices),
            cold: Vec::with_capacity(vertices),
            children: Vec::new(),
            ascending: true,
            edges: 0,
            gone: 0,
        }
    }

    /// Number of vertices, removed ones included.
    pub(super) fn len(&self) -> usize {
        self.hot.len()
    }

    /// Number of containment edges.
    pub(super) fn edges(&self) -> usize {
        self.edges
    }

    /// Number of vertices that were removed.
    pub(super) fn gone(&self) -> usize {
        self.gone
    }

    /// All vertices, also removed ones, in the order in which they were added.
    pub(super) fn vertices(&self) -> impl Iterator<Item = VertexId> + use<> {
        (0..self.hot.len()).map(VertexId::at)
    }

    /// A vertex's type.
    #[inline]
    pub(super) fn kind(&self, vertex: VertexId) -> TypeId {
        self.hot[vertex.index()].kind
    }

    /// The number of its kind; -1 if it has none.
    #[inline]
    pub(super) fn id(&self, vertex: VertexId) -> i64 {
        self.hot[vertex.index()].id
    }

    /// How many units it stands for.
    #[inline]
    pub(super) fn size(&self, vertex: VertexId) -> u64 {
        self.hot[vertex.index()].size
    }

    /// The vertex that holds it; neither the root nor a removed vertex has one.
    #[inline]
    pub(super) fn parent(&self, vertex: VertexId) -> Option<VertexId> {
        let parent = self.hot[vertex.index()].parent;
        (parent != VertexId::NONE).then_some(parent)
    }

    /// The vertices that it holds, in the order of its out-edges.
    #[inline]
    pub(super) fn children(&self, vertex: VertexId) -> &[VertexId] {
        let hot = &self.hot[vertex.index()];
        &self.children[hot.child_from as usize..][..hot.child_count as usize]
    }

    /// Whether an edge leads back from a vertex to the one that holds it.
    #[inline]
    pub(super) fn leads_back(&self, vertex: VertexId) -> bool {
        self.hot[vertex.index()].flags & flag::BACK != 0
    }

    /// Not marked as down itself.
    #[inline]
    pub(super) fn is_marked_up(&self, vertex: VertexId) -> bool {
        self.hot[vertex.index()].flags & flag::DOWN == 0
    }

    /// Whether it hands out parts.
    #[inline]
    pub(super) fn is_pool(&self, vertex: VertexId) -> bool {
        self.hot[vertex.index()].flags & flag::POOL != 0
    }

    /// Whether it was not removed.
    pub(super) fn is_linked(&self, vertex: VertexId) -> bool {
        self.hot[vertex.index()].flags & flag::GONE == 0
    }

    /// Whether it is a node.
    #[inline]
    pub(super) fn is_node(&self, vertex: VertexId) -> bool {
        self.kind(vertex) == TypeId::NODE
    }

    /// The number in the document.
    pub(super) fn uniq_id(&self, vertex: VertexId) -> i64 {
        self.cold[vertex.index()].uniq_id
    }

    /// The broker rank; -1 if it has none.
    #[inline]
    pub(super) fn rank(&self, vertex: VertexId) -> i32 {
        self.cold[vertex.index()].rank
    }

    /// The name without number.
    pub(super) fn basename(&self, vertex: VertexId) -> TextId {
        self.cold[vertex.index()].basename
    }

    /// The name; `None`: basename and id, or the basename alone if the id is -1.
    pub(super) fn name(&self, vertex: VertexId) -> Option<TextId> {
        self.cold[vertex.index()].name
    }

    /// The unit of its size.
    pub(super) fn unit(&self, vertex: VertexId) -> TextId {
        self.cold[vertex.index()].unit
    }

    /// Its properties.
    pub(super) fn properties(&self, vertex: VertexId) -> PropertySet {
        self.cold[vertex.index()].properties
    }

    /// Whether the children of every vertex are in the order of their indices.
    pub(super) fn is_ascending(&self) -> bool {
        self.ascending
    }

    /// Whether the vertex and all that hold it are up.
    pub(super) fn is_up(&self, vertex: VertexId) -> bool {
        self.way_up(vertex).all(|above| self.is_marked_up(above))
    }

    /// A vertex and all that it lies in, up to the root.
    pub(super) fn way_up(&self, vertex: VertexId) -> impl Iterator<Item = VertexId> + '_ {
        std::iter::successors(Some(vertex), |at| self.parent(*at))
    }

    /// How many levels down a vertex lies; the root has 1.
    pub(super) fn level(&self, vertex: VertexId) -> usize {
        self.way_up(vertex).count()
    }

    /// The vertex and everything below it, each before those that it holds, level by level.
    pub(super) fn subtree(&self, vertex: VertexId) -> Vec<VertexId> {
        let mut all = vec![vertex];
        let mut at = 0;
        while at < all.len() {
            all.extend_from_slice(self.children(all[at]));
            at += 1;
        }
        all
    }

    /// How many levels there are below a vertex and with it (no more than one too many).
    pub(super) fn levels(&self, root: VertexId) -> usize {
        let (mut open, mut levels) = (vec![root], 0);
        while !open.is_empty() && levels <= LEVELS_MAX.max {
            levels += 1;
            open = open.iter().flat_map(|vertex| self.children(*vertex)).copied().collect();
        }
        levels
    }

    /// Whether the same lies below two vertices: as many vertices in the same order, of the same
    /// types, ids, sizes, marks and properties.
    pub(super) fn are_alike_below(&self, one: VertexId, other: VertexId) -> bool {
        let (mine, theirs) = (self.children(one), self.children(other));
        mine.len() == theirs.len()
            && mine.iter().zip(theirs).all(|(mine, theirs)| {
                let (hot, other) = (&self.hot[mine.index()], &self.hot[theirs.index()]);
                (hot.kind, hot.id, hot.size, hot.flags)
                    == (other.kind, other.id, other.size, other.flags)
                    && self.properties(*mine) == self.properties(*theirs)
                    && self.are_alike_below(*mine, *theirs)
            })
    }

    /// Stores a vertex without edges; `None`: there are no more numbers for vertices.
    pub(super) fn push(&mut self, vertex: NewVertex) -> Option<VertexId> {
        let id = VertexId::next(self.hot.len())?;
        self.hot.push(Hot {
            id: vertex.id,
            size: vertex.size,
            parent: VertexId::NONE,
            child_from: 0,
            child_count: 0,
            child_room: 0,
            kind: vertex.kind,
            flags: if vertex.up { 0 } else { flag::DOWN },
        });
        self.cold.push(Cold {
            uniq_id: vertex.uniq_id,
            basename: vertex.basename,
            name: vertex.name,
            unit: vertex.unit,
            properties: vertex.properties,
            rank: vertex.rank,
        });
        Some(id)
    }

    /// Gives a vertex the parent below which its children will be laid.
    pub(super) fn set_parent(&mut self, vertex: VertexId, parent: VertexId) {
        self.hot[vertex.index()].parent = parent;
    }

    /// Takes the parents of all vertices away.
    pub(super) fn clear_parents(&mut self) {
        self.hot.iter_mut().for_each(|vertex| vertex.parent = VertexId::NONE);
    }

    /// Counts edges that are none of the tree.
    pub(super) fn count_edges(&mut self, more: usize) {
        self.edges += more;
    }

    /// Counts edges no more that were none of the tree.
    pub(super) fn uncount_edges(&mut self, fewer: usize) {
        self.edges -= fewer;
    }

    /// Lays the children of each vertex side by side. Parents are set already.
    pub(super) fn lay_children(&mut self, edges: &[(VertexId, VertexId)]) {
        for (parent, _) in edges {
            self.hot[parent.index()].child_count += 1;
        }
        let mut from = 0;
        for vertex in &mut self.hot {
            vertex.child_from = from;
            vertex.child_room = vertex.child_count;
            from += vertex.child_count;
            vertex.child_count = 0;
        }
        self.children = vec![VertexId::NONE; edges.len()];
        for (parent, child) in edges {
            let above = &mut self.hot[parent.index()];
            self.children[(above.child_from + above.child_count) as usize] = *child;
            above.child_count += 1;
        }
        self.edges += edges.len();
        self.ascending = self.vertices().all(|vertex| self.children(vertex).is_sorted());
    }

    /// Adds an edge. Where there is no room left beside the other children they all move to the end
    /// of the array, with twice the room, so that adding node after node does not copy the machine
    /// each time.
    pub(super) fn link(&mut self, parent: VertexId, child: VertexId) {
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
        self.edges += 1;
    }

    /// Takes a vertex away from the one that holds it.
    pub(super) fn unlink(&mut self, vertex: VertexId, parent: VertexId) {
        let above = &mut self.hot[parent.index()];
        let (from, count) = (above.child_from as usize, above.child_count as usize);
        let list = &mut self.children[from..from + count];
        match list.iter().position(|child| *child == vertex) {
            Some(at) => {
                list[at..].rotate_left(1);
                above.child_count -= 1;
            }
            None => contradiction("a vertex is not among the children of its parent"),
        }
        self.hot[vertex.index()].parent = VertexId::NONE;
    }

    /// Notes that a vertex was removed, with the edges that led to it and back.
    pub(super) fn remove(&mut self, vertex: VertexId) {
        self.gone += 1;
        self.edges -= if self.leads_back(vertex) { 2 } else { 1 };
        self.hot[vertex.index()].flags |= flag::GONE;
    }

    /// Notes that an edge leads back from a vertex to the one that holds it.
    pub(super) fn lead_back(&mut self, vertex: VertexId) {
        self.hot[vertex.index()].flags |= flag::BACK;
        self.edges += 1;
    }

    /// Marks a vertex up or down.
    pub(super) fn mark(&mut self, vertex: VertexId, up: bool) {
        let flags = &mut self.hot[vertex.index()].flags;
        *flags = if up { *flags & !flag::DOWN } else { *flags | flag::DOWN };
    }

    /// Makes a vertex one that hands out parts.
    pub(super) fn make_pool(&mut self, vertex: VertexId) {
        self.hot[vertex.index()].flags |= flag::POOL;
    }

    /// Gives a vertex another size.
    pub(super) fn set_size(&mut self, vertex: VertexId, size: u64) {
        self.hot[vertex.index()].size = size;
    }

    /// Gives a vertex other properties.
    pub(super) fn set_properties(&mut self, vertex: VertexId, properties: PropertySet) {
        self.cold[vertex.index()].properties = properties;
    }

    /// The properties of all vertices, to be given other numbers.
    pub(super) fn property_sets_mut(&mut self) -> impl Iterator<Item = &mut PropertySet> {
        self.cold.iter_mut().map(|vertex| &mut vertex.properties)
    }

    /// The arena without vertices that are gone, with other texts. Returns also the new numbers of
    /// the vertices.
    pub(super) fn compacted(
        &self,
        mut text: impl FnMut(TextId) -> TextId,
        mut properties: impl FnMut(PropertySet) -> PropertySet,
    ) -> (Self, Vec<VertexId>) {
        let mut moved = vec![VertexId::NONE; self.hot.len()];
        let there: Vec<VertexId> =
            self.vertices().filter(|vertex| self.is_linked(*vertex)).collect();
        for (next, vertex) in there.iter().enumerate() {
            moved[vertex.index()] = VertexId::at(next);
        }
        let to = |vertex: VertexId| {
            if vertex == VertexId::NONE { vertex } else { moved[vertex.index()] }
        };
        let mut arena = Arena::with_capacity(there.len());
        (arena.ascending, arena.edges) = (self.ascending, self.edges);
        for vertex in there {
            let mut this = self.hot[vertex.index()];
            this.parent = to(this.parent);
            this.child_from =
                u32::try_from(arena.children.len()).expect("no more edges than 32 bits count");
            this.child_room = this.child_count;
            arena.children.extend(self.children(vertex).iter().map(|child| to(*child)));
            arena.hot.push(this);
            let mut rest = self.cold[vertex.index()];
            rest.basename = text(rest.basename);
            rest.name = rest.name.map(&mut text);
            rest.unit = text(rest.unit);
            rest.properties = properties(rest.properties);
            arena.cold.push(rest);
        }
        (arena, moved)
    }
}
