//! Projecting: runs the plan forward, a slice at a time.

use std::collections::BTreeSet;

use crate::agenda::Agenda;
use crate::asking::Asking;
use crate::jobs::clock::Clock;
use crate::jobs::expected::Expected;
use crate::jobs::registry::Jobs;
use crate::lookahead::Lookahead;
use crate::lookahead::estimates::projection::{
    Original, Progress, Projection, undated, within_depths,
};
use crate::occupancy::Occupancy;
use crate::timers::Timer;
use fluxqueue_planner::Planner;
use fluxqueue_planner::plan::Effort;
use fluxqueue_planner::queue::PendingRequest;
use fluxqueue_planner::queues::Queues;

/// Runs the plan forward on a copy, to find out when requests start.
pub(crate) struct Projecting<'a> {
    pub clock: Clock,
    pub jobs: &'a mut Jobs,
    pub planner: &'a mut Planner,
    pub queues: &'a Queues,
    pub occupancy: &'a Occupancy,
    pub lookahead: &'a mut Lookahead,
    pub agenda: &'a mut Agenda,
}

/// The work of one slice, and the pause in milliseconds until the next.
const SLICE: Effort = Effort::questions(6);

const SLICE_MILLIS: i64 = 2;

/// The number of nodes of which one slice reads the planned ends, before the first instant.
const NODES_PER_SLICE: usize = 2_048;

/// How many times in a row it gives way to a step in which there is something to send.
const YIELDS_MAX: u32 = 20;

/// The time in milliseconds after a pass in which no copy is made: the results of the pass go
/// first.
const CALM_MILLIS: i64 = 1_000;

/// The least time in milliseconds from the beginning of one projection to that of the next; and the
/// number of copied things for which a millisecond is added to it, so that copies take a small
/// share of the time however large the cluster is.
const PAUSE_MILLIS: i64 = 5_000;

const THINGS_PER_MILLI: usize = 4;

/// The number of changes to its basis beyond which a projection is given up.
const CHANGES_MAX: u64 = 1_024;

impl Projecting<'_> {
    /// Marks the last projection as stale, since the queue was walked.
    pub(crate) fn look_ahead_again(&mut self) {
        self.lookahead.ahead.is_stale = true;
        self.wake_to_look_ahead();
    }

    /// Marks a slice as due.
    pub(crate) fn may_look_ahead(&mut self) {
        self.lookahead.ahead.is_due = true;
    }

    /// Runs the plan forward for a moment, if a slice is due and nothing waits to be sent: the
    /// decisions of a step leave at its end. True if it did.
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
            let things = self.planner.cluster.nodes().len()
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

    /// True if the queue was walked since the last projection was begun, and requests wait.
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

    /// Copies everything that the plan rests on, to find the starts of all requests within the
    /// depths of their queues.
    pub(crate) fn project_all(&mut self) -> Option<Projection> {
        let wanted = within_depths(&self.planner.queue, self.queues).cloned().collect();
        self.project(wanted)
    }

    pub(crate) fn project(&mut self, wanted: BTreeSet<PendingRequest>) -> Option<Projection> {
        let of = Original { now: self.clock.now, planner: self.planner };
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
