//! The nodes of a machine with the free resources of each, brought up to date when a match begins.

use std::sync::Arc;

use super::kept::{ChangedNodes, Lists};
use super::kinds::Kinds;
use super::places::Places;
use crate::admitted::Admitted;
use crate::bits::Bits;
use crate::constraint::Constraint;
use crate::graph::{Graph, VertexId};
use crate::maxima::Tree;
use crate::schedule::Schedule;
use crate::time::{FAR, WINDOW_SECONDS};

/// Values of column [`OPEN`].
pub(super) const SHARED: i64 = 1;
pub(super) const UNTOUCHED: i64 = 2;

/// Columns of a row. After these comes one per type, with its free units.
pub(super) const OPEN: usize = 0;
/// The instant from which something that is held comes free, negated; never: `i64::MIN`.
pub(super) const FREED: usize = 1;
/// The same for the instant from which on there is no job on the node.
pub(super) const EMPTIED: usize = 2;
/// The same for the next end of a job; jobs past their end do not count.
const ENDS: usize = 3;
pub(super) const FIRST_TYPE: usize = 4;
/// The first type in the rows of `NodeIndex::late`; before it comes [`OPEN`].
pub(super) const LATE_TYPE: usize = 1;

/// Nodes in order, and the free resources of each.
#[derive(Debug, Clone)]
pub(crate) struct NodeIndex {
    /// Of the graph, when the index was made.
    revision: u64,
    places: Places,
    kinds: Kinds,
    /// Nodes on which something is going to be taken.
    planned: Bits,
    lists: Lists,
    journal: ChangedNodes,
    rows: Tree,
    /// By node, the resources that there can be before the window of the graph ends: whether jobs
    /// that never end are on it, and for each type its units but for those that these hold.
    late: Tree,
    /// Places of nodes of which some vertices are not free.
    in_use: Bits,
    /// Places of nodes of which jobs have units of pools.
    with_units: Bits,
    now: i64,
    /// Which nodes a constraint admits, for those asked last.
    admitted: Admitted,
}

impl NodeIndex {
    /// The index of a graph, or `None` if it is no tree, if nodes lie below nodes, or if they hold
    /// too many types.
    pub(crate) fn new(graph: &Graph, schedule: &Schedule, now: i64) -> Option<Self> {
        if graph.has_associations() {
            return None;
        }
        let (mut nodes, mut outside) = (Vec::new(), vec![false; graph.types().len()]);
        find_nodes(graph, graph.root(), &mut nodes, &mut outside);
        let places = Places::new(graph, nodes);
        let kinds = Kinds::new(graph, &places, &outside)?;
        let mut index = NodeIndex {
            revision: graph.changes().revision(),
            places,
            kinds,
            planned: Bits::default(),
            lists: Lists::default(),
            journal: ChangedNodes::default(),
            rows: Tree::default(),
            late: Tree::default(),
            in_use: Bits::default(),
            with_units: Bits::default(),
            now,
            admitted: Admitted::default(),
        };
        index.fill(graph, schedule);
        Some(index)
    }

    /// The nodes in their orders.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// The types of vertices below nodes.
    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The free resources of all nodes.
    pub(super) fn rows(&self) -> &Tree {
        &self.rows
    }

    /// The most that each node can have before the window of the graph ends: `Plan::may_ever`.
    pub(super) fn late(&self) -> &Tree {
        &self.late
    }

    /// Places of nodes on which something is going to be taken.
    pub(super) fn planned(&self) -> &Bits {
        &self.planned
    }

    /// The candidates of requests that came before, and the nodes that have changed since.
    pub(super) fn kept(&self) -> (&Lists, &ChangedNodes) {
        (&self.lists, &self.journal)
    }

    /// True if on some node something is not free that is in the way of a request with this value
    /// of `Plan::open`.
    pub(super) fn is_in_use(&self, open: i64) -> bool {
        self.in_use.first_from(0).is_some()
            || open == UNTOUCHED && self.with_units.first_from(0).is_some()
    }

    /// Whether the graph is the one of which this is the index.
    pub(crate) fn is_of(&self, graph: &Graph) -> bool {
        self.revision == graph.changes().revision()
    }

    /// Forgets which nodes constraints admit: properties have changed.
    pub(crate) fn forget_constraints(&mut self) {
        self.admitted.forget();
        self.lists.clear();
    }

    /// Brings the rows of the nodes up to date that hold these vertices.
    pub(crate) fn refresh(&mut self, graph: &Graph, schedule: &Schedule, touched: &[VertexId]) {
        let mut last = VertexId::NONE;
        for vertex in touched {
            let mut at = Some(*vertex);
            while let Some(vertex) = at.filter(|vertex| !graph.is_node(*vertex)) {
                at = graph.parent(vertex);
            }
            if let Some(node) = at.filter(|node| *node != last)
                && let Some(place) = self.places.place(node)
            {
                last = node;
                self.refresh_row(graph, schedule, place);
            }
        }
    }

    /// Moves the present: rows of nodes are brought up to date on which a job was to end by now.
    pub(crate) fn advance(&mut self, graph: &Graph, schedule: &Schedule, now: i64) {
        if now <= self.now {
            return;
        }
        self.now = now;
        let mut from = 0;
        while let Some(place) = self.rows.next(from, false, &|row: &[i64]| row[ENDS] >= -now) {
            self.refresh_row(graph, schedule, place);
            from = place + 1;
        }
    }

    /// The nodes that a constraint admits.
    pub(crate) fn admitted(&self, graph: &Graph, constraint: &Constraint) -> Arc<Bits> {
        self.admitted.get(constraint, || {
            let mut bits = Bits::empty(self.places.len());
            for (place, node) in self.places.nodes().iter().enumerate() {
                if constraint.admits(&graph.subject(*node)) {
                    bits.insert(place);
                }
            }
            bits
        })
    }

    /// When its rows were brought up to date.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// The node at a place.
    pub(crate) fn node(&self, place: usize) -> VertexId {
        self.places.node(place)
    }

    /// All that follows from the book, as text.
    #[cfg(test)]
    pub(crate) fn derived(&self) -> String {
        let NodeIndex { rows, late, now, .. } = self;
        let sets = [&self.in_use, &self.with_units, &self.planned];
        let sets = sets.map(|places| places.iter().collect::<Vec<_>>());
        format!("{now} {sets:?} {rows:?} {late:?}")
    }

    fn fill(&mut self, graph: &Graph, schedule: &Schedule) {
        let (count, nodes) = (self.kinds.len(), self.places.len());
        let mut rows = Vec::with_capacity(nodes * (FIRST_TYPE + count));
        let mut late = Vec::with_capacity(nodes * (LATE_TYPE + count));
        let (mut row, mut last) = (Vec::new(), Vec::new());
        for place in 0..nodes {
            self.look(graph, schedule, place, (&mut row, &mut last));
            rows.extend_from_slice(&row);
            late.extend_from_slice(&last);
        }
        self.rows = Tree::new(FIRST_TYPE + count, rows);
        self.late = Tree::new(LATE_TYPE + count, late);
    }

    fn refresh_row(&mut self, graph: &Graph, schedule: &Schedule, place: usize) {
        let mut row = Vec::with_capacity(FIRST_TYPE + self.kinds.len());
        let mut late = Vec::with_capacity(LATE_TYPE + self.kinds.len());
        self.look(graph, schedule, place, (&mut row, &mut late));
        self.journal.note(place);
        if self.journal.is_long(self.places.len()) {
            self.journal = ChangedNodes::default();
            self.lists.clear();
        }
        self.rows.set(place, &row);
        self.late.set(place, &late);
    }

    /// Reads the row of a node, and notes whether anything is in use or planned there.
    fn look(
        &mut self,
        graph: &Graph,
        schedule: &Schedule,
        place: usize,
        (row, late): (&mut Vec<i64>, &mut Vec<i64>),
    ) {
        self.row(graph, schedule, place, (&mut *row, &mut *late));
        let is_used = row[OPEN] != UNTOUCHED || row[FIRST_TYPE..] != *self.kinds.totals(place);
        let has_units = self.count_units(graph, place, row, late);
        let is_planned = self.is_planned(graph, schedule, place);
        for (places, has) in [
            (&mut self.in_use, is_used),
            (&mut self.with_units, has_units),
            (&mut self.planned, is_planned),
        ] {
            if has { places.insert(place) } else { places.remove(place) }
        }
    }

    /// Whether more of a node is going to be taken than is taken now.
    fn is_planned(&self, graph: &Graph, schedule: &Schedule, place: usize) -> bool {
        let node = self.places.node(place);
        let begins =
            |vertex: VertexId| schedule.spans(vertex).iter().any(|span| span.from > self.now);
        let row = graph.position_of(node).filter(|_| graph.has_pool_types());
        if row.is_some_and(|row| graph.pools.by_node().has_planned(row)) {
            return true;
        }
        schedule.is_occupied(node)
            && (schedule.planner(node).is_some_and(|planner| planner.grows_after(self.now))
                || graph.subtree(node).into_iter().any(begins))
    }

    /// A node of which jobs have units is not untouched before the last of these is given back.
    /// True if they have any now.
    fn count_units(&self, graph: &Graph, place: usize, row: &mut [i64], late: &mut [i64]) -> bool {
        let node = self.places.node(place);
        let of_pools = graph.position_of(node).filter(|_| graph.has_pool_types());
        let end = of_pools.and_then(|row| graph.pools.by_node().last_end(row));
        let Some(end) = end.filter(|_| graph.is_marked_up(node)) else { return false };
        let emptied = if end == FAR { i64::MIN } else { -end };
        let is_untouched = row[OPEN] == UNTOUCHED;
        row[EMPTIED] = if is_untouched { emptied } else { row[EMPTIED].min(emptied) };
        row[OPEN] = row[OPEN].min(SHARED);
        if end >= WINDOW_SECONDS {
            late[OPEN] = late[OPEN].min(SHARED);
        }
        true
    }

    /// The free resources of a node now, and those that there can be before the window of the graph
    /// ends.
    fn row(
        &self,
        graph: &Graph,
        schedule: &Schedule,
        place: usize,
        (row, late): (&mut Vec<i64>, &mut Vec<i64>),
    ) {
        let node = self.places.node(place);
        row.clear();
        row.extend_from_slice(&[UNTOUCHED, i64::MIN, i64::MIN, i64::MIN]);
        late.clear();
        late.push(UNTOUCHED);
        if !graph.is_marked_up(node) {
            (row[OPEN], late[OPEN]) = (0, 0);
            row.resize(FIRST_TYPE + self.kinds.len(), 0);
            late.resize(LATE_TYPE + self.kinds.len(), 0);
            return;
        }
        row.extend_from_slice(self.kinds.totals(place));
        late.extend_from_slice(self.kinds.totals(place));
        if !schedule.is_occupied(node) {
            return;
        }
        if let Some(planner) = schedule.planner(node)
            && planner.peak(self.now, self.now + 1, 0) > 0
        {
            row[OPEN] = SHARED;
            row[EMPTIED] = planner.next_gap(self.now).map_or(i64::MIN, |at| -at);
            row[ENDS] = row[EMPTIED];
        }
        if let Some(end) = self.take(schedule, node, row) {
            row[OPEN] = 0;
            // A node with nothing below it has no planner.
            row[EMPTIED] = row[EMPTIED].max(row[FREED]);
            if end >= WINDOW_SECONDS {
                late[OPEN] = 0;
            }
        }
        let mut open: Vec<VertexId> = graph.children(node).to_vec();
        while let Some(vertex) = open.pop() {
            if let Some(end) = self.take(schedule, vertex, row) {
                let column = self.kinds.column_of(graph, vertex);
                let size = i64::try_from(graph.size(vertex)).unwrap_or(i64::MAX);
                row[FIRST_TYPE + column] -= size;
                if end >= WINDOW_SECONDS {
                    late[LATE_TYPE + column] -= size;
                    late[OPEN] = late[OPEN].min(SHARED);
                }
            }
            open.extend_from_slice(graph.children(vertex));
        }
    }

    /// The last end of the jobs that have a vertex for themselves now, if there are any; notes
    /// each end.
    fn take(&self, schedule: &Schedule, vertex: VertexId, row: &mut [i64]) -> Option<i64> {
        let ends = schedule.spans_at(vertex, self.now).map(|span| span.to);
        ends.inspect(|end| {
            row[FREED] = row[FREED].max(-end);
            row[ENDS] = row[ENDS].max(-end);
        })
        .max()
    }
}

/// Finds the nodes, in the order of the walk, and which types lie elsewhere than below them.
fn find_nodes(graph: &Graph, vertex: VertexId, nodes: &mut Vec<VertexId>, outside: &mut [bool]) {
    if graph.is_node(vertex) {
        nodes.push(vertex);
        return;
    }
    outside[graph.kind(vertex).index()] = true;
    for child in graph.children(vertex) {
        find_nodes(graph, *child, nodes, outside);
    }
}
