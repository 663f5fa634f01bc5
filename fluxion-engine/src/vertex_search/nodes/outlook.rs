//! From when on a search for a request may be of use, by the ends of the jobs on nodes.
//!
//! A reservation that finds no place is searched for at every instant at which something ends. Each
//! of these searches is one over the nodes; which of them cannot succeed is known from one look at
//! the holds of each node and their ends.

use smallvec::SmallVec;

use super::index::{EMPTIED, FIRST_TYPE, FREED, LATE_TYPE, NodeIndex, OPEN, UNTOUCHED};
use super::plan::{Origin, Plan};
use crate::graph::{Graph, VertexId};
use crate::schedule::Schedule;
use crate::vertex_search::request::Request;

/// The ends of holds: the column of the type, the instant, and the amount.
type Ends = SmallVec<[(usize, i64, i64); 16]>;

/// A look at all nodes for one request.
struct NodeOutlook<'a> {
    index: &'a NodeIndex,
    graph: &'a Graph,
    schedule: &'a Schedule,
    plan: &'a Plan,
    /// Vertices of a node that are still to be looked at.
    open: Vec<VertexId>,
    /// The ends of the holds of a node.
    ends: Ends,
}

/// True if a request finds no place before the window of the graph ends, since jobs that never end
/// hold too much: seen at the top of a tree, or by the room of the nodes that may serve.
pub(crate) fn is_never(index: &NodeIndex, request: &Request, plan: &Plan) -> bool {
    let least = request.levels[request.top.start].count.min;
    let wanted = match plan.origin {
        Origin::Nodes | Origin::Inside(_) => least,
        Origin::SlotsOfNodes(per_slot) => least.saturating_mul(per_slot),
    };
    let (mut room, mut from) = (0_u64, 0);
    while room < wanted {
        let may = |late: &[i64]| plan.may_ever(late);
        let Some(place) = index.late().next(from, false, &may) else { return true };
        let here = match plan.origin {
            Origin::Inside(_) => plan.room(&index.late().row(place)[LATE_TYPE..]),
            Origin::Nodes | Origin::SlotsOfNodes(_) => 1,
        };
        room = room.saturating_add(here);
        from = place + 1;
    }
    false
}

/// No node, or fewer than are needed, can serve a request at any instant before this. Planned
/// jobs are left out of account, so that a search may fail later, too.
pub(crate) fn hopeless_before(
    index: &NodeIndex,
    graph: &Graph,
    schedule: &Schedule,
    request: &Request,
    plan: &Plan,
) -> i64 {
    let least = request.levels[request.top.start].count.min;
    let wanted = match plan.origin {
        Origin::Nodes => least,
        Origin::SlotsOfNodes(per_slot) => least.saturating_mul(per_slot),
        // A node may have room for all of them.
        Origin::Inside(_) => least.min(1),
    };
    let Some(nth) = wanted.checked_sub(1) else { return i64::MIN };
    let nth = usize::try_from(nth).unwrap_or(usize::MAX);
    let constraint = request.constraint.as_ref();
    let admitted = constraint.map(|constraint| index.admitted(graph, constraint));
    let mut outlook =
        NodeOutlook { index, graph, schedule, plan, open: Vec::new(), ends: Ends::new() };
    let mut instants = Vec::new();
    for place in 0..index.places().len() {
        if !graph.pools.effort.take(1) {
            return i64::MIN;
        }
        if admitted.as_ref().is_none_or(|admitted| admitted.contains(place)) {
            instants.push(outlook.ready(place));
        }
    }
    if nth < instants.len() { *instants.select_nth_unstable(nth).1 } else { i64::MAX }
}

impl NodeOutlook<'_> {
    /// A node cannot serve before this instant: now, if it may at once, and `i64::MAX`, if it never
    /// can.
    fn ready(&mut self, place: usize) -> i64 {
        let (index, plan) = (self.index, self.plan);
        if !plan.fits(index.kinds().totals(place)) {
            return i64::MAX;
        }
        let row = index.rows().row(place);
        let mut at = index.now();
        if row[OPEN] < plan.open {
            let freed = row[if plan.open == UNTOUCHED { EMPTIED } else { FREED }];
            if freed == i64::MIN {
                return i64::MAX;
            }
            at = -freed;
        }
        if plan.fits(&row[FIRST_TYPE..]) {
            return at;
        }
        self.look(index.node(place));
        for (column, need) in &plan.needs {
            let mut missing = need.saturating_sub(row[FIRST_TYPE + column]);
            for (_, end, size) in self.ends.iter().filter(|(of, ..)| of == column) {
                if missing <= 0 {
                    break;
                }
                missing = missing.saturating_sub(*size);
                at = at.max(*end);
            }
            if missing > 0 {
                return i64::MAX;
            }
        }
        at
    }

    /// Notes the ends of the spans below a node, in the order of time.
    fn look(&mut self, node: VertexId) {
        let NodeOutlook { index, graph, schedule, open, ends, .. } = self;
        ends.clear();
        open.clear();
        open.extend_from_slice(graph.children(node));
        while let Some(vertex) = open.pop() {
            let spans = schedule.spans_at(vertex, index.now());
            if let Some(last) = spans.map(|span| span.to).max() {
                let size = i64::try_from(graph.size(vertex)).unwrap_or(i64::MAX);
                ends.push((index.kinds().column_of(graph, vertex), last, size));
            }
            open.extend_from_slice(graph.children(vertex));
        }
        ends.sort_unstable_by_key(|(_, end, _)| *end);
    }
}
