//! The machine: vertices in an arena, each below one parent (containment), found by path and by
//! rank.
//!
//! # The layout, and why it is fast
//!
//! A machine of 16,384 nodes has 1.65 million vertices, almost all of them cores that differ in two
//! numbers. So:
//!
//! - A vertex is a 32-bit index. The fields that a walk reads (`Hot`, 40 bytes) lie apart from
//!   those that only a writer needs (`Cold`, 32 bytes); a walk over the cores of a node reads
//!   consecutive cache lines.
//! - The children of a vertex lie side by side in one array, in the order of its out-edges.
//! - Strings and property sets are kept once, and a name that is basename and id is not kept at
//!   all. Paths are put together from names when one is read; only those that do not
//!   follow from names are kept.
//! - A rank is found by the topmost of its vertices; the others lie below it.
//! - Nothing here tells which job holds a vertex. That is in `crate::schedule`, which has an entry
//!   only for vertices that a job holds, or will hold; an idle machine costs nothing but its
//!   vertices.
//!
//! A vertex that is removed stays behind, unlinked, as upstream leaves it, so that what jobs still
//! hold of it can be given back. A graph with pools, where no job holds vertices, drops such
//! vertices when they are the most (`compact`).

mod arena;
mod associations;
mod builder;
mod by_vertex;
mod changes;
mod machine;
mod names;
mod pool_types;
mod ranks;
mod spanning;
mod text;

pub use arena::NewVertex;
pub use builder::Builder;
pub(crate) use by_vertex::ByVertex;
pub use machine::Graph;
pub(crate) use machine::growth::{Enlargement, NodeText, check_edges, check_uniq_ids, plan_growth};
pub use names::OtherPath;
pub use pool_types::PoolTypes;
pub use text::{Properties, PropertySet, TextId};

pub use crate::vertex::{TypeId, Types, VertexId};

#[cfg(test)]
mod tests;
