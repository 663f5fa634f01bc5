//! Questions about what jobs have, whole vertices and units of pools alike: of a job, its claims
//! answer; of a vertex or a node, the indexes over the claims of all jobs.

use super::Book;
use super::job::Job;
use crate::graph::{Graph, VertexId};
use crate::schedule::Touch;

/// What jobs have of a vertex itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// A job has it, or units of it.
    pub(crate) now: bool,
    /// A job will have it, or units of it.
    pub(crate) later: bool,
}

/// What jobs have of a vertex. Units of a type are not of one vertex: all pools of a node that have
/// the type are held.
pub(crate) fn held(book: &Book, vertex: VertexId) -> Held {
    let mut held = Held::default();
    let mut add = |reserved: bool| {
        held.now |= !reserved;
        held.later |= reserved;
    };
    book.schedule().spans(vertex).iter().for_each(|span| add(span.reserved));
    let graph = book.graph();
    if let Some(row) = row_of_pool(graph, vertex) {
        let holders = graph.pools.by_node().holders(row, graph.kind(vertex));
        holders.for_each(|(_, planned)| add(planned));
    }
    held
}

/// A holding of a job: a vertex of which it has something.
pub(crate) struct Holding<'a> {
    pub(crate) vertex: VertexId,
    /// The job has it, or units of it, for itself; else it passes through.
    pub(crate) exclusive: bool,
    /// The job's count of this vertex, if there is one.
    pub(crate) touch: Option<&'a Touch>,
}

/// The vertices of which a job has something, or will have. A pool through which it passes, and of
/// which it has units, is named more than once, at first without the units.
pub(crate) fn holdings<'a>(graph: &'a Graph, job: &'a Job) -> impl Iterator<Item = Holding<'a>> {
    let whole = job.claims.vertices().iter().map(|touch| Holding {
        vertex: touch.vertex,
        exclusive: touch.exclusive,
        touch: Some(touch),
    });
    let nodes = job.claims.slots().iter().flat_map(move |slots| {
        let of_node = move |(rank, _): &(u32, u64)| {
            let row = graph.pools.position(*rank)?;
            Some(graph.children(graph.pools.vertices()[row]))
        };
        let below = slots.on().iter().filter_map(of_node).flatten().copied();
        below.filter(move |vertex| {
            let needs = &slots.shape.needs;
            graph.is_pool(*vertex) && needs.iter().any(|(kind, _)| *kind == graph.kind(*vertex))
        })
    });
    whole.chain(nodes.map(|vertex| Holding { vertex, exclusive: true, touch: None }))
}

/// True if no job has a vertex, or the nodes that it is or holds, at any instant of a window.
pub(crate) fn is_free(book: &Book, vertex: VertexId, (from, to): (i64, i64)) -> bool {
    let graph = book.graph();
    book.schedule().is_free(vertex, from, to)
        && (!graph.has_pool_types()
            || graph
                .rows_within(vertex)
                .into_iter()
                .all(|row| graph.pools.by_node().is_idle(row, from, to)))
}

/// The row of the node that a pool is on.
fn row_of_pool(graph: &Graph, vertex: VertexId) -> Option<usize> {
    if !graph.is_pool(vertex) {
        return None;
    }
    graph.way_up(vertex).find_map(|above| graph.position_of(above))
}
