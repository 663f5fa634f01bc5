//! A job and its queue: which one it is in, what that means for it, and what is on record of queues.

use std::sync::Arc;

use fluxqueue_api::{BlockedReason, FluxQueueStatus, JobState, names};

use super::job::{InQueue, Job};
use super::plan::Policies;
use super::queues::{Life, Namespace, QueueObject, Standing};
use super::{ActionKind, Core, InFlight, Timer, WriteOutcome};
use crate::queue::{JobId, QueueId};
use fluxqueue_workload::{Lifetime, Uid};

/// The status of a queue is written so much after it has changed, with all that has changed until then.
const STATUS_MILLIS: i64 = 2_000;

/// It is tried again so much after a failure.
const STATUS_RETRY_MILLIS: i64 = 30_000;

impl Core {
    // --- events ---

    /// A queue is there, or has changed.
    pub(super) fn queue_object(&mut self, queue: &Arc<QueueObject>) {
        let is_first = !self.queues.is_any_object();
        if let Some(policy) = self.queues.unserved_policy(queue) {
            let (name, policy) = (&queue.name, policy.as_str());
            tracing::warn!(%name, policy, "this Fluxion library keeps no reservations: the queue is walked as fcfs");
        }
        if self.queues.put(queue) {
            // The first one makes queues of what was one.
            self.look_at_jobs(|job| is_first || job.queue.is(&queue.name));
        }
        self.note_queues_soon();
    }

    /// A queue is gone.
    pub(super) fn queue_object_gone(&mut self, name: &str) {
        self.queues.remove(name);
        self.look_at_jobs(|job| job.queue.is(name));
        if *self.queues.policies() == Policies::FirstComeFirstServed {
            self.withdraw_all_promises();
        }
    }

    /// A namespace is there, or has changed.
    pub(super) fn namespace(&mut self, namespace: &Arc<Namespace>) {
        if self.queues.put_namespace(namespace) {
            self.look_at_jobs(|job| job.key.namespace == namespace.name);
        }
    }

    fn look_at_jobs(&mut self, concerns: impl Fn(&Job) -> bool) {
        let jobs = self.jobs.all.values().filter(|job| concerns(job)).map(|job| job.id);
        self.touched.extend(jobs);
        self.queue_changed = true;
    }

    // --- jobs ---

    /// Finds out anew in which queue a job is, and what goes for it there.
    pub(super) fn look_at_queue(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        let namespace = &*job.key.namespace;
        let said = self.said_queue(job);
        let name = job.record.overrides.queue_name.as_deref().or(said.as_deref());
        let name = name.unwrap_or_else(|| self.queues.default_of(namespace));
        let (standing, walltimes) = (self.queues.standing(name, namespace), self.queues.walltimes(name));
        // A place in the queue is kept over a restart, and when the queue goes.
        let on_record = || job.record.status.as_ref().and_then(|status| status.queue_name.as_deref());
        let had_place = job.queue.had_place && *job.queue.name == *name
            || job.queue.name.is_empty() && job.queued_at.is_some() && on_record() == Some(name);
        let had_place = had_place || matches!(standing, Standing::Open | Standing::Stopped);
        let name = if *job.queue.name == *name { Arc::clone(&job.queue.name) } else { Arc::from(name) };
        let id_of_queue = if had_place { self.queues.number(&name) } else { QueueId::DEFAULT };
        let Some(job) = self.jobs.all.get(&id) else { return };
        let has_new_ends = job.queue.walltimes != walltimes && !job.queue.name.is_empty();
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.queue = InQueue { name, id: id_of_queue, said, standing, walltimes, had_place };
        }
        if has_new_ends {
            self.plan_ends_of(id);
        }
    }

    /// What runs of a job is planned by another walltime now.
    fn plan_ends_of(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        let live: Vec<Uid> = job.live.values().cloned().collect();
        for uid in live {
            self.plan_end_anew(&uid);
        }
    }

    /// The queue that the workload names: the label of its pods, else of what made them, or of what made that.
    fn said_queue(&self, job: &Job) -> Option<Arc<str>> {
        let Some(first) = self.jobs.live(job).next() else {
            let on_record = || job.record.status.as_ref()?.workload.as_ref()?.queue_name.as_deref().map(Arc::from);
            return job.queue.said.clone().or_else(on_record);
        };
        if let Some(named) = first.pod.label(names::QUEUE_NAME).filter(|named| !named.is_empty()) {
            let known = job.queue.said.as_ref().filter(|known| ***known == *named);
            return Some(known.cloned().unwrap_or_else(|| Arc::from(named)));
        }
        let made_by = self.jobs.controllers.get(&first.pod.owner.as_ref()?.uid)?;
        let above = || self.jobs.controllers.get(&made_by.owner.as_ref()?.uid)?.queue.clone();
        made_by.queue.clone().or_else(above).filter(|named| !named.is_empty())
    }

    /// Why a job may not wait in its queue, or not start from it.
    pub(super) fn kept_out_by_queue(&self, job: &Job) -> Option<(BlockedReason, String)> {
        let InQueue { name, standing, walltimes, had_place, .. } = &job.queue;
        match standing {
            Standing::Open => {}
            Standing::Stopped => {
                return Some((
                    BlockedReason::Held,
                    format!("its queue is stopped: spec.stopPolicy of FluxQueue {name} is Hold"),
                ));
            }
            Standing::Missing if *had_place => {
                return Some((
                    BlockedReason::Held,
                    format!("its queue was deleted: there is no FluxQueue {name} any more"),
                ));
            }
            Standing::Missing => {
                return Some((BlockedReason::QueueNotUsable, format!("there is no FluxQueue {name}")));
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
        let longest = self.jobs.live(job).map(|member| self.jobs.walltime(&member.pod, job)).max()?;
        let max = walltimes.exceeded_by(longest)?;
        let asked = match longest {
            Lifetime::Seconds(seconds) => format!("a walltime of {seconds} s"),
            Lifetime::Eventually | Lifetime::Endless => "no end, as a service,".to_owned(),
        };
        let text = format!("it asks for {asked} and FluxQueue {name} has {max} s at most (spec.maxWalltimeSeconds)");
        Some((BlockedReason::WalltimeTooLong, text))
    }

    // --- what is on record of queues ---

    /// Counts a job where it is now.
    pub(super) fn count_in_queue(&mut self, id: JobId) {
        if !self.queues.is_any_object() {
            return;
        }
        let Some(job) = self.jobs.all.get(&id) else { return };
        let life = match self.jobs.state(job) {
            JobState::Pending | JobState::Held | JobState::Unsatisfiable => Some(Life::Waits),
            JobState::Starting | JobState::Running => Some(Life::Runs),
            JobState::Incomplete | JobState::Refused | JobState::Completed | JobState::Failed => None,
        };
        self.queues.tally.note(id, life.map(|life| (&job.queue.name, life)));
        self.note_queues_soon();
    }

    fn note_queues_soon(&mut self) {
        if self.queues.tally.has_changes() {
            self.timers.wake(Timer::Queues, self.now.plus_millis(STATUS_MILLIS));
        }
    }

    /// Writes the status of those queues in which something has changed.
    pub(super) fn note_queues(&mut self) {
        for name in self.queues.tally.take_changed() {
            let Some(queue) = self.queues.object(&name) else { continue };
            let status = self.queues.tally.status(&name);
            if status == queue.status || self.actions.is_writing_queue(&name) {
                continue;
            }
            let (uid, status) = (queue.uid.clone(), Box::new(status));
            let kind = ActionKind::WriteQueueStatus { queue: Arc::clone(&name), uid, status: status.clone() };
            self.actions.ask(kind, InFlight::Queue(name, status));
        }
    }

    /// How the writing of a queue's status ended.
    pub(super) fn queue_status_done(&mut self, name: &Arc<str>, status: FluxQueueStatus, outcome: &WriteOutcome) {
        let pause = match outcome {
            WriteOutcome::Written(_) => {
                if let Some(queue) = self.queues.object(name) {
                    let queue = QueueObject { status, ..QueueObject::clone(queue) };
                    self.queues.put(&Arc::new(queue));
                }
                STATUS_MILLIS
            }
            // Its successor, if it has one, comes with the watch.
            WriteOutcome::Gone => return,
            _ => STATUS_RETRY_MILLIS,
        };
        // What has changed since.
        self.queues.tally.note_object(name);
        self.timers.wake(Timer::Queues, self.now.plus_millis(pause));
    }
}
