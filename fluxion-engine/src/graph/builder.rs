//! From the findings of a reader to a graph: vertices one by one, then edges, then the root.

use std::collections::{HashMap, HashSet};

use super::index::Index;
use super::spanning::{self, Role};
use super::text::{PropertySet, TextId, Texts};
use super::{
    Changes, Cold, Graph, Hot, PoolTypes, Tallies, TypeId, Types, VertexId, flag, units_of,
};
use crate::Error;
use crate::limits::{LEVELS_MAX, UNITS_MAX};
use crate::pools::Pools;

/// A vertex to be added. Strings are interned before ([`Builder::kind`], [`Builder::text`]), so
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

/// A graph in the making.
#[derive(Debug)]
pub struct Builder {
    graph: Graph,
    /// The edges, as source and target, in the order in which they came.
    edges: Vec<(VertexId, VertexId)>,
    /// No vertex has two of them that lead to it.
    is_tree: bool,
    paths: GivenPaths,
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
        let types = Types::with_builtin();
        let graph = Graph {
            types,
            texts: Texts::default(),
            hot: Vec::with_capacity(vertices),
            cold: Vec::with_capacity(vertices),
            children: Vec::new(),
            odd_paths: HashMap::new(),
            other_paths: HashMap::new(),
            associations: HashMap::new(),
            index: Index::default(),
            root: VertexId::NONE,
            ascending: true,
            counts: Tallies::default(),
            pool_types,
            pools: Pools::default(),
            changes: Changes::default(),
        };
        Builder {
            graph,
            edges: Vec::with_capacity(vertices),
            is_tree: true,
            paths: GivenPaths::default(),
        }
    }

    /// The number of a type, new or known.
    pub fn kind(&mut self, name: &str) -> Result<TypeId, Error> {
        self.graph.types.intern(name)
    }

    /// The number of a string, new or known.
    pub fn text(&mut self, text: &str) -> TextId {
        self.graph.texts.intern(text)
    }

    /// The number of a set of properties, new or known.
    pub fn properties<'a>(
        &mut self,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> PropertySet {
        self.graph.texts.intern_set(properties)
    }

    /// Adds a vertex.
    pub fn add(&mut self, vertex: NewVertex) -> Result<VertexId, Error> {
        self.graph.push(vertex)
    }

    /// Number of vertices so far.
    pub fn len(&self) -> usize {
        self.graph.hot.len()
    }

    /// No vertices so far.
    pub fn is_empty(&self) -> bool {
        self.graph.hot.is_empty()
    }

    /// The vertices of a type so far, in the order in which they were added.
    pub fn of_kind(&self, kind: TypeId) -> Vec<VertexId> {
        self.graph.vertices().filter(|vertex| self.graph.kind(*vertex) == kind).collect()
    }

    /// The vertex that holds another, `levels` levels up; 0 is the vertex itself.
    pub fn ancestor(&self, vertex: VertexId, levels: usize) -> Option<VertexId> {
        (0..levels).try_fold(vertex, |at, _| self.graph.parent(at))
    }

    /// Adds a containment edge. The order of a vertex's edges is the order in which its children
    /// are visited. Where several lead to a vertex, [`super::spanning`] has what each is for.
    pub fn edge(&mut self, source: VertexId, target: VertexId) {
        let parent = &mut self.graph.hot[target.index()].parent;
        if *parent == VertexId::NONE {
            *parent = source;
        } else {
            self.is_tree = false;
        }
        self.edges.push((source, target));
    }

    /// The name of a vertex.
    pub fn name(&self, vertex: VertexId) -> String {
        self.graph.name(vertex).into_owned()
    }

    /// Gives a vertex its path in another subsystem than containment.
    pub fn other_path(&mut self, vertex: VertexId, subsystem: &str, path: &str) {
        let paths = self.graph.other_paths.entry(vertex).or_default();
        match paths.iter_mut().find(|(known, _)| **known == *subsystem) {
            Some((_, known)) => *known = path.into(),
            None => paths.push((subsystem.into(), path.into())),
        }
    }

    /// Sets the path that the document gives a vertex. Not needed where it is the parent's
    /// path and the name.
    pub fn given_path(&mut self, vertex: VertexId, path: &str) {
        self.paths.set(vertex, path);
    }

    /// The graph, or why it cannot be one.
    pub fn finish(self) -> Result<Graph, Error> {
        let Builder { mut graph, mut edges, is_tree, paths } = self;
        if graph.hot.is_empty() {
            return Err(Error::invalid("graph: no vertices"));
        }
        graph.root = root(&graph, &paths)?;
        if !is_tree || graph.parent(graph.root).is_some() || has_circle(&graph) {
            graph.check_edges(&edges)?;
            // A vertex of a recipe has its path by its first edge.
            graph.span(&mut edges, !paths.spans.is_empty())?;
        }
        graph.lay_children(&edges);
        graph.counts.edges += edges.len();
        drop(edges);
        LEVELS_MAX.check(graph.levels(), "graph")?;
        graph.check_associations()?;
        graph.keep_odd_paths(&paths);
        check_paths(&graph, &paths)?;
        graph.index_ranks();
        graph.fill_pools()?;
        let whole = graph.vertices().filter(|vertex| !graph.is_pool(*vertex));
        graph.counts.units =
            whole.fold(0, |sum, vertex| sum.saturating_add(units_of(&graph, vertex)));
        UNITS_MAX.check(graph.counts.units, "graph")?;
        Ok(graph)
    }
}

/// The vertex that holds all others: the one with a path of one component, else the one without a
/// parent.
fn root(graph: &Graph, paths: &GivenPaths) -> Result<VertexId, Error> {
    let is_root = |vertex: &VertexId| match paths.get(*vertex) {
        Some(path) => path.matches('/').count() == 1,
        None => graph.parent(*vertex).is_none(),
    };
    let mut roots = graph.vertices().filter(is_root);
    match (roots.next(), roots.next()) {
        (Some(root), None) => Ok(root),
        (None, _) => Err(Error::invalid("graph: no root")),
        (Some(_), Some(_)) => Err(Error::invalid("graph: more than one root")),
    }
}

/// Whether some vertex lies below itself.
fn has_circle(graph: &Graph) -> bool {
    let mut seen_from = vec![VertexId::NONE; graph.hot.len()];
    for start in graph.vertices() {
        let mut at = Some(start);
        while let Some(vertex) = at {
            let seen = std::mem::replace(&mut seen_from[vertex.index()], start);
            if seen == start {
                return true;
            }
            // The way up from here was followed before.
            at = if seen == VertexId::NONE { graph.parent(vertex) } else { None };
        }
    }
    false
}

impl Graph {
    /// Stores a vertex without edges.
    pub(super) fn push(&mut self, vertex: NewVertex) -> Result<VertexId, Error> {
        let id = VertexId::next(self.hot.len())
            .ok_or_else(|| Error::invalid("graph: more than 2^32-2 vertices"))?;
        self.changes.revision += 1;
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
        Ok(id)
    }

    /// Refuses edges that lead from a vertex to itself, and edges that are there twice.
    fn check_edges(&self, edges: &[(VertexId, VertexId)]) -> Result<(), Error> {
        let mut seen = HashSet::with_capacity(edges.len());
        for (source, target) in edges {
            if source == target {
                return Err(Error::invalid(format!(
                    "edge: {} leads to itself",
                    self.told(*source)
                )));
            }
            if !seen.insert((source, target)) {
                let (source, target) = (self.told(*source), self.told(*target));
                return Err(Error::invalid(format!("edge: {source} to {target}: is there twice")));
            }
        }
        Ok(())
    }

    /// What an error calls a vertex.
    fn told(&self, vertex: VertexId) -> String {
        format!("vertex {} ({})", self.uniq_id(vertex), self.name(vertex))
    }

    /// Keeps the edges that form the tree, and notes the roles of the others. An edge that leads up
    /// further than to what holds its source directly closes a circle, and is refused.
    fn span(&mut self, edges: &mut Vec<(VertexId, VertexId)>, by_walk: bool) -> Result<(), Error> {
        let roles = if by_walk {
            let pairs: Vec<(usize, usize)> =
                edges.iter().map(|(from, to)| (from.index(), to.index())).collect();
            spanning::roles(self.hot.len(), &pairs, &[self.root.index()])
        } else {
            let mut is_seen = vec![false; self.hot.len()];
            let mut has_parent =
                |target: VertexId| std::mem::replace(&mut is_seen[target.index()], true);
            edges
                .iter()
                .map(|(_, target)| if has_parent(*target) { Role::Beside } else { Role::Tree })
                .collect()
        };
        self.hot.iter_mut().for_each(|vertex| vertex.parent = VertexId::NONE);
        for ((source, target), role) in edges.iter().zip(&roles) {
            match role {
                Role::Tree => self.hot[target.index()].parent = *source,
                Role::Beside => self.associate(*source, *target),
                Role::Back => {
                    self.hot[source.index()].flags |= flag::BACK;
                    self.counts.edges += 1;
                }
                Role::Unreached => self.counts.edges += 1,
            }
        }
        let leads_up = |(source, target): &(VertexId, VertexId)| {
            self.parent(*source) != Some(*target)
                && self.way_up(*source).any(|above| above == *target)
        };
        let is_beside = |role: &Role| matches!(role, Role::Back | Role::Beside);
        let closing =
            edges.iter().zip(&roles).find(|(edge, role)| is_beside(role) && leads_up(edge));
        if let Some(((source, target), _)) = closing {
            let (source, target) = (self.told(*source), self.told(*target));
            return Err(Error::invalid(format!("edge: {source} to {target}: closes a circle")));
        }
        let mut roles = roles.iter();
        edges.retain(|_| roles.next() == Some(&Role::Tree));
        Ok(())
    }

    /// Lays the children of each vertex side by side. Parents are set already.
    fn lay_children(&mut self, edges: &[(VertexId, VertexId)]) {
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
        self.ascending = self.vertices().all(|vertex| self.children(vertex).is_sorted());
    }

    /// Remembers the paths that do not follow from names.
    fn keep_odd_paths(&mut self, given: &GivenPaths) {
        for vertex in self.vertices() {
            if let Some(path) = given.get(vertex)
                && !self.follows(vertex, path, given)
            {
                self.odd_paths.insert(vertex, path.into());
            }
        }
    }

    fn follows(&self, vertex: VertexId, path: &str, given: &GivenPaths) -> bool {
        let Some(front) =
            path.strip_suffix(&*self.name(vertex)).and_then(|rest| rest.strip_suffix('/'))
        else {
            return false;
        };
        match self.parent(vertex) {
            None => front.is_empty(),
            Some(above) => match given.get(above) {
                Some(above) => front == above,
                None => *front == *self.path(above),
            },
        }
    }
}

/// Refuses two vertices of one rank at one path, where the document gives paths: nothing could
/// tell them apart.
fn check_paths(graph: &Graph, given: &GivenPaths) -> Result<(), Error> {
    if given.spans.is_empty() {
        return Ok(());
    }
    let twice = |vertex: VertexId| {
        let path = graph.path(vertex);
        Err(Error::invalid(format!(
            "graph: {}: path {path}: another vertex of its rank has it",
            graph.told(vertex)
        )))
    };
    if !graph.odd_paths.is_empty() {
        let mut seen = HashSet::with_capacity(graph.hot.len());
        let mut is_taken = |vertex: &VertexId| {
            given.get(*vertex).is_some_and(|path| !seen.insert((path, graph.rank(*vertex))))
        };
        return graph.vertices().find(|vertex| is_taken(vertex)).map_or(Ok(()), twice);
    }
    // Paths follow from names, so that only siblings can have the same.
    let mut keys = Vec::new();
    for vertex in graph.vertices() {
        let key = |child: &VertexId| {
            let cold = &graph.cold[child.index()];
            (cold.name, cold.rank, cold.basename, graph.id(*child), *child)
        };
        keys.clear();
        keys.extend(graph.children(vertex).iter().map(key));
        keys.sort_unstable();
        let same = keys.windows(2).find(|pair| {
            let [one, other] = pair else { return false };
            (one.0, one.1) == (other.0, other.1)
                && (one.0.is_some() || (one.2, one.3) == (other.2, other.3))
        });
        if let Some([_, (.., child)]) = same {
            return twice(*child);
        }
    }
    Ok(())
}
