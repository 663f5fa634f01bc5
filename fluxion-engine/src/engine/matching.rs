//! The match operations: find a place, now or later, and take it.

use super::{Engine, Job, JobInfo, JobMode};
use crate::bits::Bits;
use crate::graph::Hold as VertexHold;
use crate::jobspec::{Hold, Jobspec};
use crate::matcher::candidates::{self, Status};
use crate::matcher::{Policy, flat, tree};
use crate::pools::Claim;
use crate::time::{EVENTUALLY, When};
use crate::{Error, Reason, writer};

/// What is wanted of a match.
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

/// The answer to a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its id: of the job where something was taken, and of a satisfiability check that was given one.
    pub job: Option<u64>,
    /// When it starts.
    pub at: i64,
    /// It starts later than now, and its place is kept.
    pub reserved: bool,
    /// What was granted, in the engine's format; empty where there is nothing to say.
    pub r: String,
}

/// A request, ready to be tried at several moments.
pub(super) struct Ask<'a> {
    pub(super) spec: &'a Jobspec,
    pub(super) form: Form<'a>,
    policy: Policy,
}

pub(super) enum Form<'a> {
    Flat(flat::Request<'a>),
    Tree,
}

/// A place for all of a request.
pub(crate) enum Found {
    /// Rows and counts of slots.
    Flat(Vec<flat::Pick>),
    /// Vertices.
    Tree(tree::Selection),
}

impl Engine {
    /// Matches under an id that the engine chooses.
    pub fn match_next(&mut self, op: MatchOp, jobspec: &str) -> Result<Grant, Error> {
        while self.jobs.contains_key(&self.next_job) {
            self.next_job += 1;
        }
        let mut answer = self.match_job(op, jobspec, self.next_job);
        if let (MatchOp::Satisfiability, Ok(grant)) = (op, &mut answer) {
            // As upstream: it gets an id, though there is no job.
            grant.job = Some(self.next_job);
        }
        // As upstream, failed matches use up an id, and malformed ones do not.
        if answer.as_ref().is_ok_and(|grant| grant.job.is_some())
            || answer.as_ref().is_err_and(|error| matches!(error.reason, Reason::Busy | Reason::Unsatisfiable))
        {
            self.next_job += 1;
        }
        answer
    }

    /// Whether it fits on the idle machine with all nodes up: Ok, or [`Reason::Unsatisfiable`].
    pub fn satisfy(&self, jobspec: &str) -> Result<(), Error> {
        let spec = Jobspec::parse(jobspec)?;
        if self.satisfiable(&self.ask(&spec)?) { Ok(()) } else { Err(Error::unsatisfiable()) }
    }

    /// Matches under an id that must be new.
    pub fn match_job(&mut self, op: MatchOp, jobspec: &str, job: u64) -> Result<Grant, Error> {
        let takes =
            matches!(op, MatchOp::Allocate | MatchOp::AllocateWithSatisfiability | MatchOp::AllocateOrElseReserve);
        if takes && self.jobs.contains_key(&job) {
            return Err(Error { reason: Reason::Exists, text: format!("job {job}: exists already") });
        }
        let spec = Jobspec::parse(jobspec)?;
        let ask = self.ask(&spec)?;
        let (found, at) = match op {
            MatchOp::Satisfiability => {
                return if self.satisfiable(&ask) {
                    Ok(Grant { job: None, at: 0, reserved: false, r: String::new() })
                } else {
                    Err(Error::unsatisfiable())
                };
            }
            MatchOp::Allocate | MatchOp::WithoutAllocating => {
                (self.find(&ask, self.present(&spec)).ok_or_else(Error::busy)?, self.now)
            }
            MatchOp::AllocateWithSatisfiability => match self.find(&ask, self.present(&spec)) {
                Some(found) => (found, self.now),
                None => return Err(self.refusal(&ask)),
            },
            MatchOp::AllocateOrElseReserve | MatchOp::WithoutAllocatingFuture => match self.soonest(&ask) {
                Some(place) => place,
                None if op == MatchOp::WithoutAllocatingFuture && self.find(&ask, When::Eventually).is_some() => {
                    return Ok(Grant { job: None, at: EVENTUALLY, reserved: false, r: String::new() });
                }
                None => return Err(self.refusal(&ask)),
            },
        };
        let r = writer::write(self.options.format, &self.graph, &about(&ask), &found, at)?;
        if !takes {
            return Ok(Grant { job: None, at, reserved: false, r });
        }
        self.take(job, &ask, found, at);
        Ok(Grant { job: Some(job), at, reserved: at > self.now, r })
    }

    /// The request in the form in which it is searched for.
    pub(super) fn ask<'a>(&self, spec: &'a Jobspec) -> Result<Ask<'a>, Error> {
        let form = if let Some(request) = flat::Request::of(&self.graph, spec)? {
            Form::Flat(request)
        } else {
            tree::check(&self.graph, spec)?;
            Form::Tree
        };
        Ok(Ask { spec, form, policy: spec.extras.policy.unwrap_or(self.options.policy) })
    }

    /// Whether it fits on the idle machine with all nodes up.
    pub(super) fn satisfiable(&self, ask: &Ask<'_>) -> bool {
        self.find_among(ask, When::Idle, Status::Ignored).is_some()
    }

    fn refusal(&self, ask: &Ask<'_>) -> Error {
        if self.satisfiable(ask) { Error::busy() } else { Error::unsatisfiable() }
    }

    fn find(&self, ask: &Ask<'_>, when: When) -> Option<Found> {
        self.find_among(ask, when, Status::Heeded)
    }

    fn find_among(&self, ask: &Ask<'_>, when: When, status: Status) -> Option<Found> {
        match &ask.form {
            Form::Flat(request) => {
                let tiers = self.tiers(ask, status);
                let moment = request.columns(&self.graph, when);
                request.place(&moment, &tiers, ask.policy).map(Found::Flat)
            }
            Form::Tree => tree::find(&self.graph, ask.spec, when, self.now, status, ask.policy).map(Found::Tree),
        }
    }

    fn tiers(&self, ask: &Ask<'_>, status: Status) -> Vec<Bits> {
        candidates::tiers(&self.graph, ask.spec, candidates::rows(&self.graph, ask.spec, status))
    }

    fn present(&self, spec: &Jobspec) -> When {
        window(spec, self.now)
    }

    /// The earliest instant at which it fits, by the ends that are known.
    fn soonest(&self, ask: &Ask<'_>) -> Option<(Found, i64)> {
        if let Some(found) = self.find(ask, self.present(ask.spec)) {
            return Some((found, self.now));
        }
        let attempt = |at: i64| self.find(ask, window(ask.spec, at)).map(|found| (found, at));
        if let Form::Flat(request) = &ask.form
            && request.shapes.len() == 1
            && !self.graph.pools.has_planned()
        {
            let rows = candidates::rows(&self.graph, ask.spec, Status::Heeded);
            return attempt(request.earliest(&self.graph, &rows)?);
        }
        // What does not fit once everything that has an end has ended does not fit at any instant before.
        self.find(ask, When::Eventually)?;
        let ends = self.ends();
        if self.plans_ahead() {
            // Where others begin later, a gap may open and close again: each instant has to be tried.
            return ends.into_iter().find_map(attempt);
        }
        // Otherwise resources only come free: if it fits once, it fits ever after.
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

    /// Instants at which something is given back, ascending.
    fn ends(&self) -> Vec<i64> {
        let mut ends = self.graph.pools.ends();
        ends.extend(tree::ends(&self.graph, self.now));
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    fn plans_ahead(&self) -> bool {
        self.graph.pools.has_planned() || self.jobs.values().any(|job| job.info.at > self.now)
    }

    /// Takes a place that was found.
    fn take(&mut self, id: u64, ask: &Ask<'_>, found: Found, at: i64) {
        let mode = if at > self.now { JobMode::Reserved } else { JobMode::Allocated };
        let info = JobInfo { mode, at, overhead: 0.0 };
        self.jobs.insert(id, Job { info, ranks: Vec::new(), vertices: Vec::new() });
        let end = Engine::end_of(ask.spec.hold, at);
        match (found, &ask.form) {
            (Found::Flat(picks), Form::Flat(request)) => {
                for of_shape in picks.chunk_by(|a, b| a.shape == b.shape) {
                    let slot = request.slot(of_shape[0].shape);
                    for pick in of_shape {
                        let slot = std::sync::Arc::clone(&slot);
                        self.claim(pick.row, Claim { job: id, slot, count: pick.count, start: at, end });
                    }
                }
            }
            (Found::Tree(selection), _) => {
                for vertex in selection.held {
                    self.graph.hold(vertex, VertexHold { job: id, start: at, end });
                    if let Some(job) = self.jobs.get_mut(&id) {
                        job.vertices.push(vertex);
                    }
                }
                for (node, slot, count) in selection.claimed {
                    if let Some(row) = self.graph.position_of(node) {
                        self.claim(row, Claim { job: id, slot, count, start: at, end });
                    }
                }
            }
            (Found::Flat(_), Form::Tree) => unreachable!("a place has the form of its request"),
        }
    }
}

/// What a writer needs to know of a request.
fn about<'a>(ask: &'a Ask<'_>) -> writer::About<'a> {
    let flat = match &ask.form {
        Form::Flat(request) => Some(request),
        Form::Tree => None,
    };
    writer::About { flat, hold: ask.spec.hold }
}

/// The time for which a job that starts at `at` needs its resources.
fn window(spec: &Jobspec, at: i64) -> When {
    let to = match spec.hold {
        Hold::Seconds(seconds) => at.saturating_add_unsigned(seconds),
        Hold::Eventually | Hold::Endless => i64::MAX,
    };
    When::Window { from: at, to }
}
