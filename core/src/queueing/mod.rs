//! Jobs in their queues: counts them against limits, and writes the status of queues.

pub(crate) mod quotas;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{BlockedReason, EventReason, FluxQueueStatus, JobState, names};

use crate::action::{EventKind, Subject, Write};
use crate::agenda::Agenda;
use crate::event::WriteOutcome;
use crate::in_flight::InFlight;
use crate::jobs::clock::Clock;
use crate::jobs::job::Job;
use crate::jobs::registry::Jobs;
use crate::settings::CoreSettings;
use crate::sound::{Lookup, Sound};
use crate::timers::{AGAIN_MILLIS, Timer};
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::{End, Rank, RankSet, Tenancy};
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::{AccountId, Counted, FOR_EVER, Life, Member, QueueObject, Queues};
use fluxqueue_workload::{Resources, Uid};

/// Counts jobs in and out of their queues, and writes the status of queues.
pub(crate) struct Queueing<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub jobs: &'a mut Jobs,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub agenda: &'a mut Agenda,
}

/// The delay in milliseconds from a change of a queue to the write of its status, which then covers
/// all changes up to that time.
const STATUS_MILLIS: i64 = 2_000;

/// The pause in milliseconds before the write is repeated after a failure.
const STATUS_RETRY_MILLIS: i64 = 30_000;

impl Queueing<'_> {
    pub(crate) fn look_at_jobs(&mut self, concerns: impl Fn(&Job) -> bool) {
        let jobs = self.jobs.all.values().filter(|job| concerns(job)).map(|job| job.id);
        self.agenda.touched.extend(jobs);
        self.agenda.queue_changed = true;
    }

    // --- the status of queues ---

    /// Counts a job according to its present state.
    pub(crate) fn count_in_queue(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let is_outside = job
            .told
            .blocker
            .as_ref()
            .is_some_and(|blocker| blocker.reason() == BlockedReason::QueueFull);
        // Jobs are counted again when there are queues again, if they are still there then.
        let counts_as = counts_as(self.jobs, job).filter(|_| self.queues.is_any_object());
        let life = counts_as.map(|counts_as| match counts_as {
            CountsAs::Waiting if is_outside => Life::IsOutside,
            CountsAs::Waiting => Life::Waits,
            CountsAs::Running => Life::Runs(self.has(job)),
        });
        let (queue, namespace) = (Arc::clone(&job.queue.name), Arc::clone(&job.key.namespace));
        let left = self.queues.tally.note(id, life.map(|life| Member { queue, namespace, life }));
        self.let_in(left);
        self.note_queues_soon();
        Ok(())
    }

    /// Lets a job that is kept out of this queue be refreshed, since one job less waits there.
    fn let_in(&mut self, left: Option<Arc<str>>) {
        let next = left.and_then(|queue| self.queues.next_to_come_in(&queue));
        self.agenda.touched.extend(next);
    }

    /// Stops counting a job that is gone.
    pub(crate) fn leave_queue(&mut self, id: JobId) {
        let left = self.queues.tally.note(id, None);
        self.let_in(left);
        self.note_queues_soon();
        self.planner.accounts.set_running(id, Vec::new());
    }

    /// Returns the resources with which a job is charged for its slots on nodes, including retained
    /// ones.
    pub(crate) fn has(&self, job: &Job) -> Resources {
        let mut has = Resources::new();
        for charge in charges_of(self.jobs.allocations(job), &self.planner.cluster) {
            has.add(charge.amounts);
        }
        has
    }

    /// Counts the running part of a job against the limits of its queue.
    pub(crate) fn count_running(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let Some(limits) = self.queues.limits(job.queue.id).filter(|_| !job.is_finished()) else {
            self.planner.accounts.set_running(id, Vec::new());
            return Ok(());
        };
        let nodes = limits.running.iter().map(|limit| limit.nodes.as_ref());
        let nodes: Vec<Option<RankSet>> = nodes
            .map(|nodes| nodes.map(|nodes| self.planner.cluster.class(nodes).lasting.clone()))
            .collect();
        let charges = charges_of(self.jobs.allocations(job), &self.planner.cluster);
        let mut running: BTreeMap<(AccountId, i64), u128> = BTreeMap::new();
        for (at, (limit, nodes)) in limits.running.iter().zip(&nodes).enumerate() {
            let namespace = limit.per_namespace.then(|| Arc::clone(&job.key.namespace));
            let account = AccountId { queue: job.queue.id, limit: at, namespace };
            let counted = charges
                .iter()
                .filter(|it| nodes.as_ref().is_none_or(|nodes| nodes.contains(it.rank)));
            match &limit.what {
                Counted::Jobs => {
                    let last = counted.map(|charge| charge.end).max();
                    running.extend(last.map(|last| ((account, last), 1)));
                }
                Counted::Resource(name) => {
                    for charge in counted {
                        let amount = charge.amounts.sum(name);
                        if amount > 0 {
                            let sum = running.entry((account.clone(), charge.end)).or_default();
                            *sum = u128::saturating_add(*sum, amount);
                        }
                    }
                }
            }
        }
        let running =
            running.into_iter().map(|((account, end), amount)| (account, end, amount)).collect();
        self.planner.accounts.set_running(id, running);
        Ok(())
    }

    /// Takes up that the running part of a job ends at another time than was known.
    pub(crate) fn note_other_end(&mut self, id: JobId) {
        if self.jobs.all.get(&id).is_some_and(|job| self.queues.limits(job.queue.id).is_some()) {
            self.agenda.touched.insert(id);
        }
    }

    pub(crate) fn note_queues_soon(&mut self) {
        if self.queues.tally.has_changes() {
            self.agenda.timers.wake(Timer::Queues, self.clock.now.plus_millis(STATUS_MILLIS));
        }
    }

    /// Keeps the counts of a new process from being published for this time and a moment longer.
    pub(crate) fn counts_are_unsure_for(&mut self, millis: i64) {
        let until = self.clock.now.plus_millis(millis.saturating_add(AGAIN_MILLIS));
        self.agenda.counts_are_sure_from = self.agenda.counts_are_sure_from.max(until);
    }

    /// Writes the status of the queues that have changed.
    pub(crate) fn note_queues(&mut self) {
        if self.clock.now < self.agenda.counts_are_sure_from {
            return self.agenda.timers.wake(Timer::Queues, self.agenda.counts_are_sure_from);
        }
        let changed = self.queues.tally.take_changed().into_iter();
        let changed = changed.filter_map(|name| Some((self.queues.object(&name)?, name)));
        for (queue, name) in changed {
            let status = self.queues.status(queue, self.clock.wall_now());
            if status == queue.status || self.agenda.actions.is_writing_queue(&name) {
                continue;
            }
            let (uid, news, status) =
                (queue.uid.clone(), news_of_spec(queue, &status), Box::new(status));
            if let Some((kind, reason, text)) = news {
                let subject = Subject::FluxQueue { name: Arc::clone(&name), uid: uid.clone() };
                let reporter = self.settings.scheduler_names.first().cloned();
                let reporter = reporter.unwrap_or_else(|| Arc::from(names::SCHEDULER_NAME));
                self.agenda.note(subject, kind, reason.as_str(), "Reading", text, &reporter);
            }
            let write = Write::WriteQueueStatus {
                queue: Arc::clone(&name),
                uid: uid.clone(),
                status: status.clone(),
            };
            self.agenda.actions.ask(write, InFlight::Queue(name, uid, status));
        }
    }

    /// Takes up the outcome of a write of a queue's status.
    pub(crate) fn queue_status_done(
        &mut self,
        name: &Arc<str>,
        uid: &Uid,
        status: FluxQueueStatus,
        outcome: &WriteOutcome,
    ) {
        let pause = match outcome {
            WriteOutcome::Written(_) => {
                // Another queue of the same name may have come since: it has a status of its own.
                if let Some(queue) = self.queues.object(name).filter(|queue| queue.uid == *uid) {
                    let queue = QueueObject { status, ..QueueObject::clone(queue) };
                    self.queues.put(&Arc::new(queue));
                }
                STATUS_MILLIS
            }
            // Its successor, if it has one, comes with the watch, or has come.
            WriteOutcome::Gone
                if self.queues.object(name).is_none_or(|queue| queue.uid == *uid) =>
            {
                return;
            }
            WriteOutcome::Gone => STATUS_MILLIS,
            _ => STATUS_RETRY_MILLIS,
        };
        // There may have been changes since.
        self.queues.tally.note_object(name);
        self.agenda.timers.wake(Timer::Queues, self.clock.now.plus_millis(pause));
    }
}

/// The part of a job in the load of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountsAs {
    /// It waits in the queue, or is kept outside.
    Waiting,
    /// It has nodes.
    Running,
}

/// Returns the part of a job in the load of its queue; `None` if it has none.
pub(crate) fn counts_as(jobs: &Jobs, job: &Job) -> Option<CountsAs> {
    match jobs.state(job) {
        // A job without pods waits for nothing. Another process may not even know of it.
        JobState::Pending | JobState::Held | JobState::Unsatisfiable => {
            (!job.pods.live.is_empty()).then_some(CountsAs::Waiting)
        }
        // Such a job does not run either.
        JobState::Starting | JobState::Running => (!job.pods.live.is_empty()
            || !job.start.retained.is_empty())
        .then_some(CountsAs::Running),
        JobState::Incomplete | JobState::Refused | JobState::Completed | JobState::Failed => None,
    }
}

/// Returns the Event about the spec of a queue, if the status has news against the one on record.
fn news_of_spec(
    queue: &QueueObject,
    status: &FluxQueueStatus,
) -> Option<(EventKind, EventReason, String)> {
    let (before, now) = (queue.status.conditions.first(), status.conditions.first()?);
    match queue.trouble {
        Some(_) if before.is_none_or(|before| before.message != now.message) => {
            Some((EventKind::Warning, EventReason::InvalidSpec, now.message.clone()))
        }
        None if before.is_some_and(|before| before.status != now.status) => {
            Some((EventKind::Normal, EventReason::Accepted, "its spec counts again".to_owned()))
        }
        _ => None,
    }
}

/// The charge to a job for a node, or for its part of a node.
struct NodeCharge<'a> {
    rank: Rank,
    /// The second at which the charge ends, as far as limits are concerned.
    end: i64,
    amounts: &'a Resources,
}

/// Returns the charges to a job for its slots: the requests of its pods, and for each node that it
/// has alone everything allocatable there, once. No other job can use the rest of such a node.
fn charges_of<'a>(
    allocations: impl Iterator<Item = &'a Allocation>,
    cluster: &'a Cluster,
) -> Vec<NodeCharge<'a>> {
    let (mut charges, mut alone) = (Vec::new(), BTreeMap::new());
    for allocation in allocations {
        let (rank, end) = (allocation.rank, second_of(allocation.end));
        let node = cluster.node(rank).filter(|_| matches!(allocation.tenancy, Tenancy::Alone(_)));
        let amounts = node.map_or(&allocation.shape.requests, |node| &node.allocatable);
        match node {
            Some(_) => {
                let charge = alone.entry(rank).or_insert(NodeCharge { rank, end, amounts });
                charge.end = charge.end.max(end);
            }
            None => charges.push(NodeCharge { rank, end, amounts }),
        }
    }
    charges.extend(alone.into_values());
    charges
}

/// Returns the second of an end, as far as limits are concerned.
fn second_of(end: End) -> i64 {
    match end {
        End::At(second) => second,
        End::Eventually | End::Never => FOR_EVER,
    }
}
