//! The plan run forward on a copy of all that it rests on: when do those start who wait, if things go as they are planned?
//!
//! Nothing of the copy is ever put back. It goes from one instant at which something is planned to the next: what has ended by then is
//! given back, and the queue is walked as a pass would walk it. Jobs are asked what they want as they are now, so who has changed
//! since the copy was made is planned as he is; who has gone is passed over.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Cluster;
use crate::fluxion::{End, RankSet};
use crate::forward;
use crate::ledger::{Allocation, Ledger};
use crate::plan::{self, Asking, HeldNodes, Live, News, Pending, Request, Requests};
use crate::promises::Promises;
use crate::queue::{PendingRequest, Place, QueueId};
use crate::queues::{Accounts, Queues};
use fluxqueue_workload::Time;

/// So many instants are looked at, however much is planned.
const INSTANTS_MAX: usize = 20_000;

/// What a projection rests on, copied.
pub(super) struct Projection {
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
    pub queues: &'a Queues,
    pub suspects_version: u64,
}

/// How far a projection has come.
pub(super) enum Progress {
    /// These start at this time.
    At(Time, Vec<PendingRequest>),
    /// Nothing more is planned: of these nobody can say when they start.
    Over(BTreeSet<PendingRequest>),
    /// There is more than is looked at.
    TooFar,
}

/// The jobs as they are, some time ahead: whatever keeps them back for a moment is over by then.
struct Ahead<'a>(Asking<'a>);

impl Projection {
    /// A copy of everything. `None` if the library does not copy graphs.
    pub(super) fn new<'a>(of: Original<'_>, taken: impl Iterator<Item = &'a Allocation>) -> Option<Self> {
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
            wanted: wanted(of.queue, of.promises, of.queues),
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

    /// Nobody's start is looked for any more.
    pub(super) fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// How much was asked of the resource graph so far.
    pub(super) fn questions(&self) -> u64 {
        self.ledger.questions
    }

    /// Calls of the resource graph that failed since this was last asked.
    pub(super) fn take_errors(&mut self) -> u64 {
        std::mem::take(&mut self.ledger.errors)
    }

    /// Goes to the next instant at which something is planned.
    pub(super) fn advance(&mut self, asking: Asking<'_>) -> Progress {
        let Some(next) = self.next_instant(asking.queues) else {
            return Progress::Over(std::mem::take(&mut self.wanted));
        };
        self.instants += 1;
        if self.instants > INSTANTS_MAX {
            return Progress::TooFar;
        }
        self.now = next;
        let clock = crate::jobs::Clock { now: next, ..asking.clock };
        let started = self.sweep(&Ahead(Asking { clock, ..asking }));
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
    fn sweep(&mut self, asking: &Ahead<'_>) -> Vec<PendingRequest> {
        let queues = asking.0.queues;
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
        let plan = plan::walk(queues.policies(), &self.queue, asking, &mut live, News::Anything, last);
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
fn wanted(queue: &Pending, promises: &Promises, queues: &Queues) -> BTreeSet<PendingRequest> {
    let within = |id: QueueId| queue.of_queue(id).take(queues.depth(id)).map(Place::request);
    let undated = queue.queues().flat_map(within).filter(|pending| promises.reservation(pending).is_none());
    undated.cloned().collect()
}

impl Requests for Ahead<'_> {
    fn is_put_off(&self, _: &PendingRequest) -> bool {
        false
    }

    fn request(&self, pending: &PendingRequest) -> Option<Request> {
        self.0.request(pending)
    }
}
