//! Moving a reservation to the earliest instant around all others.

use std::sync::Arc;

use super::matching::{Ask, Form, Found};
use super::{Engine, Job, JobMode, MatchOp, no_job};
use crate::Error;
use crate::bits::Bits;
use crate::matcher::candidates::{self, Status};
use crate::matcher::flat::Pick;
use crate::matcher::flat::has_ranges;
use crate::pools::{SlotShape, Sought, Tenancy};
use crate::time::End;
use crate::vertex::VertexId;

/// Why a reservation starts later than it was to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Later {
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
    /// Why it starts later, if it does.
    pub later: Later,
}

/// Slots of a job on a row.
type Slots = (usize, Arc<SlotShape>, u64, (i64, End));

impl Engine {
    /// Withdraws a reservation and makes it again at the earliest instant around all others, as if
    /// it were requested now. It never starts later, unless its room is not free any more. A job
    /// that can start now is an allocation then. An error changes nothing.
    pub fn move_reservation(&mut self, id: u64) -> Result<Moved, Error> {
        let job = self.jobs.get(&id).ok_or_else(|| no_job(id))?;
        let spec = job.spec.clone().filter(|_| job.info.mode == JobMode::Reserved);
        let spec = spec.ok_or_else(|| {
            Error::invalid(format!("job {id}: is no reservation of a graph with pools"))
        })?;
        let ask = self.ask(&spec)?;
        self.graph.pools.effort.begin();
        self.refresh_index();
        let gains = self.graph.pools.gains.count();
        let known = self.known_place(id, &ask);
        let is_known_to_stay = match &known {
            Some((at, picks)) => *at == self.jobs[&id].info.at && self.has_slots_of(id, picks),
            None => {
                let usable = candidates::rows(&self.graph, &spec, Status::Heeded);
                !self.may_be_elsewhere(&self.jobs[&id], &ask, &usable)
                    && self.is_intact(id, &ask, &usable)
            }
        };
        self.note_job(id);
        if is_known_to_stay {
            return Ok(self.stays(id, gains));
        }
        let Some(job) = self.jobs.remove(&id) else { return Err(no_job(id)) };
        let (before, overhead) = (job.info.at, job.info.overhead);
        let slots = self.slots_of(id, &job);
        let had = slots.clone();
        self.give_back(id, &job);
        let place = match known.filter(|(at, _)| *at <= before) {
            Some((at, picks)) => Ok((Found::Flat(picks), at)),
            None => self.soonest(&ask, self.now),
        };
        let mut later = Later::default();
        // Whole vertices stay where they are.
        let is_no_better = |(found, at): &(Found, i64)| match found {
            Found::Flat(_) => *at > before,
            Found::Walk(..) => *at >= before,
        };
        if place.as_ref().map_or(true, is_no_better) {
            let taken: Vec<VertexId> = self.taken_vertices(&job);
            self.put_back(id, job, slots);
            self.graph.pools.gains.take_back(gains);
            let usable = candidates::rows(&self.graph, &spec, Status::Heeded);
            let intact = taken.is_empty() && self.is_intact(id, &ask, &usable);
            match &place {
                Ok((_, at)) if !intact && *at > before => {
                    later = self.why_later(id, &ask, &taken, &usable);
                }
                Ok(_) if !intact => {}
                Err(error) if !intact => return Err(error.clone()),
                _ => return Ok(self.stays(id, gains)),
            }
            if let Some(job) = self.jobs.remove(&id) {
                self.give_back(id, &job);
            }
        }
        let (found, at) = place?;
        let r = self.grant(MatchOp::AllocateOrElseReserve, id, &ask, &found, at)?.r;
        self.set_overhead(id, overhead);
        if at == before && self.slots_of(id, &self.jobs[&id]) == had {
            self.graph.pools.gains.take_back(gains);
            return Ok(self.stays(id, gains));
        }
        Ok(Moved { at, reserved: at > self.now, r, later })
    }

    /// Where a reservation would be if it were made again, and when; `None` where that takes a
    /// search.
    fn known_place(&mut self, id: u64, ask: &Ask<'_>) -> Option<(i64, Vec<Pick>)> {
        let Form::Flat(request) = &ask.form else { return None };
        let [shape] = &request.shapes[..] else { return None };
        if ask.policy.by_fill().is_some()
            || request.has_rules()
            || has_ranges(request)
            || request.tenancy != Tenancy::Shared
        {
            return None;
        }
        let usable = self.usable(ask, request, Status::Heeded);
        let [rows] = usable.tiers(0) else { return None };
        let needs = request.slot(0).needs.clone();
        if needs.len() < shape.needs.len() || needs.iter().any(|(_, amount)| *amount == 0) {
            return None;
        }
        let job = &self.jobs[&id];
        let (starts, claims) = (job.info.at, job.ranks.len());
        let sought =
            Sought { job: id, needs, cap: request.cap(shape).min(shape.count), rows: rows.clone() };
        let how = (shape.count, ask.policy.descends());
        let (at, rows) = self.graph.pools.outlook(sought, (starts, claims), how)?;
        Some((at, rows.into_iter().map(|(row, count)| Pick { shape: 0, row, count }).collect()))
    }

    /// Whether a reservation of slots of one shape has these, and no others.
    fn has_slots_of(&self, id: u64, picks: &[Pick]) -> bool {
        let (job, pools) = (&self.jobs[&id], &self.graph.pools);
        let has = |(rank, pick): (&u32, &Pick)| {
            pools.ranks()[pick.row] == *rank
                && pools.ledger().placed(pick.row, id).map(|(_, count, _)| count).eq([pick.count])
        };
        job.ranks.len() == picks.len() && job.ranks.iter().zip(picks).all(has)
    }

    /// Records that a reservation was examined, and stays where it is.
    fn stays(&mut self, id: u64, gains: u64) -> Moved {
        let job = Arc::make_mut(self.jobs.get_mut(&id).expect("a job that was just looked at"));
        job.gains = Some(gains);
        Moved { at: job.info.at, reserved: true, r: String::new(), later: Later::default() }
    }

    /// Whether a reservation may come to be elsewhere than when it was looked for last, or earlier:
    /// only where there is more room somewhere than there was.
    fn may_be_elsewhere(&self, job: &Job, ask: &Ask<'_>, usable: &Bits) -> bool {
        let pools = &self.graph.pools;
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
        let needs =
            if request.shapes.len() == 1 { request.columns_of(&self.graph, 0) } else { None };
        let is_simple = request.shapes[0].count == 1 && request.tenancy == Tenancy::Shared;
        let needs = needs.filter(|_| is_simple);
        rows.any(|row| {
            let is_own = job.ranks.binary_search(&pools.ranks()[row]).is_ok();
            let (times, seconds) = ((self.now, job.info.at), request.shapes[0].hold.seconds());
            is_own
                || needs
                    .as_ref()
                    .is_none_or(|needs| pools.timeline(row).fits_by(needs, times, seconds))
        })
    }

    /// True if the units that a reservation is to have of nodes are there, may be used, and are not
    /// another job's at that time.
    fn is_intact(&self, id: u64, ask: &Ask<'_>, usable: &Bits) -> bool {
        let (job, pools) = (&self.jobs[&id], &self.graph.pools);
        let is_there = |rank: &u32| {
            pools
                .position(*rank)
                .is_some_and(|row| usable.contains(row) && pools.ledger().is_planned_well(row, id))
        };
        job.touches.iter().all(|touch| !touch.exclusive || self.graph.is_linked(touch.vertex))
            && job.slots == job.slots_left(pools)
            && job.ranks.iter().all(is_there)
            && self.keeps_rules(id, ask)
    }

    /// Whether the nodes of a reservation are still in parts of levels that its request allows.
    fn keeps_rules(&self, id: u64, ask: &Ask<'_>) -> bool {
        let Form::Flat(request) = &ask.form else { return true };
        let slots = self.slots_of(id, &self.jobs[&id]);
        let slots: Vec<(&str, usize, u64)> =
            slots.iter().map(|(row, slot, count, _)| (&*slot.label, *row, *count)).collect();
        request.keeps_rules(&self.graph.pools, &slots)
    }

    /// The slots that a job has or is to have.
    fn slots_of(&self, id: u64, job: &Job) -> Vec<Slots> {
        let on = |row| {
            self.graph
                .pools
                .ledger()
                .placed(row, id)
                .map(move |(slot, count, times)| (row, slot, count, times))
        };
        job.rows(&self.graph.pools).flat_map(on).collect()
    }

    /// The vertices of a reservation that is counted nowhere, as far as others have them at its
    /// time, or they are down.
    fn taken_vertices(&self, job: &Job) -> Vec<VertexId> {
        let (from, to) = (job.term.from, job.term.to);
        let is_free = |vertex: &VertexId| {
            self.is_to_be_had(*vertex, (from, to), |row| {
                self.graph.pools.ledger().is_idle(row, from, to)
            })
        };
        let own = job.touches.iter().filter(|touch| touch.exclusive).map(|touch| touch.vertex);
        own.filter(|vertex| !is_free(vertex)).collect()
    }

    /// Why a reservation cannot have the place that it was to have; `taken` of its vertices are
    /// another's.
    fn why_later(&self, id: u64, ask: &Ask<'_>, taken: &[VertexId], usable: &Bits) -> Later {
        let (job, pools) = (&self.jobs[&id], &self.graph.pools);
        let mut later = Later::default();
        for rank in &job.ranks {
            match pools.position(*rank) {
                None => later.capacity = true,
                Some(row) if !usable.contains(row) => later.status = true,
                Some(row) if !pools.ledger().is_planned_well(row, id) => {
                    let overdue = pools.ledger().has_overdue(row) || job.put_off;
                    later.overdue |= overdue;
                    later.capacity |= !overdue;
                }
                Some(_) => {}
            }
        }
        for vertex in taken {
            if self.graph.is_up(*vertex) {
                later.overdue = true;
            } else {
                later.status = true;
            }
        }
        later.status |= !self.keeps_rules(id, ask);
        // Parts that are gone are nowhere any more.
        later.capacity |= later == Later::default();
        later
    }

    /// Gives a job its former vertices and units again.
    fn put_back(&mut self, id: u64, job: Arc<Job>, slots: Vec<Slots>) {
        self.schedule.put_off += usize::from(job.put_off);
        self.jobs.insert(id, job.clone());
        for (row, slot, count, times) in slots {
            self.graph.pools.claim(&[(row, count)], id, &slot, times);
        }
        for touch in &job.touches {
            self.enter(job.term, touch);
        }
        self.schedule_job(id);
    }
}
