//! The facts of a search that stay the same all through it, and what follows from them alone:
//! whether a walk has any use in entering a vertex, by state, constraint, what holds it, and the
//! pruning filters.

use super::request::{Request, RequestLevel};
use super::weights::Weights;
use crate::graph::{Graph, TypeId, VertexId};
use crate::policy::Policy;
use crate::pools::Free;
use crate::schedule::{Below, Schedule};
use crate::time::WINDOW_SECONDS;

/// When the request is to be served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// It begins now, so that jobs past their end are in the way.
    pub(crate) is_now: bool,
    /// Vertices that are down count: what could ever be.
    pub(crate) status_ignored: bool,
}

impl Window {
    /// True if it begins later than now, and before the window of the graph ends: then jobs without
    /// an end are in the way.
    pub(super) fn is_before_the_end(&self) -> bool {
        !self.is_now && !self.status_ignored && self.from < WINDOW_SECONDS
    }
}

/// Why a vertex cannot serve.
pub(crate) enum Refusal {
    /// Not free, not enough, not admitted.
    Busy,
    /// The request contradicts itself.
    Invalid,
}

/// The request, and the machine at the time for which it is tried.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) schedule: &'a Schedule,
    pub(crate) request: &'a Request,
    pub(crate) policy: Policy,
    pub(crate) weights: &'a Weights,
    pub(crate) window: Window,
    pub(crate) flexible: bool,
    /// Free units of pools, by type; for requests that name them.
    pub(crate) pools: &'a [(TypeId, Free<'a>)],
}

impl Scene<'_> {
    /// Whether there is any use in entering a vertex. Returns how the type compares that is short
    /// for an alternative slot, where another fits. Follows upstream's `prune`.
    pub(super) fn prune(
        &self,
        vertex: VertexId,
        kind: TypeId,
        levels: &[RequestLevel],
        exclusive: bool,
    ) -> Result<Option<Below>, Refusal> {
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
        // As upstream (Q21): of alternative slots the last one has to fit, whether the others do or
        // not.
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
        Ok(spared)
    }

    /// True if no job has units of the pools of a node, or of any node that a vertex holds.
    fn has_idle_pools(&self, vertex: VertexId) -> bool {
        let window = self.window;
        !self.graph.has_pool_types()
            || window.status_ignored
            || self
                .graph
                .rows_within(vertex)
                .iter()
                .all(|row| self.graph.pools.by_node().is_idle(*row, window.from, window.to))
    }

    /// Free units of a pool type on a node; `None` where the type is no pool there.
    pub(super) fn free_units(&self, vertex: VertexId, kind: TypeId) -> Option<u64> {
        let (_, free) = self.pools.iter().find(|(known, _)| *known == kind)?;
        Some(free.units(0, self.graph.position_of(vertex)?))
    }

    /// Whether each part of a slot has its type among the children of a vertex.
    pub(super) fn has_parts(&self, vertex: VertexId, slot: usize) -> bool {
        let parts = self.request.of_range(&self.request.levels[slot].with);
        let back = self.graph.parent(vertex).filter(|_| self.graph.leads_back(vertex));
        let children =
            || self.graph.children(vertex).iter().chain(self.graph.associates(vertex)).chain(&back);
        parts.iter().all(|part| children().any(|child| self.graph.kind(*child) == part.kind))
    }
}
