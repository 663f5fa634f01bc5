//! Free units over a time. Nothing is worked out before a row is read, and then only where
//! something is planned.

use smallvec::SmallVec;

use super::{Column, Pools, Tenancy, free};
use crate::effort::Effort;
use crate::time::When;
use crate::vertex::TypeId;

/// Free units of some pools, each over a time.
pub(crate) struct Free<'a> {
    pools: &'a Pools,
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
    /// Units free at a moment for slots that do not share with all, or share with more.
    Beside(TypeId, Tenancy, When),
}

impl Pools {
    /// Free units of some types for slots of a tenancy, each at a moment; an unknown type is
    /// `None`.
    pub(crate) fn free(
        &self,
        kinds: impl Iterator<Item = (Option<TypeId>, When)>,
        tenancy: Tenancy,
    ) -> Free<'_> {
        let source = |(kind, when): (Option<TypeId>, When)| {
            let Some((kind, column)) = kind.and_then(|kind| Some((kind, self.column(kind)?)))
            else {
                return Source::Nowhere;
            };
            let place = || self.place_in_order(kind);
            match when {
                _ if tenancy != Tenancy::Shared => Source::Beside(kind, tenancy, when),
                When::Idle => Source::Idle(&column.size),
                When::Eventually => Source::InTheEnd(column),
                When::Window { from, to } if from > self.now => {
                    Source::Later(&column.usable, place(), (from, to))
                }
                When::Window { .. } if self.has_to_last(when) => {
                    Source::Lasting(&column.free, place())
                }
                When::Window { to, .. }
                    if self.starts.first_key_value().is_some_and(|(first, _)| *first < to) =>
                {
                    Source::Until(&column.free, place(), to)
                }
                When::Window { .. } => Source::Now(&column.free, place()),
            }
        };
        Free { pools: self, sources: kinds.map(source).collect() }
    }

    /// Whether all that is planned begins within a moment, which begins now.
    pub(super) fn has_to_last(&self, when: When) -> bool {
        let last = self.starts.last_key_value();
        matches!(when, When::Window { to, .. } if last.is_some_and(|(last, _)| *last < to))
    }

    /// Instants at which something is given back, ascending, after now.
    pub(crate) fn ends(&self) -> Vec<i64> {
        let mut ends: Vec<i64> = self.ends_with_ranks().map(|(end, _)| end).collect();
        ends.dedup();
        ends
    }

    /// The same with the ranks on which that may be; a rank may be named twice, or be gone.
    pub(crate) fn ends_with_ranks(&self) -> impl Iterator<Item = (i64, &[u32])> {
        self.ends.iter().map(|(end, ranks)| (end.max(self.now + 1), ranks))
    }

    /// Whether anything is planned.
    pub(crate) fn has_planned(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Whether the most that any node of a block of 64 rows has is enough. `lasting`: not only now.
    fn block_has(&self, block: usize, needs: &[(usize, u64)], lasting: bool) -> bool {
        let mut maxima = self.maxima.borrow_mut();
        if block >= maxima.len() {
            maxima.resize(block + 1, None);
        }
        let width = self.width();
        let most = maxima[block].get_or_insert_with(|| {
            let mut most = vec![0_u64; 2 * width].into_boxed_slice();
            for row in block * 64..self.len().min(block * 64 + 64) {
                for (at, column) in self.columns.iter().flatten().enumerate() {
                    let now = column.free[row];
                    most[at] = most[at].max(now);
                    if now > most[width + at] {
                        most[width + at] = most[width + at].max(self.lasting(row, now, at));
                    }
                }
            }
            most
        });
        let from = if lasting { width } else { 0 };
        needs.iter().all(|(column, amount)| most[from + column] >= *amount)
    }

    /// What stays free of a column; `now` is free now.
    #[inline]
    pub(super) fn lasting(&self, row: usize, now: u64, column: usize) -> u64 {
        if self.planned[row] == 0 { now } else { self.timeline(row).least(column) }
    }
}

impl Free<'_> {
    /// Steps of the searches of this call.
    #[inline]
    pub(crate) fn effort(&self) -> &Effort {
        &self.pools.effort
    }

    /// Free units of one of the pools on a row.
    #[inline]
    pub(crate) fn units(&self, kind: usize, row: usize) -> u64 {
        let pools = self.pools;
        match self.sources[kind] {
            Source::Nowhere => 0,
            Source::Idle(units) | Source::Now(units, _) => units[row],
            Source::Lasting(now, column) => pools.lasting(row, now[row], column),
            Source::Until(now, column, to) => {
                if pools.planned[row] == 0 || now[row] == 0 {
                    now[row]
                } else {
                    pools.timeline(row).during(column, pools.now, to, pools.now)
                }
            }
            Source::Later(size, column, (from, to)) => {
                if pools.claims[row].is_empty() {
                    size[row]
                } else {
                    pools.timeline(row).during(column, from, to, pools.now)
                }
            }
            Source::InTheEnd(column) => {
                if pools.shut[row].for_good > 0 {
                    0
                } else {
                    free(column.usable[row], column.endless[row])
                }
            }
            Source::Beside(kind, tenancy, when) => pools.free_beside(row, kind, tenancy, when),
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
        places.is_empty() || self.pools.block_has(block, &places, lasting)
    }
}
