//! Which vertices a grant names, in the order of upstream: children before parents, the root last.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::About;
use crate::engine::Found;
use crate::graph::{Graph, VertexId};
use crate::pools::SlotShape;

/// A vertex of a grant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Emitted {
    pub(super) vertex: VertexId,
    /// Units that are granted of it.
    pub(super) needs: u64,
    /// It is granted; else it only holds what is.
    pub(super) exclusive: bool,
    /// The root has 1.
    pub(super) depth: usize,
}

/// All that is granted, and what holds it.
pub(super) fn of(graph: &Graph, about: &About<'_>, found: &Found) -> Vec<Emitted> {
    let granted = granted(graph, about, found);
    let mut on_the_way = HashSet::new();
    for id in granted.keys() {
        let mut at = graph.vertex(*id).parent;
        while let Some(id) = at.filter(|id| on_the_way.insert(*id)) {
            at = graph.vertex(id).parent;
        }
    }
    let mut emitted = Vec::with_capacity(granted.len() + on_the_way.len());
    visit(graph, graph.root(), 1, &granted, &on_the_way, &mut emitted);
    emitted
}

fn visit(
    graph: &Graph,
    id: VertexId,
    depth: usize,
    granted: &HashMap<VertexId, u64>,
    on_the_way: &HashSet<VertexId>,
    emitted: &mut Vec<Emitted>,
) {
    if on_the_way.contains(&id) {
        for child in &graph.vertex(id).children {
            visit(graph, *child, depth + 1, granted, on_the_way, emitted);
        }
    } else if !granted.contains_key(&id) {
        return;
    }
    let needs = granted.get(&id).copied();
    let size = graph.vertex(id).size;
    emitted.push(Emitted { vertex: id, needs: needs.unwrap_or(size), exclusive: needs.is_some(), depth });
}

/// Units granted of each vertex.
fn granted(graph: &Graph, about: &About<'_>, found: &Found) -> HashMap<VertexId, u64> {
    let mut granted = HashMap::new();
    match found {
        Found::Tree(selection) => {
            granted.extend(selection.held.iter().map(|id| (*id, graph.vertex(*id).size)));
            for (node, slot, count) in &selection.claimed {
                grant_units(graph, *node, slot, *count, &mut granted);
            }
        }
        Found::Flat(picks) => {
            let slots: BTreeMap<usize, _> = about
                .flat
                .into_iter()
                .flat_map(|request| (0..request.shapes.len()).map(|at| (at, request.slot(at))))
                .collect();
            for pick in picks {
                if let Some(slot) = slots.get(&pick.shape) {
                    grant_units(graph, graph.pools.vertices()[pick.row], slot, pick.count, &mut granted);
                }
            }
        }
    }
    granted
}

/// Spreads units over the pools of a node: several of one type are filled in order.
fn grant_units(graph: &Graph, node: VertexId, slot: &SlotShape, count: u64, granted: &mut HashMap<VertexId, u64>) {
    for (kind, amount) in &slot.needs {
        let mut units = amount.saturating_mul(count);
        let pools = graph.vertex(node).children.iter().filter(|id| graph.vertex(**id).kind == *kind);
        for pool in pools {
            let given = granted.entry(*pool).or_default();
            let part = units.min(graph.vertex(*pool).size - *given);
            *given += part;
            units -= part;
            if *given == 0 {
                granted.remove(pool);
            }
        }
    }
}
