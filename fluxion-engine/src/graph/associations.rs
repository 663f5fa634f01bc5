//! Edges beside the tree: a vertex that one vertex holds and another leads to as well.
//!
//! Recipes make them (ASSOCIATE_IN): a tier of storage that belongs to its rack and to all racks
//! together. A vertex has one parent, by which it has its path and is counted; a search for
//! resources also comes to it by its associations. They are few, and one is never found below
//! another, so that no walk goes in a circle or comes to a vertex very often.

use std::collections::HashMap;

use super::{Graph, VertexId};
use crate::Error;
use crate::limits::ASSOCIATIONS_MAX;

/// By the vertex that leads to others.
pub(super) type Associations = HashMap<VertexId, Vec<VertexId>>;

impl Graph {
    /// Vertices that a vertex leads to although others hold them, in the order of its edges.
    pub fn associates(&self, vertex: VertexId) -> &[VertexId] {
        if self.associations.is_empty() {
            &[]
        } else {
            self.associations.get(&vertex).map_or(&[], Vec::as_slice)
        }
    }

    /// Whether any vertex is led to by more than its parent.
    pub(crate) fn has_associations(&self) -> bool {
        !self.associations.is_empty()
    }

    pub(super) fn associate(&mut self, from: VertexId, to: VertexId) {
        self.associations.entry(from).or_default().push(to);
        self.counts.edges += 1;
    }

    /// Refuses associations below associations.
    pub(super) fn check_associations(&self) -> Result<(), Error> {
        if self.associations.is_empty() {
            return Ok(());
        }
        ASSOCIATIONS_MAX.check(self.associations.values().map(Vec::len).sum(), "graph")?;
        let targets: Vec<VertexId> = self.associations.values().flatten().copied().collect();
        for from in self.associations.keys() {
            let mut at = Some(*from);
            while let Some(vertex) = at {
                if targets.contains(&vertex) {
                    let (from, to) = (self.name(*from), self.name(vertex));
                    return Err(Error::invalid(format!(
                        "graph: vertex {to}: has several parents, and {from} is below it"
                    )));
                }
                at = self.parent(vertex);
            }
        }
        Ok(())
    }

    /// Forgets the associations of a vertex that is removed.
    pub(super) fn dissociate(&mut self, vertex: VertexId) {
        if self.associations.is_empty() {
            return;
        }
        let before = self.associations.values().map(Vec::len).sum::<usize>();
        self.associations.remove(&vertex);
        for targets in self.associations.values_mut() {
            targets.retain(|target| *target != vertex);
        }
        self.counts.edges -= before - self.associations.values().map(Vec::len).sum::<usize>();
    }
}
