//! The part of the use of vertices that does not follow from the claims of jobs: where a graph
//! without pools grew or shrank under jobs, planners show what upstream's do (Q26).
//!
//! It is kept by point of a planner, beside what follows, so that an index that is made again from
//! the claims can have it as well. A point that goes takes its drift along, and a new point has
//! that of the one before it.

use super::planner::Drift;
use super::{Filters, Schedule, planner_of};
use crate::graph::{Graph, TypeId};
use crate::vertex::VertexId;

/// The drift of all vertices that have some.
pub(crate) type Drifts = Vec<(VertexId, Drift)>;

impl Schedule {
    /// Vertices beyond those of `before` are there now, and not yet at the instants at which jobs
    /// begin or end: as upstream, where planners learn of them at their first point only.
    pub(crate) fn hold_back(&mut self, graph: &Graph, before: &Filters, now: i64) {
        self.drifts = true;
        for vertex in graph.vertices() {
            let tracked =
                self.filters.tracked(graph, vertex).iter().zip(self.filters.totals(graph, vertex));
            let more = |(kind, total): (&TypeId, &u64)| {
                let known = before.tracked(graph, vertex).iter().position(|known| known == kind)?;
                let old = before.totals(graph, vertex).get(known)?;
                total.checked_sub(*old).filter(|more| *more > 0)
            };
            if let Some(planner) = planner_of(&self.places, &mut self.entries, vertex) {
                for (column, tracked) in tracked.enumerate() {
                    if let Some(more) = more(tracked) {
                        let more = i64::try_from(more).unwrap_or(0);
                        let shown = |at, used: i64| {
                            if at > now { used.wrapping_add(more) } else { used }
                        };
                        planner.correct(column + 1, shown);
                    }
                }
            }
        }
    }

    /// Of a vertex, and of those above it, no more counts as used than there still is: as upstream,
    /// where units that were removed come on top when their jobs give them back.
    pub(super) fn use_at_most_all(&mut self, graph: &Graph, vertex: VertexId) {
        self.drifts = true;
        for vertex in graph.way_up(vertex) {
            if let Some(planner) = planner_of(&self.places, &mut self.entries, vertex) {
                for (column, total) in self.filters.totals(graph, vertex).iter().enumerate() {
                    let most = i64::try_from(*total).unwrap_or(i64::MAX);
                    planner.correct(column + 1, |_, used| used.min(most));
                }
            }
        }
    }

    /// The part of the use of vertices that does not follow from claims.
    pub(crate) fn drifts(&self, graph: &Graph) -> Drifts {
        if !self.drifts {
            return Drifts::new();
        }
        let of = |vertex| Some((vertex, self.planner(vertex)?.drift()));
        graph.vertices().filter_map(of).filter(|(_, drift)| !drift.is_empty()).collect()
    }

    /// Replaces it, where all claims are as they were when it was read.
    pub(crate) fn set_drifts(&mut self, drifts: &Drifts) {
        if self.drifts {
            let planners = self.entries.iter_mut().filter_map(|entry| entry.planner.as_deref_mut());
            planners.for_each(|planner| planner.set_drift(&[]));
        }
        self.drifts |= !drifts.is_empty();
        for (vertex, drift) in drifts {
            if let Some(planner) = planner_of(&self.places, &mut self.entries, *vertex) {
                planner.set_drift(drift);
            }
        }
    }
}
