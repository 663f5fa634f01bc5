//! The plan run forward, a slice at a time.

use std::collections::BTreeSet;

use crate::asking::Asking;
use crate::jobs::expected::Expected;
use crate::lookahead::estimates::projection::{
    Original, Progress, Projection, undated, within_depths,
};
use crate::parts::Projecting;
use crate::timers::Timer;
use fluxqueue_planner::plan::Effort;
use fluxqueue_planner::queue::PendingRequest;

/// What is looked at in one go, and the pause until the next.
const SLICE: Effort = Effort::questions(6);

const SLICE_MILLIS: i64 = 2;

/// Nodes of which it is looked up in one go what ends when, before the first instant.
const NODES_PER_SLICE: usize = 2_048;

/// It gives way so many times in a row to a step in which there is something to send.
const YIELDS_MAX: u32 = 20;

/// So long after a pass nothing is copied: what comes of the pass goes first.
const CALM_MILLIS: i64 = 1_000;

/// From the beginning of one projection to that of the next at least; and for each thing that is
/// copied, so that copies take a small share of the time however large the cluster is.
const PAUSE_MILLIS: i64 = 5_000;

const THINGS_PER_MILLI: usize = 4;

/// A projection is given up when so much of what it rests on has changed.
const CHANGES_MAX: u64 = 1_024;

impl Projecting<'_> {
    /// The queue was walked: what was found out ahead may be different now.
    pub(crate) fn look_ahead_again(&mut self) {
        self.lookahead.ahead.is_stale = true;
        self.wake_to_look_ahead();
    }

    /// It is time to look ahead.
    pub(crate) fn may_look_ahead(&mut self) {
        self.lookahead.ahead.is_due = true;
    }

    /// Looks ahead for a moment, if it is time and nothing waits to be sent: what was decided in a
    /// step leaves at its end. True if it did.
    pub(crate) fn look_ahead(&mut self) -> bool {
        if !std::mem::take(&mut self.lookahead.ahead.is_due) {
            return false;
        }
        let gives_way = !self.agenda.outbox.is_empty()
            || (self.agenda.actions.has_decided() && self.lookahead.ahead.yields < YIELDS_MAX);
        if gives_way {
            self.lookahead.ahead.yields = self.lookahead.ahead.yields.saturating_add(1);
        } else {
            self.lookahead.ahead.yields = 0;
            self.take_a_slice();
        }
        self.wake_to_look_ahead();
        !gives_way
    }

    fn take_a_slice(&mut self) {
        if let Some(part) = self.lookahead.ahead.remains.pop() {
            self.lookahead.ahead.slices += 1;
            drop(part);
            return;
        }
        match self.lookahead.ahead.projection.take() {
            Some(projection) => {
                self.lookahead.ahead.slices += 1;
                self.continue_projection(projection);
            }
            None if self.is_worth_a_projection() => {
                self.lookahead.ahead.slices += 1;
                self.begin_projection();
            }
            None => {}
        }
    }

    fn wake_to_look_ahead(&mut self) {
        if self.lookahead.ahead.projection.is_some()
            || !self.lookahead.ahead.remains.is_empty()
            || !self.agenda.outbox.is_empty()
        {
            self.agenda.timers.wake(Timer::LookAhead, self.clock.now.plus_millis(SLICE_MILLIS));
        } else if self.lookahead.ahead.is_stale
            && !self.planner.queue.is_empty()
            && self.planner.ledger.can_be_copied()
        {
            let things = self.planner.cluster.len()
                + self.jobs.members.len()
                + self.occupancy.foreign.len()
                + self.planner.queue.len();
            let pause =
                PAUSE_MILLIS.max(i64::try_from(things / THINGS_PER_MILLI).unwrap_or(i64::MAX));
            let due =
                self.lookahead.ahead.begun.map_or(self.clock.now, |begun| begun.plus_millis(pause));
            self.agenda
                .timers
                .wake(Timer::LookAhead, due.max(self.clock.now.plus_millis(CALM_MILLIS)));
        }
    }

    /// Something is different from when the last one was begun, or nobody has looked yet.
    fn is_worth_a_projection(&self) -> bool {
        self.lookahead.ahead.is_stale && !self.planner.queue.is_empty()
    }

    fn begin_projection(&mut self) {
        let wanted = undated(&self.planner.queue, &self.planner.promises, self.queues);
        (self.lookahead.ahead.begun, self.lookahead.ahead.is_stale) = (Some(self.clock.now), false);
        if !wanted.is_empty() {
            self.lookahead.ahead.projection = self.project(wanted).map(Box::new);
        }
    }

    /// A copy of all that the plan rests on, for those who ask when all within the depths of their
    /// queues start.
    pub(crate) fn project_all(&mut self) -> Option<Projection> {
        let wanted = within_depths(&self.planner.queue, self.queues).cloned().collect();
        self.project(wanted)
    }

    pub(crate) fn project(&mut self, wanted: BTreeSet<PendingRequest>) -> Option<Projection> {
        let of = Original {
            now: self.clock.now,
            planner: self.planner,
            suspects_version: self.occupancy.suspects.version(),
        };
        Projection::new(of, wanted)
    }

    fn continue_projection(&mut self, mut projection: Box<Projection>) {
        if self.planner.ledger.changes.count() - projection.changes > CHANGES_MAX {
            self.lookahead.ahead.is_stale = true;
            self.lookahead.ahead.remains = projection.into_remains();
            return;
        }
        if !projection.look_at_nodes(NODES_PER_SLICE) {
            self.lookahead.ahead.projection = Some(projection);
            return;
        }
        let before = projection.spent();
        while !projection.is_done() && projection.spent() - before < SLICE {
            let asking = Asking { jobs: self.jobs, queues: self.queues, clock: self.clock };
            match projection.advance(&asking, SLICE - (projection.spent() - before)) {
                Progress::UnderWay => break,
                Progress::At(start, pending) => {
                    for pending in pending {
                        self.estimating()
                            .expect(&pending, Expected::At { start, as_of: projection.as_of });
                    }
                }
                Progress::Over(undated) => {
                    for pending in undated {
                        self.estimating().expect(&pending, Expected::NoDate);
                    }
                }
                Progress::TooFar => {
                    self.planner.ledger.errors += projection.take_errors();
                    self.lookahead.ahead.remains = projection.into_remains();
                    return;
                }
            }
        }
        self.planner.ledger.errors += projection.take_errors();
        if projection.is_done() {
            self.lookahead.ahead.remains = projection.into_remains();
        } else {
            self.lookahead.ahead.projection = Some(projection);
        }
    }
}
