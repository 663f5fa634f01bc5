//! A small model of the API server: the objects as they really are, and the rules by which the
//! server changes them.
//!
//! Changes are handed to the [`crate::channel`], which decides who learns of them, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{ConditionType, FluxJob, FluxJobStatus, FluxQueueStatus};
use fluxqueue_core::{ActionKind, BindOutcome, Event, Outcome, Write, WriteOutcome};
use fluxqueue_machine::cluster::Node;
use fluxqueue_planner::queues::QueueObject;
use fluxqueue_workload::pod_group::{GroupCondition, PodGroup};
use fluxqueue_workload::{
    Controller, NodeName, ObjectKey, ObjectRef, OwnerKind, Pod, ScheduledCondition,
    SuspensionPhase, Time, Uid,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::jiff::Timestamp;

use crate::objects::{NAMESPACE, SECOND, SECOND_UID, own_namespace};
use crate::refusals::{self, Refusal};

/// The PriorityClasses, which always exist.
pub(crate) const PRIORITY_CLASSES: [(&str, i32); 4] =
    [("low", -10), ("none", 0), ("raised", 5), ("high", 50)];

/// All objects, and what changed since the changes were last taken.
#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) nodes: BTreeMap<NodeName, Arc<Node>>,
    pub(crate) pods: BTreeMap<ObjectKey, Arc<Pod>>,
    pub(crate) controllers: BTreeMap<Uid, Arc<Controller>>,
    pub(crate) flux_jobs: BTreeMap<ObjectKey, Arc<FluxJob>>,
    pub(crate) queues: BTreeMap<Arc<str>, Arc<QueueObject>>,
    pub(crate) pod_groups: BTreeMap<ObjectKey, Arc<PodGroup>>,
    /// True if the namespace of Fluxqueue says that it is paused.
    pub(crate) is_paused: bool,
    /// Pods of ours that another user or scheduler bound.
    pub(crate) bound_by_others: BTreeSet<Uid>,
    /// Versions of `FluxJob`s that a leader wrote after its successor had taken over, by their
    /// uids.
    late_writes: BTreeMap<Uid, String>,
    changes: Vec<Event>,
    uids: u64,
    /// How many uids each other stream has handed out.
    uids_of: BTreeMap<Arc<str>, u64>,
    /// Namespaces with some writes refused for now.
    pub(crate) refusals: BTreeMap<Arc<str>, Refusal>,
    revision: u64,
}

impl Server {
    /// Returns a uid that no object had before.
    pub(crate) fn new_uid(&mut self) -> Uid {
        self.uids += 1;
        Uid::from(format!("uid-{:06}", self.uids))
    }

    /// Returns a uid that no object had before, and that does not depend on the requests of other
    /// streams.
    pub(crate) fn new_uid_of(&mut self, stream: &str) -> Uid {
        let made = self.uids_of.entry(Arc::from(stream)).or_default();
        *made += 1;
        Uid::from(format!("{stream}.{made:04}"))
    }

    /// Returns the key and a new uid for an object of this name. In any other than the usual
    /// namespace the uid depends only on the name, and on how many objects have had it, so that it
    /// is the same whatever happens elsewhere.
    pub(crate) fn new_ref_in(
        &mut self,
        namespace: &Arc<str>,
        scheduler: &str,
        name: &str,
    ) -> ObjectRef {
        if **namespace == *NAMESPACE {
            return self.new_ref_for(scheduler, name);
        }
        let uid = self.new_uid_of(&format!("{namespace}.{name}"));
        ObjectRef { key: ObjectKey::new(Arc::clone(namespace), name), uid }
    }

    /// Returns the key and a new uid for an object of this name.
    pub(crate) fn new_ref(&mut self, name: &str) -> ObjectRef {
        ObjectRef { key: ObjectKey::new(NAMESPACE, name), uid: self.new_uid() }
    }

    /// Returns the same for an object of this scheduler. Its uid contains the scheduler, so that
    /// the owner of a `FluxJob`'s pods can be read from the `FluxJob`.
    pub(crate) fn new_ref_for(&mut self, scheduler: &str, name: &str) -> ObjectRef {
        let prefix = if scheduler == SECOND { SECOND_UID } else { "" };
        let id = self.new_ref(name);
        ObjectRef { uid: Uid::from(format!("{prefix}{}", id.uid)), ..id }
    }

    /// Notes that the stored object was written by a leader with a successor that does not know of
    /// the write yet.
    pub(crate) fn note_late_write(&mut self, job: &ObjectRef) {
        let version =
            self.flux_job(job).and_then(|stored| stored.metadata.resource_version.clone());
        self.late_writes.extend(version.map(|version| (job.uid.clone(), version)));
    }

    /// True if such a leader was the last to write this object.
    pub(crate) fn was_written_late(&self, job: &FluxJob) -> bool {
        let uid = job.metadata.uid.as_deref().unwrap_or("");
        self.late_writes
            .get(uid)
            .is_some_and(|version| job.metadata.resource_version.as_ref() == Some(version))
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn put_node(&mut self, node: Node) {
        let node = Arc::new(node);
        self.nodes.insert(node.name.clone(), Arc::clone(&node));
        self.changes.push(Event::Node(node));
    }

    pub(crate) fn remove_node(&mut self, name: &NodeName) {
        if let Some(node) = self.nodes.remove(name) {
            self.changes.push(Event::NodeGone(name.clone(), node.uid.clone()));
        }
    }

    /// Stores the pod. Storing an unchanged one is no change.
    pub(crate) fn put_pod(&mut self, mut pod: Pod) {
        let old = self.pods.get(&pod.id.key);
        pod.resource_version = old.and_then(|old| old.resource_version.clone());
        if old.is_some_and(|old| **old == pod) {
            return;
        }
        self.revision += 1;
        pod.resource_version = pod.node.is_none().then(|| Arc::from(self.revision.to_string()));
        let pod = Arc::new(pod);
        self.pods.insert(pod.id.key.clone(), Arc::clone(&pod));
        self.changes.push(Event::Pod(pod));
    }

    pub(crate) fn remove_pod(&mut self, key: &ObjectKey) {
        if let Some(pod) = self.pods.remove(key) {
            self.changes.push(Event::PodGone(pod.id.clone()));
        }
    }

    /// Requests the pod's deletion: a pod on a node goes when its kubelet lets go of it, and a
    /// Job's when its controller has counted it.
    pub(crate) fn delete_pod(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key) else { return };
        let of_job = pod.owner.as_ref().is_some_and(|owner| owner.kind == OwnerKind::Job);
        if (pod.node.is_none() && !of_job) || pod.phase.is_terminal() {
            self.remove_pod(key);
        } else {
            let mut pod = Pod::clone(pod);
            pod.deleting = true;
            self.put_pod(pod);
        }
    }

    /// Returns the pod, if it still is the one with this uid.
    pub(crate) fn pod(&self, id: &ObjectRef) -> Option<&Arc<Pod>> {
        self.pods.get(&id.key).filter(|pod| pod.id.uid == id.uid)
    }

    /// Stores an object that makes pods. Storing an unchanged one is no change.
    pub(crate) fn put_controller(&mut self, mut controller: Controller) {
        if let Some(old) = self.controllers.get(&controller.id.uid) {
            let mut known = Controller::clone(old);
            if let (Some(version), Some(known)) =
                (version_of(&mut controller), version_of(&mut known))
            {
                version.clone_from(known);
            }
            if **old == controller {
                return;
            }
        }
        self.revision += 1;
        if let Some(version) = version_of(&mut controller) {
            *version = Some(Arc::from(self.revision.to_string()));
        }
        let controller = Arc::new(controller);
        self.controllers.insert(controller.id.uid.clone(), Arc::clone(&controller));
        self.changes.push(Event::Controller(controller));
    }

    pub(crate) fn remove_controller(&mut self, uid: &Uid) {
        if self.controllers.remove(uid).is_some() {
            self.changes.push(Event::ControllerGone(uid.clone()));
        }
    }

    pub(crate) fn remove_queue(&mut self, name: &str) {
        if let Some((name, _)) = self.queues.remove_entry(name) {
            self.changes.push(Event::QueueGone(name));
        }
    }

    /// Stores a queue. Storing an unchanged one is no change.
    pub(crate) fn put_queue(&mut self, queue: QueueObject) {
        if self.queues.get(&queue.name).is_some_and(|old| **old == queue) {
            return;
        }
        let queue = Arc::new(queue);
        self.queues.insert(Arc::clone(&queue.name), Arc::clone(&queue));
        self.changes.push(Event::Queue(queue));
    }

    /// Stores a PodGroup. Storing an unchanged one is no change.
    pub(crate) fn put_pod_group(&mut self, mut group: PodGroup) {
        if self.pod_groups.get(&group.id.key).is_some_and(|old| **old == group) {
            return;
        }
        self.revision += 1;
        group.resource_version = Some(Arc::from(self.revision.to_string()));
        let group = Arc::new(group);
        self.pod_groups.insert(group.id.key.clone(), Arc::clone(&group));
        self.changes.push(Event::PodGroup(group));
    }

    pub(crate) fn remove_pod_group(&mut self, key: &ObjectKey) {
        if let Some(group) = self.pod_groups.remove(key) {
            self.changes.push(Event::PodGroupGone(group.id.clone()));
        }
    }

    /// Pauses Fluxqueue, or resumes it.
    pub(crate) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.changes.push(Event::Namespace(Arc::new(own_namespace(is_paused))));
    }

    pub(crate) fn put_flux_job(&mut self, mut job: FluxJob) {
        self.revision += 1;
        job.metadata.resource_version = Some(self.revision.to_string());
        let job = Arc::new(job);
        self.flux_jobs.insert(flux_job_key(&job), Arc::clone(&job));
        self.changes.push(Event::FluxJob(job));
    }

    pub(crate) fn remove_flux_job(&mut self, key: &ObjectKey) {
        if let Some(job) = self.flux_jobs.remove(key) {
            self.changes.push(Event::FluxJobGone(flux_job_ref(&job)));
        }
    }

    /// Returns the `FluxJob`, if it still is the one with this uid.
    pub(crate) fn flux_job(&self, id: &ObjectRef) -> Option<&Arc<FluxJob>> {
        self.flux_jobs.get(&id.key).filter(|job| job.metadata.uid.as_deref() == Some(&*id.uid))
    }

    /// Carries out the action as the API server would, and returns the answer.
    pub(crate) fn apply(&mut self, action: &ActionKind, now: Time) -> Outcome {
        if let Some(refused) = self.refused(action) {
            return refused;
        }
        match action {
            ActionKind::Bind { pod, node, queue } => {
                Outcome::Bind(self.bind(pod, node, queue, now))
            }
            ActionKind::Write(write) => Outcome::Write(self.write(write, now)),
            ActionKind::Note(_) => Outcome::Write(WriteOutcome::Written(None)),
        }
    }

    fn write(&mut self, write: &Write, now: Time) -> WriteOutcome {
        match write {
            Write::Ungate { pod, resource_version, gate } => {
                let version = resource_version.as_deref();
                self.change_pod(pod, version, |pod| pod.gates.retain(|g| g != gate))
            }
            Write::SetPodScheduled { pod, resource_version, reason, message, .. } => {
                let version = resource_version.as_deref();
                self.change_pod(pod, version, |pod| {
                    pod.scheduled_condition = Some(ScheduledCondition {
                        scheduled: false,
                        reason: (*reason).to_string(),
                        message: message.clone(),
                    });
                })
            }
            Write::Nominate { pod, resource_version, node } => {
                let version = resource_version.as_deref();
                self.change_pod(pod, version, |pod| pod.nominated.clone_from(node))
            }
            Write::CreateFluxJob { job, .. } => self.create(job, now),
            Write::WriteStatus { job, resource_version, status, .. } => {
                self.write_status(job, resource_version.as_deref(), status)
            }
            Write::DeleteFluxJob { job, resource_version } => match self.flux_job(job) {
                Some(stored) if !is_version(stored, resource_version.as_deref()) => {
                    WriteOutcome::Conflict
                }
                Some(_) => {
                    self.remove_flux_job(&job.key);
                    WriteOutcome::Written(None)
                }
                None => WriteOutcome::Gone,
            },
            Write::ReleaseJob { job, resource_version, at } => {
                let phase = SuspensionPhase::Released { at: *at };
                self.change_suspension(&job.uid, resource_version.as_deref(), phase)
            }
            Write::SuspendJob { job, resource_version } => {
                let phase = SuspensionPhase::Marked { resource_version: None, is_suspended: true };
                self.change_suspension(&job.uid, resource_version.as_deref(), phase)
            }
            Write::SetGroupCondition { group, resource_version, condition, .. } => {
                let version = resource_version.as_deref();
                self.set_group_condition(group, version, condition)
            }
            // There is no storage here.
            Write::SelectNode { .. } | Write::ClaimVolume { .. } => WriteOutcome::Gone,
            Write::WriteQueueStatus { queue, uid, status } => match self.queues.get(queue) {
                Some(stored) if stored.uid == *uid => {
                    let status = FluxQueueStatus::clone(status);
                    self.put_queue(QueueObject { status, ..QueueObject::clone(stored) });
                    WriteOutcome::Written(None)
                }
                _ => WriteOutcome::Gone,
            },
        }
    }

    fn refused(&self, action: &ActionKind) -> Option<Outcome> {
        let refusal = self.refusals.get(&refusals::object_of(action)?.namespace)?;
        refusal.of(action)
    }

    fn bind(
        &mut self,
        id: &ObjectRef,
        node: &NodeName,
        queue: &Arc<str>,
        now: Time,
    ) -> BindOutcome {
        let Some(pod) = self.pod(id) else { return BindOutcome::Gone };
        if let Some(bound) = &pod.node {
            return if bound == node {
                BindOutcome::Bound
            } else {
                BindOutcome::BoundElsewhere(bound.clone())
            };
        }
        if pod.deleting {
            return BindOutcome::Deleting;
        }
        if !pod.gates.is_empty() {
            return BindOutcome::Gated;
        }
        // The real API server does not check either whether the node exists or has room.
        let mut pod = Pod::clone(pod);
        pod.node = Some(node.clone());
        pod.charged_queue = Some(Arc::clone(queue));
        pod.started = Some(now);
        pod.nominated = None;
        pod.scheduled_condition = Some(ScheduledCondition {
            scheduled: true,
            reason: String::new(),
            message: String::new(),
        });
        self.put_pod(pod);
        BindOutcome::Bound
    }

    fn change_pod(
        &mut self,
        id: &ObjectRef,
        version: Option<&str>,
        change: impl FnOnce(&mut Pod),
    ) -> WriteOutcome {
        let Some(pod) = self.pod(id) else { return WriteOutcome::Gone };
        if version.is_some() && pod.resource_version.as_deref() != version {
            return WriteOutcome::Conflict;
        }
        let mut pod = Pod::clone(pod);
        change(&mut pod);
        self.put_pod(pod);
        WriteOutcome::Written(None)
    }

    /// Changes the phase of a Job, if it is of this version.
    fn change_suspension(
        &mut self,
        uid: &Uid,
        version: Option<&str>,
        phase: SuspensionPhase,
    ) -> WriteOutcome {
        let Some(job) = self.controllers.get(uid) else { return WriteOutcome::Gone };
        let mut job = Controller::clone(job);
        if version_of(&mut job).and_then(|known| known.as_deref()) != version {
            return WriteOutcome::Conflict;
        }
        if let Some(suspension) = &mut job.suspension {
            suspension.phase = phase;
        }
        self.put_controller(job);
        WriteOutcome::Written(None)
    }

    /// Releases a Job that waits without pods on behalf of a user, with no admission that would
    /// prevent it.
    pub(crate) fn let_go(&mut self, uid: &Uid) {
        let Some(job) = self.controllers.get(uid) else { return };
        let mut job = Controller::clone(job);
        if let Some(SuspensionPhase::Marked { is_suspended, .. }) =
            job.suspension.as_mut().map(|it| &mut it.phase)
        {
            *is_suspended = false;
        }
        self.put_controller(job);
    }

    fn set_group_condition(
        &mut self,
        id: &ObjectRef,
        version: Option<&str>,
        condition: &GroupCondition,
    ) -> WriteOutcome {
        let stored = self.pod_groups.get(&id.key).filter(|group| group.id.uid == id.uid);
        let Some(group) = stored else { return WriteOutcome::Gone };
        if version.is_some() && group.resource_version.as_deref() != version {
            return WriteOutcome::Conflict;
        }
        let condition = Some(condition.clone());
        self.put_pod_group(PodGroup { condition, ..PodGroup::clone(group) });
        WriteOutcome::Written(None)
    }

    fn create(&mut self, job: &FluxJob, now: Time) -> WriteOutcome {
        let mut job = job.clone();
        if self.flux_jobs.contains_key(&flux_job_key(&job)) {
            return WriteOutcome::Exists;
        }
        let key = flux_job_key(&job);
        // Where there are several namespaces, events in one do not change the uids in another.
        let uid = match &*key.namespace {
            NAMESPACE => self.new_uid(),
            namespace => self.new_uid_of(&format!("{namespace}.fluxjob.{}", key.name)),
        };
        job.metadata.uid = Some(uid.to_string());
        job.metadata.generation = Some(1);
        job.metadata.creation_timestamp =
            Timestamp::from_second(now.seconds()).ok().map(meta::Time);
        job.status = None;
        self.put_flux_job(job);
        WriteOutcome::Written(self.flux_jobs.get(&key).cloned())
    }

    fn write_status(
        &mut self,
        id: &ObjectRef,
        version: Option<&str>,
        status: &FluxJobStatus,
    ) -> WriteOutcome {
        let Some(job) = self.flux_job(id) else { return WriteOutcome::Gone };
        if !is_version(job, version) {
            return WriteOutcome::Conflict;
        }
        // The write is an apply, so conditions of others stay.
        let mut status = status.clone();
        let conditions = job.status.iter().flat_map(|stored| &stored.conditions);
        let of_others =
            conditions.filter(|condition| ConditionType::from_name(&condition.type_).is_none());
        status.conditions.extend(of_others.cloned());
        if job.status.as_ref() != Some(&status) {
            let mut job = FluxJob::clone(job);
            job.status = Some(status);
            self.put_flux_job(job);
        }
        WriteOutcome::Written(self.flux_jobs.get(&id.key).cloned())
    }
}

/// Returns the version of a Job that waits without pods. The scheduler needs that of no other.
fn version_of(controller: &mut Controller) -> Option<&mut Option<Arc<str>>> {
    match &mut controller.suspension.as_mut()?.phase {
        SuspensionPhase::Marked { resource_version, .. } => Some(resource_version),
        SuspensionPhase::Released { .. } => None,
    }
}

/// True if the stored object is of the version that a write was decided on, or if the write has
/// none.
pub(crate) fn is_version(job: &FluxJob, version: Option<&str>) -> bool {
    version.is_none() || job.metadata.resource_version.as_deref() == version
}

/// Returns namespace and name of a `FluxJob`.
pub(crate) fn flux_job_key(job: &FluxJob) -> ObjectKey {
    ObjectKey::new(
        job.metadata.namespace.as_deref().unwrap_or(""),
        job.metadata.name.as_deref().unwrap_or(""),
    )
}

/// Returns key and uid of a stored `FluxJob`.
pub(crate) fn flux_job_ref(job: &FluxJob) -> ObjectRef {
    ObjectRef { key: flux_job_key(job), uid: Uid::from(job.metadata.uid.as_deref().unwrap_or("")) }
}
