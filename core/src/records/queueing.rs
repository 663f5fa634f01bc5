//! A job and its queue: which one it is in, what that means for it, and what is on record of
//! queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{BlockedBy, BlockedReason, EventReason, FluxQueueStatus, JobState, names};

use crate::in_flight::InFlight;
use crate::jobs::job::{InQueue, Job, Style};
use crate::parts::{Queueing, Refresh, Slots, Telling};
use crate::sound::{Lookup, Sound};
use crate::{ActionKind, Core, EventKind, Subject, Timer, WriteOutcome};
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::{End, Rank, RankSet, Tenancy};
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_planner::plan::Policies;
use fluxqueue_planner::queue::{JobId, QueueId};
use fluxqueue_planner::queues::{
    AccountId, AtLimit, Counted, FOR_EVER, Life, Member, Namespace, QueueObject, Standing,
};
use fluxqueue_workload::quantity::quantity;
use fluxqueue_workload::{Lifetime, Resources, Uid};

/// The status of a queue is written so much after it has changed, with all that has changed until
/// then.
const STATUS_MILLIS: i64 = 2_000;

/// It is tried again so much after a failure.
const STATUS_RETRY_MILLIS: i64 = 30_000;

impl Core {
    // --- events ---

    /// A queue is there, or has changed.
    pub(crate) fn queue_object(&mut self, queue: &Arc<QueueObject>) {
        let is_first = !self.queues.is_any_object();
        if let Some(policy) = self.queues.unserved_policy(queue) {
            let (name, policy) = (&queue.name, policy.as_str());
            tracing::warn!(%name, policy, "this Fluxion library keeps no reservations: the queue is walked as fcfs");
        }
        if self.queues.put(queue) {
            self.agenda.lost.queue_has_changed(&queue.name);
            // The first one makes queues of what was one, and that of services takes these from
            // others.
            let concerns_all = is_first || *queue.name == *names::QUEUE_SERVICES;
            self.queueing().look_at_jobs(|job| concerns_all || job.queue.is(&queue.name));
        }
        self.queueing().note_queues_soon();
    }

    /// A queue is gone.
    pub(crate) fn queue_object_gone(&mut self, name: &str) {
        self.queues.remove(name);
        self.agenda.lost.queue_is_gone(name);
        self.queueing().look_at_jobs(|job| job.queue.is(name));
        if *self.queues.policies() == Policies::FirstComeFirstServed {
            self.promise_keeping().withdraw_all_promises();
        }
    }

    /// A namespace is there, or has changed.
    pub(crate) fn namespace(&mut self, namespace: &Arc<Namespace>) {
        if self.queues.put_namespace(namespace) {
            self.queueing().look_at_jobs(|job| job.key.namespace == namespace.name);
            self.stand_ins().stand_in_for_all(|made_by| made_by.id.key.namespace == namespace.name);
        }
    }
}

impl Queueing<'_> {
    fn look_at_jobs(&mut self, concerns: impl Fn(&Job) -> bool) {
        let jobs = self.jobs.all.values().filter(|job| concerns(job)).map(|job| job.id);
        self.agenda.touched.extend(jobs);
        self.agenda.queue_changed = true;
    }

    // --- what is on record of queues ---

    /// Counts a job where it is now.
    pub(crate) fn count_in_queue(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let is_outside = job
            .blocker
            .as_ref()
            .is_some_and(|blocker| blocker.reason() == BlockedReason::QueueFull);
        let life = match self.jobs.state(job) {
            // When there are queues again, it is looked at again, if it is still there.
            _ if !self.queues.is_any_object() => None,
            // Of which there is no pod, that waits for nothing. Another process may not even know
            // of it.
            JobState::Pending | JobState::Held | JobState::Unsatisfiable if job.live.is_empty() => {
                None
            }
            // Nor does it run.
            JobState::Starting | JobState::Running
                if job.live.is_empty() && job.retained.is_empty() =>
            {
                None
            }
            JobState::Pending if is_outside => Some(Life::IsOutside),
            JobState::Pending | JobState::Held | JobState::Unsatisfiable => Some(Life::Waits),
            JobState::Starting | JobState::Running => Some(Life::Runs(self.has(job))),
            JobState::Incomplete | JobState::Refused | JobState::Completed | JobState::Failed => {
                None
            }
        };
        let (queue, namespace) = (Arc::clone(&job.queue.name), Arc::clone(&job.key.namespace));
        let left = self.queues.tally.note(id, life.map(|life| Member { queue, namespace, life }));
        self.let_in(left);
        self.note_queues_soon();
        Ok(())
    }

    /// One less waits in this queue: perhaps there is room for one who is kept out.
    fn let_in(&mut self, left: Option<Arc<str>>) {
        let next = left.and_then(|queue| self.queues.next_to_come_in(&queue));
        self.agenda.touched.extend(next);
    }

    /// A job is no more.
    pub(crate) fn leave_queue(&mut self, id: JobId) {
        let left = self.queues.tally.note(id, None);
        self.let_in(left);
        self.note_queues_soon();
        self.planner.accounts.set_running(id, Vec::new());
    }

    /// What a job is charged for what it has of nodes, slots that are retained for it included.
    fn has(&self, job: &Job) -> Resources {
        let mut has = Resources::new();
        for charge in charges_of(self.jobs.allocations(job), &self.planner.cluster) {
            has.add(charge.amounts);
        }
        has
    }

    /// Counts what runs of a job against the limits of its queue.
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

    /// What runs of a job ends at another time than was known.
    pub(crate) fn note_other_end(&mut self, id: JobId) {
        if self.jobs.all.get(&id).is_some_and(|job| self.queues.limits(job.queue.id).is_some()) {
            self.agenda.touched.insert(id);
        }
    }

    fn note_queues_soon(&mut self) {
        if self.queues.tally.has_changes() {
            self.agenda.timers.wake(Timer::Queues, self.clock.now.plus_millis(STATUS_MILLIS));
        }
    }

    /// For so long after it began, and a moment, a new process does not say what it has counted.
    pub(crate) fn counts_are_unsure_for(&mut self, millis: i64) {
        let until = self.clock.now.plus_millis(millis.saturating_add(crate::AGAIN_MILLIS));
        self.intake.counts_are_sure_from = self.intake.counts_are_sure_from.max(until);
    }

    /// Writes the status of those queues in which something has changed.
    pub(crate) fn note_queues(&mut self) {
        if self.clock.now < self.intake.counts_are_sure_from {
            return self.agenda.timers.wake(Timer::Queues, self.intake.counts_are_sure_from);
        }
        for name in self.queues.tally.take_changed() {
            let Some(queue) = self.queues.object(&name) else { continue };
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
            let kind = ActionKind::WriteQueueStatus {
                queue: Arc::clone(&name),
                uid: uid.clone(),
                status: status.clone(),
            };
            self.agenda.actions.ask(kind, InFlight::Queue(name, uid, status));
        }
    }

    /// How the writing of a queue's status ended.
    pub(crate) fn queue_status_done(
        &mut self,
        name: &Arc<str>,
        uid: &Uid,
        status: FluxQueueStatus,
        outcome: &WriteOutcome,
    ) {
        let pause = match outcome {
            WriteOutcome::Written(_) => {
                // Another one of the name may have come since: that has a status of its own.
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
        // What has changed since.
        self.queues.tally.note_object(name);
        self.agenda.timers.wake(Timer::Queues, self.clock.now.plus_millis(pause));
    }
}

impl Slots<'_> {
    // --- jobs ---

    /// Finds out anew in which queue a job is, and what goes for it there.
    pub(crate) fn look_at_queue(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let namespace = &*job.key.namespace;
        let said = self.said_queue(job);
        let on_record =
            || job.record.status.as_deref().and_then(|status| status.queue_name.as_deref());
        // Without pods nobody says any more where it belongs.
        let has_pods = self.jobs.live(job).next().is_some();
        let last = || Some(&*job.queue.name).filter(|name| !name.is_empty()).or_else(on_record);
        let last = if has_pods { None } else { last() };
        let wished = || job.record.overrides.queue_name.as_deref().or(said.as_deref()).or(last);
        let charged = self.jobs.charged_queue(job);
        let name = charged.as_deref().or_else(wished);
        let name = name.unwrap_or_else(|| {
            let services = Some(names::QUEUE_SERVICES).filter(|services| {
                let standing = self.queues.standing(services, namespace, job.kind);
                matches!(standing, Standing::Open | Standing::Stopped | Standing::Invalid)
                    && self.is_service(job)
            });
            services.unwrap_or_else(|| self.queues.default_of(namespace))
        });
        let (standing, walltimes) =
            (self.queues.standing(name, namespace, job.kind), self.queues.walltimes(name));
        // A place in the queue is kept over a restart, and when the queue goes.
        let had_place = job.queue.had_place && *job.queue.name == *name
            || job.queue.name.is_empty() && job.queued_at.is_some() && on_record() == Some(name);
        let had_place =
            had_place || matches!(standing, Standing::Open | Standing::Stopped | Standing::Invalid);
        let name =
            if *job.queue.name == *name { Arc::clone(&job.queue.name) } else { Arc::from(name) };
        let id_of_queue = if had_place { self.queues.number(&name) } else { QueueId::DEFAULT };
        let job = self.jobs.all.known(&id)?;
        let has_new_ends = job.queue.walltimes != walltimes && !job.queue.name.is_empty();
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.queue = InQueue { name, id: id_of_queue, said, standing, walltimes, had_place };
        }
        if has_new_ends {
            self.plan_ends_of(id)?;
        }
        Ok(())
    }

    /// What runs of a job is planned by another walltime now, because a person wished so. Who was
    /// promised a start behind it is told that this is why, if it ends later by that.
    pub(crate) fn plan_ends_of(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let live: Vec<Uid> = job.live.values().cloned().collect();
        for uid in live {
            self.plan_end_by_wish(id, &uid)?;
        }
        Ok(())
    }

    /// The same of one pod.
    pub(crate) fn plan_end_by_wish(&mut self, id: JobId, uid: &Uid) -> Sound {
        let before = self.booked_end(uid);
        self.plan_end_anew(uid)?;
        if let (Some(before), Some(after)) = (before, self.booked_end(uid))
            && after.is_later_than(before)
        {
            self.agenda.extended.insert(id);
        }
        Ok(())
    }

    /// Until when a pod of ours takes what it has of a node, as far as was known when that was
    /// booked.
    fn booked_end(&self, uid: &Uid) -> Option<End> {
        Some(self.jobs.members.get(uid)?.allocation()?.end)
    }

    /// Nobody ends it: a Deployment, ReplicaSet or StatefulSet, or a pod that says so.
    fn is_service(&self, job: &Job) -> bool {
        let Some(first) = self.jobs.live(job).next() else { return job.style == Style::Elastic };
        job.record.overrides.walltime_seconds.is_none()
            && self.jobs.said_walltime(&first.pod) == Lifetime::Endless
    }

    /// The queue that the workload names: the label of its pods, else of what made them, or of what
    /// made that.
    fn said_queue(&self, job: &Job) -> Option<Arc<str>> {
        let Some(first) = self.jobs.live(job).next() else {
            let on_record = || {
                job.record
                    .status
                    .as_deref()?
                    .workload
                    .as_ref()?
                    .queue_name
                    .as_deref()
                    .map(Arc::from)
            };
            return job.queue.said.clone().or_else(on_record);
        };
        if let Some(named) = first.pod.label(names::QUEUE_NAME).filter(|named| !named.is_empty()) {
            let known = job.queue.said.as_ref().filter(|known| ***known == *named);
            return Some(known.cloned().unwrap_or_else(|| Arc::from(named)));
        }
        let made_by = self.jobs.controller(&first.pod)?;
        let above = || self.jobs.controllers.above(made_by).known()?.queue.clone();
        made_by.queue.clone().or_else(above).filter(|named| !named.is_empty())
    }
}

impl Refresh<'_> {
    /// Why a job may not wait in its queue, or not start from it.
    pub(crate) fn kept_out_by_queue(&self, job: &Job) -> Option<(BlockedReason, String)> {
        let InQueue { name, standing, walltimes, had_place, .. } = &job.queue;
        match standing {
            Standing::Open => {}
            Standing::OtherKinds => {
                let text = format!(
                    "FluxQueue {name} takes no {}: see its spec.workloadKinds",
                    job.kind.as_str()
                );
                return Some((BlockedReason::QueueNotUsable, text));
            }
            Standing::Stopped => {
                return Some((
                    BlockedReason::Held,
                    format!("its queue is stopped: spec.stopPolicy of FluxQueue {name} is Hold"),
                ));
            }
            Standing::Invalid => {
                let trouble = self.queues.object(name).and_then(|queue| queue.trouble.as_deref());
                let trouble = trouble.unwrap_or("its spec cannot be read");
                return Some((
                    BlockedReason::QueueInvalid,
                    format!("FluxQueue {name} cannot be used: {trouble}"),
                ));
            }
            Standing::Missing if *had_place => {
                return Some((
                    BlockedReason::Held,
                    format!("its queue was deleted: there is no FluxQueue {name} any more"),
                ));
            }
            Standing::Missing => {
                return Some((
                    BlockedReason::QueueNotUsable,
                    format!("there is no FluxQueue {name}"),
                ));
            }
            Standing::Closed => {
                let text = format!(
                    "FluxQueue {name} is not for namespace {}: see its spec.namespaceSelector",
                    job.key.namespace
                );
                return Some((BlockedReason::QueueNotUsable, text));
            }
        }
        walltimes.max_secs?;
        let longest =
            self.jobs.live(job).map(|member| self.jobs.walltime(&member.pod, job)).max()?;
        let max = walltimes.exceeded_by(longest)?;
        let asked = match longest {
            Lifetime::Seconds(seconds) => format!("a walltime of {seconds} s"),
            Lifetime::Eventually | Lifetime::Endless => "no end, as a service,".to_owned(),
        };
        let text = format!(
            "it asks for {asked} and FluxQueue {name} has {max} s at most (spec.maxWalltimeSeconds)"
        );
        Some((BlockedReason::WalltimeTooLong, text))
    }

    // --- limits ---

    /// As many jobs wait in the queue as may, and this one has no place there yet.
    pub(crate) fn kept_outside(&self, job: &Job) -> Option<String> {
        if !job.pending.is_empty() || job.queued_at.is_some() || !self.queues.is_any_object() {
            return None;
        }
        let (path, most) = self.queues.full(&job.queue.name, &job.key.namespace)?;
        Some(format!("{most} jobs wait, as many as may: {path} of FluxQueue {}", job.queue.name))
    }
}

impl Telling<'_> {
    /// What a person reads of a limit that a job is at.
    pub(crate) fn explain_limit(&self, at: &AtLimit) -> BlockedBy {
        let AtLimit { account, asked, used, most, never, .. } = at;
        let limit =
            self.queues.limits(account.queue).and_then(|limits| limits.running.get(account.limit));
        let Some(limit) = limit else {
            return BlockedBy::new(BlockedReason::QueueLimit, "a limit that has changed");
        };
        let resource = match &limit.what {
            Counted::Jobs => None,
            Counted::Resource(name) => Some(name.to_string()),
        };
        let text = |amount: u128| {
            resource.as_deref().map_or_else(|| amount.to_string(), |name| quantity(name, amount))
        };
        let what = resource.as_deref().unwrap_or("jobs that run");
        let of_whom = account
            .namespace
            .as_ref()
            .map_or(String::new(), |namespace| format!(" by namespace {namespace}"));
        let name = self.queues.name(account.queue);
        let mut message = format!(
            "{} {what} asked for, {} of {} used{of_whom}: {} of FluxQueue {name}.",
            text(*asked),
            text(*used),
            text(u128::from(*most)),
            limit.path
        );
        if *never {
            message += " It asks for more than the limit, so later jobs are not held back.";
        }
        BlockedBy {
            requested: resource.is_some().then(|| text(*asked)),
            available: resource.is_some().then(|| text(u128::from(*most).saturating_sub(*used))),
            used: Some(text(*used)),
            limit: Some(text(u128::from(*most))),
            queue: Some(name.to_owned()),
            resource: resource.clone(),
            ..BlockedBy::new(BlockedReason::QueueLimit, message)
        }
    }
}

/// What an Event tells about the spec of a queue, if that is news against what is on record.
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

/// What a job is charged for a node, or for its part of one.
struct NodeCharge<'a> {
    rank: Rank,
    /// The second at which it ends, as far as limits are concerned.
    end: i64,
    amounts: &'a Resources,
}

/// What a job is charged for what it has of nodes: what its pods request, and of each node that it
/// has alone all that is allocatable there, once. No one else can use the rest of such a node.
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

/// The second at which something ends, as far as limits are concerned.
fn second_of(end: End) -> i64 {
    match end {
        End::At(second) => second,
        End::Eventually | End::Never => FOR_EVER,
    }
}
