//! GRUG: a recipe in GraphML from which a graph is generated.
//!
//! A recipe vertex describes a resource, a recipe edge tells how many of its target each of its
//! sources has, and how those are numbered. `recipe.rs` reads the document, this file generates:
//! recipe edges are followed depth first, each once, in the document's order. An edge with MULTIPLY
//! makes `multi_scale` children below every vertex that was generated for its source; one with
//! ASSOCIATE_IN or ASSOCIATE_BY_PATH_IN makes none, but leads to vertices that are there already.
//!
//! Vertices are numbered as they are generated, so those of one recipe vertex are a range of
//! indices and nothing needs to be remembered of them: a recipe of a few lines makes millions of
//! vertices in as many calls of [`Builder::add`].
//!
//! Only the containment subsystem is generated. Recipe edges of others only give its vertices other
//! paths (`paths.rs`).

mod associations;
mod paths;
mod recipe;
#[cfg(test)]
mod tests;

use self::recipe::{CONTAINMENT, EdgeRecipe, Method, Recipe, VertexRecipe};
use crate::Error;
use crate::graph::{Builder, Graph, NewVertex, PoolTypes, TextId, TypeId, VertexId};
use crate::limits::VERTICES_MAX;

/// The type that gets ranks, in the order of generation.
const RANKED: &str = "node";

/// Generates the graph of a recipe.
pub(crate) fn read(text: &str, pool_types: PoolTypes) -> Result<Graph, Error> {
    let recipe = Recipe::read(text)?;
    let mut generator = Generator {
        recipe: &recipe,
        builder: Builder::new(pool_types),
        made: Vec::new(),
        reached: vec![false; recipe.vertices.len()],
        scales: Vec::new(),
        count: 0,
        rank: 0,
        beside: 0,
        path_bytes: 0,
    };
    for (at, vertex) in recipe.vertices.iter().enumerate() {
        if vertex.is_root && vertex.subsystem == CONTAINMENT && !generator.reached[at] {
            generator.root(at)?;
        }
    }
    generator.other_paths()?;
    generator.builder.finish()
}

/// A recipe being carried out.
struct Generator<'a> {
    recipe: &'a Recipe,
    builder: Builder,
    /// Vertices made for the recipe vertices on the way from the root to here: the last entry is
    /// the innermost.
    made: Vec<Vec<VertexId>>,
    /// Recipe vertices that an edge has led to.
    reached: Vec<bool>,
    /// `multi_scale` of the edges on the way from the root to here.
    scales: Vec<u64>,
    count: u64,
    rank: i32,
    /// Edges to vertices that had a parent already.
    beside: usize,
    /// Bytes of all paths in other subsystems, also of those that lead to no vertex.
    path_bytes: usize,
}

impl Generator<'_> {
    fn root(&mut self, at: usize) -> Result<(), Error> {
        self.reached[at] = true;
        let vertex = &self.recipe.vertices[at];
        let shared = self.shared(vertex)?;
        let id = self.add(vertex, &shared, 0)?;
        self.made.push(vec![id]);
        self.below(at)?;
        self.made.pop();
        Ok(())
    }

    /// Follows the edges out of a recipe vertex. As deep as the recipe, of which the size is
    /// bounded: `Recipe::read` limits.
    fn below(&mut self, at: usize) -> Result<(), Error> {
        let recipe = self.recipe;
        for edge in
            recipe.edges.iter().filter(|edge| edge.source == at && edge.subsystem == CONTAINMENT)
        {
            // Vertices reached on another way are not generated again.
            if std::mem::replace(&mut self.reached[edge.target], true) {
                continue;
            }
            let made = match edge.method {
                Method::Multiply => self.multiply(edge)?,
                Method::AssociateIn | Method::AssociateByPathIn => self.associate(edge)?,
            };
            self.made.push(made);
            self.scales.push(edge.scale);
            self.below(edge.target)?;
            self.scales.pop();
            self.made.pop();
        }
        Ok(())
    }

    fn multiply(&mut self, edge: &EdgeRecipe) -> Result<Vec<VertexId>, Error> {
        let vertex = &self.recipe.vertices[edge.target];
        let shared = self.shared(vertex)?;
        let sources = self.made.pop().unwrap_or_default();
        let wanted = (sources.len() as u64).saturating_mul(edge.scale);
        let all = usize::try_from(self.count.saturating_add(wanted)).unwrap_or(usize::MAX);
        VERTICES_MAX.check(all, &edge.place)?;
        let numbering = Numbering::new(edge, &self.scales);
        let mut made = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
        for (ordinal, source) in sources.iter().enumerate() {
            for i in 0..edge.scale {
                let id = numbering.id(ordinal as u64, i);
                let id = id.ok_or_else(|| {
                    Error::invalid(format!("{}: an id is beyond 64 bits", edge.place))
                })?;
                let child = self.add(vertex, &shared, id)?;
                self.builder.edge(*source, child);
                made.push(child);
            }
        }
        self.made.push(sources);
        Ok(made)
    }

    /// What all vertices of a recipe vertex share.
    fn shared(&mut self, vertex: &VertexRecipe) -> Result<Shared, Error> {
        Ok(Shared {
            kind: self.builder.kind(&vertex.kind)?,
            basename: self.builder.text(&vertex.basename),
            unit: self.builder.text(&vertex.unit),
        })
    }

    fn add(&mut self, vertex: &VertexRecipe, shared: &Shared, id: i64) -> Result<VertexId, Error> {
        let rank = if vertex.kind == RANKED {
            self.rank += 1;
            self.rank - 1
        } else {
            -1
        };
        let uniq_id = i64::try_from(self.count).unwrap_or(i64::MAX);
        self.count += 1;
        self.builder.add(NewVertex {
            rank,
            size: u64::from(vertex.size),
            unit: shared.unit,
            ..NewVertex::new(shared.kind, shared.basename, id, uniq_id)
        })
    }
}

/// What all vertices of a recipe vertex share, interned.
struct Shared {
    kind: TypeId,
    basename: TextId,
    unit: TextId,
}

/// How the children of an edge are numbered.
struct Numbering {
    start: i64,
    /// 0: each source numbers its children from `start`; else this number of sources number theirs
    /// on.
    sources: u64,
    scale: u64,
    stride: i64,
}

impl Numbering {
    /// `scales` are those of the edges above this one, outermost first.
    fn new(edge: &EdgeRecipe, scales: &[u64]) -> Self {
        let sources = if edge.id_scope == 0 {
            0
        } else {
            scales
                .iter()
                .rev()
                .take(edge.id_scope)
                .fold(1u64, |all, scale| all.saturating_mul(*scale))
                .max(1)
        };
        Numbering { start: edge.id_start, sources, scale: edge.scale, stride: edge.id_stride }
    }

    /// Of the i-th child of the source with this ordinal.
    fn id(&self, ordinal: u64, i: u64) -> Option<i64> {
        let i = i64::try_from(i).ok()?;
        if self.sources == 0 {
            return self.start.checked_add(i);
        }
        let earlier = i64::try_from((ordinal % self.sources).checked_mul(self.scale)?).ok()?;
        let steps = earlier.checked_add(i)?.checked_mul(self.stride)?;
        self.start.checked_add(steps)
    }
}
