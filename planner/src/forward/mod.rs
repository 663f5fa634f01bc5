//! The plan run forward: queue, plan and ledger in virtual time, without pods and records.
//!
//! The same queue, the same plan and the same account of the nodes as in a run of the core decide
//! which job starts when, and where. Everything between a decision and a pod on its node is left
//! out: members, seats, gates, Bindings, FluxJobs. A job consists of the demand of its pods and
//! their number.
//!
//! A caller does three things at an instant, in this order: [`Forward::end`] for jobs that have
//! ended, [`Forward::submit`] for jobs that have come, and one [`Forward::sweep`].

mod firsts;
mod foreseen;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxion_sys::FunctionTable;

use super::plan::{
    self, Decision, Group, News, Plan, Pods, QueueDefaults, Request, RequestKey, Requests, Same,
    SlotKey, Terms,
};
use crate::queue::{JobId, PendingRequest, Place, QueueId};
use crate::queues::Queues;
use crate::{Planner, PlannerParts, Surroundings};
use firsts::{Firsts, Need};
use fluxqueue_machine::NodePolicy;
use fluxqueue_machine::cluster::{Cluster, Company, Node, Topology};
use fluxqueue_machine::fluxion::{GraphError, Rank};
use fluxqueue_machine::ledger::{Allocation, Allocations, Ledger, SlotRequest};
use fluxqueue_workload::{Lifetime, Pod, Time};
use foreseen::{Failures, Foreseen};

/// Jobs that wait and run, and the nodes.
pub struct Forward {
    planner: Planner,
    firsts: Firsts,
    /// None: there is one queue.
    queues: Queues,
    waiting: BTreeMap<JobId, Ask>,
    running: BTreeMap<JobId, Vec<Allocation>>,
    now: Time,
    failures: Failures,
    /// True if something besides arrivals has changed that may let other jobs start.
    changed: bool,
    /// True if the last sweep has left something that may be of use to jobs before it.
    is_unsettled: bool,
}

/// The demand of a job: a number of equal pods, to be started together.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The number of pods.
    pub pods: usize,
    /// One of them.
    pub sample: Arc<Pod>,
    /// The longest time that they run.
    pub walltime: Lifetime,
}

/// A job that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Began {
    /// The job.
    pub job: JobId,
    /// Its nodes, ascending; each as often as it has pods there.
    pub ranks: Vec<Rank>,
}

// === impl Forward ===

impl Forward {
    /// An idle machine. The nodes have ranks in this order.
    pub fn new(
        (node_policy, topology): (NodePolicy, &Arc<Topology>),
        defaults: QueueDefaults,
        library: FunctionTable,
        nodes: impl IntoIterator<Item = Node>,
    ) -> Result<Self, GraphError> {
        let mut cluster = Cluster::new(node_policy.fill_score());
        let mut ledger = Ledger::new(node_policy.graph(library)?, Arc::clone(topology));
        for node in nodes {
            ledger.apply_node(&mut cluster, &Arc::new(node));
        }
        Ok(Forward {
            planner: Planner::new(cluster, ledger),
            firsts: Firsts::default(),
            queues: Queues::new(defaults, true),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            now: Time(0),
            failures: Failures::default(),
            changed: false,
            is_unsettled: false,
        })
    }

    /// A job has ended: its nodes are free.
    pub fn end(&mut self, job: JobId) {
        let slots = self.running.remove(&job).unwrap_or_default();
        self.failures.give_back(slots.len());
        for allocation in slots {
            self.planner.ledger.free(&mut self.planner.cluster, allocation);
            self.changed = true;
        }
    }

    /// A job has come. Those that came at the same time have their order by their numbers.
    pub fn submit(&mut self, job: JobId, queued_at: Time, priority: i32, ask: Ask) {
        let key = ask.key();
        let shape = &ask.sample.shape;
        self.failures.meet(shape, || {
            self.planner
                .cluster
                .nodes()
                .iter()
                .map(|(_, rank)| self.planner.cluster.nodes().room(rank, shape))
                .sum()
        });
        self.waiting.insert(job, ask);
        self.planner.queue.put(Place::new(priority, queued_at, 0, PendingRequest::Start(job)), key);
    }

    /// Sweeps over the queue once, in order, and returns the jobs that start at this instant.
    pub fn sweep(&mut self, now: Time) -> Vec<Began> {
        if now > self.now {
            self.now = now;
            self.planner.ledger.set_time(now);
        }
        self.changed |= self
            .planner
            .promises
            .end_patience(self.now, |_| self.queues.bypass_secs(QueueId::DEFAULT));
        if !self.changed && !self.planner.queue.has_arrivals() {
            return Vec::new();
        }
        let is_all_seen = !self.changed
            && !self.is_unsettled
            && plan::is_behind(&self.planner.queue, &self.planner.claims);
        let news = if is_all_seen { News::Arrivals } else { News::Anything };
        self.changed = false;
        self.note_firsts();
        let (before, was_promised) =
            (self.planner.ledger.changes.count(), !self.planner.promises.is_empty());
        let around = Surroundings { queues: &self.queues, now: self.now };
        let PlannerParts { queue, live, claims } = self.planner.parts(around);
        let mut machine = Foreseen { live, failures: &mut self.failures, firsts: &self.firsts };
        let asking = Asking(&self.waiting);
        let plan = plan::walk(self.queues.policies(), queue, &asking, &mut machine, news, claims);
        for decision in &plan.decisions {
            if let Decision::Start { pending, .. } = decision
                && let Some((place, _)) = self.planner.queue.place_of(pending)
            {
                self.firsts.remove(place);
            }
        }
        self.is_unsettled = self.planner.ledger.changes.count() != before
            && (was_promised || !self.planner.promises.is_empty());
        let started = follow(plan, &mut self.planner, self.now);
        started.into_iter().map(|(pending, slots)| self.begin(&pending, slots)).collect()
    }

    /// Jobs that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Calls of the resource graph that failed: each is a defect.
    pub fn errors(&self) -> u64 {
        self.planner.ledger.errors
    }

    /// Notes the new first of each class, and its need.
    fn note_firsts(&mut self) {
        for class in self.planner.queue.take_new_heads() {
            if let Some(place) = self.planner.queue.of_class(class, None).next()
                && let Some(ask) = self.waiting.get(&place.request().job())
            {
                let need = Need { pods: ask.pods, lifetime: ask.walltime };
                self.firsts.put(place.clone(), class, need);
            }
        }
    }

    fn begin(&mut self, pending: &PendingRequest, slots: Allocations) -> Began {
        let job = pending.job();
        self.waiting.remove(&job);
        let slots: Vec<Allocation> = slots.into_iter().flatten().flatten().collect();
        self.failures.take(slots.len());
        let ranks = slots.iter().map(|allocation| allocation.rank).collect();
        self.running.insert(job, slots);
        Began { job, ranks }
    }
}

/// Follows a plan where there are no pods and no records: returns the requests that start, with
/// their slots.
pub fn follow(
    plan: Plan<Allocations>,
    Planner { queue, promises, ledger, .. }: &mut Planner,
    now: Time,
) -> Vec<(PendingRequest, Allocations)> {
    promises.forget_came_ahead();
    drop(promises.take_newly_drained());
    plan::confirm(queue, plan.confirmed);
    for first in plan.first_undated {
        promises.pass_by(&first, now);
    }
    let mut started = Vec::new();
    for decision in plan.decisions {
        match decision {
            Decision::Start { pending, slots, .. } => {
                queue.remove(&pending);
                if let Some(promise) = promises.forget(&pending, false) {
                    ledger.give_up(&promise.place);
                }
                started.push((pending, slots));
            }
            Decision::Blocked { class, attempt, .. } => queue.remember(class, *attempt),
            Decision::Reserved { .. } | Decision::Withdrawn { .. } | Decision::PutOff { .. } => {}
        }
    }
    queue.take_arrivals();
    started
}

// === impl Ask ===

impl Ask {
    /// Returns the key of its demand, by which equal demands are recognized.
    fn key(&self) -> RequestKey {
        let slots = vec![SlotKey {
            shape: Same(Arc::clone(&self.sample.shape)),
            walltime: self.walltime,
            deadline: None,
            terms: Terms::default(),
            slices: Vec::new(),
            count: self.pods,
        }];
        RequestKey { queue: QueueId::DEFAULT, counts: None, slots }
    }

    fn request(&self) -> Request {
        let want = SlotRequest::new(Arc::clone(&self.sample.shape), self.pods);
        let group = Group {
            wants: vec![want],
            // No client asks for these pods by name.
            pods: vec![Pods::with_capacity(0)],
            lifetime: self.walltime,
            lifetime_later: None,
            sample: Arc::clone(&self.sample),
            terms: Terms::default(),
            company: Company::Together,
            queue: QueueId::DEFAULT,
            queue_nodes: None,
        };
        Request { groups: vec![group], starts_job: true }
    }
}

/// The jobs that wait.
struct Asking<'a>(&'a BTreeMap<JobId, Ask>);

impl Requests for Asking<'_> {
    fn is_put_off(&self, _: &PendingRequest) -> bool {
        false
    }

    fn request(&self, pending: &PendingRequest) -> Option<Request> {
        self.0.get(&pending.job()).map(Ask::request)
    }
}
