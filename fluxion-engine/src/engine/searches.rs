//! The state of walks, which they keep from match to match: the index that spares most of them, and
//! facts that upstream remembers.

use std::cell::Cell;

use super::ask::{Ask, Form};
use crate::book::Book;
use crate::graph::{Graph, TypeId};
use crate::policy::Policy;
use crate::vertex_search::nodes::NodeIndex;
use crate::vertex_search::{Left, Traverser, VertexSearch};

/// The state of walks.
#[derive(Debug, Clone)]
pub(super) struct Searches {
    /// An index that spares walks over all nodes; made when it is needed.
    index: Option<Box<NodeIndex>>,
    /// The revision of the graph that cannot have one.
    unindexed: Option<u64>,
    /// Walk in any case: for tests.
    walks_always: bool,
    /// Nodes that are up, counted as upstream (Q2): not again when the graph grows.
    nodes_up: i64,
    /// Types that are taken with all that lies below them, whatever a request says.
    exclusive_kinds: Vec<TypeId>,
    /// The last obstacle of the last search.
    left: Cell<Left>,
}

impl Searches {
    /// Nothing was searched for yet.
    pub(super) fn new(graph: &Graph) -> Self {
        // As upstream (Q2): a node that the document has down is counted off twice.
        let nodes = graph.vertices().filter(|vertex| graph.is_node(*vertex));
        let nodes_up = nodes.map(|node| if graph.is_marked_up(node) { 1 } else { -1 }).sum();
        Searches {
            index: None,
            unindexed: None,
            walks_always: false,
            nodes_up,
            exclusive_kinds: Vec::new(),
            left: Cell::new(Left::Nothing),
        }
    }

    /// Brings the index up to date if a search for this may use it.
    pub(super) fn refresh_for(&mut self, book: &mut Book, ask: &Ask<'_>) {
        if let Form::Walk(_) = ask.form {
            self.refresh(book);
        }
    }

    /// Brings the index up to date, so that a search may use it.
    pub(super) fn refresh(&mut self, book: &mut Book) {
        if self.walks_always {
            return;
        }
        let (touched, properties, marked) = book.take_changes();
        let (graph, schedule, now) = (book.graph(), book.schedule(), book.now());
        let revision = graph.changes().revision();
        match (self.index.as_deref_mut().filter(|index| index.is_of(graph)), touched) {
            (Some(index), Some(touched)) => {
                // A job that has begun since is on its vertices at the new present only.
                index.advance(graph, schedule, now);
                index.refresh(graph, schedule, &touched);
                index.refresh(graph, schedule, &marked);
                if properties {
                    index.forget_constraints();
                }
            }
            _ if self.unindexed == Some(revision) => {}
            _ => {
                self.index = NodeIndex::new(graph, schedule, now).map(Box::new);
                self.unindexed = Some(revision).filter(|_| self.index.is_none());
            }
        }
    }

    /// Drops the index: it is made again when it is needed.
    pub(super) fn forget(&mut self) {
        (self.index, self.unindexed) = (None, None);
    }

    /// Drops the index if it is of a later instant.
    pub(super) fn go_back(&mut self, now: i64) {
        self.index = self.index.take().filter(|index| index.now() <= now);
    }

    /// A machine, with all that a walk needs to know.
    pub(super) fn vertex_search<'a>(
        &'a self,
        book: &'a Book,
        policy: Policy,
        traverser: Traverser,
    ) -> VertexSearch<'a> {
        let (graph, schedule) = (book.graph(), book.schedule());
        let changes = graph.changes();
        VertexSearch {
            graph,
            schedule,
            weights: book.weights(),
            index: self
                .index
                .as_deref()
                .filter(|index| index.is_of(graph) && !changes.has_other_properties()),
            index_is_fresh: !schedule.is_touched()
                && !graph.pools.touched.are_any()
                && !changes.is_marked(),
            policy,
            traverser,
            now: book.now(),
            nodes_up: self.nodes_up,
            tries_all: self.walks_always,
            exclusive_kinds: &self.exclusive_kinds,
            left: &self.left,
        }
    }

    /// As upstream counts: by all nodes of a subtree that is marked, whether or not they are
    /// down for themselves.
    pub(super) fn count_up(&mut self, nodes: usize, up: bool) {
        let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
        self.nodes_up += if up { nodes } else { -nodes };
    }

    /// Types that are taken with all that lies below them, whatever a request says.
    pub(super) fn exclusive_kinds(&self) -> &[TypeId] {
        &self.exclusive_kinds
    }

    /// Sets these types.
    pub(super) fn set_exclusive_kinds(&mut self, kinds: Vec<TypeId>) {
        self.exclusive_kinds = kinds;
    }

    /// As upstream (Q3): types that a refused request wants exclusively stay exclusive for all that
    /// come later. The `run` of resource/traversers/dfu.cpp returns before
    /// `reset_exclusive_resource_types`.
    pub(super) fn leak_exclusive(&mut self, ask: &Ask<'_>) {
        if let Form::Walk(requests) = &ask.form {
            for kind in requests.iter().flat_map(|request| &request.exclusive_kinds) {
                if !self.exclusive_kinds.contains(kind) {
                    self.exclusive_kinds.push(*kind);
                }
            }
        }
    }

    /// The last obstacle of the last search.
    pub(super) fn left(&self) -> Left {
        self.left.get()
    }

    /// Sets the last obstacle.
    pub(super) fn set_left(&self, left: Left) {
        self.left.set(left);
    }

    /// Walks in any case from now on.
    #[cfg(test)]
    pub(super) fn walk_always(&mut self) {
        self.walks_always = true;
        self.index = None;
    }

    /// True if there is an index.
    #[cfg(test)]
    pub(super) fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// Nodes that are up, as upstream counts them.
    #[cfg(test)]
    pub(super) fn nodes_up(&self) -> i64 {
        self.nodes_up
    }
}

/// The index of an engine, brought up to date, and one that is made of the book alone, as texts;
/// `None`: there is none.
#[cfg(test)]
pub(crate) fn kept_and_made(engine: &super::Engine) -> Option<[String; 2]> {
    let mut engine = engine.clone();
    let had_one = engine.searches.index.is_some();
    engine.searches.refresh(&mut engine.book);
    let kept = engine.searches.index.as_ref()?.derived();
    engine.searches.forget();
    engine.searches.refresh(&mut engine.book);
    let made = engine.searches.index.as_ref()?.derived();
    had_one.then_some([kept, made])
}
