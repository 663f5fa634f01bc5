//! Edges to vertices that are there already: ASSOCIATE_IN, and ASSOCIATE_BY_PATH_IN.

use std::collections::HashMap;

use super::Generator;
use super::recipe::{CONTAINMENT, EdgeRecipe, Method};
use crate::Error;
use crate::graph::{Builder, VertexId};
use crate::limits::ASSOCIATIONS_MAX;

/// Vertices of one type by a vertex above them, so that no source is compared with each.
pub(super) struct Targets {
    all: Vec<VertexId>,
    /// By the vertex that must be the same, places in `all`, ascending. With ASSOCIATE_IN all are
    /// in one list.
    groups: HashMap<Option<VertexId>, Vec<usize>>,
}

impl Targets {
    /// The vertices there that an edge may lead to.
    pub(super) fn of(builder: &Builder, edge: &EdgeRecipe, all: Vec<VertexId>) -> Self {
        let mut groups: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, target) in all.iter().enumerate() {
            let above = match edge.method {
                Method::AssociateByPathIn => builder.ancestor(*target, edge.target_up),
                _ => None,
            };
            groups.entry(above).or_default().push(at);
        }
        Targets { all, groups }
    }

    /// The places of those that an edge leads to from where `above` is the vertex that must be the
    /// same; from `first` on.
    fn places(&self, above: Option<VertexId>, first: usize) -> &[usize] {
        let places = self.groups.get(&above).map_or(&[][..], Vec::as_slice);
        &places[places.partition_point(|at| *at < first)..]
    }

    /// The vertices that an edge leads to from there.
    pub(super) fn below(&self, above: Option<VertexId>) -> impl Iterator<Item = VertexId> + '_ {
        self.places(above, 0).iter().map(|at| self.all[*at])
    }
}

impl Generator<'_> {
    /// Adds edges from each source to each vertex of the target's type that is there and, by path,
    /// has the same vertex above it.
    pub(super) fn associate(&mut self, edge: &EdgeRecipe) -> Result<Vec<VertexId>, Error> {
        let kind = self.builder.kind(&self.recipe.vertices[edge.target].kind)?;
        let mut found = Vec::new();
        if edge.target_subsystem != CONTAINMENT {
            return Ok(found);
        }
        let mut targets = Targets::of(&self.builder, edge, self.builder.of_kind(kind));
        for source in self.made.last().cloned().unwrap_or_default() {
            let mut first = 0;
            while let Some(stale) = self.lead(edge, source, (&targets, first), &mut found)? {
                // A vertex that had no parent has one: others have another vertex above them.
                targets = Targets::of(&self.builder, edge, targets.all);
                first = stale + 1;
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Adds the edges of one source. Returns the place of a target that got its first parent, after
    /// which the others are to be grouped again.
    fn lead(
        &mut self,
        edge: &EdgeRecipe,
        source: VertexId,
        (targets, first): (&Targets, usize),
        found: &mut Vec<VertexId>,
    ) -> Result<Option<usize>, Error> {
        let above = match edge.method {
            Method::AssociateByPathIn => self.builder.ancestor(source, edge.source_up),
            _ => None,
        };
        for at in targets.places(above, first) {
            let target = targets.all[*at];
            let is_beside = self.builder.has_parent(target);
            if is_beside {
                self.beside += 1;
                ASSOCIATIONS_MAX.check(self.beside, &edge.place)?;
            }
            self.builder.edge(source, target);
            found.push(target);
            if !is_beside {
                return Ok(Some(*at));
            }
        }
        Ok(None)
    }
}
