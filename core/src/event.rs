//! What the core is told.

use std::sync::Arc;

use fluxqueue_api::FluxJob;

use crate::ActionId;
use fluxqueue_machine::cluster::Node;
use fluxqueue_machine::cluster::volumes::StorageNews;
use fluxqueue_planner::queues::{Namespace, QueueObject};
use fluxqueue_workload::{Controller, NodeName, ObjectRef, Pod, PriorityClass, Quota, Uid};

/// Something happened. Per object, events arrive in the order of its changes, but may be repeated,
/// skipped (only the newest state is sure to come) and late; between objects there is no order at
/// all.
#[derive(Debug, Clone)]
pub enum Event {
    /// A node is there, or has changed.
    Node(Arc<Node>),
    /// The node of this name and uid is gone.
    NodeGone(NodeName, Uid),
    /// A pod is there, or has changed.
    Pod(Arc<Pod>),
    /// The pod is gone.
    PodGone(ObjectRef),
    /// A Job, ReplicaSet, Deployment or StatefulSet is there, or has changed.
    Controller(Arc<Controller>),
    /// It is gone.
    ControllerGone(Uid),
    /// A FluxJob is there, or has changed.
    FluxJob(Arc<FluxJob>),
    /// It is gone.
    FluxJobGone(ObjectRef),
    /// A ResourceQuota is there.
    Quota(Arc<Quota>),
    /// It is gone.
    QuotaGone(ObjectRef),
    /// A PriorityClass is there.
    PriorityClass(Arc<PriorityClass>),
    /// The PriorityClass of this name is gone.
    PriorityClassGone(Arc<str>),
    /// A FluxQueue is there, or has changed.
    Queue(Arc<QueueObject>),
    /// The FluxQueue of this name is gone.
    QueueGone(Arc<str>),
    /// A namespace is there, or has changed.
    Namespace(Arc<Namespace>),
    /// The namespace of this name is gone.
    NamespaceGone(Arc<str>),
    /// News about claims, volumes and what is around them.
    Storage(StorageNews),
    /// The API server's clock was compared with the core's: so many microseconds are to be added to
    /// the core's time. The core's own time grows evenly from where the process started, whatever
    /// happens to clocks.
    ClockOffset(i64),
    /// The first list of every kind has been delivered. Before this the core places nothing.
    Synced,
    /// An action has ended. Comes exactly once for each action that has an outcome (see
    /// [`crate::ActionKind`]), unless the process dies.
    Done(ActionId, Outcome),
}

/// How an action ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Of a Bind.
    Bind(BindOutcome),
    /// Of any other write.
    Write(WriteOutcome),
}

/// How a Binding ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod is on the node we meant: 201, or 409 and a read showed it there.
    Bound,
    /// A read showed the pod on another node.
    BoundElsewhere(NodeName),
    /// The pod is gone, or its name belongs to another uid.
    Gone,
    /// The pod is being deleted.
    Deleting,
    /// The pod carries scheduling gates.
    Gated,
    /// The server refuses: by permission, quota, policy or admission, or since the request is
    /// invalid. The pod is not bound by this Binding. The text is what the server says.
    Refused(String),
    /// There was no answer, or one that leaves open whether the pod is bound. The text is for
    /// people.
    Failed(String),
}

/// How a write other than a Binding ended.
#[derive(Debug, Clone)]
pub enum WriteOutcome {
    /// Written. For the creation of a FluxJob and for its status: the object as stored, if the
    /// answer had it.
    Written(Option<Arc<FluxJob>>),
    /// There already is an object of that name (creation only).
    Exists,
    /// The object is not of the version that the write was decided on: nothing was written, and
    /// newer news is on its way.
    Conflict,
    /// Never sent: an urgent write of the same object took its place.
    Replaced,
    /// The object is gone, or has another uid.
    Gone,
    /// The server says that the content is invalid: nothing was written, and the same content never
    /// will be.
    Invalid(String),
    /// The server refuses by permission, quota, policy or admission: nothing was written. The text
    /// is what the server says.
    Refused(String),
    /// Anything else; it may have taken effect or not.
    Failed(String),
}

impl BindOutcome {
    /// The outcome as a metric's label.
    pub fn result(&self) -> &'static str {
        match self {
            BindOutcome::Bound => "bound",
            BindOutcome::BoundElsewhere(_) => "bound_elsewhere",
            BindOutcome::Gone => "gone",
            BindOutcome::Deleting => "deleting",
            BindOutcome::Gated => "gated",
            BindOutcome::Refused(_) => "refused",
            BindOutcome::Failed(_) => "failed",
        }
    }
}

impl WriteOutcome {
    /// What the server says if it refuses to write; nothing was written then.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            WriteOutcome::Invalid(text) | WriteOutcome::Refused(text) => Some(text),
            _ => None,
        }
    }

    /// The outcome as a metric's label.
    pub fn result(&self) -> &'static str {
        match self {
            WriteOutcome::Written(_) => "written",
            WriteOutcome::Exists => "exists",
            WriteOutcome::Conflict => "conflict",
            WriteOutcome::Replaced => "replaced",
            WriteOutcome::Gone => "gone",
            WriteOutcome::Invalid(_) => "invalid",
            WriteOutcome::Refused(_) => "refused",
            WriteOutcome::Failed(_) => "failed",
        }
    }
}
