//! The types of vertices below nodes: a column of numbers for each.

use super::places::Places;
use crate::graph::{Graph, TypeId, VertexId};

/// Stands for a type that no node has.
const NO_COLUMN: u8 = u8::MAX;
/// As many types as nodes may have below them; on a machine with more there is no index.
const COLUMNS_MAX: usize = 32;

/// The types, and how much of each a node has, free or not.
#[derive(Debug, Clone)]
pub(super) struct Kinds {
    /// By type: its column.
    columns: Vec<u8>,
    facts: Vec<Facts>,
    /// The resources of each node: a number per column.
    totals: Vec<i64>,
    /// The greatest of each.
    most: Vec<i64>,
}

/// Facts about the vertices of a type below nodes.
#[derive(Debug, Clone)]
struct Facts {
    kind: TypeId,
    lowest_id: i64,
    highest_id: i64,
    /// The size of all of them; 0 if sizes differ.
    size: u64,
    /// None lies elsewhere than below nodes.
    inside: bool,
}

impl Kinds {
    /// Reads what lies below nodes; `outside` says of each type whether it lies elsewhere too.
    /// `None`: nodes lie below nodes, or hold too many types.
    pub(super) fn new(graph: &Graph, places: &Places, outside: &[bool]) -> Option<Self> {
        let mut kinds = Kinds {
            columns: vec![NO_COLUMN; graph.types().len()],
            facts: Vec::new(),
            totals: Vec::new(),
            most: Vec::new(),
        };
        for node in places.nodes() {
            for child in graph.children(*node) {
                kinds.note(graph, *child)?;
            }
        }
        for facts in &mut kinds.facts {
            facts.inside = !outside[facts.kind.index()];
        }
        kinds.count(graph, places);
        Some(kinds)
    }

    /// How many columns there are.
    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    /// The column of a type that vertices below nodes have.
    pub(super) fn column(&self, kind: TypeId) -> Option<usize> {
        self.columns
            .get(kind.index())
            .filter(|column| **column != NO_COLUMN)
            .map(|column| usize::from(*column))
    }

    /// The column of a vertex below a node.
    pub(super) fn column_of(&self, graph: &Graph, vertex: VertexId) -> usize {
        usize::from(self.columns[graph.kind(vertex).index()])
    }

    /// The column of a type, and for how many its vertices count, if all lie below nodes and have
    /// one size.
    pub(super) fn inside(&self, kind: TypeId) -> Option<(usize, u64)> {
        let column = self.column(kind)?;
        let facts = &self.facts[column];
        (facts.inside && facts.size > 0).then_some((column, facts.size))
    }

    /// The lowest and the highest id of vertices of a column.
    pub(super) fn ids(&self, column: usize) -> (i64, i64) {
        (self.facts[column].lowest_id, self.facts[column].highest_id)
    }

    /// The resources of a node, free or not.
    pub(super) fn totals(&self, place: usize) -> &[i64] {
        &self.totals[place * self.len()..][..self.len()]
    }

    /// The greatest of each column.
    pub(super) fn most(&self) -> &[i64] {
        &self.most
    }

    /// Takes note of a vertex below a node and all that lies below it. `None`: there cannot be an
    /// index.
    fn note(&mut self, graph: &Graph, vertex: VertexId) -> Option<()> {
        if graph.is_node(vertex) {
            return None;
        }
        let kind = graph.kind(vertex);
        let column = match self.column(kind) {
            Some(column) => column,
            None if self.facts.len() == COLUMNS_MAX => return None,
            None => {
                self.columns[kind.index()] = u8::try_from(self.facts.len()).ok()?;
                let (lowest_id, highest_id) = (i64::MAX, i64::MIN);
                self.facts.push(Facts {
                    kind,
                    lowest_id,
                    highest_id,
                    size: graph.size(vertex),
                    inside: true,
                });
                self.facts.len() - 1
            }
        };
        let (id, size) = (graph.id(vertex), graph.size(vertex));
        let facts = &mut self.facts[column];
        facts.lowest_id = facts.lowest_id.min(id);
        facts.highest_id = facts.highest_id.max(id);
        facts.size = if facts.size == size { size } else { 0 };
        for child in graph.children(vertex) {
            self.note(graph, *child)?;
        }
        Some(())
    }

    /// Counts what each node has.
    fn count(&mut self, graph: &Graph, places: &Places) {
        let width = self.len();
        let mut totals = vec![0; places.len() * width];
        self.most = vec![0; width];
        for (place, node) in places.nodes().iter().enumerate() {
            let row = &mut totals[place * width..][..width];
            for child in graph.children(*node) {
                total(graph, &self.columns, *child, row);
            }
            for (most, total) in self.most.iter_mut().zip(row) {
                *most = (*most).max(*total);
            }
        }
        self.totals = totals;
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
