//! Paths in other subsystems than containment.
//!
//! Of these nothing is generated, nor walked. But a vertex of containment that a recipe edge of
//! another subsystem leads to has a path there too, and is written with it.

use super::associations::Targets;
use super::recipe::{CONTAINMENT, EdgeRecipe, Method};
use super::{Generator, Numbering};
use crate::Error;
use crate::graph::VertexId;
use crate::limits::{OTHER_PATHS_BYTES_MAX, VERTICES_MAX};

/// A waypoint takes this many bytes beside the text of its path.
const WAYPOINT_BYTES: usize = 64;

/// A vertex on the paths of a subsystem.
struct Waypoint {
    path: String,
    /// The vertex of containment; `None`: there is one in the subsystem alone.
    vertex: Option<VertexId>,
}

impl Generator<'_> {
    /// Follows the edges of all other subsystems.
    pub(super) fn other_paths(&mut self) -> Result<(), Error> {
        let recipe = self.recipe;
        for (at, root) in recipe.vertices.iter().enumerate() {
            if root.is_root
                && root.subsystem != CONTAINMENT
                && !std::mem::replace(&mut self.reached[at], true)
            {
                let top = Waypoint { path: format!("/{}0", root.basename), vertex: None };
                self.scales.clear();
                self.other_below(at, &root.subsystem, &[top])?;
            }
        }
        Ok(())
    }

    /// As deep as the recipe.
    fn other_below(
        &mut self,
        at: usize,
        subsystem: &str,
        sources: &[Waypoint],
    ) -> Result<(), Error> {
        let recipe = self.recipe;
        for edge in
            recipe.edges.iter().filter(|edge| edge.source == at && edge.subsystem == subsystem)
        {
            if std::mem::replace(&mut self.reached[edge.target], true) {
                continue;
            }
            let leads_on = recipe.edges.iter().any(|next| next.source == edge.target);
            let waypoints = match edge.method {
                Method::Multiply if leads_on => self.other_multiply(edge, sources)?,
                Method::Multiply => Vec::new(),
                _ => self.other_associate(edge, subsystem, sources)?,
            };
            self.scales.push(edge.scale);
            self.other_below(edge.target, subsystem, &waypoints)?;
            self.scales.pop();
        }
        Ok(())
    }

    fn other_multiply(
        &mut self,
        edge: &EdgeRecipe,
        sources: &[Waypoint],
    ) -> Result<Vec<Waypoint>, Error> {
        let all = (sources.len() as u64).saturating_mul(edge.scale);
        VERTICES_MAX.check(usize::try_from(all).unwrap_or(usize::MAX), &edge.place)?;
        let (numbering, basename) =
            (Numbering::new(edge, &self.scales), &self.recipe.vertices[edge.target].basename);
        let mut waypoints = Vec::new();
        for (ordinal, source) in sources.iter().enumerate() {
            for i in 0..edge.scale {
                let id = numbering.id(ordinal as u64, i).unwrap_or(-1);
                let id = if id == -1 { String::new() } else { id.to_string() };
                count(&mut self.path_bytes, edge, &[&source.path, basename, &id])?;
                waypoints.push(Waypoint {
                    path: format!("{}/{basename}{id}", source.path),
                    vertex: None,
                });
            }
        }
        Ok(waypoints)
    }

    fn other_associate(
        &mut self,
        edge: &EdgeRecipe,
        subsystem: &str,
        sources: &[Waypoint],
    ) -> Result<Vec<Waypoint>, Error> {
        let mut waypoints = Vec::new();
        if edge.target_subsystem != CONTAINMENT {
            return Ok(waypoints);
        }
        let kind = self.builder.kind(&self.recipe.vertices[edge.target].kind)?;
        let targets = Targets::of(&self.builder, edge, self.builder.of_kind(kind));
        for source in sources {
            let is_by_path = edge.method == Method::AssociateByPathIn;
            let above = source.vertex.filter(|_| is_by_path);
            let above = above.and_then(|source| self.builder.ancestor(source, edge.source_up));
            if is_by_path && above.is_none() {
                continue;
            }
            for target in targets.below(above) {
                let name = self.builder.name(target);
                count(&mut self.path_bytes, edge, &[&source.path, &name])?;
                let path = format!("{}/{name}", source.path);
                self.builder.other_path(target, subsystem, &path);
                waypoints.push(Waypoint { path, vertex: Some(target) });
            }
        }
        Ok(waypoints)
    }
}

/// Counts the bytes of a path of these parts before it is made.
fn count(bytes: &mut usize, edge: &EdgeRecipe, parts: &[&str]) -> Result<(), Error> {
    *bytes += WAYPOINT_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
    OTHER_PATHS_BYTES_MAX.check(*bytes, &edge.place)
}
