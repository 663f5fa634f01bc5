//! Free units over a time. Nothing is worked out before a row is read, and then only where
//! something is planned.

use smallvec::SmallVec;

use super::blocks::Blocks;
use super::by_node::ByNode;
use super::claim::free;
use super::columns::Column;
use super::tenancy::Tenancy;
use super::timeline::Timelines;
use crate::effort::Effort;
use crate::time::When;
use crate::vertex::TypeId;

/// Free units of some pools, each over a time.
pub(crate) struct Free<'a> {
    by_node: &'a ByNode,
    timelines: &'a Timelines,
    blocks: &'a Blocks,
    effort: &'a Effort,
    sources: Vec<Source<'a>>,
}

/// Where a number comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// No node ever had such a pool.
    Nowhere,
    /// Sizes: the idle machine.
    Idle(&'a [u64]),
    /// Units that are free now and throughout the moment; also the place of the column.
    Now(&'a [u64], usize),
    /// Units free from now on for ever.
    Lasting(&'a [u64], usize),
    /// Units free from now to an instant.
    Until(&'a [u64], usize, i64),
    /// Units free from a later instant to another one.
    Later(&'a [u64], usize, (i64, i64)),
    /// Units free once everything that has an end has ended.
    InTheEnd(&'a Column),
    /// Units free at a moment for slots of a tenancy, from the claims.
    Beside(TypeId, Tenancy, When),
}

impl<'a> Free<'a> {
    /// Free units of some types for slots of a tenancy, each at a moment; an unknown type is
    /// `None`.
    pub(super) fn new(
        by_node: &'a ByNode,
        (timelines, blocks, effort): (&'a Timelines, &'a Blocks, &'a Effort),
        kinds: impl Iterator<Item = (Option<TypeId>, When)>,
        tenancy: Tenancy,
    ) -> Self {
        let sources = kinds
            .map(|(kind, when)| {
                kind.map_or(Source::Nowhere, |kind| source(by_node, kind, when, tenancy))
            })
            .collect();
        Free { by_node, timelines, blocks, effort, sources }
    }
}

/// Where the free units of a type come from at a moment.
fn source(by_node: &ByNode, kind: TypeId, when: When, tenancy: Tenancy) -> Source<'_> {
    let Some(column) = by_node.columns().get(kind) else { return Source::Nowhere };
    let place = || by_node.columns().place(kind);
    match when {
        _ if tenancy != Tenancy::Shared => Source::Beside(kind, tenancy, when),
        When::Idle => Source::Idle(column.sizes()),
        When::Eventually => Source::InTheEnd(column),
        When::Best => Source::Beside(kind, tenancy, when),
        When::Window { from, to } if from > by_node.now() => {
            Source::Later(column.usable(), place(), (from, to))
        }
        When::Window { .. } if by_node.has_to_last(when) => Source::Lasting(column.free(), place()),
        When::Window { to, .. }
            if by_node.calendar().first_start().is_some_and(|first| first < to) =>
        {
            Source::Until(column.free(), place(), to)
        }
        When::Window { .. } => Source::Now(column.free(), place()),
    }
}

impl Free<'_> {
    /// Steps of the searches of this call.
    #[inline]
    pub(crate) fn effort(&self) -> &Effort {
        self.effort
    }

    /// Free units of one of the pools on a row.
    #[inline]
    pub(crate) fn units(&self, kind: usize, row: usize) -> u64 {
        let (by_node, timelines) = (self.by_node, self.timelines);
        match self.sources[kind] {
            Source::Nowhere => 0,
            Source::Idle(units) | Source::Now(units, _) => units[row],
            Source::Lasting(now, column) => timelines.lasting(by_node, row, now[row], column),
            Source::Until(now, column, to) => {
                if !by_node.has_planned(row) || now[row] == 0 {
                    now[row]
                } else {
                    timelines.get(by_node, row).during(column, by_node.now(), to, by_node.now())
                }
            }
            Source::Later(size, column, (from, to)) => {
                if by_node.claims(row).is_empty() {
                    size[row]
                } else {
                    timelines.get(by_node, row).during(column, from, to, by_node.now())
                }
            }
            Source::InTheEnd(column) => {
                if by_node.is_shut_for_good(row) {
                    0
                } else {
                    free(column.usable()[row], column.endless()[row])
                }
            }
            Source::Beside(kind, tenancy, when) => by_node.free_beside(row, kind, tenancy, when),
        }
    }

    /// Whether there may be enough for a slot on any row of a block of 64: its units of each pool.
    pub(crate) fn block_may(&self, block: usize, needs: &[(usize, u64)]) -> bool {
        let mut places: SmallVec<[(usize, u64); 4]> = SmallVec::new();
        let mut lasting = true;
        for (kind, amount) in needs {
            match self.sources[*kind] {
                Source::Lasting(_, column) => places.push((column, *amount)),
                Source::Now(_, column) | Source::Until(_, column, _) => {
                    lasting = false;
                    places.push((column, *amount));
                }
                Source::Nowhere => return false,
                Source::Idle(_) | Source::Later(..) | Source::InTheEnd(_) | Source::Beside(..) => {}
            }
        }
        places.is_empty()
            || self.blocks.have((self.by_node, self.timelines), block, &places, lasting)
    }
}
