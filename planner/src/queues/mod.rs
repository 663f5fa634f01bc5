//! Queues: the queue of a job, its right to use it, and the rules that come from it.
//!
//! The one owner of the facts about queues and namespaces. It knows no jobs but by their numbers:
//! finding the jobs that a change concerns is the task of others (`queueing`).

mod accounts;
mod fields;
mod limits;
mod object;
mod tally;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{FluxQueueStatus, StopPolicy, WorkloadKind, names, pause};

use crate::policies::{Depths, Policies, QueueDefaults, QueuePolicy};
use crate::queue::{JobId, QueueId};

pub use accounts::{AccountId, Accounts, AtLimit, Charge, Demand};
use fluxqueue_workload::Time;
use fluxqueue_workload::constraints::Constraints;
pub use limits::{Counted, Limit, Limits};
pub use object::{Namespace, QueueObject, Rules, Walltimes};
pub use tally::{Life, Member, QueueLoad, Tally};
pub use usage::FOR_EVER;

/// The queues and namespaces that there are.
#[derive(Debug, Clone)]
pub struct Queues {
    defaults: QueueDefaults,
    /// True if the graph can keep nodes for later.
    has_reservations: bool,
    /// The number of each queue that was ever asked for by a job that may use it. There are few.
    numbers: BTreeMap<Arc<str>, QueueId>,
    /// The names of queues, by number.
    named: Vec<Arc<str>>,
    policies: Policies,
    /// The number of changes of the rules, of all queues and of each.
    version: u64,
    versions: BTreeMap<Arc<str>, u64>,
    objects: BTreeMap<Arc<str>, Arc<QueueObject>>,
    namespaces: BTreeMap<Arc<str>, Arc<Namespace>>,
    /// The namespace of Fluxqueue, which carries the annotation that pauses it; empty if there is
    /// none.
    own_namespace: Arc<str>,
    /// The jobs in them.
    pub tally: Tally,
}

/// The answer of a queue to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueStanding {
    /// It may wait and start.
    #[default]
    Open,
    /// The queue is stopped: no job starts.
    Stopped,
    /// All of Fluxqueue is paused: no job starts.
    Paused,
    /// The spec of the queue cannot be read, and none was ever accepted: no job starts.
    Invalid,
    /// Not for jobs of its namespace.
    Closed,
    /// Not for jobs of its kind.
    OtherKinds,
    /// There is no such queue.
    Missing,
}

impl QueueStanding {
    /// True if a job has a place in the queue, whether it may start or not.
    pub fn gives_place(self) -> bool {
        matches!(
            self,
            QueueStanding::Open
                | QueueStanding::Stopped
                | QueueStanding::Paused
                | QueueStanding::Invalid
        )
    }
}

impl Queues {
    /// Starts with one queue, for which the defaults go.
    pub fn new(defaults: QueueDefaults, has_reservations: bool) -> Self {
        let default: Arc<str> = Arc::from(names::QUEUE_DEFAULT);
        Queues {
            defaults,
            has_reservations,
            numbers: BTreeMap::from([(Arc::clone(&default), QueueId::DEFAULT)]),
            named: vec![default],
            policies: defaults.policies(),
            version: 0,
            versions: BTreeMap::new(),
            objects: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            own_namespace: Arc::default(),
            tally: Tally::default(),
        }
    }

    /// A queue is there, or has changed. True if something else goes for its jobs than before. If
    /// its spec is not accepted, the last one that was goes on to count.
    pub fn put(&mut self, queue: &Arc<QueueObject>) -> bool {
        let known = self.objects.get(&queue.name).filter(|known| known.uid == queue.uid);
        let queue = match known {
            Some(known) if queue.trouble.is_some() && known.accepted.is_some() => {
                &Arc::new(queue.going_by(known))
            }
            _ => queue,
        };
        let old = self.objects.insert(Arc::clone(&queue.name), Arc::clone(queue));
        let goes_by = |queue: &QueueObject| {
            (queue.uid.clone(), queue.rules.clone(), queue.accepted.is_some())
        };
        let is_news = old.as_ref().is_none_or(|old| goes_by(old) != goes_by(queue));
        let is_new_spec = old
            .is_none_or(|old| (&old.trouble, old.generation) != (&queue.trouble, queue.generation));
        if is_news || is_new_spec {
            // What another Fluxqueue says of the queue in its status is let stand until there is
            // something new to say.
            self.tally.note_object(&queue.name);
        }
        if is_news {
            *self.versions.entry(Arc::clone(&queue.name)).or_default() += 1;
            self.rules_changed();
        }
        is_news
    }

    /// A queue is gone.
    pub fn remove(&mut self, name: &str) {
        if let Some(object) = self.objects.remove(name) {
            *self.versions.entry(Arc::clone(&object.name)).or_default() += 1;
        }
        self.rules_changed();
    }

    /// A namespace is there, or has changed. True if that may concern its jobs.
    pub fn put_namespace(&mut self, namespace: &Arc<Namespace>) -> bool {
        let old = self.namespaces.insert(Arc::clone(&namespace.name), Arc::clone(namespace));
        old.is_none_or(|old| (&old.labels, &old.queue) != (&namespace.labels, &namespace.queue))
    }

    /// Names the namespace with the annotation that pauses Fluxqueue.
    pub fn set_own_namespace(&mut self, name: Arc<str>) {
        self.own_namespace = name;
    }

    /// Returns the message that Fluxqueue is paused, with the user and the reason; `None` if it is
    /// not.
    pub fn paused(&self) -> Option<String> {
        let namespace = self.namespaces.get(&self.own_namespace)?;
        namespace.paused.as_deref().map(pause::message)
    }

    /// A namespace is gone: its jobs go by themselves.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// True if a queue object exists: else there is only the queue of the settings.
    pub fn is_any_object(&self) -> bool {
        !self.objects.is_empty()
    }

    /// The object of a queue.
    pub fn object(&self, name: &str) -> Option<&Arc<QueueObject>> {
        self.objects.get(name)
    }

    /// The queue of a job of this namespace that names none.
    pub fn default_of(&self, namespace: &str) -> &str {
        let queue = self.namespaces.get(namespace).and_then(|namespace| namespace.queue.as_deref());
        queue.unwrap_or(names::QUEUE_DEFAULT)
    }

    /// True if Jobs of this namespace wait without pods; `None` while the namespace has not been
    /// seen.
    pub fn suspends_jobs(&self, namespace: &str) -> Option<bool> {
        let labels = &self.namespaces.get(namespace)?.labels;
        Some(
            labels.iter().any(|(key, value)| {
                **key == *names::ADMISSION_SUSPEND && **value == *names::ENABLED
            }),
        )
    }

    /// Returns the answer of a queue to jobs of a kind, in a namespace.
    pub fn standing(&self, queue: &str, namespace: &str, kind: WorkloadKind) -> QueueStanding {
        let open =
            if self.paused().is_some() { QueueStanding::Paused } else { QueueStanding::Open };
        let Some(object) = self.objects.get(queue) else {
            return if queue == names::QUEUE_DEFAULT { open } else { QueueStanding::Missing };
        };
        let known = self.namespaces.get(namespace).map(|namespace| &**namespace);
        match object.rules.stop {
            _ if object.accepted.is_none() => QueueStanding::Invalid,
            _ if !object.rules.admits(namespace, known) => QueueStanding::Closed,
            _ if !object.rules.takes(kind) => QueueStanding::OtherKinds,
            StopPolicy::Hold => QueueStanding::Stopped,
            StopPolicy::None => open,
        }
    }

    fn rules_changed(&mut self) {
        self.version += 1;
        self.policies = if self.objects.is_empty() || !self.has_reservations {
            match self.defaults.policies() {
                Policies::PerQueue(_) if !self.has_reservations => Policies::FirstComeFirstServed,
                policies => policies,
            }
        } else {
            Policies::PerQueue(self.named.iter().map(|name| self.depths(name)).collect())
        };
    }

    fn depths(&self, name: &str) -> Depths {
        let (rules, defaults) =
            (self.objects.get(name).map(|object| &object.rules), &self.defaults);
        Depths::of(
            rules.and_then(|rules| rules.policy).unwrap_or(defaults.policy),
            rules.and_then(|rules| rules.queue_depth).unwrap_or(defaults.queue_depth),
            rules.and_then(|rules| rules.reservation_depth).unwrap_or(defaults.reservation_depth),
            rules.and_then(|rules| rules.bypass_secs).unwrap_or(defaults.bypass_secs),
        )
    }

    /// The policy of a queue that this graph cannot serve: without reservations there is only first
    /// come, first served.
    pub fn unserved_policy(&self, queue: &QueueObject) -> Option<QueuePolicy> {
        queue.rules.policy.filter(|policy| !self.has_reservations && *policy != QueuePolicy::Fcfs)
    }

    // --- by number ---

    /// The number of a queue: the same as long as the process lives.
    pub fn number(&mut self, name: &Arc<str>) -> QueueId {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let last = self.numbers.values().max().copied().unwrap_or_default();
        self.numbers.insert(Arc::clone(name), last.next());
        self.named.push(Arc::clone(name));
        self.rules_changed();
        last.next()
    }

    fn rules(&self, queue: QueueId) -> Option<&Rules> {
        self.objects.get(self.named.get(queue.index())?).map(|object| &object.rules)
    }

    /// Returns how all queues are walked.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Differs whenever other rules go for a queue.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Differs whenever other rules go for this queue.
    pub(crate) fn version_of(&self, queue: QueueId) -> u64 {
        self.versions.get(self.name(queue)).copied().unwrap_or(0)
    }

    /// Higher goes first.
    pub fn priority(&self, queue: QueueId) -> i32 {
        self.rules(queue).map_or(0, |rules| rules.priority)
    }

    /// Returns how many of the requests that wait in it, from the first, are considered for future
    /// starts.
    pub fn depth(&self, queue: QueueId) -> usize {
        self.rules(queue).and_then(|rules| rules.queue_depth).unwrap_or(self.defaults.queue_depth)
    }

    /// Returns for how many seconds others may go ahead of the first request that waits, if its
    /// start is unknown.
    pub fn bypass_secs(&self, queue: QueueId) -> u64 {
        self.rules(queue).and_then(|rules| rules.bypass_secs).unwrap_or(self.defaults.bypass_secs)
    }

    /// The nodes that its jobs may use, as constraints; `None`: all.
    pub fn nodes(&self, queue: QueueId) -> Option<&Constraints> {
        self.rules(queue)?.nodes.as_ref()
    }

    /// Returns the limits on running work; `None`: there are none.
    pub fn limits(&self, queue: QueueId) -> Option<&Limits> {
        self.rules(queue).map(|rules| &rules.limits).filter(|limits| !limits.running.is_empty())
    }

    /// The name of a queue.
    pub fn name(&self, queue: QueueId) -> &str {
        self.named.get(queue.index()).map_or(names::QUEUE_DEFAULT, |name| name)
    }

    // --- by name ---

    /// The limit on jobs that wait which keeps out one more of this namespace: where it stands, and
    /// how much it is.
    pub fn full(&self, queue: &str, namespace: &str) -> Option<(&'static str, u64)> {
        let limits = &self.objects.get(queue)?.rules.limits;
        let is_full = |most: &u64, waiting: usize| waiting as u64 >= *most;
        let all = limits.waiting.filter(|most| is_full(most, self.tally.waiting(queue, None)));
        let of_it = || {
            limits
                .waiting_per_namespace
                .filter(|most| is_full(most, self.tally.waiting(queue, Some(namespace))))
        };
        let all = all.map(|most| ("spec.limits.waitingJobs", most));
        all.or_else(|| of_it().map(|most| ("spec.limits.perNamespace.waitingJobs", most)))
    }

    /// Returns the first of the jobs kept out of a queue that may come in now.
    pub fn next_to_come_in(&self, queue: &str) -> Option<JobId> {
        let mut outside = self.tally.outside(queue);
        outside.find(|(_, namespace)| self.full(queue, namespace).is_none()).map(|(job, _)| job)
    }

    /// Returns the status to be recorded for a queue, by the API server's clock.
    pub fn status(&self, queue: &QueueObject, now: Time) -> FluxQueueStatus {
        FluxQueueStatus {
            conditions: vec![queue.acceptance(now)],
            accepted_spec: queue.accepted.clone(),
            ..self.tally.status(&queue.name, &queue.rules.limits)
        }
    }

    /// The contents of each FluxQueue and of the default queue, for metrics. `queued_at` says since
    /// when a job has its place, by the clock of `now`.
    ///
    /// Jobs may name queues that do not exist; these are left out, since each name is a time
    /// series of its own.
    pub fn now(&self, now: Time, queued_at: impl Fn(JobId) -> Option<Time>) -> Vec<QueueLoad> {
        let mut oldest: BTreeMap<&str, Time> = BTreeMap::new();
        for (job, queue) in self.tally.waiters() {
            if let Some(since) = queued_at(job) {
                let first = oldest.entry(queue).or_insert(since);
                *first = since.min(*first);
            }
        }
        let in_queue = |queue: &Arc<str>, limits: &Limits| {
            let waited = oldest.get(&**queue).map_or(0, |since| now.0.saturating_sub(since.0));
            let oldest_wait_micros = u64::try_from(waited).unwrap_or(0);
            QueueLoad { oldest_wait_micros, ..self.tally.now(queue, limits) }
        };
        let mut all: Vec<QueueLoad> = self
            .objects
            .iter()
            .map(|(queue, object)| in_queue(queue, &object.rules.limits))
            .collect();
        if !self.objects.contains_key(names::QUEUE_DEFAULT) {
            all.push(in_queue(&Arc::from(names::QUEUE_DEFAULT), &Limits::default()));
        }
        all
    }

    /// Returns the rules of a queue about walltimes.
    pub fn walltimes(&self, queue: &str) -> Walltimes {
        self.objects.get(queue).map(|object| object.rules.walltimes).unwrap_or_default()
    }
}
