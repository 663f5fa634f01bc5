//! The plan run forward on a copy of all that it rests on: when do those start who wait, if things
//! go as they are planned?
//!
//! Nothing of the copy is ever put back. It goes from one instant at which something is planned to
//! the next: what has ended by then is given back, and the queue is walked as a pass would walk it.
//! What those who wait want is asked of [`Wants`]: where these are the jobs as they are now, who
//! has changed since the copy was made is planned as he is, and who has gone is passed over.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use crate::asking::Asking;
use crate::jobs::clock::Clock;
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::{End, Rank, RankSet};
use fluxqueue_machine::ledger::{Allocations, Booking, Ledger};
use fluxqueue_planner::plan::{Attempt, Effort, News, Pending, Request, Requests, Walking};
use fluxqueue_planner::promises::Promises;
use fluxqueue_planner::queue::{PendingRequest, Place, QueueId};
use fluxqueue_planner::queues::Queues;
use fluxqueue_planner::{Planner, PlannerParts, Surroundings, forward};
use fluxqueue_workload::Time;

/// To begin the walk of an instant takes about as long as to look at so many requests of which what
/// was found out still stands.
const OF_AN_INSTANT: u64 = 256;
/// To give an allocation back that has ended takes about as long as so many.
const OF_AN_END: u64 = 8;

/// So many instants are looked at, however much is planned.
const INSTANTS_MAX: usize = 20_000;

/// Those who wait, as a projection asks them.
pub(crate) trait Wants {
    /// The queues that they are in.
    fn queues(&self) -> &Queues;
    /// What is asked for at that time; `None` if nothing is.
    fn request_at(&self, pending: &PendingRequest, now: Time) -> Option<Request>;
}

/// What a projection rests on, copied.
pub(crate) struct Projection {
    /// When the copy was made.
    pub as_of: Time,
    /// How many changes there had been of what is taken.
    pub changes: u64,
    now: Time,
    planner: Planner,
    /// What ends, by the second, on nodes before the one that is to be looked at next.
    ends: BTreeMap<i64, Vec<Booking>>,
    next_rank: Option<Rank>,
    /// What has ended by this instant and is still to be given back, the last one first.
    ending: Vec<Booking>,
    /// The walk under way at this instant.
    walking: Option<Box<Walking<Allocations>>>,
    /// Those whose start is looked for.
    wanted: BTreeSet<PendingRequest>,
    /// Nodes that are left alone for a moment are not for long.
    no_suspects: RankSet,
    suspects_version: u64,
    instants: usize,
    /// What else was done so far, as it counts in an [`Effort`].
    others: u64,
}

/// What a copy is made of.
pub(crate) struct Original<'a> {
    pub now: Time,
    pub planner: &'a mut Planner,
    pub suspects_version: u64,
}

/// How far a projection has come.
pub(crate) enum Progress {
    /// There is more to be looked at for this instant.
    UnderWay,
    /// These start at this time.
    At(Time, Vec<PendingRequest>),
    /// Nothing more is planned: of these nobody can say when they start.
    Over(BTreeSet<PendingRequest>),
    /// There is more than is looked at.
    TooFar,
}

/// What is left of a projection that is not needed any more. To throw all of it away at once takes
/// longer than anything else that is done for it in one go, so it goes part by part.
pub(crate) type Remains = Vec<Box<dyn Any + Send>>;

/// Those who wait, some time ahead: whatever keeps them back for a moment is over by then.
struct Ahead<'a, W>(&'a W, Time);

impl Projection {
    /// A copy of everything, to find out when those `wanted` start. `None` if the library does not
    /// copy graphs.
    pub(crate) fn new(of: Original<'_>, wanted: BTreeSet<PendingRequest>) -> Option<Self> {
        let mut planner = of.planner.copy()?;
        planner.accounts = planner.accounts.copy();
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
            no_suspects: RankSet::new(),
            // Those who were kept from such nodes are asked again.
            suspects_version: of.suspects_version + 1,
            instants: 0,
            others: 0,
        })
    }

    /// Its parts, to be thrown away one by one.
    pub(crate) fn into_remains(self) -> Remains {
        let Projection { planner, ends, ending, walking, wanted, .. } = self;
        planner.into_remains((ends, ending, walking, wanted))
    }

    /// Another one that goes on from here.
    pub(crate) fn copy(&mut self) -> Option<Self> {
        Some(Projection {
            planner: self.planner.copy()?,
            ends: self.ends.clone(),
            ending: Vec::new(),
            walking: None,
            wanted: self.wanted.clone(),
            no_suspects: RankSet::new(),
            ..*self
        })
    }

    /// From now on these are the nodes, those who wait, and what they are promised; and the starts
    /// of these others are looked for too.
    pub(crate) fn replace(
        &mut self,
        (cluster, queue, promises): (Cluster, Pending, Promises),
        others: impl IntoIterator<Item = PendingRequest>,
    ) {
        (self.planner.cluster, self.planner.queue, self.planner.promises) =
            (cluster, queue, promises);
        self.wanted.extend(others);
    }

    /// The nodes, those who wait, and what they are promised.
    pub(crate) fn parts(&self) -> (&Cluster, &Pending, &Promises) {
        (&self.planner.cluster, &self.planner.queue, &self.planner.promises)
    }

    /// The nodes, and what is taken of them.
    pub(crate) fn machine(&mut self) -> (&mut Cluster, &mut Ledger) {
        (&mut self.planner.cluster, &mut self.planner.ledger)
    }

    /// What came of the last attempt at a request that waits.
    pub(crate) fn last_attempt(&self, pending: &PendingRequest) -> Option<&Attempt> {
        self.planner.queue.last_attempt(self.planner.queue.class_of(pending)?)
    }

    /// Those whose start is looked for, and was not found yet.
    pub(crate) fn wanted(&self) -> &BTreeSet<PendingRequest> {
        &self.wanted
    }

    /// The time that it has come to.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Nobody's start is looked for any more.
    pub(crate) fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// How much was asked of the resource graph so far.
    pub(crate) fn questions(&self) -> u64 {
        self.planner.ledger.questions
    }

    /// Calls of the resource graph that failed since this was last asked.
    pub(crate) fn take_errors(&mut self) -> u64 {
        std::mem::take(&mut self.planner.ledger.errors)
    }

    /// Looks at what is taken of so many more nodes. False: there are others still.
    pub(crate) fn look_at_nodes(&mut self, nodes: usize) -> bool {
        let Some(from) = self.next_rank else { return true };
        let (ends, next) = self.planner.ledger.planned_ends(from, nodes);
        for (end, booking) in ends {
            self.ends.entry(end).or_default().push(booking);
        }
        self.next_rank = next;
        next.is_none()
    }

    /// Looks at what is taken of all nodes: nothing can be planned before.
    pub(crate) fn look_at_all_nodes(&mut self) {
        while !self.look_at_nodes(usize::MAX) {}
    }

    /// Who starts at the instant at which the copy was made, if there was a walk now.
    pub(crate) fn look_now(&mut self, wants: &impl Wants) -> Vec<PendingRequest> {
        self.look_at_all_nodes();
        self.begin_instant();
        self.go_on(wants, Effort::ALL).unwrap_or_default()
    }

    /// What was done so far.
    pub(crate) fn spent(&self) -> Effort {
        Effort::questions(self.questions()).and(self.others)
    }

    /// Goes to the next instant at which something is planned, or goes on with one.
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
        // What was due by now is taken to come in a second, as the graph takes it.
        let next = planned.into_iter().chain(patience).min()?;
        Some(next.max(self.now.plus_millis(1_000)))
    }

    /// Looks up what has ended by now.
    fn begin_instant(&mut self) {
        let later = self.ends.split_off(&(self.now.seconds() + 1));
        self.ending = std::mem::replace(&mut self.ends, later).into_values().flatten().collect();
        // They came in no order.
        self.ending.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Gives back so much of what has ended. Returns whether that is all.
    fn give_back(&mut self, most: usize) -> bool {
        let before = self.ending.len();
        for booking in self.ending.drain(self.ending.len().saturating_sub(most)..).rev() {
            self.planner.ledger.free_booked(&mut self.planner.cluster, booking);
        }
        self.others += OF_AN_END * (before - self.ending.len()) as u64;
        self.ending.is_empty()
    }

    /// All is as of this instant, for a walk over the queue.
    fn be_there(&mut self, queues: &Queues) {
        self.planner.ledger.set_time(self.now);
        self.planner.accounts.go_to(self.now.seconds());
        let queue = &self.planner.queue;
        self.planner
            .promises
            .end_patience(self.now, |pending| queues.bypass_secs(queue.queue_of(pending)));
    }

    /// Goes on with the instant for so much. When its walk is over, says who starts of those who
    /// are looked for.
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
        let around = Surroundings {
            queues,
            suspects: &self.no_suspects,
            suspects_version: self.suspects_version,
            now: self.now,
        };
        let PlannerParts { queue, mut live, held_nodes } = self.planner.parts(around);
        let mut walking = self.walking.take().unwrap_or_else(|| {
            live.count_promises();
            // Whatever has started by an earlier instant has begun.
            held_nodes.keep_beginning(|_| false);
            Box::new(Walking::begin(queues.policies(), queue, &live, News::Anything, held_nodes))
        });
        let enough = (stint - begun).counted_from(&live, &mut self.others);
        if !walking.go_on(queues.policies(), queue, &Ahead(wants, self.now), &mut live, enough) {
            self.walking = Some(walking);
            return None;
        }
        let plan = walking.end(&mut self.planner.held_nodes);
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

/// Those within the depths of their queues who are promised nothing.
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

/// Those within the depths of their queues.
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
