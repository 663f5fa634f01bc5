//! The best candidates, node by node.

use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::answer::Answer;
use super::index::NodeIndex;
use super::plan::{Origin, Plan};
use crate::bits::Bits;
use crate::graph::{TypeId, VertexId};
use crate::policy::Order;
use crate::vertex_search::choose::{Gathered, Group};
use crate::vertex_search::scene::Scene;
use crate::vertex_search::walk::Walk;

/// The number of nodes that are looked up one by one.
const FEW: usize = 16;

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

/// A scan over the index for nodes that may serve.
struct Scan<'a> {
    scene: Scene<'a>,
    index: &'a NodeIndex,
    plan: &'a Plan,
    admitted: Option<Arc<Bits>>,
    down: bool,
    /// Where to look next.
    at: Option<usize>,
    /// A node was passed over.
    skipped: bool,
}

impl<'a> Scan<'a> {
    /// A scan from one end of the nodes or the other.
    fn new(scene: Scene<'a>, index: &'a NodeIndex, plan: &'a Plan, down: bool) -> Self {
        let constraint = scene.request.constraint.as_ref();
        let admitted = constraint.map(|constraint| index.admitted(scene.graph, constraint));
        let nodes = index.places().len();
        let at = if down { nodes.checked_sub(1) } else { Some(0).filter(|_| nodes > 0) };
        Scan { scene, index, plan, admitted, down, at, skipped: false }
    }

    /// Goes on behind a place.
    fn step(&mut self, place: usize) {
        let next = if self.down { place.checked_sub(1) } else { Some(place + 1) };
        self.at = next.filter(|next| *next < self.index.places().len());
    }

    /// The next node that may serve.
    fn advance(&mut self) -> Option<usize> {
        let (index, plan, down) = (self.index, self.plan, self.down);
        let kinds = index.kinds();
        while self.scene.graph.pools.effort.take(1) {
            let from = self.at?;
            let place = if self.scene.window.status_ignored {
                let fits = |place: &usize| plan.fits(kinds.totals(*place));
                if down {
                    (0..=from).rev().find(fits)
                } else {
                    (from..index.places().len()).find(fits)
                }
            } else {
                let window = self.scene.window;
                index.rows().next(from, down, &|row: &[i64]| plan.may(row, window))
            };
            let is_before = self.scene.window.is_before_the_end();
            let fits = place.is_none_or(|place| {
                plan.fits(kinds.totals(place))
                    && (!is_before || plan.may_ever(index.late().row(place)))
            });
            self.skipped |= place != Some(from);
            let place = place?;
            match &self.admitted {
                _ if !fits => self.step(place),
                Some(admitted) if !admitted.contains(place) => {
                    self.skipped = true;
                    self.at =
                        if down { admitted.last_to(place) } else { admitted.first_from(place) };
                }
                _ => {
                    self.step(place);
                    return Some(place);
                }
            }
        }
        None
    }

    /// No candidate of a node costs less; `None`: it has none.
    fn bound(&self, place: usize) -> Option<i128> {
        let Scene { graph, policy, request, .. } = self.scene;
        let node = self.index.node(place);
        let factor = i128::from(policy.factor(graph, node)?);
        let Origin::Inside(terms) = &self.plan.origin else {
            let score = i128::from(graph.id(node)) + 2;
            return Some(if self.down { -score } else { score });
        };
        let slot = i128::from(request.levels[request.top.start].kind == TypeId::SLOT);
        let score = terms.iter().fold(slot, |sum, (column, count)| {
            let (lowest, highest) = self.index.kinds().ids(*column);
            let id = if self.down { highest } else { lowest };
            sum + i128::from(*count) * (factor + i128::from(id) + 2)
        });
        Some(if self.down { -score } else { score })
    }
}

/// No node can serve, whatever the policy.
pub(crate) fn is_hopeless(scene: &Scene<'_>, index: &NodeIndex, plan: &Plan) -> bool {
    let (top, late) = (index.rows().top(), index.late().top());
    let is_never = || scene.window.is_before_the_end() && !plan.may_ever(late);
    !plan.fits(index.kinds().most())
        || !scene.window.status_ignored
            && (top.is_empty() || !plan.may(top, scene.window) || is_never())
}

/// Nodes that may serve, in the order of `first` and its like, and what they lie below; if these
/// are few.
pub(crate) fn few(
    scene: Scene<'_>,
    index: &NodeIndex,
    plan: &Plan,
) -> Option<(VertexId, Vec<VertexId>)> {
    let usable = !scene.window.status_ignored
        && scene.graph.has_ascending_children()
        && index.places().len() > FEW;
    let parent = index.places().parent().filter(|_| usable)?;
    let mut scan = Scan::new(scene, index, plan, false);
    let mut few = Vec::new();
    while let Some(place) = scan.advance() {
        if few.len() == FEW {
            return None;
        }
        few.push(index.node(place));
    }
    scene.weights.put_in_order(scene.graph, parent, &mut few);
    Some((parent, few))
}

/// Chooses as [`Walk::run`] does, but looks only at nodes that may be chosen. `any`: whatever it
/// is, if only there is something wherever the walk finds something.
pub(crate) fn run(walk: &mut Walk<'_>, index: &NodeIndex, plan: &Plan, any: bool) -> Answer {
    let scene = walk.scene();
    let Scene { request, policy, .. } = scene;
    let down = policy.order() == Order::Descending;
    let top = request.top.clone();
    let kind = match plan.origin {
        Origin::SlotsOfNodes(_) => TypeId::NODE,
        _ => request.levels[top.start].kind,
    };
    let size = usize::try_from(plan.target).unwrap_or(usize::MAX);
    let mut best = Best { costs: BinaryHeap::new(), size, next: None };
    let mut passable: HashMap<VertexId, bool> = HashMap::new();
    let mut gathered = Gathered::default();
    // How many candidates there were after each node, and where the walk comes to it.
    let mut looked: Vec<(u32, usize)> = Vec::new();
    let mut scan = Scan::new(scene, index, plan, down);
    let mut complete = true;
    while let Some(place) = scan.advance() {
        // A node with a score that cannot be counted has no candidates.
        let Some(bound) = scan.bound(place) else { continue };
        if best.worst().is_some_and(|worst| any || bound > i128::from(worst)) {
            complete = false;
            break;
        }
        let node = index.node(place);
        if !is_passable(walk, node, &mut passable) {
            scan.skipped = true;
            continue;
        }
        let before = gathered.get(kind).len();
        let _ = match plan.origin {
            Origin::SlotsOfNodes(_) => {
                let parts = request.levels[top.start].with.clone();
                walk.offer(node, &parts, false, true, 0, &mut gathered)
            }
            _ => walk.offer(node, &top, true, false, 0, &mut gathered),
        };
        let groups = gathered.get(kind);
        for group in &groups[before..] {
            if group.score <= 0 || group.count != 1 {
                return Answer::Unsure;
            }
            best.push(if down { -group.score } else { group.score });
        }
        looked.push((index.places().walked(place), groups.len()));
    }
    // A node that was not visited is refused where there is a job on it, or the constraint does not
    // admit it.
    let nodes = index.places().len();
    let constrained = scan.admitted.as_ref().is_some_and(|admitted| admitted.count() < nodes);
    let refused = scan.skipped || !complete && (index.is_in_use(plan.open) || constrained);
    walk.obstacles().pass_over(refused);
    if complete {
        restore(gathered.get(kind), &mut looked);
    } else if !any && best.worst().zip(best.next).is_some_and(|(worst, next)| next <= worst) {
        return Answer::Unsure;
    }
    let mut found = gathered;
    if let Origin::SlotsOfNodes(_) = plan.origin {
        let Some(parent) = index.places().parent() else { return Answer::Unsure };
        let inside = std::mem::take(&mut found);
        walk.pack(parent, top.start, 0, inside, &mut found);
    }
    match walk.choose(&top, &mut found, policy.order()) {
        Some(chosen) => Answer::Chosen(chosen),
        None => Answer::Nothing,
    }
}

/// Whether the walk comes as far as to a node.
fn is_passable(walk: &mut Walk<'_>, node: VertexId, known: &mut HashMap<VertexId, bool>) -> bool {
    let scene = walk.scene();
    let Some(above) = scene.graph.parent(node) else { return true };
    if let Some(passable) = known.get(&above) {
        return *passable;
    }
    let passable = walk.may_enter(above, &scene.request.top) && is_passable(walk, above, known);
    walk.obstacles().pass_over(!passable);
    known.insert(above, passable);
    passable
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
