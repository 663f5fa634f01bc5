//! The order in which `first` and its like visit the children of a vertex.
//!
//! Children that no grant ever passed through come first, the highest `uniq_id` first; the others
//! follow by the units left of the last type that they track when a grant passed through last, most
//! first. That is not corrected when a job ends: so upstream orders them (Q15), and a walk sees the
//! emptiest parts of the machine early without looking at the others.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::bits::Bits;
use crate::graph::{ByVertex, Graph, VertexId};

/// Weights of edges that grants passed through: the order of upstream's `by_outedges`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weights {
    parents: ByVertex<Parent>,
    /// Children by `uniq_id`, ascending, where their own order is another.
    sorted: ByVertex<Box<[VertexId]>>,
}

#[derive(Debug, Clone)]
struct Parent {
    /// Positions of children, by `uniq_id`, that no grant passed through.
    fresh: Bits,
    used: BTreeSet<(Reverse<i64>, Reverse<i64>, VertexId)>,
    weights: ByVertex<i64>,
}

impl Weights {
    /// Reads the graph again, when it has changed.
    pub(crate) fn prime(&mut self, graph: &Graph) {
        self.sorted.clear();
        for vertex in graph.vertices() {
            self.sort(graph, vertex);
        }
        let parents = std::mem::take(&mut self.parents);
        for (parent, old) in parents {
            self.renew(graph, parent, old);
        }
    }

    /// No grant passed through anything.
    pub(crate) fn is_fresh(&self) -> bool {
        self.parents.is_empty()
    }

    /// Takes up vertices that were added, from an index on.
    pub(crate) fn grow(&mut self, graph: &Graph, from: usize) {
        let mut joints: Vec<VertexId> =
            (from..graph.len()).filter_map(|at| graph.parent(VertexId::at(at))).collect();
        joints.sort_unstable();
        joints.dedup();
        for parent in joints {
            self.recount(graph, parent);
        }
    }

    /// Takes up that a vertex has other children now.
    pub(crate) fn recount(&mut self, graph: &Graph, parent: VertexId) {
        self.sorted.remove(&parent);
        self.sort(graph, parent);
        if let Some(old) = self.parents.remove(&parent) {
            self.renew(graph, parent, old);
        }
    }

    fn sort(&mut self, graph: &Graph, vertex: VertexId) {
        let children = graph.children(vertex);
        if !children.is_sorted_by_key(|child| graph.uniq_id(*child)) {
            let mut sorted: Box<[VertexId]> = children.into();
            sorted.sort_by_key(|child| graph.uniq_id(*child));
            self.sorted.insert(vertex, sorted);
        }
    }

    fn renew(&mut self, graph: &Graph, parent: VertexId, old: Parent) {
        for (child, weight) in old.weights {
            if graph.parent(child) == Some(parent) {
                self.set(graph, child, weight);
            }
        }
    }

    /// The note of a grant on the edge to this vertex; 0 where none has passed.
    pub(crate) fn weight(&self, graph: &Graph, child: VertexId) -> i64 {
        let parent = graph.parent(child).and_then(|parent| self.parents.get(&parent));
        parent.and_then(|parent| parent.weights.get(&child)).copied().unwrap_or(0)
    }

    /// Children in the order in which they are to be visited.
    pub(crate) fn order<'a>(
        &'a self,
        graph: &'a Graph,
        vertex: VertexId,
    ) -> impl Iterator<Item = VertexId> + use<'a> {
        let children = self.by_uniq_id(graph, vertex);
        let parent = self.parents.get(&vertex);
        let all = if parent.is_none() { children } else { &[] };
        let fresh = parent
            .into_iter()
            .flat_map(|parent| parent.fresh.iter().rev())
            .map(move |at| children[at]);
        let used =
            parent.into_iter().flat_map(|parent| parent.used.iter()).map(|(_, _, child)| *child);
        all.iter().rev().copied().chain(fresh).chain(used)
    }

    /// Puts some children of a vertex in the order in which they are to be visited. Children must
    /// be in order of their indices everywhere.
    pub(crate) fn put_in_order(&self, graph: &Graph, vertex: VertexId, some: &mut [VertexId]) {
        let parent = self.parents.get(&vertex);
        some.sort_by_cached_key(|child| {
            let uniq_id = Reverse(graph.uniq_id(*child));
            match parent.and_then(|parent| parent.weights.get(child)) {
                None => (false, Reverse(0), uniq_id, Err(Reverse(*child))),
                Some(weight) => (true, Reverse(*weight), uniq_id, Ok(*child)),
            }
        });
    }

    /// A grant passed through the edge to `child`, and this much was left below it.
    pub(crate) fn set(&mut self, graph: &Graph, child: VertexId, weight: i64) {
        // No edge leads to the root.
        if let Some(vertex) = graph.parent(child) {
            self.set_below(graph, vertex, child, weight);
        }
    }

    fn set_below(&mut self, graph: &Graph, vertex: VertexId, child: VertexId, weight: i64) {
        let children = match self.sorted.get(&vertex) {
            Some(sorted) => sorted,
            None => graph.children(vertex),
        };
        let uniq_id = graph.uniq_id(child);
        let parent = self.parents.entry(vertex).or_insert_with(|| Parent {
            fresh: Bits::full(children.len()),
            used: BTreeSet::new(),
            weights: ByVertex::default(),
        });
        match parent.weights.insert(child, weight) {
            Some(before) => {
                parent.used.remove(&(Reverse(before), Reverse(uniq_id), child));
            }
            None => {
                let from = children.partition_point(|other| graph.uniq_id(*other) < uniq_id);
                let place = children[from..].iter().position(|other| *other == child);
                if let Some(place) = place {
                    parent.fresh.remove(from + place);
                }
            }
        }
        parent.used.insert((Reverse(weight), Reverse(uniq_id), child));
    }

    fn by_uniq_id<'a>(&'a self, graph: &'a Graph, vertex: VertexId) -> &'a [VertexId] {
        self.sorted.get(&vertex).map_or(graph.children(vertex), |sorted| sorted)
    }
}
