//! The state that a plan rests on and changes, and a copy of it in which other plans are tried.

use std::any::Any;

use crate::plan::{Claims, Live, Pending, Room};
use crate::promises::Promises;
use crate::queues::{Accounts, Queues};
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::ledger::Ledger;
use fluxqueue_machine::rules::Site;
use fluxqueue_workload::Time;

/// The nodes, the bookings on them, and the requests that wait for them. The scheduler has one; its
/// copies are run ahead to find out when requests start, and a replayed trace has one of its own.
pub struct Planner {
    /// The nodes, and the pods on them.
    pub cluster: Cluster,
    /// The bookings.
    pub ledger: Ledger,
    /// The requests that wait.
    pub queue: Pending,
    /// The reservations.
    pub promises: Promises,
    /// The use of the limits of queues.
    pub accounts: Accounts,
    /// The nodes that the last walk over the queue came to hold.
    pub claims: Claims,
}

/// The state around a planner that one walk over the queue goes by.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The queues, with their rules.
    pub queues: &'a Queues,
    /// The present.
    pub now: Time,
}

/// The parts of a planner as one walk over the queue takes them.
pub struct PlannerParts<'a> {
    /// The requests that wait.
    pub queue: &'a Pending,
    /// The state that the walk changes.
    pub live: Live<'a>,
    /// The nodes that the last walk came to hold.
    pub claims: &'a mut Claims,
}

impl Planner {
    /// Makes a planner for these nodes, for which no request waits.
    pub fn new(cluster: Cluster, ledger: Ledger) -> Self {
        Planner {
            cluster,
            ledger,
            queue: Pending::default(),
            promises: Promises::default(),
            accounts: Accounts::default(),
            claims: Claims::default(),
        }
    }

    /// Lends the machine out for questions to the rules.
    pub fn site(&mut self) -> Site<'_> {
        Site { cluster: &mut self.cluster, ledger: &mut self.ledger }
    }

    /// Lends the parts out for a walk.
    pub fn parts<'a>(&'a mut self, around: Surroundings<'a>) -> PlannerParts<'a> {
        let Surroundings { queues, now } = around;
        let room = Room { ledger: &mut self.ledger, cluster: &mut self.cluster, queues };
        let live = Live { room, promises: &mut self.promises, accounts: &mut self.accounts, now };
        PlannerParts { queue: &self.queue, live, claims: &mut self.claims }
    }

    /// Copies everything. Returns `None` if the library in use cannot copy its graph.
    pub fn copy(&mut self) -> Option<Planner> {
        Some(Planner {
            ledger: self.ledger.copy()?,
            cluster: self.cluster.clone(),
            queue: self.queue.clone(),
            promises: self.promises.clone(),
            accounts: self.accounts.clone(),
            claims: self.claims.clone(),
        })
    }

    /// Takes a copy apart that is not needed any more, so that it can be dropped part by part: to
    /// drop all of it at once takes longer than anything else that is done with it in one go. The
    /// last part also has `used_with`.
    pub fn into_remains(self, used_with: impl Any + Send) -> Vec<Box<dyn Any + Send>> {
        let Planner { ledger, cluster, queue, promises, accounts, claims } = self;
        let mut remains = ledger.into_parts();
        remains.extend(cluster.into_parts());
        remains.push(Box::new(queue));
        remains.push(Box::new((promises, accounts, claims, used_with)));
        remains
    }
}
