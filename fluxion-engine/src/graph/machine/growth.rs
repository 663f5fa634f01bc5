//! Adding and removing parts of the graph.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Graph, rows, texts, units_of};
use crate::graph::arena::NewVertex;
use crate::graph::spanning::{self, Role};
use crate::limits::{LEVELS_MAX, UNITS_MAX, VERTICES_MAX};
use crate::pools::{Claim, Size};
use crate::vertex::{TypeId, VertexId};
use crate::{Error, Reason};

/// A vertex as a document has it, defaults filled in.
#[derive(Debug, Clone)]
pub(crate) struct NodeText<'a> {
    pub(crate) kind: Cow<'a, str>,
    pub(crate) basename: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) path: Cow<'a, str>,
    pub(crate) id: i64,
    pub(crate) uniq_id: i64,
    pub(crate) rank: i32,
    pub(crate) size: u64,
    pub(crate) properties: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    pub(crate) up: bool,
    pub(crate) exclusive: bool,
}

impl NodeText<'_> {
    /// Bytes of its texts, as a graph counts them.
    fn text_bytes(&self) -> usize {
        let properties = self.properties.iter().map(|(name, value)| name.len() + value.len());
        let names = self.kind.len() + self.basename.len() + self.name.len() + self.path.len();
        names + properties.sum::<usize>()
    }
}

/// Vertices that can be added, and the order in which they are: parents first.
pub(crate) struct Enlargement<'a> {
    addition: Addition<'a>,
    order: Vec<(usize, Option<usize>)>,
}

impl Enlargement<'_> {
    /// How many types are new.
    pub(crate) fn new_kinds(&self, graph: &Graph) -> usize {
        let kinds = self.addition.nodes.iter().map(|node| &*node.kind);
        kinds.filter(|kind| graph.types.get(kind).is_none()).collect::<HashSet<_>>().len()
    }

    /// The types of the vertices that will hold others, and hold none now; `None`: a new type.
    pub(crate) fn new_inner<'g>(
        &'g self,
        graph: &'g Graph,
    ) -> impl Iterator<Item = Option<TypeId>> + 'g {
        let Addition { nodes, edges, leads_back, placed } = &self.addition;
        let above = edges.iter().map(|(above, _)| *above);
        let back = (0..nodes.len()).filter(|at| leads_back[*at]);
        let inner: HashSet<usize> = above.chain(back).collect();
        let is_new =
            |at: &usize| placed.get(at).is_none_or(|vertex| graph.children(*vertex).is_empty());
        inner.into_iter().filter(is_new).map(|at| graph.types.get(&nodes[at].kind))
    }
}

/// The vertices of a document that is added.
struct Addition<'a> {
    nodes: &'a [NodeText<'a>],
    /// Down from what holds a vertex.
    edges: Vec<(usize, usize)>,
    /// Whether an edge leads back from a vertex to what holds it.
    leads_back: Vec<bool>,
    /// Existing vertices, by index into `nodes`.
    placed: HashMap<usize, VertexId>,
}

impl<'a> Addition<'a> {
    fn new(
        nodes: &'a [NodeText<'a>],
        edges: &[(usize, usize)],
        placed: HashMap<usize, VertexId>,
    ) -> Self {
        // Walks begin at existing vertices, the root first.
        let mut starts: Vec<usize> = placed.keys().copied().collect();
        starts.sort_unstable_by_key(|at| nodes[*at].path.matches('/').count());
        let roles = spanning::roles(nodes.len(), edges, &starts);
        let mut leads_back = vec![false; nodes.len()];
        let back = edges.iter().zip(&roles).filter(|(_, role)| **role == Role::Back);
        back.for_each(|((source, _), _)| leads_back[*source] = true);
        let down = edges.iter().zip(&roles).filter(|(_, role)| **role != Role::Back);
        Addition { nodes, edges: down.map(|(edge, _)| *edge).collect(), leads_back, placed }
    }

    /// Indices with their parents, parents first; every new vertex hangs below an existing one.
    fn order(&self) -> Result<Vec<(usize, Option<usize>)>, Error> {
        let nodes = self.nodes;
        let mut parent: Vec<Option<usize>> = vec![None; nodes.len()];
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        let path = |at: usize| &nodes[at].path;
        for (source, target) in &self.edges {
            if parent[*target].replace(*source).is_some() {
                return Err(Error::invalid(format!(
                    "graph: vertex {}: has two parents",
                    path(*target)
                )));
            }
            children[*source].push(*target);
        }
        let mut order: Vec<(usize, Option<usize>)> =
            (0..nodes.len()).filter(|at| parent[*at].is_none()).map(|at| (at, None)).collect();
        for (at, _) in &order {
            if !self.placed.contains_key(at) && path(*at).matches('/').count() != 1 {
                return Err(Error::invalid(format!("graph: vertex {}: has no parent", path(*at))));
            }
        }
        let mut at = 0;
        while at < order.len() {
            let from = order[at].0;
            order.extend(children[from].iter().map(|child| (*child, Some(from))));
            at += 1;
        }
        Ok(order)
    }
}

/// Refuses two vertices of one rank at one path. They need not be siblings: a path of a document
/// may be another than that of the parent and the name.
fn check_paths(nodes: &[NodeText<'_>]) -> Result<(), Error> {
    let mut seen = HashSet::with_capacity(nodes.len());
    match nodes.iter().find(|node| !seen.insert((&*node.path, node.rank))) {
        None => Ok(()),
        Some(node) => Err(Error::invalid(format!(
            "graph: vertex {}: another vertex of its rank has its path",
            node.path
        ))),
    }
}

/// Refuses edges that lead from a vertex to itself, and edges that are there twice.
pub(crate) fn check_edges(nodes: &[NodeText<'_>], edges: &[(usize, usize)]) -> Result<(), Error> {
    let path = |at: usize| &nodes[at].path;
    if let Some((source, _)) = edges.iter().find(|(source, target)| source == target) {
        return Err(Error::invalid(format!("edge: {} leads to itself", path(*source))));
    }
    // Mostly they are in order already.
    let mut sorted = edges.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let (source, target) = (path(pair[0].0), path(pair[0].1));
            Err(Error::invalid(format!("edge: {source} to {target}: is there twice")))
        }
    }
}

/// How to add vertices that are not there yet, with edges as pairs of indices into them; an
/// error if that is not possible. A vertex is there if one of its path and rank is.
pub(crate) fn plan_growth<'a>(
    graph: &Graph,
    nodes: &'a [NodeText<'a>],
    edges: &[(usize, usize)],
) -> Result<Enlargement<'a>, Error> {
    let addition = addition(graph, nodes, edges);
    let order = addition.order()?;
    check(graph, &addition, &order)?;
    Ok(Enlargement { addition, order })
}

/// As upstream (Q9), which keeps the edges below a vertex by weight and `uniq_id`: two of one
/// weight cannot have the same, and new ones weigh nothing. `weighs`: whether a grant gave the edge
/// to this vertex a weight.
pub(crate) fn check_uniq_ids(
    graph: &Graph,
    nodes: &[NodeText<'_>],
    edges: &[(usize, usize)],
    weighs: impl Fn(VertexId) -> bool,
) -> Result<(), Error> {
    let addition = addition(graph, nodes, edges);
    let mut new = HashSet::new();
    // By vertex that is there already, the ids that its children have.
    let mut taken: HashMap<VertexId, HashSet<i64>> = HashMap::new();
    for (parent, at) in addition.edges.iter().filter(|(_, at)| !addition.placed.contains_key(at)) {
        let uniq_id = nodes[*at].uniq_id;
        let is_taken = addition.placed.get(parent).is_some_and(|above| {
            let ids = taken.entry(*above).or_insert_with(|| {
                let plain = graph.children(*above).iter().filter(|child| !weighs(**child));
                plain.map(|child| graph.uniq_id(*child)).collect()
            });
            ids.contains(&uniq_id)
        });
        if is_taken || !new.insert((*parent, uniq_id)) {
            let text =
                format!("graph: vertex {}: uniq_id {uniq_id}: a sibling has it", nodes[*at].path);
            return Err(Error { reason: Reason::Exists, text });
        }
    }
    Ok(())
}

impl Graph {
    /// Adds vertices as planned; nothing else may have changed since.
    pub(crate) fn grow(&mut self, growth: Enlargement<'_>) -> Result<(), Error> {
        let Enlargement { mut addition, order } = growth;
        for (at, parent) in order {
            if addition.placed.contains_key(&at) {
                continue;
            }
            let parent = parent.map(|parent| addition.placed[&parent]);
            let id = insert(self, &addition.nodes[at], parent)?;
            self.text_bytes += texts::bytes_of(self, id);
            if addition.leads_back[at] {
                self.arena.lead_back(id);
            }
            if !self.is_pool(id) {
                self.wholes.units = self.wholes.units.saturating_add(units_of(self, id));
            }
            addition.placed.insert(at, id);
        }
        Ok(())
    }

    /// Unlinks a vertex and everything below it. Jobs keep their vertices there; units of
    /// pools are lost. Returns the jobs that lost some, each once for every claim.
    pub fn cut(&mut self, top: VertexId) -> Result<Vec<u64>, Error> {
        let Some(parent) = self.parent(top) else {
            return Err(Error::invalid(format!(
                "vertex {}: the root cannot be removed",
                self.path(top)
            )));
        };
        let mut losers = Vec::new();
        self.changes.of_vertices();
        // Children first, so that a pool still finds its node's row.
        for id in self.subtree(top).into_iter().rev() {
            if self.is_pool(id) {
                rows::drop_pool(self, id);
            } else {
                rows::drop_whole(self, id);
                self.wholes.units = self.wholes.units.saturating_sub(units_of(self, id));
            }
            if let Some(row) = self.position_of(id) {
                losers.extend(self.pools.remove_row(row).iter().map(|claim: &Claim| claim.job));
            }
            self.ranks.remove(&self.arena, id);
            let beside = self.associations.remove(id);
            self.arena.uncount_edges(beside);
            self.arena.remove(id);
        }
        self.arena.unlink(top, parent);
        Ok(losers)
    }
}

fn insert(
    graph: &mut Graph,
    node: &NodeText<'_>,
    parent: Option<VertexId>,
) -> Result<VertexId, Error> {
    let (kind, basename) = (graph.types.intern(&node.kind)?, graph.names.text(&node.basename));
    let vertex = NewVertex {
        name: Some(graph.names.text(&node.name)),
        rank: node.rank,
        size: node.size,
        properties: graph
            .names
            .properties(node.properties.iter().map(|(name, value)| (&**name, &**value))),
        up: node.up,
        ..NewVertex::new(kind, basename, node.id, node.uniq_id)
    };
    let id = graph.arena.push(vertex).ok_or_else(rows::too_many_vertices)?;
    graph.changes.of_vertices();
    if let Some(parent) = parent {
        graph.arena.link(parent, id);
        if *graph.path(id) != *node.path {
            graph.names.keep_path(id, &node.path);
        }
    }
    graph.ranks.add(&graph.arena, id);
    rows::enter_row(graph, id)?;
    if graph.has_pool_types() {
        rows::enter_pool(graph, id)?;
    }
    Ok(id)
}

fn addition<'a>(
    graph: &Graph,
    nodes: &'a [NodeText<'a>],
    edges: &[(usize, usize)],
) -> Addition<'a> {
    let known = |(at, node): (usize, &NodeText<'_>)| Some((at, graph.find(&node.path, node.rank)?));
    Addition::new(nodes, edges, nodes.iter().enumerate().filter_map(known).collect())
}

/// By how much the tables of pools grow.
fn growth_of_pools(graph: &Graph, addition: &Addition<'_>) -> Size {
    let Addition { nodes, edges, placed, .. } = addition;
    let is_ranked = |at: usize| nodes[at].kind == "node" && nodes[at].rank >= 0;
    let is_new = |at: &usize| !placed.contains_key(at);
    let pools = edges.iter().filter(|(above, at)| is_new(at) && is_ranked(*above));
    let kinds = pools.map(|(_, at)| &*nodes[*at].kind).filter(|kind| graph.is_pool_type(kind));
    let mut size = graph.pools.size_with_types(&graph.types, kinds);
    // The vertices above new nodes are parts.
    let above: HashMap<usize, usize> = edges.iter().map(|(above, at)| (*at, *above)).collect();
    let (mut seen, mut parts) = (HashSet::new(), HashSet::new());
    for node in (0..nodes.len()).filter(is_new).filter(|at| is_ranked(*at)) {
        size.rows += 1;
        let mut next = above.get(&node);
        while let Some(at) = next.filter(|at| seen.insert(**at)) {
            if let Some(vertex) = placed.get(at) {
                let way = graph.way_up(*vertex).filter(|above| graph.parent(*above).is_some());
                parts.extend(way.map(|above| {
                    (Cow::Borrowed(graph.kind_name(above)), Cow::Owned(graph.path(above)))
                }));
                break;
            }
            parts.insert((Cow::Borrowed(&*nodes[*at].kind), Cow::Borrowed(&*nodes[*at].path)));
            next = above.get(at);
        }
    }
    let mut levels = HashSet::new();
    for (kind, path) in &parts {
        let with = graph.pools.size_with_part(kind, path);
        levels.extend((with.levels > 0).then_some(kind));
        size = size + Size { levels: 0, ..with };
    }
    Size { levels: levels.len(), ..size }
}

/// What could fail while inserting is found out before.
fn check(
    graph: &Graph,
    addition: &Addition<'_>,
    order: &[(usize, Option<usize>)],
) -> Result<(), Error> {
    let Addition { nodes, edges, placed, .. } = addition;
    check_paths(nodes)?;
    if graph.has_pool_types() {
        graph.pools.check_room(growth_of_pools(graph, addition), "graph")?;
    }
    // Those that were removed still take memory.
    VERTICES_MAX.check(graph.len() + nodes.len() - placed.len(), "graph")?;
    graph.types.check_room_for(nodes.iter().map(|node| &*node.kind))?;
    let new = nodes.iter().enumerate().filter(|(at, _)| !placed.contains_key(at));
    graph.check_texts(new.map(|(_, node)| node.text_bytes()).sum(), "graph")?;
    let mut node_ranks = HashMap::new();
    let mut units = graph.wholes.units;
    let sources: HashSet<usize> = edges.iter().map(|(source, _)| *source).collect();
    let mut levels: HashMap<usize, usize> =
        placed.iter().map(|(at, id)| (*at, graph.arena.level(*id))).collect();
    for (at, parent) in order.iter().filter(|(at, _)| !placed.contains_key(at)) {
        let node = &nodes[*at];
        let wrong = |what: &str| Error::invalid(format!("graph: vertex {}: {what}", node.path));
        let Some(parent) = parent else {
            return Err(Error::invalid("graph: more than one root"));
        };
        // Of pools too, which are few: so it is known before anything is added.
        units = units.saturating_add(usize::try_from(node.size).unwrap_or(usize::MAX));
        if !graph.has_pool_types() {
            UNITS_MAX.check(units, format_args!("graph: vertex {}", node.path))?;
        }
        // Parents come first in this order.
        let level = levels.get(parent).map_or(1, |above| above + 1);
        LEVELS_MAX.check(level, format_args!("graph: vertex {}", node.path))?;
        levels.insert(*at, level);
        if !graph.has_pool_types() {
            continue;
        }
        let above = &nodes[*parent];
        if let (true, Ok(rank)) = (node.kind == "node", u32::try_from(node.rank))
            && (graph.pools.position(rank).is_some() || node_ranks.insert(rank, *at).is_some())
        {
            return Err(wrong("another node has its rank"));
        }
        let parent = graph.types.get(&above.kind).unwrap_or(TypeId::SLOT);
        if graph.pool_types.have_below(&node.kind, parent)
            && above.kind == "node"
            && above.rank >= 0
            && sources.contains(at)
        {
            return Err(wrong("a pool holds no other vertices"));
        }
    }
    Ok(())
}
