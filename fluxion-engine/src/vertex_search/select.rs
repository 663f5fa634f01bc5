//! From the choices of a walk to the vertices of a grant, in the order in which they are written.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::choose::Branch;
use super::request::Request;
use super::scene::Window;
use crate::amounts::amount_of;
use crate::graph::{ByVertex, Graph, TypeId, VertexId};
use crate::schedule::{Row, Schedule};

/// A vertex of a grant. It is granted, or holds something that is.
#[derive(Debug, Clone)]
pub(crate) struct Marked {
    pub(crate) vertex: VertexId,
    /// The root has 1.
    pub(crate) depth: usize,
    pub(crate) exclusive: bool,
    /// It is written and counted with what holds it, and not held itself.
    pub(crate) shadow: bool,
    /// Units that are granted of it.
    pub(crate) needs: u64,
    /// The level of the request that it serves.
    pub(crate) level: Option<usize>,
    /// Units that are taken below it, one per type that it tracks; empty if it tracks none, or
    /// nothing below is granted.
    pub(crate) below: Row,
}

/// Slots of pool units on a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units {
    pub(crate) node: VertexId,
    pub(crate) slot: usize,
    pub(crate) count: u64,
}

/// The vertices that a request gets: vertices, children before parents and the root last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) marked: Vec<Marked>,
    pub(crate) units: Vec<Units>,
}

#[derive(Debug, Default)]
struct Mark {
    exclusive: bool,
    shadow: bool,
    needs: Option<u64>,
    level: Option<usize>,
    children: SmallVec<[VertexId; 2]>,
}

type Marks = ByVertex<Mark>;

/// Everything that `chosen`, a range of the walk's choices, stands for. Follows upstream's
/// `enforce_constrained`, and the walk that commits.
pub(crate) fn select(
    graph: &Graph,
    schedule: &Schedule,
    request: &Request,
    exclusive_kinds: &[TypeId],
    window: Window,
    choices: &[Branch],
    chosen: std::ops::Range<usize>,
) -> Selection {
    let (mut marks, mut units) = (Marks::default(), Vec::<Units>::new());
    let mut open = vec![(chosen, None)];
    while let Some((range, above)) = open.pop() {
        for branch in &choices[range] {
            let level = branch.level as usize;
            // As upstream (Q1): the way to a chosen vertex is only kept for choices on top.
            // Vertices that a vertex chose among those that do not lie directly below it are lost.
            let by =
                above.filter(|above| !branch.units && graph.parent(branch.vertex) != Some(*above));
            if by.is_some_and(|above| !graph.associates(above).contains(&branch.vertex)) {
                continue;
            }
            if branch.units {
                mark(graph, &mut marks, branch.vertex);
                match units
                    .iter_mut()
                    .find(|known| known.node == branch.vertex && known.slot == level)
                {
                    Some(known) => known.count += u64::from(branch.to),
                    None => units.push(Units {
                        node: branch.vertex,
                        slot: level,
                        count: u64::from(branch.to),
                    }),
                }
                continue;
            }
            let mark = match by {
                Some(above) => mark_below(&mut marks, branch.vertex, above),
                None => mark(graph, &mut marks, branch.vertex),
            };
            mark.exclusive |= branch.exclusive;
            mark.level = Some(level);
            open.push((branch.from as usize..branch.to as usize, Some(branch.vertex)));
        }
    }
    for one in &units {
        mark_units(graph, request, &mut marks, *one);
    }
    shadow(graph, schedule, &mut marks, exclusive_kinds, window);
    Selection { marked: written(graph, schedule, marks), units }
}

/// Grants exactly these vertices, and these units of the pools of nodes, with all that leads to
/// them. As upstream (Q19), what lies below a vertex of an exclusive type is written and counted
/// with it, and held only if it is one of these vertices.
pub(crate) fn exactly(
    graph: &Graph,
    schedule: &Schedule,
    vertices: &[(VertexId, bool)],
    exclusive_kinds: &[TypeId],
    units: &[(VertexId, TypeId, u64)],
) -> Selection {
    let marks_min = vertices.len() + 2 * units.len();
    let mut marks =
        Marks::with_capacity_and_hasher(marks_min, std::hash::BuildHasherDefault::default());
    for (vertex, exclusive) in vertices {
        mark(graph, &mut marks, *vertex).exclusive |= *exclusive;
    }
    let is_top = |vertex: &VertexId| exclusive_kinds.contains(&graph.kind(*vertex));
    let tops: Vec<VertexId> = marks.keys().copied().filter(is_top).collect();
    for vertex in tops.into_iter().flat_map(|top| graph.subtree(top)) {
        let mark = mark(graph, &mut marks, vertex);
        mark.shadow = !mark.exclusive;
    }
    for (node, kind, amount) in units {
        mark(graph, &mut marks, *node);
        mark_pools(graph, &mut marks, *node, *kind, *amount);
    }
    Selection { marked: written(graph, schedule, marks), units: Vec::new() }
}

/// The marked vertices, children before parents and the root last.
fn written(graph: &Graph, schedule: &Schedule, marks: Marks) -> Vec<Marked> {
    let mut out = Vec::with_capacity(marks.len());
    Writing { graph, schedule, marks, out: &mut out }.visit(graph.root(), 1);
    out
}

/// The mark of a vertex, which is made, with those of all that hold it, if there is none.
fn mark<'a>(graph: &Graph, marks: &'a mut Marks, vertex: VertexId) -> &'a mut Mark {
    let is_new = !marks.contains_key(&vertex);
    marks.entry(vertex).or_default();
    if is_new {
        let mut child = vertex;
        while let Some(parent) = graph.parent(child) {
            let known = marks.contains_key(&parent);
            marks.entry(parent).or_default().children.push(child);
            if known {
                break;
            }
            child = parent;
        }
    }
    marks.entry(vertex).or_default()
}

/// The mark of a vertex that was come to by an association.
fn mark_below(marks: &mut Marks, vertex: VertexId, above: VertexId) -> &mut Mark {
    if !marks.contains_key(&vertex) {
        marks.entry(above).or_default().children.push(vertex);
    }
    marks.entry(vertex).or_default()
}

/// Marks the pools of a node that a slot takes units of.
fn mark_units(graph: &Graph, request: &Request, marks: &mut Marks, units: Units) {
    for part in request.of_range(&request.levels[units.slot].with) {
        mark_pools(graph, marks, units.node, part.kind, part.count.min.saturating_mul(units.count));
    }
}

/// Marks the pools of a type on a node; several are filled in order.
fn mark_pools(graph: &Graph, marks: &mut Marks, node: VertexId, kind: TypeId, mut left: u64) {
    for pool in graph.children(node) {
        if graph.kind(*pool) != kind || !graph.is_pool(*pool) {
            continue;
        }
        let given = marks.get(pool).and_then(|mark| mark.needs).unwrap_or(0);
        let more = left.min(graph.size(*pool) - given);
        if more > 0 {
            let mark = mark(graph, marks, *pool);
            mark.exclusive = true;
            mark.needs = Some(given + more);
            left -= more;
        }
    }
}

/// Takes vertices of exclusive types with everything below them, free or not. As upstream (Q11), a
/// part that another job has is left out; so is a node on which another has units.
fn shadow(graph: &Graph, schedule: &Schedule, marks: &mut Marks, kinds: &[TypeId], window: Window) {
    if kinds.is_empty() {
        return;
    }
    let tops: Vec<VertexId> =
        marks.keys().copied().filter(|vertex| kinds.contains(&graph.kind(*vertex))).collect();
    for top in tops {
        for vertex in graph.subtree(top) {
            let is_free = schedule.is_free(vertex, window.from, window.to);
            if is_free && has_no_units(graph, vertex, window) {
                mark(graph, marks, vertex).exclusive = true;
            }
        }
    }
}

/// True if no job has units of a node, or of the node of a pool, within a window.
fn has_no_units(graph: &Graph, vertex: VertexId, window: Window) -> bool {
    if !graph.has_pool_types() {
        return true;
    }
    let node = if graph.is_pool(vertex) { graph.parent(vertex) } else { Some(vertex) };
    let row = node.and_then(|node| graph.position_of(node));
    row.is_none_or(|row| graph.pools.by_node().is_idle(row, window.from, window.to))
}

struct Writing<'a> {
    graph: &'a Graph,
    schedule: &'a Schedule,
    marks: Marks,
    out: &'a mut Vec<Marked>,
}

/// The units that a subtree takes, by type.
type Sums = SmallVec<[(TypeId, i64); 4]>;

impl Writing<'_> {
    /// Writes a subtree, children in the order of their edges. Returns the units that it takes;
    /// `None`: nothing, and it is left out.
    fn visit(&mut self, vertex: VertexId, depth: usize) -> Option<Sums> {
        let mark = self.marks.remove(&vertex)?;
        let taken = mark.exclusive || mark.shadow;
        let (graph, mut sums, mut holds) = (self.graph, Sums::new(), taken);
        for child in in_order(graph, vertex, mark.children) {
            if let Some(below) = self.visit(child, depth + 1) {
                holds = true;
                for (kind, count) in below {
                    add(&mut sums, kind, count);
                }
            }
        }
        if !holds {
            return None;
        }
        let mut below = Row::new();
        if !sums.is_empty() {
            let tracked = self.schedule.filters.tracked(graph, vertex);
            below.extend(
                tracked.iter().map(|kind| {
                    sums.iter().find(|(known, _)| known == kind).map_or(0, |sum| sum.1)
                }),
            );
        }
        let size = graph.size(vertex);
        self.out.push(Marked {
            vertex,
            depth,
            exclusive: mark.exclusive,
            shadow: mark.shadow,
            needs: mark.needs.unwrap_or(size),
            level: mark.level,
            below,
        });
        let own =
            if taken && mark.needs.is_none() { i64::try_from(size).unwrap_or(i64::MAX) } else { 0 };
        add(&mut sums, graph.kind(vertex), own);
        Some(sums)
    }
}

/// Children in the order of their edges.
fn in_order(
    graph: &Graph,
    vertex: VertexId,
    mut some: SmallVec<[VertexId; 2]>,
) -> SmallVec<[VertexId; 2]> {
    if some.len() < 2 {
        return some;
    }
    if graph.has_ascending_children() && graph.associates(vertex).is_empty() {
        some.sort_unstable();
        return some;
    }
    let places: HashMap<VertexId, usize> = graph
        .children(vertex)
        .iter()
        .chain(graph.associates(vertex))
        .enumerate()
        .map(|(at, child)| (*child, at))
        .collect();
    some.sort_unstable_by_key(|child| places.get(child));
    some
}

fn add(sums: &mut Sums, kind: TypeId, count: i64) {
    let sum = amount_of(sums, kind);
    *sum = sum.saturating_add(count);
}
