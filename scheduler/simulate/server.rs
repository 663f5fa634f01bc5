//! A perfect API server, with perfect controllers and kubelets behind it: it carries out every
//! write at once.
//!
//! It holds the objects, answers the core's actions, and returns the changes that the watches would
//! show.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{FluxJob, FluxJobStatus};
use fluxqueue_core::{Action, ActionKind, BindOutcome, Event, Outcome, Write, WriteOutcome};
use fluxqueue_machine::cluster::Node;
use fluxqueue_planner::queues::QueueObject;
use fluxqueue_workload::{
    Controller, NodeName, ObjectKey, ObjectRef, OwnerKind, Phase, Pod, ScheduledCondition,
    ShapeInterner, Time, Uid,
};

/// All objects.
#[derive(Debug, Default)]
pub struct Server {
    /// Nodes, by name.
    pub nodes: BTreeMap<NodeName, Arc<Node>>,
    /// Pods.
    pub pods: BTreeMap<ObjectKey, Arc<Pod>>,
    /// The objects that make pods, by uid.
    pub controllers: BTreeMap<Uid, Arc<Controller>>,
    flux_jobs: BTreeMap<ObjectKey, Arc<FluxJob>>,
    /// Queues, by name.
    pub queues: BTreeMap<Arc<str>, Arc<QueueObject>>,
    /// The interner by which pods with equal requests share one shape, as in the watch.
    pub shapes: ShapeInterner,
    uids: u64,
    now: Time,
}

impl Server {
    /// Returns a uid that no object had before, as long as a real one.
    pub fn new_uid(&mut self) -> Uid {
        self.uids += 1;
        Uid::from(format!("{:08x}-0000-4000-8000-{:012x}", self.uids, self.uids))
    }

    /// Lists all objects, as the first lists show them.
    pub fn list(&self) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        events.extend(self.nodes.values().cloned().map(Event::Node));
        events.extend(self.pods.values().cloned().map(Event::Pod));
        events.extend(self.controllers.values().cloned().map(Event::Controller));
        events.extend(self.queues.values().cloned().map(Event::Queue));
        events.extend(self.flux_jobs.values().cloned().map(Event::FluxJob));
        events.push(Event::Synced);
        events
    }

    /// Makes or changes a node.
    pub fn put_node(&mut self, node: Node) -> Event {
        let node = Arc::new(node);
        self.nodes.insert(node.name.clone(), Arc::clone(&node));
        Event::Node(node)
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &NodeName) -> Option<Event> {
        let node = self.nodes.remove(name)?;
        Some(Event::NodeGone(name.clone(), node.uid.clone()))
    }

    /// Makes or changes a pod.
    pub fn put_pod(&mut self, pod: Pod) -> Event {
        let pod = Arc::new(pod);
        self.pods.insert(pod.id.key.clone(), Arc::clone(&pod));
        Event::Pod(pod)
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> Option<Event> {
        self.pods.remove(key).map(|pod| Event::PodGone(pod.id.clone()))
    }

    /// Makes or changes an object that makes pods.
    pub fn put_controller(&mut self, controller: Controller) -> Event {
        let controller = Arc::new(controller);
        self.controllers.insert(controller.id.uid.clone(), Arc::clone(&controller));
        Event::Controller(controller)
    }

    /// Marks these pods as succeeded, as their kubelets would.
    pub fn succeed(&mut self, keys: &[ObjectKey]) -> Vec<Event> {
        let mut events = Vec::new();
        for key in keys {
            if let Some(mut pod) = self.pods.get(key).map(|pod| Pod::clone(pod)) {
                pod.phase = Phase::Succeeded;
                events.push(self.put_pod(pod));
            }
        }
        events
    }

    /// Counts these pods as ended, as their Jobs would.
    pub fn count(&mut self, keys: &[ObjectKey]) -> Vec<Event> {
        let mut ended: BTreeMap<Uid, u32> = BTreeMap::new();
        for owner in keys.iter().filter_map(|key| self.pods.get(key)?.owner.as_ref()) {
            *ended.entry(owner.uid.clone()).or_default() += 1;
        }
        let mut events = Vec::new();
        for (uid, count) in ended {
            // Only Jobs count pods that have ended.
            let Some(job) = self.controllers.get(&uid).filter(|it| it.kind == OwnerKind::Job)
            else {
                continue;
            };
            let mut job = Controller::clone(job);
            job.succeeded += count;
            let left = job.completions.unwrap_or(u32::MAX).saturating_sub(job.succeeded);
            job.wants = job.parallelism.min(left);
            job.can_start_together = job.wants;
            job.finished = left == 0;
            events.push(self.put_controller(job));
        }
        events
    }

    /// Carries out these actions at this time, and returns the answers and the news of the watches.
    pub fn answer(&mut self, actions: Vec<Action>, now: Time) -> Vec<Event> {
        self.now = now;
        let mut events = Vec::with_capacity(actions.len());
        for Action { id, kind } in actions {
            let outcome = match kind {
                ActionKind::Bind { pod, node, queue } => {
                    Outcome::Bind(self.bind(&pod, &node, queue, &mut events))
                }
                ActionKind::Write(write) => Outcome::Write(self.write(write, &mut events)),
                ActionKind::Note(_) => continue,
            };
            events.push(Event::Done(id, outcome));
        }
        events
    }

    /// Carries out a write.
    fn write(&mut self, write: Write, events: &mut Vec<Event>) -> WriteOutcome {
        match write {
            Write::Ungate { pod, gate, .. } => {
                self.change(&pod, events, |pod| pod.gates.retain(|held| *held != gate))
            }
            Write::SetPodScheduled { pod, reason, message, .. } => {
                let condition =
                    ScheduledCondition { scheduled: false, reason: reason.to_owned(), message };
                self.change(&pod, events, |pod| pod.scheduled_condition = Some(condition))
            }
            Write::Nominate { pod, node, .. } => {
                self.change(&pod, events, |pod| pod.nominated = node)
            }
            Write::CreateFluxJob { job, .. } => self.create(*job, events),
            Write::WriteStatus { job, status, .. } => {
                self.write_status(&job, Arc::unwrap_or_clone(status), events)
            }
            Write::DeleteFluxJob { job, .. } => match self.flux_jobs.remove(&job.key) {
                Some(_) => {
                    events.push(Event::FluxJobGone(job));
                    WriteOutcome::Written(None)
                }
                None => WriteOutcome::Gone,
            },
            Write::WriteQueueStatus { queue, status, .. } => match self.queues.get_mut(&queue) {
                Some(stored) => {
                    Arc::make_mut(stored).status = *status;
                    WriteOutcome::Written(None)
                }
                None => WriteOutcome::Gone,
            },
            Write::SetGroupCondition { .. } => WriteOutcome::Written(None),
            // The simulated cluster has neither storage nor suspended Jobs.
            Write::SelectNode { .. }
            | Write::ClaimVolume { .. }
            | Write::ReleaseJob { .. }
            | Write::SuspendJob { .. } => WriteOutcome::Gone,
        }
    }

    /// Binds a pod, and shows it on its node, and then running.
    fn bind(
        &mut self,
        id: &ObjectRef,
        node: &NodeName,
        queue: Arc<str>,
        events: &mut Vec<Event>,
    ) -> BindOutcome {
        let Some(pod) = self.pods.get(&id.key).filter(|pod| pod.id.uid == id.uid) else {
            return BindOutcome::Gone;
        };
        if let Some(bound) = &pod.node {
            return if bound == node {
                BindOutcome::Bound
            } else {
                BindOutcome::BoundElsewhere(bound.clone())
            };
        }
        let mut pod = Pod::clone(pod);
        pod.node = Some(node.clone());
        pod.charged_queue = Some(queue);
        pod.scheduled_condition = Some(scheduled());
        let mut running = pod.clone();
        running.phase = Phase::Running;
        running.started = Some(self.now);
        events.push(self.put_pod(pod));
        events.push(self.put_pod(running));
        BindOutcome::Bound
    }

    fn change(
        &mut self,
        id: &ObjectRef,
        events: &mut Vec<Event>,
        change: impl FnOnce(&mut Pod),
    ) -> WriteOutcome {
        let Some(pod) = self.pods.get(&id.key).filter(|pod| pod.id.uid == id.uid) else {
            return WriteOutcome::Gone;
        };
        let mut pod = Pod::clone(pod);
        change(&mut pod);
        events.push(self.put_pod(pod));
        WriteOutcome::Written(None)
    }

    fn create(&mut self, mut job: FluxJob, events: &mut Vec<Event>) -> WriteOutcome {
        let key = key_of(&job);
        if self.flux_jobs.contains_key(&key) {
            return WriteOutcome::Exists;
        }
        job.metadata.uid = Some(self.new_uid().to_string());
        job.metadata.generation = Some(1);
        let job = Arc::new(job);
        self.flux_jobs.insert(key, Arc::clone(&job));
        events.push(Event::FluxJob(Arc::clone(&job)));
        WriteOutcome::Written(Some(job))
    }

    fn write_status(
        &mut self,
        id: &ObjectRef,
        status: FluxJobStatus,
        events: &mut Vec<Event>,
    ) -> WriteOutcome {
        let Some(job) = self.flux_jobs.get_mut(&id.key) else { return WriteOutcome::Gone };
        let mut written = FluxJob::clone(job);
        written.status = Some(status);
        *job = Arc::new(written);
        events.push(Event::FluxJob(Arc::clone(job)));
        WriteOutcome::Written(None)
    }
}

/// Returns the condition of a pod that has a node.
pub fn scheduled() -> ScheduledCondition {
    ScheduledCondition { scheduled: true, reason: String::new(), message: String::new() }
}

fn key_of(job: &FluxJob) -> ObjectKey {
    let metadata = &job.metadata;
    ObjectKey::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}
