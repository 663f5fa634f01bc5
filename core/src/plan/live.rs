//! The plan's view of the real jobs and of the real machine.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::names;

use super::{
    Booking, Capacity, Delay, Group, Kept, Late, Limited, Promising, Remade, Request, RequestKey, Requests, Reserved,
    Same, SlotKey, Version,
};
use crate::cluster::{Cluster, Company};
use crate::fluxion::{self, Fit, Forecast, Later, Rank, RankSet, Tenancy, Within};
use crate::job::{Job, Member};
use crate::jobs::{Clock, Jobs};
use crate::ledger::{self, Allocations, Change, GroupRequest, Ledger, LevelWant, LevelWants, Slice, SlotRequest};
use crate::levels::slice_of;
use crate::promises::{Promise, Promises};
use crate::queue::{ClassId, JobId, PendingRequest, QueueId};
use crate::queues::{Accounts, Queues};
use fluxqueue_workload::levels::{RuleScope, Spread};
use fluxqueue_workload::{Lifetime, Pod, Shape, Time};

/// Stands for all jobs that have nothing yet and want their nodes alone: to all of them the same nodes are open.
const ANYBODY: Tenancy = Tenancy::Alone(0);

/// The jobs as they are.
pub(crate) struct Asking<'a> {
    pub jobs: &'a Jobs,
    pub queues: &'a Queues,
    pub clock: Clock,
}

/// The resource graph and the nodes as they are.
pub(crate) struct Live<'a> {
    pub ledger: &'a mut Ledger,
    pub cluster: &'a mut Cluster,
    pub promises: &'a mut Promises,
    pub queues: &'a Queues,
    pub accounts: &'a mut Accounts,
    /// Nodes that are left alone for a moment, and how often they changed.
    pub suspects: &'a RankSet,
    pub suspects_version: u64,
    pub now: Time,
}

impl Asking<'_> {
    /// The pods to be placed together.
    pub(crate) fn pods(&self, pending: &PendingRequest) -> Vec<&Member> {
        match pending {
            PendingRequest::Member(_, uid) => self.jobs.members.get(uid).into_iter().collect(),
            PendingRequest::Start(id) => {
                let Some(job) = self.jobs.all.get(id) else { return Vec::new() };
                // How many there are is known, though not to who collects them.
                let mut pods = Vec::with_capacity(job.live.len().min(job.start_size));
                let ready = self.jobs.live(job).filter(|member| member.is_ready(names::GATE) && job.counts(member));
                pods.extend(ready.take(job.start_size));
                pods
            }
        }
    }

    /// Nothing of the job has a slot of which these pods are asked for. Mostly they are all that it has.
    fn has_nothing(&self, job: &Job, pending: &PendingRequest, pods: &[&Member]) -> bool {
        let are_all = matches!(pending, PendingRequest::Start(_)) && pods.len() == job.live.len();
        if are_all {
            return job.retained.is_empty() && pods.iter().all(|member| member.allocation.is_none());
        }
        self.jobs.has_nothing(job)
    }

    /// What a request asks for, for telling equal ones.
    pub(crate) fn key(&self, pending: &PendingRequest) -> RequestKey {
        let mut slots: Vec<SlotKey> = Vec::new();
        let Some(job) = self.jobs.all.get(&pending.job()) else {
            return RequestKey { queue: QueueId::DEFAULT, counts: None, slots };
        };
        let is_start = matches!(pending, PendingRequest::Start(_));
        for member in self.pods(pending) {
            let pod = &member.pod;
            let size = slice_size(&member.levels).filter(|_| is_start);
            let slices: Vec<u32> = size.and_then(|size| slice_of(pod, size)).into_iter().collect();
            let want = SlotKey {
                shape: Same(Arc::clone(&pod.shape)),
                walltime: self.jobs.occupies(pod, job),
                deadline: self.jobs.deadline(pod, self.clock).map(Time::seconds),
                stance: member.stance.clone(),
                volumes: member.volumes.clone(),
                levels: member.levels.clone(),
                tenancy: match member.tenancy {
                    Tenancy::Alone(_) if self.jobs.has_nothing(job) => ANYBODY,
                    tenancy => tenancy,
                },
                slices,
                count: 1,
            };
            match slots.iter_mut().find(|known| known.is_like(&want)) {
                Some(known) => {
                    known.count += 1;
                    known.slices.extend(want.slices);
                }
                None => slots.push(want),
            }
        }
        let counts = self.queues.limits(job.queue.id).map(|limits| {
            let namespace = if limits.is_any_per_namespace() { Arc::clone(&job.key.namespace) } else { Arc::default() };
            (namespace, self.jobs.has_nothing(job))
        });
        RequestKey { queue: job.queue.id, counts, slots }
    }
}

impl Request {
    /// All its pods.
    pub(crate) fn all_pods(&self) -> impl Iterator<Item = &Arc<Pod>> + Clone {
        self.groups.iter().flat_map(|group| &group.pods).flatten()
    }

    /// The same as it is planned if it starts later.
    fn if_later(&self) -> Cow<'_, Request> {
        if self.groups.iter().all(|group| group.lifetime_later.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut later = self.clone();
        for group in &mut later.groups {
            group.lifetime = group.lifetime_later.unwrap_or(group.lifetime);
        }
        Cow::Owned(later)
    }

    /// Says of which slices its pods are, where rules are about these: by their indexes if they have some, else in their order. Pods of a
    /// slice may be of several groups, since their volumes are in different places, say.
    fn cut_into_slices(&mut self) {
        // By shape and size of slices: how many pods there are.
        let mut kinds: Vec<(Arc<Shape>, u32, u32)> = Vec::new();
        let mut cut: Vec<(&mut SlotRequest, Vec<(usize, u32)>)> = Vec::new();
        for group in &mut self.groups {
            let Some(size) = group.slice_size() else { continue };
            for (want, pods) in group.wants.iter_mut().zip(&group.pods) {
                let is_known = |(shape, of, _): &(Arc<Shape>, u32, u32)| *of == size && *shape == want.shape;
                let kind = kinds.iter().position(is_known).unwrap_or_else(|| {
                    kinds.push((Arc::clone(&want.shape), size, 0));
                    kinds.len() - 1
                });
                let nth = |pod: &Arc<Pod>| {
                    let position = kinds[kind].2;
                    kinds[kind].2 += 1;
                    (kind, pod.completion_index.unwrap_or(position) / size)
                };
                let of_pods = pods.iter().map(nth).collect();
                cut.push((want, of_pods));
            }
        }
        let known: BTreeSet<(usize, u32)> = cut.iter().flat_map(|(_, of_pods)| of_pods).copied().collect();
        let numbers: BTreeMap<(usize, u32), u32> = known.into_iter().zip(0..).collect();
        for (want, of_pods) in cut {
            let of_slices = of_pods.chunk_by(|one, other| one == other);
            want.slices = of_slices.map(|pods| Slice { number: numbers[&pods[0]], count: pods.len() }).collect();
        }
    }

    /// Asks for a pod besides, that runs for so long; it is one of so many.
    fn add(&mut self, member: &Member, (lifetime, later): (Lifetime, Option<Lifetime>), queue: QueueId, of: usize) {
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
            Some(group) => group.add(pod),
            None => {
                // Mostly they are all alike.
                let expected = if self.groups.is_empty() { of } else { 0 };
                let mut group = Group {
                    wants: vec![SlotRequest::new(Arc::clone(&pod.shape), 0)],
                    pods: vec![Vec::with_capacity(expected)],
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
                group.add(pod);
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
        (&self.shape, self.walltime, self.deadline, &self.stance, &self.volumes, &self.levels, self.tenancy)
            == (
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
        match pending {
            PendingRequest::Member(_, uid) => {
                self.jobs.members.get(uid).is_none_or(|member| member.retry_at > self.clock.now)
            }
            PendingRequest::Start(id) => self.jobs.all.get(id).is_none_or(|job| job.backoff_until > self.clock.now),
        }
    }

    fn request(&self, pending: &PendingRequest) -> Option<Request> {
        let job = self.jobs.all.get(&pending.job());
        let pods = self.pods(pending);
        let starts_job = job.is_some_and(|job| self.has_nothing(job, pending, &pods));
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
                let now = self.jobs.lifetime(pod, job, self.clock);
                (now, self.jobs.lifetime_later(pod, job, self.clock, since).filter(|later| *later > now))
            }
            None => (pod.lifetime, None),
        };
        for member in &pods {
            let pod = &*member.pod;
            // Mostly they are all alike, and who made them need not be asked again.
            let known = before.filter(|(other, _)| lasts_as_long(other, pod)).map(|(_, lifetimes)| lifetimes);
            let known = known.unwrap_or_else(|| lifetimes(pod));
            before = Some((pod, known));
            request.add(member, known, queue, pods.len());
        }
        if request.groups.iter().any(|group| group.levels.is_some()) {
            let nodes = self.queues.nodes(queue).cloned().map(Arc::new);
            request.groups.iter_mut().for_each(|group| group.queue_nodes.clone_from(&nodes));
            request.cut_into_slices();
        }
        if let [group] = request.groups.as_mut_slice()
            && let [SlotRequest { count: 1, .. }] = group.wants.as_slice()
        {
            group.company = Company::Alone;
        }
        (!request.groups.is_empty()).then_some(request)
    }
}

impl Group {
    fn add(&mut self, pod: &Arc<Pod>) {
        let known = self.wants.iter().position(|want| Arc::ptr_eq(&want.shape, &pod.shape) || want.shape == pod.shape);
        let at = known.unwrap_or_else(|| {
            self.wants.push(SlotRequest::new(Arc::clone(&pod.shape), 0));
            self.pods.push(Vec::new());
            self.pods.len() - 1
        });
        self.wants[at].count += 1;
        self.pods[at].push(Arc::clone(pod));
    }

    /// How many pods a slice has.
    pub(crate) fn slice_size(&self) -> Option<u32> {
        slice_size(&self.levels)
    }

    /// Its pods keep others away by required anti-affinity.
    pub(crate) fn repels_pods(&self) -> bool {
        !self.sample.shape.constraints.repels.is_empty()
    }

    /// Other pods have something to do with where its pods may go.
    pub(crate) fn depends_on_pods(&self) -> bool {
        self.sample.shape.constraints.asks_about_pods() || !self.stance.repelled_by.is_empty()
    }

    /// Nodes to which its pods are admitted, now or some day, if parts of a level may differ by so much only: the parts of these count.
    /// As kube-scheduler's nodeAffinityPolicy has it, it does not matter what else keeps the pods off them now.
    pub(crate) fn counted(&self, cluster: &mut Cluster) -> Option<RankSet> {
        let mut wants = self.levels.iter().flat_map(|wants| wants.iter());
        wants.find(|want| matches!(want.within, Within::Spread(Spread { max_skew: Some(_), .. })))?;
        Some(self.admitted(cluster))
    }

    /// The parts that have as many of the job's pods as they may have beside the others that are there.
    pub(crate) fn full_parts(&self, want: &LevelWant, ledger: &Ledger, cluster: &mut Cluster) -> BTreeSet<String> {
        let Within::Beside(spread, standing) = &want.within else { return BTreeSet::new() };
        let least = if spread.max_skew.is_some() { self.least(want, standing, ledger, cluster) } else { 0 };
        let is_full = |count: u32| {
            spread.max_per_part.is_some_and(|most| count >= most)
                || spread.max_skew.is_some_and(|skew| count.saturating_sub(least) >= skew)
        };
        standing.iter().filter(|(_, count)| is_full(*count)).map(|(part, _)| part.clone()).collect()
    }

    /// How many of a job's pods are in the part that has the fewest, of those that have a node to which the pods are admitted.
    fn least(&self, want: &LevelWant, standing: &[(String, u32)], ledger: &Ledger, cluster: &mut Cluster) -> u32 {
        let admitted = self.admitted(cluster);
        let standing_in =
            |part: &String| standing.iter().find(|(known, _)| known == part).map_or(0, |(_, count)| *count);
        // Of those who are in one part of another level, the parts count that are in it: not of slices, of which others are elsewhere.
        let is_within = |rank: &Rank| {
            self.levels.iter().flat_map(|wants| wants.iter()).all(|other| match &other.within {
                _ if matches!(other.of, RuleScope::Slice(_)) => true,
                Within::Part(part) => ledger.part_of(cluster, &other.level, *rank).as_deref() == Some(&**part),
                _ => true,
            })
        };
        let parts = admitted.iter().filter(is_within).filter_map(|rank| ledger.part_of(cluster, &want.level, rank));
        let parts: BTreeSet<String> = parts.collect();
        parts.iter().map(standing_in).min().unwrap_or(0)
    }

    fn admitted(&self, cluster: &mut Cluster) -> RankSet {
        cluster.admitted(&self.sample.shape.constraints, self.queue_nodes.as_deref())
    }

    /// The group as the ledger takes it, on these nodes, those first where it would rather be.
    pub(crate) fn ordered_request(&self, nodes: &RankSet, cluster: &mut Cluster) -> GroupRequest {
        let is_alone = self.pods.iter().map(Vec::len).sum::<usize>() == 1;
        let prefer = cluster.tiers(&self.sample, nodes, is_alone);
        GroupRequest { prefer, ..self.request(nodes, cluster) }
    }

    /// The group as the ledger takes it, on these nodes, wherever it would rather be.
    pub(crate) fn request(&self, nodes: &RankSet, cluster: &mut Cluster) -> GroupRequest {
        GroupRequest {
            wants: self.wants.clone(),
            ranks: (nodes.len() < cluster.len()).then(|| nodes.clone()),
            prefer: Vec::new(),
            counted: self.counted(cluster),
            lifetime: self.lifetime,
            max_per_node: self.volumes.as_ref().and_then(|_| cluster.volumes().most_on_a_node(&self.sample)),
            levels: self.levels.clone(),
            tenancy: self.tenancy,
        }
    }
}

impl Live<'_> {
    /// Of these nodes the queue's are left.
    fn narrow(&mut self, nodes: &mut RankSet, group: &Group) {
        if let Some(constraints) = self.queues.nodes(group.queue) {
            nodes.intersect_with(&self.cluster.class(constraints).lasting);
        }
    }

    /// Takes the nodes of parts out that have as many of the job's pods as they may have.
    fn close_by_levels(&mut self, group: &Group, nodes: &mut RankSet) {
        for want in group.levels.iter().flat_map(|wants| wants.iter()) {
            let full = group.full_parts(want, self.ledger, self.cluster);
            if !full.is_empty() {
                let part = |rank| self.ledger.part_of(self.cluster, &want.level, rank);
                let closed = nodes.iter().filter(|rank| part(*rank).is_some_and(|part| full.contains(&part)));
                let closed: RankSet = closed.collect();
                nodes.subtract(&closed);
            }
        }
    }

    /// Slots for all pods, with their volumes where they need some.
    fn allocate(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
        if request.rests_on_volumes() {
            return self.place_with_volumes(request, nodes);
        }
        self.place_now(request, nodes)
    }

    pub(super) fn groups(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<GroupRequest> {
        request.groups.iter().zip(nodes).map(|(group, nodes)| group.request(nodes, self.cluster)).collect()
    }

    /// The same, and before that on these nodes.
    pub(super) fn ordered_groups_from(
        &mut self,
        first: Option<&RankSet>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Vec<GroupRequest> {
        let mut groups = self.ordered_groups(request, nodes);
        let Some(first) = first else { return groups };
        for group in &mut groups {
            group.prefer.iter_mut().for_each(|tier| tier.subtract(first));
            group.prefer.retain(|tier| !tier.is_empty());
            group.prefer.insert(0, first.clone());
        }
        groups
    }

    /// The same, each group first where it would rather be.
    pub(super) fn ordered_groups(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<GroupRequest> {
        request.groups.iter().zip(nodes).map(|(group, nodes)| group.ordered_request(nodes, self.cluster)).collect()
    }
}

impl Capacity for Live<'_> {
    type Slots = Allocations;

    fn version(&self, request: &Request) -> Version {
        let mut nodes = self.cluster.nodes_version() + self.suspects_version + self.queues.version();
        for group in &request.groups {
            nodes += self.cluster.exclusive_version(&group.sample.shape.constraints);
            if !group.stance.repelled_by.is_empty() {
                nodes += self.cluster.repellers_version();
            }
            nodes += self.cluster.crowd_version(&group.sample.shape.constraints);
            if group.volumes.is_some() {
                nodes += self.cluster.volumes().version();
            }
        }
        Version { nodes, changes: self.ledger.changes.count() }
    }

    fn open(&mut self, group: &Group) -> RankSet {
        let mut open = self.cluster.class(&group.sample.shape.constraints).now.clone();
        for (closed, _) in self.cluster.repelled(&group.sample, group.company) {
            open.subtract(&closed);
        }
        open.subtract(self.suspects);
        self.narrow(&mut open, group);
        self.close_by_levels(group, &mut open);
        self.close_by_volumes(group, &mut open);
        open
    }

    fn lasting(&mut self, group: &Group) -> RankSet {
        let mut lasting = self.cluster.class(&group.sample.shape.constraints).lasting.clone();
        self.narrow(&mut lasting, group);
        self.close_by_levels(group, &mut lasting);
        self.close_by_volumes(group, &mut lasting);
        lasting
    }

    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots> {
        if !self.is_limited(request) {
            return self.allocate(request, nodes);
        }
        let Some((demand, nodes)) = self.within_limits(request, nodes) else { return Fit::NotNow };
        let fit = self.allocate(request, &nodes);
        if let Fit::Placed(slots) = &fit {
            self.count_start(demand, slots);
        }
        fit
    }

    fn limit(&mut self, request: &Request) -> Option<Limited> {
        self.limit_of(request)
    }

    fn out_of_reach(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.cluster.out_of_reach(&group.sample.shape.constraints, other.all_pods(), nodes)
    }

    fn out_of_reach_of_promises(&mut self, group: &Group) -> Vec<(RankSet, JobId)> {
        let (constraints, cluster) = (&group.sample.shape.constraints, &mut *self.cluster);
        let closed = self.promises.reservations().map(|(pending, promise)| {
            (cluster.out_of_reach(constraints, promise.request.all_pods(), &promise.place.nodes), pending.job())
        });
        closed.filter(|(closed, _)| !closed.is_empty()).collect()
    }

    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast {
        let groups = self.groups(request, nodes);
        match self.ledger.forecast(&groups).unwrap_or(Forecast::Blocked) {
            // Whether it finds its volumes then is not known.
            Forecast::At(_) if request.rests_on_volumes() => Forecast::Eventually,
            forecast => forecast,
        }
    }

    fn eligible(&mut self, request: &Request, nodes: &[RankSet]) -> RankSet {
        let groups = self.groups(request, nodes);
        self.ledger.eligible(&groups).unwrap_or_default()
    }

    fn changed_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool {
        self.ledger.changes.any_since(then, matters)
    }

    fn fits_one(&self, request: &Request, rank: Rank) -> bool {
        let mut wants = request.groups.iter().flat_map(|group| &group.wants);
        wants.any(|want| self.cluster.would_hold(rank, &want.shape.requests, &fluxqueue_workload::Resources::new()))
    }

    fn fits_one_some_day(&self, request: &Request, rank: Rank) -> bool {
        let mut wants = request.groups.iter().flat_map(|group| &group.wants);
        wants.any(|want| self.ledger.has_room_some_day(self.cluster, rank, &want.shape.requests))
    }
}

impl Promising for Live<'_> {
    fn may_be_passed_by(&self, pending: &PendingRequest) -> bool {
        !self.promises.is_patience_over(pending)
    }

    fn inherit_patience(&mut self, pending: &PendingRequest) {
        self.promises.inherit_patience(pending, self.now);
    }

    fn displaces(&self, pending: &PendingRequest) -> Option<Delay> {
        self.promises.ahead(pending)
    }

    fn promised(&self) -> Vec<PendingRequest> {
        self.promises.requests()
    }

    fn reserved(&self, pending: &PendingRequest) -> Option<Reserved> {
        let promise = self.promises.reservation(pending)?;
        Some(Reserved { start: promise.place.start, class: promise.class })
    }

    fn reserve(
        &mut self,
        pending: (&PendingRequest, ClassId),
        request: &Request,
        nodes: &[RankSet],
        not_before: Option<i64>,
    ) -> Booking<Self::Slots> {
        self.reserve_first_on(None, pending, &request.if_later(), nodes, not_before)
    }

    fn remake(
        &mut self,
        pending: &PendingRequest,
        asked_now: Option<(ClassId, Request)>,
        left_of: &dyn Fn(&RankSet) -> RankSet,
    ) -> Remade<Self::Slots> {
        let mut promise = self.promises.take(pending).expect("the walk has seen its reservation");
        let is_same = asked_now.is_none();
        if let Some((class, request)) = asked_now {
            (promise.class, promise.request) = (class, request.if_later().into_owned());
        }
        let kept = Kept { start: promise.place.start, nodes: promise.place.nodes.clone() };
        let open: Vec<RankSet> = promise.request.groups.iter().map(|group| self.open(group)).collect();
        let nodes: Vec<RankSet> = open.iter().map(|open| allowed(open, &kept.nodes, left_of)).collect();
        if self.is_limited(&promise.request) {
            return self.remake_within_limits((pending, is_same), promise, nodes);
        }
        if is_same && nodes == promise.nodes && self.counts_as_before(&promise) {
            return match self.ledger.remake(self.cluster, promise.place) {
                ledger::Remade::Starts(mut slots) => {
                    self.house(&promise.request, &mut slots);
                    Remade::Starts(slots)
                }
                ledger::Remade::Lost => self.lose(pending, Delay::Capacity, kept),
                ledger::Remade::Kept(place, later) => {
                    let start = place.start;
                    let moved = start != kept.start || place.nodes != kept.nodes;
                    // The clock itself puts off by a second what cannot begin when its start has come: that alone is nothing to
                    // tell, but many seconds are.
                    let is_put_off = start > promise.told.saturating_add(PUT_OFF_SECONDS);
                    let cause = later.map(Delay::of).or(is_put_off.then_some(Delay::Walltime));
                    let cause = cause.filter(|_| start > promise.told);
                    let told = if cause.is_some() { start } else { promise.told.min(start) };
                    let was = Kept { start: promise.told, nodes: kept.nodes };
                    self.promises.put(pending, Promise { place, told, ..promise });
                    Remade::Kept { start, later: cause.map(|cause| Late { cause, was, by: None }), moved }
                }
            };
        }
        // Other nodes than when it was made, or another class: it is another question.
        self.ledger.give_up(&promise.place);
        // What was put back after a restart stays where it is on record, unless it is better elsewhere.
        let first = promise.inherited.is_some().then_some(&kept.nodes);
        match self.reserve_first_on(first, (pending, promise.class), &promise.request, &nodes, None) {
            Booking::Now(slots) => Remade::Starts(slots),
            Booking::At(start) => {
                self.promises.inherit(pending, promise.written());
                let late = Late { cause: Delay::Capacity, by: None, was: kept };
                Remade::Kept { start, later: (start > late.was.start).then_some(late), moved: true }
            }
            Booking::Never => self.lose(pending, Delay::Capacity, kept),
        }
    }

    fn take_lost(&mut self, pending: &PendingRequest) -> Option<Kept> {
        self.promises.take_lost(pending)
    }

    fn withdraw(&mut self, pending: &PendingRequest) -> Option<Kept> {
        self.accounts.take_back(pending);
        let promise = self.promises.take(pending)?;
        self.ledger.give_up(&promise.place);
        Some(Kept { start: promise.place.start, nodes: promise.place.nodes })
    }

    fn let_go(&mut self, pending: &PendingRequest) {
        self.accounts.let_go(pending);
        self.promises.let_go(pending);
    }

    fn drain(&mut self, pending: &PendingRequest, request: &Request, nodes: &[RankSet]) -> Arc<RankSet> {
        if self.hold_within_limits(pending, request) {
            self.promises.let_go(pending);
            return Arc::default();
        }
        if let Some(known) = self.promises.drained(pending).cloned()
            && self.is_enough(request, nodes, &known)
        {
            return known;
        }
        let eligible = self.eligible(request, nodes);
        let mut ranks: Vec<Rank> = eligible.iter().collect();
        ranks.sort_by_key(|rank| self.ledger.unknown_ends(*rank));
        // The fewest in this order that are enough.
        let (mut low, mut high) = (0, ranks.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.is_enough(request, nodes, &ranks[..middle].iter().copied().collect()) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let held = self.enough_of(request, nodes, &ranks[..high]);
        if high == ranks.len() && !self.is_enough(request, nodes, &held) {
            // What others hold and what never ends leaves too little: to keep the rest idle would help nobody.
            self.promises.let_go(pending);
            return Arc::default();
        }
        let held = Arc::new(held);
        self.promises.drain(pending, Arc::clone(&held));
        held
    }
}

impl Live<'_> {
    /// Takes slots or makes a reservation, first on these nodes if they are as good as any.
    fn reserve_first_on(
        &mut self,
        first: Option<&RankSet>,
        (pending, class): (&PendingRequest, ClassId),
        request: &Request,
        nodes: &[RankSet],
        not_before: Option<i64>,
    ) -> Booking<Allocations> {
        if request.asks_about_pods() || request.rests_on_volumes() {
            // Other pods may come to its nodes, or leave those that it wants to be near to, and volumes that are free may go to
            // others: nothing is promised on that.
            return match self.place(request, nodes) {
                Fit::Placed(slots) => Booking::Now(slots),
                Fit::NotNow | Fit::NotFound => Booking::Never,
            };
        }
        if self.is_limited(request) {
            return self.reserve_within_limits((pending, class), request, (nodes, first), not_before);
        }
        let preferred = self.place_in_better_parts(request, nodes).or_else(|| self.place_as_preferred(request, nodes));
        if let Some(slots) = preferred {
            return Booking::Now(slots);
        }
        let groups = self.ordered_groups_from(first, request, nodes);
        match self.ledger.reserve(self.cluster, groups, not_before) {
            fluxion::Booking::Now(mut slots) => {
                self.house(request, &mut slots);
                Booking::Now(slots)
            }
            fluxion::Booking::Never => Booking::Never,
            fluxion::Booking::At(place) => {
                let start = place.start;
                let (request, nodes) = (request.clone(), nodes.to_vec());
                let promise = Promise::new(place, class, (request, nodes), self.queues.version());
                self.promises.put(pending, promise);
                Booking::At(start)
            }
        }
    }

    /// The parts of levels that count for the pods of a reservation are those that did when it was made.
    pub(super) fn counts_as_before(&mut self, promise: &Promise) -> bool {
        let groups = promise.request.groups.iter().zip(&promise.place.groups);
        groups.into_iter().all(|(group, asked)| group.counted(self.cluster) == asked.counted)
    }

    /// A reservation has no date any more: its nodes are held.
    pub(super) fn lose(&mut self, pending: &PendingRequest, cause: Delay, was: Kept) -> Remade<Allocations> {
        self.promises.lose_date(pending, self.now, was.nodes.clone());
        Remade::Lost(Late { cause, was, by: None })
    }

    /// Of nodes that are enough, and would not be without the last of them: where all pods are to be in one part of a level it is that
    /// node's, and the others need not be held.
    fn enough_of(&mut self, request: &Request, nodes: &[RankSet], ranks: &[Rank]) -> RankSet {
        let all: RankSet = ranks.iter().copied().collect();
        let wants = request.groups.iter().flat_map(|group| group.levels.iter().flat_map(|wants| wants.iter()));
        let levels: Vec<_> = wants.filter(|want| want.within == Within::One).map(|want| &want.level).collect();
        let (Some(level), Some(last)) = (levels.first(), ranks.last()) else { return all };
        let part = self.ledger.part_of(self.cluster, level, *last);
        let is_there = |rank: &&Rank| part.is_some() && self.ledger.part_of(self.cluster, level, **rank) == part;
        let there: RankSet = ranks.iter().filter(is_there).copied().collect();
        if self.is_enough(request, nodes, &there) { there } else { all }
    }

    /// The request could start on these nodes alone once everything with an end has ended.
    fn is_enough(&mut self, request: &Request, nodes: &[RankSet], held: &RankSet) -> bool {
        let within: Vec<RankSet> = nodes.iter().map(|nodes| nodes.intersection(held)).collect();
        let is_there = !within.iter().any(RankSet::is_empty);
        is_there && matches!(self.forecast(request, &within), Forecast::Now | Forecast::At(_) | Forecast::Eventually)
    }
}

/// Two pods of a job say the same of how long they run, and so does who made them.
fn lasts_as_long(one: &Pod, other: &Pod) -> bool {
    let (maker, other_maker) = (one.owner.as_ref(), other.owner.as_ref());
    (one.lifetime, one.grace_secs) == (other.lifetime, other.grace_secs)
        && maker.map(|owner| &owner.uid) == other_maker.map(|owner| &owner.uid)
}

/// How many pods a slice has, by what they want of levels.
fn slice_size(wants: &LevelWants) -> Option<u32> {
    wants.iter().flat_map(|wants| wants.iter()).find_map(|want| match want.of {
        RuleScope::Slice(size) => Some(size),
        _ => None,
    })
}

/// A reservation that is put off by so much or less may begin in a moment.
pub(super) const PUT_OFF_SECONDS: i64 = 1;

/// What a reservation may use of the nodes that are open to it: those that are left to it, and those where it is.
fn allowed(open: &RankSet, was: &RankSet, left_of: &dyn Fn(&RankSet) -> RankSet) -> RankSet {
    let mut allowed = left_of(open);
    allowed.union_with(&open.intersection(was));
    allowed
}

impl Delay {
    pub(super) fn of(later: Later) -> Self {
        match later {
            Later::Overdue => Delay::Walltime,
            Later::Capacity => Delay::Capacity,
        }
    }
}
