//! The plan's view of the real jobs and of the real machine.

use std::sync::Arc;

use fluxqueue_api::names;

use super::{Capacity, Group, Request, RequestKey, Requests, Same, SlotKey, Version};
use crate::cluster::Cluster;
use crate::fluxion::{Fit, Forecast, Rank, RankSet};
use crate::job::Member;
use crate::jobs::{Clock, Jobs};
use crate::ledger::{Allocations, Change, GroupRequest, Ledger, SlotRequest};
use crate::queue::{JobId, PendingRequest};
use fluxqueue_workload::Pod;

/// The jobs as they are.
pub(crate) struct Asking<'a> {
    pub jobs: &'a Jobs,
    pub clock: Clock,
}

/// The resource graph and the nodes as they are.
pub(crate) struct Live<'a> {
    pub ledger: &'a mut Ledger,
    pub cluster: &'a mut Cluster,
    /// Nodes that are left alone for a moment, and how often they changed.
    pub suspects: &'a RankSet,
    pub suspects_version: u64,
}

impl Asking<'_> {
    /// The pods to be placed together.
    pub(crate) fn pods(&self, pending: &PendingRequest) -> Vec<&Member> {
        match pending {
            PendingRequest::Member(_, uid) => self.jobs.members.get(uid).into_iter().collect(),
            PendingRequest::Start(id) => {
                let Some(job) = self.jobs.all.get(id) else { return Vec::new() };
                self.jobs.live(job).filter(|member| member.is_ready(names::GATE)).take(job.start_size).collect()
            }
        }
    }

    /// What a request asks for, for telling equal ones.
    pub(crate) fn key(&self, pending: &PendingRequest) -> RequestKey {
        let mut key = RequestKey::new();
        let Some(job) = self.jobs.all.get(&pending.job()) else { return key };
        for member in self.pods(pending) {
            let pod = &member.pod;
            let want = SlotKey {
                shape: Same(Arc::clone(&pod.shape)),
                walltime: self.jobs.walltime(pod, job),
                deadline: self.jobs.deadline(pod, self.clock).map(fluxqueue_workload::Time::seconds),
                repelled_by: member.repelled_by.clone(),
                count: 1,
            };
            match key.iter_mut().find(|known| known.is_like(&want)) {
                Some(known) => known.count += 1,
                None => key.push(want),
            }
        }
        key
    }

    fn add(&self, request: &mut Request, member: &Member, id: JobId) {
        let pod = &member.pod;
        let lifetime = self.jobs.all.get(&id).map_or(pod.lifetime, |job| self.jobs.lifetime(pod, job, self.clock));
        let same_nodes = |group: &&mut Group| {
            group.lifetime == lifetime
                && group.sample.shape.constraints == pod.shape.constraints
                && group.repelled_by == member.repelled_by
        };
        match request.groups.iter_mut().find(same_nodes) {
            Some(group) => group.add(pod),
            None => {
                let mut group = Group {
                    wants: Vec::new(),
                    pods: Vec::new(),
                    lifetime,
                    sample: Arc::clone(pod),
                    repelled_by: member.repelled_by.clone(),
                };
                group.add(pod);
                request.groups.push(group);
            }
        }
    }
}

impl SlotKey {
    /// They differ in their number at most.
    fn is_like(&self, other: &Self) -> bool {
        (&self.shape, self.walltime, self.deadline, &self.repelled_by)
            == (&other.shape, other.walltime, other.deadline, &other.repelled_by)
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
        let mut request = Request { groups: Vec::new() };
        for member in self.pods(pending) {
            self.add(&mut request, member, pending.job());
        }
        (!request.groups.is_empty()).then_some(request)
    }
}

impl Group {
    fn add(&mut self, pod: &Arc<Pod>) {
        let known = self.wants.iter().position(|want| Arc::ptr_eq(&want.shape, &pod.shape) || want.shape == pod.shape);
        let at = known.unwrap_or_else(|| {
            self.wants.push(SlotRequest { shape: Arc::clone(&pod.shape), count: 0 });
            self.pods.push(Vec::new());
            self.pods.len() - 1
        });
        self.wants[at].count += 1;
        self.pods[at].push(pod.id.uid.clone());
    }

    /// The group as the ledger takes it, on these nodes.
    pub(crate) fn request(&self, nodes: &RankSet, cluster: &mut Cluster) -> GroupRequest {
        GroupRequest {
            wants: self.wants.clone(),
            ranks: (nodes.len() < cluster.len()).then(|| nodes.clone()),
            prefer: cluster.class(&self.sample.shape.constraints).tiers(),
            lifetime: self.lifetime,
        }
    }
}

impl Live<'_> {
    fn groups(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<GroupRequest> {
        request.groups.iter().zip(nodes).map(|(group, nodes)| group.request(nodes, self.cluster)).collect()
    }
}

impl Capacity for Live<'_> {
    type Slots = Allocations;

    fn version(&self, request: &Request) -> Version {
        let mut nodes = self.cluster.nodes_version() + self.suspects_version;
        for group in &request.groups {
            if group.wants.iter().any(|want| !want.shape.constraints.host_ports.is_empty()) {
                nodes += self.cluster.ports_version();
            }
            if !group.repelled_by.is_empty() {
                nodes += self.cluster.repellers_version();
            }
        }
        Version { nodes, changes: self.ledger.changes.count() }
    }

    fn open(&mut self, group: &Group) -> RankSet {
        let mut open = self.cluster.class(&group.sample.shape.constraints).now.clone();
        for (closed, _) in self.cluster.repelled(&group.sample) {
            open.subtract(&closed);
        }
        open.subtract(self.suspects);
        open
    }

    fn lasting(&mut self, group: &Group) -> RankSet {
        self.cluster.class(&group.sample.shape.constraints).lasting.clone()
    }

    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots> {
        let groups = self.groups(request, nodes);
        self.ledger.allocate(self.cluster, &groups)
    }

    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast {
        let groups = self.groups(request, nodes);
        self.ledger.forecast(&groups).unwrap_or(Forecast::Blocked)
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
}
