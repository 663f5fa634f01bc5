//! Which job holds which vertex, and from when to when: an index over the claims of all jobs, which
//! can be made again from them at any time. Where a graph without pools grew or shrank under jobs,
//! planners have other numbers, as upstream's have (Q26). The difference is their drift: it is kept
//! apart, by point of a planner, so that an index that is made again from the claims can have it
//! as well. A point that goes takes its drift along, and a new point has that of the one before.
//!
//! Only vertices that a job holds, or passes through on the way to those that it holds, have an
//! occupancy; the column that finds it is one 32-bit number per vertex. An occupancy lists the
//! spans of the jobs that have the vertex for themselves, and, where something lies below it, a
//! [`Planner`] with the use of the subtree: the jobs that pass through, and units per tracked type,
//! so that a walk need not enter where there is too little.
//!
//! A job past its end is taken to end in the next second, and the engine moves that end whenever
//! the clock moves: no question here knows of it.

mod filters;
mod planner;

use smallvec::SmallVec;

pub(crate) use filters::Filters;
pub(crate) use planner::{Planner, Row};

use crate::graph::{Graph, TypeId, VertexId};
use crate::time::End;
use planner::Drift;

/// The drift of all vertices that have some: the part of their use that does not follow from the
/// claims of jobs.
pub(crate) type Drifts = Vec<(VertexId, Drift)>;

/// A span of time for which a job has, or will have, a vertex for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) job: u64,
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// It is planned, and not there yet.
    pub(crate) reserved: bool,
}

/// The touch of a job on one vertex.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Touch {
    pub(crate) vertex: VertexId,
    /// It has the vertex for itself.
    pub(crate) exclusive: bool,
    /// Units of the subtree, one per type that the vertex tracks; empty where it tracks none, or
    /// nothing is counted.
    pub(crate) below: Row,
}

/// Times of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) job: u64,
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// When it is given back, where `to` is the end of the window, or the next second for a job
    /// past its end.
    pub(crate) end: End,
    pub(crate) reserved: bool,
}

/// How a need compares to the units below a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    Enough,
    /// Of a type less is free.
    Short,
    /// Of a type there is less, free or not.
    Never,
}

/// Times at which there is too little of something: apart, and in order.
#[derive(Debug)]
pub(crate) struct Shortages(Vec<(i64, i64)>);

impl Shortages {
    fn of(mut times: Vec<(i64, i64)>) -> Self {
        times.sort_unstable();
        times.dedup_by(|next, last| {
            let meet = next.0 <= last.1;
            if meet {
                last.1 = last.1.max(next.1);
            }
            meet
        });
        Shortages(times)
    }

    /// True if there is too little at some instant of a window, or at the one at which it begins.
    pub(crate) fn meet(&self, from: i64, to: i64) -> bool {
        let at = self.0.partition_point(|(_, end)| *end <= from);
        self.0.get(at).is_some_and(|(start, _)| *start <= from || *start < to)
    }
}

/// The number of touched vertices that are remembered one by one.
const TOUCHED_MAX: usize = 1 << 20;

/// The spans of the jobs that have a vertex for themselves, and the use of its subtree.
#[derive(Debug, Clone, Default)]
struct Occupancy {
    spans: SmallVec<[Span; 1]>,
    planner: Option<Box<Planner>>,
}

impl Occupancy {
    /// Takes the touch of a job away.
    fn remove(&mut self, term: Term, touch: &Touch) {
        let is_it = |span: &Span| span.job == term.job && span.from == term.from;
        if touch.exclusive
            && let Some(at) = self.spans.iter().position(is_it)
        {
            self.spans.remove(at);
        }
        if let Some(planner) = &mut self.planner {
            planner.remove(term.from, term.to, &touch.below);
        }
    }

    /// True if no job has, or passes through, the vertex.
    fn is_idle(&self) -> bool {
        self.spans.is_empty() && self.planner.as_ref().is_none_or(|planner| planner.is_idle())
    }
}

/// The state of all vertices.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    /// Per vertex, one more than the place of its occupancy; 0: it has none.
    places: Vec<u32>,
    occupancies: Vec<Occupancy>,
    vacant: Vec<u32>,
    pub(crate) filters: Filters,
    /// Jobs that were put off: what they are to have may be another's meanwhile. As long as there
    /// are any, sums may count a vertex twice, and nothing follows from them.
    pub(crate) put_off: usize,
    /// True if some planner may show more or less than follows from claims.
    drifts: bool,
    /// Vertices that were taken or given back since they were taken last; `None`: too many
    /// to tell.
    touched: Option<Vec<VertexId>>,
}

impl Schedule {
    /// Vertices that were taken or given back since the last call; `None`: it may be any.
    pub(crate) fn take_touched(&mut self) -> Option<Vec<VertexId>> {
        self.touched.replace(Vec::new())
    }

    /// Whether there may be something to be taken by [`Schedule::take_touched`].
    pub(crate) fn is_touched(&self) -> bool {
        self.touched.as_ref().is_none_or(|touched| !touched.is_empty())
    }

    fn note(&mut self, vertex: VertexId) {
        if let Some(touched) = &mut self.touched {
            touched.push(vertex);
            if touched.len() == TOUCHED_MAX {
                self.touched = None;
            }
        }
    }

    /// True if a job has, or passes through, a vertex, now or later.
    #[inline]
    pub(crate) fn is_occupied(&self, vertex: VertexId) -> bool {
        self.occupancy(vertex).is_some()
    }

    /// No job holds anything.
    pub(crate) fn new(filters: Filters) -> Self {
        Schedule { filters, ..Schedule::default() }
    }

    /// True if no job has, or passes through, any vertex, now or later.
    pub(crate) fn is_idle(&self) -> bool {
        self.occupancies.len() == self.vacant.len()
    }

    /// Forgets all spans and uses, to be added again; filters, and jobs that were put off, stay.
    pub(crate) fn clear(&mut self, graph: &Graph) {
        let Schedule { filters, put_off, .. } = std::mem::take(self);
        *self = Schedule { filters, put_off, ..Schedule::default() };
        self.make_room(graph);
    }

    /// Counts all vertices again, and makes room for new ones.
    pub(crate) fn prime(&mut self, graph: &Graph) {
        self.filters.prime(graph);
        self.places.resize(graph.len(), 0);
    }

    /// Makes room for new vertices.
    pub(crate) fn make_room(&mut self, graph: &Graph) {
        self.places.resize(graph.len(), 0);
    }

    /// Counts the vertices from index `from` on, which are new. `false`: that is not enough, all
    /// must be counted again.
    pub(crate) fn grow(&mut self, graph: &Graph, from: usize, now: i64) -> bool {
        self.make_room(graph);
        let counts_late = !graph.has_pool_types() && self.occupancies.len() > self.vacant.len();
        let before = counts_late.then(|| self.filters.clone());
        if !self.filters.grow(graph, from) {
            return false;
        }
        if let Some(before) = before {
            self.hold_back(graph, &before, now);
        }
        true
    }

    /// Counts a subtree no more that was cut off from `parent`. `false`: all must be counted again.
    pub(crate) fn shrink(
        &mut self,
        graph: &Graph,
        top: VertexId,
        parent: Option<VertexId>,
    ) -> bool {
        if !self.filters.shrink(graph, top, parent) {
            return false;
        }
        if let Some(parent) = parent {
            self.use_at_most_all(graph, parent);
        }
        true
    }

    /// True if the units that a job takes below a vertex are still there: not where the units that
    /// others have were cut off.
    pub(crate) fn has_room(
        &self,
        graph: &Graph,
        term: Term,
        vertex: VertexId,
        below: &[i64],
    ) -> bool {
        let planner = self.planner(vertex);
        let mut columns = self.filters.totals(graph, vertex).iter().zip(below).enumerate();
        columns.all(|(column, (total, amount))| {
            let used = planner.map_or(0, |planner| planner.peak(term.from, term.to, column + 1));
            i64::try_from(*total).unwrap_or(i64::MAX).saturating_sub(used) >= *amount
        })
    }

    /// The units left, at an instant, of the last type that a vertex tracks; `None` if it tracks
    /// none, or there is none of it.
    pub(crate) fn last_free(&self, graph: &Graph, vertex: VertexId, at: i64) -> Option<i64> {
        let totals = self.filters.totals(graph, vertex);
        let total = totals.last()?;
        let used = self
            .planner(vertex)
            .map_or(0, |planner| planner.peak(at, at.saturating_add(1), totals.len()));
        Some(i64::try_from(*total).unwrap_or(i64::MAX).saturating_sub(used))
    }

    #[inline]
    fn occupancy(&self, vertex: VertexId) -> Option<&Occupancy> {
        match self.places.get(vertex.index()) {
            None | Some(0) => None,
            Some(place) => Some(&self.occupancies[*place as usize - 1]),
        }
    }

    /// The jobs that have a vertex for themselves, now or later.
    #[inline]
    pub(crate) fn spans(&self, vertex: VertexId) -> &[Span] {
        self.occupancy(vertex).map_or(&[], |occupancy| &occupancy.spans)
    }

    /// The spans that are under way at an instant.
    pub(crate) fn spans_at(&self, vertex: VertexId, at: i64) -> impl Iterator<Item = &Span> {
        self.spans(vertex).iter().filter(move |span| span.from <= at && at < span.to)
    }

    /// The use of the subtree of a vertex.
    #[inline]
    pub(crate) fn planner(&self, vertex: VertexId) -> Option<&Planner> {
        self.occupancy(vertex)?.planner.as_deref()
    }

    /// True if no job has the vertex for itself at any instant of a window.
    #[inline]
    pub(crate) fn is_free(&self, vertex: VertexId, from: i64, to: i64) -> bool {
        !self.spans(vertex).iter().any(|span| span.from < to && from < span.to)
    }

    /// No job has anything of the vertex, or of what lies below, at any instant of a window.
    pub(crate) fn is_untouched(&self, vertex: VertexId, from: i64, to: i64) -> bool {
        let Some(occupancy) = self.occupancy(vertex) else { return true };
        match &occupancy.planner {
            Some(planner) => planner.peak(from, to, 0) == 0,
            None => self.is_free(vertex, from, to),
        }
    }

    /// How the needs of the tracked types compare to the units free below a vertex throughout a
    /// window.
    pub(crate) fn below(
        &self,
        graph: &Graph,
        vertex: VertexId,
        from: i64,
        to: i64,
        needs: &[(TypeId, u64)],
    ) -> Below {
        let tracked = self.filters.tracked(graph, vertex);
        if tracked.is_empty() || needs.is_empty() {
            return Below::Enough;
        }
        let totals = self.filters.totals(graph, vertex);
        let planner = self.planner(vertex);
        for (column, (kind, total)) in tracked.iter().zip(totals).enumerate() {
            let need = needs.iter().find(|(needed, _)| needed == kind).map_or(0, |need| need.1);
            if need > *total {
                return Below::Never;
            }
            if need == 0 || self.put_off > 0 {
                continue;
            }
            let used = planner.map_or(0, |planner| planner.peak(from, to, column + 1));
            if total.saturating_add_signed(used.saturating_neg()) < need {
                return Below::Short;
            }
        }
        Below::Enough
    }

    /// When there is less of some tracked type below a vertex than is needed.
    pub(crate) fn shortages(
        &self,
        graph: &Graph,
        vertex: VertexId,
        needs: &[(TypeId, u64)],
    ) -> Shortages {
        let tracked = self.filters.tracked(graph, vertex);
        let totals = self.filters.totals(graph, vertex);
        let mut times = Vec::new();
        for (column, (kind, total)) in tracked.iter().zip(totals).enumerate() {
            let need = needs.iter().find(|(needed, _)| needed == kind).map_or(0, |need| need.1);
            match (total.checked_sub(need), self.planner(vertex)) {
                (None, _) => return Shortages(vec![(i64::MIN, i64::MAX)]),
                (Some(most), Some(planner)) if need > 0 && self.put_off == 0 => {
                    let most = i64::try_from(most).unwrap_or(i64::MAX);
                    planner.times_above(column + 1, most, &mut times);
                }
                _ => {}
            }
        }
        Shortages::of(times)
    }

    /// Before this instant, from `at` on, there is less of some tracked type below a vertex than is
    /// needed; `None`: at any time.
    pub(crate) fn enough_from(
        &self,
        graph: &Graph,
        vertex: VertexId,
        at: i64,
        needs: &[(TypeId, u64)],
    ) -> Option<i64> {
        let tracked = self.filters.tracked(graph, vertex);
        let totals = self.filters.totals(graph, vertex);
        let (planner, mut enough) = (self.planner(vertex), at);
        for (column, (kind, total)) in tracked.iter().zip(totals).enumerate() {
            let need = needs.iter().find(|(needed, _)| needed == kind).map_or(0, |need| need.1);
            let most = i64::try_from(total.checked_sub(need)?).unwrap_or(i64::MAX);
            if need > 0
                && self.put_off == 0
                && let Some(planner) = planner
            {
                enough = enough.max(planner.first_with_at_most(at, column + 1, most)?);
            }
        }
        Some(enough)
    }

    /// Counts the touch of a job on a vertex from now on.
    pub(crate) fn add(&mut self, graph: &Graph, term: Term, touch: &Touch) {
        let width = self.filters.tracked(graph, touch.vertex).len() + 1;
        let has_children = !graph.children(touch.vertex).is_empty();
        self.note(touch.vertex);
        let occupancy = self.occupancy_mut(touch.vertex);
        if touch.exclusive {
            occupancy.spans.push(Span {
                job: term.job,
                from: term.from,
                to: term.to,
                reserved: term.reserved,
            });
        }
        if has_children {
            let planner = occupancy.planner.get_or_insert_with(|| Box::new(Planner::new(width)));
            planner.add(term.from, term.to, &touch.below);
        }
    }

    /// Counts the touch of a job on a vertex no more.
    pub(crate) fn remove(&mut self, term: Term, touch: &Touch) {
        let at = touch.vertex.index();
        // Of a leaf that jobs only pass through nothing is counted: the first of them that goes
        // takes its occupancy along.
        if let Some(place) = self.places.get(at).copied().filter(|place| *place > 0) {
            self.note(touch.vertex);
            let occupancy = &mut self.occupancies[place as usize - 1];
            occupancy.remove(term, touch);
            if occupancy.is_idle() {
                *occupancy = Occupancy::default();
                self.places[at] = 0;
                self.vacant.push(place);
            }
        }
    }

    /// A job uses less below a vertex than it did.
    pub(crate) fn reduce(&mut self, term: Term, vertex: VertexId, less: &[i64]) {
        self.note(vertex);
        // Nothing is counted below a vertex that has lost its children.
        if let Some(planner) = planner_of(&self.places, &mut self.occupancies, vertex) {
            planner.reduce(term.from, term.to, less);
        }
    }

    fn occupancy_mut(&mut self, vertex: VertexId) -> &mut Occupancy {
        let at = vertex.index();
        if at >= self.places.len() {
            self.places.resize(at + 1, 0);
        }
        if self.places[at] == 0 {
            self.places[at] = self.vacant.pop().unwrap_or_else(|| {
                self.occupancies.push(Occupancy::default());
                u32::try_from(self.occupancies.len()).expect("no more occupancies than vertices")
            });
        }
        &mut self.occupancies[self.places[at] as usize - 1]
    }
}

/// The use of the subtree of a vertex; `None`: no job passes through it.
fn planner_of<'a>(
    places: &[u32],
    occupancies: &'a mut [Occupancy],
    vertex: VertexId,
) -> Option<&'a mut Planner> {
    let place = places.get(vertex.index()).copied().filter(|place| *place > 0)?;
    occupancies[place as usize - 1].planner.as_deref_mut()
}

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
            if let Some(planner) = planner_of(&self.places, &mut self.occupancies, vertex) {
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

    /// Of a vertex, and of those above it, no more counts as used than there still is: as upstream
    /// (Q26), where units that were removed come on top when their jobs give them back.
    pub(super) fn use_at_most_all(&mut self, graph: &Graph, vertex: VertexId) {
        self.drifts = true;
        for vertex in graph.way_up(vertex) {
            if let Some(planner) = planner_of(&self.places, &mut self.occupancies, vertex) {
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
            let planners = self
                .occupancies
                .iter_mut()
                .filter_map(|occupancy| occupancy.planner.as_deref_mut());
            planners.for_each(|planner| planner.set_drift(&[]));
        }
        self.drifts |= !drifts.is_empty();
        for (vertex, drift) in drifts {
            if let Some(planner) = planner_of(&self.places, &mut self.occupancies, *vertex) {
                planner.set_drift(drift);
            }
        }
    }
}
