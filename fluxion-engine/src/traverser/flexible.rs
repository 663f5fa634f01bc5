//! The flexible traverser: sibling slots are alternatives, of which as many as possible are formed.

use smallvec::SmallVec;

use super::choose::Gathered;
use super::request::Levels;
use super::walk::Walk;
use crate::graph::{TypeId, VertexId};

impl Walk<'_> {
    /// All slots beside one.
    pub(super) fn slot_options(&self, levels: &Levels, slot: usize) -> SmallVec<[usize; 4]> {
        let is_slot = |at: &usize| self.request.levels[*at].kind == TypeId::SLOT;
        if levels.contains(&slot) {
            return levels.clone().filter(is_slot).collect();
        }
        let above = self.request.levels.iter().find(|level| level.with.contains(&slot));
        above.map_or_else(SmallVec::new, |level| level.with.clone().filter(is_slot).collect())
    }

    /// Forms slots of several shapes.
    pub(super) fn flexible_slots(&mut self, vertex: VertexId, options: &[usize], prefix: i64, found: &mut Gathered) {
        let _ = (vertex, options, prefix, found);
    }
}
