//! The plan run forward on a copy of all that it rests on: when do those start who wait, if things go as they are planned?
//!
//! Nothing of the copy is ever put back. It goes from one instant at which something is planned to the next: what has ended by then is
//! given back, and the queue is walked as a pass would walk it. What those who wait want is asked of [`Wants`]: where these are the jobs
//! as they are now, who has changed since the copy was made is planned as he is, and who has gone is passed over.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Cluster;
use crate::fluxion::{End, RankSet};
use crate::forward;
use crate::jobs::Clock;
use crate::ledger::{Allocation, Ledger};
use crate::plan::{self, Asking, Attempt, HeldNodes, Live, News, Pending, Request, Requests};
use crate::promises::Promises;
use crate::queue::{PendingRequest, Place, QueueId};
use crate::queues::{Accounts, Queues};
use fluxqueue_workload::Time;

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
    ledger: Ledger,
    cluster: Cluster,
    queue: Pending,
    held_nodes: HeldNodes,
    promises: Promises,
    accounts: Accounts,
    /// What ends, by the second.
    ends: BTreeMap<i64, Vec<Allocation>>,
    /// What ends at no second that is known.
    lasting: Vec<Allocation>,
    /// Those whose start is looked for.
    wanted: BTreeSet<PendingRequest>,
    /// Nodes that are left alone for a moment are not for long.
    no_suspects: RankSet,
    suspects_version: u64,
    instants: usize,
}

/// What a copy is made of.
pub(super) struct Original<'a> {
    pub now: Time,
    pub ledger: &'a mut Ledger,
    pub cluster: &'a Cluster,
    pub queue: &'a Pending,
    pub held_nodes: &'a HeldNodes,
    pub promises: &'a Promises,
    pub accounts: &'a Accounts,
    pub suspects_version: u64,
}

/// How far a projection has come.
pub(crate) enum Progress {
    /// These start at this time.
    At(Time, Vec<PendingRequest>),
    /// Nothing more is planned: of these nobody can say when they start.
    Over(BTreeSet<PendingRequest>),
    /// There is more than is looked at.
    TooFar,
}

/// Those who wait, some time ahead: whatever keeps them back for a moment is over by then.
struct Ahead<'a, W>(&'a W, Time);

impl Projection {
    /// A copy of everything, to find out when those `wanted` start. `None` if the library does not copy graphs.
    pub(super) fn new<'a>(
        of: Original<'_>,
        taken: impl Iterator<Item = &'a Allocation>,
        wanted: BTreeSet<PendingRequest>,
    ) -> Option<Self> {
        let ledger = of.ledger.copy()?;
        let mut projection = Projection {
            as_of: of.now,
            changes: of.ledger.changes.count(),
            now: of.now,
            ledger,
            cluster: of.cluster.clone(),
            queue: of.queue.clone(),
            held_nodes: of.held_nodes.clone(),
            promises: of.promises.clone(),
            accounts: of.accounts.clone(),
            ends: BTreeMap::new(),
            lasting: Vec::new(),
            wanted,
            no_suspects: RankSet::new(),
            // Those who were kept from such nodes are asked again.
            suspects_version: of.suspects_version + 1,
            instants: 0,
        };
        for allocation in taken {
            projection.note(allocation.in_copy());
        }
        Some(projection)
    }

    /// Another one that goes on from here.
    pub(crate) fn copy(&mut self) -> Option<Self> {
        let in_copy = |taken: &Vec<Allocation>| taken.iter().map(Allocation::in_copy).collect();
        Some(Projection {
            ledger: self.ledger.copy()?,
            cluster: self.cluster.clone(),
            queue: self.queue.clone(),
            held_nodes: self.held_nodes.clone(),
            promises: self.promises.clone(),
            accounts: self.accounts.clone(),
            ends: self.ends.iter().map(|(end, taken)| (*end, in_copy(taken))).collect(),
            lasting: in_copy(&self.lasting),
            wanted: self.wanted.clone(),
            no_suspects: RankSet::new(),
            ..*self
        })
    }

    /// From now on these are the nodes, those who wait, and what they are promised; and the starts of these others are looked for
    /// too.
    pub(crate) fn replace(
        &mut self,
        (cluster, queue, promises): (Cluster, Pending, Promises),
        others: impl IntoIterator<Item = PendingRequest>,
    ) {
        (self.cluster, self.queue, self.promises) = (cluster, queue, promises);
        self.wanted.extend(others);
    }

    /// The nodes, those who wait, and what they are promised.
    pub(crate) fn parts(&self) -> (&Cluster, &Pending, &Promises) {
        (&self.cluster, &self.queue, &self.promises)
    }

    /// The nodes, and what is taken of them.
    pub(crate) fn machine(&mut self) -> (&mut Cluster, &mut Ledger) {
        (&mut self.cluster, &mut self.ledger)
    }

    /// What came of the last attempt at a request that waits.
    pub(crate) fn last_attempt(&self, pending: &PendingRequest) -> Option<&Attempt> {
        self.queue.last_attempt(self.queue.class_of(pending)?)
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
        self.ledger.questions
    }

    /// Calls of the resource graph that failed since this was last asked.
    pub(crate) fn take_errors(&mut self) -> u64 {
        std::mem::take(&mut self.ledger.errors)
    }

    /// Who starts at the instant at which the copy was made, if there was a walk now.
    pub(crate) fn look_now(&mut self, wants: &impl Wants) -> Vec<PendingRequest> {
        self.sweep(wants)
    }

    /// Goes to the next instant at which something is planned.
    pub(crate) fn advance(&mut self, wants: &impl Wants) -> Progress {
        let Some(next) = self.next_instant(wants.queues()) else {
            return Progress::Over(std::mem::take(&mut self.wanted));
        };
        self.instants += 1;
        if self.instants > INSTANTS_MAX {
            return Progress::TooFar;
        }
        self.now = next;
        let started = self.sweep(wants);
        Progress::At(next, started)
    }

    fn next_instant(&self, queues: &Queues) -> Option<Time> {
        let end = self.ends.keys().next().copied();
        let start = self.promises.next_start();
        let planned = end.into_iter().chain(start).min().map(Time::from_seconds);
        let patience = self.promises.next_patience(|pending| queues.bypass_secs(self.queue.queue_of(pending)));
        // What was due by now is taken to come in a second, as the graph takes it.
        let next = planned.into_iter().chain(patience).min()?;
        Some(next.max(self.now.plus_millis(1_000)))
    }

    /// One walk over the queue, after what has ended by now is given back. Says who starts of those who are looked for.
    fn sweep(&mut self, wants: &impl Wants) -> Vec<PendingRequest> {
        let queues = wants.queues();
        let later = self.ends.split_off(&(self.now.seconds() + 1));
        let mut ended: Vec<Allocation> = std::mem::replace(&mut self.ends, later).into_values().flatten().collect();
        // They came in no order.
        ended.sort_unstable_by_key(|allocation| (allocation.gid, allocation.rank));
        for allocation in ended {
            self.ledger.free(&mut self.cluster, allocation);
        }
        self.ledger.set_time(self.now);
        self.accounts.go_to(self.now.seconds());
        let queue = &self.queue;
        self.promises.end_patience(self.now, |pending| queues.bypass_secs(queue.queue_of(pending)));
        let mut live = Live {
            ledger: &mut self.ledger,
            cluster: &mut self.cluster,
            promises: &mut self.promises,
            queues,
            accounts: &mut self.accounts,
            suspects: &self.no_suspects,
            suspects_version: self.suspects_version,
            now: self.now,
        };
        live.count_promises();
        let last = &mut self.held_nodes;
        let ahead = Ahead(wants, self.now);
        let plan = plan::walk(queues.policies(), &self.queue, &ahead, &mut live, News::Anything, last);
        let started = forward::follow(plan, &mut self.queue, &mut self.promises, &mut self.ledger, self.now);
        let mut found = Vec::new();
        for (pending, slots) in started {
            for allocation in slots.into_iter().flatten().flatten() {
                self.note(allocation);
            }
            if self.wanted.remove(&pending) {
                found.push(pending);
            }
        }
        found
    }

    fn note(&mut self, allocation: Allocation) {
        match allocation.end {
            End::At(end) => self.ends.entry(end).or_default().push(allocation),
            End::Eventually | End::Never => self.lasting.push(allocation),
        }
    }
}

/// Those within the depths of their queues who are promised nothing.
pub(super) fn undated(queue: &Pending, promises: &Promises, queues: &Queues) -> BTreeSet<PendingRequest> {
    within_depths(queue, queues).filter(|pending| promises.reservation(pending).is_none()).cloned().collect()
}

/// Those within the depths of their queues.
pub(super) fn within_depths<'a>(
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
        Asking { jobs: self.jobs, queues: self.queues, clock: Clock { now, ..self.clock } }.request(pending)
    }
}
