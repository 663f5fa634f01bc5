//! Questions: whether, when and where a request fits. Nothing here changes the book.

use super::ask::{Ask, Form, Found, seconds};
use super::op::MatchOp;
use super::options::Options;
use super::searches::Searches;
use crate::book::Book;
use crate::graph::Graph;
use crate::jobspec::Jobspec;
use crate::policy::Policy;
use crate::slot_search::candidates::{self, Status, Usable};
use crate::slot_search::flat::{self, NotSoon, Outcome, Start};
use crate::time::WINDOW_SECONDS;
use crate::vertex_search::{Left, Miss, Reservation, VertexSearch};
use crate::{Error, Reason};

/// Says that a place was found of which nothing would be had alone.
pub(super) const NOTHING_TAKEN: &str = "resources: nothing is exclusive";

/// The state that questions are about. A question changes nothing of it but the last obstacle of a
/// search.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) book: &'a Book,
    pub(super) searches: &'a Searches,
    pub(super) options: &'a Options,
}

impl<'a> Sight<'a> {
    /// The graph.
    pub(super) fn graph(&self) -> &'a Graph {
        self.book.graph()
    }

    /// The present.
    pub(super) fn now(&self) -> i64 {
        self.book.now()
    }

    /// A request in the form in which it is searched for.
    pub(super) fn ask<'s>(&self, spec: &'s Jobspec) -> Result<Ask<'s>, Error> {
        Ask::of(self.book, self.options, spec)
    }

    fn vertex_search(&self, policy: Policy) -> VertexSearch<'a> {
        self.searches.vertex_search(self.book, policy, self.options.traverser)
    }

    /// Whether it fits on the idle machine with all nodes up.
    pub(super) fn ever(&self, ask: &Ask<'_>) -> Result<(), Error> {
        match &ask.form {
            Form::Flat(request) => match self.find_flat(ask, request, Start::Idle, Status::Ignored)
            {
                Outcome::Found(_) => Ok(()),
                // With one part less that counts, since its nodes are down, slots may be even that
                // are not with all.
                Outcome::Impossible if request.has_skew() && self.fits_eventually(ask) => Ok(()),
                Outcome::Impossible => Err(Error::unsatisfiable()),
                Outcome::GaveUp => Err(self.graph().pools.effort.gave_up()),
            },
            Form::Walk(requests) => {
                let (vertex_search, seconds) =
                    (self.vertex_search(ask.policy), seconds(ask.spec.hold));
                let mut last = Error::unsatisfiable();
                for request in requests {
                    match vertex_search.satisfiable(request, seconds) {
                        Ok(_) => return Ok(()),
                        Err(miss) => last = self.missed(miss, Reason::Unsatisfiable),
                    }
                }
                Err(last)
            }
        }
    }

    pub(super) fn refusal(&self, ask: &Ask<'_>, error: Error) -> Error {
        if !matches!(error.reason, Reason::Busy | Reason::GaveUp) {
            return error;
        }
        if let Err(gave_up) = self.graph().pools.effort.ensure_left() {
            return gave_up;
        }
        if self.searches.left() == Left::EndOfWindow {
            return error;
        }
        match self.ever(ask) {
            // As upstream (Q22): its errno then tells the last obstacle of this last search.
            Ok(()) if self.searches.left() == Left::Exceeded => Error {
                reason: Reason::Exceeded,
                text: "alternative slots: one asks for more than there is".to_owned(),
            },
            Ok(()) => error,
            Err(never) => never,
        }
    }

    /// Refuses, as upstream (Q2), what asks for more nodes than are up, before any walk. Upstream
    /// does not count nodes that come later, so not on a graph with pools.
    pub(super) fn precheck(&self, op: MatchOp, ask: &Ask<'_>) -> Result<(), Error> {
        let requests = match &ask.form {
            Form::Walk(requests) if !self.graph().has_pool_types() => requests,
            Form::Walk(_) | Form::Flat(_) => return Ok(()),
        };
        let far = !matches!(op, MatchOp::Allocate | MatchOp::WithoutAllocating);
        let ever = op == MatchOp::AllocateWithSatisfiability;
        let vertex_search = self.vertex_search(ask.policy);
        if requests.iter().any(|request| vertex_search.feasible(request, far, ever)) {
            Ok(())
        } else if ever {
            Err(Error::unsatisfiable())
        } else {
            Err(Error::busy())
        }
    }

    pub(super) fn now_for(&self, ask: &Ask<'_>) -> Result<Found, Error> {
        match &ask.form {
            Form::Flat(request) => {
                match self.find_flat(ask, request, Start::At(self.now()), Status::Heeded) {
                    Outcome::Found(picks) => Ok(Found::Flat(picks)),
                    Outcome::Impossible => Err(Error::busy()),
                    Outcome::GaveUp => Err(self.graph().pools.effort.gave_up()),
                }
            }
            Form::Walk(requests) => {
                let (vertex_search, seconds) =
                    (self.vertex_search(ask.policy), seconds(ask.spec.hold));
                let mut last = Error::busy();
                for (at, request) in requests.iter().enumerate() {
                    match vertex_search.at(request, self.now(), seconds) {
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
                let now = if from > self.now() { Err(Error::busy()) } else { self.now_for(ask) };
                return match now {
                    Ok(found) => Ok((found, self.now())),
                    Err(now) => self
                        .later_flat(ask, request, from, now)
                        .map(|(picks, at)| (Found::Flat(picks), at)),
                };
            }
            Form::Walk(requests) => requests,
        };
        let (vertex_search, seconds) = (self.vertex_search(ask.policy), seconds(ask.spec.hold));
        let mut last = Error::busy();
        for (which, request) in requests.iter().enumerate() {
            let miss = match vertex_search.at(request, self.now(), seconds) {
                Ok(selection) => return Ok((Found::Walk(selection, which), self.now())),
                Err(miss) => miss,
            };
            last = self.missed(miss, Reason::Busy);
            if last.reason != Reason::Busy {
                continue;
            }
            match vertex_search.later(request, seconds) {
                // As upstream (Q8): not at the very end of its window.
                Ok(Reservation { at: WINDOW_SECONDS, .. }) => {
                    self.searches.set_left(Left::EndOfWindow);
                    last = Error::busy();
                }
                // As upstream (Q22), which looks for the next instant before it looks whether this
                // one will do.
                Ok(Reservation { selection, is_last: true, .. }) if selection.marked.is_empty() => {
                    return Err(Error::not_found(NOTHING_TAKEN));
                }
                Ok(Reservation { selection, at, .. }) => {
                    return Ok((Found::Walk(selection, which), at));
                }
                Err(miss) => last = self.missed(miss, Reason::Busy),
            }
        }
        Err(last)
    }

    pub(super) fn fits_eventually(&self, ask: &Ask<'_>) -> bool {
        let Form::Flat(request) = &ask.form else { return false };
        matches!(self.find_flat(ask, request, Start::Eventually, Status::Heeded), Outcome::Found(_))
    }

    fn missed(&self, miss: Miss, reason: Reason) -> Error {
        match miss {
            Miss::Busy => Error { reason, text: String::new() },
            Miss::Spent => self.graph().pools.effort.gave_up(),
            // As upstream (Q18): no vertex serves such a level, so that it fits nowhere, and a text
            // says why.
            Miss::Invalid => {
                Error { reason, text: "resources: the parts of a slot are exclusive".to_owned() }
            }
            Miss::Siblings(kind) => Error {
                reason,
                text: format!(
                    "test: siblings in jobspec request same resource type : {}.",
                    self.graph().types().name(kind)
                ),
            },
        }
    }

    pub(super) fn usable(
        &self,
        ask: &Ask<'_>,
        request: &flat::SlotRequest<'_>,
        status: Status,
    ) -> Usable {
        let slots = request.shapes.iter().map(|shape| shape.extras);
        let usable = candidates::usable(self.graph(), ask.spec, slots, status);
        request.admitted(&self.graph().pools, usable)
    }

    fn find_flat(
        &self,
        ask: &Ask<'_>,
        request: &flat::SlotRequest<'_>,
        start: Start,
        status: Status,
    ) -> Outcome {
        flat::search(request, self.graph(), start, &self.usable(ask, request, status), ask.policy)
    }

    /// The earliest instant after now, from `from` on, at which a place is found, by the ends that
    /// are known. `now` is why not at once.
    fn later_flat(
        &self,
        ask: &Ask<'_>,
        request: &flat::SlotRequest<'_>,
        from: i64,
        now: Error,
    ) -> Result<(Vec<flat::Pick>, i64), Error> {
        if now.reason == Reason::GaveUp {
            // A place now is neither found nor ruled out.
            self.graph().pools.effort.passes_over();
        }
        let usable = self.usable(ask, request, Status::Heeded);
        let times = (from, self.now());
        flat::soonest(request, self.graph(), &usable, ask.policy, times).map_err(|why| match why {
            NotSoon::Impossible => Error::busy(),
            NotSoon::NoInstant => now,
            NotSoon::GaveUp => self.graph().pools.effort.gave_up(),
        })
    }
}
