//! All constraints of a pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::disk::Disk;
use super::terms::{HostPort, NodeSelectorTerm, PodTerm, SpreadConstraint, Toleration};

/// Everything in a pod that restricts or ranks nodes, apart from its requests.
///
/// Two pods with equal constraints may use the same nodes, so the answer per node is computed once
/// for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Constraints {
    /// `spec.nodeSelector`, sorted by key.
    pub node_selector: Vec<(Arc<str>, Arc<str>)>,
    /// `requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`; `None` if absent (an
    /// empty list matches nothing).
    pub required: Option<Vec<NodeSelectorTerm>>,
    /// `preferredDuringSchedulingIgnoredDuringExecution` of node affinity: weight and term.
    pub preferred: Vec<(i32, NodeSelectorTerm)>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// Host ports of all containers, restartable init containers included.
    pub host_ports: Vec<HostPort>,
    /// Disks that the pod names itself, without a claim, and that pods on one node may have to keep
    /// from each other.
    pub disks: Vec<Disk>,
    /// Node features that the pod's spec implies (KEP-5328); the node must declare all of them.
    pub features: Vec<Arc<str>>,
    /// Required affinity to other pods: in the domains of each term there must be a pod that all of
    /// them select.
    pub near: Vec<PodTerm>,
    /// Required anti-affinity to other pods. It keeps the pod away from those that it selects, and
    /// those away from the pod.
    pub repels: Vec<PodTerm>,
    /// Spread constraints that must be kept (`whenUnsatisfiable: DoNotSchedule`).
    pub spreads: Vec<SpreadConstraint>,
    /// Preferred affinity to other pods, and anti-affinity, with weights below 0.
    pub preferred_pods: Vec<(i32, PodTerm)>,
    /// Spread constraints that may be broken (`whenUnsatisfiable: ScheduleAnyway`).
    pub preferred_spreads: Vec<SpreadConstraint>,
}

/// The nodes that required node affinity names (`matchFields` with `metadata.name In [..]`), as
/// kube-scheduler reads it before it considers any node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedNodes<'a> {
    /// The affinity names none, or some term does not.
    Any,
    /// These nodes alone.
    Only(BTreeSet<&'a str>),
    /// The affinity names some in each term, but no node is in all of them.
    None,
}
