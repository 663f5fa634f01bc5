//! The match operations: whether, when and where a request fits. A place that is found is
//! taken by [`super::granting`].

use std::sync::Arc;

use super::asking::defect;
use super::{Engine, JobMode};
use crate::jobspec::{Hold, Jobspec};
use crate::matcher::candidates::{self, Status, Usable};
use crate::matcher::flat::{self, Search, Start};
use crate::policy::Policy;
use crate::pools::Tenancy;
use crate::time::{EVENTUALLY, End, WINDOW_SECONDS};
use crate::traverser::{Later, Left, Request, Selection};
use crate::{Error, Reason};

/// The operations of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOp {
    /// Now, or not at all.
    Allocate,
    /// Now; if not, tell whether ever.
    AllocateWithSatisfiability,
    /// Now, or as early as possible.
    AllocateOrElseReserve,
    /// Only tell whether ever.
    Satisfiability,
    /// As [`MatchOp::Allocate`], but take nothing.
    WithoutAllocating,
    /// As [`MatchOp::AllocateOrElseReserve`], but take nothing; also answers [`EVENTUALLY`].
    WithoutAllocatingFuture,
}

impl MatchOp {
    pub(super) fn takes(self) -> bool {
        matches!(
            self,
            MatchOp::Allocate
                | MatchOp::AllocateWithSatisfiability
                | MatchOp::AllocateOrElseReserve
        )
    }
}

/// The answer to a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its id: of the job where something was taken, and of a satisfiability check that was given
    /// one.
    pub job: Option<u64>,
    /// When it starts.
    pub at: i64,
    /// It starts later than now, and its place is kept.
    pub reserved: bool,
    /// The granted resources, in the engine's format; empty where there is nothing to say.
    pub r: String,
    /// True if it is proved that it cannot start earlier, by the ends that are known. False if at
    /// some earlier instant the search for a place gave up.
    pub is_earliest: bool,
}

/// A request, ready to be tried at several moments.
pub(super) struct Ask<'a> {
    pub(super) spec: &'a Jobspec,
    pub(super) form: Form<'a>,
    pub(super) policy: Policy,
}

pub(super) enum Form<'a> {
    /// Slots of pool units.
    Flat(flat::Request<'a>),
    /// Alternatives, tried in order; nearly always one.
    Walk(Vec<Request>),
}

/// A place for all of a request.
pub(super) enum Found {
    Flat(Vec<flat::Pick>),
    /// Vertices, and which alternative of the request they serve.
    Walk(Selection, usize),
}

impl Ask<'_> {
    /// The longest time for which it holds anything.
    pub(super) fn longest(&self) -> Hold {
        match &self.form {
            Form::Flat(request) => request.longest(),
            Form::Walk(_) => self.spec.hold,
        }
    }
}

impl Engine {
    /// The jobspec of a text.
    pub(super) fn spec(&mut self, text: &str) -> Result<Arc<Jobspec>, Error> {
        if let Some((_, spec)) = self.memo.read.as_ref().filter(|(read, _)| **read == *text) {
            return Ok(Arc::clone(spec));
        }
        let spec = Arc::new(Jobspec::parse(text)?);
        defect("jobspec read");
        self.memo.read = Some((text.into(), Arc::clone(&spec)));
        Ok(spec)
    }

    /// Matches under an id that the engine chooses.
    pub fn match_next(&mut self, op: MatchOp, jobspec: &str) -> Result<Grant, Error> {
        self.asking(|engine| {
            engine.left.set(Left::Nothing);
            let spec = engine.spec(jobspec)?;
            engine.match_spec_next(op, &spec)
        })
    }

    /// Matches under an id that must be new.
    pub fn match_job(&mut self, op: MatchOp, jobspec: &str, job: u64) -> Result<Grant, Error> {
        self.asking(|engine| {
            engine.left.set(Left::Nothing);
            let spec = engine.spec(jobspec)?;
            engine.match_spec(op, &spec, job)
        })
    }

    /// Matches a jobspec that was read before, under an id that the engine chooses.
    pub fn match_spec_next(&mut self, op: MatchOp, spec: &Jobspec) -> Result<Grant, Error> {
        self.asking(|engine| {
            // Upstream does not look whether the caller has given this id to a job.
            while engine.graph.has_pool_types() && engine.jobs.contains_key(&engine.next_job) {
                engine.next_job += 1;
            }
            let id = engine.next_job;
            let mut answer = engine.match_spec(op, spec, id);
            if let (MatchOp::Satisfiability, Ok(grant)) = (op, &mut answer) {
                // As upstream: it gets an id, though there is no job.
                grant.job = Some(id);
            }
            answer
        })
    }

    /// The instant at which a match that found no place would have started, had it not been the end
    /// of the window: upstream tells that. Else 0.
    pub fn refused_at(&self) -> i64 {
        if self.left.get() == Left::EndOfWindow { WINDOW_SECONDS } else { 0 }
    }

    /// Whether it fits on the idle machine with all nodes up: Ok, or [`Reason::Unsatisfiable`].
    pub fn satisfy(&mut self, jobspec: &str) -> Result<(), Error> {
        self.asking(|engine| {
            let spec = engine.spec(jobspec)?;
            engine.match_spec(MatchOp::Satisfiability, &spec, 0).map(|_| ())
        })
    }

    /// Matches a jobspec that was read before, under an id that must be new.
    pub fn match_spec(&mut self, op: MatchOp, spec: &Jobspec, job: u64) -> Result<Grant, Error> {
        self.asking(|engine| engine.match_once(op, spec, job))
    }

    fn match_once(&mut self, op: MatchOp, spec: &Jobspec, job: u64) -> Result<Grant, Error> {
        self.graph.pools.effort.begin();
        let answer = self.try_match(op, spec, job);
        let empty = match &answer {
            Ok(_) => op == MatchOp::Satisfiability,
            Err(error) => error.is_answer(),
        };
        if empty {
            // As upstream: where nothing cannot be written, that is what goes wrong, and no id is
            // used up.
            let written = self.writer.nothing(self.options.format, &self.graph);
            defect("nothing written");
            written?;
        }
        // As upstream, matches use up an id if they find no place, and also where the caller has
        // chosen theirs; malformed ones do not.
        if op.takes() && answer.as_ref().map_or_else(Error::is_answer, |grant| grant.job.is_some())
        {
            self.next_job = self.next_job.wrapping_add(1);
        }
        answer
    }

    fn try_match(&mut self, op: MatchOp, spec: &Jobspec, job: u64) -> Result<Grant, Error> {
        if op.takes() && self.jobs.contains_key(&job) && self.graph.has_pool_types() {
            return Err(Error {
                reason: Reason::Exists,
                text: format!("job {job}: exists already"),
            });
        }
        let ask = self.ask(spec)?;
        self.refresh_index();
        defect("index refreshed");
        if spec.hold == Hold::Refused {
            leak_exclusive(self, &ask);
            defect("types exclusive");
            return Err(Error::invalid(
                "attributes.system.duration: not a number of seconds from 0 to 100 years",
            ));
        }
        if op == MatchOp::Satisfiability {
            return self.ever(&ask).map(|()| Grant {
                job: None,
                at: 0,
                reserved: false,
                r: String::new(),
                is_earliest: true,
            });
        }
        self.left.set(Left::Nothing);
        self.precheck(op, &ask)?;
        let (found, at) = match op {
            MatchOp::Allocate | MatchOp::WithoutAllocating => (self.now_for(&ask)?, self.now),
            MatchOp::AllocateWithSatisfiability => match self.now_for(&ask) {
                Ok(found) => (found, self.now),
                Err(error) => return Err(self.refusal(&ask, error)),
            },
            _ => match self.soonest(&ask, spec.extras.not_before.unwrap_or(self.now)) {
                Ok(place) => place,
                Err(_) if op == MatchOp::WithoutAllocatingFuture && self.fits_eventually(&ask) => {
                    return Ok(Grant {
                        job: None,
                        at: EVENTUALLY,
                        reserved: false,
                        r: String::new(),
                        is_earliest: self.graph.pools.effort.is_exact(),
                    });
                }
                Err(error) => return Err(self.refusal(&ask, error)),
            },
        };
        self.grant(op, job, &ask, &found, at)
    }

    /// The request in the form in which it is searched for.
    pub(super) fn ask<'a>(&self, spec: &'a Jobspec) -> Result<Ask<'a>, Error> {
        let policy = spec.extras.policy.unwrap_or(self.options.policy);
        let flat =
            if self.graph.has_pool_types() { flat::Request::of(&self.graph, spec)? } else { None };
        let form = match flat {
            Some(request) => Form::Flat(request),
            None => {
                let extras = &spec.extras;
                let is_plain = extras.prefer.is_empty()
                    && extras.max_per_node.is_empty()
                    && extras.slots.is_empty();
                let is_plain = is_plain && extras.tenancy == Tenancy::Shared;
                if !is_plain || !extras.levels.is_empty() || extras.not_before.is_some() {
                    let text = "attributes.system.fluxion: prefer, max_per_node, slots, levels, tenant, guest and not_before need slots of pool units";
                    return Err(Error::invalid(text));
                }
                if policy.by_fill().is_some() {
                    return Err(Error::invalid(
                        "policy: binpack and spread need slots of pool units",
                    ));
                }
                Form::Walk(self.alternatives(spec)?)
            }
        };
        Ok(Ask { spec, form, policy })
    }

    /// Whether it fits on the idle machine with all nodes up.
    fn ever(&self, ask: &Ask<'_>) -> Result<(), Error> {
        match &ask.form {
            Form::Flat(request) => match self.find_flat(ask, request, Start::Idle, Status::Ignored)
            {
                Search::Found(_) => Ok(()),
                // With one part less that counts, since its nodes are down, slots may be even that
                // are not with all.
                Search::Impossible if request.has_skew() && self.fits_eventually(ask) => Ok(()),
                Search::Impossible => Err(Error::unsatisfiable()),
                Search::GaveUp => Err(self.graph.pools.effort.gave_up()),
            },
            Form::Walk(requests) => {
                let (traversal, seconds) = (self.traversal(ask.policy), seconds(ask.spec.hold));
                let mut last = Error::unsatisfiable();
                for request in requests {
                    match traversal.satisfiable(request, seconds) {
                        Ok(_) => return Ok(()),
                        Err(miss) => last = self.missed(miss, Reason::Unsatisfiable),
                    }
                }
                Err(last)
            }
        }
    }

    fn refusal(&self, ask: &Ask<'_>, error: Error) -> Error {
        if !matches!(error.reason, Reason::Busy | Reason::GaveUp) {
            return error;
        }
        if let Err(gave_up) = self.graph.pools.effort.ensure_left() {
            return gave_up;
        }
        if self.left.get() == Left::EndOfWindow {
            return error;
        }
        match self.ever(ask) {
            // As upstream: its errno then tells the last obstacle of this last search.
            Ok(()) if self.left.get() == Left::Exceeded => Error {
                reason: Reason::Exceeded,
                text: "alternative slots: one asks for more than there is".to_owned(),
            },
            Ok(()) => error,
            Err(never) => never,
        }
    }

    /// Refuses, as upstream does, what asks for more nodes than are up, before any walk. Upstream
    /// does not count nodes that come later, so not on a graph with pools.
    fn precheck(&self, op: MatchOp, ask: &Ask<'_>) -> Result<(), Error> {
        let Form::Walk(requests) = &ask.form else { return Ok(()) };
        if self.graph.has_pool_types() {
            return Ok(());
        }
        let far = !matches!(op, MatchOp::Allocate | MatchOp::WithoutAllocating);
        let ever = op == MatchOp::AllocateWithSatisfiability;
        let traversal = self.traversal(ask.policy);
        if requests.iter().any(|request| traversal.feasible(request, far, ever)) {
            Ok(())
        } else if ever {
            Err(Error::unsatisfiable())
        } else {
            Err(Error::busy())
        }
    }

    fn now_for(&self, ask: &Ask<'_>) -> Result<Found, Error> {
        match &ask.form {
            Form::Flat(request) => {
                match self.find_flat(ask, request, Start::At(self.now), Status::Heeded) {
                    Search::Found(picks) => Ok(Found::Flat(picks)),
                    Search::Impossible => Err(Error::busy()),
                    Search::GaveUp => Err(self.graph.pools.effort.gave_up()),
                }
            }
            Form::Walk(requests) => {
                let (traversal, seconds) = (self.traversal(ask.policy), seconds(ask.spec.hold));
                let mut last = Error::busy();
                for (at, request) in requests.iter().enumerate() {
                    match traversal.at(request, self.now, seconds) {
                        Ok(selection) => return Ok(Found::Walk(selection, at)),
                        Err(miss) => last = self.missed(miss, Reason::Busy),
                    }
                }
                Err(last)
            }
        }
    }

    /// The earliest instant from `from` on at which it fits, by the ends that are known. Only
    /// requests for pools may start later than now.
    pub(super) fn soonest(&self, ask: &Ask<'_>, from: i64) -> Result<(Found, i64), Error> {
        let requests = match &ask.form {
            Form::Flat(request) => {
                let now = if from > self.now { Err(Error::busy()) } else { self.now_for(ask) };
                return match now {
                    Ok(found) => Ok((found, self.now)),
                    Err(now) => self
                        .later_flat(ask, request, from, now)
                        .map(|(picks, at)| (Found::Flat(picks), at)),
                };
            }
            Form::Walk(requests) => requests,
        };
        let (traversal, seconds) = (self.traversal(ask.policy), seconds(ask.spec.hold));
        let mut last = Error::busy();
        for (which, request) in requests.iter().enumerate() {
            let miss = match traversal.at(request, self.now, seconds) {
                Ok(selection) => return Ok((Found::Walk(selection, which), self.now)),
                Err(miss) => miss,
            };
            last = self.missed(miss, Reason::Busy);
            if last.reason != Reason::Busy {
                continue;
            }
            match traversal.later(request, seconds) {
                // As upstream: not at the very end of its window.
                Ok(Later { at: WINDOW_SECONDS, .. }) => {
                    self.left.set(Left::EndOfWindow);
                    last = Error::busy();
                }
                // As upstream, which looks for the next instant before it looks whether this one
                // will do.
                Ok(Later { selection, is_last: true, .. }) if selection.marked.is_empty() => {
                    return Err(Error::not_found(super::granting::NOTHING_TAKEN));
                }
                Ok(Later { selection, at, .. }) => return Ok((Found::Walk(selection, which), at)),
                Err(miss) => last = self.missed(miss, Reason::Busy),
            }
        }
        Err(last)
    }

    fn fits_eventually(&self, ask: &Ask<'_>) -> bool {
        let Form::Flat(request) = &ask.form else { return false };
        matches!(self.find_flat(ask, request, Start::Eventually, Status::Heeded), Search::Found(_))
    }

    fn missed(&self, miss: crate::traverser::Miss, reason: Reason) -> Error {
        match miss {
            crate::traverser::Miss::Busy => Error { reason, text: String::new() },
            crate::traverser::Miss::Spent => self.graph.pools.effort.gave_up(),
            // As upstream: no vertex serves such a level, so that it fits nowhere, and a text says
            // why.
            crate::traverser::Miss::Invalid => {
                Error { reason, text: "resources: what is in a slot is exclusive".to_owned() }
            }
            crate::traverser::Miss::Siblings(kind) => Error {
                reason,
                text: format!(
                    "test: siblings in jobspec request same resource type : {}.",
                    self.graph.types().name(kind)
                ),
            },
        }
    }

    pub(super) fn usable(
        &self,
        ask: &Ask<'_>,
        request: &flat::Request<'_>,
        status: Status,
    ) -> Usable {
        let slots = request.shapes.iter().map(|shape| shape.extras);
        let usable = candidates::usable(&self.graph, ask.spec, slots, status);
        request.admitted(&self.graph.pools, usable)
    }

    fn find_flat(
        &self,
        ask: &Ask<'_>,
        request: &flat::Request<'_>,
        start: Start,
        status: Status,
    ) -> Search {
        flat::search(request, &self.graph, start, &self.usable(ask, request, status), ask.policy)
    }

    /// The earliest instant after now, from `from` on, at which a place is found, by the ends that
    /// are known. `now` is why not at once.
    fn later_flat(
        &self,
        ask: &Ask<'_>,
        request: &flat::Request<'_>,
        from: i64,
        now: Error,
    ) -> Result<(Vec<flat::Pick>, i64), Error> {
        let usable = self.usable(ask, request, Status::Heeded);
        let attempt = |at: i64, usable: &Usable| match flat::search(
            request,
            &self.graph,
            Start::At(at),
            usable,
            ask.policy,
        ) {
            Search::Found(picks) => Some((picks, at)),
            Search::Impossible => None,
            Search::GaveUp => {
                self.graph.pools.effort.passes_over();
                None
            }
        };
        let sweep = flat::sweep(request, &self.graph, &usable, self.now).ok_or_else(Error::busy)?;
        let is_one = request.shapes.len() == 1;
        let found = if is_one || self.graph.pools.ledger().plans() {
            // Where others begin later, a gap may open and close again: each instant has to be
            // tried. But none has more room than there is once everything that ends has ended.
            let mut may_ever = None;
            let mut fits_ever = || {
                *may_ever.get_or_insert_with(|| {
                    // A reservation that never ends is not there yet at an earlier instant.
                    self.jobs
                        .values()
                        .any(|job| job.info.mode == JobMode::Reserved && job.term.end == End::Never)
                        || self.find_flat(ask, request, Start::Eventually, Status::Heeded)
                            != Search::Impossible
                })
            };
            let found = sweep.find(from, |at, rows| match attempt(at, &usable.within(&rows)) {
                Some(found) => Some(Ok(found)),
                None if fits_ever() => None,
                None => Some(Err(Error::busy())),
            });
            found.transpose()?
        } else {
            // Resources only come free.
            let first = sweep.find(from, |at, _| Some(at));
            let Some(first) = first else {
                self.graph.pools.effort.ensure_left()?;
                return Err(Error::busy());
            };
            let later = self.graph.pools.ledger().ends().into_iter().filter(|end| *end > first);
            let instants: Vec<i64> = std::iter::once(first).chain(later).collect();
            first_that_fits(&instants, |at| attempt(at, &usable))
        };
        self.graph.pools.effort.ensure_left()?;
        found.ok_or_else(|| self.why_not_later(ask, request, now))
    }

    /// Why no instant was found.
    fn why_not_later(&self, ask: &Ask<'_>, request: &flat::Request<'_>, now: Error) -> Error {
        if request.shapes.len() == 1 {
            return Error::busy();
        }
        match self.find_flat(ask, request, Start::Eventually, Status::Heeded) {
            Search::Found(_) => now,
            Search::Impossible => Error::busy(),
            // It may still be found at an instant at which there is less to choose from.
            Search::GaveUp => self.graph.pools.effort.gave_up(),
        }
    }
}

/// The first of these instants at which it fits, if it fits ever after once it fits: resources only
/// come free.
fn first_that_fits<T>(ends: &[i64], attempt: impl Fn(i64) -> Option<T>) -> Option<T> {
    let mut best = attempt(*ends.last()?)?;
    let (mut low, mut high) = (0, ends.len() - 1);
    while low < high {
        let middle = usize::midpoint(low, high);
        match attempt(ends[middle]) {
            Some(found) => {
                best = found;
                high = middle;
            }
            None => low = middle + 1,
        }
    }
    Some(best)
}

/// For how long a job needs its resources.
pub(super) fn seconds(hold: Hold) -> i64 {
    match hold {
        Hold::Seconds(seconds) => i64::try_from(seconds).unwrap_or(WINDOW_SECONDS),
        _ => WINDOW_SECONDS,
    }
}

/// As upstream: types that a refused request wants exclusively stay exclusive for all that come
/// later.
fn leak_exclusive(engine: &mut Engine, ask: &Ask<'_>) {
    if let Form::Walk(requests) = &ask.form {
        for kind in requests.iter().flat_map(|request| &request.exclusive_kinds) {
            if !engine.exclusive_kinds.contains(kind) {
                engine.exclusive_kinds.push(*kind);
            }
        }
    }
}

#[cfg(test)]
mod tests;
