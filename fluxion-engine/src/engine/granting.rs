//! From a place that was found to a job that has it, and to the text that says so.

use std::sync::Arc;

use super::Engine;
use super::ask::{Ask, Form, Found, seconds};
use super::defects::defect;
use super::op::{Grant, MatchOp};
use super::sight::NOTHING_TAKEN;
use crate::book::Book;
use crate::book::job::{JobInfo, JobMode};
use crate::graph::{Graph, VertexId};
use crate::jobspec::Hold;
use crate::pools::{Amounts, SlotShape, Slots, Tenancy};
use crate::schedule::Term;
use crate::slot_search::flat;
use crate::time::{End, WINDOW_SECONDS};
use crate::vertex_search::request::RequestLevel;
use crate::vertex_search::select::{self, Marked, Units};
use crate::vertex_search::{Left, Request, Selection};
use crate::writer::{self, About, Emitted, MatchFormat};
use crate::{Error, Reason};

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
        let written = hold(self, op, id, ask, found, at)?;
        // The older job could be freed by no call any more.
        if written.is_err() && self.book.is_taking_over() && self.take_back_question() {
            return written;
        }
        settle(self, op, ask, found);
        if written.is_err() && op.takes() {
            // As upstream (Q5): the resources stay taken, and no job has them.
            self.book.lose(id);
        }
        written
    }
}

/// Notes what walks remember of a place that was taken.
pub(super) fn settle(engine: &mut Engine, op: MatchOp, ask: &Ask<'_>, found: &Found) {
    // Last, since it is not looked up but remembered.
    if let Found::Walk(selection, _) = found
        && ask.policy.stops_early()
    {
        weigh(&mut engine.book, selection, op.takes());
    }
    engine.book.has_taken();
}

/// Takes the place that was found, if the operation takes anything, and writes it. The outer
/// error: nothing was taken; the inner one: the job has the place, and it cannot be written.
pub(super) fn hold(
    engine: &mut Engine,
    op: MatchOp,
    id: u64,
    ask: &Ask<'_>,
    found: &Found,
    at: i64,
) -> Result<Result<Grant, Error>, Error> {
    let reserved = op.takes() && at > engine.now();
    if let Found::Walk(selection, _) = found
        && selection.marked.is_empty()
    {
        // As upstream (Q22): its errno then still tells the last obstacle of the search.
        let reason = match engine.searches.left() {
            Left::Busy => Reason::Busy,
            Left::Exceeded => Reason::Exceeded,
            Left::Nothing | Left::EndOfWindow => Reason::Nothing,
        };
        // Each failure has a text but those that are answers.
        let text = if reason == Reason::Busy { "" } else { NOTHING_TAKEN };
        return Err(Error { reason, text: text.to_owned() });
    }
    if let Some(queue) = &ask.spec.queue {
        engine.writer.set_queue(queue);
    }
    let format = engine.options.format;
    if format == MatchFormat::Placement && matches!(found, Found::Walk(..)) {
        // That has no words for vertices, so nothing is taken.
        write(engine, format, ask, found, (at, &[]), &[])?;
    }
    let slots = slots_of(&engine.book, ask, found, at);
    let unmarked = if op.takes() {
        take(&mut engine.book, id, ask, found, (at, slots.clone()))
    } else {
        Vec::new()
    };
    let r = match (found, &ask.form) {
        (Found::Flat(picks), Form::Flat(request)) if format == MatchFormat::Placement => {
            Ok(writer::placement(engine.graph(), request, picks))
        }
        _ => write(engine, format, ask, found, (at, &slots), &unmarked),
    };
    defect("grant written");
    let is_earliest = engine.graph().pools.effort.is_exact();
    let job = op.takes().then_some(id);
    Ok(r.map(|r| Grant { job, at, reserved, r, is_earliest }))
}

/// Writes a place that was found.
fn write(
    engine: &mut Engine,
    format: MatchFormat,
    ask: &Ask<'_>,
    found: &Found,
    (at, slots): (i64, &[Slots]),
    unmarked: &[VertexId],
) -> Result<String, Error> {
    let label = |levels: &[RequestLevel], at: Option<usize>| {
        at.map_or_else(Box::default, |at| levels[at].label.clone())
    };
    let flat;
    let (selection, levels): (&Selection, &[RequestLevel]) = match (found, &ask.form) {
        (Found::Walk(selection, which), Form::Walk(requests)) => {
            (selection, &requests[*which].levels)
        }
        (Found::Flat(picks), Form::Flat(request)) => {
            flat = selection_of(&engine.book, request, picks);
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
    let expiration = if at < WINDOW_SECONDS { expiration.min(WINDOW_SECONDS) } else { expiration };
    let about = About { starttime: at, expiration, slots };
    engine.writer.write(format, engine.book.graph(), &emitted, about, writer::WIDE)
}

/// The vertices that slots of pool units stand for.
fn selection_of(book: &Book, request: &flat::SlotRequest<'_>, picks: &[flat::Pick]) -> Selection {
    let mut units: Vec<(VertexId, crate::graph::TypeId, u64)> = Vec::new();
    for of_shape in picks.chunk_by(|a, b| a.shape == b.shape) {
        let slot = request.slot(of_shape[0].shape);
        for pick in of_shape {
            let node = book.graph().pools.vertices()[pick.row];
            units.extend(
                slot.needs
                    .iter()
                    .map(|(kind, amount)| (node, *kind, amount.saturating_mul(pick.count))),
            );
        }
    }
    select::exactly(book.graph(), book.schedule(), &[], &[], &units)
}

/// The slots of pool units of a place.
fn slots_of(book: &Book, ask: &Ask<'_>, found: &Found, at: i64) -> Vec<Slots> {
    let (graph, is_planned) = (book.graph(), at > book.now());
    match (found, &ask.form) {
        (Found::Flat(picks), Form::Flat(request)) => {
            let ranks = graph.pools.ranks();
            let of_shape = |picks: &[flat::Pick]| {
                let shape = picks[0].shape;
                let end = end_of(request.shapes[shape].hold, at);
                let on = picks.iter().map(|pick| (ranks[pick.row], pick.count));
                Slots::new(request.slot(shape), (at, end), is_planned, on)
            };
            picks.chunk_by(|one, other| one.shape == other.shape).map(of_shape).collect()
        }
        (Found::Walk(selection, which), Form::Walk(requests)) => {
            let end = end_of(ask.longest(), at);
            let of_level = |units: &[Units]| {
                let shape = shape_of_level(graph, &requests[*which], units[0].slot);
                let rank = |node| u32::try_from(graph.rank(node)).ok();
                let on = units.iter().filter_map(|units| Some((rank(units.node)?, units.count)));
                Slots::new(Arc::new(shape), (at, end), is_planned, on)
            };
            selection.units.chunk_by(|one, other| one.slot == other.slot).map(of_level).collect()
        }
        _ => unreachable!("a place has the form of its request"),
    }
}

/// The units of pools that a slot takes, where a walk looked for them.
fn shape_of_level(graph: &Graph, request: &Request, slot: usize) -> SlotShape {
    let level = &request.levels[slot];
    let mut needs: Amounts = request
        .of_range(&level.with)
        .iter()
        .filter(|part| graph.is_pool_type(graph.types().name(part.kind)))
        .map(|part| (part.kind, part.count.min))
        .collect();
    needs.sort_unstable();
    SlotShape { label: level.label.clone(), needs, tenancy: Tenancy::Shared }
}

/// Takes a place that was found. Returns the vertices that cannot be taken, as
/// [`Book::touch`] does.
fn take(
    book: &mut Book,
    id: u64,
    ask: &Ask<'_>,
    found: &Found,
    (at, slots): (i64, Vec<Slots>),
) -> Vec<VertexId> {
    book.takes_from_now_on(id);
    let mode = if at > book.now() { JobMode::Reserved } else { JobMode::Allocated };
    let to = at.saturating_add(seconds(ask.longest()));
    let to = if at < WINDOW_SECONDS { to.min(WINDOW_SECONDS) } else { to };
    let end = end_of(ask.longest(), at);
    let term = Term { job: id, from: at, to, end, reserved: mode == JobMode::Reserved };
    let info = JobInfo { mode, at, overhead: 0.0 };
    defect("taking");
    book.open(id, info, term);
    let mut unmarked = Vec::new();
    for slots in slots {
        book.claim(id, slots);
    }
    if let Found::Walk(selection, _) = found {
        unmarked = book.touch(id, selection);
    }
    book.leak(id);
    book.schedule_job(id);
    if mode == JobMode::Reserved && book.graph().has_pool_types() {
        book.prepare_to_move(id, ask.spec);
    }
    unmarked
}

/// Notes the units left below the vertices of a selection, as upstream does also where nothing
/// is taken.
pub(super) fn weigh(book: &mut Book, selection: &Selection, taken: bool) {
    let mut weights = Vec::new();
    for marked in &selection.marked {
        let left = book.schedule().last_free(book.graph(), marked.vertex, book.now());
        weights.extend(left.filter(|left| taken || *left > 0).map(|left| (marked.vertex, left)));
    }
    defect("weights read");
    book.weigh(weights);
}

/// When a job that starts at `at` gives its resources back.
fn end_of(hold: Hold, at: i64) -> End {
    match hold {
        Hold::Seconds(seconds) => End::At(at.saturating_add_unsigned(seconds)),
        Hold::Eventually => End::Eventually,
        Hold::Endless | Hold::Refused => End::Never,
    }
}
