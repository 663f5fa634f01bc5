//! Moving a reservation to the earliest instant around all others.

use std::sync::Arc;

use super::Engine;
use super::ask::{Ask, Form, Found};
use super::granting::{hold, settle};
use super::op::MatchOp;
use super::sight::Sight;
use crate::Error;
use crate::bits::Bits;
use crate::book::job::{Job, JobMode, no_job};
use crate::pools::{Sought, Tenancy};
use crate::slot_search::candidates::{self, Status};
use crate::slot_search::flat::Pick;
use crate::slot_search::flat::has_ranges;
use crate::vertex::VertexId;

/// The causes for which a reservation starts later than it was to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delay {
    /// Work past its end has its room.
    pub overdue: bool,
    /// Its room is no more: a node was removed, a pool made smaller, or charged with more than was
    /// free.
    pub capacity: bool,
    /// A node of its is down, or may be used no more, or is in another part of a level.
    pub status: bool,
}

/// Where a reservation is after it was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// When it starts.
    pub at: i64,
    /// It has not begun: else it is an allocation now.
    pub reserved: bool,
    /// Its new place, in the engine's format; empty where it keeps the one that it had.
    pub r: String,
    /// The causes for which it starts later, if it does.
    pub delay: Delay,
}

impl Engine {
    /// Withdraws a reservation and makes it again at the earliest instant around all others, as if
    /// it were requested now. It never starts later, unless its room is not free any more. A job
    /// that can start now is an allocation then. An error changes nothing.
    pub fn move_reservation(&mut self, id: u64) -> Result<Moved, Error> {
        self.move_reservation_if(id, |_| Ok(()))
    }

    /// Moves a reservation if the caller can use the answer; else nothing is changed.
    pub fn move_reservation_if<E: From<Error>>(
        &mut self,
        id: u64,
        accept: impl FnOnce(&Moved) -> Result<(), E>,
    ) -> Result<Moved, E> {
        let job = self.book.jobs().get(id).ok_or_else(|| no_job(id))?;
        let job = Arc::clone(job);
        let spec = job.spec.clone().filter(|_| job.info.mode == JobMode::Reserved);
        let spec = spec.ok_or_else(|| {
            Error::invalid(format!("job {id}: is no reservation of a graph with pools"))
        })?;
        let ask = self.sight().ask(&spec)?;
        self.graph().pools.effort.begin();
        self.searches.refresh_for(&mut self.book, &ask);
        let gains = self.graph().pools.gains.count();
        let known = known_place(self, id, &job, &ask);
        let sight = self.sight();
        let is_known_to_stay = match &known {
            Some((at, picks)) => *at == job.info.at && has_slots_of(sight, &job, picks),
            None => {
                let usable = candidates::rows(self.graph(), &spec, Status::Heeded);
                !may_be_elsewhere(sight, &job, &ask, &usable)
                    && is_intact(sight, id, &job, &ask, &usable)
            }
        };
        if is_known_to_stay {
            return accepted(stays(self, id, job.info.at, gains), accept);
        }
        drop(job);
        let state = self.before();
        let job = self.book.withdraw(id)?;
        let (before, overhead) = (job.info.at, job.info.overhead);
        let place = match known.filter(|(at, _)| *at <= before) {
            Some((at, picks)) => Ok((Found::Flat(picks), at)),
            None => self.sight().soonest(&ask, self.now()),
        };
        let mut delay = Delay::default();
        // Whole vertices stay where they are.
        let is_no_better = |(found, at): &(Found, i64)| match found {
            Found::Flat(_) => *at > before,
            Found::Walk(..) => *at >= before,
        };
        if place.as_ref().map_or(true, is_no_better) {
            let taken: Vec<VertexId> = taken_vertices(self.sight(), &job);
            self.book.put_back(id, Arc::clone(&job));
            self.book.take_back_gains(gains);
            let (sight, graph) = (self.sight(), self.graph());
            let usable = candidates::rows(graph, &spec, Status::Heeded);
            let intact = taken.is_empty() && is_intact(sight, id, &job, &ask, &usable);
            match &place {
                Ok((_, at)) if !intact && *at > before => {
                    delay = why_delayed(sight, id, &job, &ask, &taken, &usable);
                }
                Ok(_) if !intact => {}
                Err(error) if !intact => return Err(error.clone().into()),
                _ => return accepted(stays(self, id, before, gains), accept),
            }
            self.book.drop_job(id);
        }
        let (found, at) = place?;
        let op = MatchOp::AllocateOrElseReserve;
        let written = hold(self, op, id, &ask, &found, at).flatten();
        let stays_there = |engine: &Engine| {
            let has = engine.book.jobs().get(id).map(|job| job.claims.slots());
            at == before && has.is_some_and(|has| has == job.claims.slots())
        };
        let answer = written.map_err(E::from).and_then(|grant| {
            let moved = if stays_there(self) {
                Moved::stays(at)
            } else {
                Moved { at, reserved: at > self.now(), r: grant.r, delay }
            };
            accepted(moved, accept)
        });
        match &answer {
            Ok(_) => {
                settle(self, op, &ask, &found);
                self.book.set_overhead(id, overhead);
                if stays_there(self) {
                    self.book.take_back_gains(gains);
                    self.book.set_gains(id, gains);
                }
            }
            Err(_) => {
                self.book.drop_job(id);
                self.book.put_back(id, job);
                self.book.take_back_gains(gains);
                self.restore(state);
            }
        }
        answer
    }
}

/// The answer, if the caller can use it.
fn accepted<E>(moved: Moved, accept: impl FnOnce(&Moved) -> Result<(), E>) -> Result<Moved, E> {
    accept(&moved).map(|()| moved)
}

impl Moved {
    /// The reservation keeps its place, and its start.
    fn stays(at: i64) -> Self {
        Moved { at, reserved: true, r: String::new(), delay: Delay::default() }
    }
}

/// Records that a reservation was examined, and stays where it is.
fn stays(engine: &mut Engine, id: u64, at: i64, gains: u64) -> Moved {
    engine.book.set_gains(id, gains);
    Moved::stays(at)
}

/// Where a reservation would be if it were made again, and when; `None` where that takes a
/// search.
fn known_place(engine: &mut Engine, id: u64, job: &Job, ask: &Ask<'_>) -> Option<(i64, Vec<Pick>)> {
    let Form::Flat(request) = &ask.form else { return None };
    let [shape] = &request.shapes[..] else { return None };
    if ask.policy.by_fill().is_some()
        || request.has_rules()
        || has_ranges(request)
        || request.tenancy != Tenancy::Shared
    {
        return None;
    }
    let usable = engine.sight().usable(ask, request, Status::Heeded);
    let [rows] = usable.tiers(0) else { return None };
    let needs = request.slot(0).needs.clone();
    if needs.len() < shape.needs.len() || needs.iter().any(|(_, amount)| *amount == 0) {
        return None;
    }
    let planned = (job.info.at, job.claims.ranks().len());
    let sought =
        Sought { job: id, needs, cap: request.cap(shape).min(shape.count), rows: rows.clone() };
    let how = (shape.count, ask.policy.descends());
    let (at, rows) = engine.book.outlook(sought, planned, how)?;
    Some((at, rows.into_iter().map(|(row, count)| Pick { shape: 0, row, count }).collect()))
}

/// Whether a reservation of slots of one shape has these, and no others.
fn has_slots_of(sight: Sight<'_>, job: &Job, picks: &[Pick]) -> bool {
    let [slots] = job.claims.slots() else { return false };
    let ranks = sight.graph().pools.ranks();
    let wanted = picks.iter().map(|pick| (ranks[pick.row], pick.count));
    slots.on().iter().copied().eq(wanted)
}

/// Whether a reservation may come to be elsewhere than when it was looked for last, or earlier:
/// only where there is more room somewhere than there was.
fn may_be_elsewhere(sight: Sight<'_>, job: &Job, ask: &Ask<'_>, usable: &Bits) -> bool {
    let pools = &sight.graph().pools;
    let (Form::Flat(request), Some(gains)) = (&ask.form, job.gains) else { return true };
    // Which node is the fullest, which shape the scarcest, which part the tightest changes also
    // where room is taken.
    if ask.policy.by_fill().is_some() || request.shapes.len() > 1 || request.has_rules() {
        return true;
    }
    // There may be room for more slots.
    if has_ranges(request) {
        return true;
    }
    let Some(ranks) = pools.gains.since(gains) else { return true };
    let mut rows =
        ranks.filter_map(|rank| pools.position(rank)).filter(|row| usable.contains(*row));
    let needs = if request.shapes.len() == 1 { request.columns_of(sight.graph(), 0) } else { None };
    let is_simple = request.shapes[0].count == 1 && request.tenancy == Tenancy::Shared;
    let needs = needs.filter(|_| is_simple);
    rows.any(|row| {
        let is_own = job.claims.has_rank(pools.ranks()[row]);
        let (times, seconds) = ((sight.now(), job.info.at), request.shapes[0].hold.seconds());
        is_own
            || needs.as_ref().is_none_or(|needs| pools.timeline(row).fits_by(needs, times, seconds))
    })
}

/// True if the units that a reservation is to have of nodes are there, may be used, and are not
/// another job's at that time.
fn is_intact(sight: Sight<'_>, id: u64, job: &Job, ask: &Ask<'_>, usable: &Bits) -> bool {
    let (graph, pools) = (sight.graph(), &sight.graph().pools);
    let is_there = |rank: &u32| {
        pools
            .position(*rank)
            .is_some_and(|row| usable.contains(row) && pools.by_node().is_planned_well(row, id))
    };
    job.claims.own_vertices().all(|vertex| graph.is_linked(vertex))
        && job.slots == job.claims.slot_count()
        && job.claims.ranks().iter().all(is_there)
        && keeps_rules(sight, job, ask)
}

/// Whether the nodes of a reservation are still in parts of levels that its request allows.
fn keeps_rules(sight: Sight<'_>, job: &Job, ask: &Ask<'_>) -> bool {
    let Form::Flat(request) = &ask.form else { return true };
    let pools = &sight.graph().pools;
    let mut slots: Vec<(&str, usize, u64)> = Vec::new();
    for of_shape in job.claims.slots() {
        let on = of_shape.on().iter();
        let on = on.filter_map(|(rank, count)| Some((pools.position(*rank)?, *count)));
        slots.extend(on.map(|(row, count)| (&*of_shape.shape.label, row, count)));
    }
    request.keeps_rules(pools, &slots)
}

/// The vertices of a reservation that is counted nowhere, as far as others have them at its
/// time, or they are down.
fn taken_vertices(sight: Sight<'_>, job: &Job) -> Vec<VertexId> {
    let (from, to) = (job.term.from, job.term.to);
    let is_free = |vertex: &VertexId| {
        sight.book.is_to_be_had(*vertex, (from, to), |row| {
            sight.graph().pools.by_node().is_idle(row, from, to)
        })
    };
    job.claims.own_vertices().filter(|vertex| !is_free(vertex)).collect()
}

/// Why a reservation cannot have the place that it was to have; `taken` of its vertices are
/// another's.
fn why_delayed(
    sight: Sight<'_>,
    id: u64,
    job: &Job,
    ask: &Ask<'_>,
    taken: &[VertexId],
    usable: &Bits,
) -> Delay {
    let pools = &sight.graph().pools;
    let mut delay = Delay::default();
    for rank in job.claims.ranks() {
        match pools.position(rank) {
            None => delay.capacity = true,
            Some(row) if !usable.contains(row) => delay.status = true,
            Some(row) if !pools.by_node().is_planned_well(row, id) => {
                let overdue = pools.by_node().has_overdue(row) || job.put_off;
                delay.overdue |= overdue;
                delay.capacity |= !overdue;
            }
            Some(_) => {}
        }
    }
    for vertex in taken {
        if sight.graph().is_up(*vertex) {
            delay.overdue = true;
        } else {
            delay.status = true;
        }
    }
    delay.status |= !keeps_rules(sight, job, ask);
    // Parts that are gone are nowhere any more.
    delay.capacity |= delay == Delay::default();
    delay
}
