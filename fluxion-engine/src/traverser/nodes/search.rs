//! The best candidates, node by node.

use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::plan::Form;
use super::{NodeIndex, Plan};
use crate::bits::Bits;
use crate::graph::{TypeId, VertexId};
use crate::policy::Order;
use crate::traverser::choose::{Gathered, Group};
use crate::traverser::walk::Walk;

/// The number of nodes that are looked up one by one.
const FEW: usize = 16;

/// The outcome of a search over nodes.
pub(crate) enum Answer {
    /// The choices of the walk at the top: a range of its choices.
    Chosen(Range<usize>),
    /// The walk would find nothing.
    Nothing,
    /// Only the walk can tell.
    Unsure,
}

/// The best costs so far, as many as can be chosen.
struct Best {
    costs: BinaryHeap<i64>,
    size: usize,
    /// The least cost that is not among them.
    next: Option<i64>,
}

impl Best {
    fn push(&mut self, cost: i64) {
        self.costs.push(cost);
        if self.costs.len() > self.size
            && let Some(out) = self.costs.pop()
        {
            self.next = Some(self.next.map_or(out, |next| next.min(out)));
        }
    }

    /// The worst of them, if there are as many as can be chosen.
    fn worst(&self) -> Option<i64> {
        self.costs.peek().copied().filter(|_| self.costs.len() == self.size)
    }
}

/// Nodes that may serve, in order.
struct Cursor<'a> {
    index: &'a NodeIndex,
    plan: &'a Plan,
    admitted: Option<Arc<Bits>>,
    down: bool,
    /// Where to look next.
    at: Option<usize>,
    /// A node was passed over.
    skipped: bool,
}

impl Cursor<'_> {
    /// Goes on behind a place.
    fn step(&mut self, place: usize) {
        let next = if self.down { place.checked_sub(1) } else { Some(place + 1) };
        self.at = next.filter(|next| *next < self.index.nodes.len());
    }
}

impl Walk<'_> {
    /// Nodes that may serve, from one end or the other.
    fn cursor<'a>(&self, index: &'a NodeIndex, plan: &'a Plan, down: bool) -> Cursor<'a> {
        let admitted = self
            .request
            .constraint
            .as_ref()
            .map(|constraint| index.admitted(self.graph, constraint));
        let at = if down {
            index.nodes.len().checked_sub(1)
        } else {
            Some(0).filter(|_| !index.nodes.is_empty())
        };
        Cursor { index, plan, admitted, down, at, skipped: false }
    }

    /// No node can serve, whatever the policy.
    pub(crate) fn is_hopeless(&self, index: &NodeIndex, plan: &Plan) -> bool {
        let top = index.rows.top();
        !plan.fits(&index.most)
            || !self.window.status_ignored && (top.is_empty() || !plan.may(top, self.window))
    }

    /// Nodes that may serve, in the order of `first` and its like, and what they lie below; if
    /// these are few.
    pub(crate) fn few(&self, index: &NodeIndex, plan: &Plan) -> Option<(VertexId, Vec<VertexId>)> {
        let usable = !self.window.status_ignored
            && self.graph.has_ascending_children()
            && index.nodes.len() > FEW;
        let parent = index.parent.filter(|_| usable)?;
        let mut cursor = self.cursor(index, plan, false);
        let mut few = Vec::new();
        while let Some(place) = self.advance(&mut cursor) {
            if few.len() == FEW {
                return None;
            }
            few.push(index.node(place));
        }
        self.weights.put_in_order(self.graph, parent, &mut few);
        Some((parent, few))
    }

    /// Chooses as [`Walk::run`] does, but looks only at nodes that may be chosen. `any`: whatever
    /// it is, if only there is something wherever the walk finds something.
    pub(crate) fn run_by_nodes(&mut self, index: &NodeIndex, plan: &Plan, any: bool) -> Answer {
        let down = self.policy.order() == Order::Descending;
        let request = self.request;
        let top = request.top.clone();
        let kind = match plan.form {
            Form::SlotsOfNodes(_) => TypeId::NODE,
            _ => request.levels[top.start].kind,
        };
        let size = usize::try_from(plan.target).unwrap_or(usize::MAX);
        let mut best = Best { costs: BinaryHeap::new(), size, next: None };
        let mut passable: HashMap<VertexId, bool> = HashMap::new();
        let mut gathered = Gathered::default();
        // How many candidates there were after each node, and where the walk comes to it.
        let mut looked: Vec<(u32, usize)> = Vec::new();
        let mut cursor = self.cursor(index, plan, down);
        let mut complete = true;
        while let Some(place) = self.advance(&mut cursor) {
            let Some(bound) = self.bound(index, plan, place) else { continue };
            if best.worst().is_some_and(|worst| any || bound > i128::from(worst)) {
                complete = false;
                break;
            }
            let node = index.node(place);
            if !self.is_passable(node, &mut passable) {
                cursor.skipped = true;
                continue;
            }
            let before = gathered.get(kind).len();
            let _ = match plan.form {
                Form::SlotsOfNodes(_) => {
                    let parts = request.levels[top.start].with.clone();
                    self.offer(node, &parts, false, true, 0, &mut gathered)
                }
                _ => self.offer(node, &top, true, false, 0, &mut gathered),
            };
            let groups = gathered.get(kind);
            for group in &groups[before..] {
                if group.score <= 0 || group.count != 1 {
                    return Answer::Unsure;
                }
                best.push(if down { -group.score } else { group.score });
            }
            looked.push((index.walked[place], groups.len()));
        }
        // A node that was not visited is refused where there is a job on it, or the constraint does
        // not admit it.
        let constrained =
            cursor.admitted.as_ref().is_some_and(|admitted| admitted.count() < index.nodes.len());
        self.refused |= cursor.skipped || !complete && (index.in_use > 0 || constrained);
        if complete {
            restore(gathered.get(kind), &mut looked);
        } else if !any && best.worst().zip(best.next).is_some_and(|(worst, next)| next <= worst) {
            return Answer::Unsure;
        }
        let mut found = gathered;
        if let Form::SlotsOfNodes(_) = plan.form {
            let Some(parent) = index.parent else { return Answer::Unsure };
            let inside = std::mem::take(&mut found);
            self.pack(parent, top.start, 0, inside, &mut found);
        }
        match self.choose(&top, &mut found, self.policy.order()) {
            Some(chosen) => Answer::Chosen(chosen),
            None => Answer::Nothing,
        }
    }

    /// The next node that may serve.
    fn advance(&self, cursor: &mut Cursor<'_>) -> Option<usize> {
        let (index, plan, down) = (cursor.index, cursor.plan, cursor.down);
        while self.graph.pools.effort.take(1) {
            let from = cursor.at?;
            let place = if self.window.status_ignored {
                let fits = |place: &usize| plan.fits(index.totals(*place));
                if down {
                    (0..=from).rev().find(fits)
                } else {
                    (from..index.nodes.len()).find(fits)
                }
            } else {
                index.rows.next(from, down, &|row: &[i64]| plan.may(row, self.window))
            };
            let fits = place.is_none_or(|place| plan.fits(index.totals(place)));
            cursor.skipped |= place != Some(from);
            let place = place?;
            match &cursor.admitted {
                _ if !fits => cursor.step(place),
                Some(admitted) if !admitted.contains(place) => {
                    cursor.skipped = true;
                    cursor.at =
                        if down { admitted.last_to(place) } else { admitted.first_from(place) };
                }
                _ => {
                    cursor.step(place);
                    return Some(place);
                }
            }
        }
        None
    }

    /// No candidate of a node costs less; `None`: it has none.
    fn bound(&self, index: &NodeIndex, plan: &Plan, place: usize) -> Option<i128> {
        let (graph, node) = (self.graph, index.node(place));
        let down = self.policy.order() == Order::Descending;
        let factor = i128::from(self.policy.factor(graph, node)?);
        let Form::Inside(terms) = &plan.form else {
            let score = i128::from(graph.id(node)) + 2;
            return Some(if down { -score } else { score });
        };
        let slot = i128::from(self.request.levels[self.request.top.start].kind == TypeId::SLOT);
        let score = terms.iter().fold(slot, |sum, (column, count)| {
            let column = &index.types[*column];
            let id = if down { column.highest_id } else { column.lowest_id };
            sum + i128::from(*count) * (factor + i128::from(id) + 2)
        });
        Some(if down { -score } else { score })
    }

    /// Whether the walk comes as far as to a node.
    fn is_passable(&mut self, node: VertexId, known: &mut HashMap<VertexId, bool>) -> bool {
        let Some(above) = self.graph.parent(node) else { return true };
        if let Some(passable) = known.get(&above) {
            return *passable;
        }
        let top = self.request.of_range(&self.request.top);
        let passable = self.prune(above, self.graph.kind(above), top, false).is_ok()
            && self.is_passable(above, known);
        self.refused |= !passable;
        known.insert(above, passable);
        passable
    }
}

/// Puts candidates in the order in which the walk finds them.
fn restore(groups: &mut Vec<Group>, looked: &mut [(u32, usize)]) {
    if looked.is_sorted_by_key(|(walked, _)| *walked) {
        return;
    }
    let mut from = 0;
    let mut parts: Vec<(u32, Range<usize>)> = Vec::with_capacity(looked.len());
    for (walked, to) in looked.iter() {
        parts.push((*walked, from..*to));
        from = *to;
    }
    parts.sort_unstable_by_key(|(walked, _)| *walked);
    *groups = parts.into_iter().flat_map(|(_, range)| groups[range].to_vec()).collect();
}
