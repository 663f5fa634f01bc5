//! Which nodes could serve a request, best first, without a walk over the machine.
//!
//! # How
//!
//! Nodes stand in the order of their ids. A node's row tells the free resources there now: whether
//! a job is on it, how many vertices of each type are free, and when something of it comes free
//! next. A tree of maxima ([`crate::maxima`]) over the rows finds the next node that could serve;
//! [`plan`] tells the needs of a request of a node, and how its candidates are scored; [`search`]
//! looks into one node after the other, with the very code of the walk, until no node that is left
//! could be better than those that have been found.
//!
//! A row may promise too much, never too little: a node that is passed over is one that the walk
//! would leave without a candidate. So the outcome is that of a walk over all nodes. Where
//! that hangs on how equal scores happen to be sorted among all candidates, the search gives up,
//! and the walk is taken.
//!
//! Rows are brought up to date when a match begins: for nodes on which a vertex was taken, given
//! back or marked since, and for those on which a job was to end by now.

mod lists;
pub(crate) mod outlook;
mod plan;
mod search;

use std::sync::Arc;

use lists::{Journal, Lists};
pub(crate) use plan::Plan;
pub(crate) use search::Answer;

use crate::admitted::Admitted;
use crate::bits::Bits;
use crate::constraint::Constraint;
use crate::graph::{ByVertex, Graph, TypeId, VertexId};
use crate::maxima::Tree;
use crate::policy::Policy;
use crate::schedule::Schedule;

/// Stands for a type that no node has.
const NO_COLUMN: u8 = u8::MAX;
/// As many types as nodes may have below them; on a machine with more there is no index.
const COLUMNS_MAX: usize = 32;

/// Values of column [`OPEN`].
const SHARED: i64 = 1;
const UNTOUCHED: i64 = 2;

/// Columns of a row. After these comes one per type, with its free units.
const OPEN: usize = 0;
/// The instant from which something that is held comes free, negated; never: `i64::MIN`.
const FREED: usize = 1;
/// The same for the instant from which on there is no job on the node.
const EMPTIED: usize = 2;
/// The same for the next end of a job; jobs past their end do not count.
const ENDS: usize = 3;
const FIRST_TYPE: usize = 4;

/// Nodes in order, and the free resources of each.
#[derive(Debug, Clone)]
pub(crate) struct NodeIndex {
    /// Of the graph, when the index was made.
    revision: u64,
    /// By id, then by the factor of node-centric policies.
    nodes: Vec<VertexId>,
    places: ByVertex<u32>,
    /// In which order the walk comes to them.
    walked: Vec<u32>,
    /// The same the other way round.
    by_walk: Vec<u32>,
    /// What nodes lie directly below.
    parents: Vec<VertexId>,
    /// Nodes on which something is going to be taken.
    planned: Bits,
    lists: Lists,
    journal: Journal,
    /// By type: its column, counted from [`FIRST_TYPE`].
    columns: Vec<u8>,
    types: Vec<Column>,
    /// What all nodes lie directly below, if it is one.
    parent: Option<VertexId>,
    /// No node has another size than 1.
    plain_nodes: bool,
    /// The resources of each node, free or not: a number per type.
    totals: Vec<i64>,
    /// The greatest of each.
    most: Vec<i64>,
    rows: Tree,
    /// Nodes of which not everything is free.
    in_use: usize,
    now: i64,
    /// Which nodes a constraint admits, for those asked last.
    admitted: Admitted,
}

/// Facts about the vertices of a type below nodes.
#[derive(Debug, Clone)]
struct Column {
    kind: TypeId,
    lowest_id: i64,
    highest_id: i64,
    /// The size of all of them; 0 if sizes differ.
    size: u64,
    /// None lies elsewhere than below nodes.
    inside: bool,
}

impl NodeIndex {
    /// The index of a graph, or `None` if it is no tree, if nodes lie below nodes, or if they hold
    /// too many types.
    pub(crate) fn new(graph: &Graph, schedule: &Schedule, now: i64) -> Option<Self> {
        if graph.has_associations() {
            return None;
        }
        let mut index = NodeIndex {
            revision: graph.revision(),
            nodes: Vec::new(),
            places: ByVertex::default(),
            walked: Vec::new(),
            by_walk: Vec::new(),
            parents: Vec::new(),
            planned: Bits::default(),
            lists: Lists::default(),
            journal: Journal::default(),
            columns: vec![NO_COLUMN; graph.types().len()],
            types: Vec::new(),
            parent: None,
            plain_nodes: true,
            totals: Vec::new(),
            most: Vec::new(),
            rows: Tree::default(),
            in_use: 0,
            now,
            admitted: Admitted::default(),
        };
        let mut outside = vec![false; graph.types().len()];
        index.find_nodes(graph, graph.root(), &mut outside);
        for node in index.nodes.clone() {
            for child in graph.children(node) {
                index.note_types(graph, *child)?;
            }
        }
        for column in &mut index.types {
            column.inside = !outside[column.kind.index()];
        }
        index.parents = index.nodes.iter().filter_map(|node| graph.parent(*node)).collect();
        index.parents.sort_unstable();
        index.parents.dedup();
        index.parent = if let [parent] = index.parents[..] { Some(parent) } else { None };
        index.sort(graph);
        index.fill(graph, schedule);
        Some(index)
    }

    /// Whether the graph is the one of which this is the index.
    pub(crate) fn is_of(&self, graph: &Graph) -> bool {
        self.revision == graph.revision()
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
                && let Some(place) = self.places.get(&node)
            {
                last = node;
                self.refresh_row(graph, schedule, *place as usize);
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
            let mut bits = Bits::empty(self.nodes.len());
            for (place, node) in self.nodes.iter().enumerate() {
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

    /// Nodes at places.
    pub(crate) fn node(&self, place: usize) -> VertexId {
        self.nodes[place]
    }

    fn column(&self, kind: TypeId) -> Option<usize> {
        self.columns
            .get(kind.index())
            .filter(|column| **column != NO_COLUMN)
            .map(|column| usize::from(*column))
    }

    /// Finds the nodes, in the order of the walk, and which types lie elsewhere.
    fn find_nodes(&mut self, graph: &Graph, vertex: VertexId, outside: &mut [bool]) {
        if graph.is_node(vertex) {
            self.nodes.push(vertex);
            self.plain_nodes &= graph.size(vertex) == 1;
            return;
        }
        outside[graph.kind(vertex).index()] = true;
        for child in graph.children(vertex) {
            self.find_nodes(graph, *child, outside);
        }
    }

    /// Takes note of a vertex below a node and all that lies below it. `None`: there cannot be an
    /// index.
    fn note_types(&mut self, graph: &Graph, vertex: VertexId) -> Option<()> {
        if graph.is_node(vertex) {
            return None;
        }
        let kind = graph.kind(vertex);
        let column = match self.column(kind) {
            Some(column) => column,
            None if self.types.len() == COLUMNS_MAX => return None,
            None => {
                self.columns[kind.index()] = u8::try_from(self.types.len()).ok()?;
                let (lowest_id, highest_id) = (i64::MAX, i64::MIN);
                self.types.push(Column {
                    kind,
                    lowest_id,
                    highest_id,
                    size: graph.size(vertex),
                    inside: true,
                });
                self.types.len() - 1
            }
        };
        let (id, size) = (graph.id(vertex), graph.size(vertex));
        let column = &mut self.types[column];
        column.lowest_id = column.lowest_id.min(id);
        column.highest_id = column.highest_id.max(id);
        column.size = if column.size == size { size } else { 0 };
        for child in graph.children(vertex) {
            self.note_types(graph, *child)?;
        }
        Some(())
    }

    /// Puts the nodes in order.
    fn sort(&mut self, graph: &Graph) {
        let key = |node: VertexId| (graph.id(node), Policy::LONODE.factor(graph, node));
        let mut order: Vec<(u32, VertexId)> = (0..).zip(self.nodes.iter().copied()).collect();
        order.sort_by_key(|(_, node)| key(*node));
        self.nodes = order.iter().map(|(_, node)| *node).collect();
        self.walked = order.iter().map(|(walked, _)| *walked).collect();
        self.by_walk = vec![0; order.len()];
        for (place, (walked, _)) in (0..).zip(&order) {
            self.by_walk[*walked as usize] = place;
        }
        self.places = (0..).zip(&self.nodes).map(|(place, node)| (*node, place)).collect();
    }

    fn fill(&mut self, graph: &Graph, schedule: &Schedule) {
        let count = self.types.len();
        self.totals = vec![0; self.nodes.len() * count];
        self.most = vec![0; count];
        for place in 0..self.nodes.len() {
            let row = &mut self.totals[place * count..][..count];
            for child in graph.children(self.nodes[place]) {
                total(graph, &self.columns, *child, row);
            }
            for (most, total) in self.most.iter_mut().zip(row) {
                *most = (*most).max(*total);
            }
        }
        let mut rows = Vec::with_capacity(self.nodes.len() * (FIRST_TYPE + count));
        let mut row = Vec::new();
        for place in 0..self.nodes.len() {
            self.row(graph, schedule, place, &mut row);
            self.in_use += usize::from(self.is_in_use(place, &row));
            if self.is_planned(graph, schedule, place) {
                self.planned.insert(place);
            }
            rows.extend_from_slice(&row);
        }
        self.rows = Tree::new(FIRST_TYPE + count, rows);
    }

    fn refresh_row(&mut self, graph: &Graph, schedule: &Schedule, place: usize) {
        let mut row = Vec::with_capacity(FIRST_TYPE + self.types.len());
        self.row(graph, schedule, place, &mut row);
        if self.is_planned(graph, schedule, place) {
            self.planned.insert(place);
        } else {
            self.planned.remove(place);
        }
        self.journal.note(place);
        if self.journal.is_long(self.nodes.len()) {
            self.journal = Journal::default();
            self.lists.clear();
        }
        self.in_use -= usize::from(self.is_in_use(place, self.rows.row(place)));
        self.in_use += usize::from(self.is_in_use(place, &row));
        self.rows.set(place, &row);
    }

    /// Whether more of a node is going to be taken than is taken now.
    fn is_planned(&self, graph: &Graph, schedule: &Schedule, place: usize) -> bool {
        let node = self.nodes[place];
        let begins =
            |vertex: VertexId| schedule.holds(vertex).iter().any(|hold| hold.from > self.now);
        schedule.has_entry(node)
            && (schedule.planner(node).is_some_and(|planner| planner.grows_after(self.now))
                || graph.subtree(node).into_iter().any(begins))
    }

    fn is_in_use(&self, place: usize, row: &[i64]) -> bool {
        row[OPEN] != UNTOUCHED || row[FIRST_TYPE..] != *self.totals(place)
    }

    fn totals(&self, place: usize) -> &[i64] {
        &self.totals[place * self.types.len()..][..self.types.len()]
    }

    /// The free resources of a node now.
    fn row(&self, graph: &Graph, schedule: &Schedule, place: usize, row: &mut Vec<i64>) {
        let node = self.nodes[place];
        row.clear();
        row.extend_from_slice(&[UNTOUCHED, i64::MIN, i64::MIN, i64::MIN]);
        if !graph.is_marked_up(node) {
            row[OPEN] = 0;
            row.resize(FIRST_TYPE + self.types.len(), 0);
            return;
        }
        row.extend_from_slice(self.totals(place));
        if !schedule.has_entry(node) {
            return;
        }
        if let Some(planner) = schedule.planner(node)
            && planner.peak(self.now, self.now + 1, 0) > 0
        {
            row[OPEN] = SHARED;
            row[EMPTIED] = planner.next_gap(self.now).map_or(i64::MIN, |at| -at);
            row[ENDS] = row[EMPTIED];
        }
        if self.take(schedule, node, row) {
            row[OPEN] = 0;
            // A node with nothing below it has no planner.
            row[EMPTIED] = row[EMPTIED].max(row[FREED]);
        }
        let column = self.columns.as_slice();
        let mut open: Vec<VertexId> = graph.children(node).to_vec();
        while let Some(vertex) = open.pop() {
            if self.take(schedule, vertex, row) {
                let free = &mut row[FIRST_TYPE + usize::from(column[graph.kind(vertex).index()])];
                *free -= i64::try_from(graph.size(vertex)).unwrap_or(i64::MAX);
            }
            open.extend_from_slice(graph.children(vertex));
        }
    }

    /// True if a job has a vertex for itself now; notes when that ends.
    fn take(&self, schedule: &Schedule, vertex: VertexId, row: &mut [i64]) -> bool {
        let mut taken = false;
        for hold in
            schedule.holds(vertex).iter().filter(|hold| hold.from <= self.now && self.now < hold.to)
        {
            taken = true;
            row[FREED] = row[FREED].max(-hold.to);
            row[ENDS] = row[ENDS].max(-hold.to);
        }
        taken
    }
}

/// Counts a vertex and all that lies below it.
fn total(graph: &Graph, columns: &[u8], vertex: VertexId, row: &mut [i64]) {
    let sum = &mut row[usize::from(columns[graph.kind(vertex).index()])];
    *sum = sum.saturating_add(i64::try_from(graph.size(vertex)).unwrap_or(i64::MAX));
    for child in graph.children(vertex) {
        total(graph, columns, *child, row);
    }
}
