//! Whether a walk has any use in entering a vertex: state, constraint, what holds it, and the
//! pruning filters.

use super::request::Level;
use super::walk::{Refusal, Walk};
use crate::graph::{TypeId, VertexId};
use crate::schedule::Below;

impl Walk<'_> {
    /// Whether there is any use in entering a vertex.
    pub(super) fn prune(
        &self,
        vertex: VertexId,
        kind: TypeId,
        levels: &[Level],
        exclusive: bool,
    ) -> Result<(), Refusal> {
        let (graph, schedule, window) = (self.graph, self.schedule, self.window);
        if !window.status_ignored && !graph.is_marked_up(vertex) {
            return Err(Refusal::Busy);
        }
        if let Some(constraint) = &self.request.constraint
            && (kind == TypeId::NODE || kind == TypeId::STORAGE_NODE)
            && !constraint.admits(&graph.subject(vertex))
        {
            return Err(Refusal::Busy);
        }
        if graph.size(vertex) == 0
            || graph.is_pool(vertex)
            || !schedule.is_free(vertex, window.from, window.to)
        {
            return Err(Refusal::Busy);
        }
        // As upstream: of alternative slots the last one has to fit, whether the others do or not.
        let (mut alternative, mut spared) = (None, None);
        for level in levels.iter().filter(|level| level.kind == kind || level.kind == TypeId::SLOT)
        {
            if exclusive && level.exclusive == Some(false) {
                return Err(Refusal::Invalid);
            }
            // A slot is exclusive in any case, and the vertices that are passed on the way to it
            // are not.
            if exclusive
                && !(schedule.is_untouched(vertex, window.from, window.to)
                    && self.has_idle_pools(vertex))
            {
                return Err(Refusal::Busy);
            }
            let below = schedule.below(graph, vertex, window.from, window.to, &level.needs);
            let fits = below == Below::Enough;
            if self.flexible && level.kind == TypeId::SLOT {
                alternative = Some(fits);
                spared = if fits { spared } else { Some(below) };
            } else if !fits {
                return Err(Refusal::Busy);
            }
        }
        if alternative == Some(false) {
            return Err(Refusal::Busy);
        }
        if spared.is_some() {
            self.spared.set(spared);
        }
        Ok(())
    }

    /// Nobody has units of the pools of a node, or of any node that a vertex holds.
    fn has_idle_pools(&self, vertex: VertexId) -> bool {
        let window = self.window;
        !self.graph.has_pool_types()
            || window.status_ignored
            || self
                .graph
                .rows_within(vertex)
                .iter()
                .all(|row| self.graph.pools.is_idle(*row, window.from, window.to))
    }
}
