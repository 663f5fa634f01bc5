//! What the core wants done.

use std::sync::Arc;

use fluxqueue_api::{FluxJob, FluxJobStatus, FluxQueueStatus};

use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Time, Uid};

/// Names an action, so that its outcome can be told. Never reused within a process.
pub type ActionId = u64;

/// One thing to do. Actions may be carried out in any order and concurrently: where order matters,
/// the core waits for the outcome of the first before it asks for the second. The exception is an
/// urgent write of a FluxJob, which may be asked for while a trailing one of it is on its way:
/// there the object's version decides.
#[derive(Debug, Clone)]
pub struct Action {
    /// To be returned with the outcome.
    pub id: ActionId,
    /// What to do.
    pub kind: ActionKind,
}

/// What to do. All but [`ActionKind::Note`] have an outcome.
#[derive(Debug, Clone)]
pub enum ActionKind {
    /// POST a Binding with the pod's uid as precondition. Outcome: [`crate::BindOutcome`].
    Bind {
        /// The pod.
        pod: ObjectRef,
        /// Where it goes.
        node: NodeName,
        /// The queue that the pod is charged to: the Binding brings it into the pod.
        queue: Arc<str>,
    },
    /// Remove this scheduling gate from the pod (and no other), if uid and version still are the
    /// pod's.
    Ungate {
        /// The pod.
        pod: ObjectRef,
        /// The version of the pod that this was decided on, if that is known.
        resource_version: Option<Arc<str>>,
        /// The gate's name.
        gate: Arc<str>,
    },
    /// Set the pod's condition PodScheduled to False, if uid and version still are the pod's.
    SetPodScheduled {
        /// The pod.
        pod: ObjectRef,
        /// The version of the pod that this was decided on, if that is known.
        resource_version: Option<Arc<str>>,
        /// The condition's reason.
        reason: &'static str,
        /// The condition's message.
        message: String,
        /// It was not False before, so this is when it became so.
        newly: bool,
    },
    /// Say in the pod's status for which node it is meant, or for none any more, if uid and version
    /// still are the pod's.
    Nominate {
        /// The pod.
        pod: ObjectRef,
        /// The version of the pod that this was decided on, if that is known.
        resource_version: Option<Arc<str>>,
        /// The node.
        node: Option<NodeName>,
    },
    /// Create a FluxJob (its status is written apart). An urgent one may overtake a trailing one,
    /// as with [`ActionKind::WriteStatus`].
    CreateFluxJob {
        /// The object, without status.
        job: Box<FluxJob>,
        /// How much it matters when.
        urgency: Urgency,
    },
    /// Apply the status of a FluxJob, if uid and version still are the object's: what was said in
    /// it and is said no longer goes, conditions of others stay.
    ///
    /// An urgent write may be asked for while a trailing one of the same FluxJob has no outcome
    /// yet. One that was not sent is then dropped ([`crate::WriteOutcome::Replaced`]); one that was
    /// is waited for, for 2 s at most.
    WriteStatus {
        /// The object.
        job: ObjectRef,
        /// The version of the object that this was decided on, if that is known.
        resource_version: Option<Arc<str>>,
        /// The whole status, without the conditions of others.
        status: Arc<FluxJobStatus>,
        /// How much it matters when.
        urgency: Urgency,
    },
    /// Delete a FluxJob, with its uid and version as preconditions.
    DeleteFluxJob {
        /// The object.
        job: ObjectRef,
        /// The version of the object that this was decided on, if that is known.
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
    /// Say in a claim for which node its volume is to be made, if uid and version still are the
    /// claim's.
    SelectNode {
        /// The claim.
        claim: ObjectRef,
        /// The version of the claim that this was decided on, if that is known.
        resource_version: Option<Arc<str>>,
        /// The node.
        node: NodeName,
    },
    /// Bind a volume to a claim from its own side, if uid and version still are the volume's. The
    /// controller does the rest.
    ClaimVolume {
        /// The volume; it has no namespace.
        volume: ObjectRef,
        /// The version of the volume that this was decided on, if that is known.
        resource_version: Option<Arc<str>>,
        /// The claim.
        claim: ObjectRef,
        /// A person has meant it for the claim already.
        was_meant: bool,
    },
    /// Take our mark and the suspension off a Job together, and say when, if uid and version still
    /// are the Job's.
    ReleaseJob {
        /// The Job.
        job: ObjectRef,
        /// The version of the Job that this was decided on, if that is known.
        resource_version: Option<Arc<str>>,
        /// When, by the API server's clock.
        at: Time,
    },
    /// Suspend a Job again that carries our mark, if uid and version still are the Job's.
    SuspendJob {
        /// The Job.
        job: ObjectRef,
        /// The version of the Job that this was decided on, if that is known.
        resource_version: Option<Arc<str>>,
    },
    /// Publish an Event. No outcome: it may be dropped, which is counted.
    Note(Note),
}

/// How much it matters when a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Bindings wait for it.
    Urgent,
    /// It may trail behind Bindings, within bounds.
    Trailing,
}

/// A Kubernetes Event to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The object it is about.
    pub subject: Subject,
    /// Normal or Warning.
    pub kind: EventKind,
    /// CamelCase, one that [`EventReason::is_known`](fluxqueue_api::EventReason::is_known) knows.
    pub reason: &'static str,
    /// CamelCase verb: what was done.
    pub action: &'static str,
    /// For people.
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

/// Normal or Warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in Kubernetes")]
pub enum EventKind {
    Normal,
    Warning,
}

impl Subject {
    /// Namespace and name, for messages; a node or a queue has no namespace.
    pub fn key(&self) -> ObjectKey {
        match self {
            Subject::Pod(id) | Subject::FluxJob(id) | Subject::Job(id) => id.key.clone(),
            Subject::FluxQueue { name, .. } => ObjectKey::new("", Arc::clone(name)),
            Subject::Node { name, .. } => ObjectKey::new("", &**name),
        }
    }
}
