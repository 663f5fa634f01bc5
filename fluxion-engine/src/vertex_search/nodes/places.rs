//! The nodes of a machine, in the order of their ids and in that of the walk.

use crate::graph::{ByVertex, Graph, VertexId};
use crate::policy::Policy;

/// The nodes. The place of a node is its number in the order of ids, then of the factor of
/// node-centric policies.
#[derive(Debug, Clone)]
pub(super) struct Places {
    nodes: Vec<VertexId>,
    of_node: ByVertex<u32>,
    /// In which order the walk comes to them.
    walked: Vec<u32>,
    /// The same the other way round.
    by_walk: Vec<u32>,
    /// What nodes lie directly below.
    parents: Vec<VertexId>,
    /// No node has another size than 1.
    are_plain: bool,
}

impl Places {
    /// Puts nodes in order, which come in the order of the walk.
    pub(super) fn new(graph: &Graph, nodes: Vec<VertexId>) -> Self {
        let are_plain = nodes.iter().all(|node| graph.size(*node) == 1);
        let mut parents: Vec<VertexId> =
            nodes.iter().filter_map(|node| graph.parent(*node)).collect();
        parents.sort_unstable();
        parents.dedup();
        let key = |node: VertexId| (graph.id(node), Policy::LONODE.factor(graph, node));
        let mut order: Vec<(u32, VertexId)> = (0..).zip(nodes).collect();
        order.sort_by_key(|(_, node)| key(*node));
        let nodes: Vec<VertexId> = order.iter().map(|(_, node)| *node).collect();
        let mut by_walk = vec![0; order.len()];
        for (place, (walked, _)) in (0..).zip(&order) {
            by_walk[*walked as usize] = place;
        }
        Places {
            of_node: (0..).zip(&nodes).map(|(place, node)| (*node, place)).collect(),
            walked: order.iter().map(|(walked, _)| *walked).collect(),
            nodes,
            by_walk,
            parents,
            are_plain,
        }
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node at a place.
    pub(super) fn node(&self, place: usize) -> VertexId {
        self.nodes[place]
    }

    /// All nodes, by their places.
    pub(super) fn nodes(&self) -> &[VertexId] {
        &self.nodes
    }

    /// The place of a node.
    pub(super) fn place(&self, node: VertexId) -> Option<usize> {
        self.of_node.get(&node).map(|place| *place as usize)
    }

    /// When the walk comes to a node.
    pub(super) fn walked(&self, place: usize) -> u32 {
        self.walked[place]
    }

    /// The node to which the walk comes then.
    pub(super) fn by_walk(&self, walked: usize) -> VertexId {
        self.nodes[self.by_walk[walked] as usize]
    }

    /// The vertices that nodes lie directly below.
    pub(super) fn parents(&self) -> &[VertexId] {
        &self.parents
    }

    /// The vertex that all nodes lie directly below, if it is one.
    pub(super) fn parent(&self) -> Option<VertexId> {
        if let [parent] = self.parents[..] { Some(parent) } else { None }
    }

    /// True if no node has another size than 1.
    pub(super) fn are_plain(&self) -> bool {
        self.are_plain
    }
}
