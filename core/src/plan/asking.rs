//! What those who wait ask for: the jobs as they are, put as requests to the machine.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::names;

use super::group::{slice_size, slicing};
use super::{Group, Pods, Request, RequestKey, Requests, Same, SlotKey};
use crate::job::{Job, Member};
use crate::jobs::{Clock, Jobs};
use crate::queue::{PendingRequest, QueueId};
use crate::queues::Queues;
use fluxqueue_machine::cluster::Company;
use fluxqueue_machine::fluxion::{RankSet, Tenancy};
use fluxqueue_machine::ledger::Role;
use fluxqueue_machine::ledger::{Slice, SlotRequest};
use fluxqueue_workload::{Lifetime, Pod, Shape, Time};

/// Stands for all jobs that have nothing yet and want their nodes alone: to all of them the same
/// nodes are open.
const ANYBODY: Tenancy = Tenancy::Alone(0);

/// The jobs as they are.
pub(crate) struct Asking<'a> {
    pub jobs: &'a Jobs,
    pub queues: &'a Queues,
    pub clock: Clock,
}

/// Pods out of which slices are cut: of one role, or of one shape where nobody says their roles.
struct Sliced {
    size: u32,
    role: Option<Role>,
    shape: Option<Arc<Shape>>,
    /// How many are known.
    pods: u32,
}

impl Asking<'_> {
    /// The pods to be placed together. Of a Job that waits without pods it is one for all of them.
    pub(crate) fn pods(&self, pending: &PendingRequest) -> Vec<&Member> {
        match pending {
            PendingRequest::Member(_, uid) => self.jobs.members.get(uid).into_iter().collect(),
            PendingRequest::Start(id) => {
                let Some(job) = self.jobs.all.get(id) else { return Vec::new() };
                // How many there are is known, though not to who collects them.
                let mut pods = Vec::with_capacity(job.live.len().min(job.start_size));
                let is_ready =
                    |member: &&Member| member.is_ready(names::GATE) && job.counts(member);
                let ready = self.jobs.remaining(job).into_iter().filter(is_ready);
                pods.extend(ready.take(job.start_size));
                pods
            }
        }
    }

    /// How many pods each of these stands for.
    fn times(&self, pending: &PendingRequest) -> usize {
        match pending {
            PendingRequest::Member(..) => 1,
            PendingRequest::Start(id) => {
                self.jobs.all.get(id).map_or(1, |job| job.stands_for.min(job.start_size).max(1))
            }
        }
    }

    /// Nothing of the job has a slot of which these pods are asked for. Mostly they are all that it
    /// has.
    fn has_nothing(&self, job: &Job, pending: &PendingRequest, pods: &[&Member]) -> bool {
        let are_all = matches!(pending, PendingRequest::Start(_)) && pods.len() == job.live.len();
        if are_all {
            return job.retained.is_empty()
                && pods.iter().all(|member| member.allocation.is_none());
        }
        self.jobs.has_nothing(job)
    }

    /// What a request asks for, for telling equal ones.
    pub(crate) fn key(&self, pending: &PendingRequest) -> RequestKey {
        let mut slots: Vec<SlotKey> = Vec::new();
        let Some(job) = self.jobs.all.get(&pending.job()) else {
            return RequestKey { queue: QueueId::DEFAULT, counts: None, slots };
        };
        let (is_start, times) = (matches!(pending, PendingRequest::Start(_)), self.times(pending));
        for member in self.pods(pending) {
            let pod = &member.pod;
            let size = slice_size(&member.levels).filter(|_| is_start);
            let slices: Vec<u32> =
                size.and_then(|size| self.jobs.slice_of(pod, size)).into_iter().collect();
            let want = SlotKey {
                shape: Same(Arc::clone(&pod.shape)),
                walltime: self.jobs.planned_time(pod, job),
                deadline: self.jobs.planned_deadline(pod, self.clock).map(Time::seconds),
                stance: member.stance.clone(),
                volumes: member.volumes.clone(),
                levels: member.levels.clone(),
                tenancy: match member.tenancy {
                    Tenancy::Alone(_) if self.jobs.has_nothing(job) => ANYBODY,
                    tenancy => tenancy,
                },
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

    /// What a gang that has not begun has asked for, and the nodes that it has.
    pub(crate) fn placed(&self, job: &Job) -> Option<(Request, RankSet)> {
        let placed = || self.jobs.live(job).filter(|member| member.allocation.is_some());
        let nodes = placed().filter_map(|member| Some(member.allocation.as_ref()?.rank)).collect();
        Some((self.put_together(Some(job), (&placed().collect::<Vec<_>>(), 1), true)?, nodes))
    }

    /// What these pods of a job ask for, each of which stands for so many.
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
            since = job.and_then(|job| job.queued_at).map_or(since, |at| at.min(since));
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
            // Mostly they are all alike, and who made them need not be asked again.
            let known = before
                .filter(|(other, _)| lasts_as_long(other, pod))
                .map(|(_, lifetimes)| lifetimes);
            let known = known.unwrap_or_else(|| lifetimes(pod));
            before = Some((pod, known));
            request.add(member, times, known, (queue, pods.len()));
        }
        if request.groups.iter().any(|group| group.levels.is_some()) {
            let nodes = self.queues.nodes(queue).cloned().map(Arc::new);
            request.groups.iter_mut().for_each(|group| group.queue_nodes.clone_from(&nodes));
            request.cut_into_slices(|pod| self.jobs.number(pod));
        }
        if let [group] = request.groups.as_mut_slice()
            && let [SlotRequest { count: 1, .. }] = group.wants.as_slice()
        {
            group.company = Company::Alone;
        }
        (!request.groups.is_empty()).then_some(request)
    }
}

impl Request {
    /// All its pods that differ from each other.
    pub(crate) fn all_pods(&self) -> impl Iterator<Item = &Arc<Pod>> + Clone {
        self.groups.iter().flat_map(|group| &group.pods).flat_map(Pods::distinct)
    }

    /// It is to be spread, or near to its own: until it begins nobody is to make it uneven, or draw
    /// it away.
    pub(crate) fn is_to_stay_undisturbed(&self) -> bool {
        self.groups.iter().any(|group| group.is_spread() || group.is_near_its_own())
    }

    /// It is one pod, as the other is, and of the same shape.
    pub(super) fn is_one_like(&self, other: &Request) -> bool {
        let ([one], [other]) = (self.groups.as_slice(), other.groups.as_slice()) else {
            return false;
        };
        [one, other].iter().all(|group| group.company == Company::Alone)
            && Arc::ptr_eq(&one.sample.shape, &other.sample.shape)
    }

    /// The same as it is planned if it starts later.
    pub(super) fn if_later(&self) -> Cow<'_, Request> {
        if self.groups.iter().all(|group| group.lifetime_later.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut later = self.clone();
        for group in &mut later.groups {
            group.lifetime = group.lifetime_later.unwrap_or(group.lifetime);
        }
        Cow::Owned(later)
    }

    /// Says of which slices its pods are, where rules are about these: by their numbers if they
    /// have some, else in their order. Pods of a slice may be of several groups, since their
    /// volumes are in different places, say.
    fn cut_into_slices(&mut self, number: impl Fn(&Pod) -> Option<u32>) {
        let mut kinds: Vec<Sliced> = Vec::new();
        let mut cut: Vec<(&mut SlotRequest, Vec<(usize, u32)>)> = Vec::new();
        for group in &mut self.groups {
            let Some((size, role)) = slicing(&group.levels) else { continue };
            for (want, pods) in group.wants.iter_mut().zip(&mut group.pods) {
                let shape = if role.is_none() { Some(&want.shape) } else { None };
                let is_known = |kind: &Sliced| {
                    (kind.size, &kind.role, kind.shape.as_ref()) == (size, &role, shape)
                };
                let kind = kinds.iter().position(is_known).unwrap_or_else(|| {
                    kinds.push(Sliced { size, role: role.clone(), shape: shape.cloned(), pods: 0 });
                    kinds.len() - 1
                });
                let mut nth = |pod: &Arc<Pod>| {
                    let position = kinds[kind].pods;
                    kinds[kind].pods += 1;
                    number(pod).unwrap_or(position) / size
                };
                let mut of_pods: Vec<(u32, &Arc<Pod>)> =
                    pods.iter().map(|pod| (nth(pod), pod)).collect();
                // Of several Jobs the pods come index by index, and are numbered Job by Job.
                of_pods.sort_by_key(|(slice, _)| *slice);
                let of_slices = of_pods.iter().map(|(slice, _)| (kind, *slice)).collect();
                let in_order: Vec<Arc<Pod>> =
                    of_pods.into_iter().map(|(_, pod)| Arc::clone(pod)).collect();
                pods.put_in_order(in_order.into_iter());
                cut.push((want, of_slices));
            }
        }
        let known: BTreeSet<(usize, u32)> =
            cut.iter().flat_map(|(_, of_pods)| of_pods).copied().collect();
        let numbers: BTreeMap<(usize, u32), u32> = known.into_iter().zip(0..).collect();
        for (want, of_pods) in cut {
            let of_slices = of_pods.chunk_by(|one, other| one == other);
            want.slices = of_slices
                .map(|pods| Slice { number: numbers[&pods[0]], count: pods.len() })
                .collect();
        }
    }

    /// Asks for so many pods like this one besides, that run for so long; it is one of so many that
    /// differ.
    fn add(
        &mut self,
        member: &Member,
        times: usize,
        (lifetime, later): (Lifetime, Option<Lifetime>),
        (queue, of): (QueueId, usize),
    ) {
        let pod = &member.pod;
        let same_nodes = |group: &&mut Group| {
            let sample = &group.sample.shape;
            (group.lifetime, group.lifetime_later) == (lifetime, later)
                && (Arc::ptr_eq(sample, &pod.shape) || sample.constraints == pod.shape.constraints)
                && group.stance == member.stance
                && group.volumes == member.volumes
                && group.levels == member.levels
                && group.tenancy == member.tenancy
        };
        match self.groups.iter_mut().find(same_nodes) {
            Some(group) => group.add(pod, times),
            None => {
                // Mostly they are all alike.
                let expected = if self.groups.is_empty() { of } else { 0 };
                let mut group = Group {
                    wants: vec![SlotRequest::new(Arc::clone(&pod.shape), 0)],
                    pods: vec![Pods::with_capacity(expected)],
                    lifetime,
                    lifetime_later: later,
                    sample: Arc::clone(pod),
                    stance: member.stance.clone(),
                    company: Company::Together,
                    queue,
                    volumes: member.volumes.clone(),
                    levels: member.levels.clone(),
                    tenancy: member.tenancy,
                    queue_nodes: None,
                };
                group.add(pod, times);
                self.groups.push(group);
            }
        }
    }
}

impl RequestKey {
    /// They ask for the same, but other pods keep theirs away.
    pub(crate) fn differs_by_who_repels(&self, other: &Self) -> bool {
        let alone = |key: &Self| {
            let mut key = key.clone();
            key.slots.iter_mut().for_each(|slot| slot.stance.repelled_by.clear());
            key
        };
        self != other && alone(self) == alone(other)
    }
}

impl SlotKey {
    /// They differ in their number at most, and in the slices that they are of.
    fn is_like(&self, other: &Self) -> bool {
        (
            &self.shape,
            self.walltime,
            self.deadline,
            &self.stance,
            &self.volumes,
            &self.levels,
            self.tenancy,
        ) == (
            &other.shape,
            other.walltime,
            other.deadline,
            &other.stance,
            &other.volumes,
            &other.levels,
            other.tenancy,
        )
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
                let job = self.jobs.all.get(id);
                job.is_none_or(|job| job.setbacks.claims_nothing(now) || job.lacks_record())
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

/// Two pods of a job say the same of how long they run, and so does who made them.
fn lasts_as_long(one: &Pod, other: &Pod) -> bool {
    let (maker, other_maker) = (one.owner.as_ref(), other.owner.as_ref());
    (one.lifetime, one.grace_secs) == (other.lifetime, other.grace_secs)
        && maker.map(|owner| &owner.uid) == other_maker.map(|owner| &owner.uid)
}
