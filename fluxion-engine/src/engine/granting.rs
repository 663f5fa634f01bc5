//! From a place that was found to a job that has it, and to the text that says so.

use std::sync::Arc;

use super::matching::{Ask, Form, Found, Grant, MatchOp, seconds};
use super::{Engine, Job, JobInfo, JobMode};
use crate::graph::VertexId;
use crate::jobspec::Hold;
use crate::matcher::flat;
use crate::pools::{Amounts, Claim, SlotShape};
use crate::schedule::{Term, Touch};
use crate::time::{End, WINDOW_SECONDS};
use crate::traverser::request::Level;
use crate::traverser::select::{self, Marked, Units};
use crate::traverser::{Request, Selection};
use crate::writer::{self, About, Emitted, MatchFormat};
use crate::{Error, Reason};

impl Engine {
    /// Takes what was found, if the operation takes anything, and writes it.
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
            // As upstream, whose errno then still says what happened last.
            let reason = if self.last_was_busy.get() {
                Reason::Busy
            } else if at > self.now {
                Reason::NotFound
            } else {
                Reason::Nothing
            };
            return Err(Error { reason, text: String::new() });
        }
        let format = self.options.format;
        if op.takes() {
            self.take(id, ask, found, at);
        }
        if let Found::Walk(selection, _) = found
            && ask.policy.stops_early()
        {
            self.weigh(selection, op.takes());
        }
        let r = match (found, &ask.form) {
            (Found::Flat(picks), Form::Flat(request)) if format == MatchFormat::Placement => {
                Ok(writer::placement(&self.graph, request, picks))
            }
            _ => self.write(format, ask, found, at),
        };
        match r {
            Ok(r) => Ok(Grant { job: op.takes().then_some(id), at, reserved, r }),
            Err(error) => {
                // As upstream: what was taken stays taken, and no job has it.
                if let Some(job) = self.jobs.remove(&id).filter(|_| op.takes()) {
                    if error.reason == Reason::NotOffered {
                        self.give_back(id, &job);
                    } else {
                        self.lost.push((id, job));
                    }
                }
                Err(error)
            }
        }
    }

    fn write(&mut self, format: MatchFormat, ask: &Ask<'_>, found: &Found, at: i64) -> Result<String, Error> {
        let label = |levels: &[Level], at: Option<usize>| at.map_or_else(Box::default, |at| levels[at].label.clone());
        let flat;
        let (selection, levels): (&Selection, &[Level]) = match (found, &ask.form) {
            (Found::Walk(selection, which), Form::Walk(requests)) => (selection, &requests[*which].levels),
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
        };
        let emitted: Vec<Emitted> = selection.marked.iter().map(emit).collect();
        let expiration = match ask.spec.hold {
            Hold::Seconds(seconds) => at.saturating_add_unsigned(seconds),
            _ => at.saturating_add(WINDOW_SECONDS),
        };
        let expiration = if at < WINDOW_SECONDS { expiration.min(WINDOW_SECONDS) } else { expiration };
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
                units.extend(slot.needs.iter().map(|(kind, amount)| (node, *kind, amount.saturating_mul(pick.count))));
            }
        }
        select::units_of(&self.graph, &self.schedule, &units)
    }

    /// Takes a place that was found.
    fn take(&mut self, id: u64, ask: &Ask<'_>, found: &Found, at: i64) {
        let mode = if at > self.now { JobMode::Reserved } else { JobMode::Allocated };
        let end = Engine::end_of(ask.spec.hold, at);
        let to = at.saturating_add(seconds(ask.spec.hold));
        let to = if at < WINDOW_SECONDS { to.min(WINDOW_SECONDS) } else { to };
        let term = Term { job: id, from: at, to, reserved: mode == JobMode::Reserved };
        let info = JobInfo { mode, at, overhead: 0.0 };
        if let Some(older) = self.jobs.insert(id, Job { info, term, ranks: Vec::new(), touches: Vec::new() }) {
            // As upstream, which does not notice: nobody gives back what the first job of this id holds.
            self.lost.push((id, older));
        }
        match (found, &ask.form) {
            (Found::Flat(picks), Form::Flat(request)) => {
                for of_shape in picks.chunk_by(|a, b| a.shape == b.shape) {
                    let slot = request.slot(of_shape[0].shape);
                    for pick in of_shape {
                        let slot = Arc::clone(&slot);
                        self.claim(pick.row, Claim { job: id, slot, count: pick.count, start: at, end });
                    }
                }
            }
            (Found::Walk(selection, which), Form::Walk(requests)) => {
                self.touch(id, selection);
                for units in &selection.units {
                    self.claim_units(id, &requests[*which], *units, at, end);
                }
            }
            _ => unreachable!("a place has the form of its request"),
        }
    }

    /// Makes a job hold the vertices of a selection.
    pub(super) fn touch(&mut self, id: u64, selection: &Selection) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let term = job.term;
        for marked in &selection.marked {
            let exclusive = marked.exclusive && !self.graph.is_pool(marked.vertex);
            let touch = Touch { vertex: marked.vertex, exclusive, below: marked.below.clone() };
            self.schedule.add(&self.graph, term, &touch);
            job.touches.push(touch);
        }
    }

    /// Notes what is left below the vertices of a selection, as upstream does also where nothing is taken.
    pub(super) fn weigh(&mut self, selection: &Selection, taken: bool) {
        for marked in &selection.marked {
            let left = self.schedule.last_free(&self.graph, marked.vertex, self.now);
            if let Some(left) = left.filter(|left| taken || *left > 0) {
                self.weights.set(&self.graph, marked.vertex, left);
            }
        }
    }

    fn claim_units(&mut self, id: u64, request: &Request, units: Units, start: i64, end: End) {
        let Some(row) = self.graph.position_of(units.node) else { return };
        let level = &request.levels[units.slot];
        let mut needs: Amounts = request
            .of_range(&level.with)
            .iter()
            .filter(|part| self.graph.is_pool_type(self.graph.types().name(part.kind)))
            .map(|part| (part.kind, part.count.min))
            .collect();
        needs.sort_unstable();
        let slot = Arc::new(SlotShape { label: level.label.clone(), needs });
        self.claim(row, Claim { job: id, slot, count: units.count, start, end });
    }
}
