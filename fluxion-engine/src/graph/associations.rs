//! Edges beside the tree: a vertex that one vertex holds and another leads to as well.
//!
//! Recipes make them (ASSOCIATE_IN): a tier of storage that belongs to its rack and to all racks
//! together. A vertex has one parent, by which it has its path and is counted; a search for
//! resources also comes to it by its associations. They are few, and one is never found below
//! another, so that no walk goes in a circle or comes to a vertex very often.

use std::collections::HashMap;

use super::arena::Arena;
use super::names::Names;
use crate::Error;
use crate::limits::ASSOCIATIONS_MAX;
use crate::vertex::VertexId;

/// By the vertex that leads to others.
#[derive(Debug, Clone, Default)]
pub(super) struct Associations(HashMap<VertexId, Vec<VertexId>>);

impl Associations {
    /// Vertices that a vertex leads to although others hold them, in the order of its edges.
    #[inline]
    pub(super) fn of(&self, vertex: VertexId) -> &[VertexId] {
        if self.0.is_empty() { &[] } else { self.0.get(&vertex).map_or(&[], Vec::as_slice) }
    }

    /// True if each vertex is led to by its parent alone.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Adds an edge beside the tree.
    pub(super) fn add(&mut self, from: VertexId, to: VertexId) {
        self.0.entry(from).or_default().push(to);
    }

    /// Forgets the associations of a vertex that is removed. Returns how many there were.
    pub(super) fn remove(&mut self, vertex: VertexId) -> usize {
        if self.0.is_empty() {
            return 0;
        }
        let before = self.len();
        self.0.remove(&vertex);
        for targets in self.0.values_mut() {
            targets.retain(|target| *target != vertex);
        }
        before - self.len()
    }

    /// Refuses associations below associations.
    pub(super) fn check(&self, arena: &Arena, names: &Names) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        ASSOCIATIONS_MAX.check(self.len(), "graph")?;
        let targets: Vec<VertexId> = self.0.values().flatten().copied().collect();
        for from in self.0.keys() {
            if let Some(vertex) = arena.way_up(*from).find(|above| targets.contains(above)) {
                let (from, to) = (names.name(arena, *from), names.name(arena, vertex));
                return Err(Error::invalid(format!(
                    "graph: vertex {to}: has several parents, and {from} is below it"
                )));
            }
        }
        Ok(())
    }
}
