//! Asking: turns waiting jobs into requests to the machine.

use std::sync::Arc;

use fluxqueue_api::names;

use crate::jobs::clock::Clock;
use crate::jobs::job::Job;
use crate::jobs::member::Member;
use crate::jobs::registry::Jobs;
use crate::jobs::roles;
use fluxqueue_machine::cluster::Company;
use fluxqueue_machine::fluxion::{RankSet, Tenancy};
use fluxqueue_machine::ledger::SlotRequest;
use fluxqueue_planner::plan::{Request, RequestKey, Requests, Same, SlotKey, Terms, slice_size};
use fluxqueue_planner::queue::{PendingRequest, QueueId};
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{Lifetime, Pod, Time};

/// The tenancy of all jobs that have nothing yet and want their nodes alone: the same nodes are
/// open to all of them.
const ANYBODY: Tenancy = Tenancy::Alone(0);

/// The jobs in their present state.
pub(crate) struct Asking<'a> {
    pub jobs: &'a Jobs,
    pub queues: &'a Queues,
    pub clock: Clock,
}

impl Asking<'_> {
    /// Returns the pods to be placed together. For a Job that waits without pods, one pod stands
    /// for all of them.
    pub(crate) fn pods(&self, pending: &PendingRequest) -> Vec<&Member> {
        match pending {
            PendingRequest::Member(_, uid) => self.jobs.members.get(uid).into_iter().collect(),
            PendingRequest::Start(id) => {
                let Some(job) = self.jobs.all.get(id) else { return Vec::new() };
                // The number of pods is known, but `collect` does not know it.
                let mut pods = Vec::with_capacity(job.pods.live.len().min(job.start.size));
                let is_ready =
                    |member: &&Member| member.is_ready(names::GATE) && job.counts(member);
                let ready = self.jobs.remaining(job).into_iter().filter(is_ready);
                pods.extend(ready.take(job.start.size));
                pods
            }
        }
    }

    /// Returns the number of pods for which each of these stands.
    fn times(&self, pending: &PendingRequest) -> usize {
        match pending {
            PendingRequest::Member(..) => 1,
            PendingRequest::Start(id) => self
                .jobs
                .all
                .get(id)
                .map_or(1, |job| job.pods.stands_for.min(job.start.size).max(1)),
        }
    }

    /// True if no pod of the job has a slot. The given pods are those of the request; mostly they
    /// are all pods of the job.
    fn has_nothing(&self, job: &Job, pending: &PendingRequest, pods: &[&Member]) -> bool {
        let are_all =
            matches!(pending, PendingRequest::Start(_)) && pods.len() == job.pods.live.len();
        if are_all {
            return job.start.retained.is_empty()
                && pods.iter().all(|member| member.allocation().is_none());
        }
        self.jobs.has_nothing(job)
    }

    /// Returns the key by which equal requests are found.
    pub(crate) fn key(&self, pending: &PendingRequest) -> RequestKey {
        let mut slots: Vec<SlotKey> = Vec::new();
        let Some(job) = self.jobs.all.get(&pending.job()) else {
            return RequestKey { queue: QueueId::DEFAULT, counts: None, slots };
        };
        let (is_start, times) = (matches!(pending, PendingRequest::Start(_)), self.times(pending));
        for member in self.pods(pending) {
            let pod = &member.pod;
            let size = slice_size(&member.terms.levels).filter(|_| is_start);
            let slices: Vec<u32> =
                size.and_then(|size| roles::slice_of(self.jobs, pod, size)).into_iter().collect();
            let tenancy = match member.terms.tenancy {
                Tenancy::Alone(_) if self.jobs.has_nothing(job) => ANYBODY,
                tenancy => tenancy,
            };
            let want = SlotKey {
                shape: Same(Arc::clone(&pod.shape)),
                walltime: self.jobs.planned_time(pod, job),
                deadline: self.jobs.planned_deadline(pod, self.clock).map(Time::seconds),
                terms: Terms { tenancy, ..member.terms.clone() },
                slices,
                count: times,
            };
            match slots.iter_mut().find(|known| known.is_like(&want)) {
                Some(known) => {
                    known.count += times;
                    known.slices.extend(want.slices);
                }
                None => slots.push(want),
            }
        }
        let counts = self.queues.limits(job.queue.id).map(|limits| {
            let namespace = if limits.is_any_per_namespace() {
                Arc::clone(&job.key.namespace)
            } else {
                Arc::default()
            };
            (namespace, self.jobs.has_nothing(job))
        });
        RequestKey { queue: job.queue.id, counts, slots }
    }

    /// Returns the request of a gang that has not begun, and the nodes on which it has slots.
    pub(crate) fn placed(&self, job: &Job) -> Option<(Request, RankSet)> {
        let placed = || self.jobs.live(job).filter(|member| member.allocation().is_some());
        let nodes = placed().filter_map(|member| Some(member.allocation()?.rank)).collect();
        Some((self.put_together(Some(job), (&placed().collect::<Vec<_>>(), 1), true)?, nodes))
    }

    /// Puts these pods of a job into a request. Each stands for `times` pods.
    fn put_together(
        &self,
        job: Option<&Job>,
        (pods, times): (&[&Member], usize),
        starts_job: bool,
    ) -> Option<Request> {
        let mut request = Request { groups: Vec::new(), starts_job };
        let queue = job.map_or(QueueId::DEFAULT, |job| job.queue.id);
        let mut before: Option<(&Pod, (Lifetime, Option<Lifetime>))> = None;
        let mut since = pods.iter().map(|member| member.pod.created).max().unwrap_or_default();
        if since > self.clock.wall_now() {
            // By a clock that was set back since, they are still to come.
            since = job.and_then(|job| job.waiting.since).map_or(since, |at| at.min(since));
        }
        let lifetimes = |pod: &Pod| match job {
            Some(job) => {
                let now = self.jobs.planned_lifetime(pod, job, self.clock);
                (
                    now,
                    self.jobs
                        .lifetime_later(pod, job, self.clock, since)
                        .filter(|later| *later > now),
                )
            }
            None => (pod.lifetime, None),
        };
        for member in pods {
            let pod = &*member.pod;
            // Mostly the pods are all alike, and the lifetimes of one hold for the next.
            let known = before
                .filter(|(other, _)| lasts_as_long(other, pod))
                .map(|(_, lifetimes)| lifetimes);
            let known = known.unwrap_or_else(|| lifetimes(pod));
            before = Some((pod, known));
            request.add((&member.pod, &member.terms), times, known, (queue, pods.len()));
        }
        if request.groups.iter().any(|group| group.terms.levels.is_some()) {
            let nodes = self.queues.nodes(queue).cloned().map(Arc::new);
            request.groups.iter_mut().for_each(|group| group.queue_nodes.clone_from(&nodes));
            request.cut_into_slices(|pod| roles::number(self.jobs, pod));
        }
        if let [group] = request.groups.as_mut_slice()
            && let [SlotRequest { count: 1, .. }] = group.wants.as_slice()
        {
            group.company = Company::Alone;
        }
        (!request.groups.is_empty()).then_some(request)
    }
}

impl Requests for Asking<'_> {
    fn is_put_off(&self, pending: &PendingRequest) -> bool {
        let now = self.clock.now;
        match pending {
            PendingRequest::Member(id, uid) => {
                let lacks_record = || self.jobs.all.get(id).is_some_and(|job| job.lacks_record());
                let member = self.jobs.members.get(uid);
                let waits =
                    |member: &Member| member.retry_at > now || member.setbacks.claims_nothing(now);
                member.is_none_or(waits) || lacks_record()
            }
            PendingRequest::Start(id) => {
                let waits = |job: &Job| {
                    job.start.setbacks.claims_nothing(now)
                        || job.lacks_record()
                        || self.jobs.searches.pause_of(job, now).is_some()
                };
                self.jobs.all.get(id).is_none_or(|job| waits(job))
            }
        }
    }

    fn request(&self, pending: &PendingRequest) -> Option<Request> {
        let pods = self.pods(pending);
        let job = self.jobs.all.get(&pending.job());
        let starts_job = job.is_some_and(|job| self.has_nothing(job, pending, &pods));
        self.put_together(job.map(Box::as_ref), (&pods, self.times(pending)), starts_job)
    }
}

/// True if two pods of a job have the same lifetime and the same owner.
fn lasts_as_long(one: &Pod, other: &Pod) -> bool {
    let (maker, other_maker) = (one.owner.as_ref(), other.owner.as_ref());
    (one.lifetime, one.grace_secs) == (other.lifetime, other.grace_secs)
        && maker.map(|owner| &owner.uid) == other_maker.map(|owner| &owner.uid)
}
