//! How many jobs wait and run in each queue, and what those have: for its status, and for the limit
//! on jobs that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use fluxqueue_api::FluxQueueStatus;

use super::limits::{Counted, Limit, Limits};
use crate::queue::JobId;
use fluxqueue_workload::Resources;
use fluxqueue_workload::quantity::{quantities, told};

/// The jobs in each queue.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    jobs: BTreeMap<JobId, Member>,
    queues: BTreeMap<Arc<str>, Counts>,
    /// Queues in which something has changed since their status was last looked at.
    changed: BTreeSet<Arc<str>>,
}

/// A job, as far as its queue is concerned.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The name of its queue.
    pub queue: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// The stage that it has reached.
    pub life: Life,
}

/// Where a job is in its life, as far as its queue is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum Life {
    /// It could start, or will be able to.
    Waits,
    /// As many wait as may.
    IsOutside,
    /// It has nodes, and this of them.
    Runs(Resources),
}

/// The contents of a queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueLoad {
    /// The name of the queue.
    pub queue: Arc<str>,
    /// Jobs that wait; not those that have no place in it because it is full.
    pub waiting: u64,
    /// Jobs that have nodes.
    pub running: u64,
    /// The time for which the first of the waiting jobs has waited, in microseconds; 0 if none
    /// waits.
    pub oldest_wait_micros: u64,
    /// Requests of the pods of running jobs.
    pub used: Resources,
    /// The most of each resource that its jobs may use, in all and on all nodes, in units of
    /// `used`.
    pub limits: Vec<(Arc<str>, u64)>,
    /// The most jobs that may have nodes.
    pub running_max: Option<u64>,
    /// The most jobs that may wait.
    pub waiting_max: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct Counts {
    /// The number of waiting jobs, by namespace.
    waiting: BTreeMap<Arc<str>, usize>,
    outside: BTreeMap<JobId, Arc<str>>,
    running: usize,
    used: Resources,
}

impl Tally {
    /// Notes the place of a job; `None`: it has ended, or is refused. Returns the queue in which
    /// one job less waits now.
    pub fn note(&mut self, job: JobId, now: Option<Member>) -> Option<Arc<str>> {
        let before = self.jobs.get(&job);
        if before == now.as_ref() {
            return None;
        }
        let before = self.jobs.remove(&job);
        let left = before
            .as_ref()
            .filter(|before| before.life == Life::Waits)
            .map(|before| Arc::clone(&before.queue));
        if let Some(member) = before {
            self.count(&member.queue).take_out(job, &member);
        }
        if let Some(member) = now {
            self.count(&member.queue).put_in(job, &member);
            self.jobs.insert(job, member);
        }
        left
    }

    /// Notes that the object of a queue is there, or has changed: its status has to be compared
    /// with the facts.
    pub fn note_object(&mut self, queue: &Arc<str>) {
        self.changed.insert(Arc::clone(queue));
    }

    /// True if some queue has changed.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The queues that have changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.changed)
    }

    /// Returns how many jobs wait in a queue, of one namespace or of all.
    pub(crate) fn waiting(&self, queue: &str, namespace: Option<&str>) -> usize {
        let Some(counts) = self.queues.get(queue) else { return 0 };
        match namespace {
            Some(namespace) => counts.waiting.get(namespace).copied().unwrap_or(0),
            None => counts.waiting.values().sum(),
        }
    }

    /// Returns the jobs kept out of a queue, in the order in which they came, with their
    /// namespaces.
    pub(crate) fn outside(&self, queue: &str) -> impl Iterator<Item = (JobId, &str)> {
        let outside = self.queues.get(queue).into_iter().flat_map(|counts| &counts.outside);
        outside.map(|(job, namespace)| (*job, &**namespace))
    }

    /// Returns the status to be recorded for a queue.
    pub(crate) fn status(&self, queue: &str, limits: &Limits) -> FluxQueueStatus {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let (running, none) =
            (self.queues.get(queue).map_or(0, |counts| counts.running), Resources::new());
        let used = self.queues.get(queue).map_or(&none, |counts| &counts.used);
        FluxQueueStatus {
            waiting: number(self.waiting(queue, None)),
            running: number(running),
            used: quantities(used),
            display_usage: usage(running, used, limits),
            display_limits: summary(limits),
            ..FluxQueueStatus::default()
        }
    }

    /// The contents of a queue, for metrics, but for how long its jobs have waited.
    pub(crate) fn now(&self, queue: &Arc<str>, limits: &Limits) -> QueueLoad {
        let in_all: Vec<_> = limits.in_all().collect();
        let most = |limit: &&Limit| match &limit.what {
            Counted::Jobs => None,
            Counted::Resource(name) => Some((Arc::clone(name), limit.most)),
        };
        let counts = self.queues.get(queue);
        QueueLoad {
            queue: Arc::clone(queue),
            waiting: self.waiting(queue, None) as u64,
            running: counts.map_or(0, |counts| counts.running as u64),
            oldest_wait_micros: 0,
            used: counts.map(|counts| counts.used.clone()).unwrap_or_default(),
            limits: in_all.iter().filter_map(most).collect(),
            running_max: in_all
                .iter()
                .find(|limit| limit.what == Counted::Jobs)
                .map(|limit| limit.most),
            waiting_max: limits.waiting,
        }
    }

    /// The jobs that wait in queues, with these.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (JobId, &Arc<str>)> {
        let waits = self.jobs.iter().filter(|(_, member)| member.life == Life::Waits);
        waits.map(|(job, member)| (*job, &member.queue))
    }

    fn count(&mut self, queue: &Arc<str>) -> &mut Counts {
        self.changed.insert(Arc::clone(queue));
        self.queues.entry(Arc::clone(queue)).or_default()
    }
}

impl Counts {
    fn put_in(&mut self, job: JobId, member: &Member) {
        match &member.life {
            Life::Waits => *self.waiting.entry(Arc::clone(&member.namespace)).or_default() += 1,
            Life::IsOutside => drop(self.outside.insert(job, Arc::clone(&member.namespace))),
            Life::Runs(has) => {
                self.running += 1;
                self.used.add(has);
            }
        }
    }

    fn take_out(&mut self, job: JobId, member: &Member) {
        match &member.life {
            Life::Waits => {
                let left = self.waiting.get(&member.namespace).map_or(0, |count| count - 1);
                if left == 0 {
                    self.waiting.remove(&member.namespace);
                } else {
                    self.waiting.insert(Arc::clone(&member.namespace), left);
                }
            }
            Life::IsOutside => drop(self.outside.remove(&job)),
            Life::Runs(has) => {
                self.running -= 1;
                self.used.subtract(has);
            }
        }
    }
}

/// Describes the use of amounts that are limited for all together, and of the others.
fn usage(running: usize, used: &Resources, limits: &Limits) -> Option<String> {
    let mut parts = Vec::new();
    for limit in limits.in_all() {
        parts.push(match &limit.what {
            Counted::Jobs => format!("{running}/{} jobs", limit.most),
            Counted::Resource(name) => {
                format!("{}/{} {name}", told(name, used.sum(name)), told(name, limit.most))
            }
        });
    }
    for (name, amount) in used.sums().filter(|(name, amount)| *amount > 0 && ***name != *"pods") {
        if !limits.in_all().any(|limit| limit.what == Counted::Resource(Arc::from(&**name))) {
            parts.push(format!("{} {name}", told(name, amount)));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The limits in a line.
fn summary(limits: &Limits) -> Option<String> {
    let mut parts = Vec::new();
    for limit in &limits.running {
        let mut part = match &limit.what {
            Counted::Jobs => format!("{} jobs", limit.most),
            Counted::Resource(name) => format!("{} {name}", told(name, limit.most)),
        };
        for (label, value) in limit.nodes.iter().flat_map(|nodes| &nodes.node_selector) {
            let _ = write!(part, " on {label}={value}");
        }
        part.push_str(if limit.per_namespace { " per namespace" } else { "" });
        parts.push(part);
    }
    parts.extend(limits.waiting.map(|most| format!("{most} waiting")));
    parts.extend(limits.waiting_per_namespace.map(|most| format!("{most} waiting per namespace")));
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(queue: &str, namespace: &str, life: Life) -> Member {
        Member { queue: Arc::from(queue), namespace: Arc::from(namespace), life }
    }

    #[test]
    fn a_job_counts_once_and_where_it_is() {
        let (mut tally, job, none) = (Tally::default(), JobId::FIRST, Limits::default());
        let has: Resources = [("cpu", 1500)].into_iter().collect();
        tally.note(job, Some(member("gpu", "a", Life::Waits)));
        tally.note(job.next(), Some(member("gpu", "b", Life::Waits)));
        assert_eq!(tally.take_changed().len(), 1);
        assert_eq!(tally.note(job, Some(member("gpu", "a", Life::Waits))), None);
        assert!(!tally.has_changes(), "nothing new");
        assert_eq!((tally.waiting("gpu", None), tally.waiting("gpu", Some("b"))), (2, 1));
        assert_eq!(
            tally.note(job, Some(member("gpu", "a", Life::Runs(has.clone())))).as_deref(),
            Some("gpu")
        );
        let status = tally.status("gpu", &none);
        assert_eq!((status.waiting, status.running, &*status.used["cpu"]), (1, 1, "1500m"));
        assert_eq!(
            (status.display_usage.as_deref(), status.display_limits),
            (Some("1.5 cpu"), None)
        );
        tally.note(job, Some(member("cpu", "a", Life::Runs(has))));
        tally.note(job.next(), None);
        let status = tally.status("gpu", &none);
        assert_eq!((status.waiting, status.running, status.display_usage), (0, 0, None));
        assert_eq!((tally.status("cpu", &none).running, tally.take_changed().len()), (1, 2));
    }

    #[test]
    fn who_is_outside_keeps_the_order_in_which_he_came() {
        let (mut tally, job) = (Tally::default(), JobId::FIRST);
        tally.note(job.next(), Some(member("gpu", "b", Life::IsOutside)));
        tally.note(job, Some(member("gpu", "a", Life::IsOutside)));
        assert_eq!(tally.outside("gpu").collect::<Vec<_>>(), [(job, "a"), (job.next(), "b")]);
        assert_eq!(tally.waiting("gpu", None), 0);
    }
}
