//! The needs of a request of a node, and how its candidates are scored.

use smallvec::SmallVec;

use super::index::{EMPTIED, FIRST_TYPE, FREED, LATE_TYPE, NodeIndex, OPEN, SHARED, UNTOUCHED};
use crate::amounts::amount_of;
use crate::graph::{TypeId, VertexId};
use crate::policy::{Order, Policy};
use crate::vertex_search::request::{Levels, Request, RequestLevel};
use crate::vertex_search::scene::Window;

/// Facts about a request before any node is visited.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The least that must be free below a node that serves it: column of the types, amount.
    pub(super) needs: SmallVec<[(usize, i64); 4]>,
    /// Whether it must be the only one on the node.
    pub(super) open: i64,
    pub(super) origin: Origin,
    /// How many candidates can be chosen at most.
    pub(super) target: u64,
}

/// The origin of candidates.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// They are nodes.
    Nodes,
    /// They are nodes, packed into slots above them; this number per slot.
    SlotsOfNodes(u64),
    /// They are vertices below nodes, or slots of these: column of the types, and how many of it a
    /// candidate has.
    Inside(SmallVec<[(usize, u64); 4]>),
}

impl Plan {
    /// The plan, or `None` where only a walk can tell: levels that are not to be found in nodes,
    /// contradictions, ranges inside of slots, vertices of one type that count for different
    /// numbers.
    pub(crate) fn of(index: &NodeIndex, request: &Request) -> Option<Self> {
        let [top] = request.of_range(&request.top) else { return None };
        if request.levels.iter().any(|level| level.exclusive == Some(false)) {
            return None;
        }
        for level in &request.levels {
            let below = request.of_range(&level.with);
            let twice = |at: usize| below[..at].iter().any(|other| other.kind == below[at].kind);
            if (0..below.len()).any(twice) {
                return None;
            }
        }
        let mut plan = Plan {
            needs: SmallVec::new(),
            open: SHARED,
            origin: Origin::Nodes,
            target: top.count.max,
        };
        let exclusive = top.exclusive == Some(true);
        match top.kind {
            TypeId::NODE => {
                plan.of_node(index, request, top, exclusive)?;
            }
            TypeId::SLOT => match request.of_range(&top.with) {
                [node] if node.kind == TypeId::NODE => {
                    // The flexible traverser has its own way to form slots.
                    index.places().parent().filter(|_| request.unions.is_empty())?;
                    let per_slot = fixed(node)?;
                    plan.of_node(index, request, node, true)?;
                    plan.target = top.count.max.checked_mul(per_slot)?;
                    plan.origin = Origin::SlotsOfNodes(per_slot);
                }
                parts => {
                    let mut terms = SmallVec::new();
                    for part in parts {
                        let (column, size) = index.kinds().inside(part.kind)?;
                        terms.push((column, fixed(part)?.div_ceil(size)));
                    }
                    plan.need(index, request, &top.with, 1, true)?;
                    plan.origin = Origin::Inside(terms);
                }
            },
            kind => {
                let (column, _) = index.kinds().inside(kind).filter(|(_, size)| *size == 1)?;
                if exclusive {
                    plan.needs.push((column, 1));
                }
                plan.need(index, request, &top.with, 1, exclusive)?;
                plan.origin = Origin::Inside(SmallVec::from_slice(&[(column, 1)]));
            }
        }
        Some(plan)
    }

    /// A candidate is a node.
    fn of_node(
        &mut self,
        index: &NodeIndex,
        request: &Request,
        node: &RequestLevel,
        exclusive: bool,
    ) -> Option<()> {
        if !index.places().are_plain() {
            return None;
        }
        self.open = if exclusive || node.exclusive == Some(true) { UNTOUCHED } else { SHARED };
        self.need(index, request, &node.with, 1, self.open == UNTOUCHED)
    }

    /// Adds the needs of levels, each `times` times.
    fn need(
        &mut self,
        index: &NodeIndex,
        request: &Request,
        levels: &Levels,
        times: u64,
        exclusive: bool,
    ) -> Option<()> {
        for level in request.of_range(levels) {
            let exclusive =
                exclusive || level.exclusive == Some(true) || level.kind == TypeId::SLOT;
            let times = times.saturating_mul(level.count.min);
            if level.kind != TypeId::SLOT {
                let column = index.kinds().column(level.kind)?;
                // Vertices that are only passed through are left to the walk.
                if exclusive {
                    let amount = i64::try_from(times).unwrap_or(i64::MAX);
                    let sum = amount_of(&mut self.needs, column);
                    *sum = sum.saturating_add(amount);
                }
            }
            self.need(index, request, &level.with, times, exclusive)?;
        }
        Some(())
    }

    /// What all nodes lie directly below, where a slot has no parts that do.
    pub(crate) fn barren(&self, index: &NodeIndex) -> Option<VertexId> {
        index.places().parent().filter(|_| matches!(self.origin, Origin::Inside(_)))
    }

    /// Whether a node with this row, or one of several with these maxima, may serve.
    pub(super) fn may(&self, row: &[i64], window: Window) -> bool {
        if row[OPEN] >= self.open && self.fits(&row[FIRST_TYPE..]) {
            return true;
        }
        // Later it may, once something was given back.
        let column = if self.open == UNTOUCHED { EMPTIED } else { FREED };
        !window.is_now && row[column] > i64::MIN && row[column] >= -window.from
    }

    /// Whether a node with this row of [`NodeIndex::late`] may serve at any instant of a window
    /// that begins before that of the graph ends.
    pub(super) fn may_ever(&self, late: &[i64]) -> bool {
        late[OPEN] >= self.open && self.fits(&late[LATE_TYPE..])
    }

    /// How many candidates a node can have with these amounts of each type.
    pub(super) fn room(&self, amounts: &[i64]) -> u64 {
        let room = |(column, need): &(usize, i64)| amounts[*column].max(0).checked_div(*need);
        let least = self.needs.iter().filter_map(room).min().unwrap_or(i64::MAX);
        u64::try_from(least).unwrap_or(0)
    }

    /// True if these amounts of each type are enough.
    pub(super) fn fits(&self, amounts: &[i64]) -> bool {
        self.needs.iter().all(|(column, need)| amounts[*column] >= *need)
    }

    /// Whether the candidates of a node have scores that keep nodes apart, so that the best are
    /// found node by node.
    pub(crate) fn is_ordered(&self, policy: Policy) -> bool {
        matches!(policy.order(), Order::Ascending | Order::Descending)
            && !policy.stops_early()
            && (policy.is_node_centric() || !matches!(self.origin, Origin::Inside(_)))
    }
}

/// The count of a level that leaves no choice.
fn fixed(level: &RequestLevel) -> Option<u64> {
    (level.count.min == level.count.max).then_some(level.count.min)
}
