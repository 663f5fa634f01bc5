//! The core's knowledge: every event that it received, and every action that it requested since its
//! process started. The rules about a Binding are judged by this, not by the truth, which no
//! process can know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{FluxJob, JobState, PlacementRange};
use fluxqueue_core::{
    Action, ActionId, ActionKind, BindOutcome, Event, Outcome, Write, WriteOutcome,
};
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::pod_group::PodGroup;
use fluxqueue_workload::{Controller, NodeName, ObjectKey, Phase, Pod, Time, Uid};

use crate::jobs::{self, Unit};
use crate::machine::Start;
use crate::queues::Known;
use crate::server::flux_job_key;
use crate::suspended::says_paused;

/// Time after a lost answer in which the watch may still show that the Binding took effect.
const DOUBT_MILLIS: i64 = 10_000;

/// The knowledge of one process.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The scheduler name that the process serves.
    pub(crate) scheduler: Arc<str>,
    /// True if each lone pod has a FluxJob.
    pub(crate) record_lone_pods: bool,
    /// The largest known difference between the server's clock and its own.
    pub(crate) offset_max: Option<i64>,
    pub(crate) synced: bool,
    pub(crate) nodes: BTreeMap<NodeName, Arc<Node>>,
    pub(crate) pods: BTreeMap<Uid, Arc<Pod>>,
    /// Pods and `FluxJob`s with known deletions.
    pub(crate) gone: BTreeSet<Uid>,
    pub(crate) controllers: BTreeMap<Uid, Arc<Controller>>,
    /// Objects that may want more pods at once than when the placement of their pods was decided:
    /// those that have come to want more, and those with a placement of an earlier process.
    pub(crate) scaled_up: BTreeSet<Uid>,
    pub(crate) flux_jobs: BTreeMap<ObjectKey, Arc<FluxJob>>,
    /// The queue time of each job, as its `FluxJob` last had it: a deleted one is made again with
    /// that.
    pub(crate) places: BTreeMap<ObjectKey, i64>,
    pub(crate) queues: Known,
    pub(crate) pod_groups: BTreeMap<ObjectKey, Arc<PodGroup>>,
    /// PodGroups with a condition that was written as True.
    pub(crate) started_groups: BTreeSet<Uid>,
    /// The time of the last write of the condition of each PodGroup.
    pub(crate) told_groups: BTreeMap<Uid, Time>,
    /// Open writes that can take effect no more: creations of a `FluxJob` that the watch has shown,
    /// and writes that were decided on a version which another write has replaced.
    pub(crate) over: BTreeSet<ActionId>,
    /// Placements that are known to be stored, by uid of the `FluxJob`.
    pub(crate) acknowledged: BTreeMap<Uid, Vec<Vec<PlacementRange>>>,
    /// The newest of them, with the version of its object.
    pub(crate) placements: BTreeMap<Uid, (u64, Vec<PlacementRange>)>,
    /// `FluxJob`s that the core has written as ended, whether that write succeeded or not, and
    /// those of PodGroups without pods that are left.
    pub(crate) ended: BTreeSet<Uid>,
    /// `FluxJob`s of which the core has written last that they gave up their places while the
    /// releases of their namespace are paused, whether that write succeeded or not.
    pub(crate) gave_up_places: BTreeSet<Uid>,
    /// The time at which a job last lost a pod that was on a node: its slot is kept for a successor
    /// for a while.
    pub(crate) left: BTreeMap<Unit, Time>,
    /// Units with a failed pod.
    pub(crate) has_failed: BTreeSet<Unit>,
    /// Bindings of pods that the core does not know to be bound.
    pub(crate) bindings: BTreeMap<Uid, Binding>,
    /// Actions without a known outcome.
    pub(crate) open: BTreeMap<ActionId, ActionKind>,
    /// Pods with news of their removed gate that came before news of the pod.
    pub(crate) ungated: BTreeSet<Uid>,
    /// Jobs with news of their release that came before news of the Job.
    pub(crate) released: BTreeSet<Uid>,
}

/// A Binding that the core has requested.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    pub(crate) node: NodeName,
    pub(crate) state: BindingState,
    /// The time of the last attempt that failed, with or without effect.
    failed: Option<Time>,
}

/// The known state of a Binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BindingState {
    /// No answer yet.
    Open,
    /// The Binding took effect.
    Sure,
    /// The Binding failed then, with or without effect.
    Unsure(Time),
}

impl Binding {
    /// True if the effect of an attempt that failed may still show.
    fn may_show_yet(&self, now: Time) -> bool {
        self.failed.is_some_and(|at| at.plus_millis(DOUBT_MILLIS) > now)
    }
}

impl View {
    /// Makes the view of a process that starts.
    pub(crate) fn new(start: &Start) -> Self {
        let Start {
            scheduler,
            record_lone_pods,
            epoch: _,
            queue_policy: _,
            suspend_hold_secs: _,
            bypass_secs: _,
            questions_per_slice: _,
        } = start.clone();
        View { scheduler, record_lone_pods, ..View::default() }
    }

    /// Takes up an event of the core.
    pub(crate) fn tell(&mut self, event: &Event, now: Time) {
        match event {
            Event::Node(node) => drop(self.nodes.insert(node.name.clone(), Arc::clone(node))),
            Event::NodeGone(name, uid) => {
                if self.nodes.get(name).is_some_and(|node| node.uid == *uid) {
                    self.nodes.remove(name);
                }
            }
            Event::Pod(pod) => {
                if pod.phase.is_terminal() {
                    self.note_end(&pod.id.uid, now);
                    if pod.phase != Phase::Succeeded {
                        self.has_failed.insert(Unit::of(pod));
                    }
                }
                // A pod that is deleted before it is bound can never be bound any more.
                if pod.deleting && pod.node.is_none() {
                    self.bindings.remove(&pod.id.uid);
                }
                self.pods.insert(pod.id.uid.clone(), Arc::clone(pod));
            }
            Event::PodGone(id) => {
                self.note_end(&id.uid, now);
                self.pods.remove(&id.uid);
                self.bindings.remove(&id.uid);
                self.gone.insert(id.uid.clone());
            }
            Event::Controller(it) => {
                let before = self.controllers.insert(it.id.uid.clone(), Arc::clone(it));
                if before.is_some_and(|before| before.wants < it.wants) {
                    self.scaled_up.insert(it.id.uid.clone());
                }
            }
            Event::ControllerGone(uid) => drop(self.controllers.remove(uid)),
            Event::FluxJob(job) => {
                self.note_placement(job);
                let key = flux_job_key(job);
                self.end_creations(&key);
                let queued_at = job.status.as_ref().and_then(|status| status.queued_at.as_ref());
                self.places.extend(queued_at.map(|at| (key.clone(), at.0.as_microsecond())));
                self.flux_jobs.insert(key, Arc::clone(job));
            }
            Event::FluxJobGone(id) => {
                self.gone.insert(id.uid.clone());
                if self
                    .flux_jobs
                    .get(&id.key)
                    .is_some_and(|job| job.metadata.uid.as_deref() == Some(&*id.uid))
                {
                    self.flux_jobs.remove(&id.key);
                }
            }
            Event::Queue(queue) => self.queues.put(queue),
            Event::QueueGone(name) => self.queues.remove(name),
            Event::Namespace(namespace) => self.queues.put_namespace(namespace),
            Event::PodGroup(group) => {
                self.pod_groups.insert(group.id.key.clone(), Arc::clone(group));
            }
            Event::PodGroupGone(id) => {
                if self.pod_groups.get(&id.key).is_some_and(|group| group.id.uid == id.uid) {
                    self.pod_groups.remove(&id.key);
                }
            }
            Event::NamespaceGone(_)
            | Event::PriorityClass(_)
            | Event::PriorityClassGone(_)
            | Event::DeviceClass(_)
            | Event::DeviceClassGone(_)
            | Event::Quota(_)
            | Event::QuotaGone(_)
            | Event::PodGroupsHidden(_)
            | Event::Workload(_)
            | Event::WorkloadGone(_)
            | Event::Storage(_) => {}
            Event::Synced => self.synced = true,
            Event::ClockOffset(offset) => self.offset_max = self.offset_max.max(Some(*offset)),
            Event::Done(id, outcome) => self.tell_outcome(*id, outcome, now),
        }
    }

    fn note_end(&mut self, uid: &Uid, now: Time) {
        let Some(pod) = self.pods.get(uid).filter(|pod| !pod.phase.is_terminal()) else { return };
        let unit = Unit::of(pod);
        let stays = |other: &&Arc<Pod>| {
            other.id.uid != *uid && !other.phase.is_terminal() && Unit::of(other) == unit
        };
        if matches!(unit, Unit::PodGroup(..)) && !self.pods.values().any(|other| stays(&other)) {
            let records = jobs::records(&unit, &self.flux_jobs).into_iter();
            let uids = records.filter_map(|job| job.metadata.uid.as_deref().map(Uid::from));
            self.ended.extend(uids.collect::<Vec<_>>());
        }
        if self.node_of(pod).is_some() {
            self.left.insert(unit, now);
        }
    }

    fn note_placement(&mut self, job: &FluxJob) {
        let (Some(uid), Some(status)) = (&job.metadata.uid, &job.status) else { return };
        let uid = Uid::from(uid.as_str());
        if !self.synced && !status.placement.is_empty() {
            self.scaled_up.insert(Uid::from(job.spec.workload_ref.uid.as_str()));
        }
        self.acknowledge(&uid, &status.placement);
        let version = job
            .metadata
            .resource_version
            .as_ref()
            .and_then(|version| version.parse().ok())
            .unwrap_or(0);
        if self.placements.get(&uid).is_none_or(|(known, _)| *known <= version) {
            self.placements.insert(uid, (version, status.placement.clone()));
        }
    }

    fn acknowledge(&mut self, uid: &Uid, placement: &[PlacementRange]) {
        let known = self.acknowledged.entry(uid.clone()).or_default();
        if !placement.is_empty() && !known.iter().any(|it| it == placement) {
            known.push(placement.to_vec());
        }
    }

    /// Counts the creations of a record as over, whatever their answers will be.
    fn end_creations(&mut self, key: &ObjectKey) {
        self.end_open(|it| match it {
            ActionKind::Write(Write::CreateFluxJob { job, .. }) => flux_job_key(job) == *key,
            _ => false,
        });
    }

    fn end_open(&mut self, is_over: impl Fn(&ActionKind) -> bool) {
        self.over.extend(self.open.iter().filter(|(_, it)| is_over(it)).map(|(id, _)| *id));
    }

    fn tell_outcome(&mut self, id: ActionId, outcome: &Outcome, now: Time) {
        self.over.remove(&id);
        match (self.open.remove(&id), outcome) {
            (Some(ActionKind::Bind { pod, .. }), Outcome::Bind(outcome)) => {
                let Some(binding) = self.bindings.get_mut(&pod.uid) else { return };
                match outcome {
                    BindOutcome::Bound => binding.state = BindingState::Sure,
                    BindOutcome::BoundElsewhere(node) => {
                        (binding.node, binding.state) = (node.clone(), BindingState::Sure);
                    }
                    BindOutcome::Failed(_) => {
                        (binding.state, binding.failed) = (BindingState::Unsure(now), Some(now));
                    }
                    // A refusal does not say that an earlier attempt had no effect.
                    BindOutcome::Refused(_) if binding.may_show_yet(now) => {
                        binding.state = binding.failed.map_or(binding.state, BindingState::Unsure);
                    }
                    BindOutcome::Gone
                    | BindOutcome::Deleting
                    | BindOutcome::Gated
                    | BindOutcome::Refused(_) => {
                        self.bindings.remove(&pod.uid);
                    }
                }
            }
            (
                Some(ActionKind::Write(Write::WriteStatus { job, status, .. })),
                Outcome::Write(WriteOutcome::Written(stored)),
            ) => {
                self.acknowledge(&job.uid, &status.placement);
                // A trailing write that this one has overtaken is over.
                self.end_open(|it| match it {
                    ActionKind::Write(Write::WriteStatus { job: other, .. }) => {
                        other.uid == job.uid
                    }
                    _ => false,
                });
                if let Some(stored) = stored {
                    self.note_placement(stored);
                }
            }
            (
                Some(ActionKind::Write(Write::CreateFluxJob { .. })),
                Outcome::Write(WriteOutcome::Written(Some(job))),
            ) => {
                // A creation that this one has overtaken is over too.
                self.end_creations(&flux_job_key(job));
                self.note_placement(job);
            }
            (
                Some(ActionKind::Write(Write::ReleaseJob { job, .. })),
                Outcome::Write(WriteOutcome::Written(_)),
            ) => {
                self.released.insert(job.uid);
            }
            (
                Some(ActionKind::Write(Write::SetGroupCondition { group, condition, .. })),
                Outcome::Write(WriteOutcome::Written(_)),
            ) if condition.is_true => {
                self.started_groups.insert(group.uid);
            }
            (
                Some(ActionKind::Write(Write::Ungate { pod, .. })),
                Outcome::Write(WriteOutcome::Written(_)),
            ) => {
                self.ungated.insert(pod.uid);
            }
            _ => {}
        }
    }

    /// Takes up an action of the core.
    pub(crate) fn ask(&mut self, action: &Action, now: Time) {
        if let ActionKind::Write(Write::SetGroupCondition { group, .. }) = &action.kind {
            self.told_groups.insert(group.uid.clone(), now);
        }
        if let ActionKind::Bind { pod, node, .. } = &action.kind {
            let failed = self.bindings.get(&pod.uid).and_then(|before| before.failed);
            let binding = Binding { node: node.clone(), state: BindingState::Open, failed };
            self.bindings.insert(pod.uid.clone(), binding);
        }
        if let ActionKind::Write(Write::WriteStatus { job, status, .. }) = &action.kind
            && matches!(status.state, Some(JobState::Completed | JobState::Failed))
        {
            self.ended.insert(job.uid.clone());
        }
        if let ActionKind::Write(Write::WriteStatus { job, status, .. }) = &action.kind {
            if status.queued_at.is_some() {
                self.gave_up_places.remove(&job.uid);
            } else if says_paused(status) {
                self.gave_up_places.insert(job.uid.clone());
            }
        }
        if !matches!(action.kind, ActionKind::Note(_)) {
            self.open.insert(action.id, action.kind.clone());
        }
    }

    /// Returns the node on which the pod is or may be, as far as the core knows.
    pub(crate) fn node_of<'a>(&'a self, pod: &'a Pod) -> Option<&'a NodeName> {
        pod.node.as_ref().or_else(|| Some(&self.bindings.get(&pod.id.uid)?.node))
    }

    /// Returns the node on which the pod takes up room, or will: another scheduler relies on the
    /// room of its nominated node.
    fn place_of<'a>(&'a self, pod: &'a Pod) -> Option<&'a NodeName> {
        let nominated = || pod.nominated.as_ref().filter(|_| pod.scheduler != self.scheduler);
        self.node_of(pod).or_else(nominated)
    }

    /// Returns all pods that are or may be on a node, and have not ended, with their nodes. A
    /// Binding that failed and has not shown for a while had no effect.
    pub(crate) fn placed(&self, now: Time) -> impl Iterator<Item = (&NodeName, &Pod)> + Clone {
        let given_up = move |pod: &Pod| {
            let binding = self.bindings.get(&pod.id.uid).filter(|_| pod.node.is_none());
            binding.is_some_and(|it| match it.state {
                BindingState::Unsure(at) => at.plus_millis(DOUBT_MILLIS) <= now,
                _ => false,
            })
        };
        self.pods
            .values()
            .map(|pod| &**pod)
            .filter(move |pod| !pod.phase.is_terminal() && !given_up(pod))
            .filter_map(|pod| Some((self.place_of(pod)?, pod)))
    }

    /// Returns those of them that are or may be on this node.
    pub(crate) fn charged<'a>(
        &'a self,
        node: &'a NodeName,
        now: Time,
    ) -> impl Iterator<Item = &'a Pod> + Clone {
        self.placed(now).filter(move |(place, _)| *place == node).map(|(_, pod)| pod)
    }
}
