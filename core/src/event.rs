//! Events: the news that the core receives.

use std::sync::Arc;

use fluxqueue_api::FluxJob;

use crate::action::ActionId;
use fluxqueue_machine::cluster::Node;
use fluxqueue_machine::cluster::volumes::StorageNews;
use fluxqueue_planner::queues::{Namespace, QueueObject};
use fluxqueue_workload::device_class::DeviceClass;
use fluxqueue_workload::pod_group::{GroupWorkload, PodGroup};
use fluxqueue_workload::{Controller, NodeName, ObjectRef, Pod, PriorityClass, Quota, Uid};

/// One piece of news. The events of one object arrive in the order of its changes, but may be
/// repeated, skipped (only the newest state is sure to come) and late; between objects there is no
/// order at all.
#[derive(Debug, Clone)]
pub enum Event {
    /// A node is new or has changed.
    Node(Arc<Node>),
    /// The node of this name and uid is gone.
    NodeGone(NodeName, Uid),
    /// A pod is new or has changed.
    Pod(Arc<Pod>),
    /// The pod is gone.
    PodGone(ObjectRef),
    /// A Job, ReplicaSet, Deployment or StatefulSet is new or has changed.
    Controller(Arc<Controller>),
    /// The controller of this uid is gone.
    ControllerGone(Uid),
    /// A FluxJob is new or has changed.
    FluxJob(Arc<FluxJob>),
    /// The FluxJob is gone.
    FluxJobGone(ObjectRef),
    /// A ResourceQuota is new or has changed.
    Quota(Arc<Quota>),
    /// The ResourceQuota is gone.
    QuotaGone(ObjectRef),
    /// A PriorityClass is new or has changed.
    PriorityClass(Arc<PriorityClass>),
    /// The PriorityClass of this name is gone.
    PriorityClassGone(Arc<str>),
    /// A DeviceClass is new or has changed.
    DeviceClass(Arc<DeviceClass>),
    /// The DeviceClass of this name is gone.
    DeviceClassGone(Arc<str>),
    /// A PodGroup is new or has changed.
    PodGroup(Arc<PodGroup>),
    /// The PodGroup is gone.
    PodGroupGone(ObjectRef),
    /// No PodGroup is to be read, for this reason; or `None`, if they are read.
    PodGroupsHidden(Option<Arc<str>>),
    /// A Workload, which PodGroups name, is new or has changed.
    Workload(Arc<GroupWorkload>),
    /// The Workload is gone.
    WorkloadGone(ObjectRef),
    /// A FluxQueue is new or has changed.
    Queue(Arc<QueueObject>),
    /// The FluxQueue of this name is gone.
    QueueGone(Arc<str>),
    /// A namespace is new or has changed.
    Namespace(Arc<Namespace>),
    /// The namespace of this name is gone.
    NamespaceGone(Arc<str>),
    /// There is news about claims, volumes and related objects.
    Storage(StorageNews),
    /// The API server's clock was compared with the core's: this number of microseconds is to be
    /// added to the core's time. The core's own time grows evenly from the start of the process,
    /// even if clocks are set.
    ClockOffset(i64),
    /// The first list of every kind has been delivered. Before this the core places nothing.
    Synced,
    /// An action has ended. Comes exactly once for each action that has an outcome (see
    /// [`ActionKind`](crate::action::ActionKind)), unless the process dies.
    Done(ActionId, Outcome),
}

/// The outcome of an action.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The outcome of a Bind.
    Bind(BindOutcome),
    /// The outcome of any other write.
    Write(WriteOutcome),
}

/// The outcome of a Binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod is on the node we meant: the answer was 201, or it was 409 and a read showed the pod
    /// there.
    Bound,
    /// A read showed the pod on another node.
    BoundElsewhere(NodeName),
    /// The pod is gone, or its name belongs to another uid.
    Gone,
    /// The pod is being deleted.
    Deleting,
    /// The pod carries scheduling gates.
    Gated,
    /// The server refuses: by permission, quota, policy or admission, or because the request is
    /// invalid. This Binding does not bind the pod. The text is the server's.
    Refused(String),
    /// There was no answer, or one that leaves open whether the pod is bound. The text is for
    /// people.
    Failed(String),
}

/// The outcome of a write other than a Binding.
#[derive(Debug, Clone)]
pub enum WriteOutcome {
    /// The object was written. After the creation of a FluxJob and a write of its status: the
    /// object as stored, if the answer had it.
    Written(Option<Arc<FluxJob>>),
    /// There already is an object of that name (creation only).
    Exists,
    /// The object is not of the version that the write was decided on: nothing was written, and
    /// newer news is on its way.
    Conflict,
    /// The write was never sent: an urgent write of the same object took its place.
    Replaced,
    /// The object is gone, or has another uid.
    Gone,
    /// The server says that the content is invalid: nothing was written, and the same content never
    /// will be.
    Invalid(String),
    /// The server refuses by permission, quota, policy or admission: nothing was written. The text
    /// is the server's.
    Refused(String),
    /// The write failed in another way; it may have taken effect or not.
    Failed(String),
}

impl BindOutcome {
    /// Returns the outcome as a metric's label.
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
    /// Returns the server's text if it refuses to write; nothing was written then.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            WriteOutcome::Invalid(text) | WriteOutcome::Refused(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the outcome as a metric's label.
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
