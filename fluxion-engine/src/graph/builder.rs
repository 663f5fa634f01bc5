//! From the findings of a reader to a graph: vertices one by one, then edges, then the root.

use std::collections::HashSet;

use super::arena::{Arena, NewVertex};
use super::associations::Associations;
use super::machine::{Graph, Parts};
use super::names::Names;
use super::pool_types::PoolTypes;
use super::spanning::{self, Role};
use super::text::{PropertySet, TextId};
use crate::Error;
use crate::limits::LEVELS_MAX;
use crate::vertex::{TypeId, Types, VertexId};

/// A graph in the making.
#[derive(Debug)]
pub struct Builder {
    types: Types,
    arena: Arena,
    names: Names,
    associations: Associations,
    pool_types: PoolTypes,
    /// The edges, as source and target, in the order in which they came.
    edges: Vec<(VertexId, VertexId)>,
    /// No vertex has two of them that lead to it.
    is_tree: bool,
    paths: GivenPaths,
    /// Two vertices of a rank may have the same path.
    paths_may_repeat: bool,
}

/// Paths as the document has them, where it has them; one text, so that a large document costs one
/// allocation.
#[derive(Debug, Default)]
struct GivenPaths {
    text: String,
    /// Where the path of a vertex begins and ends; nothing: it has none.
    spans: Vec<(usize, usize)>,
}

impl GivenPaths {
    fn set(&mut self, vertex: VertexId, path: &str) {
        if self.spans.len() <= vertex.index() {
            self.spans.resize(vertex.index() + 1, (0, 0));
        }
        let from = self.text.len();
        self.text.push_str(path);
        self.spans[vertex.index()] = (from, self.text.len());
    }

    fn get(&self, vertex: VertexId) -> Option<&str> {
        let (from, to) = *self.spans.get(vertex.index())?;
        (from < to).then(|| &self.text[from..to])
    }
}

impl Builder {
    /// An empty graph. Vertices of the pool types hand out parts.
    pub fn new(pool_types: PoolTypes) -> Self {
        Builder::with_capacity(pool_types, 0)
    }

    /// An empty graph with room for this number of vertices.
    pub fn with_capacity(pool_types: PoolTypes, vertices: usize) -> Self {
        Builder {
            types: Types::with_builtin(),
            arena: Arena::with_capacity(vertices),
            names: Names::default(),
            associations: Associations::default(),
            pool_types,
            edges: Vec::with_capacity(vertices),
            is_tree: true,
            paths: GivenPaths::default(),
            paths_may_repeat: false,
        }
    }

    /// The number of a type, new or known.
    pub fn kind(&mut self, name: &str) -> Result<TypeId, Error> {
        self.types.intern(name)
    }

    /// The number of a string, new or known.
    pub fn text(&mut self, text: &str) -> TextId {
        self.names.text(text)
    }

    /// The number of a set of properties, new or known.
    pub fn properties<'a>(
        &mut self,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> PropertySet {
        self.names.properties(properties)
    }

    /// Adds a vertex.
    pub fn add(&mut self, vertex: NewVertex) -> Result<VertexId, Error> {
        let too_many = || Error::invalid("graph: more than 2^32-2 vertices");
        self.arena.push(vertex).ok_or_else(too_many)
    }

    /// Number of vertices so far.
    pub fn len(&self) -> usize {
        self.arena.len()
    }

    /// No vertices so far.
    pub fn is_empty(&self) -> bool {
        self.arena.len() == 0
    }

    /// The vertices of a type so far, in the order in which they were added.
    pub fn of_kind(&self, kind: TypeId) -> Vec<VertexId> {
        self.arena.vertices().filter(|vertex| self.arena.kind(*vertex) == kind).collect()
    }

    /// The vertex that holds another, `levels` levels up; 0 is the vertex itself. No graph has as
    /// many levels as would be needed for a circle to matter.
    pub fn ancestor(&self, vertex: VertexId, levels: usize) -> Option<VertexId> {
        if levels > LEVELS_MAX.max {
            return None;
        }
        (0..levels).try_fold(vertex, |at, _| self.arena.parent(at))
    }

    /// Whether an edge leads to a vertex.
    pub fn has_parent(&self, vertex: VertexId) -> bool {
        self.arena.parent(vertex).is_some()
    }

    /// Adds a containment edge. The order of a vertex's edges is the order in which its children
    /// are visited. Where several lead to a vertex, [`super::spanning`] has what each is for.
    pub fn edge(&mut self, source: VertexId, target: VertexId) {
        if self.arena.parent(target).is_none() {
            self.arena.set_parent(target, source);
        } else {
            self.is_tree = false;
        }
        self.edges.push((source, target));
    }

    /// The name of a vertex.
    pub fn name(&self, vertex: VertexId) -> String {
        self.names.name(&self.arena, vertex).into_owned()
    }

    /// Gives a vertex its path in another subsystem than containment.
    pub fn other_path(&mut self, vertex: VertexId, subsystem: &str, path: &str) {
        self.names.set_other_path(vertex, subsystem, path);
    }

    /// Sets the path that the document gives a vertex. Not needed where it is the parent's
    /// path and the name.
    pub fn given_path(&mut self, vertex: VertexId, path: &str) {
        self.paths.set(vertex, path);
    }

    /// Admits several vertices of one rank at one path.
    pub fn let_paths_repeat(&mut self) {
        self.paths_may_repeat = true;
    }

    /// The graph, or why it cannot be one.
    pub fn finish(mut self) -> Result<Graph, Error> {
        if self.arena.len() == 0 {
            return Err(Error::invalid("graph: no vertices"));
        }
        let root = root(&self.arena, &self.paths)?;
        if !self.is_tree || self.arena.parent(root).is_some() || has_circle(&self.arena) {
            self.check_edges()?;
            // A vertex of a recipe has its path by its first edge.
            let by_walk = !self.paths.spans.is_empty();
            self.span(root, by_walk)?;
        }
        let Builder {
            types,
            mut arena,
            mut names,
            associations,
            pool_types,
            edges,
            paths,
            paths_may_repeat,
            ..
        } = self;
        arena.lay_children(&edges);
        drop(edges);
        LEVELS_MAX.check(arena.levels(root), "graph")?;
        associations.check(&arena, &names)?;
        keep_odd_paths(&arena, &mut names, &paths);
        if !paths_may_repeat {
            check_paths(&arena, &names, &paths)?;
        }
        Graph::of(Parts { types, arena, names, associations, root, pool_types })
    }

    /// Refuses edges that lead from a vertex to itself, and edges that are there twice.
    fn check_edges(&self) -> Result<(), Error> {
        let mut seen = HashSet::with_capacity(self.edges.len());
        for (source, target) in &self.edges {
            if source == target {
                return Err(Error::invalid(format!(
                    "edge: {} leads to itself",
                    told(&self.arena, &self.names, *source)
                )));
            }
            if !seen.insert((source, target)) {
                let (source, target) = (
                    told(&self.arena, &self.names, *source),
                    told(&self.arena, &self.names, *target),
                );
                return Err(Error::invalid(format!("edge: {source} to {target}: is there twice")));
            }
        }
        Ok(())
    }

    /// Keeps the edges that form the tree, and notes the roles of the others. An edge that leads up
    /// further than to what holds its source directly closes a circle, and is refused.
    fn span(&mut self, root: VertexId, by_walk: bool) -> Result<(), Error> {
        let roles = if by_walk {
            let pairs: Vec<(usize, usize)> =
                self.edges.iter().map(|(from, to)| (from.index(), to.index())).collect();
            spanning::roles(self.arena.len(), &pairs, &[root.index()])
        } else {
            let mut is_seen = vec![false; self.arena.len()];
            let mut has_parent =
                |target: VertexId| std::mem::replace(&mut is_seen[target.index()], true);
            self.edges
                .iter()
                .map(|(_, target)| if has_parent(*target) { Role::Beside } else { Role::Tree })
                .collect()
        };
        self.arena.clear_parents();
        for ((source, target), role) in self.edges.iter().zip(&roles) {
            match role {
                Role::Tree => self.arena.set_parent(*target, *source),
                Role::Beside => {
                    self.associations.add(*source, *target);
                    self.arena.count_edges(1);
                }
                Role::Back => {
                    self.arena.lead_back(*source);
                }
                Role::Unreached => self.arena.count_edges(1),
            }
        }
        let leads_up = |(source, target): &(VertexId, VertexId)| {
            self.arena.parent(*source) != Some(*target)
                && self.arena.way_up(*source).any(|above| above == *target)
        };
        let is_beside = |role: &Role| matches!(role, Role::Back | Role::Beside);
        let closing =
            self.edges.iter().zip(&roles).find(|(edge, role)| is_beside(role) && leads_up(edge));
        if let Some(((source, target), _)) = closing {
            let (source, target) =
                (told(&self.arena, &self.names, *source), told(&self.arena, &self.names, *target));
            return Err(Error::invalid(format!("edge: {source} to {target}: closes a circle")));
        }
        let mut roles = roles.iter();
        self.edges.retain(|_| roles.next() == Some(&Role::Tree));
        Ok(())
    }
}

/// The words of an error for a vertex.
fn told(arena: &Arena, names: &Names, vertex: VertexId) -> String {
    format!("vertex {} ({})", arena.uniq_id(vertex), names.name(arena, vertex))
}

/// The vertex that holds all others: the one with a path of one component, else the one without a
/// parent.
fn root(arena: &Arena, paths: &GivenPaths) -> Result<VertexId, Error> {
    let is_root = |vertex: &VertexId| match paths.get(*vertex) {
        Some(path) => path.matches('/').count() == 1,
        None => arena.parent(*vertex).is_none(),
    };
    let mut roots = arena.vertices().filter(is_root);
    match (roots.next(), roots.next()) {
        (Some(root), None) => Ok(root),
        (None, _) => Err(Error::invalid("graph: no root")),
        (Some(_), Some(_)) => Err(Error::invalid("graph: more than one root")),
    }
}

/// Whether some vertex lies below itself.
fn has_circle(arena: &Arena) -> bool {
    let mut seen_from = vec![VertexId::NONE; arena.len()];
    for start in arena.vertices() {
        let mut at = Some(start);
        while let Some(vertex) = at {
            let seen = std::mem::replace(&mut seen_from[vertex.index()], start);
            if seen == start {
                return true;
            }
            // The way up from here was followed before.
            at = if seen == VertexId::NONE { arena.parent(vertex) } else { None };
        }
    }
    false
}

/// Remembers the paths that do not follow from names.
fn keep_odd_paths(arena: &Arena, names: &mut Names, given: &GivenPaths) {
    for vertex in arena.vertices() {
        if let Some(path) = given.get(vertex)
            && !follows(arena, names, vertex, path, given)
        {
            names.keep_path(vertex, path);
        }
    }
}

fn follows(arena: &Arena, names: &Names, vertex: VertexId, path: &str, given: &GivenPaths) -> bool {
    let name = names.name(arena, vertex);
    let Some(front) = path.strip_suffix(&*name).and_then(|rest| rest.strip_suffix('/')) else {
        return false;
    };
    match arena.parent(vertex) {
        None => front.is_empty(),
        Some(above) => match given.get(above) {
            Some(above) => front == above,
            None => *front == *names.path(arena, above),
        },
    }
}

/// Refuses two vertices of one rank at one path: nothing could tell them apart.
fn check_paths(arena: &Arena, names: &Names, given: &GivenPaths) -> Result<(), Error> {
    let found = if names.are_enough() {
        // Paths follow from names, so that only siblings can have the same.
        let mut keys = Vec::new();
        arena.vertices().find_map(|vertex| same_among(arena, names, vertex, &mut keys))
    } else {
        let mut seen = HashSet::with_capacity(arena.len());
        let mut is_taken = |vertex: &VertexId| {
            given.get(*vertex).is_some_and(|path| !seen.insert((path, arena.rank(*vertex))))
        };
        arena.vertices().find(|vertex| is_taken(vertex))
    };
    found.map_or(Ok(()), |vertex| {
        Err(Error::invalid(format!(
            "graph: {}: path {}: another vertex of its rank has it",
            told(arena, names, vertex),
            names.path(arena, vertex)
        )))
    })
}

/// The parts of a name, as numbers, and the rank.
type NameKey = (Option<TextId>, i32, TextId, i64, VertexId);

/// A child of a vertex that has the name and the rank of another one.
fn same_among(
    arena: &Arena,
    names: &Names,
    vertex: VertexId,
    keys: &mut Vec<NameKey>,
) -> Option<VertexId> {
    let key = |child: &VertexId| {
        let (name, basename) = (arena.name(*child), arena.basename(*child));
        (name, arena.rank(*child), basename, arena.id(*child), *child)
    };
    keys.clear();
    keys.extend(arena.children(vertex).iter().map(key));
    keys.sort_unstable();
    let same = keys.windows(2).find(|pair| {
        let [one, other] = pair else { return false };
        (one.0, one.1) == (other.0, other.1)
            && (one.0.is_some() || (one.2, one.3) == (other.2, other.3))
    });
    if let Some([_, (.., child)]) = same {
        return Some(*child);
    }
    if !may_be_spelled_alike(names, keys) {
        return None;
    }
    let mut seen = HashSet::with_capacity(keys.len());
    let is_taken =
        |child: &&VertexId| !seen.insert((names.name(arena, **child), arena.rank(**child)));
    arena.children(vertex).iter().find(is_taken).copied()
}

/// True if names of siblings may be the same text though their parts differ: `core1` and 0 are
/// spelled as `core` and 10 are, and as the name `core10`.
fn may_be_spelled_alike(names: &Names, keys: &[NameKey]) -> bool {
    let unnamed = keys.iter().filter(|key| key.0.is_none());
    let mut basenames: Vec<TextId> = unnamed.map(|key| key.2).collect();
    basenames.dedup();
    basenames.sort_unstable();
    basenames.dedup();
    if basenames.is_empty() {
        return false;
    }
    if keys.iter().any(|key| key.0.is_some()) {
        return true;
    }
    let is_longer = |one: &str, other: &str| {
        let more = other.strip_prefix(one);
        more.is_some_and(|more| {
            more.starts_with(|first: char| first.is_ascii_digit() || first == '-')
        })
    };
    let texts = || basenames.iter().map(|basename| names.get(*basename));
    texts().any(|one| texts().any(|other| is_longer(one, other)))
}
