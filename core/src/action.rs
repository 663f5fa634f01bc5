//! Actions: the writes that the core wants done.

use std::sync::Arc;

use fluxqueue_api::{FluxJob, FluxJobStatus, FluxQueueStatus};

use fluxqueue_workload::pod_group::{GroupCondition, GroupVersion};
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Time, Uid};

/// The number of an action, under which its outcome is reported. Never reused within a process.
pub type ActionId = u64;

/// One thing to do. Actions may be carried out in any order and concurrently: where order matters,
/// the core waits for the outcome of the first before it asks for the second. The exception is an
/// urgent write of a FluxJob, which may be asked for while a trailing one of it is on its way:
/// there the object's version decides.
#[derive(Debug, Clone)]
pub struct Action {
    /// The number to return with the outcome.
    pub id: ActionId,
    /// The write.
    pub kind: ActionKind,
}

/// The kinds of actions. All but [`ActionKind::Note`] have an outcome.
#[derive(Debug, Clone)]
pub enum ActionKind {
    /// POST a Binding with the pod's uid as precondition. Outcome:
    /// [`BindOutcome`](crate::event::BindOutcome).
    Bind {
        /// The pod.
        pod: ObjectRef,
        /// The node that it goes to.
        node: NodeName,
        /// The queue that the pod is charged to: the Binding writes it into the pod.
        queue: Arc<str>,
    },
    /// Write to one object. Outcome: [`WriteOutcome`](crate::event::WriteOutcome).
    Write(Write),
    /// Publish an Event. No outcome: it may be dropped, which is counted.
    Note(Note),
}

/// A write to one object of the API server, Bindings and Events aside.
#[derive(Debug, Clone)]
pub enum Write {
    /// Remove this scheduling gate from the pod (and no other), if uid and version still are the
    /// pod's.
    Ungate {
        /// The pod.
        pod: ObjectRef,
        /// The version of the pod on which this was decided, if known.
        resource_version: Option<Arc<str>>,
        /// The gate's name.
        gate: Arc<str>,
    },
    /// Set the pod's condition PodScheduled to False, if uid and version still are the pod's.
    SetPodScheduled {
        /// The pod.
        pod: ObjectRef,
        /// The version of the pod on which this was decided, if known.
        resource_version: Option<Arc<str>>,
        /// The condition's reason.
        reason: &'static str,
        /// The condition's message.
        message: String,
        /// True if the condition was not False before, so that its transition time is now.
        newly: bool,
    },
    /// Write the node that the pod is meant for into its status, or remove it, if uid and version
    /// still are the pod's.
    Nominate {
        /// The pod.
        pod: ObjectRef,
        /// The version of the pod on which this was decided, if known.
        resource_version: Option<Arc<str>>,
        /// The node.
        node: Option<NodeName>,
    },
    /// Create a FluxJob (its status is written apart). An urgent one may overtake a trailing one,
    /// as with [`Write::WriteStatus`].
    CreateFluxJob {
        /// The object, without status.
        job: Box<FluxJob>,
        /// The urgency of this write.
        urgency: Urgency,
    },
    /// Apply the status of a FluxJob, if uid and version still are the object's: parts of an
    /// earlier status that are missing now are removed, and the conditions of other writers stay.
    ///
    /// An urgent write may be requested while a trailing one of the same FluxJob has no outcome
    /// yet. A trailing write that was not sent is then dropped
    /// ([`Replaced`](crate::event::WriteOutcome::Replaced)); one that was sent is waited for, for
    /// 2 s at most.
    WriteStatus {
        /// The object.
        job: ObjectRef,
        /// The version of the object on which this was decided, if known.
        resource_version: Option<Arc<str>>,
        /// The whole status, without the conditions of other writers.
        status: Arc<FluxJobStatus>,
        /// The urgency of this write.
        urgency: Urgency,
    },
    /// Delete a FluxJob, with its uid and version as preconditions.
    DeleteFluxJob {
        /// The object.
        job: ObjectRef,
        /// The version of the object on which this was decided, if known.
        resource_version: Option<Arc<str>>,
    },
    /// Apply the status of a FluxQueue, if the uid still is the object's.
    WriteQueueStatus {
        /// Its name.
        queue: Arc<str>,
        /// Its uid.
        uid: Uid,
        /// The whole status.
        status: Box<FluxQueueStatus>,
    },
    /// Write the node for which a claim's volume is to be made into the claim, if uid and version
    /// still are the claim's.
    SelectNode {
        /// The claim.
        claim: ObjectRef,
        /// The version of the claim on which this was decided, if known.
        resource_version: Option<Arc<str>>,
        /// The node.
        node: NodeName,
    },
    /// Bind a volume to a claim from its own side, if uid and version still are the volume's. The
    /// controller does the rest.
    ClaimVolume {
        /// The volume; it has no namespace.
        volume: ObjectRef,
        /// The version of the volume on which this was decided, if known.
        resource_version: Option<Arc<str>>,
        /// The claim.
        claim: ObjectRef,
        /// True if a person has meant it for the claim already.
        was_meant: bool,
    },
    /// Take our mark and the suspension off a Job together, and record the time, if uid and version
    /// still are the Job's.
    ReleaseJob {
        /// The Job.
        job: ObjectRef,
        /// The version of the Job on which this was decided, if known.
        resource_version: Option<Arc<str>>,
        /// The time of the release, by the API server's clock.
        at: Time,
    },
    /// Suspend a Job again that carries our mark, if uid and version still are the Job's.
    SuspendJob {
        /// The Job.
        job: ObjectRef,
        /// The version of the Job on which this was decided, if known.
        resource_version: Option<Arc<str>>,
    },
    /// Set the condition of a PodGroup about the start of its pods, if uid and version still are
    /// the group's.
    SetGroupCondition {
        /// The group.
        group: ObjectRef,
        /// The version of the group on which this was decided, if known.
        resource_version: Option<Arc<str>>,
        /// The version of the API in which the group was read.
        version: GroupVersion,
        /// The condition.
        condition: Box<GroupCondition>,
        /// True if the condition had another status before, or was not there, so that its
        /// transition time is now.
        newly: bool,
    },
}

/// The urgency of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Bindings wait for the write.
    Urgent,
    /// The write may trail behind Bindings, within bounds.
    Trailing,
}

/// A Kubernetes Event to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The object it is about.
    pub subject: Subject,
    /// Normal or Warning.
    pub kind: EventKind,
    /// A CamelCase reason that [`EventReason::is_known`](fluxqueue_api::EventReason::is_known)
    /// knows.
    pub reason: &'static str,
    /// A CamelCase verb for the action.
    pub action: &'static str,
    /// The text for people.
    pub note: String,
    /// `reportingController`: the scheduler name that the pod asked for.
    pub reporter: Arc<str>,
}

/// The object of an Event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A pod.
    Pod(ObjectRef),
    /// A FluxJob.
    FluxJob(ObjectRef),
    /// A Job.
    Job(ObjectRef),
    /// A FluxQueue (events about objects without a namespace go to namespace `default`).
    FluxQueue {
        /// Its name.
        name: Arc<str>,
        /// Its uid.
        uid: Uid,
    },
    /// A node.
    Node {
        /// Its name.
        name: NodeName,
        /// Its uid.
        uid: Uid,
    },
}

/// The type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in Kubernetes")]
pub enum EventKind {
    Normal,
    Warning,
}

impl Subject {
    /// Returns namespace and name, for messages; a node or a queue has no namespace.
    pub fn key(&self) -> ObjectKey {
        match self {
            Subject::Pod(id) | Subject::FluxJob(id) | Subject::Job(id) => id.key.clone(),
            Subject::FluxQueue { name, .. } => ObjectKey::new("", Arc::clone(name)),
            Subject::Node { name, .. } => ObjectKey::new("", &**name),
        }
    }
}

impl Write {
    /// Returns the urgency of this write.
    pub fn urgency(&self) -> Urgency {
        match self {
            Write::CreateFluxJob { urgency, .. } | Write::WriteStatus { urgency, .. } => *urgency,
            Write::Ungate { .. }
            | Write::SelectNode { .. }
            | Write::ClaimVolume { .. }
            | Write::ReleaseJob { .. }
            | Write::SuspendJob { .. } => Urgency::Urgent,
            Write::SetPodScheduled { .. }
            | Write::Nominate { .. }
            | Write::DeleteFluxJob { .. }
            | Write::WriteQueueStatus { .. }
            | Write::SetGroupCondition { .. } => Urgency::Trailing,
        }
    }

    /// Returns the name of this kind of write in metrics and logs.
    pub fn operation(&self) -> &'static str {
        match self {
            Write::CreateFluxJob { .. } => "create_fluxjob",
            Write::WriteStatus { .. } => "write_status",
            Write::DeleteFluxJob { .. } => "delete_fluxjob",
            Write::WriteQueueStatus { .. } => "write_queue_status",
            Write::Ungate { .. } => "ungate_pod",
            Write::SetPodScheduled { .. } => "set_pod_condition",
            Write::Nominate { .. } => "nominate_pod",
            Write::SelectNode { .. } => "select_node",
            Write::ClaimVolume { .. } => "claim_volume",
            Write::ReleaseJob { .. } => "release_job",
            Write::SuspendJob { .. } => "suspend_job",
            Write::SetGroupCondition { .. } => "set_podgroup_condition",
        }
    }
}

impl From<Write> for ActionKind {
    fn from(write: Write) -> Self {
        ActionKind::Write(write)
    }
}
