//! Which vertices are free at a moment.

use std::borrow::Cow;

use super::super::candidates::Status;
use crate::constraint::Constraint;
use crate::graph::{Graph, Hold, TypeId, VertexId};
use crate::jobspec::{Jobspec, Resource};
use crate::time::{End, When};

/// Answers for one request and one moment.
pub(super) struct Free<'a> {
    graph: &'a Graph,
    constraint: Option<&'a Constraint>,
    when: When,
    now: i64,
    status: Status,
    /// Free units of the pool types that the request names.
    pools: Vec<(TypeId, Option<Cow<'a, [u64]>>)>,
}

/// Instants at which a whole vertex is given back, after now.
pub(crate) fn ends(graph: &Graph, now: i64) -> Vec<i64> {
    let mut ends = Vec::new();
    let mut open = vec![graph.root()];
    while let Some(id) = open.pop() {
        let vertex = graph.vertex(id);
        if vertex.held_below == 0 {
            continue;
        }
        ends.extend(vertex.holds.iter().filter_map(|hold| match hold.end {
            End::At(end) => Some(end.max(now + 1)),
            End::Eventually | End::Never => None,
        }));
        open.extend_from_slice(&vertex.children);
    }
    ends
}

impl<'a> Free<'a> {
    pub(super) fn new(graph: &'a Graph, spec: &'a Jobspec, when: When, now: i64, status: Status) -> Self {
        let mut kinds: Vec<TypeId> = Vec::new();
        let mut open: Vec<&Resource> = spec.resources.iter().collect();
        while let Some(level) = open.pop() {
            kinds.extend(graph.types().get(&level.kind).filter(|_| graph.is_pool_type(&level.kind)));
            open.extend(&level.with);
        }
        let columns = graph.pools.moment(&kinds, when).columns;
        let pools = kinds.into_iter().zip(columns).collect();
        Free { graph, constraint: spec.constraint.as_ref(), when, now, status, pools }
    }

    /// Whether the walk may look at a vertex and below: it is up, admitted, and nobody has it for himself.
    pub(super) fn may_enter(&self, id: VertexId) -> bool {
        let vertex = self.graph.vertex(id);
        if self.status == Status::Heeded && !vertex.up || vertex.pool {
            return false;
        }
        if let Some(constraint) = self.constraint
            && self.graph.is_node(id)
            && !constraint.admits(&self.graph.subject(id))
        {
            return false;
        }
        !vertex.holds.iter().any(|hold| self.overlaps(hold))
    }

    /// Whether nobody has anything of it or of what lies below.
    pub(super) fn is_untouched(&self, id: VertexId) -> bool {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let vertex = self.graph.vertex(id);
            if vertex.holds.iter().any(|hold| self.overlaps(hold)) {
                return false;
            }
            if let Some(row) = self.graph.position_of(id).filter(|_| self.graph.is_node(id)) {
                let claims = self.graph.pools.claims(row).iter();
                let mut holds = claims.map(|claim| Hold { job: claim.job, start: claim.start, end: claim.end });
                if holds.any(|hold| self.overlaps(&hold)) {
                    return false;
                }
            }
            open.extend_from_slice(&vertex.children);
        }
        true
    }

    /// Whether this member of a slot is units of a pool of this vertex.
    pub(super) fn is_pool(&self, id: VertexId, part: &Resource) -> bool {
        self.graph.is_node(id) && self.graph.is_pool_type(&part.kind)
    }

    /// Free units of a pool of a node.
    pub(super) fn units(&self, node: VertexId, kind: &str) -> u64 {
        let of_kind = |kind: TypeId| self.pools.iter().find(|(other, _)| *other == kind);
        let column = self.graph.types().get(kind).and_then(of_kind).and_then(|(_, column)| column.as_deref());
        match (column, self.graph.position_of(node)) {
            (Some(column), Some(row)) => column[row],
            _ => 0,
        }
    }

    fn overlaps(&self, hold: &Hold) -> bool {
        match self.when {
            When::Window { from, to } => hold.start < to && !hold.end.over_at(from, self.now),
            When::Eventually => hold.end == End::Never,
            When::Idle => false,
        }
    }
}
