//! From a place that was found to a job that has it, and to the text that says so.

use std::collections::HashSet;
use std::sync::Arc;

use super::asking::defect;
use super::matching::{Ask, Form, Found, Grant, MatchOp, seconds};
use super::{Engine, Job, JobInfo, JobMode};
use crate::graph::VertexId;
use crate::jobspec::Hold;
use crate::matcher::flat;
use crate::pools::{Amounts, SlotShape, Tenancy};
use crate::schedule::{Term, Touch};
use crate::time::{End, WINDOW_SECONDS};
use crate::traverser::request::Level;
use crate::traverser::select::{self, Marked, Units};
use crate::traverser::{Left, Request, Selection};
use crate::writer::{self, About, Emitted, MatchFormat};
use crate::{Error, Reason};

/// Says that a place was found of which nothing would be had alone.
pub(super) const NOTHING_TAKEN: &str = "resources: nothing is exclusive";

impl Engine {
    /// Takes the place that was found, if the operation takes anything, and writes it.
    pub(super) fn grant(
        &mut self,
        op: MatchOp,
        id: u64,
        ask: &Ask<'_>,
        found: &Found,
        at: i64,
    ) -> Result<Grant, Error> {
        let reserved = op.takes() && at > self.now;
        if let Found::Walk(selection, _) = found
            && selection.marked.is_empty()
        {
            // As upstream: its errno then still tells the last obstacle of the search.
            let reason = match self.left.get() {
                Left::Busy => Reason::Busy,
                Left::Exceeded => Reason::Exceeded,
                Left::Nothing | Left::EndOfWindow => Reason::Nothing,
            };
            // Each failure has a text but those that are answers.
            let text = if reason == Reason::Busy { "" } else { NOTHING_TAKEN };
            return Err(Error { reason, text: text.to_owned() });
        }
        if let Some(queue) = &ask.spec.queue {
            self.writer.set_queue(queue);
        }
        let format = self.options.format;
        if format == MatchFormat::Placement && matches!(found, Found::Walk(..)) {
            // That has no words for vertices, so nothing is taken.
            self.write(format, ask, found, at, &[])?;
        }
        let unmarked = if op.takes() { self.take(id, ask, found, at) } else { Vec::new() };
        let r = match (found, &ask.form) {
            (Found::Flat(picks), Form::Flat(request)) if format == MatchFormat::Placement => {
                Ok(writer::placement(&self.graph, request, picks))
            }
            _ => self.write(format, ask, found, at, &unmarked),
        };
        defect("grant written");
        // Last, since it is not looked up but remembered.
        if let Found::Walk(selection, _) = found
            && ask.policy.stops_early()
        {
            self.weigh(selection, op.takes());
        }
        self.call.has_taken();
        match r {
            Ok(r) => Ok(Grant {
                job: op.takes().then_some(id),
                at,
                reserved,
                r,
                is_earliest: self.graph.pools.effort.is_exact(),
            }),
            Err(error) => {
                // As upstream: the resources stay taken, and no job has them.
                if op.takes()
                    && let Some(job) = self.jobs.remove(&id)
                {
                    self.lost.push((id, job));
                }
                Err(error)
            }
        }
    }

    fn write(
        &mut self,
        format: MatchFormat,
        ask: &Ask<'_>,
        found: &Found,
        at: i64,
        unmarked: &[VertexId],
    ) -> Result<String, Error> {
        let label = |levels: &[Level], at: Option<usize>| {
            at.map_or_else(Box::default, |at| levels[at].label.clone())
        };
        let flat;
        let (selection, levels): (&Selection, &[Level]) = match (found, &ask.form) {
            (Found::Walk(selection, which), Form::Walk(requests)) => {
                (selection, &requests[*which].levels)
            }
            (Found::Flat(picks), Form::Flat(request)) => {
                flat = self.selection_of(request, picks);
                (&flat, &[])
            }
            _ => unreachable!("a place has the form of its request"),
        };
        let emit = |marked: &Marked| Emitted {
            vertex: marked.vertex,
            depth: marked.depth,
            exclusive: marked.exclusive,
            needs: marked.needs,
            label: label(levels, marked.level.filter(|at| *at < levels.len())),
            filter: None,
            left_out: unmarked.contains(&marked.vertex),
        };
        let emitted: Vec<Emitted> = selection.marked.iter().map(emit).collect();
        let expiration = match ask.longest() {
            Hold::Seconds(seconds) => at.saturating_add_unsigned(seconds),
            _ => at.saturating_add(WINDOW_SECONDS),
        };
        let expiration =
            if at < WINDOW_SECONDS { expiration.min(WINDOW_SECONDS) } else { expiration };
        let about = About { starttime: at, expiration };
        self.writer.write(format, &self.graph, &emitted, about, writer::WIDE)
    }

    /// What slots of pool units are as vertices.
    fn selection_of(&self, request: &flat::Request<'_>, picks: &[flat::Pick]) -> Selection {
        let mut units: Vec<(VertexId, crate::graph::TypeId, u64)> = Vec::new();
        for of_shape in picks.chunk_by(|a, b| a.shape == b.shape) {
            let slot = request.slot(of_shape[0].shape);
            for pick in of_shape {
                let node = self.graph.pools.vertices()[pick.row];
                units.extend(
                    slot.needs
                        .iter()
                        .map(|(kind, amount)| (node, *kind, amount.saturating_mul(pick.count))),
                );
            }
        }
        select::units_of(&self.graph, &self.schedule, &units)
    }

    /// Takes a place that was found. Returns the vertices that cannot be taken, as
    /// [`Engine::touch`] does.
    fn take(&mut self, id: u64, ask: &Ask<'_>, found: &Found, at: i64) -> Vec<VertexId> {
        self.takes_from_now_on(id);
        let mode = if at > self.now { JobMode::Reserved } else { JobMode::Allocated };
        let to = at.saturating_add(seconds(ask.longest()));
        let to = if at < WINDOW_SECONDS { to.min(WINDOW_SECONDS) } else { to };
        let end = end_of(ask.longest(), at);
        let term = Term { job: id, from: at, to, end, reserved: mode == JobMode::Reserved };
        let info = JobInfo { mode, at, overhead: 0.0 };
        self.note_job(id);
        defect("taking");
        // As upstream, which does not notice that there is one.
        if let Some(older) = self.jobs.insert(id, Arc::new(Job::new(info, term))) {
            self.lost.push((id, older));
        }
        let mut unmarked = Vec::new();
        match (found, &ask.form) {
            (Found::Flat(picks), Form::Flat(request)) => {
                for of_shape in picks.chunk_by(|a, b| a.shape == b.shape) {
                    let slot = request.slot(of_shape[0].shape);
                    let end = end_of(request.shapes[of_shape[0].shape].hold, at);
                    let rows: Vec<(usize, u64)> =
                        of_shape.iter().map(|pick| (pick.row, pick.count)).collect();
                    self.claim(&rows, id, &slot, (at, end));
                }
            }
            (Found::Walk(selection, which), Form::Walk(requests)) => {
                unmarked = self.touch(id, selection);
                for units in &selection.units {
                    self.claim_units(id, &requests[*which], *units, (at, end));
                }
            }
            _ => unreachable!("a place has the form of its request"),
        }
        self.leak(id);
        self.schedule_job(id);
        if mode == JobMode::Reserved && self.graph.has_pool_types() {
            self.prepare_to_move(id, ask.spec);
        }
        unmarked
    }

    /// Remembers of a reservation all that moving it needs.
    fn prepare_to_move(&mut self, id: u64, spec: &crate::jobspec::Jobspec) {
        let gains = spec.extras.not_before.is_none().then(|| self.graph.pools.gains.count());
        if let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) {
            (job.gains, job.slots) = (gains, job.slots_left(&self.graph.pools));
            let mut spec = spec.clone();
            spec.extras.not_before = None;
            job.spec = Some(Arc::new(spec));
        }
    }

    /// What earlier grants under the id of a job take of the vertices that it takes too is never
    /// given back: as upstream, which remembers one span per vertex and job.
    fn leak(&mut self, id: u64) {
        if !self.lost.iter().any(|(lost, _)| *lost == id) {
            return;
        }
        let touches = self.jobs.get(&id).into_iter().flat_map(|job| &job.touches);
        let taken: HashSet<VertexId> = touches.map(|touch| touch.vertex).collect();
        self.follows_from_jobs = false;
        for (_, older) in self.lost.iter_mut().filter(|(lost, _)| *lost == id) {
            Arc::make_mut(older).touches.retain(|touch| !taken.contains(&touch.vertex));
        }
    }

    /// Makes a job hold the vertices of a selection. Returns those that hold less than is taken of
    /// them, because a part of the graph was removed together with the vertices of other jobs
    /// there: as upstream, this is not counted, and they are not written.
    pub(super) fn touch(&mut self, id: u64, selection: &Selection) -> Vec<VertexId> {
        let mut unmarked = Vec::new();
        let Some(term) = self.jobs.get(&id).map(|job| job.term) else { return unmarked };
        let mut touches = Vec::with_capacity(selection.marked.len());
        for marked in &selection.marked {
            let exclusive = marked.exclusive && !self.graph.is_pool(marked.vertex);
            let mut touch = Touch { vertex: marked.vertex, exclusive, below: marked.below.clone() };
            if self.has_shrunk
                && !self.schedule.has_room(&self.graph, term, touch.vertex, &touch.below)
            {
                touch.below.clear();
                unmarked.push(touch.vertex);
            }
            self.enter(term, &touch);
            touches.push(touch);
        }
        if let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) {
            job.touches.append(&mut touches);
        }
        unmarked
    }

    /// Notes the units left below the vertices of a selection, as upstream does also where nothing
    /// is taken.
    pub(super) fn weigh(&mut self, selection: &Selection, taken: bool) {
        let mut weights = Vec::new();
        for marked in &selection.marked {
            let left = self.schedule.last_free(&self.graph, marked.vertex, self.now);
            weights
                .extend(left.filter(|left| taken || *left > 0).map(|left| (marked.vertex, left)));
        }
        defect("weights read");
        self.call.has_taken();
        self.changes_from_now_on();
        self.note_vertices();
        for (vertex, left) in weights {
            self.weights.set(&self.graph, vertex, left);
        }
    }

    fn claim_units(&mut self, id: u64, request: &Request, units: Units, times: (i64, End)) {
        let Some(row) = self.graph.position_of(units.node) else { return };
        let level = &request.levels[units.slot];
        let mut needs: Amounts = request
            .of_range(&level.with)
            .iter()
            .filter(|part| self.graph.is_pool_type(self.graph.types().name(part.kind)))
            .map(|part| (part.kind, part.count.min))
            .collect();
        needs.sort_unstable();
        let slot =
            Arc::new(SlotShape { label: level.label.clone(), needs, tenancy: Tenancy::Shared });
        self.claim(&[(row, units.count)], id, &slot, times);
    }
}

/// When a job that starts at `at` gives its resources back.
fn end_of(hold: Hold, at: i64) -> End {
    match hold {
        Hold::Seconds(seconds) => End::At(at.saturating_add_unsigned(seconds)),
        Hold::Eventually => End::Eventually,
        Hold::Endless | Hold::Refused => End::Never,
    }
}
