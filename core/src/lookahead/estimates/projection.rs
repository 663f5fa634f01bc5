//! Projection: the plan run forward on a copy of its whole basis, to find out when waiting requests
//! start if everything goes as planned.
//!
//! Nothing of the copy is ever put back. It goes from one planned instant to the next: it gives
//! back allocations that have ended by then, and walks the queue as a pass would. The requests come
//! from [`Wants`]. If that is the present state of the jobs, a job that has changed since the copy
//! was made is planned as it is now, and a job that has gone is skipped.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use crate::asking::Asking;
use crate::jobs::clock::Clock;
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::{End, Rank};
use fluxqueue_machine::ledger::{Allocations, BookingId, Ledger};
use fluxqueue_planner::plan::{Attempt, Effort, News, Pending, Request, Requests, Walking};
use fluxqueue_planner::promises::Promises;
use fluxqueue_planner::queue::{PendingRequest, Place, QueueId};
use fluxqueue_planner::queues::Queues;
use fluxqueue_planner::{Planner, PlannerParts, Surroundings, forward};
use fluxqueue_workload::Time;

/// The cost of beginning the walk of an instant, in requests with results that still stand.
const OF_AN_INSTANT: u64 = 256;
/// The cost of giving back an allocation that has ended, in the same unit.
const OF_AN_END: u64 = 8;

/// Most instants that a projection visits, however much is planned: it ends with `TooFar` then.
const INSTANTS_MAX: usize = 20_000;

/// The requests of waiting jobs, as a projection reads them.
pub(crate) trait Wants {
    /// The queues that they are in.
    fn queues(&self) -> &Queues;
    /// Returns the request at that time; `None` if there is none.
    fn request_at(&self, pending: &PendingRequest, now: Time) -> Option<Request>;
}

/// A copy of everything that the plan rests on, which is moved forward in time.
pub(crate) struct Projection {
    /// The time at which the copy was made.
    pub as_of: Time,
    /// The number of changes to allocations at that time.
    pub changes: u64,
    now: Time,
    planner: Planner,
    /// The bookings that end, by the second, on nodes before the next one to be read.
    ends: BTreeMap<i64, Vec<BookingId>>,
    next_rank: Option<Rank>,
    /// The bookings that have ended by this instant and are still to be given back, the last one
    /// first.
    ending: Vec<BookingId>,
    /// The walk under way at this instant.
    walking: Option<Box<Walking<Allocations>>>,
    /// The requests that still have no start.
    wanted: BTreeSet<PendingRequest>,
    instants: usize,
    /// The other work done so far, as it counts in an [`Effort`].
    others: u64,
}

/// The original of a copy.
pub(crate) struct Original<'a> {
    pub now: Time,
    pub planner: &'a mut Planner,
}

/// The progress of a projection.
pub(crate) enum Progress {
    /// There is more work for this instant.
    UnderWay,
    /// These requests start at this time.
    At(Time, Vec<PendingRequest>),
    /// Nothing more is planned: the starts of these requests cannot be predicted.
    Over(BTreeSet<PendingRequest>),
    /// There are more instants than a projection visits.
    TooFar,
}

/// The parts of a projection that is not needed any more. To drop all of it at once would take
/// longer than any other single task of looking ahead, so it is dropped part by part.
pub(crate) type Remains = Vec<Box<dyn Any + Send>>;

/// The requests some time ahead: obstacles of a moment are over by then.
struct Ahead<'a, W>(&'a W, Time);

impl Projection {
    /// Copies everything, to find the starts of the requests in `wanted`. Returns `None` if the
    /// library does not copy graphs.
    pub(crate) fn new(of: Original<'_>, wanted: BTreeSet<PendingRequest>) -> Option<Self> {
        let mut planner = of.planner.copy()?;
        planner.accounts = planner.accounts.copy();
        // Requests that were kept from such nodes are tried again.
        planner.cluster.quarantine_mut().clear();
        Some(Projection {
            as_of: of.now,
            changes: of.planner.ledger.changes.count(),
            now: of.now,
            planner,
            ends: BTreeMap::new(),
            next_rank: Some(0),
            ending: Vec::new(),
            walking: None,
            wanted,
            instants: 0,
            others: 0,
        })
    }

    /// Returns its parts, to be dropped one by one.
    pub(crate) fn into_remains(self) -> Remains {
        let Projection { planner, ends, ending, walking, wanted, .. } = self;
        planner.into_remains((ends, ending, walking, wanted))
    }

    /// Returns a copy that goes on from here.
    pub(crate) fn copy(&mut self) -> Option<Self> {
        Some(Projection {
            planner: self.planner.copy()?,
            ends: self.ends.clone(),
            ending: Vec::new(),
            walking: None,
            wanted: self.wanted.clone(),
            ..*self
        })
    }

    /// Replaces the nodes, the queue and the promises, and adds requests that need a start.
    pub(crate) fn replace(
        &mut self,
        (cluster, queue, promises): (Cluster, Pending, Promises),
        others: impl IntoIterator<Item = PendingRequest>,
    ) {
        (self.planner.cluster, self.planner.queue, self.planner.promises) =
            (cluster, queue, promises);
        self.wanted.extend(others);
    }

    /// Returns the nodes, the queue and the promises.
    pub(crate) fn parts(&self) -> (&Cluster, &Pending, &Promises) {
        (&self.planner.cluster, &self.planner.queue, &self.planner.promises)
    }

    /// Returns the nodes and the ledger.
    pub(crate) fn machine(&mut self) -> (&mut Cluster, &mut Ledger) {
        (&mut self.planner.cluster, &mut self.planner.ledger)
    }

    /// Returns the last attempt at a waiting request.
    pub(crate) fn last_attempt(&self, pending: &PendingRequest) -> Option<&Attempt> {
        self.planner.queue.last_attempt(self.planner.queue.class_of(pending)?)
    }

    /// Returns the requests that still have no start.
    pub(crate) fn wanted(&self) -> &BTreeSet<PendingRequest> {
        &self.wanted
    }

    /// Returns the time of the instant that it has reached.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// True if no request needs a start any more.
    pub(crate) fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the number of questions to the resource graph so far.
    pub(crate) fn questions(&self) -> u64 {
        self.planner.ledger.questions
    }

    /// Takes the number of failed calls of the resource graph since the last time.
    pub(crate) fn take_errors(&mut self) -> u64 {
        std::mem::take(&mut self.planner.ledger.errors)
    }

    /// Reads the planned ends on this many more nodes. True if none are left.
    pub(crate) fn look_at_nodes(&mut self, nodes: usize) -> bool {
        let Some(from) = self.next_rank else { return true };
        let (ends, next) = self.planner.ledger.planned_ends(from, nodes);
        for (end, booking) in ends {
            self.ends.entry(end).or_default().push(booking);
        }
        self.next_rank = next;
        next.is_none()
    }

    /// Reads the planned ends on all nodes, without which nothing can be planned.
    pub(crate) fn look_at_all_nodes(&mut self) {
        while !self.look_at_nodes(usize::MAX) {}
    }

    /// Returns the requests that would start if there was a walk at the time of the copy.
    pub(crate) fn look_now(&mut self, wants: &impl Wants) -> Vec<PendingRequest> {
        self.look_at_all_nodes();
        self.begin_instant();
        self.go_on(wants, Effort::ALL).unwrap_or_default()
    }

    /// Returns the work done so far.
    pub(crate) fn spent(&self) -> Effort {
        Effort::questions(self.questions()).and(self.others)
    }

    /// Moves to the next planned instant, or continues with the current one.
    pub(crate) fn advance(&mut self, wants: &impl Wants, stint: Effort) -> Progress {
        if self.ending.is_empty() && self.walking.is_none() {
            self.look_at_all_nodes();
            let Some(next) = self.next_instant(wants.queues()) else {
                return Progress::Over(std::mem::take(&mut self.wanted));
            };
            self.instants += 1;
            if self.instants > INSTANTS_MAX {
                return Progress::TooFar;
            }
            self.now = next;
            self.begin_instant();
        }
        match self.go_on(wants, stint) {
            Some(started) => Progress::At(self.now, started),
            None => Progress::UnderWay,
        }
    }

    fn next_instant(&self, queues: &Queues) -> Option<Time> {
        let end = self.ends.keys().next().copied();
        let start = self.planner.promises.next_start();
        let planned = end.into_iter().chain(start).min().map(Time::from_seconds);
        let patience = self
            .planner
            .promises
            .next_patience(|pending| queues.bypass_secs(self.planner.queue.queue_of(pending)));
        // Instants that are due already come in one second, as the graph counts them.
        let next = planned.into_iter().chain(patience).min()?;
        Some(next.max(self.now.plus_millis(1_000)))
    }

    /// Finds the bookings that have ended by now.
    fn begin_instant(&mut self) {
        let later = self.ends.split_off(&(self.now.seconds() + 1));
        self.ending = std::mem::replace(&mut self.ends, later).into_values().flatten().collect();
        // The bookings come in no order.
        self.ending.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Gives back up to this number of ended bookings. Returns whether none are left.
    fn give_back(&mut self, most: usize) -> bool {
        let before = self.ending.len();
        for booking in self.ending.drain(self.ending.len().saturating_sub(most)..).rev() {
            self.planner.ledger.free_booked(&mut self.planner.cluster, booking);
        }
        self.others += OF_AN_END * (before - self.ending.len()) as u64;
        self.ending.is_empty()
    }

    /// Brings everything to this instant, for a walk over the queue.
    fn be_there(&mut self, queues: &Queues) {
        self.planner.ledger.set_time(self.now);
        self.planner.accounts.go_to(self.now.seconds());
        let queue = &self.planner.queue;
        self.planner
            .promises
            .end_patience(self.now, |pending| queues.bypass_secs(queue.queue_of(pending)));
    }

    /// Continues with the instant for this much work. When its walk is over, returns the wanted
    /// requests that start.
    fn go_on(&mut self, wants: &impl Wants, stint: Effort) -> Option<Vec<PendingRequest>> {
        let queues = wants.queues();
        let before = self.spent();
        if self.walking.is_none() {
            if !self.give_back(stint.times(OF_AN_END).max(1)) {
                return None;
            }
            self.be_there(queues);
            self.others += OF_AN_INSTANT;
        }
        let begun = self.spent() - before;
        let around = Surroundings { queues, now: self.now };
        let PlannerParts { queue, mut live, claims } = self.planner.parts(around);
        let mut walking = self.walking.take().unwrap_or_else(|| {
            live.count_promises();
            // Requests that have started by an earlier instant have begun.
            claims.keep_beginning(|_| false);
            Box::new(Walking::begin(queues.policies(), queue, &live, News::Anything, claims))
        });
        let enough = (stint - begun).counted_from(&live, &mut self.others);
        if !walking.go_on(queues.policies(), queue, &Ahead(wants, self.now), &mut live, enough) {
            self.walking = Some(walking);
            return None;
        }
        let plan = walking.end(&mut self.planner.claims);
        let started = forward::follow(plan, &mut self.planner, self.now);
        let mut found = Vec::new();
        for (pending, slots) in started {
            for allocation in slots.iter().flatten().flatten() {
                if let End::At(end) = allocation.end {
                    self.ends.entry(end).or_default().push(allocation.booking());
                }
            }
            if self.wanted.remove(&pending) {
                found.push(pending);
            }
        }
        Some(found)
    }
}

/// Returns the requests within the depths of their queues that have no promise.
pub(crate) fn undated(
    queue: &Pending,
    promises: &Promises,
    queues: &Queues,
) -> BTreeSet<PendingRequest> {
    within_depths(queue, queues)
        .filter(|pending| promises.reservation(pending).is_none())
        .cloned()
        .collect()
}

/// Returns the requests within the depths of their queues.
pub(crate) fn within_depths<'a>(
    queue: &'a Pending,
    queues: &'a Queues,
) -> impl Iterator<Item = &'a PendingRequest> + use<'a> {
    let within = |id: QueueId| queue.of_queue(id).take(queues.depth(id)).map(Place::request);
    queue.queues().flat_map(within)
}

impl<W: Wants> Requests for Ahead<'_, W> {
    fn is_put_off(&self, _: &PendingRequest) -> bool {
        false
    }

    fn request(&self, pending: &PendingRequest) -> Option<Request> {
        self.0.request_at(pending, self.1)
    }
}

impl Wants for Asking<'_> {
    fn queues(&self) -> &Queues {
        self.queues
    }

    fn request_at(&self, pending: &PendingRequest, now: Time) -> Option<Request> {
        Asking { jobs: self.jobs, queues: self.queues, clock: Clock { now, ..self.clock } }
            .request(pending)
    }
}
