//! The nodes that a pod may use, and those that it prefers: the parts of a pod's spec that
//! kube-scheduler's filters read.

mod disk;
mod matching;
mod read;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use disk::Disk;
pub use matching::all_match;
pub(crate) use read::node_terms;
pub use read::{of_spec, selector};

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

/// One term of node affinity: all of its requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelectorTerm {
    /// Requirements on node labels.
    pub labels: Vec<Requirement>,
    /// Requirements on fields; only `metadata.name` is known.
    pub fields: Vec<Requirement>,
}

/// `key operator values`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label key or field.
    pub key: Arc<str>,
    /// The comparison.
    pub operator: Operator,
    /// The values.
    pub values: Vec<Arc<str>>,
}

/// Operators of node selector and label selector requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in Kubernetes")]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    /// An operator that Kubernetes does not have: matches nothing.
    Unknown,
}

/// A toleration, as in the pod's spec.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint's key; "" with Exists tolerates every key.
    pub key: Arc<str>,
    /// True for `Exists`, false for `Equal`.
    pub exists: bool,
    /// The taint's value, for Equal.
    pub value: Arc<str>,
    /// The effect; "" means all.
    pub effect: Arc<str>,
}

/// A port of the host that a container wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// `hostIP`; "0.0.0.0" if absent, which conflicts with every address.
    pub ip: Arc<str>,
    /// TCP, UDP or SCTP.
    pub protocol: Arc<str>,
    /// The port number.
    pub port: u16,
}

/// A term of affinity or anti-affinity to pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The pods that it is about.
    pub pods: PodSelector,
    /// The node label that spans the domain.
    pub topology_key: Arc<str>,
}

impl PodTerm {
    /// True if it may be about pods of other namespaces than this one.
    pub fn reaches_beyond(&self, namespace: &str) -> bool {
        let NamespaceScope { named, selected } = &self.pods.namespaces;
        selected.is_some() || named.iter().any(|name| **name != *namespace)
    }
}

/// Pods by namespace and labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// The namespaces in which pods are selected.
    pub namespaces: NamespaceScope,
    /// Requirements that a pod's labels must meet; `None` (no selector) matches nothing.
    pub labels: Option<Vec<Requirement>>,
}

/// The namespaces that a selector of pods is about: both parts together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NamespaceScope {
    /// Namespaces by name.
    pub named: Vec<Arc<str>>,
    /// Requirements on the labels of further namespaces; without any, these are all namespaces.
    pub selected: Option<Vec<Requirement>>,
}

/// A spread constraint: a bound on the difference between the numbers of pods in any two domains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// The pods that count, `matchLabelKeys` included.
    pub pods: PodSelector,
    /// The node label that spans the domains.
    pub topology_key: Arc<str>,
    /// The most pods by which a domain may exceed the one with the fewest.
    pub max_skew: u32,
    /// The number of domains below which the fewest count as none.
    pub min_domains: usize,
    /// True if only nodes count that the pod's node selector and required node affinity let it use
    /// (`nodeAffinityPolicy`).
    pub honors_affinity: bool,
    /// True if only nodes count that have no taints but tolerated ones (`nodeTaintsPolicy`).
    pub honors_taints: bool,
}
